//! The commands `haul` and, by those names, `cp` and `smartcp`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul::app::main()
}
