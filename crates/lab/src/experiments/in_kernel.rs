//! `haul-lab in-kernel`: what does copy_file_range save?
//!
//! Published with the patches for Linux in 2015: cp against the system call, whose fallback was splice, for files of 512 to 2048 MB
//! of random data; CPU time of the kernel, its share of the time, and the time.

use std::path::Path;
use std::time::{Duration, Instant};

use haul_measure::cache::Temperature;
use haul_measure::{space, words, workspace};

use super::{AUTO, MIB, cp, mib};
use crate::measure::controlled::{By, Method};
use crate::measure::{one_copy, sources};
use crate::results::{Body, Detail, Grid};
use crate::session::{Competitor, Group, Halt, How, Session, compete_all, sampled};

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
    let source = session.folder().join("in-kernel-source");
    sample(session, request, &source)?;
    compete_all(session, NAME, &groups(request, &source))
}

/// What is run, with this name for its source.
pub(crate) fn groups(request: &Request, source: &Path) -> Vec<Group<'static>> {
    let group = |size: &u64| {
        let (size, competitors) = (*size, competitors(*size, request.state));
        Group::made(mib(size), source, move |path, stop| sources::file(path, size, size, stop), size, competitors)
    };
    request.sizes.iter().map(group).collect()
}

/// One more copy of the smallest file by each, before those that are timed, if there is time: what the kernel does meanwhile.
fn sample(session: &mut Session, request: &Request, source: &Path) -> Result<(), Halt> {
    let section = session.section(NAME, &[])?;
    let wanted = !section.complete && section.detail("samples").is_none();
    let Some(size) = request.sizes.iter().copied().min().filter(|_| wanted) else { return Ok(()) };
    space::check(session.folder(), size, "a source")?;
    sources::file(source, size, size, &session.stop)?;
    let until = session.time_left().map(|left| Instant::now() + left.saturating_sub(Duration::from_secs(30)) / 4);
    let in_time = |_: &Competitor| until.is_none_or(|until| Instant::now() < until);
    let (mut tools, mut values, mut why) = (Vec::new(), Vec::new(), "the time is too short".to_owned());
    for competitor in competitors(size, request.state).into_iter().take_while(in_time) {
        session.progress.say(NAME, &format!("{} below perf", competitor.name));
        match sampled::sample(session, &competitor, (source, size))? {
            Ok(seconds) => {
                tools.push(competitor.name);
                values.push(seconds.into_iter().map(Some).collect());
            }
            // What refuses is not perf.
            Err(_) if !tools.is_empty() => {}
            Err(error) => {
                why = error;
                break;
            }
        }
    }
    workspace::remove(source).map_err(words::cannot("remove", source))?;
    if tools.is_empty() {
        let needs = "perf must be there, and run as root or with kernel.perf_event_paranoid at 1 or below";
        return Ok(session.skip(NAME, format!("where the kernel spends the time: {why} ({needs})"))?);
    }
    let columns = ("part".to_owned(), sampled::PARTS.map(str::to_owned).to_vec());
    let grid = Grid { unit: "s".to_owned(), rows: ("tool".to_owned(), tools), columns, values };
    Ok(session.add_details(NAME, vec![Detail::new("samples", Body::Grid(grid))])?)
}

fn competitors(size: u64, state: Temperature) -> Vec<Competitor> {
    let new = |name: &str, engine: &str, how| Competitor::new(name, state, how).with("engine", engine);
    let of = |(by, engine): (By, &str)| {
        let method = Some(Method::new(by, REQUEST));
        new(engine, engine, How::Own(one_copy::Settings { method, ..one_copy::Settings::default() }))
    };
    let plain = new("cp", "cp", cp(&[]));
    let clone = one_copy::Settings { engine: Some("clone".into()), reflink: true, ..one_copy::Settings::default() };
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
