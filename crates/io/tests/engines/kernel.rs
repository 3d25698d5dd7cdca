//! The kernel does not play along: every engine's answer to short counts, interruptions, errors and surprises.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_io::engine::EngineName;
use haul_io::engine::wrap::{Call, Hook, Hooked, Unruly};
use haul_io::engine::{End, FailedOn, Failure, Moved, Needs, Refusal, Side, Tuning, Zeros, make_on};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::map::Mapping;
use haul_sys::rustix::event::{PollFd, PollFlags, poll};
use haul_testbed::{assert_same_contents, create_painted, painted};

use crate::harness::{copy_in_jobs, dest, engine, engine_on, job, run, source, suiting};
use crate::places::{Place, Places};

const MIB: u64 = 1 << 20;

#[test]
fn short_counts_and_interruptions_lose_and_repeat_nothing() {
    for place in &Places::new() {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 9 * MIB + 1234);
        for name in suiting(place) {
            for seed in 0..4 {
                let mut engine = engine_on(Unruly::new(seed, 3 * MIB), name);
                // The odd lengths are for those that take them.
                let len = if name.caps().needs_alignment { 4 * MIB } else { 4 * MIB + 77 };
                let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), len, Zeros::Write);
                assert_eq!(done.refused, None, "{name} on {} with seed {seed}", place.name);
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

/// Answers one call with an error from its `after`-th use on.
#[derive(Debug)]
struct Failing {
    call: Option<Call>,
    after: u64,
    errno: Errno,
    uses: Arc<Mutex<HashMap<Call, u64>>>,
}

impl Failing {
    fn new(call: Call, after: u64, errno: Errno) -> Hooked<Failing> {
        Hooked(Failing { call: Some(call), after, errno, uses: Arc::default() })
    }
}

/// Pieces of this size, so that a fault can stand in the middle of a small file.
const PIECE: usize = 64 << 10;

impl Hook for Failing {
    fn before(&self, call: Call) -> Result<usize, Errno> {
        let mut uses = self.uses.lock().unwrap();
        let count = uses.entry(call).or_default();
        *count += 1;
        if self.call == Some(call) && *count > self.after { Err(self.errno) } else { Ok(PIECE) }
    }
}

/// The calls by which an engine moves a file of so many bytes here, with how often it makes them.
fn calls_of(name: EngineName, dir: &Path, size: u64) -> HashMap<Call, u64> {
    let (a, b) = (dir.join("calls-from"), dir.join("calls-to"));
    create_painted(&a, size);
    let uses = Arc::default();
    let kernel = Failing { call: None, after: 0, errno: Errno::IO, uses: Arc::clone(&uses) };
    run(&mut *engine_on(Hooked(kernel), name), job(&source(&a), &dest(&b), 0, size));
    fs::remove_file(a).unwrap();
    fs::remove_file(b).unwrap();
    uses.lock().unwrap().clone()
}

/// How a failure of a call is reported.
fn failed_on(call: Call) -> FailedOn {
    match call {
        Call::Read | Call::Pread | Call::PreadDontcache | Call::SpliceIn | Call::Map => FailedOn::Read,
        Call::Write | Call::Pwrite | Call::PwriteDontcache | Call::SpliceOut | Call::WriteMapped => FailedOn::Write,
        Call::CopyFileRange | Call::CloneFile | Call::CloneRange => FailedOn::Copy,
        Call::PunchHole => FailedOn::Hole,
        Call::SeekData | Call::SeekHole => panic!("an engine looks for no holes"),
        Call::Fadvise | Call::Allocate => panic!("nobody is asked before"),
    }
}

#[test]
fn final_errors_fail_at_once_or_midway_and_are_never_refused() {
    for place in &Places::new() {
        let (a, b) = (place.dir.join("a"), place.dir.join("b"));
        create_painted(&a, MIB);
        for name in suiting(place) {
            let calls = calls_of(name, &place.dir, MIB);
            // What a queue is asked fails in the tests of those.
            assert!(!calls.is_empty() || name.caps().queued, "{name} asks nothing of the kernel on {}", place.name);
            for (call, uses) in calls {
                for errno in
                    [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::NOMEM, Errno::FBIG, Errno::ROFS, Errno::STALE]
                {
                    for after in [0, 3].into_iter().filter(|after| *after < uses) {
                        let mut engine = engine_on(Failing::new(call, after, errno), name);
                        let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, MIB));
                        let context = format!("{name} on {} {call:?} {errno:?} after {after}", place.name);
                        let failure = Failure { on: failed_on(call), errno };
                        assert_eq!(outcome.end, End::Failed(failure), "{context}");
                        let moved = outcome.moved.total() as usize;
                        assert_eq!(fs::read(&b).unwrap()[..moved], painted(moved), "{context}");
                        assert_eq!(moved > 0, after > 0, "{context}");
                        fs::remove_file(&b).unwrap();
                    }
                }
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn unsupported_refuses_at_once_or_midway_at_the_exact_byte() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, MIB + 777);
    let common = [Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL, Errno::BADF, Errno::TXTBSY, Errno::PERM, Errno::ACCESS];
    let cases = [
        (EngineName::CopyRange, Call::CopyFileRange, &[Errno::XDEV, Errno::NOENT][..]),
        (EngineName::Clone, Call::CloneFile, &[Errno::XDEV, Errno::NOTTY, Errno::AGAIN]),
        (EngineName::Splice, Call::SpliceIn, &[]),
        (EngineName::Splice, Call::SpliceOut, &[]),
        (EngineName::Mapped, Call::Map, &[Errno::NODEV]),
        (EngineName::MappedDirect, Call::Map, &[Errno::NODEV]),
    ];
    let is_here = |name: EngineName| name.caps().needs != Needs::DirectDest || place.direct;
    for (name, call, more) in cases.into_iter().filter(|(name, ..)| is_here(*name)) {
        for errno in common.iter().chain(more) {
            for after in [0, 3] {
                if after > 0 && matches!(call, Call::CloneFile | Call::Map) {
                    continue;
                }
                let mut engine = engine_on(Failing::new(call, after, *errno), name);
                let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), 2 * MIB, Zeros::Write);
                let context = format!("{name} {call:?} {errno:?} after {after}: {done:?}");
                let (at, refusal) = done.refused.unwrap();
                assert_eq!(refusal, Refusal::Unsupported(*errno), "{context}");
                // What is in the pipe is written before the next engine goes on.
                let in_pipe = if call == Call::SpliceOut { PIECE as u64 } else { 0 };
                assert_eq!(at, after * PIECE as u64 + in_pipe, "{context}");
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
    }
}

#[test]
fn a_range_clone_that_is_not_supported_refuses() {
    for place in Places::new().where_there_is("shared extents", |place| place.reflinks) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, MIB);
        let mut engine = engine_on(Failing::new(Call::CloneRange, 1, Errno::OPNOTSUPP), EngineName::Clone);
        let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB / 4, Zeros::Write);
        assert_eq!(done.refused, Some((MIB / 4, Refusal::Unsupported(Errno::OPNOTSUPP))));
        assert_same_contents(&a, &b);
    }
}

