//! How large the blocks are and how many are in flight.

use std::time::Duration;

use haul_sys::queue::MOST_SLOTS;
use haul_sys::rustix::param::page_size;

use super::tuning::Tuning;

/// Memory of one engine in bytes, unless a larger block is asked for: then there is one of those.
const MEMORY: usize = 16 << 20;
/// No block is larger: io_uring registers no more in one piece.
const LARGEST: usize = 1 << 30;
/// Blocks are no smaller unless the user wants them so: below this the cost of a request shows.
const SMALLEST: usize = 64 << 10;
/// Pairs of block and slots to try, the likeliest first.
const CANDIDATES: [(usize, usize); 4] = [(1 << 20, 8), (2 << 20, 8), (4 << 20, 4), (512 << 10, 16)];
/// Flights of fewer bytes say little about a rate.
const TELLING: u64 = 32 << 20;
/// Another pair must be so much better to be taken.
const BETTER: f64 = 1.05;
/// Telling flights before all pairs are tried again: what the device can do may have changed.
const SETTLED: usize = 64;

/// Finds the best pair by trying each for the time of one flight.
#[derive(Debug)]
pub(super) struct Shapes {
    block: Option<usize>,
    slots: Option<usize>,
    /// Bytes per second of each pair, in the order of the candidates, as far as they were tried.
    rates: Vec<f64>,
    /// The pair of the current flight.
    current: usize,
    /// Telling flights until they are tried again.
    left: usize,
}

impl Shapes {
    pub(super) fn new(tuning: &Tuning) -> Shapes {
        let block = tuning.buffer_size.map(|size| size.clamp(1, LARGEST).next_multiple_of(page_size()));
        let slots = tuning.depth.map(|depth| depth.clamp(1, MOST_SLOTS));
        Shapes { block, slots, rates: Vec::with_capacity(CANDIDATES.len()), current: 0, left: SETTLED }
    }

    /// The block that is asked for, in bytes.
    pub(super) fn asked(&self) -> usize {
        self.block.unwrap_or(1)
    }

    /// Block size in bytes, a multiple of `align` and of the page size, and slots, for a flight of `len` bytes.
    pub(super) fn choose(&self, len: u64, align: usize) -> (usize, usize) {
        let (block, slots) = CANDIDATES[self.current];
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        // A short flight has smaller blocks, so that its first write does not wait for its last read.
        let block = self.block.unwrap_or_else(|| block.min((len / 4).next_power_of_two().max(SMALLEST)));
        // No more memory than the flight has bytes.
        let block = block.min(len).next_multiple_of(align.max(page_size()));
        let slots = self.slots.unwrap_or(slots).min(MEMORY / block).min(len.div_ceil(block));
        (block, slots.max(1))
    }

    /// Hears how long a flight took.
    pub(super) fn learn(&mut self, len: u64, time: Duration) {
        if len < TELLING || self.block.is_some() {
            return;
        }
        if self.rates.len() < CANDIDATES.len() {
            self.rates.push(len as f64 / time.as_secs_f64().max(1e-9));
            self.current = if self.rates.len() < CANDIDATES.len() { self.rates.len() } else { self.best() };
            return;
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            (self.current, self.left) = (0, SETTLED);
            self.rates.clear();
        }
    }

    /// The best of the pairs; an earlier one where the difference is small.
    fn best(&self) -> usize {
        let mut best = 0;
        for (index, rate) in self.rates.iter().enumerate() {
            if *rate > self.rates[best] * BETTER {
                best = index;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned(buffer_size: Option<usize>, depth: Option<usize>) -> Shapes {
        Shapes::new(&Tuning { buffer_size, depth, ..Tuning::default() })
    }

    #[test]
    fn memory_is_that_of_one_engine_or_of_one_block() {
        let wishes = [None, Some(0), Some(1), Some(4097), Some(1 << 20), Some(usize::MAX)];
        for buffer_size in wishes {
            for depth in wishes {
                for len in [1, 4096, 1 << 20, 1 << 30, u64::MAX] {
                    for align in [1, 4096, 1 << 16] {
                        let (block, slots) = tuned(buffer_size, depth).choose(len, align);
                        assert!(block * slots <= MEMORY.max(block) && block <= LARGEST + align, "{block} {slots}");
                        assert!(block as u64 <= len.saturating_add(align.max(page_size()) as u64), "{block} {len}");
                        assert!((1..=MOST_SLOTS).contains(&slots), "{slots}");
                        assert!(block > 0 && block.is_multiple_of(align) && block.is_multiple_of(page_size()));
                    }
                }
            }
        }
    }

    #[test]
    fn the_fastest_pair_is_kept_and_tried_anew_after_a_while() {
        let mut shapes = tuned(None, None);
        let mut seen = Vec::new();
        let speeds = [1.0, 1.3, 1.32, 0.5];
        let mut fly = |shapes: &mut Shapes| {
            seen.push(shapes.current);
            shapes.learn(TELLING, Duration::from_secs_f64(1.0 / speeds[shapes.current]));
        };
        for _ in 0..CANDIDATES.len() + SETTLED + 1 {
            fly(&mut shapes);
        }
        assert_eq!(seen[..4], [0, 1, 2, 3]);
        assert!(seen[4..4 + SETTLED].iter().all(|current| *current == 1), "1.32 is not enough more than 1.3");
        assert_eq!(seen[4 + SETTLED], 0);
    }

    #[test]
    fn short_flights_teach_nothing_and_have_small_blocks() {
        let mut shapes = tuned(None, None);
        shapes.learn(TELLING - 1, Duration::from_secs(1));
        assert!(shapes.rates.is_empty());
        assert_eq!(shapes.choose(256 << 10, 4096), (SMALLEST, 4));
    }

    #[test]
    fn what_the_user_wants_is_taken() {
        assert_eq!(tuned(Some(256 << 10), Some(3)).choose(1 << 30, 4096), (256 << 10, 3));
        assert_eq!(tuned(Some(5000), Some(100)).choose(1 << 30, 4096), (8192, MOST_SLOTS));
        assert_eq!(tuned(Some(32 << 20), Some(4)).choose(1 << 30, 4096), (32 << 20, 1));
    }
}
