//! Numbers for those that cut and interrupt.

/// A small generator of numbers that look random and repeat with their seed (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 1 to `most`, small ones as likely as large ones.
    pub(super) fn length(&mut self, most: u64) -> u64 {
        let most = most.max(1);
        let magnitude = self.roll() % u64::from(most.ilog2() + 1);
        (self.roll() >> (63 - magnitude)).clamp(1, most)
    }
}
