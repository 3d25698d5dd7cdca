//! The command `haul-lab`: calls [`haul_lab::app`], and has nothing else in it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    haul_lab::app::main()
}
