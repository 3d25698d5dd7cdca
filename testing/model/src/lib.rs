//! A discrete-event model of the distributed copy of `haul-mpi`.
//!
//! It moves no bytes and needs no MPI: ranks, threads, messages, metadata servers and storage are simulated, with the
//! protocol of the real program. What it takes in is a [`Config`], what it gives is a [`Report`]. The same
//! configuration gives the same report, always. docs/cluster.md says what is aggregated and what is left out.
//!
//! * **Knows** the protocol of haul-mpi (`sim`), whose changes must be made here, too. `tree` is a tree that exists
//!   nowhere; `clock` and `server` are what every simulation needs; `keys` names the parameters.
//! * **Must not know** any other crate of haul.
#![forbid(unsafe_code)]

pub mod cli;
mod clock;
mod compare;
mod config;
mod keys;
mod report;
mod server;
mod sim;
mod sizes;
mod slab;
mod tree;
mod value;

pub use config::Config;
pub use keys::read_toml;
pub use report::{Flow, Report};
pub use sim::{Observed, simulate, simulate_observed};
pub use tree::{Dir, Name, Tree};
