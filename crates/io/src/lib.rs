//! Moves bytes between two open files.
//!
//! * **Knows** engines, extents and holes, the choice among engines, workers, read-ahead, the page cache, limits, and
//!   how to read a copy again.
//! * **Must not know** paths, names, attributes or whole trees. What fails is said without a path: the caller knows
//!   which files it has opened.
//!
//! Everything goes through descriptors that the caller has opened, and through a [`Kernel`](haul_sys::kernel::Kernel),
//! which tests script.
#![forbid(unsafe_code)]

pub mod engine;
pub mod moved;
pub mod pace;
pub mod ranges;
pub mod tuner;
