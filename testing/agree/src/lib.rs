//! The judge: runs one command line with two copiers on two equal scenes, and compares everything that can be seen.
//!
//! ```text
//! seed -> Case (scene, argv, environment, user) -> Stage::play(program) x 2 -> Outcome -> compare -> differences
//!                                                                       failing case -> shrink -> report
//! ```
//! A dry run is judged by what the same command then does (`foretold`), a move by what stood there before (`moved`).
//!
//! * **Knows** the options and the words of GNU cp, and the differences that are intended ([`agreed`]).
//! * **Must not know** how haul works: it starts programs and looks at files.
//!
//! For tests only; never part of the product.
#![forbid(unsafe_code)]

pub mod agreed;
pub mod case;
pub mod compare;
mod difference;
mod foretold;
pub mod grow;
pub mod hunt;
mod moved;
pub mod options;
mod paths;
pub mod report;
pub mod scene;
pub mod shrink;
pub mod skip;
pub mod snapshot;
pub mod stage;
