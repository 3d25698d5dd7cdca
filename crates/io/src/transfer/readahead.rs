//! Keeps the source being read some way ahead of the engine, so that the device works while bytes are written.
//!
//! A cold file is left to the kernel's own read-ahead, which takes large folios, as long as a thread gets 0.8 GB/s of
//! it. Below that a [`Trial`] asks for a window, in turns with not asking, and keeps to it if it gains a quarter.
//! `--readahead` always asks.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_sys::kernel::{Fd, Kernel};
use parking_lot::Mutex;

/// One request: what the kernel takes at once with the usual settings of a device. Of a larger one it would drop the rest.
const REQUEST: u64 = 128 << 10;

/// So many bytes are read in one way before it is judged. As many before them are not counted when the way has changed: what
/// was asked for is still on its way, and in the way of others.
const PHASE: u64 = 16 << 20;

/// A thread that gets so many bytes a second from the kernel by itself would get no more on request, since single pages are
/// copied at 1.3 GB/s.
const QUICK: f64 = 0.8e9;

/// Reading ahead on request must be so much quicker (a factor), for phases differ.
const WORTH: f64 = 1.25;

/// Phases until the other way is tried again; four times as many after each time that it was no better.
const FIRST_RETRY: u32 = 16;
const LAST_RETRY: u32 = 1024;

/// Finds out whether cold files are copied quicker if they are read ahead on request than if that is left to the kernel.
///
/// On request the kernel reads single pages, as far ahead as wanted; by itself it reads large folios, but a few requests ahead
/// at most. Devices that answer late are kept busy by the first; where they are quick it costs twice the CPU time (Linux
/// 6.18, 1 GB in 32 cold files: 0.75 s, by itself 0.32 s, cp 0.46 s).
#[derive(Debug, Default)]
pub struct Trial(Mutex<Trying>);

#[derive(Debug, Default)]
struct Trying {
    on_request: bool,
    /// What was moved in this phase, by all threads, and how long it took each of them together.
    moved: u64,
    took: Duration,
    /// Bytes of it that are not counted yet.
    skip: u64,
    /// Bytes a second of a thread: left to the kernel, and on request.
    rates: [Option<f64>; 2],
    /// Phases in this way.
    phases: u32,
    /// After so many the other one is tried.
    retry: u32,
}

impl Trial {
    /// Whether cold files are to be read ahead on request now.
    fn is_on_request(&self) -> bool {
        self.0.lock().on_request
    }

    /// A thread has moved so many bytes in this way in so much time.
    fn note(&self, on_request: bool, moved: u64, took: Duration) {
        let mut trying = self.0.lock();
        // What was begun in the other way says nothing of this one.
        if on_request == trying.on_request {
            if trying.skip > 0 {
                trying.skip = trying.skip.saturating_sub(moved);
                return;
            }
            trying.moved += moved;
            trying.took += took;
            if trying.moved >= PHASE && !trying.took.is_zero() {
                trying.judge();
            }
        }
    }
}

impl Trying {
    fn judge(&mut self) {
        let rate = self.moved as f64 / self.took.as_secs_f64();
        (self.moved, self.took) = (0, Duration::ZERO);
        let own = &mut self.rates[usize::from(self.on_request)];
        *own = Some(own.map_or(rate, |before| f64::midpoint(before, rate)));
        self.phases += 1;
        let best = match self.rates {
            [Some(left_alone), Some(on_request)] => on_request > left_alone * WORTH,
            _ => false,
        };
        if best != self.on_request {
            // It was tried and is no better, or not any more.
            self.retry = if self.phases == 1 { (self.retry * 4).clamp(FIRST_RETRY, LAST_RETRY) } else { FIRST_RETRY };
            self.switch();
        } else if self.on_request {
            if self.phases >= LAST_RETRY {
                self.switch();
            }
        } else if self.phases >= self.retry && self.rates[0].is_some_and(|left_alone| left_alone < QUICK) {
            self.switch();
        }
    }

    fn switch(&mut self) {
        (self.on_request, self.phases, self.skip) = (!self.on_request, 0, PHASE);
    }
}

/// The window of one file.
#[derive(Debug)]
pub struct ReadAhead {
    window: u64,
    /// Up to where the source was asked for.
    asked: u64,
    /// Whether to ask at all is found out, and what was done last.
    trial: Option<Arc<Trial>>,
    last: Option<Last>,
    /// Which way, and up to where: it does not change with every request.
    way: (bool, u64),
}

/// From here on, since then, in this way.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: u64,
    since: Instant,
    on_request: bool,
}

impl ReadAhead {
    /// Stays so many bytes ahead.
    pub fn new(window: u64) -> ReadAhead {
        ReadAhead { window: window.max(1), asked: 0, trial: None, last: None, way: (false, 0) }
    }

