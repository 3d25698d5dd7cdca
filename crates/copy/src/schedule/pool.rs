//! The threads that copy a tree together: who waits for work, how many may work at a time, when all is done.
//!
//! Work is given away only when somebody waits for it, so the queue is as long as the number of waiting threads at most,
//! and every task in it is taken at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use haul_cluster::SpareCapacity;
use haul_io::facts;
use haul_io::tuner::{Load, Tuner};
use haul_sys::rustix::time::{ClockId, clock_gettime};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::schedule::ordered::Meter;

/// Throughput is measured over this time at least, and over so much work, unless the work takes very long.
const SHORT: Duration = Duration::from_millis(25);
const LONG: Duration = Duration::from_millis(500);
const ENOUGH_WORK: u64 = 400;

/// So many bytes take about as long as an entry of its own.
const BYTES_LIKE_AN_ENTRY: u64 = 64 << 10;

/// From these shares of all processors' time on their load is high, and full.
const HIGH: f64 = 0.8;
const FULL: f64 = 0.95;

/// How often a thread that has to wait looks again whether it still has to. What it waits for has no one place at which
/// it could be signalled.
const PATIENCE: Duration = Duration::from_millis(5);

/// The threads of a run and the work between them.
pub(crate) struct Pool<T> {
    state: Mutex<State<T>>,
    /// There is work, or no more will come.
    work: Condvar,
    /// A task was finished, or a thread stopped working.
    change: Condvar,
    /// Tasks that could be given away now.
    wanted: Arc<AtomicUsize>,
    /// More threads are working than should.
    crowded: AtomicBool,
    /// Work done since the last measurement, in entries.
    done: AtomicU64,
    /// When the next measurement is due, in milliseconds since `began`.
    due: AtomicU64,
    began: Duration,
    /// Processors that this process may use.
    cores: OnceLock<f64>,
    /// Directories that may still be held open for parts in other hands.
    parking: Arc<AtomicUsize>,
}

/// A directory is held open until this is dropped.
pub(crate) struct Parking(Arc<AtomicUsize>);

impl Drop for Parking {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct State<T> {
    queue: VecDeque<T>,
    /// Threads that wait for a task.
    waiting: usize,
    /// Threads that work.
    running: usize,
    /// Tasks in the queue and in hand.
    open: usize,
    /// Threads beside the first one.
    spawned: usize,
    most: usize,
    tuning: Tuning,
    measured: Instant,
    /// Processor time of the process until then.
    worked: Duration,
    closed: bool,
    /// A thread panicked: nobody waits for anything any more.
    abandoned: bool,
}

/// How many threads may work, and what was known of that in the beginning.
struct Tuning {
    tuner: Tuner,
    given: Tuner,
    /// A profile said how many.
    fixed: bool,
}

impl Tuning {
    /// So many threads, or what was known in the beginning. False if nothing has changed.
    fn fix(&mut self, jobs: Option<usize>) -> bool {
        if jobs.is_none() && !self.fixed {
            return false;
        }
        self.tuner = self.given.clone();
        jobs.into_iter().for_each(|jobs| self.tuner.fix(jobs));
        self.fixed = jobs.is_some();
        true
    }
}

/// What became of a task that was offered.
pub(crate) enum Offer<T> {
    /// Somebody will take it.
    Taken,
    /// The caller starts another thread that does it first of all and then asks for more, or says that it could not.
    /// Only the one thread gets it: through the queue, two that spawn at a time could get back each other's task.
    ForNewThread(T),
    /// Nobody wants it any more.
    Back(T),
}

impl<T: Send> Meter for Pool<T> {
    fn count(&self, bytes: u64) {
        Pool::count(self, 0, bytes);
    }

