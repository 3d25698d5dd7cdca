//! A second thread that looks at the first one while a store of that takes long, and at what the kernel has to write.
//!
//! What it sees of a waiting thread is the kernel's own stack (`/proc/self/task/TID/stack`), which needs root, or else the
//! one function in which it sleeps (`wchan`). A thread that runs, or is ready to, has nothing to be seen.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::waits::{self, Wait};

/// How often it looks.
const TICK: Duration = Duration::from_micros(250);
/// How often it looks at what is to be written.
const TOCK: Duration = Duration::from_millis(50);
/// A store is looked at so often at most.
const LOOKS: usize = 200;
/// Places that are kept.
const PLACES: usize = 100;
/// Bytes of what is read at once, and more.
const ROOM: usize = 16 << 10;

/// What is between the thread that stores and the one that looks.
pub struct Watch {
    begun: Instant,
    threshold: Duration,
    /// Nanoseconds from `begun` to the beginning of the store that is under way; 0 if none is.
    storing: AtomicU64,
    over: AtomicBool,
    seen: Mutex<Seen>,
    places: Mutex<Places>,
}

/// Where threads were seen to wait: what for, and the innermost functions of the kernel; how often.
pub type Places = BTreeMap<(Wait, String), u64>;

#[derive(Default)]
struct Seen {
    /// Of the store that began at this nanosecond.
    of: u64,
    waits: Vec<Wait>,
}

/// What the kernel had to write while it was watched, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// How often it was looked at.
    pub looks: u64,
    /// Most that was dirty: changed, and not being written.
    pub dirty_most: u64,
    /// The same on average.
    pub dirty_mean: u64,
    /// Most that was being written.
    pub writeback_most: u64,
    /// The same on average.
    pub writeback_mean: u64,
    /// Looks at which something was being written.
    pub writing: u64,
}

impl Watch {
    /// One that looks at stores which take longer than this.
    pub fn new(threshold: Duration) -> Watch {
        Watch {
            begun: Instant::now(),
            threshold,
            storing: AtomicU64::new(0),
            over: AtomicBool::new(false),
            seen: Mutex::default(),
            places: Mutex::default(),
        }
    }

    /// Where it was seen to wait in all stores that took long.
    pub fn places(&self) -> Places {
        std::mem::take(&mut self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> u64 {
        // Of a few hours at most; never 0, which means something else.
        (self.begun.elapsed().as_nanos() as u64).max(1)
    }

    /// A store begins: what it is known by.
    pub fn begin(&self) -> u64 {
        let now = self.now();
        self.storing.store(now, Ordering::Release);
        now
    }

    /// It has ended.
    pub fn end(&self) {
        self.storing.store(0, Ordering::Release);
    }

    /// Where the store was seen.
    pub fn seen(&self, store: u64) -> Vec<Wait> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.of == store { std::mem::take(&mut seen.waits) } else { Vec::new() }
    }

    /// There will be no more stores.
    pub fn close(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Looks at the thread with this number until [`Watch::close`].
    pub fn look(&self, thread: i32) -> Pending {
        let mut task = Task::of(thread);
        let (mut pending, mut text) = (Pending::default(), String::with_capacity(ROOM));
        let mut next = Instant::now();
        while !self.over.load(Ordering::Acquire) {
            let store = self.storing.load(Ordering::Acquire);
            let now = self.now();
            if store != 0 && Duration::from_nanos(now.saturating_sub(store)) >= self.threshold {
                self.look_at(&mut task, store);
            }
            if Instant::now() >= next {
                pending.add(&mut text);
                next = Instant::now() + TOCK;
            }
            std::thread::sleep(TICK);
        }
        pending.averaged()
    }

    fn look_at(&self, task: &mut Task, store: u64) {
        let Some((wait, place)) = task.waits_for() else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.of != store {
            *seen = Seen { of: store, waits: Vec::new() };
        }
        // If it has ended meanwhile, this was seen of what came after it.
        if self.storing.load(Ordering::Acquire) == store && seen.waits.len() < LOOKS {
            seen.waits.push(wait);
            drop(seen);
            if wait.stands_still() {
                let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                if places.len() < PLACES || places.contains_key(&(wait, place.clone())) {
                    *places.entry((wait, place)).or_default() += 1;
                }
            }
        }
    }
}

/// Where the kernel reports on a thread.
///
/// What is read has its place from the beginning: memory that is asked for while the other thread is in the kernel for a page
/// may have to wait until that is there.
struct Task {
    stat: PathBuf,
    stack: PathBuf,
    wchan: PathBuf,
    text: String,
}

impl Task {
    fn of(thread: i32) -> Task {
        let path = |name: &str| PathBuf::from(format!("/proc/self/task/{thread}/{name}"));
        Task { stat: path("stat"), stack: path("stack"), wchan: path("wchan"), text: String::with_capacity(ROOM) }
    }

    /// What the thread waits for, and where: the processor as well, if it runs or is ready to. `None` if nothing can be seen.
    fn waits_for(&mut self) -> Option<(Wait, String)> {
        let stat = read(&self.stat, &mut self.text)?;
        // The name before it is in parentheses and may have any in it.
        if stat.rsplit_once(") ")?.1.starts_with('R') {
            return Some((Wait::NotOnProcessor, String::new()));
        }
        let named = |text: &str| Some((waits::place(text)?, waits::functions(text)));
        read(&self.stack, &mut self.text).and_then(named).or_else(|| named(read(&self.wchan, &mut self.text)?))
    }
}

/// The text of a file in `/proc`, in memory that is there already.
fn read<'a>(path: &Path, text: &'a mut String) -> Option<&'a str> {
    text.clear();
    File::open(path).and_then(|mut file| file.read_to_string(text)).ok()?;
    Some(text)
}

