//! The commands `haul` and, by those names, `cp` and `smartcp`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use haul_sys::memory::Allocator;

/// Where there is no memory the command says so and ends with its own status.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    haul::app::main()
}
