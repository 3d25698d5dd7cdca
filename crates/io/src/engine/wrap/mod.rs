//! Engines around an engine: talkative, faulty or short-spoken; and kernels, one that interrupts and one that counts.

mod dice;
mod faults;
mod short_counts;
mod tally;
mod trace;
mod unruly;

pub use faults::{Fault, Faults};
pub use short_counts::ShortCounts;
pub use tally::Tally;
pub use trace::{Event, Trace};
pub use unruly::Unruly;
