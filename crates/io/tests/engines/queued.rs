//! The asynchronous engines when their requests fail, end late, end short, find no room, or lose their source.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_io::engine::EngineName;
use haul_io::engine::{End, Engine, FailedOn, Failure, Needs, Refusal, Tuning, Zeros, make_on};
use haul_sys::Errno;
use haul_sys::kernel::{Fd, Kernel, Linux};
use haul_sys::queue::{Completion, MOST_SLOTS, Queue, QueueKind, Request};
use haul_sys::rustix;
use haul_testbed::{assert_same_contents, create_painted, painted};

use crate::harness::{copy_in_jobs, dest, job, run, source, suiting};
use crate::places::{Place, Places};

const MIB: u64 = 1 << 20;
/// A block of a flight, and how many are in flight.
const BLOCK: u64 = 64 << 10;
const DEPTH: usize = 4;
const TUNING: Tuning =
    Tuning { buffer_size: Some(BLOCK as usize), depth: Some(DEPTH), no_preallocation: false, patience: None };

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// What the kernel makes of it.
    Pass,
    /// The same, but completed only when nothing else is in flight.
    Late,
    /// This, and nothing is done.
    Say(Result<usize, Errno>),
    /// This, completed only when nothing else is in flight.
    SayLate(Result<usize, Errno>),
    /// There is no room in the queue.
    Full,
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// What the queue was asked.
#[derive(Debug, Default)]
struct Log {
    requests: Mutex<Vec<Request>>,
    most_in_flight: AtomicUsize,
    most_memory: AtomicUsize,
    queues: AtomicUsize,
    /// Requests in flight when a queue was closed or dropped.
    left_behind: AtomicUsize,
}

/// A kernel with scripted queues.
struct Scripted {
    script: Arc<Script>,
    log: Arc<Log>,
    /// What waiting gives instead, from the second time on.
    broken: Option<Errno>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Kernel for Scripted {
    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        self.log.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(ScriptedQueue {
            inner: Linux.queue(kind)?,
            script: Arc::clone(&self.script),
            log: Arc::clone(&self.log),
            broken: self.broken,
            waits: 0,
            at_work: HashSet::new(),
            late: HashSet::new(),
            held: Vec::new(),
            made_up: Vec::new(),
        }))
    }
}

struct ScriptedQueue {
    inner: Box<dyn Queue>,
    script: Arc<Script>,
    log: Arc<Log>,
    broken: Option<Errno>,
    waits: usize,
    /// Slots that the real queue works on.
    at_work: HashSet<usize>,
    /// Those of them that complete late.
    late: HashSet<usize>,
    /// Completions to be handed out late.
    held: Vec<Completion>,
    /// Completions to be handed out at once.
    made_up: Vec<Completion>,
}

impl std::fmt::Debug for ScriptedQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptedQueue")
    }
}

impl ScriptedQueue {
    fn in_flight(&self) -> usize {
        self.at_work.len() + self.held.len() + self.made_up.len()
    }

    fn completes_late(&self, slot: usize) -> bool {
        self.held.iter().chain(&self.made_up).any(|completion| completion.slot == slot)
    }
}

impl Drop for ScriptedQueue {
    fn drop(&mut self) {
        self.log.left_behind.fetch_add(self.in_flight(), Ordering::Relaxed);
    }
}

