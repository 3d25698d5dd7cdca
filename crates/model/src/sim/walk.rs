//! What a thread does: it reads a directory, copies its files, enters its directories, and finishes it.

use super::{Observed, World};
use crate::clock::Nanos;
use crate::tree::{Dir, Name};

/// Names that are read from a directory before any of them is copied, as in the library's `Listing`.
const NAMES_OF_A_LISTING: u64 = 32 * 1024;

/// A directory, or a part of one, that a thread is in.
#[derive(Debug)]
pub(super) struct Frame {
    pub dir: Dir,
    /// Whose completion is counted.
    pub part: u32,
    /// Names that were read and are not begun.
    pub known: std::ops::Range<u64>,
    /// Names that were not read yet.
    pub unread: std::ops::Range<u64>,
    /// When the directory was made, and on which node.
    pub made: (Nanos, u32),
}

impl Frame {
    /// Whether there are names to give away; the rule of the library's `Listing::can_be_split`.
    pub fn can_be_split(&self, busy: bool) -> bool {
        match self.known.end - self.known.start {
            0 => false,
            1 => busy && matches!(self.dir.name(self.known.start), Name::Directory(_)),
            _ => true,
        }
    }

    /// Takes the second half of the names away.
    pub fn split(&mut self) -> std::ops::Range<u64> {
        let middle = self.known.start + (self.known.end - self.known.start) / 2;
        let second = middle..self.known.end;
        self.known.end = middle;
        second
    }
}

/// What something costs a thread.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// It cannot begin before.
    pub not_before: Nanos,
    /// Seconds of a processor.
    pub processor: f64,
    /// Operations on the metadata server of `directory`.
    pub operations: f64,
    pub directory: u64,
    /// Seconds that the thread waits whatever the servers do: ways there and back.
    pub waits: f64,
    /// Read and written.
    pub bytes: u64,
}

/// What comes when the work is done.
#[derive(Debug)]
pub(super) enum Then {
    /// There was none.
    Nothing,
    /// The names that were read are known.
    Listed,
    /// The thread is in a new directory.
    Made(Dir),
    /// These names were copied.
    Files { from: u64, to: u64, bytes: u64 },
    /// What another rank gave away is open.
    Opened,
    /// The directory of this part has its attributes.
    Finished(u32),
    /// The file is open on both sides.
    LargeOpened { name: u64 },
    /// A chunk that the owner kept is copied.
    OwnChunk(u32, u64),
    /// A chunk that was given away is copied.
    TakenChunk(u32, u64),
    /// The file is whole.
    LargeClosed(u32),
}

