//! What every engine promises, on every filesystem; and what happens when the kernel does not play along.
#![allow(missing_docs)]

mod conformance;
mod harness;
mod kernel;
mod limits;
mod parallel;
mod places;
mod queued;
mod ranges;
mod sparse;
mod streams;
mod wrappers;
