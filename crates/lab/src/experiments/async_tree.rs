//! `haul-lab async-tree`: does asynchronous I/O beat `cp -r`?
//!
//! Published in 2019: cp against a copier on POSIX AIO and one on Linux AIO with O_DIRECT; trees of 100 to 2000 MB in 32 to 256 files,
//! caches dropped; then each with readahead of the source, with allocation of the destination, and with raised priority.

use std::path::Path;
use std::process::{Command, Stdio};

use haul_measure::cache::Temperature;
use haul_measure::stop::Stop;

use super::{AUTO, MIB, cp, mib};
use crate::measure::controlled::{By, Method};
use crate::measure::{one_copy, sources};
use crate::session::{Competitor, Group, Halt, How, Session, compete_all};

pub const NAME: &str = "async-tree";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Bytes of all files together.
    pub totals: Vec<u64>,
    pub files: Vec<u64>,
    /// Of [`VARIANTS`].
    pub variants: Vec<String>,
    /// Numbers of files of which additions are measured, too, and of the others only the plain copiers; of all if it is empty.
    pub with_additions: Vec<u64>,
}

/// What helps, or not.
pub const VARIANTS: [&str; 4] = ["plain", "readahead", "preallocate", "priority"];

/// As the two programs of 2019 did, and the interface that came after them.
const INTERFACES: [(By, &str); 3] =
    [(By::PosixAio, "posix-aio"), (By::LinuxAio, "linux-aio"), (By::IoUring, "io-uring")];

/// Those that the claims are about.
const PUBLISHED: [&str; 2] = ["posix-aio", "linux-aio"];

/// Bytes of a request; up to 32 are in flight.
const REQUEST: u64 = MIB;

/// Files of a tree in one directory.
const TOGETHER: u64 = 32;

/// As published.
const NICE: i8 = -15;

/// Bytes of a file that haul asks for ahead, where it chooses the rest.
const AHEAD: u64 = 8 * MIB;

impl Default for Request {
    fn default() -> Request {
        Request {
            totals: [100, 500, 1000, 2000].map(|size| size * MIB).to_vec(),
            files: vec![32, 64, 128, 256],
            with_additions: Vec::new(),
            variants: VARIANTS.map(str::to_owned).to_vec(),
        }
    }
}

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session.in_each_place(|session| run_here(session, request))
}

fn run_here(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session.section(NAME, &[("variants", request.variants.join(","))])?;
    let mut request = request.clone();
    if request.variants.iter().any(|variant| variant == "priority") && !may_be_urgent() {
        request.variants.retain(|variant| variant != "priority");
        session.skip(NAME, format!("raised priority: nice {NICE} needs privileges"))?;
    }
    let groups = groups(&request, &session.folder().join("async-tree-source"));
    compete_all(session, NAME, &groups)
}

/// What is run, with this name for its source.
pub(crate) fn groups(request: &Request, source: &Path) -> Vec<Group<'static>> {
    let group = |(total, files): (u64, u64)| {
        let name = format!("{} in {files} files", mib(total));
        let sizes = move || (0..files).map(move |number| total / files + u64::from(number < total % files));
        let make = move |path: &Path, stop: &Stop| sources::tree(path, sizes(), (TOGETHER, true), total ^ files, stop);
        Group::made(name, source, make, total, competitors(request, total, files))
    };
    let trees = request.totals.iter().flat_map(|total| request.files.iter().map(|files| (*total, *files)));
    trees.map(group).collect()
}

/// Whether a process may have the raised priority. nice only complains if not, and runs the command all the same.
fn may_be_urgent() -> bool {
    let output = Command::new("nice").args(["-n", &NICE.to_string(), "true"]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
}

fn competitors(request: &Request, total: u64, files: u64) -> Vec<Competitor> {
    let new = |name: String, engine: &str, how| Competitor::new(name, Temperature::Cold, how).with("engine", engine);
    let mut all = vec![new("cp".to_owned(), "cp", cp(&["-r"])).into_base().into_asked().with("variant", "plain")];
    let additions = request.with_additions.is_empty() || request.with_additions.contains(&files);
    for variant in request.variants.iter().filter(|variant| additions || *variant == "plain") {
        let (readahead, preallocate) = (variant == "readahead", variant == "preallocate");
        let priority = (variant == "priority").then_some(NICE);
        let named = |name: &str| if variant == "plain" { name.to_owned() } else { format!("{name}, {variant}") };
        let mut add = |name: &str, engine: &str, settings: one_copy::Settings| {
            let settings = one_copy::Settings { priority, ..settings };
            let one = new(named(name), engine, How::Own(settings)).with("variant", variant);
            all.push(if PUBLISHED.contains(&engine) { one.into_asked() } else { one });
        };
        for (by, engine) in INTERFACES {
            // Linux AIO is asynchronous with O_DIRECT only; POSIX AIO was used through the page cache.
            let direct = by != By::PosixAio;
            let plain = Method::new(by, REQUEST);
            let method = Method { direct_source: direct, direct_dest: direct, preallocate, readahead, ..plain };
            add(engine, engine, one_copy::Settings { method: Some(method), ..one_copy::Settings::default() });
        }
        let auto =
            one_copy::Settings { readahead: readahead.then_some(AHEAD), preallocate, ..one_copy::Settings::default() };
        add(AUTO, "auto", auto);
        if priority.is_some() {
            let nice = ["nice", "-n", &NICE.to_string()].map(str::to_owned);
            let How::Words(words) = cp(&["-r"]) else { continue };
            let words = nice.into_iter().chain(words).collect();
            all.push(new(named("cp"), "cp", How::Words(words)).with("variant", variant));
        }
    }
    all.into_iter().map(|one| one.with("size", total).with("files", files)).collect()
}
