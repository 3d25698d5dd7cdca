//! What follows from several runs of the same: medians, and ratios with intervals.
//!
//! Everything here gives the same answer for the same data: the random numbers of the intervals have a fixed seed.

use std::cmp::Ordering;

use fastrand::Rng;

/// Under this many runs nothing is said about an interval: three, four and five of one sign are chance in 25, 12 and 6 % of cases.
pub const FEWEST: usize = 6;

/// The numbers of rounds after which somebody may look whether an interval decides, and go on if it does not.
pub const LOOKS: [usize; 3] = [FEWEST, 12, 30];

/// How often the runs are drawn anew for an interval.
const RESAMPLES: usize = 2000;
/// Of the random numbers.
const SEED: u64 = 0x6861_756c;
/// What an interval leaves out on either side. Who looks several times finds by chance what one look would not: 5 % for all looks
/// together are a third of that for each (Bonferroni), so an interval holds 98.3 % of what was drawn.
const TAIL: f64 = 0.05 / LOOKS.len() as f64 / 2.0;

/// What several runs come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// The median: the mean of the two in the middle where the count is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// How far the values lie apart, as a share of the median. 0 where the median is 0.
    pub fn noise(&self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median } else { 0.0 }
    }
}

/// The values that can be ordered, in their order.
fn ordered(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of values in their order; 0 of nothing.
fn middle(ordered: &[f64]) -> f64 {
    let half = ordered.len() / 2;
    let at = |place: usize| ordered.get(place).copied().unwrap_or_default();
    if ordered.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.saturating_sub(1)), at(half)) }
}

/// The median, or `None` if there is no finite value.
pub fn median(values: &[f64]) -> Option<f64> {
    let values = ordered(values);
    (!values.is_empty()).then(|| middle(&values))
}

/// The mean and the standard deviation of a sample. `None` of fewer than two finite values.
pub fn deviation(values: &[f64]) -> Option<(f64, f64)> {
    let values = ordered(values);
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (mean, (squares / (count - 1.0)).sqrt()))
}

/// Median, smallest and largest, or `None` if there is no finite value.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let values = ordered(values);
    let (min, max) = (*values.first()?, *values.last()?);
    Some(Spread { count: values.len(), median: middle(&values), min, max })
}

/// How many times one median is another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// Where it lies with 98.3 % confidence, or with 95 % after all [`LOOKS`]; `None` if a side has fewer than [`FEWEST`] runs.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// On which side of `level` the whole interval lies. `None` if there is no interval, or if the level is in it.
    pub fn side(&self, level: f64) -> Option<Ordering> {
        match self.interval? {
            (_, most) if most < level => Some(Ordering::Less),
            (least, _) if least > level => Some(Ordering::Greater),
            _ => None,
        }
    }

    /// Whether it is the same as 1 but for `tolerance`: `Some(true)` if the whole interval is that near, `Some(false)` if none of
    /// it is, `None` if there is no interval or a part of it is.
    pub fn is_same(&self, tolerance: f64) -> Option<bool> {
        let (least, most) = self.interval?;
        let (low, high) = (1.0 / (1.0 + tolerance), 1.0 + tolerance);
        if least >= low && most <= high {
            Some(true)
        } else if most < low || least > high {
            Some(false)
        } else {
            None
        }
    }
}

/// The ratio of two medians: how many times `base` is `of`. `None` if a side is empty, or if the base's median is not
/// above 0. Where both have as many values, the values of one place are those of one round.
pub fn ratio(of: &[f64], base: &[f64]) -> Option<Ratio> {
    pooled(&[(of.to_vec(), base.to_vec())])
}

/// The same of values that have no rounds in common, such as those of two days.
pub fn unpaired(of: &[f64], base: &[f64]) -> Option<Ratio> {
    resampled(&[(of.to_vec(), base.to_vec())], false)
}

/// The geometric mean of the ratios of several pairs, `(of, base)`, with one interval for all of them: what holds on the
/// whole, where each pair was measured under its own conditions. Pairs without a ratio are left out; `None` if none is left.
///
/// Whole rounds are drawn anew, so what slows a round down, on both sides, says nothing of the ratio.
pub fn pooled(pairs: &[(Vec<f64>, Vec<f64>)]) -> Option<Ratio> {
    resampled(pairs, true)
}

