//! Queues of reads and writes that the kernel (or the C library) works on while this process goes on: io_uring, Linux AIO
//! and POSIX AIO behind one trait, which tests replace by way of [`Kernel::queue`](crate::kernel::Kernel::queue).
//!
//! A queue owns the memory of its requests, in slots of equal size, and hands a slot's bytes out only while no request is
//! at work in it. So whatever its user does, the kernel never writes into memory that something else uses.

mod linux_aio;
mod posix_aio;
mod slots;
mod uring;

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

/// The most requests that one queue holds.
pub const MOST_SLOTS: usize = 32;

/// Which interface carries the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// io_uring(7), Linux 5.5 and later; refused by the default profile of many containers.
    IoUring,
    /// io_submit(2): asynchronous for O_DIRECT, otherwise done while it is submitted.
    LinuxAio,
    /// aio_read(3) and aio_write(3): threads of the C library.
    PosixAio,
}

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

    /// The files of the requests to come, at most 4, which it shares until `close`.
    ///
    /// # Errors
    /// EBUSY while requests are in flight; what making the interface ready gives.
    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno>;

    /// Lets go of the files.
    ///
    /// # Errors
    /// EBUSY while requests are in flight; what closing a further descriptor of one of the files gives, which may be the
    /// only place where a failed write shows.
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

/// Makes a queue.
///
/// # Errors
/// What the kernel says: ENOSYS where it lacks the interface, EPERM where it is forbidden, EAGAIN, ENOMEM or EMFILE where
/// a limit is reached.
pub fn make(kind: QueueKind) -> Result<Box<dyn Queue>, Errno> {
    Ok(match kind {
        QueueKind::IoUring => Box::new(uring::Uring::new()?),
        QueueKind::LinuxAio => Box::new(linux_aio::LinuxAio::new()?),
        QueueKind::PosixAio => Box::new(posix_aio::PosixAio::new()),
    })
}

fn last_errno() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
