//! A token bucket: pure arithmetic on a clock that its owner reads.

use std::time::Duration;

/// What saves itself up while nothing is taken: a tenth of a second's worth.
const SAVED: f64 = 0.1;
/// Rounding must not make anybody wait for no time, again and again.
const SHORTEST: Duration = Duration::from_micros(1);

/// Gives out so much a second. Whoever comes while it is not empty may take what they need, into debt if need be, and
/// the next one waits until the debt is paid: so a large piece is never overtaken for ever by small ones.
///
/// In any span of time, no more is taken than rate x time, a tenth of a second's worth (or the least amount), and one piece.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    rate: Option<f64>,
    /// What it can save up at least, however low the rate.
    least: f64,
    tokens: f64,
    filled: Duration,
}

impl Bucket {
    /// Without a limit.
    pub(super) fn new(least: u64) -> Bucket {
        Bucket { rate: None, least: least as f64, tokens: 0.0, filled: Duration::ZERO }
    }

    /// From now on so much a second; `None` is as much as anybody wants. A debt stays one, at the new rate.
    pub(super) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.fill(now);
        self.rate = rate.map(|rate| rate.max(1) as f64);
        if self.rate.is_none() {
            self.tokens = 0.0;
        }
    }

    fn fill(&mut self, now: Duration) {
        let time = now.saturating_sub(self.filled).as_secs_f64();
        self.filled = now;
        if let Some(rate) = self.rate {
            self.tokens = (self.tokens + time * rate).min((rate * SAVED).max(self.least));
        }
    }

    /// How long to wait before anything may be taken; `None` if that is now.
    pub(super) fn delay(&mut self, now: Duration) -> Option<Duration> {
        self.fill(now);
        let rate = self.rate?;
        if self.tokens >= 0.0 {
            return None;
        }
        let seconds = -self.tokens / rate;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).max(SHORTEST))
    }

    /// Takes an amount.
    pub(super) fn take(&mut self, amount: u64) {
        if self.rate.is_some() {
            self.tokens -= amount as f64;
        }
    }

    /// Gives back what was not needed.
    pub(super) fn give_back(&mut self, amount: u64) {
        if let Some(rate) = self.rate {
            self.tokens = (self.tokens + amount as f64).min((rate * SAVED).max(self.least));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes pieces of these sizes, one after the other, each as soon as it may; calls `seen` with time and sum.
    fn drain(bucket: &mut Bucket, pieces: impl IntoIterator<Item = u64>, mut seen: impl FnMut(Duration, u64)) {
        let (mut now, mut sum) = (Duration::ZERO, 0);
        for piece in pieces {
            while let Some(delay) = bucket.delay(now) {
                now += delay;
            }
            bucket.take(piece);
            sum += piece;
            seen(now, sum);
        }
    }

    #[test]
    fn never_more_is_taken_than_rate_times_time_and_the_burst() {
        for rate in [1, 7, 1000, 50 << 20, 3 << 30] {
            let mut bucket = Bucket::new(1);
            bucket.set_rate(Some(rate), Duration::ZERO);
            let largest = (rate / 10).max(1);
            let pieces = (0..2000).map(|round| 1 + round * 7919 % largest);
            let mut last = Duration::ZERO;
            drain(&mut bucket, pieces, |now, sum| {
                let burst = rate as f64 * SAVED + largest as f64 + 1.0;
                let most = now.as_secs_f64() * rate as f64 + burst;
                assert!(sum as f64 <= most * 1.000_001, "{sum} at {now:?} of {rate} a second");
                last = now;
            });
            // And not much less, either: the last piece is not waited for.
            let all: u64 = (0..2000).map(|round| 1 + round * 7919 % largest).sum();
            assert!(last.as_secs_f64() * rate as f64 <= all as f64 + 1.0, "{last:?} for {all} at {rate}");
        }
    }

    #[test]
    fn idle_time_saves_up_a_tenth_of_a_second_and_no_more() {
        let mut bucket = Bucket::new(1);
        bucket.set_rate(Some(1000), Duration::ZERO);
        let later = Duration::from_secs(3600);
        assert_eq!(bucket.delay(later), None);
        bucket.take(1100);
        assert_eq!(bucket.delay(later), Some(Duration::from_secs(1)), "100 were saved up, 1000 are missing");
    }

    #[test]
    fn a_new_rate_is_the_rate_of_the_debt_too() {
        let mut bucket = Bucket::new(1);
        bucket.set_rate(Some(1), Duration::ZERO);
        bucket.take(1000);
        assert_eq!(bucket.delay(Duration::ZERO), Some(Duration::from_secs(1000)));
        bucket.set_rate(Some(1000), Duration::ZERO);
        assert_eq!(bucket.delay(Duration::ZERO), Some(Duration::from_secs(1)));
        bucket.set_rate(None, Duration::ZERO);
        assert_eq!(bucket.delay(Duration::ZERO), None);
    }

    #[test]
    fn what_is_given_back_need_not_be_waited_for() {
        let mut bucket = Bucket::new(1);
        bucket.set_rate(Some(1000), Duration::ZERO);
        bucket.take(500);
        bucket.give_back(400);
        assert_eq!(bucket.delay(Duration::ZERO), Some(Duration::from_millis(100)));
    }
}
