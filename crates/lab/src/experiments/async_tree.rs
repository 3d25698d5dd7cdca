//! `haul-lab async-tree`: does asynchronous I/O beat `cp -r`?
//!
//! Published in 2019: cp against a copier on POSIX AIO and one on Linux AIO with O_DIRECT; trees of 100 to 2000 MB in 32 to 256 files,
//! caches dropped; then each with readahead of the source, with allocation of the destination, and with raised priority.

use std::path::Path;
use std::process::{Command, Stdio};

use haul_measure::cache::Temperature;
use haul_measure::stop::Stop;

use super::{MIB, cp, mib};
use crate::measure::{one_copy, sources};
use crate::session::{Competitor, Group, Halt, How, PLACE_OF_DEST, PLACE_OF_SOURCE, Session, compete_all};

pub const NAME: &str = "async-tree";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Bytes of all files together.
    pub totals: Vec<u64>,
    pub files: Vec<u64>,
    /// Of [`VARIANTS`].
    pub variants: Vec<String>,
}

/// What helps, or not.
pub const VARIANTS: [&str; 4] = ["plain", "readahead", "preallocate", "priority"];

const ENGINES: [&str; 4] = ["posix-aio", "linux-aio", "io-uring", "auto"];

/// As published.
const NICE: i8 = -15;

/// Bytes of a file that are asked for ahead.
const AHEAD: u64 = 8 * MIB;

impl Default for Request {
    fn default() -> Request {
        Request {
            totals: [100, 500, 1000, 2000].map(|size| size * MIB).to_vec(),
            files: vec![32, 64, 128, 256],
            variants: VARIANTS.map(str::to_owned).to_vec(),
        }
    }
}

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session.section(NAME, &[("variants", request.variants.join(","))])?;
    let mut request = request.clone();
    if request.variants.iter().any(|variant| variant == "priority") && !may_be_urgent() {
        request.variants.retain(|variant| variant != "priority");
        session.skip(NAME, format!("raised priority: nice {NICE} needs privileges"))?;
    }
    let request = &request;
    let largest = request.totals.iter().copied().max().unwrap_or(0);
    session.needs_room(largest.saturating_mul(3), NAME)?;
    let source = session.folder().join("async-tree-source");
    let group = |total: &u64, files: &u64| {
        let (total, files) = (*total, *files);
        let name = format!("{} in {files} files", mib(total));
        let make = move |path: &Path, stop: &Stop| sources::tree(path, total, files, total ^ files, stop);
        Group::made(name, &source, make, total, competitors(request, total, files))
    };
    let groups = request.totals.iter().flat_map(|total| request.files.iter().map(|files| group(total, files)));
    compete_all(session, NAME, &groups.collect::<Vec<_>>())
}

/// Whether a process may have the raised priority. nice only complains if not, and runs the command all the same.
fn may_be_urgent() -> bool {
    let output = Command::new("nice").args(["-n", &NICE.to_string(), "true"]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
}

fn competitors(request: &Request, total: u64, files: u64) -> Vec<Competitor> {
    let plain = Competitor::new("cp", Temperature::Cold, cp(&["-r"])).into_base();
    let mut all = vec![plain.with("engine", "cp").with("variant", "plain")];
    for variant in &request.variants {
        if variant == "priority" {
            let words =
                ["nice", "-n", &NICE.to_string(), "cp", "-r", PLACE_OF_SOURCE, PLACE_OF_DEST].map(str::to_owned);
            let nice = Competitor::new("cp, priority", Temperature::Cold, How::Words(words.to_vec()));
            all.push(nice.with("engine", "cp").with("variant", variant));
        }
        for engine in ENGINES {
            let settings = one_copy::Settings {
                engine: (engine != "auto").then(|| engine.to_owned()),
                readahead: (variant == "readahead").then_some(AHEAD),
                preallocate: variant == "preallocate",
                priority: (variant == "priority").then_some(NICE),
                ..one_copy::Settings::default()
            };
            let name = if variant == "plain" { engine.to_owned() } else { format!("{engine}, {variant}") };
            let own = Competitor::new(name, Temperature::Cold, How::Own(settings));
            all.push(own.with("engine", engine).with("variant", variant));
        }
    }
    all.into_iter().map(|one| one.with("size", total).with("files", files)).collect()
}
