//! How many workers a file gets: found while copying, by throughput.

use std::time::Duration;

/// A change in throughput below this is taken for noise.
const WORTH: f64 = 1.10;
/// A figure is made of at least so many bytes and so much time.
const WINDOW_BYTES: u64 = 64 << 20;
/// And of so many pieces, since each is counted when it is done.
const WINDOW_PIECES: u64 = 16;
const WINDOW_TIME: Duration = Duration::from_millis(40);
/// Windows without another attempt after one that was not worth it; twice as many after each further one.
const REST: u32 = 8;

/// Climbs to the number of workers with the highest throughput: one more is tried, and kept if it moved clearly more bytes
/// in the same time; then one fewer. What brought nothing is not tried again for a while, and that for ever longer.
#[derive(Debug, Clone)]
pub struct Climb {
    active: usize,
    most: usize,
    /// Throughput at the number that stands.
    settled: Option<f64>,
    /// The number that stands, while another one is tried.
    trying: Option<usize>,
    up_next: bool,
    rest: u32,
    next_rest: u32,
    window: u64,
    bytes: u64,
    since: Duration,
}

impl Climb {
    /// Starts with `start` workers, never takes more than `most`.
    pub fn new(start: usize, most: usize) -> Climb {
        let most = most.max(1);
        Climb {
            active: start.clamp(1, most),
            most,
            settled: None,
            trying: None,
            up_next: true,
            rest: 0,
            next_rest: REST,
            window: WINDOW_BYTES,
            bytes: 0,
            since: Duration::ZERO,
        }
    }

    /// Says how many bytes are counted at a time.
    #[must_use]
    pub fn by_pieces_of(self, piece: u64) -> Climb {
        Climb { window: WINDOW_BYTES.max(piece.saturating_mul(WINDOW_PIECES)), ..self }
    }

    /// Workers wanted now.
    pub fn active(&self) -> usize {
        self.active
    }

    /// The most that it may come to.
    pub fn most(&self) -> usize {
        self.most
    }

    /// `bytes` more were moved; `now` is the time since the beginning. Returns the number wanted from here on.
    pub fn moved(&mut self, bytes: u64, now: Duration) -> usize {
        self.bytes += bytes;
        let time = now.saturating_sub(self.since);
        if self.most > 1 && self.bytes >= self.window && time >= WINDOW_TIME {
            let rate = self.bytes as f64 / time.as_secs_f64();
            self.judge(rate);
            (self.bytes, self.since) = (0, now);
        }
        self.active
    }

    fn judge(&mut self, rate: f64) {
        match (self.trying.take(), self.settled) {
            (Some(before), Some(settled)) if rate < settled * WORTH => {
                // Not worth it: back, and the other direction after a rest.
                self.up_next = before > self.active;
                self.active = before;
                self.rest = self.next_rest;
                self.next_rest = self.next_rest.saturating_mul(2);
            }
            (Some(_), _) => {
                // On in the same direction.
                self.settled = Some(rate);
                self.next_rest = REST;
                self.attempt();
            }
            (None, settled) => {
                // A moving average, as devices have moods.
                self.settled = Some(settled.map_or(rate, |settled| settled.mul_add(0.5, rate * 0.5)));
                self.rest = self.rest.saturating_sub(1);
                if self.rest == 0 {
                    self.attempt();
                }
            }
        }
    }

    fn attempt(&mut self) {
        let up = (self.up_next && self.active < self.most) || self.active == 1;
        let next = if up { (self.active + 1).min(self.most) } else { self.active - 1 };
        if next != self.active {
            self.trying = Some(self.active);
            self.up_next = up;
            self.active = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a climb ends up if `rate` tells the throughput, in windows' worth per second, of each number of workers.
    fn climb(start: usize, most: usize, windows: u32, rate: impl Fn(usize) -> f64) -> Climb {
        let mut climb = Climb::new(start, most);
        let mut now = Duration::ZERO;
        for _ in 0..windows {
            now += Duration::from_secs_f64(1.0 / rate(climb.active()));
            climb.moved(WINDOW_BYTES, now);
        }
        climb
    }

    #[test]
    fn more_workers_are_taken_while_they_bring_more() {
        assert_eq!(climb(1, 8, 20, |workers| workers as f64).active(), 8);
        let settled = |workers: usize| workers.min(4) as f64;
        // An attempt at a fifth may be under way at any time, so it is the standing number that counts.
        let found = climb(1, 8, 40, settled);
        assert_eq!(found.trying.unwrap_or(found.active), 4);
    }

    #[test]
    fn workers_that_stand_in_each_others_way_are_sent_away() {
        let found = climb(4, 8, 200, |workers| 4.0 / workers as f64);
        assert_eq!(found.trying.unwrap_or(found.active), 1);
    }

    #[test]
    fn differences_that_are_noise_change_nothing_for_long() {
        let mut away = 0;
        for windows in 0..200 {
            away += u32::from(climb(2, 8, windows, |workers| 1.0 + 0.01 * workers as f64).active() != 2);
        }
        assert!(away < 10, "{away} of 200 windows");
    }

    #[test]
    fn a_single_worker_stays_single_where_there_must_be_no_more() {
        assert_eq!(climb(1, 1, 50, |workers| workers as f64).active(), 1);
        assert_eq!(Climb::new(0, 0).active(), 1);
    }
}
