//! How long something took, many times: from nanoseconds to an hour, to three digits.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::results::Latency;

/// The percentiles that are kept; the longest has a field of its own.
const PERCENTILES: [f64; 10] = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Longer ones count as this, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

pub struct Times {
    histogram: Histogram<u64>,
    threshold: Duration,
    over: u64,
    sum: Duration,
}

impl Times {
    pub fn new(threshold: Duration) -> Times {
        // Three digits between a nanosecond and an hour: it refuses only bounds that are in disorder.
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order");
        Times { histogram, threshold, over: 0, sum: Duration::ZERO }
    }

    pub fn add(&mut self, time: Duration) {
        self.histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST));
        self.over += u64::from(time > self.threshold);
        self.sum += time;
    }

    /// Seconds on average.
    pub fn mean(&self) -> Option<f64> {
        (!self.histogram.is_empty()).then(|| self.sum.as_secs_f64() / self.histogram.len() as f64)
    }

    /// What is kept of them.
    pub fn summary(&self) -> Latency {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let at = |percentile: &f64| (*percentile, seconds(self.histogram.value_at_percentile(*percentile)));
        let percentiles = if self.histogram.is_empty() { &[][..] } else { &PERCENTILES };
        Latency {
            count: self.histogram.len(),
            over: self.over,
            threshold: self.threshold.as_secs_f64(),
            percentiles: percentiles.iter().map(at).collect(),
            longest: seconds(self.histogram.max()),
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
        assert!((found.longest / 0.01 - 1.0).abs() < 1e-3 && (times.mean().unwrap() / 5e-3 - 1.0).abs() < 1e-3);
        assert!(found.percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn nothing_and_the_very_long_are_taken_as_well() {
        let mut times = Times::new(Duration::from_secs(1));
        assert_eq!((times.mean(), times.summary().percentiles.len()), (None, 0));
        times.add(Duration::ZERO);
        times.add(Duration::from_secs(86_400));
        let found = times.summary();
        assert!((found.longest / 3600.0 - 1.0).abs() < 1e-3 && found.over == 1 && found.count == 2);
    }
}
