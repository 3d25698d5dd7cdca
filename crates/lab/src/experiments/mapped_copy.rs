//! `haul-lab mapped-copy`: does a copy by mmap lose to one with big buffers?
//!
//! Published for Solaris in 2007: the stock cp, which maps the source in segments of 8 MiB and writes from the mapping, against GNU
//! cp with buffers of 8 MiB; one file of 1000 MB, cold, through the page cache and with direct I/O.

use std::path::Path;

use haul_measure::cache::Temperature;
use haul_measure::stop::Stop;

use super::{AUTO, MIB, cp, mib};
use crate::measure::controlled::{By, Method};
use crate::measure::{one_copy, sources};
use crate::session::{Competitor, DIRECTORY, Group, Halt, How, SECOND, Session, compete_all};

pub const NAME: &str = "mapped-copy";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub size: u64,
    /// Bytes of buffers and segments beside the 8 MiB.
    pub buffers: Vec<u64>,
    pub states: Vec<Temperature>,
}

impl Default for Request {
    fn default() -> Request {
        Request { size: 1000 * MIB, buffers: vec![128 << 10, MIB], states: vec![Temperature::Cold, Temperature::Warm] }
    }
}

/// The size of the published experiment's buffers and segments.
const BIG: u64 = 8 * MIB;

/// With MAP_PRIVATE, where the published copy has MAP_SHARED.
const PRIVATE: &str = "private mapping";

/// Another process reads the source through mappings of the same size meanwhile: a shared mapping was thought to be there
/// for such readers.
const BESIDE: &str = "beside a reader";

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let directory = session.results.environment.places.get(DIRECTORY).map(|place| place.directory.clone());
    let directory = directory.unwrap_or_default();
    let groups = groups(request, &session.folder().join("mapped-copy-source"));
    // The source is in the first place in any case.
    session.in_each_place(|session| {
        let mut settings = vec![("size", request.size.to_string())];
        settings.extend((session.at == SECOND).then(|| ("source", directory.clone())));
        session.section(NAME, &settings)?;
        compete_all(session, NAME, &groups)
    })
}

/// What is run, with this name for its source.
pub(crate) fn groups(request: &Request, source: &Path) -> Vec<Group<'static>> {
    let size = request.size;
    let group = |state: &Temperature| {
        let name = format!("{}, {}", mib(size), state.as_str());
        let make = move |path: &Path, stop: &Stop| sources::file(path, size, 1, stop);
        Group::made(name, source, make, size, competitors(request, *state))
    };
    request.states.iter().map(group).collect()
}

fn competitors(request: &Request, state: Temperature) -> Vec<Competitor> {
    let of = |by: By, buffer: u64, io: &str| {
        let direct_source = io == "direct";
        // What is mapped is in the page cache, so only its output can go past it.
        let direct_dest = direct_source || io == "direct output";
        let method = Method {
            direct_source,
            direct_dest,
            private: io == PRIVATE,
            readers: u64::from(io == BESIDE),
            ..Method::new(by, buffer)
        };
        let settings = one_copy::Settings { method: Some(method), ..one_copy::Settings::default() };
        let engine = if by == By::Mapped { "mapped" } else { "read-write" };
        let size = haul_measure::words::exactly(buffer);
        let name = if io == "buffered" { format!("{engine} {size}") } else { format!("{engine} {size}, {io}") };
        Competitor::new(name, state, How::Own(settings)).with("engine", engine).with("buffer", buffer).with("io", io)
    };
    let cached = "buffered";
    let other = |name: &str, engine: &str, how: How| {
        Competitor::new(name, state, how).with("engine", engine).with("io", "buffered")
    };
    // What was published was cold.
    let asked = |one: Competitor| if state == Temperature::Cold { one.into_asked() } else { one };
    let mut all = vec![asked(of(By::Mapped, BIG, cached).into_base()), asked(of(By::ReadWrite, BIG, cached))];
    for buffer in request.buffers.iter().filter(|buffer| **buffer != BIG) {
        all.push(of(By::Mapped, *buffer, cached));
        all.push(of(By::ReadWrite, *buffer, cached));
    }
    all.push(of(By::Mapped, BIG, PRIVATE));
    all.push(of(By::Mapped, BIG, BESIDE));
    all.push(of(By::ReadWrite, BIG, BESIDE));
    all.push(asked(of(By::Mapped, BIG, "direct output")));
    all.push(of(By::ReadWrite, BIG, "direct output"));
    all.push(of(By::ReadWrite, BIG, "direct"));
    all.push(other("cp", "cp", cp(&[])));
    all.push(other(AUTO, "auto", How::Own(one_copy::Settings::default())));
    all.into_iter().map(|one| one.with("state", state.as_str()).with("size", request.size)).collect()
}