    fn turn_may_have_come(&self) {
        self.change.notify_all();
    }
}

impl<T> Pool<T> {
    /// A pool of one, who is working. The tuner says how many may work, and how many threads there may be.
    /// At most `parking` directories are held open for parts in other hands.
    pub fn new(tuner: Tuner, parking: usize) -> Pool<T> {
        let now = Instant::now();
        let pool = Pool {
            wanted: Arc::default(),
            crowded: AtomicBool::new(false),
            done: AtomicU64::new(0),
            due: AtomicU64::new(SHORT.as_millis() as u64),
            began: since_boot(),
            cores: OnceLock::new(),
            parking: Arc::new(AtomicUsize::new(parking)),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                waiting: 0,
                running: 1,
                open: 0,
                spawned: 0,
                most: tuner.ceiling(),
                tuning: Tuning { given: tuner.clone(), tuner, fixed: false },
                measured: now,
                worked: processor_time(),
                closed: false,
                abandoned: false,
            }),
            work: Condvar::new(),
            change: Condvar::new(),
        };
        pool.publish(&pool.state.lock());
        pool
    }

    /// Whether there can ever be a second one.
    pub fn is_alone(&self) -> bool {
        self.state.lock().most == 1
    }

    /// Begins with one thread: more than one may be slower on this device.
    pub fn start_low(&self) {
        let mut state = self.state.lock();
        state.tuning.tuner.start_low();
        self.publish(&state);
    }

    /// Begins with more threads than processors where they wait for a server; whether they do is asked until it is so.
    pub fn start_remote_if(&self, has_server: impl FnOnce() -> bool) {
        if !self.state.lock().tuning.tuner.may_start_remote() || !has_server() {
            return;
        }
        let mut state = self.state.lock();
        state.tuning.tuner.start_remote();
        self.publish(&state);
    }

    /// So many threads, or as many as there can be, for the user's profile knows the storage. `None`: it does not, and the
    /// number is found again.
    pub fn fix(&self, jobs: Option<usize>) {
        let mut state = self.state.lock();
        if state.tuning.fix(jobs) {
            self.publish(&state);
        }
    }

    /// How many tasks could be given to it now, for other processes to see.
    pub fn spare_capacity(&self) -> SpareCapacity {
        SpareCapacity::of(Arc::clone(&self.wanted))
    }

    /// For the first thread of a process that begins with nothing: it is as one that was spawned and has done its task.
    pub fn start_idle(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        self.publish(&state);
    }

    /// How many tasks are in the queue and in hand.
    pub fn open(&self) -> usize {
        self.state.lock().open
    }

    /// A task is in the hands of another process.
    pub fn one_more(&self) {
        self.state.lock().open += 1;
    }

    /// It is not any more, and nobody has to do anything about it.
    pub fn one_fewer(&self) {
        let mut state = self.state.lock();
        state.open -= 1;
        let all_done = state.open == 0;
        drop(state);
        if all_done {
            self.work.notify_all();
        }
    }

    /// A task that has come from another process, and that a thread of its own may have to do: whoever waits takes it, else
    /// the caller spawns a thread.
    pub fn accept(&self, task: T) -> Offer<T> {
        let mut state = self.state.lock();
        state.open += 1;
        if state.queue.len() < state.waiting {
            // Also one too many at work: others may be waiting for this very task.
            state.queue.push_back(task);
            self.publish(&state);
            drop(state);
            self.work.notify_one();
            return Offer::Taken;
        }
        state.spawned += 1;
        state.running += 1;
        self.publish(&state);
        Offer::ForNewThread(task)
    }

    /// No thread could be spawned for a task that was accepted: it waits for one that comes by.
    pub fn keep_for_later(&self, task: T) {
        let mut state = self.state.lock();
        state.spawned -= 1;
        state.running -= 1;
        state.queue.push_back(task);
        self.publish(&state);
        drop(state);
        self.work.notify_one();
    }

    /// Whether somebody would take a task now.
    pub fn wants_work(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    pub fn give(&self, task: T) -> Offer<T> {
        let mut state = self.state.lock();
        if wanted(&state) == 0 {
            return Offer::Back(task);
        }
        state.open += 1;
        if state.queue.len() == state.waiting {
            state.spawned += 1;
            state.running += 1;
            self.publish(&state);
            return Offer::ForNewThread(task);
        }
        state.queue.push_back(task);
        self.publish(&state);
        drop(state);
        // Whoever waits takes it: one is enough.
        self.work.notify_one();
        Offer::Taken
    }

    /// The thread that was to do a task could not be started, nor will others be: the caller keeps the task.
    pub fn could_not_spawn(&self) {
        let mut state = self.state.lock();
        state.spawned -= 1;
        state.most = state.spawned + 1;
        self.one_less(state);
    }

    /// Waits for a task. `None`: there will be no more.
    pub fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.publish(&state);
        loop {
            if let Some(task) = state.queue.pop_front().filter(|_| !state.abandoned) {
                state.waiting -= 1;
                state.running += 1;
                self.publish(&state);
                return Some(task);
            }
            if state.closed {
                state.waiting -= 1;
                return None;
            }
            self.work.wait(&mut state);
        }
    }

    pub fn finished(&self) {
        self.one_less(self.state.lock());
    }

    /// A task is no longer open, and who had it is not at work.
    fn one_less(&self, mut state: MutexGuard<'_, State<T>>) {
        state.running -= 1;
        state.open -= 1;
        self.publish(&state);
        let all_done = state.open == 0;
        drop(state);
        if all_done {
            // For the one who waits for the end of all, among those who wait for work.
            self.work.notify_all();
        }
        self.change.notify_all();
    }

    /// Works until all tasks are done. For the first thread, which counts as working before and after.
    pub fn drain(&self, mut work: impl FnMut(T)) {
        let mut state = self.state.lock();
        if state.open == 0 {
            return;
        }
        state.running -= 1;
        state.waiting += 1;
        self.publish(&state);
        while state.open > 0 && !state.abandoned {
            let Some(task) = state.queue.pop_front() else {
                self.work.wait(&mut state);
                continue;
            };
            state.waiting -= 1;
            state.running += 1;
            self.publish(&state);
            drop(state);
            work(task);
            self.finished();
            state = self.state.lock();
            state.waiting += 1;
            self.publish(&state);
        }
        state.waiting -= 1;
        state.running += 1;
        self.publish(&state);
    }

    pub fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
    }

    /// A thread panicked and cannot finish what it had in hand: nobody may wait for that.
    pub fn abandon(&self) {
        let mut state = self.state.lock();
        state.abandoned = true;
        state.closed = true;
        drop(state);
        self.work.notify_all();
        self.change.notify_all();
    }

    /// Lets this thread rest while more are working than should, or as long as `too_far` says. To be called between two
    /// entries, where nobody can be waiting for this thread.
    pub fn rest_if_needed(&self, too_far: impl Fn() -> bool, stop: impl Fn() -> bool) {
        if !self.crowded.load(Ordering::Relaxed) && !too_far() {
            return;
        }
        self.rest(|state| (state.running < state.tuning.tuner.level() && !too_far()) || stop());
    }

    /// Lets this thread rest until the condition holds, which another thread brings about.
    pub fn rest_until(&self, condition: impl Fn() -> bool) {
        self.rest(|_| condition());
    }

    fn rest(&self, over: impl Fn(&State<T>) -> bool) {
        let mut state = self.state.lock();
        state.running -= 1;
        self.publish(&state);
        self.change.notify_all();
        while !over(&state) && !state.abandoned {
            self.change.wait_for(&mut state, PATIENCE);
        }
        state.running += 1;
        self.publish(&state);
    }

    /// Asks whether a directory may be held open for parts in other hands.
    pub fn reserve_parking(&self) -> Option<Parking> {
        let less = |free: usize| free.checked_sub(1);
        self.parking.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Parking(Arc::clone(&self.parking)))
    }

    /// Counts work, and now and then draws a conclusion from it.
    pub fn count(&self, entries: u64, bytes: u64) {
        let work = entries + bytes / BYTES_LIKE_AN_ENTRY;
        if work == 0 {
            return;
        }
        self.done.fetch_add(work, Ordering::Relaxed);
        let now = since_boot().saturating_sub(self.began);
        if (now.as_millis() as u64) < self.due.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        let elapsed = state.measured.elapsed();
        if elapsed < SHORT || (self.done.load(Ordering::Relaxed) < ENOUGH_WORK && elapsed < LONG) {
            return;
        }
        let done = self.done.swap(0, Ordering::Relaxed);
        let worked = processor_time();
        let cores = self.cores.get_or_init(|| facts::cores() as f64);
        let load = load(worked.saturating_sub(state.worked).as_secs_f64() / (cores * elapsed.as_secs_f64()));
        (state.measured, state.worked) = (Instant::now(), worked);
        self.due.store((now + SHORT).as_millis() as u64, Ordering::Relaxed);
        // Fewer at work than allowed says nothing about the level.
        if state.running >= state.tuning.tuner.level() {
            let before = state.tuning.tuner.level();
            let now = state.tuning.tuner.measured(done as f64 / elapsed.as_secs_f64(), load);
            self.publish(&state);
            drop(state);
            if now > before {
                self.change.notify_all();
            }
        }
    }

    /// Makes the state visible to those who look without locking.
    fn publish(&self, state: &State<T>) {
        self.wanted.store(wanted(state), Ordering::Relaxed);
        self.crowded.store(state.running > state.tuning.tuner.level(), Ordering::Relaxed);
    }
}

