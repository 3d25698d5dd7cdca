//! `haul-lab in-kernel`: what does copy_file_range save?
//!
//! Published with the patches for Linux in 2015: cp against the system call, whose fallback was splice, for files of 512 to 2048 MB
//! of random data; CPU time of the kernel, its share of the time, and the time.

use haul_measure::cache::Temperature;

use super::{MIB, cp, mib};
use crate::measure::{one_copy, sources};
use crate::session::{Competitor, Group, Halt, How, Session, compete_all};

pub const NAME: &str = "in-kernel";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub sizes: Vec<u64>,
    pub state: Temperature,
}

impl Default for Request {
    fn default() -> Request {
        Request { sizes: [512, 1024, 1536, 2048].map(|size| size * MIB).to_vec(), state: Temperature::Warm }
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
    let group = |size: &u64| {
        let (size, competitors) = (*size, competitors(*size, request.state));
        Group::made(mib(size), &source, move |path, stop| sources::file(path, size, size, stop), size, competitors)
    };
    compete_all(session, NAME, &request.sizes.iter().map(group).collect::<Vec<_>>())
}

fn competitors(size: u64, state: Temperature) -> Vec<Competitor> {
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
