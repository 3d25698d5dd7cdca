//! The limits of a run, on a clock that moves only when somebody waits, and on the real one where threads must meet.

use super::*;
use std::sync::mpsc;
use std::thread;

const MIB: u64 = 1 << 20;

/// A clock that stands still but for the waits.
#[derive(Debug, Clone, Default)]
struct Dial(Arc<Mutex<Duration>>);

impl Clock for Dial {
    fn now(&self) -> Duration {
        *self.0.lock()
    }

    fn skip(&self, time: Duration) -> bool {
        *self.0.lock() += time;
        true
    }
}

fn bytes(rate: u64) -> Limit {
    Limit { bytes: Some(rate), operations: None }
}

fn never() -> bool {
    false
}

/// Does so much work, in pieces, as a run does.
fn work(pace: &Pace, total: u64) {
    let mut left = total;
    while left > 0 {
        let len = left.min(pace.piece());
        let piece = Work { bytes: len, operations: 1 };
        let turn = pace.turn(piece, &never).unwrap();
        pace.settle(turn, piece);
        left -= len;
    }
}

#[test]
fn so_many_bytes_take_so_many_seconds() {
    let dial = Dial::default();
    let pace = Pace::with_clock(bytes(2 * MIB), Box::new(dial.clone()));
    work(&pace, 20 * MIB);
    let taken = dial.now().as_secs_f64();
    // The last piece is not waited for.
    assert!((9.8..=10.0).contains(&taken), "{taken}");
    assert_eq!(pace.waited(), dial.now());
    assert_eq!(pace.done().bytes, 20 * MIB);
}

#[test]
fn threads_share_one_limit() {
    let dial = Dial::default();
    let pace = Pace::with_clock(bytes(2 * MIB), Box::new(dial.clone()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(&pace, 5 * MIB));
        }
    });
    let taken = dial.now().as_secs_f64();
    assert!((9.8..=10.0).contains(&taken), "{taken}");
}

#[test]
fn files_and_requests_share_the_limit_of_operations() {
    let dial = Dial::default();
    let pace = Pace::with_clock(Limit { bytes: None, operations: Some(10) }, Box::new(dial.clone()));
    for _ in 0..50 {
        assert!(pace.turn_to_make(&never));
        let turn = pace.turn(Work { bytes: 1, operations: 1 }, &never).unwrap();
        // It turned out to be two requests.
        pace.settle(turn, Work { bytes: 1, operations: 2 });
    }
    let taken = dial.now().as_secs_f64();
    assert!((14.5..=15.0).contains(&taken), "{taken}");
}

#[test]
fn work_that_moved_nothing_costs_nothing() {
    let dial = Dial::default();
    let pace = Pace::with_clock(bytes(1), Box::new(dial.clone()));
    for _ in 0..100 {
        let turn = pace.turn(Work { bytes: MIB, operations: 1 }, &never).unwrap();
        pace.settle(turn, Work { bytes: 0, operations: 1 });
    }
    assert_eq!(dial.now(), Duration::ZERO);
}

#[test]
fn without_a_limit_nobody_waits_and_nothing_is_cut() {
    let dial = Dial::default();
    let pace = Pace::with_clock(Limit::NONE, Box::new(dial.clone()));
    assert_eq!(pace.piece(), u64::MAX);
    work(&pace, u64::MAX);
    assert_eq!((dial.now(), pace.done()), (Duration::ZERO, Work::default()));
}

#[test]
fn pieces_are_a_tenth_of_a_second_in_whole_blocks() {
    for (limit, piece) in [
        (bytes(100 * MIB), 10 * MIB),
        (bytes(MIB), 64 << 10),
        (bytes(100_000), 8192),
        (bytes(1), 4096),
        (Limit { bytes: None, operations: Some(100) }, 10 * USUAL_REQUEST),
        (Limit { bytes: Some(MIB), operations: Some(100) }, 64 << 10),
        (Limit { bytes: None, operations: Some(1) }, 4096),
    ] {
        assert_eq!(Pace::new(limit).piece(), piece, "{limit:?}");
    }
    let pace = Pace::default();
    pace.set_yielded(Some(Limit::NONE));
    assert_eq!(pace.piece(), POLITE_PIECE);
}

