//! Engines around an engine: talkative, faulty or short-spoken; and kernels, one that interrupts and one that counts.

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

/// A small generator of numbers that look random and repeat with their seed (SplitMix64).
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 1 to `most`, small ones as likely as large ones.
    fn length(&mut self, most: u64) -> u64 {
        let most = most.max(1);
        let magnitude = self.roll() % u64::from(most.ilog2() + 1);
        (self.roll() >> (63 - magnitude)).clamp(1, most)
    }
}
