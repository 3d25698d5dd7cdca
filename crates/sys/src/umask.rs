//! The umask, read without changing it.
//!
//! umask(2) reads it only by setting another one, and until it is set back every thread of the process makes files with that.

use std::fs::File;
use std::io::Read;
use std::thread;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The umask of the calling thread, which is that of its process unless somebody has parted them. Nothing is changed.
///
/// Taken from /proc (Linux 4.7); without that by umask(2) in a thread that has a copy of its own.
///
/// # Errors
/// If there is neither: what unshare(2) says, or EAGAIN where no thread can be had.
pub fn umask() -> Result<u32, Errno> {
    from_proc().map_or_else(read_in_own_thread, Ok)
}

fn from_proc() -> Option<u32> {
    // It is on the second line, after the name, of which 16 bytes are escaped to 64 at most: one read has it.
    let mut status = [0; 256];
    let count = File::open("/proc/thread-self/status").and_then(|mut file| file.read(&mut status)).ok()?;
    let digits = status[..count].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?.trim(), 8).ok()
}

fn read_in_own_thread() -> Result<u32, Errno> {
    let read = || {
        // SAFETY: unshare is unsafe because CLONE_FILES would pull descriptors from under other threads. CLONE_FS gives this
        // thread its own current directory, root and umask, and touches no memory.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        Ok(rustix::process::umask(Mode::empty()).as_raw_mode())
    };
    let thread = thread::Builder::new().name("haul-umask".into()).spawn(read);
    let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
    // It does nothing that can panic.
    thread.join().unwrap_or(Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_umask_of_the_calling_thread() {
        let read = |mask: u32| {
            let apart = move || {
                // SAFETY: as above; other tests keep their umask.
                unsafe { unshare_unsafe(UnshareFlags::FS) }.unwrap();
                rustix::process::umask(Mode::from_raw_mode(mask));
                (from_proc(), read_in_own_thread(), rustix::process::umask(Mode::empty()).as_raw_mode())
            };
            thread::spawn(apart).join().unwrap()
        };
        for mask in [0, 0o022, 0o077, 0o777] {
            assert_eq!(read(mask), (Some(mask), Ok(mask), mask));
        }
    }
}
