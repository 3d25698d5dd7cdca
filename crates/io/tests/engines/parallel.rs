//! Several workers at one file: what counts is the exact contiguous prefix.

use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_io::engine::EngineName;
use haul_io::engine::parallel::{FileWorkers, Ran, Stopped, Watch};
use haul_io::engine::wrap::{Fault, Faults, ShortCounts, Unruly};
use haul_io::engine::{End, Engine, FailedOn, Failure, Moved, PageCache, Refusal, Side, Zeros};
use haul_io::ranges::{Extent, Extents};
use haul_io::tuner::Tuner;
use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_testbed::{assert_same_contents, create_painted, painted, sparse_file};

use crate::harness::{dest, engine, engine_on, source, suiting_parts};
use crate::places::Places;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Adds up what is reported, and says no from the n-th question on.
struct Witness {
    at: AtomicU64,
    total: Mutex<Moved>,
    questions_left: AtomicU64,
}

impl Witness {
    fn new(questions: u64) -> Witness {
        Witness { at: AtomicU64::new(0), total: Mutex::default(), questions_left: AtomicU64::new(questions) }
    }
}

impl Watch for Witness {
    fn may_move(&self, _: u64, len: u64) -> bool {
        assert!(len > 0);
        let left = &self.questions_left;
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn advanced(&self, to: u64, moved: Moved) {
        let before = self.at.swap(to, Ordering::Relaxed);
        assert_eq!(before + moved.total(), to, "in order and without gaps");
        *self.total.lock().unwrap() += moved;
    }
}

fn with_direct_fd(side: Side) -> Side {
    let fd = side.direct.map(|_| Arc::new(Linux.reopen_direct(side.as_fd()).unwrap()));
    Side { direct_fd: fd, ..side }
}

/// Four workers move ranges; what they say of it is checked against what the witness heard.
fn run_four(
    make: &(dyn Fn() -> Box<dyn Engine> + Sync),
    (source, dest): (&Side, &Side),
    piece: u64,
    ranges: Vec<Result<Extent, Errno>>,
    questions: u64,
) -> Ran {
    let witness = Witness::new(questions);
    let tuner = Tuner::of_file(4, 4);
    let workers = FileWorkers { make, source, dest, zeros: Zeros::Write, piece, tuner, watch: &witness };
    let ran = workers.run(0, &mut ranges.into_iter());
    assert_eq!(ran.at, ran.moved.total(), "{ran:?}");
    assert_eq!((witness.at.into_inner(), *witness.total.lock().unwrap()), (ran.at, ran.moved), "{ran:?}");
    assert!(ran.workers <= 4);
    ran
}

fn extents(source: &Side, size: u64) -> Vec<Result<Extent, Errno>> {
    Extents::new(&Linux, source.as_fd(), 0, size).collect()
}

fn data(offset: u64, len: u64) -> Result<Extent, Errno> {
    Ok(Extent::Data { offset, len })
}

fn hole(offset: u64, len: u64) -> Result<Extent, Errno> {
    Ok(Extent::Hole { offset, len })
}

#[test]
fn every_engine_copies_with_four_workers() {
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        for size in [1, 4095, MIB - 1, MIB, MIB + 1, 9 * MIB + 777] {
            create_painted(&a, size);
            for name in suiting_parts(place) {
                for odd in [false, true] {
                    // With odd pieces the engines meet heads and tails at every border.
                    let piece = if odd { 300_001 } else { 256 * KIB };
                    // Pieces of direct requests are whole blocks; who cuts the ranges sees to that.
                    let is_direct = name.caps().page_cache == PageCache::Bypassed;
                    if odd && is_direct && !name.caps().queued {
                        continue;
                    }
                    let sides = (with_direct_fd(source(&a)), with_direct_fd(dest(&b)));
                    let all = vec![data(0, size)];
                    let ran = run_four(&|| engine(name), (&sides.0, &sides.1), piece, all, u64::MAX);
                    let context = format!("{name} on {} {size}: {ran:?}", place.name);
                    assert_eq!(
                        (ran.at, ran.stopped, ran.beyond),
                        (size, Stopped::End(End::Complete), false),
                        "{context}"
                    );
                    assert_same_contents(&a, &b);
                    fs::remove_file(&b).unwrap();
                }
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

#[test]
fn an_interrupted_and_short_spoken_kernel_loses_and_repeats_nothing() {
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        let size = 9 * MIB + 1234;
        create_painted(&a, size);
        for name in suiting_parts(place) {
            for seed in 0..3 {
                let sides = (with_direct_fd(source(&a)), with_direct_fd(dest(&b)));
                let make = || engine_on(Unruly::new(seed, MIB), name);
                let all = vec![data(0, size)];
                let ran = run_four(&make, (&sides.0, &sides.1), MIB, all, u64::MAX);
                assert_eq!(
                    (ran.at, ran.stopped),
                    (size, Stopped::End(End::Complete)),
                    "{name} on {} with seed {seed}",
                    place.name
                );
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_fault_ends_the_prefix_at_its_exact_byte_and_the_first_of_two_counts() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    let size = 5 * MIB + 777;
    create_painted(&a, size);
    let failure = Failure { on: FailedOn::Read, errno: Errno::IO };
    let later = Failure { on: FailedOn::Write, errno: Errno::NOSPC };
    let (from, all) = (source(&a), vec![data(0, size)]);
    for at in [0, 1, 65_535, 65_536, 65_537, MIB + 3, 5 * MIB + 776] {
        for fault in [Fault::Fail(failure), Fault::Refuse(Refusal::NoProgress)] {
            for seed in 0..4 {
                let make = || -> Box<dyn Engine> {
                    let short = ShortCounts::new(engine(EngineName::ReadWrite), seed, 40_000);
                    let second = Faults::new(Box::new(short), at + 70_000, Fault::Fail(later));
                    Box::new(Faults::new(Box::new(second), at, fault))
                };
                let ran = run_four(&make, (&from, &dest(&b)), 64 * KIB, all.clone(), u64::MAX);
                // A final error that was met behind a refusal counts: no other engine may try that place again.
                let beyond = matches!(fault, Fault::Refuse(_)) && ran.stopped == Stopped::End(End::Failed(later));
                assert!(ran.at == at && (beyond || ran.stopped == Stopped::End(fault.into())), "at {at}: {ran:?}");
                assert!(fs::read(&b).unwrap()[..at as usize] == painted(at as usize));
                assert!(ran.beyond || fs::metadata(&b).unwrap().len() <= at, "{ran:?}");
                fs::remove_file(&b).unwrap();
            }
        }
    }
}

#[test]
fn after_a_refusal_the_next_workers_go_on_at_the_exact_byte() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    let size = 3 * MIB + 17;
    create_painted(&a, size);
    let (from, to) = (source(&a), dest(&b));
    let make = || -> Box<dyn Engine> {
        Box::new(Faults::new(engine(EngineName::CopyRange), MIB + 99, Fault::Refuse(Refusal::NoProgress)))
    };
    let ran = run_four(&make, (&from, &to), 64 * KIB, vec![data(0, size)], u64::MAX);
    assert_eq!(ran.at, MIB + 99);
    let make = || engine(EngineName::ReadWrite);
    let watch = Witness::new(u64::MAX);
    watch.at.store(ran.at, Ordering::Relaxed);
    let tuner = Tuner::of_file(3, 3);
    let workers = FileWorkers {
        make: &make,
        source: &from,
        dest: &to,
        zeros: Zeros::Write,
        piece: 64 * KIB,
        tuner,
        watch: &watch,
    };
    let ran = workers.run(ran.at, &mut vec![data(ran.at, size - ran.at)].into_iter());
    assert_eq!((ran.at, ran.stopped), (size, Stopped::End(End::Complete)));
    assert_same_contents(&a, &b);
}

#[test]
fn a_source_that_shrank_ends_where_it_ends_whatever_was_in_flight() {
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        for real in [0, 1, 100_001, MIB, 2 * MIB - 1] {
            create_painted(&a, 4 * MIB);
            let from = with_direct_fd(source(&a));
            OpenOptions::new().write(true).open(&a).unwrap().set_len(real).unwrap();
            for name in suiting_parts(place) {
                let to = with_direct_fd(dest(&b));
                let all = vec![data(0, 4 * MIB)];
                let ran = run_four(&|| engine(name), (&from, &to), 64 * KIB, all, u64::MAX);
                assert_eq!((ran.at, ran.stopped), (real, Stopped::End(End::SourceEnd)), "{name} on {}", place.name);
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

#[test]
fn holes_are_counted_in_the_prefix_and_stay_holes() {
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        let size = 64 * MIB + 5;
        let data: Vec<(u64, u64)> = (1..100).map(|n| (n * 640 * KIB, 64 * KIB)).collect();
        sparse_file(&a, size, &data);
        let (from, to) = (source(&a), dest(&b));
        let ran = run_four(&|| engine(EngineName::ReadWrite), (&from, &to), MIB, extents(&from, size), u64::MAX);
        assert_eq!((ran.at, ran.stopped), (size, Stopped::End(End::Complete)), "{}", place.name);
        haul_sys::rustix::fs::ftruncate(&to.fd, size).unwrap();
        assert_same_contents(&a, &b);
        assert!(ran.moved.holes >= 50 * MIB, "{ran:?}");
        assert_eq!(haul_testbed::data_extents(&fs::File::open(&b).unwrap()).len(), data.len(), "{}", place.name);
    }
}

#[test]
fn an_error_of_the_search_for_holes_ends_the_prefix_where_the_search_stood() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, MIB);
    let ranges = vec![data(0, 300_000), hole(300_000, 1000), Err(Errno::IO)];
    let ran = run_four(&|| engine(EngineName::ReadWrite), (&source(&a), &dest(&b)), 64 * KIB, ranges, u64::MAX);
    let failure = Failure { on: FailedOn::Read, errno: Errno::IO };
    assert_eq!((ran.at, ran.stopped), (301_000, Stopped::End(End::Failed(failure))));
    assert_eq!(ran.moved, Moved { written: 300_000, holes: 1000, ..Moved::default() });
}

#[test]
fn a_gap_between_ranges_ends_the_prefix_and_nobody_waits_for_it() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, MIB);
    // More than may be done ahead of the prefix.
    let behind = (0..5000).map(|number| data(400_000 + 2 * number, 2));
    let ranges = [data(0, 300_000)].into_iter().chain(behind).collect();
    let ran = run_four(&|| engine(EngineName::ReadWrite), (&source(&a), &dest(&b)), 64 * KIB, ranges, u64::MAX);
    assert_eq!((ran.at, ran.stopped, ran.beyond), (300_000, Stopped::End(End::Complete), false));
}

#[test]
fn a_watch_that_says_no_stops_all_workers() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 4 * MIB);
    for questions in [0, 1, 5, 63] {
        let all = vec![data(0, 4 * MIB)];
        let make = || engine(EngineName::ReadWrite);
        let ran = run_four(&make, (&source(&a), &dest(&b)), 64 * KIB, all, questions);
        assert_eq!(ran.stopped, Stopped::Forbidden, "{questions}");
        assert!(ran.at <= questions * 64 * KIB, "{ran:?}");
        assert!(fs::read(&b).unwrap()[..ran.at as usize] == painted(ran.at as usize));
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn an_engine_that_says_complete_too_early_is_found_out() {
    struct Liar;
    impl Engine for Liar {
        fn caps(&self) -> haul_io::engine::Caps {
            engine(EngineName::ReadWrite).caps()
        }
        fn run(&mut self, job: &haul_io::engine::Job) -> haul_io::engine::Outcome {
            let moved = Moved { written: job.len - 1, ..Moved::default() };
            haul_io::engine::Outcome { moved, end: End::Complete }
        }
    }
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    create_painted(dir.join("a"), MIB);
    let all = vec![data(0, MIB)];
    let ran = run_four(&|| Box::new(Liar), (&source(dir.join("a")), &dest(dir.join("b"))), 64 * KIB, all, u64::MAX);
    assert!(matches!(ran.stopped, Stopped::End(End::Failed(_))), "{ran:?}");
}

#[test]
fn thousands_of_holes_before_a_slow_piece_do_not_block_the_others_for_ever() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    let size = 20_000 * 4 * KIB;
    create_painted(&a, size);
    let ranges = (0..20_000u64)
        .map(|n| if n % 2 == 0 { data(n * 4 * KIB, 4 * KIB) } else { hole(n * 4 * KIB, 4 * KIB) })
        .collect();
    let ran = run_four(&|| engine(EngineName::ReadWrite), (&source(&a), &dest(&b)), MIB, ranges, u64::MAX);
    assert_eq!((ran.at, ran.moved.holes, ran.stopped), (size, size / 2, Stopped::End(End::Complete)));
}
