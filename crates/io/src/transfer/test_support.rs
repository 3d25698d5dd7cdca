//! Two open files for tests, with what is to be moved between them, and who hears of it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{MemfdFlags, memfd_create};
use haul_testbed::temp_dir;
use parking_lot::Mutex;

use super::{Peers, Transfer};
use crate::control::{Cancel, Control, Progress};
use crate::moved::Moved;
use crate::options::DataOptions;
use crate::pace::Pace;
use crate::strategy::Demands;

/// A source and a destination, as they were when they were opened.
pub(super) struct Pair<'a> {
    pub source: Arc<OwnedFd>,
    pub dest: Arc<OwnedFd>,
    pub inodes: [Inode; 2],
    pub start: u64,
    pub peers: Option<&'a dyn Peers>,
}

impl Pair<'_> {
    pub(super) fn of(source: impl Into<OwnedFd>, dest: impl Into<OwnedFd>) -> Self {
        let (source, dest) = (source.into(), dest.into());
        let inodes = [Inode::of(source.as_fd()).unwrap(), Inode::of(dest.as_fd()).unwrap()];
        Pair { source: Arc::new(source), dest: Arc::new(dest), inodes, start: 0, peers: None }
    }

    /// Two files in memory, the second one empty: they can have holes, share no extents, and have no direct I/O.
    pub(super) fn in_memory(bytes: &[u8]) -> Self {
        Pair::of(memory(bytes), memory(&[]))
    }

    /// Two files in a temporary directory, the second one empty.
    pub(super) fn on_disk(bytes: &[u8]) -> Self {
        Pair::of(disk(bytes), disk(&[]))
    }

    pub(super) fn transfer(&self) -> Transfer<'_> {
        let files = [Arc::clone(&self.source), Arc::clone(&self.dest)];
        let [source, dest] = &self.inodes;
        let whole = Transfer::new(files, [source, dest], Demands::NONE);
        Transfer { start: self.start, peers: self.peers, ..whole }
    }

    /// All that stands in the destination.
    pub(super) fn copied(&self) -> Vec<u8> {
        let file = File::from(self.dest.try_clone().unwrap());
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// Bytes that the destination has on its filesystem.
    pub(super) fn allocated(&self) -> u64 {
        Inode::of(self.dest.as_fd()).unwrap().allocated
    }
}

/// A file in memory.
pub(super) fn memory(bytes: &[u8]) -> File {
    filled(memfd_create("haul", MemfdFlags::CLOEXEC).unwrap().into(), bytes)
}

/// A file of a temporary directory that is gone.
pub(super) fn disk(bytes: &[u8]) -> File {
    let dir = temp_dir();
    filled(File::options().read(true).write(true).create_new(true).open(dir.path().join("file")).unwrap(), bytes)
}

fn filled(file: File, bytes: &[u8]) -> File {
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// A file in memory of `size` bytes with data at these offsets, and holes around it.
pub(super) fn with_holes(size: u64, data: &[(u64, &[u8])]) -> File {
    let file = memory(&[]);
    file.set_len(size).unwrap();
    for (offset, bytes) in data {
        file.write_all_at(bytes, *offset).unwrap();
    }
    file
}

/// What a file holds.
pub(super) fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Writes down what it hears, and may stop what it hears of.
#[derive(Default)]
pub(super) struct Recorder {
    pub heard: Mutex<Vec<Moved>>,
    pub wants_all: bool,
    /// Cancels as soon as anything has moved.
    pub cancels: bool,
    pub cancel: Cancel,
    pub pace: Pace,
}

impl Recorder {
    pub(super) fn control(&self) -> Control<'_> {
        Control { progress: self, cancel: &self.cancel, pace: &self.pace }
    }

    /// The sum of what it has heard.
    pub(super) fn total(&self) -> Moved {
        self.heard.lock().iter().fold(Moved::default(), |mut sum, more| {
            sum += *more;
            sum
        })
    }
}

impl Progress for Recorder {
    fn moved(&self, more: Moved) {
        self.heard.lock().push(more);
        if self.cancels {
            self.cancel.cancel();
        }
    }

    fn wants_all(&self) -> bool {
        self.wants_all
    }
}

/// The options that name an engine, and leave the rest as it is.
pub(super) fn only(engine: crate::engine::EngineName) -> DataOptions {
    DataOptions { engine: crate::options::EngineChoice::Only(engine), ..DataOptions::default() }
}
