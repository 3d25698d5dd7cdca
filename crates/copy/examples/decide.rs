//! Copies a tree over another one and decides for each file that exists: only smaller ones are replaced.
//! `cargo run --example decide -- SOURCE DEST`.
#![forbid(unsafe_code)]

use std::env::args_os;
use std::error::Error;
use std::path::PathBuf;

use haul_copy::events::{Confirm, Question};
use haul_copy::plan::Overwrite;
use haul_copy::{Context, Copy};

/// Files that are larger than this stay.
const LARGE: u64 = 1 << 20;

struct KeepLarge;

impl Confirm for KeepLarge {
    fn overwrite(&self, question: &Question<'_>) -> bool {
        question.inode.size < LARGE
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = args_os().skip(1).map(PathBuf::from);
    let (Some(source), Some(dest)) = (args.next(), args.next()) else { return Err("usage: decide SOURCE DEST".into()) };
    let copy = Copy::new(source, dest).recursive(true).overwrite(Overwrite::Ask).build()?;
    match copy.run(&Context { confirm: &KeepLarge, ..Context::default() }) {
        Ok(summary) => println!("{} files copied", summary.stats.regular),
        // What was declined is no error, but not everything was copied.
        Err(failed) if failed.errors.is_empty() => {
            println!("{} files copied, {} kept", failed.summary.stats.regular, failed.summary.stats.skipped);
        }
        Err(failed) => return Err(failed.into()),
    }
    Ok(())
}
