//! io_uring.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread::ThreadId;

use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use super::interface::{Completion, MOST_SLOTS, Queue, Request};
use super::slots::Slots;
use crate::syscall::errno_of;

/// Files that one job works on.
const FILES: usize = 4;

/// A ring with registered memory and registered files, as far as the kernel lets it.
pub(super) struct Uring {
    // Before the slots: fields are dropped in this order, and the ring must be closed before its memory goes.
    ring: IoUring,
    slots: Slots,
    /// The memory is registered: pinned once and not for each request.
    fixed_memory: bool,
    /// There is a table of registered files.
    file_table: bool,
    /// The open files are in it.
    fixed_files: bool,
    files: Vec<Arc<OwnedFd>>,
    /// Requests that the kernel was not given yet.
    pushed: usize,
    /// A ring of a single issuer belongs to the thread that made it.
    thread: ThreadId,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("fixed_memory", &self.fixed_memory)
            .field("fixed_files", &self.fixed_files)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Uring {
    pub(super) fn new() -> Result<Uring, Errno> {
        let ring = build().map_err(|error| errno_of(&error))?;
        // Up to Linux 6.4 a file that is taken out of the table may stay open for up to a second, and a program that
        // was just copied could not be started (ETXTBSY). This feature came with Linux 6.10.
        let file_table =
            ring.params().is_feature_recvsend_bundle() && ring.submitter().register_files(&[-1; FILES]).is_ok();
        Ok(Uring {
            ring,
            slots: Slots::new(),
            fixed_memory: false,
            file_table,
            fixed_files: false,
            files: Vec::new(),
            pushed: 0,
            thread: std::thread::current().id(),
        })
    }

    fn register_memory(&mut self) {
        if self.fixed_memory {
            // Where this fails the registration below fails too, and requests name their memory themselves.
            self.ring.submitter().unregister_buffers().ok();
        }
        let (start, len) = self.slots.memory();
        let whole = libc::iovec { iov_base: start.cast(), iov_len: len };
        // SAFETY: the range is mapped anonymous memory. It stays so until the ring is closed or this registration undone:
        // `slots` maps other memory only in `shape`, which registers anew, and the kernel holds the old pages till then.
        // ENOMEM where the memory lock limit is too small is no loss but of speed.
        self.fixed_memory = unsafe { self.ring.submitter().register_buffers(&[whole]) }.is_ok();
    }

    fn set_files(&self, fds: [RawFd; FILES]) -> bool {
        self.ring.submitter().register_files_update(0, &fds).is_ok_and(|count| count == FILES)
    }

    /// The files in it must not stay open.
    fn drop_file_table(&mut self) -> Result<(), Errno> {
        self.file_table = false;
        self.ring.submitter().unregister_files().map_err(|error| errno_of(&error))
    }

    fn entry(&self, request: &Request, memory: *mut u8) -> Result<squeue::Entry, Errno> {
        let file = self.files.get(request.file).ok_or(Errno::INVAL)?;
        let len = u32::try_from(request.len).map_err(|_| Errno::INVAL)?;
        let (fixed, fd) = (Fixed(request.file as u32), Fd(file.as_raw_fd()));
        let at = request.offset;
        let entry = match (request.write, self.fixed_memory, self.fixed_files) {
            (false, true, true) => opcode::ReadFixed::new(fixed, memory, len, 0).offset(at).build(),
            (false, true, false) => opcode::ReadFixed::new(fd, memory, len, 0).offset(at).build(),
            (false, false, true) => opcode::Read::new(fixed, memory, len).offset(at).build(),
            (false, false, false) => opcode::Read::new(fd, memory, len).offset(at).build(),
            (true, true, true) => opcode::WriteFixed::new(fixed, memory, len, 0).offset(at).build(),
            (true, true, false) => opcode::WriteFixed::new(fd, memory, len, 0).offset(at).build(),
            (true, false, true) => opcode::Write::new(fixed, memory, len).offset(at).build(),
            (true, false, false) => opcode::Write::new(fd, memory, len).offset(at).build(),
        };
        Ok(entry.user_data(request.slot as u64))
    }

    /// Waits for what the kernel has already, and gives it nothing new.
    fn wait_only(&self) -> std::io::Result<usize> {
        const GETEVENTS: u32 = 1;
        // SAFETY: nothing is submitted, and no argument beyond the numbers is passed.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, GETEVENTS, None) }
    }
}

/// The cheapest completions that this kernel has: run by the waiting thread alone (6.1), without interrupting it (5.19), or
/// as ever.
fn build() -> std::io::Result<IoUring> {
    let entries = MOST_SLOTS as u32;
    let mut last = None;
    for attempt in 0..3 {
        let mut builder = IoUring::builder();
        match attempt {
            0 => builder.setup_single_issuer().setup_defer_taskrun(),
            1 => builder.setup_coop_taskrun(),
            _ => &mut builder,
        };
        match builder.build(entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            other => return other,
        }
    }
    Err(last.unwrap_or_else(|| std::io::Error::from_raw_os_error(libc::EINVAL)))
}

impl Queue for Uring {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        if self.slots.shape(block, slots)? {
            self.register_memory();
        }
        Ok(())
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.slots.idle()?;
        if self.thread != std::thread::current().id() {
            let (block, slots) = self.slots.layout();
            *self = Uring::new()?;
            if slots > 0 {
                self.shape(block, slots)?;
            }
        }
        self.fixed_files = false;
        if self.file_table && files.len() <= FILES {
            let mut fds = [-1; FILES];
            for (place, file) in fds.iter_mut().zip(files) {
                *place = file.as_raw_fd();
            }
            self.fixed_files = self.set_files(fds);
            if !self.fixed_files {
                // Some may be in it all the same.
                self.drop_file_table()?;
            }
        }
        self.files = files.to_vec();
        Ok(())
    }