impl Queue for ScriptedQueue {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        self.log.most_memory.fetch_max(block * slots, Ordering::Relaxed);
        self.inner.shape(block, slots)
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.inner.open(files)
    }

    fn close(&mut self) -> Result<(), Errno> {
        self.log.left_behind.fetch_add(self.in_flight(), Ordering::Relaxed);
        self.inner.close()
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        if self.completes_late(slot) { Err(Errno::BUSY) } else { self.inner.buffer(slot) }
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        assert!(!self.completes_late(request.slot), "one request at a time in a slot");
        let slot = request.slot;
        match (self.script)(request) {
            Answer::Full => return Err(Errno::AGAIN),
            Answer::Say(result) => self.made_up.push(Completion { slot, result }),
            Answer::SayLate(result) => self.held.push(Completion { slot, result }),
            answer => {
                self.inner.push(request)?;
                self.at_work.insert(slot);
                if answer == Answer::Late {
                    self.late.insert(slot);
                }
            }
        }
        self.log.requests.lock().unwrap().push(*request);
        self.log.most_in_flight.fetch_max(self.in_flight(), Ordering::Relaxed);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.waits += 1;
        if let Some(errno) = self.broken
            && self.waits > 1
        {
            return Err(errno);
        }
        if !self.made_up.is_empty() {
            done.append(&mut self.made_up);
            return Ok(());
        }
        if self.at_work.is_empty() {
            done.append(&mut self.held);
            return Ok(());
        }
        let mut completions = Vec::new();
        self.inner.wait(&mut completions)?;
        for completion in completions {
            self.at_work.remove(&completion.slot);
            let late = self.late.remove(&completion.slot);
            (if late { &mut self.held } else { &mut *done }).push(completion);
        }
        Ok(())
    }
}

/// An engine over a scripted queue.
fn scripted(
    name: EngineName,
    script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> (Box<dyn Engine>, Arc<Log>) {
    let log = Arc::new(Log::default());
    let kernel = Scripted { script: Arc::new(script), log: Arc::clone(&log), broken: None };
    (make_on(Arc::new(kernel), name, &TUNING), log)
}

/// The asynchronous engines that suit a place.
fn queued(place: &Place) -> impl Iterator<Item = EngineName> {
    suiting(place).filter(|name| name.caps().queued)
}

/// Runs something for each asynchronous engine in each place that it suits.
fn everywhere(mut with: impl FnMut(EngineName, &Place)) {
    for place in &Places::new() {
        for name in queued(place) {
            with(name, place);
            for file in ["a", "b"] {
                fs::remove_file(place.dir.join(file)).ok(); // not every test makes both
            }
        }
    }
}

/// Without any direct side such an engine would only be a slow way to read and write.
fn needs_direct(name: EngineName) -> bool {
    name.caps().needs == Needs::Direct
}

fn nothing_left(log: &Log) -> bool {
    log.left_behind.load(Ordering::Relaxed) == 0
}

#[test]
fn a_final_error_midway_leaves_the_exact_prefix_and_nothing_in_flight() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB);
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::NOMEM, Errno::FBIG] {
            for write in [false, true] {
                for number in [0, 1, 7, 31] {
                    let bad = number * BLOCK;
                    for late in [false, true] {
                        let (mut engine, log) = scripted(name, move |request| match request {
                            _ if request.write != write || request.offset != bad => Answer::Pass,
                            _ if late => Answer::SayLate(Err(errno)),
                            _ => Answer::Say(Err(errno)),
                        });
                        let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * MIB));
                        let context = format!("{name} on {}: {errno:?} {write} {number} {late}", place.name);
                        let on = if write { FailedOn::Write } else { FailedOn::Read };
                        assert_eq!(outcome.end, End::Failed(Failure { on, errno }), "{context}");
                        assert_eq!(outcome.moved.total(), bad, "{context}");
                        assert!(fs::read(&b).unwrap()[..bad as usize] == painted(bad as usize), "{context}");
                        drop(engine);
                        assert!(nothing_left(&log), "{context}");
                        fs::remove_file(&b).unwrap();
                    }
                }
            }
        }
    });
}

#[test]
fn of_two_errors_the_earlier_place_counts_whichever_completes_first() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB);
        for write in [false, true] {
            let (mut engine, _) =
                scripted(name, move |request| match (request.write == write, request.offset / BLOCK) {
                    (true, 5) => Answer::SayLate(Err(Errno::IO)),
                    (true, 6) => Answer::Say(Err(Errno::NOSPC)),
                    _ => Answer::Pass,
                });
            let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * MIB));
            let on = if write { FailedOn::Write } else { FailedOn::Read };
            let context = format!("{name} on {}", place.name);
            assert_eq!(outcome.end, End::Failed(Failure { on, errno: Errno::IO }), "{context}");
            assert_eq!(outcome.moved.total(), 5 * BLOCK, "{context}");
            fs::remove_file(&b).unwrap();
        }
    });
}

