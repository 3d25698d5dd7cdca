//! How far a run is, for people who wait.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haul_copy::plan::{Dereference, LinkMode, Plan};

use crate::quote::Quoter;
use crate::size::human_size;

/// Runs that take less time than this show no bar.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// What has been done so far. Counted by the threads that copy, read by the one that draws.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    bytes: AtomicU64,
    entries: AtomicU64,
    current: Mutex<PathBuf>,
    totals: OnceLock<Totals>,
}

/// All that there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes of regular files.
    pub bytes: u64,
    /// Entries of all kinds.
    pub entries: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            started: Instant::now(),
            bytes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            current: Mutex::new(PathBuf::new()),
            totals: OnceLock::new(),
        }
    }
}

impl Progress {
    /// So many more bytes are in place.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One more entry is being worked on.
    pub fn add_entry(&self) {
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    /// This file is being copied now.
    pub fn set_current(&self, path: &Path) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Keeps the allocation of the name before.
        current.as_mut_os_string().clear();
        current.as_mut_os_string().push(path);
    }

    /// Counts what there is to do; from then on the bar knows the time left.
    pub fn count(&self, plan: &Plan, stop: &dyn Fn() -> bool) {
        if let Some(totals) = count(plan, stop) {
            // Only one thread counts, so nothing can be there yet.
            self.totals.get_or_init(|| totals);
        }
    }

    /// A line of at most so many columns.
    pub fn line(&self, rate: &mut Rate, quoter: &Quoter, columns: usize) -> Vec<u8> {
        let done = Totals { bytes: self.bytes.load(Ordering::Relaxed), entries: self.entries.load(Ordering::Relaxed) };
        let speed = rate.update(self.started.elapsed(), done.bytes);
        // A guess that has proved too low is none.
        let totals = self.totals.get().filter(|all| all.bytes >= done.bytes && all.entries >= done.entries);
        let text = summary(done, totals.copied(), speed);
        let mut line = text.into_bytes();
        line.truncate(columns);
        let room = columns.saturating_sub(line.len() + 2);
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if room >= 8 && !current.as_os_str().is_empty() {
            line.extend(b"  ");
            line.extend(quoter.tail(current.as_os_str().as_bytes(), room));
        }
        line
    }
}

/// The numbers of the bar; ASCII only.
fn summary(done: Totals, totals: Option<Totals>, speed: f64) -> String {
    // Rates are positive and far below 2^63.
    let rate = format!("{}/s", human_size(speed as u64));
    let Some(all) = totals else {
        return format!("{}  {} files  {rate}", human_size(done.bytes), done.entries);
    };
    let share = if all.bytes > 0 {
        done.bytes as f64 / all.bytes as f64
    } else {
        done.entries as f64 / all.entries.max(1) as f64
    };
    const WIDTH: usize = 20;
    let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
    let left = match speed {
        speed if speed >= 1.0 => clock((all.bytes - done.bytes) as f64 / speed),
        _ => "-:--".to_owned(),
    };
    format!(
        "[{}{}] {:3.0}%  {} of {}  {} of {} files  {rate}  {left} left",
        "#".repeat(filled),
        "-".repeat(WIDTH - filled),
        (share * 100.0).floor(),
        human_size(done.bytes),
        human_size(all.bytes),
        done.entries,
        all.entries,
    )
}

/// Seconds as hours, minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Bytes per second, with the last seconds weighing most.
#[derive(Debug, Default)]
pub struct Rate {
    time: Duration,
    bytes: u64,
    smooth: Option<f64>,
}

impl Rate {
    /// Takes in how far the run is after so much time, and returns the rate.
    fn update(&mut self, time: Duration, bytes: u64) -> f64 {
        /// After this many seconds an old rate counts as much as the new one.
        const MEMORY: f64 = 3.0;
        let seconds = time.saturating_sub(self.time).as_secs_f64();
        if seconds > 0.0 {
            let now = bytes.saturating_sub(self.bytes) as f64 / seconds;
            let weight = seconds / (seconds + MEMORY);
            let smooth = self.smooth.map_or(now, |smooth| smooth + weight * (now - smooth));
            (self.time, self.bytes, self.smooth) = (time, bytes, Some(smooth));
        }
        self.smooth.unwrap_or(0.0)
    }
}

/// Counts the sources of a plan by the rules of the run, nearly: it is a forecast. `None` if there can be none.
fn count(plan: &Plan, stop: &dyn Fn() -> bool) -> Option<Totals> {
    // Through links there may be loops, which only the run itself can tell from what is wanted.
    if plan.recursive && plan.dereference == Dereference::Always {
        return None;
    }
    let mut totals = Totals::default();
    let mut linked = HashSet::new();
    let mut left: Vec<(PathBuf, Option<u64>)> =
        plan.sources.iter().map(|source: &OsString| (PathBuf::from(source), None)).collect();
    while let Some((path, device)) = left.pop() {
        if stop() {
            return None;
        }
        let follow = device.is_none() && plan.dereference != Dereference::Never;
        let Ok(attributes) = (if follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) }) else { continue };
        let device = device.unwrap_or(attributes.dev());
        totals.entries += 1;
        let known = attributes.nlink() > 1 && !linked.insert((attributes.dev(), attributes.ino()));
        if attributes.is_file() && plan.link == LinkMode::Copy && !(known && plan.preserve.links) {
            totals.bytes += attributes.len();
        }
        let inside = plan.recursive && !(plan.one_file_system && attributes.dev() != device);
        if attributes.is_dir() && inside {
            // What cannot be read is not copied either.
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| (entry.path(), Some(device))));
        }
    }
    Some(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_totals_nothing_is_said_of_the_time_left() {
        let line = summary(Totals { bytes: 3 << 20, entries: 7 }, None, 1048576.0);
        assert_eq!(line, "3.0 MiB  7 files  1.0 MiB/s");
    }

    #[test]
    fn with_totals_share_and_time_left_are_shown() {
        let done = Totals { bytes: 25 << 20, entries: 7 };
        let all = Totals { bytes: 100 << 20, entries: 10 };
        let line = summary(done, Some(all), 1048576.0);
        let expected = "[#####---------------]  25%  25.0 MiB of 100.0 MiB  7 of 10 files  1.0 MiB/s  1:15 left";
        assert_eq!(line, expected);
        assert_eq!(clock(3725.0), "1:02:05");
    }

    #[test]
    fn the_rate_follows_the_last_seconds() {
        let mut rate = Rate::default();
        assert_eq!(rate.update(Duration::from_secs(1), 100), 100.0);
        let later = rate.update(Duration::from_secs(31), 100);
        assert!(later < 10.0, "{later}");
    }

    #[test]
    fn a_line_fits_the_terminal() {
        let quoter = Quoter::from_environment();
        let progress = Progress::default();
        progress.set_current(Path::new("a/long/name/of/a/file\nwith a line break"));
        for columns in [0, 10, 40, 80] {
            let line = progress.line(&mut Rate::default(), &quoter, columns);
            assert!(line.len() <= columns, "{columns}: {line:?}");
            assert!(!line.contains(&b'\n'));
        }
    }
}
