//! `--each`: the ranks copy the same sources, each to a destination of its own, and read each part of a large file once.
//! One rank reads a part ([`crate::reads`] says which), and the others ask that rank for it.
//!
//! Whatever goes wrong with that, a rank reads the source itself: a file that looks different elsewhere, a rank that cannot
//! read it, or one that does not answer. Errors of a source are so those of a copy by one process.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use haul_copy::run::{Cancel, SharedReads, Transport};
use haul_io::engine::ByteSource;
use haul_sys::inode::Inode;
use serde::{Deserialize, Serialize};

use crate::exchange::{Exchange, lock};
use crate::reads::{OpenSources, PART, SourceFile};
use crate::talk::Talk;

/// Threads that read for other ranks: enough for several requests of a storage, each of a part.
pub const READERS: usize = 8;
/// How long a rank waits for a part before it takes the other one for stuck, and how long it does not ask that then.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(60);
/// How long it takes to notice that the job is stopped.
const GLANCE: Duration = Duration::from_millis(100);

/// Somebody wants a part of a source.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    number: u64,
    source: SourceFile,
    offset: u64,
    len: usize,
}

/// What this rank asks others for, and what it reads for them.
#[derive(Debug)]
pub struct Broadcast {
    exchange: Arc<Exchange>,
    rank: usize,
    cancel: Cancel,
    sources: OpenSources,
    /// Requests of other ranks that wait for a thread.
    requests: Mutex<VecDeque<(usize, Request)>>,
    requested: Condvar,
    is_over: AtomicBool,
    /// Requests to other ranks by number, and the answers that have come. An empty one: read it yourself.
    answers: Mutex<BTreeMap<u64, Option<Vec<u8>>>>,
    answered: Condvar,
    next_number: AtomicU64,
    /// By rank: until when it is not asked, since it has not answered.
    silent: Vec<Mutex<Option<Instant>>>,
    /// When the job has begun.
    begun: SystemTime,
    /// Bytes from other ranks.
    received: AtomicU64,
}

impl Broadcast {
    /// Of this rank. `cancel` ends all waiting.
    pub fn new(exchange: Arc<Exchange>, rank: usize, ranks: usize, cancel: Cancel, noatime: bool) -> Broadcast {
        Broadcast {
            exchange,
            rank,
            cancel,
            sources: OpenSources::new(noatime),
            requests: Mutex::default(),
            requested: Condvar::new(),
            is_over: AtomicBool::new(false),
            answers: Mutex::default(),
            answered: Condvar::new(),
            next_number: AtomicU64::new(0),
            silent: (0..ranks).map(|_| Mutex::default()).collect(),
            begun: SystemTime::now(),
            received: AtomicU64::new(0),
        }
    }

    /// Bytes that came from other ranks.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Takes what another rank has said of sources. Anything else ends the job: it is of another version.
    pub fn hear(&self, from: usize, talk: Option<Talk>) {
        match talk {
            Some(Talk::Fetch(request)) if self.is_asked(from, &request) => {}
            Some(Talk::Part(number, bytes)) => self.is_answered(from, number, bytes),
            _ => self.exchange.give_up(),
        }
    }

    /// Another rank wants a part. False if that is no request.
    fn is_asked(&self, from: usize, request: &[u8]) -> bool {
        let Ok(request) = serde_json::from_slice::<Request>(request) else { return false };
        if request.len as u64 > PART {
            return false;
        }
        lock(&self.requests).push_back((from, request));
        self.requested.notify_one();
        true
    }

    /// An answer has come. Nobody may wait for it any more.
    fn is_answered(&self, from: usize, number: u64, bytes: Vec<u8>) {
        if let Some(silent) = self.silent.get(from) {
            *lock(silent) = None;
        }
        if let Some(answer) = lock(&self.answers).get_mut(&number) {
            *answer = Some(bytes);
            self.answered.notify_all();
        }
    }

    /// Reads what others want, until [`Broadcast::end`].
    pub fn serve(&self) {
        while let Some((from, request)) = self.next_request() {
            let Request { number, source, offset, len } = request;
            let bytes = self.sources.read(&source, offset, len).unwrap_or_default();
            self.exchange.say_part(from, number, bytes);
        }
    }

