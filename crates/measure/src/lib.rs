//! The measuring kit of haul-lab and the benchmarks: what it takes to time programs and not be fooled.
//!
//! The front ends say what is measured, and how it is saved and shown. Nothing here has words of tables or a format of files.
#![forbid(unsafe_code)]

pub mod stats;
pub mod words;