    /// The same, as long as that is quicker than to leave it to the kernel.
    pub fn on_trial(window: u64, trial: &Arc<Trial>) -> ReadAhead {
        ReadAhead { trial: Some(Arc::clone(trial)), ..ReadAhead::new(window) }
    }

    /// The copy has come so far, and may go on elsewhere.
    pub fn reached(&mut self, at: u64) {
        let (Some(trial), Some(last)) = (&self.trial, self.last.take()) else { return };
        // What was asked for in the other way before comes quicker than it would.
        if last.on_request || last.at >= self.asked {
            trial.note(last.on_request, at.saturating_sub(last.at), last.since.elapsed());
        }
    }

    /// Whether the window is to be asked for.
    fn asks(&mut self, at: u64) -> bool {
        self.reached(at);
        let Some(trial) = &self.trial else { return true };
        if at >= self.way.1 {
            self.way = (trial.is_on_request(), at.saturating_add(2 * PHASE));
        }
        let on_request = self.way.0;
        self.last = Some(Last { at, since: Instant::now(), on_request });
        on_request
    }

    /// A job of so many bytes comes next, all of which are to be asked for.
    pub fn widen(&mut self, job: u64) {
        self.window = self.window.max(job);
    }

    /// How large a job may be so that half of the window is still ahead when it is done.
    pub fn piece(&self) -> u64 {
        (self.window / 2).max(REQUEST)
    }

    /// Asks for what is still missing of the window at `at`, but nothing from `end` on.
    pub fn ask(&mut self, kernel: &dyn Kernel, source: Fd<'_>, at: u64, end: u64) {
        if !self.asks(at) {
            return;
        }
        let until = at.saturating_add(self.window).min(end);
        // A jump over a hole leaves it out; what an engine has refused half way was asked for already.
        read_ahead(kernel, source, self.asked.max(at)..until);
        self.asked = self.asked.max(until);
    }
}

/// Begins to read a range of a file. A hint: a file that has no page cache (EINVAL, ESPIPE) is copied without, and if the
/// disk fails whoever reads hears of it.
pub fn read_ahead(kernel: &dyn Kernel, source: Fd<'_>, range: Range<u64>) {
    let mut from = range.start;
    while let Some(len) = NonZeroU64::new(range.end.saturating_sub(from).min(REQUEST)) {
        if kernel.read_ahead(source, from, len).is_err() {
            break;
        }
        from += len.get();
    }
}

#[cfg(test)]
mod tests {
    use haul_sys::Errno;

    use super::*;
    use parking_lot::Mutex;
    use std::os::fd::AsFd;

    const MIB: u64 = 1 << 20;

    /// Writes down what is asked for.
    #[derive(Debug, Default)]
    struct Asked(Mutex<Vec<(u64, u64)>>);

    impl Kernel for Asked {
        fn read_ahead(&self, _: Fd<'_>, offset: u64, len: NonZeroU64) -> Result<(), Errno> {
            self.0.lock().push((offset, offset + len.get()));
            Ok(())
        }
    }

