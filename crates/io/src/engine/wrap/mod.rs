//! Engines around an engine: talkative, faulty or short-spoken; and kernels, one that interrupts and one that counts.

mod dice;
mod faults;
mod hooked;
mod short_counts;
mod tally;
mod trace;
mod unruly;

pub use faults::{Fault, Faults};
pub use hooked::{Call, Hook, Hooked};
pub use short_counts::ShortCounts;
pub use tally::Tally;
pub use trace::{Event, Trace};
pub use unruly::Unruly;
