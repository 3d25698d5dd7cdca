//! The libFuzzer targets of haul: one program in `fuzz_targets/` for each parser of untrusted bytes.
//!
//! It **knows** how libFuzzer calls a target and where seeds are. It **must not know** formats: what is done with a
//! disk image, and what must hold then, is in haul-forge; the targets `journal` and `manifest` ask haul-copy. It is a
//! workspace of its own, since it needs a nightly toolchain: `cargo xtask fuzz` builds and runs it.
#![forbid(unsafe_code)]

pub use haul_forge::Target;
pub use haul_forge::fuzz::Ended;
pub use libfuzzer_sys;

use std::path::PathBuf;

use haul_forge::{Seed, fuzz};

/// The seeds of a target, from where `cargo xtask fuzz` has put them.
pub fn seeds(target: Target) -> Vec<Seed> {
    let dir = std::env::var_os(fuzz::SEEDS).map_or_else(|| PathBuf::from("seeds"), PathBuf::from);
    fuzz::load(&dir, target).unwrap_or_else(|error| {
        eprintln!("no seeds of {} in {} ({}): {error}", target.name(), dir.display(), fuzz::SEEDS);
        std::process::exit(2);
    })
}

/// Runs one input.
pub fn run(target: Target, seeds: &[Seed], input: &[u8]) {
    fuzz::run(target, seeds, input);
}

/// The program of one target.
#[macro_export]
macro_rules! target {
    ($target:ident) => {
        static SEEDS: std::sync::LazyLock<Vec<haul_forge::Seed>> =
            std::sync::LazyLock::new(|| $crate::seeds($crate::Target::$target));

        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::run($crate::Target::$target, &SEEDS, input));
    };
}