#[test]
fn requests_that_end_in_any_order_give_the_same_bytes() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 3 * MIB + 77);
        for turn in 1..6 {
            let (mut engine, log) = scripted(name, move |request| {
                let late = (request.offset / BLOCK + u64::from(request.write)).is_multiple_of(turn);
                if late { Answer::Late } else { Answer::Pass }
            });
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB + 13, Zeros::Write);
            assert_eq!(done.refused, None, "{name} on {}", place.name);
            assert_same_contents(&a, &b);
            assert_eq!(log.queues.load(Ordering::Relaxed), 1, "one queue for all jobs");
            assert!(nothing_left(&log));
            fs::remove_file(&b).unwrap();
        }
    });
}

#[test]
fn nothing_is_written_behind_the_end_that_a_late_read_tells() {
    // The blocks behind were read before the source lost them.
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB);
        for number in [0, 1, 5, 31] {
            let end = number * BLOCK;
            let (mut engine, log) = scripted(name, move |request| match (request.write, request.offset) {
                (false, offset) if offset == end => Answer::SayLate(Ok(0)),
                _ => Answer::Pass,
            });
            let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * MIB));
            let context = format!("{name} on {}: {number}: {outcome:?}", place.name);
            assert_eq!((outcome.end, outcome.moved.total()), (End::SourceEnd, end), "{context}");
            assert!(fs::read(&b).unwrap() == painted(end as usize), "{context}");
            let requests = log.requests.lock().unwrap();
            let behind = |write| requests.iter().any(|request| request.write == write && request.offset > end);
            assert!(!behind(true) && (behind(false) || number == 31), "{context}");
            fs::remove_file(&b).unwrap();
        }
    });
}

#[test]
fn a_source_that_shrinks_during_a_job_is_copied_up_to_its_end() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        for (number, len) in [(0, 0), (0, 100), (6, 6 * BLOCK + 1), (6, 8 * BLOCK), (6, 9 * BLOCK + 4097), (6, 10)] {
            create_painted(&a, 2 * MIB);
            let cut = OpenOptions::new().write(true).open(&a).unwrap();
            let (mut engine, _) = scripted(name, move |request| {
                if !request.write && request.offset == number * BLOCK {
                    cut.set_len(len).unwrap();
                }
                Answer::Pass
            });
            let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * MIB));
            let context = format!("{name} on {}: {number} {len}: {outcome:?}", place.name);
            assert_eq!(outcome.end, End::SourceEnd, "{context}");
            let moved = outcome.moved.total();
            // Blocks before that one may have been read while they were there.
            assert!(moved >= len.min(number * BLOCK) && moved <= len.max(number * BLOCK), "{context}");
            assert!(fs::read(&b).unwrap() == painted(moved as usize), "{context}");
            fs::remove_file(&a).unwrap();
            fs::remove_file(&b).unwrap();
        }
    });
}

#[test]
fn a_queue_without_room_loses_nothing() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB + 1);
        for room in [0, 1, 2] {
            let asked = AtomicUsize::new(0);
            // With no room at all everything goes by plain calls; else every second or third request is turned away.
            let (mut engine, log) = scripted(name, move |_| {
                let turn = asked.fetch_add(1, Ordering::Relaxed);
                if room == 0 || turn.is_multiple_of(room + 1) { Answer::Full } else { Answer::Pass }
            });
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Write);
            assert_eq!(done.refused, None, "{name} on {}", place.name);
            assert_same_contents(&a, &b);
            assert_eq!(log.requests.lock().unwrap().is_empty(), room == 0);
            fs::remove_file(&b).unwrap();
        }
    });
}

