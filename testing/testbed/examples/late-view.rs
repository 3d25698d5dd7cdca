//! Mounts a late view of a directory (see `haul_testbed::late`) until standard input ends.
//!
//! `late-view BACKING MOUNTPOINT BELIEVED_MICROSECONDS DELAY_MICROSECONDS`
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use haul_testbed::late::{self, Lateness};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let [_, backing, at, believed, delay] = args.as_slice() else {
        eprintln!("late-view: usage: late-view BACKING MOUNTPOINT BELIEVED_MICROSECONDS DELAY_MICROSECONDS");
        return ExitCode::from(2);
    };
    let Some(lateness) = Lateness::parse(believed, delay) else {
        eprintln!("late-view: {believed} and {delay} must be numbers of microseconds");
        return ExitCode::from(2);
    };
    match late::serve(Path::new(backing), Path::new(at), lateness) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("late-view: {backing} on {at}: {error}");
            ExitCode::FAILURE
        }
    }
}
