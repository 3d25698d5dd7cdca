//! A filesystem that misbehaves: errors at one byte, short counts, wrong holes, copies of nothing, attributes refused, errors
//! only at the close, sources that change, sizes that are not true, listings that are wrong, and requests that hang.
//!
//! It is [`haul_testbed::misbehaving`], once as the source, once as the destination and once as both. Whatever it does, exit
//! status 0 means that what it has at the destination, in memory and as it is read, is what the source truly holds. Otherwise
//! each wrong file is absent, or the old one with the options that promise that, or named on standard error. The other files
//! are copied, nothing temporary is left, and nothing is ever changed in the source.
#![forbid(unsafe_code)]

mod attributes;
mod changing;
mod closing;
mod copying;
mod hanging;
mod judge;
mod large;
mod listing;
mod looking;
mod reading;
mod scene;
mod seeking;
mod trial;
mod writing;

use std::process::ExitStatus;
use std::sync::LazyLock;

use haul_io::engine::{Caps, EngineName, Role, Shares};

/// A run of haul that takes longer than this, in seconds, is stuck.
const STUCK: u64 = 300;

/// What a run of haul said, and how it ended.
struct Ran {
    status: ExitStatus,
    said: String,
}

/// Engines that move bytes, as the command line names them. What shares extents is tested on filesystems that can.
static ENGINES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let moves = |caps: &Caps| caps.role != Role::Dummy && caps.shares != Shares::Always;
    let engines = EngineName::ALL.into_iter().filter(|engine| moves(engine.caps()));
    std::iter::once("auto").chain(engines.map(EngineName::as_str)).collect()
});

/// Ways to be more or less certain of a copy.
const SETS: [&str; 4] = ["-r", "-r --atomic", "-r --durable=file", "-r --verify=read"];

/// Each engine with each set of options.
fn all_ways() -> Vec<String> {
    SETS.iter().flat_map(|set| ENGINES.iter().map(move |engine| format!("{set} --engine={engine}"))).collect()
}

/// A number that differs between the sets of options of one engine, and between the engines of one set.
fn mixed(number: usize) -> usize {
    number + number / ENGINES.len()
}

/// Each engine once, and each set of options a few times.
fn some_ways() -> Vec<String> {
    ENGINES.iter().zip(SETS.iter().cycle()).map(|(engine, set)| format!("{set} --engine={engine}")).collect()
}