impl World<'_> {
    /// Work of the metadata server of a directory, with its ways there and back.
    pub(super) fn operations(&self, directory: u64, operations: f64) -> Work {
        Work { operations, directory, waits: operations * self.config.metadata_latency, ..Work::default() }
    }

    pub(super) fn make_directory(&mut self, thread: u32, dir: Dir) {
        let mut work = self.operations(dir.id, self.config.operations_per_directory);
        work.processor = self.config.cpu_per_directory;
        self.begin(thread, work, Then::Made(dir));
    }

    pub(super) fn thread_is_done(&mut self, thread: u32) {
        let then = std::mem::replace(&mut self.threads[thread as usize].then, Then::Nothing);
        match then {
            Then::Nothing | Then::Opened => {}
            Then::Listed => {
                let frame = self.threads[thread as usize].stack.last_mut().expect("it was listed for a frame");
                let end = frame.unread.end.min(frame.unread.start + NAMES_OF_A_LISTING);
                frame.known = frame.unread.start..end;
                frame.unread.start = end;
                self.note_memory(self.threads[thread as usize].rank);
            }
            Then::Made(dir) => self.directory_is_made(thread, dir),
            Then::Files { from, to, bytes } => self.files_are_copied(thread, from, to, bytes),
            Then::Finished(part) => self.complete(part),
            Then::LargeOpened { name } => return self.large_is_open(thread, name),
            Then::OwnChunk(large, index) => return self.own_chunk_is_done(large, index),
            Then::TakenChunk(large, index) => return self.taken_chunk_is_done(thread, large, index),
            Then::LargeClosed(large) => self.large_is_closed(large),
        }
        self.step(thread);
    }

    /// Goes on with the innermost directory.
    pub(super) fn step(&mut self, thread: u32) {
        loop {
            let Some(frame) = self.threads[thread as usize].stack.last_mut() else { return self.idle(thread) };
            let dir = frame.dir;
            if frame.known.is_empty() {
                if !frame.unread.is_empty() {
                    return self.list(thread);
                }
                if self.leave(thread) {
                    return;
                }
                continue;
            }
            let name = frame.known.start;
            return match dir.name(name) {
                Name::File => {
                    let to = dir.next_special(name).min(frame.known.end).min(name + self.files_of_a_step);
                    frame.known.start = to;
                    self.copy_files(thread, &dir, name, to);
                }
                Name::Directory(index) => {
                    frame.known.start += 1;
                    let child = self.tree.child(&dir, index);
                    self.make_directory(thread, child);
                }
                Name::Large => {
                    frame.known.start += 1;
                    self.open_large(thread, &dir, name);
                }
            };
        }
    }

    fn list(&mut self, thread: u32) {
        let frame = self.threads[thread as usize].stack.last().expect("a frame is listed");
        let names = (frame.unread.end - frame.unread.start).min(NAMES_OF_A_LISTING);
        let work = self.operations(frame.dir.id, names.div_ceil(self.config.names_per_request) as f64);
        self.begin(thread, work, Then::Listed);
    }

    fn copy_files(&mut self, thread: u32, dir: &Dir, from: u64, to: u64) {
        let files = (to - from) as f64;
        let (bytes, filled) = self.tree.bytes(dir, from, to);
        let mut work = self.operations(dir.id, files * self.config.operations_per_file);
        work.processor = files * self.config.cpu_per_file + bytes as f64 * self.config.cpu_per_byte;
        work.waits += filled as f64 * 2.0 * self.config.data_latency;
        work.waits += self.claim_links(thread, dir.id ^ from, files);
        work.bytes = bytes;
        self.begin(thread, work, Then::Files { from, to, bytes });
    }

    fn files_are_copied(&mut self, thread: u32, from: u64, to: u64, bytes: u64) {
        let frame = self.threads[thread as usize].stack.last().expect("files are copied in a frame");
        let dir = frame.dir.id;
        self.totals.files += to - from;
        self.totals.bytes += bytes;
        self.see(Observed::Files { dir, from, to });
        self.report_errors(self.threads[thread as usize].rank, to - from);
    }

    fn directory_is_made(&mut self, thread: u32, dir: Dir) {
        let rank = self.threads[thread as usize].rank;
        let above = self.threads[thread as usize].stack.last().map(|frame| (frame.part, frame.dir.id));
        let part = self.new_part(rank, above.map(|(part, _)| part), Some(dir.id));
        let made = (self.now, self.node_of(rank));
        let frame = Frame { dir, part, known: 0..0, unread: 0..dir.names(), made };
        self.threads[thread as usize].stack.push(frame);
        self.totals.directories += 1;
        self.see(Observed::Made { dir: dir.id, parent: above.map(|(_, dir)| dir) });
        self.note_memory(rank);
    }

    /// Leaves the innermost directory, of which everything is begun. Whether the thread is busy with finishing it.
    fn leave(&mut self, thread: u32) -> bool {
        let frame = self.threads[thread as usize].stack.pop().expect("it was left");
        let part = self.parts.get_mut(frame.part);
        part.walked = true;
        if part.pending > 0 {
            return false;
        }
        if part.made.is_none() {
            self.complete(frame.part);
            return false;
        }
        let work = self.operations(frame.dir.id, self.config.operations_per_finish);
        self.begin(thread, work, Then::Finished(frame.part));
        true
    }
}
