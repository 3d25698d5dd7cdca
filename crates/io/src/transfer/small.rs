//! Small files by one read and one write, as the engine `read-write` does it.
//!
//! What an engine is given, tells and leaves open serves files of any size and kind. It took a quarter of all that haul itself
//! has to do for a file of some KiB (2,000 of 8,400 instructions). So the plainest case is done here, and is left to the
//! engine, from the first byte on, as soon as one answer is another than expected.
//!
//! It comes first where [`crate::strategy`] says so: files below 64 KiB, and on XFS, up to 8 KiB, before their extents
//! are shared, unless the copy is to be durable.

use std::os::fd::{AsFd, BorrowedFd};

use haul_sys::Errno;
use haul_sys::inode::Kind;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::param::page_size;

use crate::engine::Tuning;
use crate::engine::buffer::AlignedBuffer;
use crate::engine::calls::again;

use super::job::Transfer;
use super::pseudo_file::has_storage;
use crate::control::Control;
use crate::engine::EngineName;
use crate::strategy::{DataFacts, Ranges, SMALL, Steps, Workers};

/// One byte more than the largest of these files has.
const BUFFER: usize = SMALL as usize;

/// The memory for these files, once there was one.
#[derive(Default)]
pub(super) struct Small(Option<AlignedBuffer>);

impl Small {
    /// Whether it is such a file, and all that is asked is that its bytes are moved.
    pub(super) fn may_move(
        &self,
        job: &Transfer<'_>,
        (facts, steps): (&DataFacts, &Steps),
        control: Control<'_>,
    ) -> bool {
        is_plain(job, facts)
            && is_chosen(steps)
            && is_unobserved(control, steps)
            && (!steps.at_once_if_cached || is_cached(&Linux, job.source.as_fd(), job.source_inode.size))
    }

    /// Moves the whole file. False if nothing was moved, since something is not as it was seen.
    ///
    /// # Errors
    /// That of emptying the destination again.
    pub(super) fn moves(&mut self, job: &Transfer<'_>) -> Result<bool, Errno> {
        let buffer = self.0.get_or_insert_with(|| AlignedBuffer::for_copying(BUFFER));
        let files = (job.source.as_fd(), job.dest.as_fd());
        in_one_go(&Linux, files, (job.source_inode.size, job.overwrites), buffer.bytes())
    }
}

/// Nothing but bytes is to be moved, from an ordinary file to one.
fn is_plain(job: &Transfer<'_>, facts: &DataFacts) -> bool {
    job.source_inode.size < SMALL
        && job.source_inode.kind == Kind::Regular
        && job.dest_inode.kind == Kind::Regular
        && has_storage(job.source_inode)
        && facts.seekable
        && !facts.pseudo_file
        && job.start == 0
        && job.elsewhere.is_none()
        && job.follower.is_none()
        && job.checkpoints.is_none()
}

/// The engine was chosen, and nothing besides.
fn is_chosen(steps: &Steps) -> bool {
    (steps.engines.first() == Some(&EngineName::ReadWrite) || steps.at_once_if_cached)
        && steps.ranges == Ranges::Whole
        && steps.workers == Workers::ONE
        && steps.tuning == Tuning::default()
        && steps.profile.is_none()
        && !(steps.find_zeros || steps.preallocate || steps.read_ahead || steps.forget_source || steps.send_dest)
}

/// Nobody counts requests, and nobody wants to hear of engines that were passed over, or none was.
fn is_unobserved(control: Control<'_>, steps: &Steps) -> bool {
    !control.pace.is_active() && (!control.progress.wants_all() || steps.passed_over.is_empty())
}

/// Whether all of a file can be read without its device. Asked in this way, since a read with RWF_NOWAIT begins to read ahead
/// what it does not find.
fn is_cached(kernel: &dyn Kernel, source: BorrowedFd<'_>, size: u64) -> bool {
    kernel.cached_pages(source, 0, size).is_ok_and(|pages| pages >= size.div_ceil(page_size() as u64))
}

