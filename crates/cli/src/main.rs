//! The commands `haul` and, by that name, `cp`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul::app::main()
}
