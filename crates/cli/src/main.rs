//! The commands `haul` and, by that name, `cp`.
#![forbid(unsafe_code)]

fn main() {}
