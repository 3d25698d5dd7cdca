//! How long something took, many times: from nanoseconds to an hour, to three digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::results::Body;

/// The percentiles that are kept; the longest has a field of its own.
const PERCENTILES: [f64; 10] = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Longer ones count as this, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// Times as they are taken.
pub struct Times {
    histogram: Histogram<u64>,
    threshold: Duration,
    over: u64,
    sum: Duration,
}

/// What is kept of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of times.
    pub count: u64,
    /// How many were over the threshold.
    pub over: u64,
    /// The threshold in seconds.
    pub threshold: f64,
    /// Percentile (0 to below 100) and seconds, rising.
    pub percentiles: Vec<(f64, f64)>,
    /// The longest, in seconds.
    pub longest: f64,
    /// All of them together, in seconds.
    pub sum: f64,
}

impl Times {
    /// None yet.
    pub fn new(threshold: Duration) -> Times {
        // Three digits between a nanosecond and an hour: it refuses only bounds that are in disorder.
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order");
        Times { histogram, threshold, over: 0, sum: Duration::ZERO }
    }

    /// Takes one.
    pub fn add(&mut self, time: Duration) {
        self.histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST));
        self.over += u64::from(time > self.threshold);
        self.sum += time;
    }

    /// What they were.
    pub fn summary(&self) -> Latency {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let at = |percentile: &f64| (*percentile, seconds(self.histogram.value_at_percentile(*percentile)));
        let percentiles = match self.histogram.is_empty() {
            true => Vec::new(),
            false => PERCENTILES.iter().map(at).collect(),
        };
        Latency {
            count: self.histogram.len(),
            over: self.over,
            threshold: self.threshold.as_secs_f64(),
            percentiles,
            longest: seconds(self.histogram.max()),
            sum: self.sum.as_secs_f64(),
        }
    }
}

impl Latency {
    /// Seconds at a percentile that is kept.
    pub fn at(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|(have, _)| *have == percentile).map(|(_, seconds)| *seconds)
    }

    /// Seconds on average.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// As it is saved.
    pub fn body(&self) -> Body {
        Body::Latency {
            count: self.count,
            over: self.over,
            threshold: self.threshold,
            percentiles: self.percentiles.clone(),
            longest: self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let mut times = Times::new(Duration::from_millis(1));
        (1..=10_000).for_each(|count| times.add(Duration::from_micros(count)));
        let found = times.summary();
        assert_eq!((found.count, found.over, found.threshold), (10_000, 9_000, 0.001));
        for (percentile, expected) in [(50.0, 5e-3), (99.0, 9.9e-3), (99.9, 9.99e-3), (99.99, 9.999e-3)] {
            let seconds = found.at(percentile).unwrap();
            assert!((seconds / expected - 1.0).abs() < 2e-3, "{percentile}: {seconds}");
        }
        assert!((found.longest / 0.01 - 1.0).abs() < 1e-3 && (found.mean().unwrap() / 5e-3 - 1.0).abs() < 1e-3);
        assert!(found.percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn nothing_and_the_very_long_are_taken_as_well() {
        let mut times = Times::new(Duration::from_secs(1));
        assert_eq!((times.summary().mean(), times.summary().percentiles.len()), (None, 0));
        times.add(Duration::ZERO);
        times.add(Duration::from_secs(86_400));
        let found = times.summary();
        assert!((found.longest / 3600.0 - 1.0).abs() < 1e-3 && found.over == 1 && found.count == 2);
    }
}