/// FICLONE fails as unsupported after it has changed the destination, as OpenZFS may.
#[derive(Debug)]
struct HalfClone;

impl Kernel for HalfClone {
    fn clone_file(&self, _: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        Linux.pwrite(dest, b"rubbish", 0)?;
        Err(Errno::INVAL)
    }
}

#[test]
fn a_clone_that_spoilt_the_destination_is_a_failure() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    create_painted(dir.join("a"), MIB);
    let mut engine = engine_on(HalfClone, EngineName::Clone);
    let outcome = run(&mut *engine, job(&source(dir.join("a")), &dest(dir.join("b")), 0, MIB));
    assert_eq!(outcome.end, End::Failed(Failure { on: FailedOn::Copy, errno: Errno::INVAL }));
}

/// FICLONE says success after a part, as XFS did from 4.20 when space ran out half way.
#[derive(Debug)]
struct ShortClone(usize);

impl Kernel for ShortClone {
    fn clone_file(&self, _: Fd<'_>, dest: Fd<'_>) -> Result<(), Errno> {
        Linux.pwrite(dest, &vec![7; self.0], 0).map(|_| ())
    }
}

#[test]
fn a_clone_that_is_cut_short_is_a_failure_and_not_the_end() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    create_painted(dir.join("a"), MIB);
    for part in [0, 4096] {
        let mut engine = engine_on(ShortClone(part), EngineName::Clone);
        let outcome = run(&mut *engine, job(&source(dir.join("a")), &dest(dir.join("b")), 0, u64::MAX));
        assert_eq!(outcome.end, End::Failed(Failure { on: FailedOn::Copy, errno: Errno::NOSPC }), "{part}");
        fs::remove_file(dir.join("b")).unwrap();
    }
}

