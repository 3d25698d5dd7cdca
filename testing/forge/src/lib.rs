//! Damaged and forged disk images, for the tests of haul-guest and for fuzzing.
//!
//! * [`Pages`] keeps what a parser reads of a large image. [`Fix`] corrects checksums, so that damage gets past them.
//! * [`Seed`] is an image and what is known of it, made from a real one by [`make`]. [`fuzz`] changes it as an input
//!   says, and asserts what must hold then.
//! * [`whole`] is a disk as an installer leaves it.
//!
//! It **knows** the formats that haul-guest parses, and **must not know** copying. For tests only; never part of the
//! product.
#![forbid(unsafe_code)]

mod edits;
mod fix;
pub mod fuzz;
pub mod lvm;
pub mod make;
pub mod ntfs;
mod pages;
mod seed;
pub mod whole;

pub use fix::Fix;
pub use pages::{Pages, open};
pub use seed::{Seed, Target};
