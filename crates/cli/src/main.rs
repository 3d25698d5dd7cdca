//! The commands `haul` and, by those names, `cp` and `smartcp`.
#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]
#![forbid(unsafe_code)]

use haul_sys::memory::Allocator;

/// Where there is no memory the command says so and ends with its own status.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[cfg(all(target_env = "gnu", not(test)))]
haul_sys::main!(haul::app::main);

#[cfg(not(all(target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    haul::app::main().into()
}