fn resampled(pairs: &[(Vec<f64>, Vec<f64>)], rounds: bool) -> Option<Ratio> {
    let pairs: Vec<[Ranked; 2]> = pairs.iter().map(|(of, base)| [Ranked::new(of), Ranked::new(base)]).collect();
    let pairs: Vec<&[Ranked; 2]> = pairs.iter().filter(|pair| pair.iter().all(|side| side.median() > 0.0)).collect();
    if pairs.is_empty() {
        return None;
    }
    let mean = |logarithms: f64| (logarithms / pairs.len() as f64).exp();
    let value = mean(pairs.iter().map(|[of, base]| (of.median() / base.median()).ln()).sum());
    let enough = pairs.iter().all(|[of, base]| of.0.len().min(base.0.len()) >= FEWEST);
    let interval = enough.then(|| {
        let (mut random, mut rounds_drawn) = (Rng::with_seed(SEED), Vec::new());
        let mut drawn: Vec<f64> = Vec::with_capacity(RESAMPLES);
        for _ in 0..RESAMPLES {
            let logarithms = pairs.iter().map(|[of, base]| {
                draw(&mut random, &mut rounds_drawn, of.0.len());
                let of = of.median_of(&rounds_drawn);
                if !rounds || base.0.len() != rounds_drawn.len() {
                    draw(&mut random, &mut rounds_drawn, base.0.len());
                }
                (of / base.median_of(&rounds_drawn)).ln()
            });
            drawn.push(mean(logarithms.sum()));
        }
        let drawn = ordered(&drawn);
        let at = |share: f64| drawn.get((share * (drawn.len() - 1) as f64).round() as usize).copied().unwrap_or(value);
        (at(TAIL), at(1.0 - TAIL))
    });
    Some(Ratio { value, interval })
}

/// Values in their order, each with the round that it is of.
struct Ranked(Vec<(f64, usize)>);