/// Starts a thread that waits for a turn that would take years, and calls `end` when it does.
fn while_somebody_waits(pace: &Pace, cancelled: &AtomicBool, end: impl FnOnce()) -> Option<()> {
    let debt = pace.turn(Work { bytes: 1 << 40, operations: 1 }, &never).unwrap();
    let (looked, has_looked) = mpsc::channel();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let asked = || {
                // Nobody listens any more after the first time.
                looked.send(()).ok();
                cancelled.load(Ordering::SeqCst)
            };
            let turn = pace.turn(Work { bytes: 1, operations: 1 }, &asked)?;
            pace.settle(turn, Work { bytes: 1, operations: 1 });
            Some(())
        });
        has_looked.recv().unwrap();
        end();
        let result = waiting.join().unwrap();
        pace.settle(debt, Work { bytes: 1 << 40, operations: 1 });
        result
    })
}

#[test]
fn a_wait_ends_when_the_run_is_cancelled() {
    let (pace, cancelled) = (Pace::new(bytes(1)), AtomicBool::new(false));
    let end = || {
        cancelled.store(true, Ordering::SeqCst);
        pace.wake();
    };
    assert_eq!(while_somebody_waits(&pace, &cancelled, end), None);
}

#[test]
fn a_wait_ends_when_the_run_is_cancelled_and_nobody_wakes_it() {
    let (pace, cancelled) = (Pace::new(bytes(1)), AtomicBool::new(false));
    let end = || cancelled.store(true, Ordering::SeqCst);
    assert_eq!(while_somebody_waits(&pace, &cancelled, end), None);
}

#[test]
fn a_wait_ends_when_the_limit_is_lifted() {
    let (pace, cancelled) = (Pace::new(bytes(1)), AtomicBool::new(false));
    assert_eq!(while_somebody_waits(&pace, &cancelled, || pace.set_limit(Limit::NONE)), Some(()));
}

#[test]
fn silence_holds_everybody_until_it_ends_or_runs_out() {
    let dial = Dial::default();
    let pace = Pace::with_clock(Limit::NONE, Box::new(dial.clone()));
    pace.be_silent(Duration::from_secs(1));
    assert!(pace.turn_to_make(&never));
    assert_eq!(dial.now(), Duration::from_secs(1));
    pace.be_silent(Duration::from_secs(1));
    pace.end_silence();
    assert!(pace.turn_to_make(&never));
    assert_eq!(dial.now(), Duration::from_secs(1));
}

#[test]
fn there_is_no_silence_while_a_job_is_under_way() {
    let dial = Dial::default();
    let pace = Pace::with_clock(bytes(MIB), Box::new(dial.clone()));
    let one = Work { bytes: 1, operations: 1 };
    let turn = pace.turn(one, &never).unwrap();
    assert!(!pace.wait_for_silence(Duration::from_millis(100)));
    assert_eq!(dial.now(), Duration::from_millis(100));
    pace.settle(turn, one);
    assert!(pace.wait_for_silence(Duration::ZERO));
}

#[test]
fn a_turn_from_before_the_first_limit_may_end_after_it() {
    let pace = Pace::default();
    let one = Work { bytes: 1, operations: 1 };
    let turn = pace.turn(one, &never).unwrap();
    pace.set_limit(bytes(1));
    pace.settle(turn, one);
    assert_eq!(pace.done(), Work::default());
}

#[test]
fn the_stricter_limit_counts() {
    let pace = Pace::new(bytes(10 * MIB));
    pace.set_yielded(Some(Limit { bytes: Some(20 * MIB), operations: Some(5) }));
    assert_eq!(pace.limit(), Limit { bytes: Some(10 * MIB), operations: Some(5) });
    pace.set_yielded(Some(Limit { bytes: Some(MIB), operations: None }));
    assert_eq!(pace.limit(), bytes(MIB));
    pace.set_yielded(None);
    assert_eq!(pace.limit(), bytes(10 * MIB));
}
