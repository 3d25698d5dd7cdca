//! How far a run is, for people who wait.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haul_copy::Wanted;
use haul_copy::plan::{Dereference, LinkMode, Plan};
use haul_copy::walk::{Descent, Entered, Operand};
use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};

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
    pub(crate) fn add_entry(&self) {
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more entries are being worked on, elsewhere.
    pub fn add_entries(&self, entries: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    /// Bytes and entries so far.
    pub fn done(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.entries.load(Ordering::Relaxed))
    }

    /// This file is being copied now.
    pub(crate) fn set_current(&self, path: &Path) {
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

/// Files of several names that are remembered while counting. Whoever has more gets no forecast.
const MOST_LINKED: usize = 100_000;

/// Counts the sources of a plan by the rules of the run, nearly: it is a forecast. `None` if there can be none.
fn count(plan: &Plan, stop: &dyn Fn() -> bool) -> Option<Totals> {
    // Through links there may be loops, which only the run itself can distinguish from what is wanted.
    if plan.recursive && plan.dereference == Dereference::Always {
        return None;
    }
    let mut counter = Counter { plan, stop, totals: Totals::default(), linked: HashSet::new() };
    plan.sources.iter().try_for_each(|source| counter.operand(source))?;
    Some(counter.totals)
}

struct Counter<'a> {
    plan: &'a Plan,
    stop: &'a dyn Fn() -> bool,
    totals: Totals,
    linked: HashSet<FileId>,
}

impl Counter<'_> {
    /// `None`: there will be no forecast. What cannot be looked at or read is not copied either.
    fn operand(&mut self, source: &OsStr) -> Option<()> {
        let follow = self.plan.dereference != Dereference::Never;
        let operand = Operand::open(source);
        let spot = operand.spot();
        let found = if follow { spot.inode_following() } else { spot.inode() };
        let Ok(found) = found else { return Some(()) };
        self.add(&found)?;
        if found.kind != Kind::Directory || !self.plan.recursive {
            return Some(());
        }
        let Ok(top) = Entered::open(spot, follow, None, ()) else { return Some(()) };
        self.tree(top, found.id.device())
    }

    /// Counts what is in a directory and below it.
    fn tree(&mut self, top: Entered<()>, device: DeviceNumber) -> Option<()> {
        // The copy itself may need all other descriptors.
        let mut descent = Descent::new(1);
        descent.enter(top);
        while let Some(level) = descent.innermost() {
            let Ok(Some(listed)) = level.next_name() else {
                // Of directories that were moved meanwhile, the rest is not counted.
                drop(descent.leave());
                continue;
            };
            if (self.stop)() {
                return None;
            }
            let spot = level.spot(&listed.name, Path::new(""));
            let Ok(inode) = spot.inode() else { continue };
            self.add(&inode)?;
            if Wanted::new(self.plan, &[]).contents(&inode, Some(device))
                && let Ok(next) = Entered::open(spot, false, Some(level.path()), ())
            {
                descent.enter(next);
            }
        }
        Some(())
    }

    fn add(&mut self, inode: &Inode) -> Option<()> {
        self.totals.entries += 1;
        let known = inode.kind != Kind::Directory && inode.links > 1 && !self.linked.insert(inode.id);
        if inode.kind == Kind::Regular && self.plan.link == LinkMode::Copy && !(known && self.plan.preserve.links) {
            self.totals.bytes += inode.size;
        }
        (self.linked.len() <= MOST_LINKED).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use haul_sys::rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;
    use std::fs;

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

    fn plan(source: &Path) -> Plan {
        Plan { sources: vec![source.into()], recursive: true, dereference: Dereference::Never, ..Plan::default() }
    }

    #[test]
    fn everything_below_the_sources_is_counted_files_of_several_names_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep = dir.path().join("s/one/two");
        fs::create_dir_all(&deep).expect("directories");
        fs::write(deep.join("file"), "12345").expect("a file");
        fs::hard_link(deep.join("file"), dir.path().join("s/other")).expect("a link");
        let mut plan = plan(&dir.path().join("s"));
        assert_eq!(count(&plan, &|| false), Some(Totals { bytes: 10, entries: 5 }));
        plan.preserve.links = true;
        assert_eq!(count(&plan, &|| false), Some(Totals { bytes: 5, entries: 5 }));
        assert_eq!(count(&plan, &|| true), None);
    }

    #[test]
    fn a_directory_swapped_for_a_link_while_counting_does_not_lead_out_of_the_source() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("s/dir")).expect("directories");
        fs::create_dir(path("outside")).expect("a directory");
        for number in 0..50 {
            fs::write(path("outside").join(number.to_string()), "").expect("a file");
        }
        std::os::unix::fs::symlink(path("outside"), path("s/link")).expect("a link");
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let (one, other) = (path("s/dir"), path("s/link"));
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("both are there");
                }
            });
            let most = (0..3000).filter_map(|_| count(&plan(&path("s")), &|| false)).map(|all| all.entries).max();
            over.store(true, Ordering::Relaxed);
            // The directory and both of its entries; one may be met twice, under its old and its new name.
            assert!(most.is_some_and(|most| most < 10), "{most:?}");
        });
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
