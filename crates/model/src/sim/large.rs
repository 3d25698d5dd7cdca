//! Large files: their owner keeps the front, and gives chunks from the end.

use super::share::Task;
use super::walk::{Then, Work};
use super::{Observed, World};
use crate::clock::{Nanos, nanos};
use crate::tree::Dir;

/// A large file that is being copied.
#[derive(Debug)]
pub(super) struct Large {
    owner: u32,
    rank: u32,
    dir: u64,
    depth: u32,
    name: u64,
    /// Chunks that are not begun.
    left: std::ops::Range<u64>,
    chunks: u64,
    /// Chunks in other hands.
    out: u64,
    /// The owner has nothing to do but wait for them.
    waiting: bool,
    made: Nanos,
}

impl World<'_> {
    pub(super) fn open_large(&mut self, thread: u32, dir: &Dir, name: u64) {
        // All but the close, which comes last.
        let mut work = self.operations(dir.id, (self.config.operations_per_file - 1.0).max(0.0));
        work.processor = self.config.cpu_per_file;
        self.begin(thread, work, Then::LargeOpened { name });
    }

    pub(super) fn large_is_open(&mut self, thread: u32, name: u64) {
        let rank = self.threads[thread as usize].rank;
        let dir = self.threads[thread as usize].stack.last().expect("a large file is in a directory").dir;
        let chunks = self.config.large_size.div_ceil(self.config.chunk);
        let large = self.large.insert(Large {
            owner: thread,
            rank,
            dir: dir.id,
            depth: dir.depth,
            name,
            left: 0..chunks,
            chunks,
            out: 0,
            waiting: false,
            made: self.now,
        });
        if chunks >= 2 {
            self.ranks[rank as usize].large.push(large);
        }
        self.go_on_with_large(large);
    }

    /// The owner takes the next chunk, waits for those in other hands, or closes the file.
    fn go_on_with_large(&mut self, id: u32) {
        let large = self.large.get_mut(id);
        let owner = large.owner;
        if let Some(index) = large.left.next() {
            let work = self.work_of_chunk(index);
            return self.begin(owner, work, Then::OwnChunk(id, index));
        }
        if large.out > 0 {
            large.waiting = true;
            return;
        }
        let dir = large.dir;
        let work = self.operations(dir, self.config.operations_per_file.min(1.0));
        self.begin(owner, work, Then::LargeClosed(id));
    }

    fn work_of_chunk(&self, index: u64) -> Work {
        let bytes = self.config.chunk.min(self.config.large_size - index * self.config.chunk);
        let processor = bytes as f64 * self.config.cpu_per_byte;
        Work { bytes, processor, waits: 2.0 * self.config.data_latency, ..Work::default() }
    }

    fn chunk_is_copied(&mut self, id: u32, index: u64) {
        let large = self.large.get(id);
        let (dir, name) = (large.dir, large.name);
        self.totals.bytes += self.work_of_chunk(index).bytes;
        self.see(Observed::Chunk { dir, name, index });
    }

    pub(super) fn own_chunk_is_done(&mut self, id: u32, index: u64) {
        self.chunk_is_copied(id, index);
        self.go_on_with_large(id);
    }

    /// The last chunk of a large file of this rank.
    pub(super) fn take_chunk(&mut self, rank: u32) -> Option<Task> {
        for &id in &self.ranks[rank as usize].large {
            let large = self.large.get_mut(id);
            if let Some(index) = large.left.next_back() {
                large.out += 1;
                return Some(Task::Chunk { large: id, index });
            }
        }
        None
    }

    /// Opens both sides if it is another rank's file, copies the chunk, and flushes it if it is another node's.
    pub(super) fn copy_taken_chunk(&mut self, thread: u32, id: u32, index: u64) {
        let rank = self.threads[thread as usize].rank;
        let large = self.large.get(id);
        let mut work = self.work_of_chunk(index);
        if large.rank != rank {
            let elsewhere = self.node_of(large.rank) != self.node_of(rank);
            let open = self.operations(large.dir, 2.0 * f64::from(large.depth + 2) + if elsewhere { 1.0 } else { 0.0 });
            work.operations = open.operations;
            work.directory = open.directory;
            work.waits += open.waits;
            if elsewhere {
                work.not_before = large.made + nanos(self.config.visibility);
            }
        }
        self.begin(thread, work, Then::TakenChunk(id, index));
    }

    pub(super) fn taken_chunk_is_done(&mut self, thread: u32, id: u32, index: u64) {
        self.chunk_is_copied(id, index);
        let rank = self.threads[thread as usize].rank;
        let owner = self.large.get(id).rank;
        if owner == rank {
            self.chunk_is_back(id)
        } else {
            self.send_chunk_done(rank, owner, id)
        }
        self.idle(thread);
    }

    pub(super) fn chunk_is_back(&mut self, id: u32) {
        let large = self.large.get_mut(id);
        large.out -= 1;
        if large.out == 0 && std::mem::take(&mut large.waiting) {
            self.go_on_with_large(id);
        }
    }

    pub(super) fn large_is_closed(&mut self, id: u32) {
        let large = self.large.remove(id);
        if large.chunks >= 2 {
            self.ranks[large.rank as usize].large.retain(|&other| other != id);
        }
        self.totals.large += 1;
        self.see(Observed::Large { dir: large.dir, name: large.name });
    }
}
