//! How far a session is, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use haul_sys::rustix::termios::tcgetwinsize;

/// A line that is drawn again and again, or without a terminal a line for each group of cases.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    started: Instant,
    /// Work of the whole session, and what is done of it. Units are bytes to be copied, with something for each run.
    expected: f64,
    done: f64,
    /// Done before this session began, which says nothing of its speed.
    before: f64,
    group: String,
}

/// What a run costs besides its bytes, in bytes: making sure that it is cold, touching memory, syncing.
pub(super) const OVERHEAD: f64 = 100e6;

impl Progress {
    pub(crate) fn on_terminal() -> Progress {
        Progress {
            terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            expected: 0.0,
            done: 0.0,
            before: 0.0,
            group: String::new(),
        }
    }

    /// So many runs, each of so many bytes, are to come.
    pub fn expect(&mut self, runs: usize, bytes: u64) {
        self.expected += runs as f64 * (bytes as f64 + OVERHEAD);
    }

    /// A run is over, or will not be; `now` if this session did it.
    pub(crate) fn run_over(&mut self, bytes: u64, now: bool) {
        let work = bytes as f64 + OVERHEAD;
        self.done += work;
        if !now {
            self.before += work;
        }
    }

    pub fn say(&mut self, group: &str, what: &str) {
        if !self.terminal {
            if self.group != group {
                eprintln!("haul-lab: {group}");
            }
        } else {
            let left = self.left(self.started.elapsed()).map(|left| format!(" - about {} left", in_words(left)));
            let text = format!("{group}: {what}{}", left.unwrap_or_default());
            let columns = tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col)).max(20);
            let text: String = text.chars().take(columns - 1).collect();
            let mut err = std::io::stderr().lock();
            // A terminal that is gone needs no progress.
            write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()).ok();
        }
        group.clone_into(&mut self.group);
    }

    /// Time that is left if all goes on as it did.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let here = self.done - self.before;
        let left = self.expected - self.done;
        (here > 0.0 && left > 0.0).then(|| elapsed.mul_f64((left / here).min(1e6)))
    }

    /// Makes room for other words.
    pub fn clear(&self) {
        if self.terminal {
            let mut err = std::io::stderr().lock();
            write!(err, "\r\x1b[K").and_then(|()| err.flush()).ok();
        }
    }
}

/// A time for people who wait.
pub fn in_words(time: Duration) -> String {
    match time.as_secs() {
        0..100 => format!("{} s", time.as_secs()),
        100..6000 => format!("{} min", time.as_secs().div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_session_did_says_nothing_of_the_time_that_is_left() {
        let mut progress = Progress::on_terminal();
        progress.expect(4, 900_000_000);
        progress.run_over(900_000_000, false);
        assert_eq!(progress.left(Duration::from_secs(10)), None);
        progress.run_over(900_000_000, true);
        assert_eq!(progress.left(Duration::from_secs(10)), Some(Duration::from_secs(20)));
    }

    #[test]
    fn times_are_shown_in_the_unit_that_suits_them() {
        let words = [5, 99, 100, 3599, 7260].map(|seconds| in_words(Duration::from_secs(seconds)));
        assert_eq!(words, ["5 s", "99 s", "2 min", "60 min", "2 h 1 min"]);
    }
}
