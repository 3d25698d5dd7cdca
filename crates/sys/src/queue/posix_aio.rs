//! POSIX AIO of the C library: a few threads that read and write.
//!
//! glibc works on the requests of one descriptor one after the other, so each file is opened into several descriptors.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;

use super::interface::{Completion, MOST_SLOTS, Queue, Request};
use super::slots::Slots;
use crate::close;
use crate::syscall::{errno_of, last_errno, outcome};

/// Requests to one file that are at work at the same time. glibc has 20 threads for all of a process.
const LANES: usize = 4;

/// Requests by slot.
#[derive(Debug)]
pub(super) struct PosixAio {
    /// Where the threads of the C library read requests and leave results. Each was a box; freed by `drop`.
    blocks: Vec<*mut libc::aiocb>,
    slots: Slots,
    files: Vec<Lanes>,
}

/// A file and more descriptors of it.
#[derive(Debug)]
struct Lanes {
    file: Arc<OwnedFd>,
    more: Vec<OwnedFd>,
}

impl Lanes {
    fn of(&self, slot: usize) -> RawFd {
        match slot % LANES {
            0 => self.file.as_raw_fd(),
            lane => self.more.get(lane - 1).unwrap_or(&self.file).as_raw_fd(),
        }
    }
}

// SAFETY: the blocks are owned by this value alone. The C library's threads use a block only between aio_read or aio_write
// and the result that aio_error tells of, and it does not matter which thread asks for that.
unsafe impl Send for PosixAio {}

impl PosixAio {
    pub(super) fn new() -> PosixAio {
        // SAFETY: all zeros is a valid aiocb: numbers, null pointers, and no notification (SIGEV_SIGNAL with signal 0 is
        // replaced before any use).
        let block = || Box::into_raw(Box::new(unsafe { std::mem::zeroed::<libc::aiocb>() }));
        PosixAio { blocks: (0..MOST_SLOTS).map(|_| block()).collect(), slots: Slots::new(), files: Vec::new() }
    }
}

impl Queue for PosixAio {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        self.slots.shape(block, slots).map(|_| ())
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.close()?;
        // The requests of many files are spread by themselves, and descriptors are few.
        let lanes = if files.len() > LANES { 1 } else { LANES };
        for file in files {
            let copies = (1..lanes).map(|_| rustix::io::fcntl_dupfd_cloexec(file, 0));
            let more = copies.collect::<Result<Vec<OwnedFd>, Errno>>()?;
            self.files.push(Lanes { file: Arc::clone(file), more });
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Errno> {
        self.slots.idle()?;
        let mut result = Ok(());
        for fd in self.files.drain(..).flat_map(|lanes| lanes.more) {
            // What was only read is not the worse for it.
            let written = fcntl_getfl(&fd).is_ok_and(|flags| flags & OFlags::ACCMODE != OFlags::RDONLY);
            let closed = close(fd);
            if written {
                result = result.and(closed);
            }
        }
        result
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        self.slots.bytes(slot)
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        let file = self.files.get(request.file).ok_or(Errno::INVAL)?.of(request.slot);
        let offset = libc::off_t::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let block = *self.blocks.get(request.slot).ok_or(Errno::INVAL)?;
        let memory = self.slots.claim(request)?;
        // SAFETY: the slot was not busy, so the C library has no business with its block, and this is the only reference.
        let fields = unsafe { &mut *block };
        fields.aio_fildes = file;
        fields.aio_reqprio = 0;
        fields.aio_buf = memory.cast();
        fields.aio_nbytes = request.len;
        fields.aio_offset = offset;
        fields.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        // SAFETY: the block and the slot's memory stay where they are, untouched, until aio_error says that the request is
        // done; the descriptor stays open until `close`, which refuses while a slot is busy.
        let result = unsafe { if request.write { libc::aio_write(block) } else { libc::aio_read(block) } };
        if result == 0 {
            return Ok(());
        }
        let errno = last_errno();
        self.slots.release(request.slot);
        Err(errno)
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let busy: Vec<usize> = self.slots.busy().collect();
        if busy.is_empty() {
            return Ok(());
        }
        let mut list = [null::<libc::aiocb>(); MOST_SLOTS];
        for (place, slot) in list.iter_mut().zip(&busy) {
            *place = self.blocks[*slot].cast_const();
        }
        // SAFETY: the list holds the blocks of requests at work; a null timeout means to wait.
        outcome(unsafe { libc::aio_suspend(list.as_ptr(), busy.len() as libc::c_int, null_mut()) }.into())?;
        for slot in busy {
            let block = self.blocks[slot];
            // SAFETY: the block is that of a request at work.
            let status = unsafe { libc::aio_error(block) };
            if status == libc::EINPROGRESS {
                continue;
            }
            // SAFETY: the request is done, and its result is taken once.
            let count = unsafe { libc::aio_return(block) };
            self.slots.release(slot);
            let result = match status {
                0 => usize::try_from(count).map_err(|_| Errno::IO),
                errno => Err(errno_of(&std::io::Error::from_raw_os_error(errno))),
            };
            done.push(Completion { slot, result });
        }
        Ok(())
    }
}

impl Drop for PosixAio {
    fn drop(&mut self) {
        if self.slots.is_busy() {
            // Threads of the C library still use the blocks, the descriptors and the memory: all of it stays.
            std::mem::forget(std::mem::take(&mut self.files));
            return;
        }
        for block in self.blocks.drain(..) {
            // SAFETY: it came from Box::into_raw, no request is at work, and it is freed once.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}
