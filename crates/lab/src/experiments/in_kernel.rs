//! `haul-lab in-kernel`: what does copy_file_range save?
//!
//! Published with the patches for Linux in 2015: cp against the system call, whose fallback was splice, for files of 512 to 2048 MB
//! of random data; CPU time of the kernel, its share of the time, and the time.

use haul_measure::cache::Temperature;

use super::{AUTO, MIB, cp, mib};
use crate::measure::controlled::{By, Method};
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

/// The loop that everybody wrote, cp of 2015 among them, the system call, and what it fell back to.
const CALLS: [(By, &str); 3] = [(By::ReadWrite, "read-write"), (By::CopyRange, "copy-range"), (By::Splice, "splice")];

/// Bytes of each call: the buffer of cp then.
const REQUEST: u64 = 128 << 10;

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
    let new = |name: &str, engine: &str, how| Competitor::new(name, state, how).with("engine", engine);
    let of = |(by, engine): (By, &str)| {
        let method = Some(Method::new(by, REQUEST));
        new(engine, engine, How::Own(one_copy::Settings { method, ..one_copy::Settings::default() }))
    };
    // What is asked is what moving bytes costs, so cp is not to share extents on its own.
    let plain = new("cp", "cp", cp(&["--reflink=never"]));
    let engine = Some("clone".to_owned());
    let clone = one_copy::Settings { engine, reflink: true, ..one_copy::Settings::default() };
    let mut all: Vec<Competitor> = CALLS.map(of).into();
    all[0].base = true;
    for call in &mut all[..2] {
        call.asked = true;
    }
    all.extend([
        plain,
        new("clone", "clone", How::Own(clone)),
        new(AUTO, "auto", How::Own(one_copy::Settings::default())),
    ]);
    all.into_iter().map(|competitor| competitor.with("size", size)).collect()
}