#[test]
fn an_interrupted_or_called_off_request_is_done_all_the_same() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB + 1);
        for errno in [Errno::INTR, Errno::AGAIN, Errno::CANCELED] {
            let asked = AtomicUsize::new(0);
            let (mut engine, _) = scripted(name, move |_| match asked.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => Answer::Say(Err(errno)),
                1 => Answer::SayLate(Err(errno)),
                _ => Answer::Pass,
            });
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Write);
            assert_eq!(done.refused, None, "{name} on {}: {errno:?}", place.name);
            assert_same_contents(&a, &b);
            fs::remove_file(&b).unwrap();
        }
    });
}

#[test]
fn requests_that_are_not_supported_refuse_at_the_exact_byte() {
    everywhere(|name, place| {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB + 1);
        for errno in [Errno::NOSYS, Errno::OPNOTSUPP, Errno::PERM, Errno::ACCESS] {
            for write in [false, true] {
                let (mut engine, _) = scripted(name, move |request| {
                    let refused = request.write == write && request.offset >= 8 * BLOCK;
                    if refused { Answer::Say(Err(errno)) } else { Answer::Pass }
                });
                let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), 4 * MIB, Zeros::Write);
                let (at, refusal) = done.refused.unwrap();
                assert_eq!(refusal, Refusal::Unsupported(errno), "{name} on {}", place.name);
                // What was on its way when the refusal came is moved by plain calls.
                assert!((8 * BLOCK..=16 * BLOCK).contains(&at), "{name} on {}: {at}", place.name);
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
    });
}

#[test]
fn a_side_that_will_not_be_direct_is_buffered() {
    for place in Places::new().where_there_is("direct I/O", |place| place.direct) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB + 1);
        for name in queued(place) {
            for (reads, writes) in [(true, false), (false, true), (true, true)] {
                let (mut engine, log) = scripted(name, move |request| {
                    let strict = if request.write { writes } else { reads };
                    let refused = strict && request.direct && request.offset >= 4 * BLOCK;
                    if refused { Answer::Say(Err(Errno::INVAL)) } else { Answer::Pass }
                });
                let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), 4 * MIB, Zeros::Write);
                assert_same_contents(&a, &b);
                let refuses = needs_direct(name) && reads && writes;
                let refused = done.refused.map(|(_, refusal)| refusal);
                assert_eq!(refused, refuses.then_some(Refusal::Unsupported(Errno::INVAL)), "{name} {reads} {writes}");
                let requests = log.requests.lock().unwrap();
                assert!(requests.iter().filter(|request| request.offset < 4 * BLOCK).all(|request| request.direct));
                drop(requests);
                fs::remove_file(&b).unwrap();
            }
        }
        fs::remove_file(&a).unwrap();
    }
}

/// What opening a file with O_DIRECT says.
#[derive(Debug)]
struct NotDirect(Errno);

impl Kernel for NotDirect {
    fn reopen_direct(&self, _: Fd<'_>) -> Result<OwnedFd, Errno> {
        Err(self.0)
    }
}

#[test]
fn files_that_cannot_be_opened_anew_are_copied_through_the_page_cache_or_refused() {
    for place in Places::plain().where_there_is("direct I/O", |place| place.direct) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB + 1);
        for errno in [Errno::INVAL, Errno::ACCESS, Errno::NOENT, Errno::MFILE] {
            for name in queued(place) {
                let mut engine = make_on(Arc::new(NotDirect(errno)), name, &TUNING);
                let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Write);
                let refused = needs_direct(name).then_some((0, Refusal::Unsupported(errno)));
                assert_eq!(done.refused, refused, "{name} {errno:?}");
                assert_same_contents(&a, &b);
                fs::remove_file(&b).unwrap();
            }
        }
    }
}

/// A sandbox that forbids the interface, or a limit that is reached.
#[derive(Debug)]
struct NoQueue(Errno, Arc<AtomicUsize>);

impl Kernel for NoQueue {
    fn queue(&self, _: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Err(self.0)
    }
}

