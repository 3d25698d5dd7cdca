//! What a copy has promised, after the power was cut.
//!
//! `HAUL_CUTS` is the number of cuts for each promise and filesystem, `HAUL_CUTS_SEED` chooses their moments.
#![forbid(unsafe_code)]

#[path = "../crash/mod.rs"]
mod crash;
mod place;
mod shutdown;
mod soon;
mod tally;
mod ways;
mod write_log;
