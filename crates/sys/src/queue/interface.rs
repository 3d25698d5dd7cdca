//! What a queue is asked, whichever interface carries its requests.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

/// The most requests that one queue holds.
pub const MOST_SLOTS: usize = 32;

/// One read or write at an offset of a file, from or into a slot's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The slot, which also names the request: a slot has one request at a time.
    pub slot: usize,
    /// Write instead of read.
    pub write: bool,
    /// The file, as an index into those that were opened.
    pub file: usize,
    /// The file was opened with O_DIRECT. Says nothing to the kernel, which knows; but to those who stand between.
    pub direct: bool,
    /// First byte within the slot.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// Offset in the file.
    pub offset: u64,
}

/// A request that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The slot, which is free again.
    pub slot: usize,
    /// The kernel's count, which may be short, or its errno.
    pub result: Result<usize, Errno>,
}

/// Reads and writes in flight.
pub trait Queue: Debug + Send {
    /// Divides the memory into `slots` slots of `block` bytes, a multiple of the page size. What was in it is lost.
    ///
    /// # Errors
    /// EBUSY while requests are in flight, EINVAL for sizes that make no sense, ENOMEM.
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno>;

    /// The files of the requests to come, which it shares until `close`. Up to 4 of them are served best: registered with
    /// io_uring, and with several descriptors each for POSIX AIO.
    ///
    /// # Errors
    /// EBUSY while requests are in flight; what making the interface ready gives.
    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno>;

    /// Lets go of the files.
    ///
    /// # Errors
    /// EBUSY while requests are in flight; what closing a further descriptor of a file that is open for writing gives, which
    /// may be the only place where a failed write shows.
    fn close(&mut self) -> Result<(), Errno>;

    /// The memory of a slot.
    ///
    /// # Errors
    /// EBUSY while a request is at work in it, EINVAL if there is no such slot.
    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno>;

    /// Takes a request; it starts at the latest with the next `wait`.
    ///
    /// # Errors
    /// EAGAIN if there is no room: wait first. EBUSY and EINVAL for a slot that is busy or does not exist, for a range
    /// beyond it, and for a file that is not open. Then nothing was taken.
    fn push(&mut self, request: &Request) -> Result<(), Errno>;

    /// Starts what was pushed, waits until at least one request is done, and appends the completions.
    /// Without any requests it returns at once.
    ///
    /// # Errors
    /// EINTR: nothing is lost, wait again. Everything else means that the interface broke down; requests may still be at
    /// work, and all that can be done with the queue is to drop it, which then gives its memory away for good.
    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno>;
}
