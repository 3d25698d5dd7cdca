//! The wrappers.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_copy::engine::wrap::{Clock, Event, Fault, Faults, ShortCounts, Throttle, Trace};
use haul_copy::engine::{End, FailedOn, Failure, Job, Refusal, Zeros};
use haul_copy::plan::EngineName;
use haul_sys::Errno;
use haul_testbed::{Bed, Fs, assert_same_contents, create_painted, painted};

use crate::harness::{MOVING, copy_in_jobs, dest, engine, job, run, source, suits};

const MIB: u64 = 1 << 20;

#[test]
fn a_refusal_falls_through_at_the_exact_byte() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(dir) = bed.mount(fs) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 3 * MIB + 17);
        for name in MOVING.into_iter().filter(|name| suits(*name, fs, fs)) {
            for at in [0, 1, 4096, 100_000, MIB, MIB + 1, 3 * MIB + 16] {
                // A clone comes no further than the block below.
                let at = if name == EngineName::Clone { at / 4096 * 4096 } else { at };
                let mut engine = Faults::new(engine(name), at, Fault::Refuse(Refusal::NoProgress));
                let len = if name == EngineName::Clone { 4 * MIB } else { MIB - 7 };
                let done = copy_in_jobs(&mut engine, &source(&a), &dest(&b), len, Zeros::Write);
                assert_eq!(done.refused, Some((at, Refusal::NoProgress)), "{name} on {}", fs.name());
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_failure_comes_at_the_exact_byte() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Tmpfs) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, MIB);
    let failure = Failure { on: FailedOn::Read, errno: Errno::IO };
    let mut engine = Faults::new(engine(EngineName::ReadWrite), 70_001, Fault::Fail(failure));
    let outcome = run(&mut engine, job(&source(&a), &dest(&b), 0, MIB));
    assert_eq!((outcome.end, outcome.moved.total()), (End::Failed(failure), 70_001));
    assert_eq!(fs::read(&b).unwrap(), painted(70_001));
    let outcome = run(&mut engine, job(&source(&a), &dest(&b), 70_002, MIB));
    assert_eq!(outcome.end, End::SourceEnd, "only that byte is bad");
}

#[test]
fn short_pieces_give_the_same_bytes() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(dir) = bed.mount(fs) else { continue };
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 5 * MIB + 4321);
        for name in MOVING.into_iter().filter(|name| suits(*name, fs, fs)) {
            for seed in 0..3 {
                let mut engine = ShortCounts::new(engine(name), seed, MIB);
                let done = copy_in_jobs(&mut engine, &source(&a), &dest(&b), 2 * MIB, Zeros::Write);
                assert_eq!((done.refused, done.moved.total()), (None, 5 * MIB + 4321), "{name} on {}", fs.name());
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_trace_holds_the_jobs_and_their_outcomes_in_order() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Tmpfs) else { return };
    create_painted(dir.join("a"), 1000);
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut engine = Trace::new(engine(EngineName::ReadWrite), Arc::clone(&log));
    let job = Job { zeros: Zeros::Skip(512), ..job(&source(dir.join("a")), &dest(dir.join("b")), 0, 600) };
    let first = run(&mut engine, job.clone());
    let second = run(&mut engine, Job { offset: 600, ..job });
    let asked = |offset| Event::Job { id: 7, offset, len: 600, zeros: Zeros::Skip(512) };
    let expected = [asked(0), Event::Outcome(first), asked(600), Event::Outcome(second)];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// A clock that stands still but for the sleeps.
#[derive(Clone, Default)]
struct Dial(Arc<Mutex<Duration>>);

impl Clock for Dial {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&mut self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

#[test]
fn a_throttled_copy_takes_as_long_as_its_rate_says() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Tmpfs) else { return };
    let (a, b) = (dir.join("a"), dir.join("b"));
    let (size, rate) = (20 * MIB, 2 * MIB);
    create_painted(&a, size);
    let dial = Dial::default();
    let mut engine = Throttle::new(engine(EngineName::ReadWrite), rate, Box::new(dial.clone()));
    let len = haul_copy::engine::Engine::caps(&engine).max_job;
    assert!(len <= rate / 2, "jobs of at most half a second, so that the flow is even");
    let done = copy_in_jobs(&mut engine, &source(&a), &dest(&b), len, Zeros::Write);
    assert_eq!(done.moved.total(), size);
    assert_same_contents(&a, &b);
    let taken = dial.now().as_secs_f64();
    // Ten seconds, less the bucket and the last piece, which are not waited for.
    assert!((9.0..=10.0).contains(&taken), "{taken}");
}

#[test]
fn holes_cost_a_throttled_copy_no_time() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = bed.mount(Fs::Tmpfs) else { return };
    fs::write(dir.join("a"), vec![0; 8 << 20]).unwrap();
    let dial = Dial::default();
    let mut engine = Throttle::new(engine(EngineName::ReadWrite), 1, Box::new(dial.clone()));
    copy_in_jobs(&mut engine, &source(dir.join("a")), &dest(dir.join("b")), MIB, Zeros::Skip(4096));
    assert_eq!(dial.now(), Duration::ZERO);
}
