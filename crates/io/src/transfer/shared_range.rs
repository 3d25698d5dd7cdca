//! A range of a large file that this process shares with others.
//!
//! The process that has met the file keeps it open and works from its beginning; who waits for work gets a chunk from the
//! end. So everybody works until the two meet, however unequal they are. What another process could not do is done here
//! after all, by the code that reports what is wrong; the last bytes of the file are written when all else is there.

use std::collections::VecDeque;

use parking_lot::Mutex;

use haul_sys::inode::Inode;

/// A part of a file for another process.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The source.
    pub source: &'a Inode,
    /// The destination.
    pub dest: &'a Inode,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// Other processes that may copy parts of a file, which they find by themselves.
pub trait Peers: Sync {
    /// The bytes of a chunk; chunks begin at multiples of it.
    fn chunk(&self) -> u64;

    /// Whether one of them waits for work.
    fn is_asked_for_work(&self) -> bool;

    /// There are chunks to give, or with `false` no more of what was said before: who asks for work may wait for one as
    /// long as there are.
    fn will_give(&self, more: bool);

    /// Gives one of them a chunk; what that is known by from now on. `None` if nobody waits any more.
    fn give(&self, chunk: &Chunk<'_>) -> Option<u64>;

    /// Whether this chunk came back with nothing moved.
    fn has_moved_nothing(&self, token: u64) -> bool;

    /// Waits for the answer to a chunk: how many bytes of it, from its beginning, are there.
    fn wait_for(&self, token: u64) -> u64;
}

/// What is left of a range, between this process and the others.
pub struct SharedRange<'a> {
    peers: &'a dyn Peers,
    source: &'a Inode,
    dest: &'a Inode,
    rest: Mutex<Rest>,
}

struct Rest {
    /// This process works from here,
    front: u64,
    /// and what is behind here has been given away.
    back: u64,
    /// Chunks in other hands: token, offset, length.
    away: VecDeque<(u64, u64, u64)>,
    /// Chunks that nobody took, which are done here in the end: offset, length.
    not_taken: Vec<(u64, u64)>,
    /// The others know that there may be chunks for them.
    gives: bool,
}

impl<'a> SharedRange<'a> {
    /// The bytes from `from` to `end` of a file, of which nobody else has anything yet.
    pub(super) fn new(peers: &'a dyn Peers, [source, dest]: [&'a Inode; 2], from: u64, end: u64) -> SharedRange<'a> {
        peers.will_give(true);
        let rest =
            Mutex::new(Rest { front: from, back: end, away: VecDeque::new(), not_taken: Vec::new(), gives: true });
        SharedRange { peers, source, dest, rest }
    }

    /// This process goes on at this byte.
    pub(super) fn go_on_at(&self, at: u64) {
        self.rest.lock().front = at;
    }

    /// Up to where this process has taken it.
    pub(super) fn front(&self) -> u64 {
        self.rest.lock().front
    }

    /// The next bytes for this process: offset and length.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        let chunk = self.peers.chunk();
        let mut rest = self.rest.lock();
        let from = rest.front;
        let to = (from / chunk + 1).saturating_mul(chunk).min(rest.back);
        rest.front = to.max(from);
        (from < to).then(|| (from, to - from))
    }

    /// Gives chunks from the end to those who wait for work.
    pub(super) fn offer(&self) {
        while self.peers.is_asked_for_work() {
            if self.comes_back() {
                return self.gives_no_more();
            }
            let Some((offset, len)) = self.last_chunk() else { return self.gives_no_more() };
            let Some(token) = self.peers.give(&Chunk { source: self.source, dest: self.dest, offset, len }) else {
                // Somebody else has served who waited. Another worker may have met the new end already and gone, so it is not
                // put back.
                return self.rest.lock().not_taken.push((offset, len));
            };
            self.rest.lock().away.push_back((token, offset, len));
        }
    }

    /// Whether somebody could do nothing with a chunk of it: others may neither (a copy that only its maker can open), and what
    /// comes back is done by one worker.
    fn comes_back(&self) -> bool {
        let rest = self.rest.lock();
        rest.away.iter().any(|(token, _, _)| self.peers.has_moved_nothing(*token))
    }

    /// Takes the last chunk that nobody has begun with, if one stays for this process.
    fn last_chunk(&self) -> Option<(u64, u64)> {
        let chunk = self.peers.chunk();
        let mut rest = self.rest.lock();
        let from = rest.back.saturating_sub(1) / chunk * chunk;
        if from < rest.front.saturating_add(chunk) {
            return None;
        }
        let len = rest.back - from;
        rest.back = from;
        Some((from, len))
    }

    /// Who asks for work now shall ask somebody else.
    fn gives_no_more(&self) {
        if std::mem::take(&mut self.rest.lock().gives) {
            self.peers.will_give(false);
        }
    }

    /// Waits until nothing of the file is in other hands. What has to be done here after all, and how many bytes others have
    /// copied.
    pub(super) fn collect(&self) -> (Vec<(u64, u64)>, u64) {
        self.gives_no_more();
        let mut left = Vec::new();
        let mut elsewhere = 0;
        loop {
            let Some((token, offset, len)) = self.rest.lock().away.pop_front() else { break };
            let moved = self.peers.wait_for(token).min(len);
            elsewhere += moved;
            if moved < len {
                left.push((offset + moved, len - moved));
            }
        }
        left.append(&mut self.rest.lock().not_taken);
        left.sort_unstable();
        (left, elsewhere)
    }
}

