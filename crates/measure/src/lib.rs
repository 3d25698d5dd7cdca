//! The measuring kit of haul-lab and the benchmarks: what it takes to time programs and not be fooled.
//!
//! * A run is a process of its own; what it used is what the kernel counted for it and its children.
//! * Competitors take turns, in an order that rotates with each round.
//! * Memory is touched right before each run: a virtual machine gives free pages back to its host, and touching them
//!   again costs seconds.
//! * Warm and cold are states that are made and then looked at.
//! * The time to return and the time until the copy is on its device are two figures.
//! * Every copy is compared with its source.
//! * Everything is made below one folder ([`workspace`]), which goes when the measuring ends, however it ends.
//!
//! It **knows** programs, storage and statistics. It **must not know** copying, words of tables or formats of files:
//! the front ends say what is measured, and how it is saved and shown. Only `crates/lab` and `xtask` may import it.
//! Functions fail where the system, a program or a workspace's guard does not do what they need; the error says in words
//! what, and to which path. What measures must not be in the way of what is measured, so it shares nothing but haul-sys
//! with haul.
#![forbid(unsafe_code)]

pub mod cache;
pub mod device;
pub mod leftovers;
pub mod load;
pub mod machine;
pub mod memory;
pub mod mounts;
pub mod nfs;
pub mod own;
pub mod process;
pub mod programs;
pub mod space;
pub mod stats;
pub mod stop;
pub mod storage;
pub mod turns;
pub mod values;
pub mod words;
pub mod workspace;
