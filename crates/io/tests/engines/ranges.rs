//! Extents: a hint that never lies beyond what was seen, and always comes to an end.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use haul_io::ranges::{Extent, Extents};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::rustix::fs::{FallocateFlags, fallocate};
use haul_testbed::{create_painted, sparse_file, temp_dir};
use proptest::prelude::*;

use crate::places::Places;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn data(offset: u64, len: u64) -> Extent {
    Extent::Data { offset, len }
}

fn hole(offset: u64, len: u64) -> Extent {
    Extent::Hole { offset, len }
}

fn of(file: &File, from: u64, size: u64) -> Vec<Extent> {
    Extents::new(&Linux, file.as_fd(), from, size).collect::<Result<_, _>>().unwrap()
}

#[test]
fn holes_show_at_the_beginning_in_the_middle_and_at_the_end() {
    for place in &Places::new() {
        let dir = &place.dir;
        let path = dir.join("a");
        sparse_file(&path, 10 * MIB, &[(MIB, MIB), (5 * MIB, 64 * KIB)]);
        let file = File::open(&path).unwrap();
        let expected = [
            hole(0, MIB),
            data(MIB, MIB),
            hole(2 * MIB, 3 * MIB),
            data(5 * MIB, 64 * KIB),
            hole(5 * MIB + 64 * KIB, 5 * MIB - 64 * KIB),
        ];
        assert_eq!(of(&file, 0, 10 * MIB), expected, "{}", place.name);
        let later = [data(MIB + 4096, MIB - 4096), hole(2 * MIB, MIB)];
        assert_eq!(of(&file, MIB + 4096, 3 * MIB), later, "{}: a part of the file", place.name);
    }
}

#[test]
fn a_file_of_holes_a_full_file_and_an_empty_one() {
    for place in &Places::new() {
        let dir = &place.dir;
        sparse_file(dir.join("holes"), 5 << 30, &[]);
        create_painted(dir.join("full"), 100_001);
        create_painted(dir.join("empty"), 0);
        let open = |name| File::open(dir.join(name)).unwrap();
        assert_eq!(of(&open("holes"), 0, 5 << 30), [hole(0, 5 << 30)], "{}", place.name);
        assert_eq!(of(&open("full"), 0, 100_001), [data(0, 100_001)], "{}", place.name);
        assert_eq!(of(&open("empty"), 0, 0), [], "{}", place.name);
    }
}

#[test]
fn a_file_that_shrank_ends_earlier_and_one_that_grew_ends_where_it_was_seen_to_end() {
    for place in &Places::new() {
        let dir = &place.dir;
        sparse_file(dir.join("a"), 4 * MIB, &[(0, MIB)]);
        let file = File::open(dir.join("a")).unwrap();
        assert_eq!(of(&file, 0, 10 * MIB), [data(0, MIB), hole(MIB, 3 * MIB)], "{}", place.name);
        assert_eq!(of(&file, 8 * MIB, 10 * MIB), [], "{}", place.name);
        assert_eq!(of(&file, 0, MIB / 2), [data(0, MIB / 2)], "{}", place.name);
    }
}

#[test]
fn a_filesystem_that_cannot_say_has_nothing_but_data() {
    #[derive(Debug)]
    struct Without(Errno);
    impl Kernel for Without {
        fn seek_data(&self, _: Fd<'_>, _: u64) -> Result<u64, Errno> {
            Err(self.0)
        }
    }
    let file = File::open("/dev/null").unwrap();
    for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS] {
        let kernel = Without(errno);
        let found: Vec<_> = Extents::new(&kernel, file.as_fd(), 5, 1000).collect();
        assert_eq!(found, [Ok(data(5, 995))]);
    }
}

#[test]
fn an_io_error_is_an_error_and_not_the_end() {
    #[derive(Debug)]
    struct Broken;
    impl Kernel for Broken {
        fn seek_data(&self, _: Fd<'_>, offset: u64) -> Result<u64, Errno> {
            if offset > 0 { Err(Errno::IO) } else { Ok(0) }
        }
        fn seek_hole(&self, _: Fd<'_>, _: u64) -> Result<u64, Errno> {
            Ok(4096)
        }
    }
    let file = File::open("/dev/null").unwrap();
    let found: Vec<_> = Extents::new(&Broken, file.as_fd(), 0, 10_000).collect();
    assert_eq!(found, [Ok(data(0, 4096)), Err(Errno::IO)], "and nothing after it");
}

