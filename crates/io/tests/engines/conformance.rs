//! Identical contents: every engine, every pair of filesystems, every size around a boundary.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_io::engine::EngineName;
use haul_io::engine::{End, Moved, Refusal, Role, Shares, Tuning, Way, Zeros, make};
use haul_testbed::{assert_same_contents, create_painted, paint, painted, painted_at, sparse_file};

use crate::harness::{copy, copy_extents, copy_in_jobs, dest, engine, job, moving, run, source, suiting, suits};
use crate::places::Places;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const SIZES: [u64; 14] = [
    0,
    1,
    511,
    512,
    4095,
    4096,
    4097,
    32 * KIB - 1,
    32 * KIB,
    128 * KIB - 1,
    128 * KIB,
    128 * KIB + 1,
    8 * MIB - 1,
    8 * MIB + 1,
];

#[test]
fn every_engine_copies_every_size_on_every_pair_of_filesystems() {
    let places = Places::new();
    for from in &places {
        for size in SIZES {
            let a = from.dir.join(format!("a{size}"));
            create_painted(&a, size);
            for (to, name) in (&places).into_iter().flat_map(|to| moving().map(move |name| (to, name))) {
                let b = to.dir.join(format!("b{size}"));
                let done = copy(&mut *engine(name), &a, &b);
                assert_same_contents(&a, &b);
                let context = format!("{name} {} to {} {size}: {done:?}", from.name, to.name);
                assert_eq!(done.moved.total(), size, "{context}");
                let refused_at = done.refused.map(|(at, _)| at);
                // An empty file gives no occasion to refuse, to engines that ask for its bytes first.
                if size > 0 {
                    assert_eq!(refused_at, (!suits(name, from, to)).then_some(0), "{context}");
                }
                // What is refused is written by the reference.
                let way = if refused_at == Some(0) { Way::Written } else { name.caps().way };
                assert_eq!(by(way, done.moved), size, "{context}");
                fs::remove_file(&b).unwrap();
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

fn by(way: Way, moved: Moved) -> u64 {
    match way {
        Way::Written => moved.written,
        Way::Offloaded => moved.offloaded,
        Way::Cloned => moved.cloned,
    }
}

/// Painted around all the boundaries that counters and offsets could trip over; else holes.
fn large_sparse_file(path: &Path, size: u64) {
    let around = [0, 2 * GIB - 4096, 2 * GIB, 4 * GIB - 4096, 4 * GIB, size.saturating_sub(1)];
    let data: Vec<(u64, u64)> = around
        .into_iter()
        .map(|at| (at - at % 4096, 64 * KIB))
        .filter(|(offset, _)| *offset < size)
        .map(|(offset, len)| (offset, len.min(size - offset)))
        .collect();
    sparse_file(path, size, &data);
}

#[test]
fn every_engine_copies_the_extents_of_huge_files() {
    for place in &Places::new() {
        let dir = &place.dir;
        for size in [2 * GIB - 1, 2 * GIB, 2 * GIB + 1, 5 * GIB] {
            let (a, b) = (dir.join("a"), dir.join("b"));
            large_sparse_file(&a, size);
            for name in moving() {
                copy_extents(&mut *engine(name), &a, &b);
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
            fs::remove_file(&a).unwrap();
        }
    }
}

#[test]
fn engines_that_see_zeros_copy_gibibytes_of_holes_in_one_job() {
    let places = Places::plain();
    let dir = &places.first().dir;
    for name in suiting(places.first()).filter(|name| name.caps().sees_bytes) {
        // The oracle takes its time.
        let size = if name.caps().role == Role::Oracle { 2 * GIB + 1 } else { 4 * GIB + 4097 };
        let (a, b) = (dir.join("a"), dir.join("b"));
        large_sparse_file(&a, size);
        let done = copy_in_jobs(&mut *engine(name), &source(&a), &dest(&b), u64::MAX, Zeros::Skip(65_536));
        assert_same_contents(&a, &b);
        assert_eq!(done.moved.total(), size, "{name}");
        assert!(done.moved.written <= MIB, "{name}: {done:?}");
        fs::remove_file(&a).unwrap();
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn clone_and_copy_range_share_five_gibibytes_in_one_job() {
    for place in Places::new().where_there_is("shared extents", |place| place.reflinks) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        large_sparse_file(&a, 5 * GIB);
        for name in [EngineName::Clone, EngineName::CopyRange] {
            let done = copy_in_jobs(&mut *engine(name), &source(&a), &dest(&b), 6 * GIB, Zeros::Write);
            assert_same_contents(&a, &b);
            assert_eq!((done.moved.total(), done.refused), (5 * GIB, None));
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn one_dense_range_beyond_two_gibibytes_is_copied_whole() {
    // One copy_file_range moves 0x7ffff000 bytes at most; a copier that takes its first count for all loses the rest.
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    let size = 2 * GIB + 4097;
    create_painted(&a, size);
    let outcome = run(&mut *engine(EngineName::CopyRange), job(&source(&a), &dest(&b), 0, size));
    assert_eq!(outcome.end, End::Complete);
    assert_eq!(outcome.moved, Moved { offloaded: size, ..Moved::default() });
    assert_same_contents(&a, &b);
}

#[test]
fn only_the_asked_range_of_the_destination_changes() {
    let size = MIB + 1234;
    for place in &Places::new() {
        let dir = &place.dir;
        let a = dir.join("a");
        create_painted(&a, size);
        for name in moving() {
            let ranges = [
                (0, 4096),
                (4096, 8192),
                (8192, 100_000),
                (511, 1),
                (1, 70_000),
                (64 * KIB, size - 64 * KIB),
                (MIB, 5000),
            ];
            for (offset, len) in ranges {
                let b = dir.join("b");
                let old = vec![0xee; size as usize + 5000];
                fs::write(&b, &old).unwrap();
                let outcome = run(&mut *engine(name), job(&source(&a), &dest(&b), offset, len));
                let context = format!("{name} on {}: {offset}+{len}: {outcome:?}", place.name);
                let moved = outcome.moved.total();
                let expected_end = if offset + len <= size { End::Complete } else { End::SourceEnd };
                let shares = name.caps().shares == Shares::Always;
                if suits(name, place, place) && !shares {
                    assert_eq!((outcome.end, moved), (expected_end, len.min(size - offset)), "{context}");
                }
                if shares && place.reflinks {
                    // The old data behind the last block must not be lost, so only whole blocks are shared.
                    let shared = if offset % 4096 == 0 { len.min(size - offset) / 4096 * 4096 } else { 0 };
                    assert_eq!(moved, shared, "{context}");
                    let rest = if shared == len { End::Complete } else { End::Refused(Refusal::Misaligned) };
                    assert_eq!(outcome.end, rest, "{context}");
                }
                let mut expected = old;
                let (start, end) = (offset as usize, (offset + moved) as usize);
                expected[start..end].copy_from_slice(&painted_at(offset, end - start));
                assert!(fs::read(&b).unwrap() == expected, "{context}");
            }
        }
    }
}

#[test]
fn a_clone_of_the_tail_shares_the_partial_block_where_both_files_end() {
    for place in Places::new().where_there_is("shared extents", |place| place.reflinks) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 10_000);
        fs::write(&b, painted(4096)).unwrap();
        let outcome = run(&mut *engine(EngineName::Clone), job(&source(&a), &dest(&b), 4096, 1 << 20));
        assert_eq!(outcome.end, End::SourceEnd, "{}", place.name);
        assert_eq!(outcome.moved, Moved { cloned: 10_000 - 4096, ..Moved::default() }, "{}", place.name);
        assert_same_contents(&a, &b);
    }
}

#[test]
fn a_job_beyond_the_end_moves_nothing() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 100_000);
    for name in moving() {
        for offset in [100_000, 102_400, 1 << 40] {
            let outcome = run(&mut *engine(name), job(&source(&a), &dest(&b), offset, 4096));
            assert_eq!((outcome.end, outcome.moved), (End::SourceEnd, Moved::default()), "{name} {offset}");
        }
        let outcome = run(&mut *engine(name), job(&source(&a), &dest(&b), 0, 0));
        assert_eq!((outcome.end, outcome.moved), (End::Complete, Moved::default()), "{name}");
    }
}

#[test]
fn a_file_whose_size_lies_is_copied_to_its_real_end() {
    for place in &Places::new() {
        let dir = &place.dir;
        for name in moving() {
            for lying in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/self/status"] {
                let b = dir.join("b");
                let len = engine(name).caps().max_job.min(GIB);
                copy_in_jobs(&mut *engine(name), &source(lying), &dest(&b), len, Zeros::Write);
                let (copied, real) = (fs::read(&b).unwrap(), fs::read(lying).unwrap());
                assert!(!copied.is_empty(), "{name} {lying}");
                // The status changes between two reads, but not its beginning.
                let compared = if lying.ends_with("status") { 20 } else { real.len().max(copied.len()) };
                assert_eq!(copied[..compared.min(copied.len())], real[..compared.min(real.len())], "{name} {lying}");
                fs::remove_file(&b).unwrap();
            }
        }
    }
}

#[test]
fn a_source_that_grows_between_jobs_is_copied_with_its_growth() {
    for place in &Places::new() {
        let dir = &place.dir;
        for name in suiting(place) {
            let (a, b) = (dir.join("a"), dir.join("b"));
            create_painted(&a, 300_000);
            let (from, to) = (source(&a), dest(&b));
            let first = run(&mut *engine(name), job(&from, &to, 0, 1 << 20));
            assert_eq!((first.end, first.moved.total()), (End::SourceEnd, 300_000), "{name}");
            paint(&OpenOptions::new().write(true).open(&a).unwrap(), 300_000, 200_000);
            let second = run(&mut *engine(EngineName::ReadWrite), job(&from, &to, 300_000, 1 << 20));
            assert_eq!((second.end, second.moved.total()), (End::SourceEnd, 200_000), "{name}");
            assert_same_contents(&a, &b);
            fs::remove_file(&a).unwrap();
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn a_source_that_shrank_ends_where_it_ends() {
    for place in &Places::new() {
        let dir = &place.dir;
        for name in moving() {
            let (a, b) = (dir.join("a"), dir.join("b"));
            create_painted(&a, 300_000);
            let from = source(&a);
            OpenOptions::new().write(true).open(&a).unwrap().set_len(100_001).unwrap();
            let done = copy_in_jobs(&mut *engine(name), &from, &dest(&b), 300_000, Zeros::Write);
            assert_eq!(done.moved.total(), 100_001, "{name}");
            assert_same_contents(&a, &b);
            fs::remove_file(&a).unwrap();
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn any_buffer_size_gives_the_same_bytes() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 200_003);
    for name in moving() {
        for size in [0, 1, 13, 512, 4095, 4096, 65_536, 100_000, 8 << 20] {
            let mut engine = make(name, &Tuning { buffer_size: Some(size), ..Tuning::default() });
            copy_in_jobs(&mut *engine, &source(&a), &dest(&b), 150_000, Zeros::Write);
            assert_same_contents(&a, &b);
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn the_null_engine_writes_nothing_and_claims_the_size() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 10_000);
    let outcome = run(&mut *engine(EngineName::Null), job(&source(&a), &dest(&b), 1000, u64::MAX));
    assert_eq!((outcome.end, outcome.moved), (End::SourceEnd, Moved { written: 9000, ..Moved::default() }));
    assert_eq!(fs::metadata(&b).unwrap().len(), 0);
    let mut byte = [0];
    assert_eq!(fs::File::open(&b).unwrap().read_at(&mut byte, 0).unwrap(), 0);
}
