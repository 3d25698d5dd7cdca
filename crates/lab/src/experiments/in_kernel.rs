//! `haul-lab in-kernel`: what does copy_file_range save?
//!
//! Published with the patches for Linux in 2015: cp against the system call, whose fallback was splice, for files of 512 to 2048 MB
//! of random data; CPU time of the kernel, its share of the time, and the time.

use std::path::Path;

use haul_measure::cache::Wanted;
use haul_measure::stop::Stop;

use super::{MIB, cp, mib};
use crate::measure::{one_copy, sources};
use crate::session::{Competitor, Group, Halt, How, Making, Session, compete_all};

/// The section's name.
pub const NAME: &str = "in-kernel";

/// What is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the files.
    pub sizes: Vec<u64>,
    /// Of the source.
    pub state: Wanted,
}

impl Default for Request {
    fn default() -> Request {
        Request { sizes: [512, 1024, 1536, 2048].map(|size| size * MIB).to_vec(), state: Wanted::Warm }
    }
}

/// Engines beside cp: the loop that everybody writes, the system call, what it fell back to, and shared extents.
const ENGINES: [&str; 4] = ["read-write", "copy-range", "splice", "clone"];

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session.section(NAME, &[("state", request.state.as_str().to_owned())])?;
    let largest = request.sizes.iter().copied().max().unwrap_or(0);
    session.needs_room(largest.saturating_mul(3), NAME)?;
    let source = session.folder().join("in-kernel-source");
    let makers: Vec<Box<Making<'_>>> = request.sizes.iter().map(|size| making(*size)).collect();
    let groups = request.sizes.iter().zip(&makers).map(|(size, make)| Group {
        name: mib(*size),
        source: source.clone(),
        make: Some(&**make),
        bytes: *size,
        entries: None,
        judge: None,
        metadata: false,
        competitors: competitors(*size, request.state),
    });
    compete_all(session, NAME, &groups.collect::<Vec<_>>())
}

fn making(size: u64) -> Box<Making<'static>> {
    Box::new(move |path: &Path, stop: &Stop| sources::file(path, size, size, stop))
}

fn competitors(size: u64, state: Wanted) -> Vec<Competitor> {
    // What is asked is what moving bytes costs, so cp is not to share extents on its own.
    let plain = Competitor::new("cp", state, cp(&["--reflink=never"])).into_base();
    let own = |engine: &str| {
        let settings = one_copy::Settings {
            engine: Some(engine.to_owned()),
            // The system call itself shares extents where it can; forbidding that would forbid the call.
            reflink: matches!(engine, "clone" | "copy-range"),
            ..one_copy::Settings::default()
        };
        Competitor::new(engine, state, How::Own(settings)).with("engine", engine)
    };
    let all = std::iter::once(plain.with("engine", "cp")).chain(ENGINES.map(own));
    all.map(|competitor| competitor.with("size", size)).collect()
}