/// Answers whatever the test rolled.
#[derive(Debug)]
struct Random(Mutex<Vec<Result<u64, Errno>>>);

impl Random {
    fn next(&self) -> Result<u64, Errno> {
        let mut answers = self.0.lock().unwrap();
        answers.rotate_left(1);
        answers[0]
    }
}

impl Kernel for Random {
    fn seek_data(&self, _: Fd<'_>, _: u64) -> Result<u64, Errno> {
        self.next()
    }
    fn seek_hole(&self, _: Fd<'_>, _: u64) -> Result<u64, Errno> {
        self.next()
    }
    fn size(&self, _: Fd<'_>) -> Result<u64, Errno> {
        Ok(self.next().unwrap_or(0))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_kernel_says_extents_follow_each_other_and_end(
        answers in prop::collection::vec(
            prop_oneof![
                4 => (0u64..MIB).prop_map(Ok),
                1 => any::<u64>().prop_map(Ok),
                1 => Just(Err(Errno::NXIO)),
                1 => Just(Err(Errno::INVAL)),
                1 => Just(Err(Errno::IO)),
            ],
            1..20,
        ),
        from in 0..MIB,
        size in 0..MIB,
    ) {
        let kernel = Random(Mutex::new(answers));
        let file = File::open("/dev/null").unwrap();
        let mut at = from;
        let mut count = 0;
        for extent in Extents::new(&kernel, file.as_fd(), from, size) {
            count += 1;
            prop_assert!(count <= 2 * (MIB / (64 * KIB)) + 2 * 20 * MIB, "it goes on for ever");
            let Ok(extent) = extent else { continue };
            let (Extent::Data { offset, len } | Extent::Hole { offset, len }) = extent;
            prop_assert!(offset == at && len > 0 && extent.end() <= size);
            at = extent.end();
        }
    }
}

#[test]
fn a_place_that_becomes_a_hole_while_asked_for_does_not_hold_it_up() {
    /// Data and no data at every place, for ever.
    #[derive(Debug)]
    struct Flickering;
    impl Kernel for Flickering {
        fn seek_data(&self, _: Fd<'_>, offset: u64) -> Result<u64, Errno> {
            Ok(offset)
        }
        fn seek_hole(&self, _: Fd<'_>, offset: u64) -> Result<u64, Errno> {
            Ok(offset)
        }
    }
    let file = File::open("/dev/null").unwrap();
    let found: Vec<_> = Extents::new(&Flickering, file.as_fd(), 100, 200_000).collect();
    let expected = [data(100, 65_436), data(65_536, 65_536), data(131_072, 65_536), data(196_608, 3392)];
    assert_eq!(found, expected.map(Ok));
}

#[test]
fn they_end_while_the_file_is_punched_truncated_and_written() {
    let dir = temp_dir();
    let path = dir.path().join("a");
    create_painted(&path, 8 * MIB);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            let mut turn = 0u64;
            while !stop.load(Ordering::Relaxed) {
                turn += 1;
                let at = turn.wrapping_mul(0x9e37_79b9) % (8 * MIB) / 4096 * 4096;
                match turn % 4 {
                    0 => {
                        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, 64 * KIB).unwrap()
                    }
                    1 => file.set_len(at).unwrap(),
                    2 => file.set_len(8 * MIB).unwrap(),
                    _ => file.write_all_at(&[1; 4096], at).unwrap(),
                }
            }
        });
        let file = File::open(&path).unwrap();
        for _ in 0..500 {
            let mut at = 0;
            for extent in Extents::new(&Linux, file.as_fd(), 0, 8 * MIB) {
                let extent = extent.unwrap();
                assert!(extent.end() > at && extent.end() <= 8 * MIB);
                at = extent.end();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