impl Drop for SharedRange<'_> {
    fn drop(&mut self) {
        self.gives_no_more();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use haul_sys::inode::DeviceNumber;

    use super::*;

    const CHUNK: u64 = 64 << 10;
    const END: u64 = 5 * CHUNK + 4096;

    fn inode() -> Inode {
        Inode::just_made(DeviceNumber { major: 8, minor: 1 })
    }

    /// All ranges in order, as one list.
    fn in_order(own: impl IntoIterator<Item = (u64, u64)>, others: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = own.into_iter().chain(others.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// Whether these ranges are everything, each byte once.
    fn is_everything(ranges: &[(u64, u64)]) -> bool {
        let end = ranges.iter().try_fold(0, |at, (offset, len)| (*offset == at).then_some(at + len));
        end == Some(END)
    }

    /// Somebody always asks, and is served by another one while the chunk is on its way.
    struct TooLate {
        now: Mutex<Sender<()>>,
        done: Mutex<Receiver<()>>,
    }

    impl Peers for TooLate {
        fn chunk(&self) -> u64 {
            CHUNK
        }
        fn is_asked_for_work(&self) -> bool {
            true
        }
        fn give(&self, _: &Chunk<'_>) -> Option<u64> {
            self.now.lock().send(()).unwrap();
            self.done.lock().recv().unwrap();
            None
        }
        fn will_give(&self, _: bool) {}
        fn has_moved_nothing(&self, _: u64) -> bool {
            false
        }
        fn wait_for(&self, _: u64) -> u64 {
            0
        }
    }

    #[test]
    fn a_chunk_that_nobody_takes_any_more_is_not_lost_when_the_others_have_met_the_new_end() {
        let (now, came) = channel();
        let (back, done) = channel();
        let peers = TooLate { now: Mutex::new(now), done: Mutex::new(done) };
        let inode = inode();
        let range = SharedRange::new(&peers, [&inode, &inode], 0, END);
        let mut own = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| range.offer());
            came.recv().unwrap();
            // Another worker takes all that there is, and goes.
            own.extend(std::iter::from_fn(|| range.next()));
            back.send(()).unwrap();
        });
        let (left, elsewhere) = range.collect();
        assert_eq!(elsewhere, 0);
        assert!(is_everything(&in_order(own, &left)), "{left:?}");
    }

    /// The first one who asks is served by somebody else.
    #[derive(Default)]
    struct LateOnce {
        given: Mutex<u64>,
        served: Mutex<bool>,
    }

    impl Peers for LateOnce {
        fn chunk(&self) -> u64 {
            CHUNK
        }
        fn is_asked_for_work(&self) -> bool {
            *self.given.lock() == 0
        }
        fn will_give(&self, _: bool) {}
        fn give(&self, _: &Chunk<'_>) -> Option<u64> {
            if !std::mem::replace(&mut self.served.lock(), true) {
                return None;
            }
            *self.given.lock() += 1;
            Some(1)
        }
        fn has_moved_nothing(&self, _: u64) -> bool {
            false
        }
        fn wait_for(&self, _: u64) -> u64 {
            CHUNK
        }
    }

    #[test]
    fn the_next_one_who_asks_gets_a_chunk_also_if_one_was_served_by_somebody_else() {
        let peers = LateOnce::default();
        let inode = inode();
        let range = SharedRange::new(&peers, [&inode, &inode], 0, END);
        range.offer();
        assert_eq!(*peers.given.lock(), 0);
        range.offer();
        assert_eq!(*peers.given.lock(), 1);
        let own: Vec<_> = std::iter::from_fn(|| range.next()).collect();
        let (left, elsewhere) = range.collect();
        assert_eq!((left.as_slice(), elsewhere), (&[(5 * CHUNK, 4096)][..], CHUNK));
        assert!(is_everything(&in_order(own.into_iter().chain(left), &[(4 * CHUNK, CHUNK)])));
    }

    /// So many chunks are taken, and of each so much is done.
    struct Partly {
        wanted: Mutex<u64>,
        moved: u64,
        /// What was said of more chunks.
        said: Mutex<Vec<bool>>,
    }

    impl Partly {
        fn new(wanted: u64, moved: u64) -> Partly {
            Partly { wanted: Mutex::new(wanted), moved, said: Mutex::default() }
        }
    }

    impl Peers for Partly {
        fn chunk(&self) -> u64 {
            CHUNK
        }
        fn is_asked_for_work(&self) -> bool {
            *self.wanted.lock() > 0
        }
        fn give(&self, _: &Chunk<'_>) -> Option<u64> {
            let mut wanted = self.wanted.lock();
            *wanted -= 1;
            Some(*wanted)
        }
        fn will_give(&self, more: bool) {
            self.said.lock().push(more);
        }
        fn has_moved_nothing(&self, _: u64) -> bool {
            self.moved == 0
        }
        fn wait_for(&self, _: u64) -> u64 {
            self.moved
        }
    }

    #[test]
    fn what_others_leave_of_their_chunks_is_done_here() {
        let peers = Partly::new(2, 1000);
        let inode = inode();
        let range = SharedRange::new(&peers, [&inode, &inode], 0, END);
        range.offer();
        let own: Vec<_> = std::iter::from_fn(|| range.next()).collect();
        let (left, elsewhere) = range.collect();
        assert_eq!((left.len(), elsewhere), (2, 2000));
        let others = [(4 * CHUNK, 1000), (5 * CHUNK, 1000)];
        assert!(is_everything(&in_order(own.into_iter().chain(left), &others)));
    }

    #[test]
    fn who_could_do_nothing_with_a_chunk_gets_no_other_one() {
        let peers = Partly::new(3, 0);
        let inode = inode();
        let range = SharedRange::new(&peers, [&inode, &inode], 0, END);
        range.offer();
        assert_eq!(*peers.wanted.lock(), 2);
    }

    #[test]
    fn chunks_from_the_end_stop_where_this_process_works() {
        let peers = Partly::new(100, CHUNK);
        let inode = inode();
        let range = SharedRange::new(&peers, [&inode, &inode], 0, END);
        assert_eq!(range.next(), Some((0, CHUNK)));
        range.offer();
        assert_eq!(range.next(), Some((CHUNK, CHUNK)), "one chunk stays here");
        assert_eq!(range.next(), None);
    }

    #[test]
    fn others_hear_once_that_there_is_nothing_more_to_give() {
        let inode = inode();
        for wanted in [0, 1, 100] {
            let peers = Partly::new(wanted, CHUNK);
            let range = SharedRange::new(&peers, [&inode, &inode], 0, END);
            range.offer();
            let gave_all = wanted == 100;
            assert_eq!(*peers.said.lock(), if gave_all { &[true, false][..] } else { &[true] }, "{wanted}");
            range.collect();
            drop(range);
            assert_eq!(*peers.said.lock(), [true, false], "{wanted}");
        }
    }
}