    /// Beginnings and ends of everything that was asked for, adjacent requests joined.
    fn asked(window: u64, steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (kernel, file) = (Asked::default(), std::fs::File::open("/").unwrap());
        let mut ahead = ReadAhead::new(window);
        for (at, end) in steps {
            ahead.ask(&kernel, file.as_fd(), *at, *end);
        }
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in kernel.0.into_inner() {
            assert!(to - from <= REQUEST);
            match joined.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => joined.push((from, to)),
            }
        }
        joined
    }

    #[test]
    fn a_window_ahead_is_asked_for_and_nothing_twice() {
        assert_eq!(asked(8 * MIB, &[(0, 100 * MIB)]), [(0, 8 * MIB)]);
        assert_eq!(asked(8 * MIB, &[(0, 100 * MIB), (4 * MIB, 100 * MIB)]), [(0, 12 * MIB)]);
        assert_eq!(asked(8 * MIB, &[(0, 100 * MIB), (0, 100 * MIB)]), [(0, 8 * MIB)]);
    }

    #[test]
    fn a_job_that_is_larger_than_the_window_is_asked_for_whole() {
        let mut ahead = ReadAhead::new(MIB);
        ahead.widen(8 * MIB);
        let (kernel, file) = (Asked::default(), std::fs::File::open("/").unwrap());
        ahead.ask(&kernel, file.as_fd(), 0, 100 * MIB);
        let asked = kernel.0.into_inner();
        assert_eq!(asked.iter().map(|(from, to)| to - from).sum::<u64>(), 8 * MIB);
    }

    #[test]
    fn nothing_is_asked_for_beyond_what_is_copied() {
        assert_eq!(asked(8 * MIB, &[(0, 5 * MIB + 17)]), [(0, 5 * MIB + 17)]);
        assert_eq!(asked(8 * MIB, &[(0, 0)]), []);
        // Two extents with a hole between them.
        let extents = asked(8 * MIB, &[(0, MIB), (64 * MIB, 65 * MIB)]);
        assert_eq!(extents, [(0, MIB), (64 * MIB, 65 * MIB)]);
    }

    /// Lets it find out, at these rates of both ways; gives which way each of so many phases was in.
    fn ways(phases: usize, rate: impl Fn(usize) -> [f64; 2]) -> Vec<bool> {
        let trial = Trial::default();
        (0..phases)
            .map(|phase| {
                let way = trial.is_on_request();
                let took = Duration::from_secs_f64(PHASE as f64 / rate(phase)[usize::from(way)]);
                trial.note(!way, 10 * PHASE, Duration::from_nanos(1));
                if trial.0.lock().skip > 0 {
                    trial.note(way, PHASE, Duration::from_nanos(1));
                }
                trial.note(way, PHASE / 2, took / 2);
                assert_eq!(trial.is_on_request(), way, "half a phase decides nothing");
                trial.note(way, PHASE / 2, took / 2);
                way
            })
            .collect()
    }

    fn share(ways: &[bool]) -> f64 {
        ways.iter().filter(|way| **way).count() as f64 / ways.len() as f64
    }

    #[test]
    fn a_quick_device_is_left_to_the_kernel_without_a_trial() {
        assert_eq!(share(&ways(400, |_| [2e9, 9e9])), 0.0);
    }

    #[test]
    fn what_is_quicker_is_kept_and_the_other_way_tried_ever_more_seldom() {
        let left_alone = ways(400, |_| [5e8, 4e8]);
        assert_eq!(left_alone[..3], [false, true, false], "like any other program at first");
        assert!(share(&left_alone) < 0.02, "{left_alone:?}");
        assert!(share(&ways(400, |_| [4e8, 8e8])) > 0.98);
        assert!(share(&ways(400, |_| [4e8, 4.5e8])) < 0.02, "a little is not worth it");
    }

    #[test]
    fn a_device_that_becomes_another_one_is_noticed() {
        let slower = ways(400, |phase| if phase < 40 { [2e9, 1e9] } else { [2e8, 6e8] });
        assert!(share(&slower[60..]) > 0.9, "{slower:?}");
        let back = ways(400, |phase| if phase < 40 { [4e8, 8e8] } else { [4e8, 2e8] });
        assert!(share(&back[60..]) < 0.1, "{back:?}");
    }

    #[test]
    fn on_trial_a_file_is_asked_for_only_while_that_is_the_way() {
        let (kernel, file) = (Asked::default(), std::fs::File::open("/").unwrap());
        let trial = Arc::new(Trial::default());
        let mut ahead = ReadAhead::on_trial(8 * MIB, &trial);
        ahead.ask(&kernel, file.as_fd(), 0, 100 * MIB);
        ahead.ask(&kernel, file.as_fd(), 4 * MIB, 100 * MIB);
        assert!(kernel.0.lock().is_empty());
        assert_eq!(trial.0.lock().moved, 4 * MIB);
        trial.0.lock().switch();
        ahead.ask(&kernel, file.as_fd(), 16 * MIB, 100 * MIB);
        assert!(kernel.0.lock().is_empty(), "it goes on as it has begun for a while");
        ahead.ask(&kernel, file.as_fd(), 32 * MIB, 100 * MIB);
        assert_eq!(kernel.0.lock().first(), Some(&(32 * MIB, 32 * MIB + REQUEST)));
        ahead.reached(40 * MIB);
        ahead.reached(48 * MIB);
        assert_eq!(trial.0.lock().skip, PHASE - 8 * MIB, "nothing is counted twice");
    }

    #[test]
    fn a_file_that_refuses_is_not_asked_again_and_again() {
        #[derive(Debug, Default)]
        struct Refusing(Mutex<usize>);
        impl Kernel for Refusing {
            fn read_ahead(&self, _: Fd<'_>, _: u64, _: NonZeroU64) -> Result<(), Errno> {
                *self.0.lock() += 1;
                Err(Errno::INVAL)
            }
        }
        let (kernel, file) = (Refusing::default(), std::fs::File::open("/").unwrap());
        ReadAhead::new(8 * MIB).ask(&kernel, file.as_fd(), 0, 100 * MIB);
        assert_eq!(*kernel.0.lock(), 1);
    }
}
