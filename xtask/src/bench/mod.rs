//! `cargo xtask bench`: times haul against other programs, by the rules that keep one from being fooled.
//!
//! * every copy is compared with its source;
//! * memory is touched right before each timed run, since a virtual machine gives free pages back to its host;
//! * the order of the programs rotates, and each run has a new destination, removed at the end of the place;
//! * durable time is a figure of its own; other load on the machine is counted and marked.

pub mod compare;
mod images;
pub mod machine;
pub mod options;
pub mod peers;
pub mod place;
pub mod report;
mod scale;
mod single_file;
mod slow_disk;
pub mod surroundings;

use crate::shell::Result;

/// Runs the benchmark named by the first argument.
pub fn run(args: &[String]) -> Result {
    match args.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        Some(("single-file", rest)) => single_file::run(rest),
        Some(("peers", rest)) => peers::run(rest),
        Some(("images", rest)) => images::run(rest),
        Some(("scale", rest)) => scale::run(rest),
        Some(("slow-disk", rest)) => slow_disk::run(rest),
        Some((other, _)) => {
            Err(format!("no benchmark {other:?}; there are: single-file, peers, images, scale, slow-disk"))
        }
        None => Err("which benchmark? There are: single-file, peers, images, scale, slow-disk".into()),
    }
}
