//! What an engine is asked, and what it answers.

use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;

use super::caps::Caps;
use crate::moved::{Moved, Refusal};

/// Moves byte ranges between two open files.
pub trait Engine: Send {
    /// What it can do; constant for the life of the engine.
    fn caps(&self) -> Caps;

    /// Does a job. Nothing of it is in flight any more afterwards, however it went.
    fn run(&mut self, job: &Job) -> Outcome;
}

/// The bytes of a source from elsewhere than its storage: another process has read them.
pub trait ByteSource: Debug + Send + Sync {
    /// The bytes at this offset, as many as there are at hand and fit into the buffer: their number. `None` where the file is
    /// to be read itself, which alone knows of errors and of its end.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Option<NonZeroUsize>;
}

/// One open side of a copy.
#[derive(Debug, Clone)]
pub struct Side {
    /// The open file. A job owns its descriptors, together with the other jobs of the same file.
    pub fd: Arc<OwnedFd>,
    /// Bytes are addressed by offset (regular files, block devices); otherwise they come and go in order.
    pub seekable: bool,
    /// Alignment for O_DIRECT as statx(STATX_DIOALIGN) gave it (Linux 6.1); `None` where it is unknown or unsupported.
    pub direct: Option<DirectAlign>,
    /// A second open file of the same one, with O_DIRECT on: the flag belongs to an open file, so engines that switch it on
    /// `fd` can do one job of a file at a time; with this, any number. `None` where it could not be opened.
    pub direct_fd: Option<Arc<OwnedFd>>,
    /// Size in bytes of a regular file on a filesystem that keeps its files somewhere: a read that asks for more and stops
    /// exactly there has seen the end. `None` where only a read of nothing is the end.
    pub size: Option<u64>,
    /// Where a source's bytes come from, if not only from the file. Only `read-write` asks there, and where the size is known.
    pub elsewhere: Option<Arc<dyn ByteSource>>,
}

impl Side {
    /// An open file with nothing known about it but whether it has offsets.
    pub fn new(fd: Arc<OwnedFd>, seekable: bool) -> Side {
        Side { fd, seekable, direct: None, direct_fd: None, size: None, elsewhere: None }
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What O_DIRECT demands, in bytes. Both are powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectAlign {
    /// Alignment of buffers in memory.
    pub memory: u32,
    /// Alignment of offsets and lengths in the file.
    pub offset: u32,
}

/// What to do with runs of zeros.
///
/// A hole is a block, aligned in the file, of which every byte is zero; at both ends of a job it may be a part of one.
/// A hole at the end is not written, so the size of the destination is for the caller to set when all is moved.
/// A destination without offsets gets its zeros written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// They are bytes like others.
    Write,
    /// Blocks (of this size in bytes) become holes: the destination reads as zeros there already.
    Skip(u32),
    /// The same, but the destination may hold old data there, so holes are punched.
    Punch(u32),
}

/// A range of bytes to move.
#[derive(Debug, Clone)]
pub struct Job {
    /// Where the bytes come from.
    pub source: Side,
    /// Where they go.
    pub dest: Side,
    /// Offset of the first byte, in source and destination alike. Streams ignore it.
    pub offset: u64,
    /// Bytes to move at most. Fewer are moved only if the source ends, which engines learn from reading, not from the
    /// size; so `u64::MAX` means "up to the end".
    pub len: u64,
    /// What to do with runs of zeros; engines that do not see bytes refuse anything but `Write`.
    pub zeros: Zeros,
}

/// How a job went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes by the way they went. Their sum is what the destination gained, in order, from the job's offset on.
    pub moved: Moved,
    /// Why it ended.
    pub end: End,
}

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Everything asked for was moved.
    Complete,
    /// The source ended first.
    SourceEnd,
    /// This engine cannot go on here, another one may, from the job's offset plus `moved.total()`.
    Refused(Refusal),
    /// A final error (EIO, ENOSPC, EDQUOT, ENOMEM and all that no other engine could fix).
    Failed(Failure),
}

/// A final error of one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Which side failed.
    pub on: FailedOn,
    /// What the kernel said.
    pub errno: Errno,
}

/// Which side failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedOn {
    /// Reading the source.
    Read,
    /// Writing the destination.
    Write,
    /// An in-kernel copy, which does not tell.
    Copy,
    /// Making a hole.
    Hole,
    /// The source was truncated while it was mapped; the errno is ENODATA.
    Truncated,
}
