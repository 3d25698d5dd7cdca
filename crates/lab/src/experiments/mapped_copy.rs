//! `haul-lab mapped-copy`: does a copy by mmap lose to one with big buffers?
//!
//! Published for Solaris in 2007: the stock cp, which maps the source in segments of 8 MiB and writes from the mapping, against GNU
//! cp with buffers of 8 MiB; one file of 1000 MB, cold, through the page cache and with direct I/O.

use std::path::Path;

use haul_measure::cache::Temperature;
use haul_measure::stop::Stop;

use super::{MIB, cp, mib};
use crate::measure::{one_copy, sources};
use crate::session::{Competitor, Group, Halt, How, Session, compete_all};

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

/// Runs what of it was not run yet.
pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session.section(NAME, &[("size", request.size.to_string())])?;
    session.needs_room(request.size.saturating_mul(3), NAME)?;
    let source = session.folder().join("mapped-copy-source");
    let size = request.size;
    let group = |state: &Temperature| {
        let name = format!("{}, {}", mib(size), state.as_str());
        let make = move |path: &Path, stop: &Stop| sources::file(path, size, 1, stop);
        Group::made(name, &source, make, size, competitors(request, *state))
    };
    compete_all(session, NAME, &request.states.iter().map(group).collect::<Vec<_>>())
}

fn competitors(request: &Request, state: Temperature) -> Vec<Competitor> {
    let own = |engine: &str, name: String, buffer: u64, io: &str| {
        let settings = one_copy::Settings {
            engine: Some(engine.to_owned()),
            buffer_size: Some(buffer),
            ..one_copy::Settings::default()
        };
        let named = if engine.starts_with("mapped") { "mapped" } else { "read-write" };
        Competitor::new(name, state, How::Own(settings))
            .with("engine", named)
            .with("buffer", buffer)
            .with("io", io)
            .with("state", state.as_str())
            .with("size", request.size)
    };
    let buffered = |engine: &str, buffer: u64| {
        own(engine, format!("{engine} {}", haul_measure::words::exactly(buffer)), buffer, "buffered")
    };
    let direct = |engine: &str, words: &str| {
        own(engine, format!("{words} {}, direct", haul_measure::words::exactly(BIG)), BIG, "direct")
    };
    let plain = Competitor::new("cp", state, cp(&[]))
        .with("engine", "cp")
        .with("io", "buffered")
        .with("state", state.as_str())
        .with("size", request.size);
    let mut all = vec![buffered("mapped", BIG).into_base(), buffered("read-write", BIG), plain];
    for buffer in request.buffers.iter().filter(|buffer| **buffer != BIG) {
        all.push(buffered("mapped", *buffer));
        all.push(buffered("read-write", *buffer));
    }
    all.push(direct("mapped-direct", "mapped"));
    all.push(direct("direct", "read-write"));
    all
}