/// Whether the kernel shows stacks to this process.
pub fn sees_stacks() -> bool {
    std::fs::read_to_string("/proc/self/stack").is_ok_and(|stack| !stack.trim().is_empty())
}

/// Nanoseconds for which the calling thread was ready to run and had no processor, if the kernel counts them.
pub fn ready_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

impl Pending {
    /// Looks once more. Until [`Pending::averaged`] the means are sums.
    fn add(&mut self, text: &mut String) {
        let Some(text) = read(Path::new("/proc/meminfo"), text) else { return };
        let (dirty, writeback) = (amount(text, "Dirty:"), amount(text, "Writeback:"));
        self.looks += 1;
        self.dirty_most = self.dirty_most.max(dirty);
        self.writeback_most = self.writeback_most.max(writeback);
        self.writing += u64::from(writeback > 0);
        self.dirty_mean += dirty;
        self.writeback_mean += writeback;
    }

    fn averaged(self) -> Pending {
        let looks = self.looks.max(1);
        Pending { dirty_mean: self.dirty_mean / looks, writeback_mean: self.writeback_mean / looks, ..self }
    }
}

/// Bytes of a line of `/proc/meminfo`; 0 if there is none.
fn amount(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_by_their_whole_names() {
        let text = "Dirty:               128 kB\nWriteback:             4 kB\nWritebackTmp:         16 kB\n";
        assert_eq!((amount(text, "Dirty:"), amount(text, "Writeback:"), amount(text, "Mapped:")), (131_072, 4096, 0));
    }

    #[test]
    fn who_sleeps_is_seen_while_it_does() {
        let watch = Watch::new(Duration::ZERO);
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let watch = &watch;
            let sleeper = scope.spawn(move || {
                sender.send(haul_sys::rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                let asleep = |_| {
                    let store = watch.begin();
                    std::thread::sleep(Duration::from_millis(1));
                    watch.end();
                    // It may have been seen while it was about to sleep, or while it waited for memory.
                    let seen = watch.seen(store);
                    seen.iter().any(|wait| matches!(wait, Wait::Unknown | Wait::NotOnProcessor))
                };
                let is_seen = (0..100_000).any(asleep);
                watch.close();
                is_seen
            });
            let pending = watch.look(receiver.recv().unwrap());
            assert!(pending.looks > 0);
            assert!(sleeper.join().unwrap());
        });
    }
}