#[test]
fn an_interface_that_cannot_be_had_refuses_and_the_next_engine_copies() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 2 * MIB + 1);
    for errno in [Errno::PERM, Errno::NOSYS, Errno::NOMEM, Errno::AGAIN, Errno::MFILE] {
        for name in queued(place) {
            let asked = Arc::new(AtomicUsize::new(0));
            let mut engine = make_on(Arc::new(NoQueue(errno, Arc::clone(&asked))), name, &TUNING);
            let done = copy_in_jobs(&mut *engine, &source(&a), &dest(&b), MIB, Zeros::Write);
            assert_eq!(done.refused, Some((0, Refusal::Unsupported(errno))), "{name}");
            assert_same_contents(&a, &b);
            let again = run(&mut *engine, job(&source(&a), &dest(&b), 0, MIB));
            assert_eq!(again.end, End::Refused(Refusal::Unsupported(errno)));
            // A kernel that has no such thing is not asked for every file; a limit may be gone by then.
            let once = matches!(errno, Errno::PERM | Errno::NOSYS);
            assert_eq!(asked.load(Ordering::Relaxed), if once { 1 } else { 2 }, "{name} {errno:?}");
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn an_interface_that_breaks_down_is_a_failure_and_is_made_anew_for_the_next_job() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 2 * MIB);
    for name in queued(place) {
        let log = Arc::new(Log::default());
        let kernel = Scripted { script: Arc::new(|_| Answer::Pass), log: Arc::clone(&log), broken: Some(Errno::BADF) };
        let mut engine = make_on(Arc::new(kernel), name, &TUNING);
        for queues in [1, 2] {
            let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * MIB));
            let End::Failed(failure) = outcome.end else { panic!("{name}: {outcome:?}") };
            assert_eq!(failure, Failure { on: FailedOn::Copy, errno: Errno::BADF }, "{name}");
            let moved = outcome.moved.total() as usize;
            assert!(fs::read(&b).unwrap()[..moved] == painted(moved), "{name}");
            assert_eq!(log.queues.load(Ordering::Relaxed), queues, "{name}");
        }
        fs::remove_file(&b).unwrap();
    }
}

/// Allocation fails after a part, as on a filesystem that is nearly full.
#[derive(Debug)]
struct HalfAllocated;

impl Kernel for HalfAllocated {
    fn allocate(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        Linux.allocate(fd, offset, len / 2)?;
        Err(Errno::NOSPC)
    }

    fn queue(&self, kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
        let script = |request: &Request| match request {
            Request { write: true, .. } if request.offset >= 2 * BLOCK => Answer::Say(Err(Errno::NOSPC)),
            _ => Answer::Pass,
        };
        Scripted { script: Arc::new(script), log: Arc::default(), broken: None }.queue(kind)
    }
}

#[test]
fn a_destination_that_was_allocated_ahead_ends_with_what_was_moved() {
    for place in Places::new().where_there_is("direct I/O", |place| place.direct) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 2 * MIB);
        for name in queued(place) {
            let mut engine = make_on(Arc::new(HalfAllocated), name, &TUNING);
            let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * MIB));
            let expected = Failure { on: FailedOn::Write, errno: Errno::NOSPC };
            assert_eq!((outcome.end, outcome.moved.total()), (End::Failed(expected), 2 * BLOCK), "{name}");
            assert!(fs::read(&b).unwrap() == painted(2 * BLOCK as usize), "{name} on {}", place.name);
            fs::remove_file(&b).unwrap();
        }
        fs::remove_file(&a).unwrap();
    }
}

/// Allocation fails, and meanwhile somebody else writes what is behind the range.
#[derive(Debug)]
struct NotAllocated;

impl Kernel for NotAllocated {
    fn allocate(&self, fd: Fd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
        rustix::io::pwrite(fd, &painted(3 * BLOCK as usize)[2 * BLOCK as usize..], offset + len)?;
        Err(Errno::OPNOTSUPP)
    }
}