/// copy_file_range and splice say that they moved nothing, as on virtual filesystems before Linux 5.19.
#[derive(Debug)]
struct Idle {
    after: AtomicU64,
}

impl Hook for Idle {
    fn before(&self, call: Call) -> Result<usize, Errno> {
        if !matches!(call, Call::CopyFileRange | Call::SpliceIn) {
            return Ok(usize::MAX);
        }
        let left = self.after.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        Ok(if left.is_ok() { PIECE } else { 0 })
    }
}

#[test]
fn nothing_moved_is_not_the_end_unless_a_read_says_so() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, MIB);
    for name in [EngineName::CopyRange, EngineName::Splice] {
        for after in [0, 2] {
            let mut engine = engine_on(Hooked(Idle { after: AtomicU64::new(after) }), name);
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), 2 * MIB, Zeros::Write);
            assert_eq!(done.refused, Some((after * PIECE as u64, Refusal::NoProgress)), "{name}");
            assert_same_contents(&a, &b);
            fs::remove_file(&b).unwrap();
        }
    }
}

/// A server copies what it is asked for first and answers to nothing more, as one whose call back was lost.
#[derive(Debug)]
struct Silent {
    asked: AtomicBool,
    never: (OwnedFd, OwnedFd),
}

impl Kernel for Silent {
    fn copy_file_range(&self, source: Fd<'_>, dest: Fd<'_>, offset: u64, len: usize) -> Result<usize, Errno> {
        if !self.asked.swap(true, Ordering::Relaxed) {
            return Linux.copy_file_range(source, dest, offset, len.min(PIECE));
        }
        poll(&mut [PollFd::new(&self.never.0, PollFlags::IN)], None)?;
        unreachable!("nothing is written to this pipe")
    }
}

#[test]
fn what_a_server_does_not_answer_in_time_is_left_to_the_next_engine() {
    let places = Places::plain();
    let dir = &places.first().dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, MIB);
    let kernel = Silent { asked: AtomicBool::new(false), never: haul_sys::rustix::pipe::pipe().unwrap() };
    let tuning = Tuning { patience: Some(Duration::from_millis(20)), ..Tuning::default() };
    let mut engine = make_on(Arc::new(kernel), EngineName::CopyRange, &tuning);
    let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Write);
    assert_eq!(done.refused, Some((PIECE as u64, Refusal::NoAnswer)));
    assert_same_contents(&a, &b);
}

/// The engines that write from a mapping here.
fn mapping(place: &Place) -> Vec<EngineName> {
    suiting(place).filter(|name| calls_of(*name, &place.dir, MIB).contains_key(&Call::WriteMapped)).collect()
}

/// Truncates the source right before a write from its mapping.
#[derive(Debug)]
struct Truncating {
    source: File,
    len: u64,
    before_byte: u64,
}

impl Kernel for Truncating {
    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        let at = offset.unwrap();
        if at <= self.before_byte && self.before_byte < at + len as u64 {
            self.source.set_len(self.len).unwrap();
        }
        Linux.write_mapped(fd, mapping, from, len, offset)
    }

    fn splice(&self, source: (Fd<'_>, Option<u64>), dest: (Fd<'_>, Option<u64>), len: usize) -> Result<usize, Errno> {
        let is_cut = |at| at <= self.before_byte && self.before_byte < at + len as u64;
        if dest.1.is_some_and(is_cut) {
            self.source.set_len(self.len).unwrap();
        }
        Linux.splice(source, dest, len)
    }
}