fn load(share: f64) -> Load {
    match share {
        _ if share >= FULL => Load::Full,
        _ if share >= HIGH => Load::High,
        _ => Load::Low,
    }
}

/// To the kernel's tick (at most 10 ms), which costs an eighth of what [`Instant`] does.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of all threads of this process so far.
fn processor_time() -> Duration {
    // Neither number is negative.
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn wanted<T>(state: &State<T>) -> usize {
    let may_work = state.tuning.tuner.level().saturating_sub(state.running);
    let hireable = (state.most - 1).saturating_sub(state.spawned);
    may_work.min(state.waiting + hireable).saturating_sub(state.queue.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_wanted_only_while_fewer_threads_work_than_may() {
        let pool: Pool<u32> = Pool::new(Tuner::fixed(2), 8);
        assert!(pool.wants_work());
        assert!(matches!(pool.give(1), Offer::ForNewThread(1)));
        assert!(!pool.wants_work());
        assert!(matches!(pool.give(2), Offer::Back(2)));
        let alone: Pool<u32> = Pool::new(Tuner::fixed(1), 8);
        assert!(!alone.wants_work() && alone.is_alone());
    }

    #[test]
    fn a_number_that_is_fixed_later_is_the_number_of_threads_within_what_there_can_be() {
        for (jobs, wants) in [(1, false), (2, true), (100, true)] {
            let pool: Pool<u32> = Pool::new(Tuner::of_tree(2, 4, 0), 8);
            pool.fix(Some(jobs));
            assert_eq!((pool.wants_work(), pool.state.lock().tuning.tuner.level()), (wants, jobs.min(4)));
            pool.fix(None);
            assert_eq!(pool.state.lock().tuning.tuner.level(), 2, "elsewhere it is found again");
        }
    }

    #[test]
    fn where_a_server_has_the_files_more_threads_may_work_and_nobody_asks_again() {
        let level = |pool: &Pool<u32>| pool.state.lock().tuning.tuner.level();
        let pool: Pool<u32> = Pool::new(Tuner::of_tree(2, 1000, 32), 8);
        pool.start_remote_if(|| false);
        assert_eq!(level(&pool), 2);
        pool.start_remote_if(|| true);
        assert_eq!((level(&pool), pool.spare_capacity().tasks()), (8, 7));
        pool.start_remote_if(|| panic!("it is known"));
        let fixed: Pool<u32> = Pool::new(Tuner::fixed(2), 8);
        fixed.start_remote_if(|| panic!("the user said how many"));
    }

    #[test]
    fn draining_does_all_work_that_is_left_and_then_all_that_came_of_it() {
        let pool: Pool<u32> = Pool::new(Tuner::fixed(8), 8);
        // As if somebody waited, who is never quick enough.
        pool.state.lock().waiting = 1;
        assert!(matches!(pool.give(3), Offer::Taken));
        let mut done = Vec::new();
        pool.drain(|task| {
            done.push(task);
            if task > 0 {
                assert!(matches!(pool.give(task - 1), Offer::Taken));
            }
        });
        assert_eq!(done, [3, 2, 1, 0]);
    }

    #[test]
    fn who_cannot_hire_keeps_the_task_and_no_other_thread_is_asked_for() {
        let pool: Pool<u32> = Pool::new(Tuner::fixed(8), 8);
        let (first, second) = (pool.give(1), pool.give(2));
        assert!(matches!((first, second), (Offer::ForNewThread(1), Offer::ForNewThread(2))));
        pool.could_not_spawn();
        assert!(!pool.wants_work());
        pool.could_not_spawn();
        assert!(!pool.wants_work() && matches!(pool.give(3), Offer::Back(3)));
        pool.drain(|_| panic!("there is nothing to do"));
    }

    #[test]
    fn every_task_is_done_once_by_any_number_of_threads() {
        let pool: Pool<u64> = Pool::new(Tuner::fixed(4), 8);
        let sum = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let spawn = |first| {
                let (pool, sum) = (&pool, &sum);
                scope.spawn(move || {
                    let mut next = Some(first);
                    while let Some(task) = next {
                        sum.fetch_add(task, Ordering::Relaxed);
                        pool.finished();
                        next = pool.take();
                    }
                });
            };
            for task in 1..=1000 {
                match pool.give(task) {
                    Offer::Taken => {}
                    Offer::ForNewThread(task) => spawn(task),
                    Offer::Back(task) => _ = sum.fetch_add(task, Ordering::Relaxed),
                }
            }
            pool.drain(|task| _ = sum.fetch_add(task, Ordering::Relaxed));
            assert_eq!(sum.load(Ordering::Relaxed), 500_500);
            pool.close();
        });
    }

    #[test]
    fn who_rests_goes_on_when_the_others_stop() {
        let pool: Pool<u32> = Pool::new(Tuner::fixed(2), 8);
        assert!(matches!(pool.give(1), Offer::ForNewThread(1)));
        pool.state.lock().tuning.tuner = Tuner::fixed(1);
        pool.publish(&pool.state.lock());
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| pool.rest_if_needed(|| false, || false));
            while pool.state.lock().running > 1 {
                std::thread::yield_now();
            }
            pool.finished();
            resting.join().unwrap();
        });
        assert_eq!(pool.state.lock().running, 1);
    }
}