    fn next_request(&self) -> Option<(usize, Request)> {
        let mut requests = lock(&self.requests);
        loop {
            if self.is_over.load(Ordering::Acquire) {
                return None;
            }
            match requests.pop_front() {
                Some(request) => return Some(request),
                None => requests = self.requested.wait(requests).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// All ranks have copied what they copy: nobody wants anything any more, and nothing more is sent.
    pub fn end(&self) {
        // Under the lock, so that nobody goes to sleep who has not seen it.
        let requests = lock(&self.requests);
        self.is_over.store(true, Ordering::Release);
        drop(requests);
        self.requested.notify_all();
        self.exchange.drop_parts();
    }

    /// Asks the rank that reads this part.
    fn ask(&self, source: &SourceFile, buffer: &mut [u8], offset: u64) -> Option<NonZeroUsize> {
        let reader = source.reader_of(offset, self.silent.len());
        if reader == self.rank || self.is_silent(reader) {
            return None;
        }
        let len = usize::try_from(source.part_at(offset)).ok()?.min(buffer.len());
        if len == 0 {
            return None;
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        lock(&self.answers).insert(number, None);
        let request = Request { number, source: source.clone(), offset, len };
        self.exchange.say(reader, Talk::Fetch(serde_json::to_vec(&request).unwrap_or_default()));
        let bytes = self.wait_for(number, reader)?;
        let into = buffer.get_mut(..bytes.len()).filter(|_| bytes.len() <= len)?;
        into.copy_from_slice(&bytes);
        self.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        NonZeroUsize::new(bytes.len())
    }

    fn is_silent(&self, rank: usize) -> bool {
        self.silent.get(rank).is_none_or(|silent| lock(silent).is_some_and(|until| Instant::now() < until))
    }

    fn wait_for(&self, number: u64, reader: usize) -> Option<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        let mut answers = lock(&self.answers);
        loop {
            if answers.get(&number).is_none_or(Option::is_some) {
                return answers.remove(&number).flatten();
            }
            let late = Instant::now() >= deadline;
            if late || self.cancel.is_cancelled() || self.is_silent(reader) {
                if let Some(silent) = self.silent.get(reader).filter(|_| late) {
                    *lock(silent) = Some(Instant::now() + PAUSE);
                }
                answers.remove(&number);
                return None;
            }
            let waited = self.answered.wait_timeout(answers, GLANCE);
            answers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What a run asks for its files.
pub struct Reads(pub Arc<Broadcast>);

impl SharedReads for Reads {
    fn of(&self, source: &Path, inode: &Inode) -> Option<Arc<dyn ByteSource>> {
        let source = SourceFile::of(source, inode, self.0.begun)?;
        Some(Arc::new(Shared { broadcast: Arc::clone(&self.0), source }))
    }
}

/// One source.
#[derive(Debug)]
struct Shared {
    broadcast: Arc<Broadcast>,
    source: SourceFile,
}

impl ByteSource for Shared {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Option<NonZeroUsize> {
        self.broadcast.ask(&self.source, buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::thread;

    use haul_testbed::{painted, temp_dir};

    use super::*;

    /// Two ranks, and the messages between them carried by hand.
    fn ranks() -> [Arc<Broadcast>; 2] {
        [0, 1].map(|rank| {
            let exchange = Arc::new(Exchange::new(rank, vec![0, 1]));
            Arc::new(Broadcast::new(exchange, rank, 2, Cancel::default(), false))
        })
    }

    /// Carries one message; false if there is none.
    fn carry(from: &Broadcast, to: &Broadcast) -> bool {
        match from.exchange.next_out() {
            Some((_, talk)) => {
                to.hear(from.rank, Some(talk));
                true
            }
            None => false,
        }
    }

    /// Lets the other rank answer one request.
    fn answer_one(own: &Broadcast, other: &Broadcast) {
        thread::scope(|scope| {
            scope.spawn(|| other.serve());
            while !carry(own, other) {}
            while !carry(other, own) {}
            other.end();
        });
    }

    fn source_of(path: &Path) -> SourceFile {
        let later = SystemTime::now() + Duration::from_secs(3600);
        SourceFile::of(path, &Inode::of(File::open(path).unwrap().as_fd()).unwrap(), later).unwrap()
    }

    /// What rank 0 gets of a file at offset 0 or, if that is its own part, at the next part; the other rank reads with `work`.
    fn got(ranks: &[Arc<Broadcast>; 2], source: &SourceFile, work: impl FnOnce() + Send) -> (u64, Option<Vec<u8>>) {
        let offset = if source.reader_of(0, 2) == 1 { 0 } else { PART };
        let mut buffer = vec![0; 3000];
        let shared = Shared { broadcast: Arc::clone(&ranks[0]), source: source.clone() };
        let count = thread::scope(|scope| {
            scope.spawn(work);
            shared.read(&mut buffer, offset)
        });
        (offset, count.map(|count| buffer[..count.get()].to_vec()))
    }

    #[test]
    fn a_part_that_another_rank_reads_comes_from_it() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        let contents = painted(2 * PART as usize);
        fs::write(&path, &contents).unwrap();
        let ranks = ranks();
        let [own, other] = &ranks;
        let (offset, bytes) = got(&ranks, &source_of(&path), || answer_one(own, other));
        assert_eq!(bytes.unwrap(), contents[offset as usize..][..3000]);
        assert_eq!((own.received(), other.received()), (3000, 0));
    }

    #[test]
    fn what_another_rank_cannot_read_this_one_reads_itself() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, painted(2 * PART as usize)).unwrap();
        let source = source_of(&path);
        fs::remove_file(&path).unwrap();
        let ranks = ranks();
        let [own, other] = &ranks;
        let (_, bytes) = got(&ranks, &source, || answer_one(own, other));
        assert_eq!((bytes, own.received()), (None, 0));
    }

    #[test]
    fn a_job_that_is_stopped_waits_for_no_answer() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, painted(2 * PART as usize)).unwrap();
        let ranks = ranks();
        let own = &ranks[0];
        let (_, bytes) = got(&ranks, &source_of(&path), || {
            while own.exchange.next_out().is_none() {}
            own.cancel.cancel();
        });
        assert_eq!(bytes, None);
        assert!(lock(&own.answers).is_empty(), "what nobody waits for is forgotten");
        own.is_answered(1, 0, vec![1]);
        assert!(lock(&own.answers).is_empty(), "also if it comes late");
    }

    #[test]
    fn who_does_not_answer_is_not_asked_until_it_does_or_some_time_is_over() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, painted(2 * PART as usize)).unwrap();
        let ranks = ranks();
        let own = &ranks[0];
        *lock(&own.silent[1]) = Some(Instant::now() + PAUSE);
        let (_, bytes) = got(&ranks, &source_of(&path), || {});
        assert_eq!(bytes, None);
        assert!(own.exchange.next_out().is_none());
        own.hear(1, Some(Talk::Part(99, Vec::new())));
        assert!(!own.is_silent(1), "an answer that is too late is one, too");
        *lock(&own.silent[1]) = Some(Instant::now());
        assert!(!own.is_silent(1));
    }

    #[test]
    fn an_answer_with_more_bytes_than_were_wanted_is_none() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, painted(2 * PART as usize)).unwrap();
        let ranks = ranks();
        let own = &ranks[0];
        let (_, bytes) = got(&ranks, &source_of(&path), || {
            while own.exchange.next_out().is_none() {}
            own.is_answered(1, 0, vec![1; 3001]);
        });
        assert_eq!(bytes, None);
    }

    #[test]
    fn when_all_is_over_nothing_more_is_read_or_sent() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, painted(5000)).unwrap();
        let [own, _] = ranks();
        own.exchange.say_part(1, 7, vec![1]);
        let request = Request { number: 0, source: source_of(&path), offset: 0, len: 5000 };
        assert!(own.is_asked(1, &serde_json::to_vec(&request).unwrap()));
        own.end();
        own.serve();
        own.exchange.say_part(1, 8, vec![1]);
        own.exchange.say(1, Talk::Stopped);
        assert_eq!(own.exchange.next_out(), Some((1, Talk::Stopped)));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let [own, _] = ranks();
        assert!(!own.is_asked(1, b"{}"));
        let source = SourceFile::of(
            Path::new("x"),
            &Inode::of(File::open("/").unwrap().as_fd()).unwrap(),
            SystemTime::now() + Duration::from_secs(3600),
        )
        .unwrap();
        let large = Request { number: 0, source, offset: 0, len: PART as usize + 1 };
        assert!(!own.is_asked(1, &serde_json::to_vec(&large).unwrap()), "no memory for what nobody asks for");
    }
}