#[test]
fn a_source_truncated_while_mapped_or_in_a_pipe_is_an_error_and_no_signal() {
    for place in &Places::new() {
        let dir = &place.dir;
        // Within the first page, at a page, within a later page, in the second segment, to nothing.
        let cuts = [
            (0, 100),
            (0, 4096),
            (0, 5 * MIB + 1),
            (0, 0),
            (9 * MIB, 8 * MIB + 5),
            (9 * MIB, 10),
            (9 * MIB, 10 * MIB - 1),
        ];
        let mapped = mapping(place).into_iter().map(|name| (name, 8 * MIB));
        let engines = mapped.chain([(EngineName::Splice, 64 << 10)]);
        for ((name, segment), (before_byte, len)) in engines.flat_map(|engine| cuts.map(|cut| (engine, cut))) {
            let (a, b) = (dir.join("a"), dir.join("b"));
            create_painted(&a, 10 * MIB);
            let file = OpenOptions::new().write(true).open(&a).unwrap();
            let kernel = Truncating { source: file, len, before_byte };
            let sized = Side { size: Some(10 * MIB), ..source(&a) };
            let outcome = run(&mut *engine_on(kernel, name), job(&sized, &dest(&b), 0, 10 * MIB));
            let context = format!("{name} on {} cut to {len} before {before_byte}: {outcome:?}", place.name);
            // A cut behind what is in hand is met by the next read.
            let begin = before_byte / segment * segment;
            let truncated = End::Failed(Failure { on: FailedOn::Truncated, errno: Errno::NODATA });
            let expected = if len < begin + segment { truncated } else { End::SourceEnd };
            assert_eq!(outcome.end, expected, "{context}");
            // What is counted was there when it was copied.
            let moved = outcome.moved.total() as usize;
            assert!(moved as u64 <= len.max(begin), "{context}");
            assert!(fs::read(&b).unwrap()[..moved] == painted(10 << 20)[..moved], "{context}");
            fs::remove_file(&a).unwrap();
            fs::remove_file(&b).unwrap();
        }
    }
}

/// A page of the mapping cannot be read once, as after a read error that went away.
#[derive(Debug)]
struct BadPage {
    bad: AtomicBool,
    read: Option<Errno>,
}

impl Kernel for BadPage {
    fn write_mapped(
        &self,
        fd: Fd<'_>,
        mapping: &Mapping,
        from: usize,
        len: usize,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        if from >= 1 << 20 && self.bad.swap(false, Ordering::Relaxed) {
            return Err(Errno::FAULT);
        }
        Linux.write_mapped(fd, mapping, from, len.min(1 << 20), offset)
    }

    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.read.map_or_else(|| Linux.pread(fd, buffer, offset), Err)
    }
}

#[test]
fn a_page_that_cannot_be_mapped_in_is_read_or_its_error_reported() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 3 * MIB + 5);
    for name in mapping(place) {
        let run_with = |read| {
            let kernel = BadPage { bad: AtomicBool::new(true), read };
            run(&mut *engine_on(kernel, name), job(&source(&a), &dest(&b), 0, 3 * MIB + 5))
        };
        assert_eq!(run_with(None).end, End::Complete, "{name}");
        assert_same_contents(&a, &b);
        let outcome = run_with(Some(Errno::IO));
        assert_eq!(outcome.end, End::Failed(Failure { on: FailedOn::Read, errno: Errno::IO }), "{name}");
        assert_eq!(outcome.moved, Moved { written: MIB, ..Moved::default() }, "{name}");
        fs::remove_file(&b).unwrap();
    }
}

/// Direct requests are answered with EINVAL after some bytes, as by a device with stricter rules than it reported.
#[derive(Debug)]
struct Strict {
    reads_after: u64,
    writes_after: u64,
}

impl Kernel for Strict {
    fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        if offset >= self.reads_after && Linux.is_direct(fd)? {
            return Err(Errno::INVAL);
        }
        let most = buffer.len().min(1 << 20);
        Linux.pread(fd, &mut buffer[..most], offset)
    }

    fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        if offset >= self.writes_after && Linux.is_direct(fd)? {
            return Err(Errno::INVAL);
        }
        Linux.pwrite(fd, bytes, offset)
    }
}