/// Copies a file of so many bytes by one read and one write, over old contents if there are some. False if one of them did not
/// do all that, or failed: then the destination is empty, since the engine may find fewer bytes than were read here. The error
/// is that of cutting it.
fn in_one_go(
    kernel: &dyn Kernel,
    (source, dest): (BorrowedFd<'_>, BorrowedFd<'_>),
    (size, overwrites): (u64, bool),
    buffer: &mut [u8],
) -> Result<bool, Errno> {
    let read = usize::try_from(size).ok().and_then(|len| {
        let space = buffer.get_mut(..=len)?;
        // Where there was space for another byte, fewer than that are all.
        (again(|| kernel.pread(source, space, 0)) == Ok(len)).then_some(&space[..len])
    });
    let written =
        read.is_some_and(|bytes| bytes.is_empty() || again(|| kernel.pwrite(dest, bytes, 0)) == Ok(bytes.len()));
    if overwrites || (!written && read.is_some()) {
        again(|| kernel.set_size(dest, if written { size } else { 0 }))?;
    }
    if overwrites && written {
        // Before the times of the source say that its contents are there, as a truncated file is written back at its close:
        // a crash must not leave old bytes with a new time. It waits for nothing, and what fails, fails at the next sync.
        kernel.write_back(dest, false).ok();
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::sync::atomic::{AtomicBool, Ordering};

    use haul_sys::kernel::Fd;
    use haul_testbed::temp_dir;
    use parking_lot::Mutex;

    /// Bytes that are not alike.
    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    /// Copies a file of `size` bytes that is taken for one of `seen`, and gives what came of it.
    fn copy(kernel: &dyn Kernel, size: usize, seen: usize) -> Option<Vec<u8>> {
        let dir = temp_dir();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, bytes(size)).unwrap();
        let (source, dest) = (File::open(&from).unwrap(), File::create(&to).unwrap());
        let files = (source.as_fd(), dest.as_fd());
        let whole = in_one_go(kernel, files, (seen as u64, false), &mut [0; BUFFER]).unwrap();
        let copied = fs::read(to).unwrap();
        assert!(whole || copied.is_empty(), "{} bytes are left", copied.len());
        whole.then_some(copied)
    }

    #[test]
    fn a_file_of_any_small_size_is_copied_by_one_read_and_one_write() {
        for size in [0, 1, 4095, 4096, 4097, BUFFER - 1] {
            assert!(copy(&Linux, size, size) == Some(bytes(size)), "{size} bytes");
        }
        assert_eq!(copy(&Linux, BUFFER, BUFFER), None, "whether it ends there is not known");
    }

    #[test]
    fn a_file_of_another_size_than_was_seen_is_left_to_the_engine() {
        for (size, seen) in [(0, 1), (1, 0), (4096, 4097), (4097, 4096), (BUFFER + 1, 4096)] {
            assert_eq!(copy(&Linux, size, seen), None, "{size} bytes seen as {seen}");
        }
    }

    /// Reads and writes at most so many bytes at a time, and fails where that is none.
    #[derive(Debug)]
    struct Short {
        read: usize,
        write: usize,
    }

    impl Kernel for Short {
        fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
            let most = self.read.min(buffer.len());
            if most == 0 { Err(Errno::IO) } else { Linux.pread(fd, &mut buffer[..most], offset) }
        }

        fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            let most = self.write.min(bytes.len());
            if most == 0 { Err(Errno::NOSPC) } else { Linux.pwrite(fd, &bytes[..most], offset) }
        }
    }

    #[test]
    fn short_counts_and_errors_leave_the_file_to_the_engine() {
        let enough = usize::MAX;
        for (read, write) in [(0, enough), (999, enough), (enough, 0), (enough, 999)] {
            assert_eq!(copy(&Short { read, write }, 1000, 1000), None, "{read} bytes read, {write} written");
        }
        assert!(copy(&Short { read: enough, write: enough }, 1000, 1000) == Some(bytes(1000)));
    }

    /// Writes down what is done to the destination; writes at most so many bytes at a time.
    #[derive(Debug, Default)]
    struct Noted {
        most: usize,
        calls: Mutex<Vec<&'static str>>,
    }

    impl Kernel for Noted {
        fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            self.calls.lock().push("write");
            Linux.pwrite(fd, &bytes[..self.most.min(bytes.len())], offset)
        }

        fn set_size(&self, fd: Fd<'_>, size: u64) -> Result<(), Errno> {
            self.calls.lock().push("cut");
            Linux.set_size(fd, size)
        }

        fn write_back(&self, _: Fd<'_>, wait: bool) -> Result<(), Errno> {
            assert!(!wait);
            self.calls.lock().push("write back");
            Ok(())
        }
    }

    /// Writes a file of `size` bytes over one of `old`: whether that is done, what is there then, and how that came.
    fn overwrite(size: usize, old: usize, most: usize) -> (bool, Vec<u8>, Vec<&'static str>) {
        let dir = temp_dir();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, bytes(size)).unwrap();
        fs::write(&to, vec![b'o'; old]).unwrap();
        let (source, dest) = (File::open(&from).unwrap(), File::options().write(true).open(&to).unwrap());
        let kernel = Noted { most, ..Noted::default() };
        let files = (source.as_fd(), dest.as_fd());
        let whole = in_one_go(&kernel, files, (size as u64, true), &mut [0; BUFFER]).unwrap();
        (whole, fs::read(to).unwrap(), kernel.calls.into_inner())
    }

    #[test]
    fn old_contents_are_overwritten_then_cut_then_on_their_way_to_the_device() {
        for (size, old) in [(1000, 1), (1000, 1000), (1000, 70_000), (BUFFER - 1, 5)] {
            let (whole, now, calls) = overwrite(size, old, usize::MAX);
            assert!(whole && now == bytes(size), "{size} bytes over {old}");
            assert_eq!(calls, ["write", "cut", "write back"]);
        }
        assert_eq!(overwrite(0, 9, usize::MAX), (true, vec![], vec!["cut", "write back"]));
    }

    #[test]
    fn what_cannot_be_overwritten_in_one_go_is_emptied_for_the_engine() {
        assert_eq!(overwrite(1000, 2000, 999), (false, vec![], vec!["write", "cut"]));
        assert_eq!(overwrite(BUFFER, 2000, usize::MAX), (false, vec![], vec!["cut"]));
    }

    /// So many pages are in the page cache, if the kernel tells.
    #[derive(Debug)]
    struct Cached(Result<u64, Errno>);

    impl Kernel for Cached {
        fn cached_pages(&self, _: Fd<'_>, _: u64, _: u64) -> Result<u64, Errno> {
            self.0
        }
    }

    #[test]
    fn a_file_is_cached_if_all_of_its_pages_are() {
        let dir = temp_dir();
        let file = File::create(dir.path().join("file")).unwrap();
        let page = page_size() as u64;
        let is_cached = |pages, size| super::is_cached(&Cached(pages), file.as_fd(), size);
        assert!(is_cached(Ok(1), 1) && is_cached(Ok(1), page) && is_cached(Ok(2), page + 1));
        assert!(!is_cached(Ok(0), 1) && !is_cached(Ok(1), page + 1) && !is_cached(Err(Errno::PERM), 1));
    }

    /// A signal arrives during the first call.
    #[derive(Debug, Default)]
    struct Interrupted {
        read: AtomicBool,
        written: AtomicBool,
    }

    impl Kernel for Interrupted {
        fn pread(&self, fd: Fd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
            let again = self.read.swap(true, Ordering::Relaxed);
            if again { Linux.pread(fd, buffer, offset) } else { Err(Errno::INTR) }
        }

        fn pwrite(&self, fd: Fd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            let again = self.written.swap(true, Ordering::Relaxed);
            if again { Linux.pwrite(fd, bytes, offset) } else { Err(Errno::INTR) }
        }
    }

    #[test]
    fn a_call_that_a_signal_interrupted_is_repeated() {
        assert!(copy(&Interrupted::default(), 1000, 1000) == Some(bytes(1000)));
    }
}
