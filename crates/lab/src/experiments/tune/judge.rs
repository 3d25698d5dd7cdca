//! Whether one setting is faster than another, or only looks so.

/// How unlikely it must be that chance alone made it look faster.
const CHANCE: f64 = 0.05;
/// A gain below this is not worth an entry, however certain it is.
pub const WORTH: f64 = 1.03;
/// With fewer pairs no test can tell.
pub const FEWEST: usize = 5;

/// Pairs of durable times in seconds, each of one round: that of the defaults, and that of the setting.
pub type Pair = (f64, f64);

/// The gain: the median of the ratios of each pair, 1.2 if the defaults take 1.2 times as long. `None` without pairs.
pub fn gain(pairs: &[Pair]) -> Option<f64> {
    let mut ratios: Vec<f64> = pairs.iter().filter_map(|pair| ratio(*pair)).collect();
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios.get(ratios.len().checked_sub(1)? / 2)?, ratios.get(ratios.len() / 2)?);
    // The mean of logarithms: twice as fast and half as fast are no gain together.
    Some((low * high).sqrt())
}

fn ratio((defaults, setting): Pair) -> Option<f64> {
    (defaults > 0.0 && setting > 0.0).then(|| defaults / setting)
}

/// Whether the setting wins by more than the noise, and by enough.
pub fn wins(pairs: &[Pair]) -> bool {
    pairs.len() >= FEWEST && gain(pairs).is_some_and(|gain| gain >= WORTH) && chance(pairs) <= CHANCE
}

/// The probability that a setting that is no faster wins so many rounds by chance: the sign test, one-sided and exact. How much
/// a round was won or lost by does not count, so the one run that a busy machine made ten times as long is one lost round.
pub fn chance(pairs: &[Pair]) -> f64 {
    let ratios: Vec<f64> = pairs.iter().filter_map(|pair| ratio(*pair)).filter(|ratio| *ratio != 1.0).collect();
    let won = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    // The share of all outcomes with each number of rounds won.
    let mut shares = vec![1.0];
    for _ in 0..ratios.len() {
        let lost = shares.iter().copied().chain([0.0]);
        shares =
            lost.zip([0.0].into_iter().chain(shares.iter().copied())).map(|(lost, won)| (lost + won) / 2.0).collect();
    }
    shares[won..].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        ratios.iter().map(|ratio| (*ratio, 1.0)).collect()
    }

    #[test]
    fn the_gain_is_the_median_of_what_each_round_says() {
        let close = |ratios: &[f64], expected: f64| (gain(&pairs(ratios)).unwrap() - expected).abs() < 1e-12;
        assert!(close(&[1.0, 1.2, 9.0], 1.2) && close(&[0.5, 2.0], 1.0) && close(&[1.3], 1.3));
        assert_eq!(gain(&[]), None);
        assert_eq!(gain(&[(0.0, 1.0), (1.0, 0.0)]), None, "a time of nothing says nothing");
    }

    #[test]
    fn chances_are_those_of_coins() {
        let tables = [(&[1.1, 1.2, 1.3, 1.4, 1.5][..], 1.0 / 32.0), (&[1.1, 1.2, 1.3, 1.4, 0.1], 6.0 / 32.0)];
        for (ratios, expected) in tables {
            assert!((chance(&pairs(ratios)) - expected).abs() < 1e-12, "{ratios:?} {}", chance(&pairs(ratios)));
        }
        assert!(chance(&pairs(&[0.9, 0.8, 0.7])) > 0.99);
        assert!((chance(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn few_pairs_and_small_gains_win_nothing() {
        assert!(wins(&pairs(&[1.1, 1.2, 1.1, 1.3, 1.15])));
        assert!(!wins(&pairs(&[2.0, 2.0, 2.0, 2.0])), "four pairs");
        assert!(!wins(&pairs(&[1.01; 20].map(|ratio: f64| ratio))), "certain, and worth nothing");
        assert!(!wins(&pairs(&[1.4, 0.8, 1.3, 0.7, 1.2, 0.9])), "noise");
        assert!(wins(&pairs(&[1.2, 1.25, 1.1, 1.3, 1.15, 1.2, 1.1, 0.05])), "one run was disturbed");
    }
}