impl Ranked {
    fn new(values: &[f64]) -> Ranked {
        let finite = values.iter().copied().filter(|value| value.is_finite());
        let mut ranked: Vec<(f64, usize)> = finite.enumerate().map(|(round, value)| (value, round)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ranked(ranked)
    }

    fn median(&self) -> f64 {
        self.median_of(&vec![1; self.0.len()])
    }

    /// The median of the values, each as often as its round was drawn; 0 of nothing.
    fn median_of(&self, drawn: &[u32]) -> f64 {
        let count: u32 = drawn.iter().sum();
        // The ranks of the middle, from 0: two, or one twice.
        let (low, high) = ((count.max(1) - 1) / 2, count / 2);
        let mut passed = 0;
        let mut first = None;
        for (value, round) in &self.0 {
            passed += drawn.get(*round).copied().unwrap_or_default();
            if first.is_none() && passed > low {
                first = Some(*value);
            }
            if passed > high {
                return f64::midpoint(first.unwrap_or(*value), *value);
            }
        }
        first.unwrap_or_default()
    }
}

/// Draws as many rounds as there are, with putting back, and counts how often each was drawn: in memory that is there already.
fn draw(random: &mut Rng, drawn: &mut Vec<u32>, count: usize) {
    drawn.clear();
    drawn.resize(count, 0);
    for _ in 0..count {
        drawn[random.usize(..count)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle_and_of_finite_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 7.0, f64::INFINITY]), Some(7.0));
        assert_eq!((median(&[]), spread(&[])), (None, None));
        assert_eq!(spread(&[5.0, 2.0, 9.0]), Some(Spread { count: 3, median: 5.0, min: 2.0, max: 9.0 }));
    }

    #[test]
    fn what_slows_both_sides_of_a_round_says_nothing_of_their_ratio() {
        let rounds = [1.0, 3.0, 1.1, 2.5, 0.9, 4.0, 1.2];
        let base: Vec<f64> = rounds.to_vec();
        let quicker: Vec<f64> = rounds.iter().map(|round| round * 0.9).collect();
        let (least, most) = ratio(&quicker, &base).unwrap().interval.unwrap();
        assert!(least > 0.89 && most < 0.91, "{least} {most}");
        // The same times in other rounds are no pairs.
        let other: Vec<f64> = quicker.iter().rev().copied().collect();
        let (least, most) = ratio(&other, &base).unwrap().interval.unwrap();
        assert!(least < 0.9 && most > 1.0, "{least} {most}");
    }

    #[test]
    fn a_deviation_is_that_of_a_sample() {
        assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some((5.0, (32.0_f64 / 7.0).sqrt())));
        assert_eq!((deviation(&[1.0]), deviation(&[f64::NAN, 1.0])), (None, None));
    }

    #[test]
    fn few_runs_have_a_ratio_and_no_interval() {
        assert_eq!(ratio(&[2.0; FEWEST - 1], &[1.0; FEWEST]), Some(Ratio { value: 2.0, interval: None }));
        assert!(ratio(&[2.0; FEWEST], &[1.0; FEWEST]).unwrap().interval.is_some());
        assert_eq!(ratio(&[], &[1.0]), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn an_interval_holds_the_ratio_and_says_which_is_less() {
        let (slow, quick) = ([2.0, 2.1, 1.9, 2.05, 2.0, 1.98], [1.0, 1.02, 0.99, 1.01, 1.0, 0.98]);
        let ratio = ratio(&slow, &quick).unwrap();
        let (least, most) = ratio.interval.unwrap();
        assert!(least <= ratio.value && ratio.value <= most, "{ratio:?}");
        assert!(least > 1.8 && most < 2.2, "{ratio:?}");
        assert_eq!(
            (ratio.side(1.0), ratio.side(2.0), ratio.side(3.0)),
            (Some(Ordering::Greater), None, Some(Ordering::Less))
        );
    }

    #[test]
    fn what_overlaps_has_no_side() {
        let ratio = ratio(&[1.0, 2.0, 3.0, 2.0, 1.5, 1.7], &[1.8, 1.2, 2.4, 2.0, 1.6, 1.9]).unwrap();
        assert_eq!(ratio.side(1.0), None, "{ratio:?}");
        assert_eq!(ratio.is_same(0.1), None, "{ratio:?}");
    }

    #[test]
    fn equal_competitors_are_seldom_called_different_after_all_looks() {
        const TRIALS: usize = 200;
        let mut random = Rng::with_seed(7);
        // Sums of twelve are nearly normal. Whole rounds are slow or fast, and so is each run.
        let mut noise = |width: f64| ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0) * width;
        let mut different = 0;
        for _ in 0..TRIALS {
            let mut pair = || {
                let round = noise(0.1);
                [noise(0.1), noise(0.1)].map(|own| (round + own).exp())
            };
            let rounds: Vec<[f64; 2]> = (0..LOOKS[LOOKS.len() - 1]).map(|_| pair()).collect();
            let side = |look: usize| {
                let of = |which: usize| rounds[..look].iter().map(|round| round[which]).collect::<Vec<f64>>();
                ratio(&of(0), &of(1)).unwrap().side(1.0)
            };
            different += usize::from(LOOKS.into_iter().any(|look| side(look).is_some()));
        }
        assert!(different * 100 <= 8 * TRIALS, "{different} of {TRIALS}");
    }

    #[test]
    fn the_same_data_gives_the_same_interval() {
        let (a, b) = ([1.0, 1.3, 1.1, 0.9, 1.0, 1.2, 1.1], [1.0, 1.05, 1.2, 1.1, 0.9, 1.0]);
        assert_eq!(ratio(&a, &b), ratio(&a, &b));
    }

    #[test]
    fn sameness_is_said_only_of_whole_intervals() {
        let of = |least: f64, most: f64| Ratio { value: least, interval: Some((least, most)) }.is_same(0.1);
        assert_eq!(
            [of(0.95, 1.05), of(0.95, 1.2), of(1.2, 1.3), of(0.5, 0.8)],
            [Some(true), None, Some(false), Some(false)]
        );
        assert_eq!(Ratio { value: 1.0, interval: None }.is_same(0.1), None);
    }

    #[test]
    fn a_pooled_ratio_is_the_geometric_mean() {
        let pair = |of: f64, base: f64| (vec![of; FEWEST], vec![base; FEWEST]);
        let pooled = pooled(&[pair(4.0, 1.0), pair(1.0, 1.0), (Vec::new(), vec![1.0])]).unwrap();
        assert!((pooled.value - 2.0).abs() < 1e-9, "{pooled:?}");
        let (least, most) = pooled.interval.unwrap();
        assert!((least - 2.0).abs() < 1e-9 && (most - 2.0).abs() < 1e-9, "{pooled:?}");
    }
}
