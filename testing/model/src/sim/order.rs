//! Requests for work: who waits for an answer, and whom a rank asks next.

/// A rank that wants work.
#[derive(Debug)]
pub(super) struct Wanter {
    pub from: u32,
    pub stamp: u64,
}

/// In which order a rank asks the others: first the one above it in a binary tree over all ranks, then all in an order of
/// chance, round and round. It stays with one that gave something.
#[derive(Debug)]
pub(super) struct Order {
    rank: u64,
    ranks: u64,
    start: u64,
    stride: u64,
    /// Place in the order; 0 is the one above.
    at: u64,
    /// How many have refused, one after the other.
    refused: u64,
    pause: f64,
}

impl Order {
    pub fn new(chance: &mut fastrand::Rng, rank: u64, ranks: u64, pause: f64) -> Order {
        let greatest_divisor = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let stride = loop {
            let stride = chance.u64(1..=ranks);
            if greatest_divisor(stride, ranks) == 1 {
                break stride;
            }
        };
        Order { rank, ranks, start: chance.u64(0..ranks), stride, at: 0, refused: 0, pause }
    }

    /// Whom to ask. There must be others.
    pub fn next(&mut self) -> u32 {
        let above = self.rank.saturating_sub(1) / 2;
        loop {
            let other = match self.at {
                0 => above,
                at => {
                    let walked = u128::from(self.start) + u128::from(self.stride) * u128::from(at - 1);
                    (walked % u128::from(self.ranks)) as u64
                }
            };
            if other != self.rank && (self.at == 0 || other != above) {
                return other as u32;
            }
            self.at = (self.at + 1) % (self.ranks + 1);
        }
    }

    /// Who was asked gave something.
    pub fn given(&mut self, pause: f64) {
        (self.refused, self.pause) = (0, pause);
    }

    /// Who was asked has nothing. If so have all: how long to wait.
    pub fn refused(&mut self, longest: f64) -> Option<f64> {
        self.at = (self.at + 1) % (self.ranks + 1);
        self.refused += 1;
        if self.refused < self.ranks - 1 {
            return None;
        }
        self.refused = 0;
        let pause = self.pause;
        self.pause = (2.0 * pause).min(longest).max(pause);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_others_are_asked_in_a_round_and_who_gave_something_first() {
        let mut chance = fastrand::Rng::with_seed(3);
        for ranks in [2, 3, 12, 100] {
            for rank in 0..ranks {
                let mut order = Order::new(&mut chance, rank, ranks, 0.001);
                let mut asked = Vec::new();
                loop {
                    asked.push(u64::from(order.next()));
                    if order.refused(0.1).is_some() {
                        break;
                    }
                }
                if rank > 0 {
                    assert_eq!(asked[0], (rank - 1) / 2);
                }
                asked.sort_unstable();
                assert!(
                    asked.iter().copied().eq((0..ranks).filter(|other| *other != rank)),
                    "{rank} of {ranks}: {asked:?}"
                );
                let giver = order.next();
                order.given(0.001);
                assert_eq!(order.next(), giver);
            }
        }
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let mut order = Order::new(&mut fastrand::Rng::with_seed(1), 0, 2, 0.001);
        let pauses: Vec<f64> = (0..9).filter_map(|_| order.refused(0.1)).collect();
        assert_eq!(pauses[..3], [0.001, 0.002, 0.004]);
        assert_eq!(pauses[8], 0.1);
    }
}
