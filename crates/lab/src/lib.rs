//! The laboratory: looks at what haul would do and explains it, without copying anything.
#![forbid(unsafe_code)]

pub mod app;
pub mod map;
