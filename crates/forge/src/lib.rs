//! Damaged and forged disk images, for the tests of haul-guest and for fuzzing.
//!
//! [`Pages`] keeps of a large image what a parser reads. [`Fix`] mends checksums, so that damage gets behind them.
//! [`Seed`] is an image with what is known of it, made from a real one by [`make`]; [`fuzz`] changes it as an input says
//! and asserts what must hold then.
#![forbid(unsafe_code)]

mod edits;
mod fix;
pub mod fuzz;
pub mod lvm;
pub mod make;
pub mod ntfs;
mod pages;
mod seed;

pub use fix::Fix;
pub use pages::{Pages, open};
pub use seed::{Seed, Target};
