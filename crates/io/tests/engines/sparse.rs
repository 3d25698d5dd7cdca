//! Holes: made of zeros, and no more space taken than by the source.

use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use haul_io::engine::EngineName;
use haul_io::engine::wrap::Unruly;
use haul_io::engine::{End, FailedOn, Failure, Job, Moved, PageCache, Refusal, Role, Tuning, Zeros, hole, make_on};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_testbed::{Fs, allocated, assert_same_contents, painted, sparse_file};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::harness::{copy_extents, copy_in_jobs, dest, engine, engine_on, job, moving, run, source, suiting};
use crate::places::{Place, Places};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Engines that can look for zeros here.
fn seeing(place: &Place) -> impl Iterator<Item = EngineName> {
    suiting(place).filter(|name| name.caps().sees_bytes)
}

#[test]
fn engines_that_do_not_see_bytes_refuse_to_look_for_zeros() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    fs::write(dir.join("a"), [0; 10_000]).unwrap();
    for name in moving().filter(|name| !name.caps().sees_bytes) {
        for zeros in [Zeros::Skip(4096), Zeros::Punch(4096)] {
            let job = Job { zeros, ..job(&source(dir.join("a")), &dest(dir.join("b")), 0, 10_000) };
            let outcome = run(&mut *engine(name), job);
            assert_eq!((outcome.end, outcome.moved), (End::Refused(Refusal::BlindToBytes), Moved::default()), "{name}");
        }
    }
}

/// Layouts that have gone wrong somewhere: a hole at the end, at the beginning, everywhere, small ones, none.
fn layouts() -> Vec<(u64, Vec<(u64, u64)>)> {
    vec![
        (10 * MIB, vec![(0, MIB)]),
        (10 * MIB + 777, vec![(9 * MIB, MIB + 777)]),
        (10 * MIB + 777, vec![]),
        (8 * MIB, (0..64).map(|n| (n * 128 * KIB, 64 * KIB)).collect()),
        (8 * MIB + 5, (0..128).map(|n| (n * 64 * KIB, 4 * KIB)).collect()),
        (3 * MIB, vec![(0, 3 * MIB)]),
        (6 * MIB, vec![(0, MIB), (5 * MIB, 4 * KIB), (6 * MIB - 1, 1)]),
    ]
}

