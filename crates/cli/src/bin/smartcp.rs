//! The command `smartcp`, for installations by `cargo install`, which makes no links: what `haul` is by that name.
#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]
#![forbid(unsafe_code)]

use haul_sys::memory::Allocator;

/// As in `haul`.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[cfg(all(target_env = "gnu", not(test)))]
haul_sys::main!(haul::app::main);

#[cfg(not(all(target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    haul::app::main().into()
}
