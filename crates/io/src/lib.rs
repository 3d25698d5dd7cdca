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
#![warn(clippy::missing_errors_doc)]

pub mod control;
pub mod engine;
pub mod facts;
pub mod moved;
pub mod options;
pub mod pace;
pub mod probe;
pub mod profile;
pub mod ranges;
pub mod strategy;
pub mod transfer;
pub mod tuner;
pub mod verify;
