//! Random trees copied by several threads, against the system's cp; and what threads must not change: the order of
//! messages, memory, descriptors, how a run ends.
//!
//! `HAUL_STRESS_CASES` and `HAUL_STRESS_SEED` play more random trees or repeat one; `HAUL_STRESS_ENTRIES` sets the size of
//! the tree whose copy must not take more memory than a small one, `HAUL_STRESS_LEVELS` the depth of one.
#![forbid(unsafe_code)]

mod limits;
mod messages;
mod trees;
