//! The command `smartcp`, for installations by `cargo install`, which makes no links: what `haul` is by that name.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use haul_sys::memory::Allocator;

/// As in `haul`.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    haul::app::main()
}
