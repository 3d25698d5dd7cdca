//! Numbers that look random and are the same in every run (SplitMix64).

/// A row of them.
pub struct Chance(u64);

impl Chance {
    /// The row that this number begins.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next one.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // The low numbers are a little likelier, by less than anybody could measure here.
        self.next() % end.max(1)
    }

    /// All below `end`, in disorder.
    pub fn shuffled(&mut self, end: u64) -> Vec<u64> {
        let mut row: Vec<u64> = (0..end).collect();
        for last in (1..row.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            row.swap(last, other);
        }
        row
    }
}
