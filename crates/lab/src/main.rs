//! The command `haul-lab`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul_lab::app::main()
}
