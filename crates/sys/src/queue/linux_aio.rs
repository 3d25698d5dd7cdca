//! Linux AIO: io_setup(2), io_submit(2), io_getevents(2), io_destroy(2), which the C library does not wrap.

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;

use rustix::io::Errno;

use super::interface::{Completion, MOST_SLOTS, Queue, Request};
use super::slots::Slots;
use crate::syscall::{last_errno, outcome};

/// `struct iocb` of linux/aio_abi.h: one request.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    memory: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`: one completion.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<Iocb>() == 64 && size_of::<IoEvent>() == 32);

/// IOCB_CMD_PREAD and IOCB_CMD_PWRITE.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;

/// `aio_context_t`.
type Context = libc::c_ulong;

/// A context of the kernel, and what was pushed since the last wait.
#[derive(Debug)]
pub(super) struct LinuxAio {
    context: Context,
    slots: Slots,
    files: Vec<Arc<OwnedFd>>,
    pushed: Vec<Iocb>,
    /// Requests that the kernel has.
    submitted: usize,
    /// Requests that it refused, and why; each becomes a completion.
    rejected: Vec<Completion>,
}

impl LinuxAio {
    pub(super) fn new() -> Result<LinuxAio, Errno> {
        let mut context: Context = 0;
        // SAFETY: the kernel writes one word to the address of a live variable, which is zero as it demands.
        outcome(unsafe { libc::syscall(libc::SYS_io_setup, MOST_SLOTS as libc::c_long, &raw mut context) })?;
        Ok(LinuxAio {
            context,
            slots: Slots::new(),
            files: Vec::new(),
            pushed: Vec::with_capacity(MOST_SLOTS),
            submitted: 0,
            rejected: Vec::new(),
        })
    }

    /// Gives the kernel what was pushed; what finds no room stays.
    fn submit(&mut self) {
        while !self.pushed.is_empty() {
            let mut addresses: Vec<*mut Iocb> = self.pushed.iter_mut().map(std::ptr::from_mut).collect();
            // SAFETY: each address is that of a live iocb, which the kernel copies in. The memory that it names belongs to
            // a claimed slot, so it stays mapped and untouched until the completion; the file is open until `close`.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    addresses.len() as libc::c_long,
                    addresses.as_mut_ptr(),
                )
            };
            match usize::try_from(count) {
                Ok(0) => return,
                Ok(count) => {
                    let count = count.min(self.pushed.len());
                    self.pushed.drain(..count);
                    self.submitted += count;
                }
                Err(_) => match last_errno() {
                    // It comes back when some of the others are done.
                    Errno::AGAIN if self.submitted > 0 => return,
                    // The error is that of the first request alone.
                    errno => {
                        let slot = self.pushed.remove(0).data as usize;
                        self.rejected.push(Completion { slot, result: Err(errno) });
                    }
                },
            }
        }
    }

    fn take_rejected(&mut self, done: &mut Vec<Completion>) {
        for completion in self.rejected.drain(..) {
            self.slots.release(completion.slot);
            done.push(completion);
        }
    }
}

impl Queue for LinuxAio {
    fn shape(&mut self, block: usize, slots: usize) -> Result<(), Errno> {
        self.slots.shape(block, slots).map(|_| ())
    }

    fn open(&mut self, files: &[Arc<OwnedFd>]) -> Result<(), Errno> {
        self.slots.idle()?;
        self.files = files.to_vec();
        Ok(())
    }

    fn close(&mut self) -> Result<(), Errno> {
        self.slots.idle()?;
        self.files.clear();
        Ok(())
    }

    fn buffer(&mut self, slot: usize) -> Result<&mut [u8], Errno> {
        self.slots.bytes(slot)
    }

    fn push(&mut self, request: &Request) -> Result<(), Errno> {
        let file = self.files.get(request.file).ok_or(Errno::INVAL)?.as_raw_fd();
        let offset = i64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let memory = self.slots.claim(request)?;
        self.pushed.push(Iocb {
            data: request.slot as u64,
            opcode: if request.write { PWRITE } else { PREAD },
            file: file.cast_unsigned(),
            memory: memory.expose_provenance() as u64,
            len: request.len as u64,
            offset,
            ..Iocb::default()
        });
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.submit();
        let at_once = !self.rejected.is_empty();
        self.take_rejected(done);
        if at_once || self.submitted == 0 {
            return Ok(());
        }
        let mut events = [IoEvent::default(); MOST_SLOTS];
        // SAFETY: the kernel writes at most as many events as there is room for; a null timeout means to wait.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                1 as libc::c_long,
                events.len() as libc::c_long,
                events.as_mut_ptr(),
                null_mut::<libc::timespec>(),
            )
        };
        let count = usize::try_from(count).map_err(|_| last_errno())?;
        for event in &events[..count.min(events.len())] {
            let slot = event.data as usize;
            self.submitted = self.submitted.saturating_sub(1);
            self.slots.release(slot);
            let result = usize::try_from(event.result)
                .map_err(|_| Errno::from_raw_os_error(i32::try_from(-event.result).unwrap_or(libc::EIO)));
            done.push(Completion { slot, result });
        }
        Ok(())
    }
}

impl Drop for LinuxAio {
    fn drop(&mut self) {
        // It waits until the requests at work are done. If it fails there is no context any more, or never was: the
        // memory of requests that may still be at work is not given back.
        // SAFETY: a plain number is passed.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