#[test]
fn a_side_that_will_not_be_direct_is_buffered_and_two_of_them_refuse() {
    let size = 5 * MIB + 4321;
    for place in Places::new().where_there_is("direct I/O", |place| place.direct) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, size);
        for (reads_after, writes_after, refused_at) in [
            (0, u64::MAX, None),
            (2 * MIB, u64::MAX, None),
            (u64::MAX, 0, None),
            (u64::MAX, 3 * MIB, None),
            (2 * MIB, 3 * MIB, Some(4 * MIB)),
            // The bytes that were read already are still written.
            (0, 0, Some(MIB)),
        ] {
            let mut engine = engine_on(Strict { reads_after, writes_after }, EngineName::Direct);
            let (from, to) = (source(&a), dest(&b));
            let done = copy_in_jobs(&mut *engine, &from, &to, u64::MAX, Zeros::Write);
            let context = format!("{} {reads_after} {writes_after}: {done:?}", place.name);
            assert_same_contents(&a, &b);
            match refused_at {
                None => assert_eq!(done.refused, None, "{context}"),
                Some(_) => assert_eq!(done.refused.unwrap().1, Refusal::Unsupported(Errno::INVAL), "{context}"),
            }
            assert!(!Linux.is_direct(from.as_fd()).unwrap() && !Linux.is_direct(to.as_fd()).unwrap(), "{context}");
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn direct_copies_by_direct_requests_and_leaves_the_flag_as_it_was() {
    #[derive(Debug)]
    struct Counting;
    static DIRECT: AtomicU64 = AtomicU64::new(0);
    impl Kernel for Counting {
        fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
            let count = Linux.pread(fd, buffer, offset)?;
            if Linux.is_direct(fd)? {
                DIRECT.fetch_add(count as u64, Ordering::Relaxed);
            }
            Ok(count)
        }
        fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            let count = Linux.pwrite(fd, bytes, offset)?;
            if Linux.is_direct(fd)? {
                DIRECT.fetch_add(count as u64, Ordering::Relaxed);
            }
            Ok(count)
        }
    }
    let places = Places::new();
    let directs = places.where_there_is("direct I/O", |place| place.direct);
    let others = (&places).into_iter().filter(|place| !place.direct);
    let Some(direct) = directs.first() else { return };
    let pairs = others.flat_map(|other| [(*direct, other, 1), (other, *direct, 1)]);
    // From an odd offset to an odd end: all but the head and the tail is direct.
    let (offset, size) = (777, 9 * MIB + 999);
    for (from, to, sides) in pairs.chain([(*direct, *direct, 2)]) {
        let (a, b) = (from.dir.join("a"), to.dir.join("b"));
        create_painted(&a, size);
        for was_on in [false, true] {
            let (source, dest) = (source(&a), dest(&b));
            if sides == 2 {
                Linux.set_direct(source.as_fd(), was_on).unwrap();
                Linux.set_direct(dest.as_fd(), was_on).unwrap();
            }
            DIRECT.store(0, Ordering::Relaxed);
            let outcome =
                run(&mut *engine_on(Counting, EngineName::Direct), job(&source, &dest, offset, size - offset));
            assert_eq!((outcome.end, outcome.moved.total()), (End::Complete, size - offset));
            let mut copied = vec![0; (size - offset) as usize];
            File::open(&b).unwrap().read_exact_at(&mut copied, offset).unwrap();
            assert!(copied == painted(size as usize)[offset as usize..]);
            let direct = DIRECT.load(Ordering::Relaxed);
            assert!(direct >= sides * (9 * MIB - 4096), "{direct} bytes were direct on {sides} sides");
            if sides == 2 {
                assert_eq!(Linux.is_direct(source.as_fd()).unwrap(), was_on);
                assert_eq!(Linux.is_direct(dest.as_fd()).unwrap(), was_on);
            }
            fs::remove_file(&b).unwrap();
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn a_failed_write_leaves_nothing_for_the_next_job() {
    // Bytes of the first file must not come out of the pipe into the second.
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    fs::write(&a, vec![0xaa; 300_000]).unwrap();
    create_painted(&c, 200_000);
    #[derive(Debug)]
    struct FailsOnce(AtomicBool);
    impl Hook for FailsOnce {
        fn before(&self, call: Call) -> Result<usize, Errno> {
            let fails = call == Call::SpliceOut && self.0.swap(false, Ordering::Relaxed);
            if fails { Err(Errno::IO) } else { Ok(usize::MAX) }
        }
    }
    let mut engine = engine_on(Hooked(FailsOnce(AtomicBool::new(true))), EngineName::Splice);
    let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, MIB));
    assert_eq!(outcome.end, End::Failed(Failure { on: FailedOn::Write, errno: Errno::IO }));
    copy_in_jobs(&mut *engine, &source(&c), &dest(&b), MIB, Zeros::Write);
    assert_same_contents(&c, &b);
}

#[test]
fn an_ordinary_error_is_the_kernels_own() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 100_000);
    fs::write(&b, b"").unwrap();
    // A destination that is open for reading only, which no fallback can fix.
    let outcome = run(&mut *engine(EngineName::ReadWrite), job(&source(&a), &source(&b), 0, 1));
    assert_eq!(outcome.end, End::Failed(Failure { on: FailedOn::Write, errno: Errno::BADF }));
}
