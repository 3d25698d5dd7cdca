//! The wrappers.

use std::fs;
use std::sync::{Arc, Mutex};

use haul_io::engine::EngineName;
use haul_io::engine::wrap::{Event, Fault, Faults, Hooked, ShortCounts, Tally, Trace};
use haul_io::engine::{End, FailedOn, Failure, Job, Refusal, Zeros};
use haul_sys::Errno;
use haul_testbed::{assert_same_contents, create_painted, painted};

use crate::harness::{copy_in_jobs, dest, engine, engine_on, job, run, source, suiting};
use crate::places::Places;

const MIB: u64 = 1 << 20;

#[test]
fn a_refusal_falls_through_at_the_exact_byte() {
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 3 * MIB + 17);
        for name in suiting(place) {
            for at in [0, 1, 4096, 100_000, MIB, MIB + 1, 3 * MIB + 16] {
                // Whole blocks come no further than the one below.
                let aligned = name.caps().needs_alignment;
                let at = if aligned { at / 4096 * 4096 } else { at };
                let mut engine = Faults::new(engine(name), at, Fault::Refuse(Refusal::NoProgress));
                let len = if aligned { 4 * MIB } else { MIB - 7 };
                let done = copy_in_jobs(&mut engine, &source(&a), &dest(&b), len, Zeros::Write);
                assert_eq!(done.refused, Some((at, Refusal::NoProgress)), "{name} on {}", place.name);
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_failure_comes_at_the_exact_byte() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
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
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 5 * MIB + 4321);
        for name in suiting(place) {
            for seed in 0..3 {
                let mut engine = ShortCounts::new(engine(name), seed, MIB);
                let done = copy_in_jobs(&mut engine, &source(&a), &dest(&b), 2 * MIB, Zeros::Write);
                assert_eq!((done.refused, done.moved.total()), (None, 5 * MIB + 4321), "{name} on {}", place.name);
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_trace_holds_the_jobs_and_their_outcomes_in_order() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    create_painted(dir.join("a"), 1000);
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut engine = Trace::new(engine(EngineName::ReadWrite), Arc::clone(&log));
    let job = Job { zeros: Zeros::Skip(512), ..job(&source(dir.join("a")), &dest(dir.join("b")), 0, 600) };
    let first = run(&mut engine, job.clone());
    let second = run(&mut engine, Job { offset: 600, ..job });
    let asked = |offset| Event::Job { offset, len: 600, zeros: Zeros::Skip(512) };
    let expected = [asked(0), Event::Outcome(first), asked(600), Event::Outcome(second)];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn a_tally_counts_the_requests_of_every_engine() {
    for place in &Places::new() {
        let dir = &place.dir;
        create_painted(dir.join("a"), 4 * MIB);
        for name in suiting(place) {
            let tally = Tally::default();
            let mut engine = engine_on(Hooked(tally.clone()), name);
            let b = dir.join(name.as_str());
            let done = run(&mut *engine, job(&source(dir.join("a")), &dest(&b), 0, 4 * MIB));
            let context = format!("{name} on {}", place.name);
            assert_eq!((done.end, done.moved.total()), (End::Complete, 4 * MIB), "{context}");
            let requests = tally.take();
            // The reference has the smallest requests, 4 KiB read and 4 KiB written.
            assert!((1..=2048).contains(&requests), "{context}: {requests}");
            assert_eq!(tally.take(), 0, "{context}");
            match name {
                EngineName::Reference => assert_eq!(requests, 2048),
                // 128 KiB read and 128 KiB written.
                EngineName::ReadWrite => assert_eq!(requests, 64),
                EngineName::Clone => assert_eq!(requests, 1),
                // The kernel may move less than it is asked for, and does so on a busy machine.
                EngineName::CopyRange => assert!((1..=64).contains(&requests), "{context}: {requests}"),
                // Blocks of 1 MiB.
                _ if name.caps().queued => assert_eq!(requests, 8),
                _ => {}
            }
            assert_same_contents(dir.join("a"), &b);
            fs::remove_file(b).unwrap();
        }
    }
}