#[test]
fn what_others_write_behind_a_range_that_could_not_be_allocated_stays() {
    for place in Places::new().where_there_is("direct I/O", |place| place.direct) {
        let dir = &place.dir;
        let (a, b) = (dir.join("a"), dir.join("b"));
        create_painted(&a, 3 * BLOCK);
        for name in queued(place) {
            let mut engine = make_on(Arc::new(NotAllocated), name, &TUNING);
            let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 2 * BLOCK));
            assert_eq!(outcome.end, End::Complete, "{name}");
            assert_same_contents(&a, &b);
            fs::remove_file(&b).unwrap();
        }
        fs::remove_file(&a).unwrap();
    }
}

#[test]
fn memory_and_requests_in_flight_are_bounded_and_used() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 40 * MIB);
    for name in queued(place) {
        for (buffer_size, depth) in [(None, None), (Some(1 << 30), Some(1000)), (Some(1), Some(1000)), (None, Some(2))]
        {
            let log = Arc::new(Log::default());
            // Reads complete late, so that they pile up as far as they may.
            let script = |request: &Request| if request.write { Answer::Pass } else { Answer::Late };
            let kernel = Scripted { script: Arc::new(script), log: Arc::clone(&log), broken: None };
            let mut engine = make_on(Arc::new(kernel), name, &Tuning { buffer_size, depth, ..Tuning::default() });
            for _ in 0..5 {
                let outcome = run(&mut *engine, job(&source(&a), &dest(&b), 0, 40 * MIB));
                assert_eq!(outcome.end, End::Complete);
            }
            assert_same_contents(&a, &b);
            let most = log.most_in_flight.load(Ordering::Relaxed);
            let (wanted, memory) = (depth.unwrap_or(MOST_SLOTS), log.most_memory.load(Ordering::Relaxed));
            // One block is as large as it is asked for, though no larger than the file.
            let room = buffer_size.map_or(16 << 20, |size| size.clamp(16 << 20, 40 << 20));
            assert!(most <= wanted.min(MOST_SLOTS) && memory <= room, "{name}: {most} with {memory} bytes");
            assert!(most > 1 || buffer_size == Some(1 << 30), "{name}: {most}");
            fs::remove_file(&b).unwrap();
        }
    }
}

#[test]
fn an_engine_may_go_to_another_thread() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 2 * MIB + 1);
    for name in queued(place) {
        let mut engine = crate::harness::engine(name);
        let first = run(&mut *engine, job(&source(&a), &dest(&b), 0, MIB));
        assert_eq!(first.end, End::Complete);
        let (from, to) = (source(&a), dest(&b));
        let second = std::thread::spawn(move || run(&mut *engine, job(&from, &to, MIB, 2 * MIB))).join().unwrap();
        assert_eq!((second.end, second.moved.total()), (End::SourceEnd, MIB + 1), "{name}");
        assert_same_contents(&a, &b);
        fs::remove_file(&b).unwrap();
    }
}

#[test]
fn a_destination_is_closed_for_good_when_the_job_is_done() {
    let places = Places::plain();
    let place = places.first();
    let dir = &place.dir;
    let (a, b) = (dir.join("a"), dir.join("b"));
    create_painted(&a, 2 * MIB);
    for name in queued(place) {
        let mut engine = crate::harness::engine(name);
        let (from, to) = (source(&a), dest(&b));
        run(&mut *engine, job(&from, &to, 0, 2 * MIB));
        assert_eq!((Arc::strong_count(&from.fd), Arc::strong_count(&to.fd)), (1, 1), "{name}");
        drop(to);
        // A read lease is granted only where nobody has the file open for writing. Another test may start a process at
        // this moment, which has our descriptors until it runs its program.
        let file = File::open(&b).unwrap();
        let lease = || haul_sys::for_tests::take_read_lease(&file).inspect_err(|_| std::thread::yield_now());
        assert!((0..100_000).any(|_| lease().is_ok()), "{name} keeps it open");
        fs::remove_file(&b).unwrap();
    }
}