#[test]
fn a_copy_that_skips_zeros_takes_no_more_space_than_the_source() {
    for place in &Places::new() {
        let dir = &place.dir;
        for (size, data) in layouts() {
            let a = dir.join("a");
            sparse_file(&a, size, &data);
            // The oracle does not punch what it skips, so XFS keeps what it allocated ahead.
            for name in seeing(place).filter(|name| name.caps().role != Role::Oracle) {
                let b = dir.join("b");
                let done = copy_in_jobs(&mut *engine(name), &source(&a), &dest(&b), MIB, Zeros::Skip(4096));
                assert_same_contents(&a, &b);
                let context = format!("{name} on {}: {size} {data:?}: {done:?}", place.name);
                assert_eq!(done.moved.total(), size, "{context}");
                // Requests that end out of order, and writing that begins at once, may leave more extents than fit into the
                // inode of ext4, which then takes one block to list them.
                let in_order = !name.caps().queued && name.caps().page_cache != PageCache::Dropped;
                let may_be_ext4 = matches!(place.kind, None | Some(Fs::Ext4));
                let list = if in_order || !may_be_ext4 { 0 } else { 4096 };
                let (ours, theirs) = (allocated(&b), allocated(&a) + list);
                assert!(ours <= theirs, "{ours} bytes allocated, {theirs} by the source; {context}");
                fs::remove_file(&b).unwrap();
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

#[test]
fn a_copy_by_extents_takes_no_more_space_than_the_source() {
    for place in &Places::new() {
        let dir = &place.dir;
        for (size, data) in layouts() {
            let (a, b) = (dir.join("a"), dir.join("b"));
            sparse_file(&a, size, &data);
            for name in moving() {
                copy_extents(&mut *engine(name), &a, &b);
                assert_same_contents(&a, &b);
                let (ours, theirs) = (allocated(&b), allocated(&a));
                assert!(ours <= theirs, "{name} on {}: {ours} bytes allocated, {theirs} by the source", place.name);
                fs::remove_file(&b).unwrap();
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

/// A destination of old data, longer than the source.
fn old_data(path: &Path, size: u64) {
    fs::write(path, vec![0xee; size as usize + 100_000]).unwrap();
}

#[test]
fn punched_zeros_replace_old_data_and_give_its_space_back() {
    for place in &Places::new() {
        let dir = &place.dir;
        for (size, data) in layouts() {
            let (a, b) = (dir.join("a"), dir.join("b"));
            sparse_file(&a, size, &data);
            for name in seeing(place) {
                old_data(&b, size);
                let done = copy_in_jobs(&mut *engine(name), &source(&a), &dest(&b), MIB, Zeros::Punch(4096));
                assert_same_contents(&a, &b);
                assert_eq!(done.moved.total(), size);
                let (ours, theirs) = (allocated(&b), allocated(&a));
                // The block in which the copy ends held old data beyond that end, so it stays. btrfs gives back only whole
                // extents, of which a part is still in use.
                assert!(
                    ours <= theirs + 4096 || place.kind == Some(Fs::Btrfs),
                    "{name} on {}: {ours} of {theirs}",
                    place.name
                );
                fs::remove_file(&b).unwrap();
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

/// A filesystem without PUNCH_HOLE, or one where it fails.
#[derive(Debug)]
struct NoHoles(Errno);

impl Kernel for NoHoles {
    fn punch_hole(&self, _: Fd<'_>, _: u64, _: u64) -> Result<(), Errno> {
        Err(self.0)
    }
}

#[test]
fn where_holes_cannot_be_punched_zeros_are_written_over_old_data() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    sparse_file(&a, 3 * MIB + 5, &[(MIB, 10_000)]);
    for name in seeing(place) {
        for errno in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::PERM] {
            old_data(&b, 3 * MIB);
            let mut engine = engine_on(NoHoles(errno), name);
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Punch(4096));
            assert_eq!(done.moved, Moved { written: 3 * MIB + 5, ..Moved::default() }, "{name} {errno:?}");
            assert_same_contents(&a, &b);
        }
    }
}

#[test]
fn a_final_error_of_punching_is_a_failure() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    sparse_file(&a, MIB, &[]);
    for name in seeing(place) {
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::NOMEM] {
            let job = Job { zeros: Zeros::Punch(4096), ..job(&source(&a), &dest(&b), 0, MIB) };
            let outcome = run(&mut *engine_on(NoHoles(errno), name), job);
            assert_eq!(outcome.end, End::Failed(Failure { on: FailedOn::Hole, errno }), "{name}");
        }
    }
}

#[test]
fn skipping_does_not_depend_on_punching() {
    // It only gives back what XFS allocates ahead.
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    sparse_file(&a, MIB, &[(4096, 4096)]);
    for name in seeing(place) {
        for errno in [Errno::OPNOTSUPP, Errno::NOSPC] {
            let mut engine = engine_on(NoHoles(errno), name);
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Skip(4096));
            assert_eq!(done.moved, Moved { written: 4096, holes: MIB - 4096, ..Moved::default() }, "{name}");
            assert_same_contents(&a, &b);
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn a_hole_made_for_the_caller_reads_as_zeros_over_old_data() {
    for place in &Places::new() {
        let dir = &place.dir;
        for (zeros, holes) in [(Zeros::Punch(4096), true), (Zeros::Write, false)] {
            let b = dir.join("b");
            fs::write(&b, painted(300_000)).unwrap();
            let mut moved = Moved::default();
            hole::make(&Linux, &dest(&b), 5000, 200_000, zeros, &mut moved).unwrap();
            let mut expected = painted(300_000);
            expected[5000..205_000].fill(0);
            assert!(fs::read(&b).unwrap() == expected, "{zeros:?} on {}", place.name);
            let made = if holes { (200_000, 0) } else { (0, 200_000) };
            assert_eq!((moved.holes, moved.written), made);
        }
    }
}

/// A file of up to 2 MiB: a size and painted pieces.
fn any_layout() -> impl Strategy<Value = (u64, Vec<(u64, u64)>)> {
    (0u64..2 * MIB).prop_flat_map(|size| {
        let piece = (0..size.max(1), prop_oneof![1u64..600, 1u64..20_000, Just(4096), Just(65_536)]);
        let pieces = prop::collection::vec(piece, 0..12);
        let aligned = any::<bool>();
        (Just(size), pieces, aligned).prop_map(|(size, pieces, aligned)| {
            let clip = |(offset, len): (u64, u64)| {
                let offset = if aligned { offset / 4096 * 4096 } else { offset };
                (offset, len.min(size - offset.min(size)))
            };
            (size, pieces.into_iter().map(clip).filter(|(_, len)| *len > 0).collect())
        })
    })
}

#[test]
fn any_layout_with_any_settings_is_copied_as_the_reference_copies_it() {
    let places = Places::new();
    let dirs: Vec<_> = (&places).into_iter().map(|place| place.dir.clone()).collect();
    let engines: Vec<_> = moving().filter(|name| name.caps().sees_bytes).collect();
    if engines.is_empty() {
        return; // Others were asked for.
    }
    let settings = (
        prop::sample::select(dirs),
        prop::sample::select(engines),
        prop_oneof![1usize..5000, Just(65_536), 1usize..1_000_000],
        prop::sample::select(vec![1u32, 7, 512, 4096, 65_536, 1 << 20]),
        prop::sample::select(vec![0, 1, 2]),
        (1u64..3 * MIB, any::<u64>(), any::<bool>()),
    );
    let mut runner = TestRunner::new(Config { cases: 250, failure_persistence: None, ..Config::default() });
    runner
        .run(&(any_layout(), settings), |((size, data), settings)| {
            let (dir, name, buffer, block, zeros, (job_len, seed, unruly)) = settings;
            // A byte or a tiny block at a time through a megabyte is not worth the wait.
            prop_assume!((buffer >= 4096 && block >= 512) || size < 100_000);
            let block = if size < 10_000 { block } else { block.max(512) };
            let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
            sparse_file(&a, size, &data);
            let zeros = [Zeros::Write, Zeros::Skip(block), Zeros::Punch(block)][zeros];
            if matches!(zeros, Zeros::Punch(_)) {
                old_data(&b, size);
            }
            let kernel: Arc<dyn Kernel> = if unruly { Arc::new(Unruly::new(seed, 200_000)) } else { Arc::new(Linux) };
            let mut engine = make_on(kernel, name, &Tuning { buffer_size: Some(buffer), ..Tuning::default() });
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), job_len.max(size / 50), zeros);
            let mut oracle = self::engine(EngineName::Reference);
            copy_in_jobs(&mut *oracle, &source(&a), &dest(&c), u64::MAX, Zeros::Write);
            assert_same_contents(&c, &b);
            assert_same_contents(&a, &c);
            assert_eq!(done.moved.total(), size);
            for path in [a, b, c] {
                fs::remove_file(path).unwrap();
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_layout_is_copied_by_its_extents() {
    let places = Places::new();
    let dirs: Vec<_> = (&places).into_iter().map(|place| place.dir.clone()).collect();
    let settings = (prop::sample::select(dirs), prop::sample::select(moving().collect::<Vec<_>>()));
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    runner
        .run(&(any_layout(), settings), |((size, data), (dir, name))| {
            let (a, b) = (dir.join("a"), dir.join("b"));
            sparse_file(&a, size, &data);
            copy_extents(&mut *engine(name), &a, &b);
            assert_same_contents(&a, &b);
            fs::remove_file(a).unwrap();
            fs::remove_file(b).unwrap();
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_punched_destination_keeps_its_size() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    fs::write(dir.join("b"), painted(10_000)).unwrap();
    let file = OpenOptions::new().write(true).open(dir.join("b")).unwrap();
    Linux.punch_hole(file.as_fd(), 8192, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 10_000);
}