    fn close(&mut self) -> Result<(), Errno> {
        self.slots.idle()?;
        if self.fixed_files && !self.set_files([-1; FILES]) {
            self.drop_file_table()?;
        }
        self.fixed_files = false;
        self.files.clear();
        Ok(())
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        self.slots.bytes(slot)
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        let memory = self.slots.claim(request)?;
        let pushed = self.entry(request, memory).and_then(|entry| {
            // SAFETY: the memory is the slot's, which stays mapped and untouched until the completion releases it, and the
            // file stays open until `close`, which refuses while a slot is busy.
            unsafe { self.ring.submission().push(&entry) }.map_err(|_| Errno::AGAIN)
        });
        match pushed {
            Ok(()) => self.pushed += 1,
            Err(_) => self.slots.release(request.slot),
        }
        pushed
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        if !self.slots.is_busy() {
            return Ok(());
        }
        let waited = match self.ring.submit_and_wait(1) {
            Ok(count) => {
                self.pushed = self.pushed.saturating_sub(count);
                Ok(())
            }
            // No memory for more requests just now. Those at work will free theirs.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
                    && self.slots.busy().count() > self.pushed =>
            {
                self.wait_only().map(|_| ())
            }
            Err(error) => Err(error),
        };
        let before = done.len();
        for entry in self.ring.completion() {
            // Slots are small numbers.
            let slot = entry.user_data() as usize;
            self.slots.release(slot);
            let result = usize::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
            done.push(Completion { slot, result });
        }
        match waited {
            Err(error) if done.len() == before => Err(errno_of(&error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.slots.is_busy() {
            // Requests at work name these files only by number.
            std::mem::forget(std::mem::take(&mut self.files));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::copies;

    #[test]
    fn neither_registered_files_nor_registered_memory_are_needed() {
        for (files, memory) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut ring = Uring::new().unwrap();
            ring.file_table &= files;
            if !memory {
                // As after a registration that failed: the memory is the one that the test divides next.
                ring.slots.shape(1 << 20, 1).unwrap();
            }
            copies(&mut ring);
            assert_eq!(ring.fixed_memory, memory);
        }
    }
}
