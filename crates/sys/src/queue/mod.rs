//! Queues of reads and writes that the kernel (or the C library) works on while this process goes on: io_uring, Linux AIO
//! and POSIX AIO behind one trait, which tests replace by way of [`Kernel::queue`](crate::kernel::Kernel::queue).
//!
//! A queue owns the memory of its requests, in slots of equal size, and hands a slot's bytes out only while no request is
//! at work in it. So whatever its user does, the kernel never writes into memory that something else uses.

mod interface;
mod linux_aio;
mod posix_aio;
mod slots;
mod uring;

use rustix::io::Errno;

pub use interface::{Completion, MOST_SLOTS, Queue, Request};

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

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use super::*;

    const ALL: [QueueKind; 3] = [QueueKind::IoUring, QueueKind::LinuxAio, QueueKind::PosixAio];
    const BLOCK: usize = 1 << 16;

    /// An open file without a name.
    fn file() -> File {
        let path =
            std::env::temp_dir().join(format!("haul-queue-{}-{:?}", std::process::id(), std::thread::current().id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file
    }

    fn request(slot: usize, write: bool, file: usize) -> Request {
        Request { slot, write, file, direct: false, start: 0, len: BLOCK, offset: (slot * BLOCK) as u64 }
    }

    fn finish(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
        let mut done = Vec::new();
        while done.len() < count {
            match queue.wait(&mut done) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(errno) => panic!("{errno}"),
            }
        }
        done.sort_by_key(|completion| completion.slot);
        done
    }

    /// Copies five blocks and a half, all at the same time.
    pub(crate) fn copies(queue: &mut dyn Queue) {
        let (from, to) = (file(), file());
        let bytes: Vec<u8> = (0..BLOCK * 11 / 2).map(|at| (at % 251) as u8).collect();
        from.write_all_at(&bytes, 0).unwrap();
        let files = [Arc::new(OwnedFd::from(from)), Arc::new(OwnedFd::from(to.try_clone().unwrap()))];
        queue.shape(BLOCK, 7).unwrap();
        queue.open(&files).unwrap();
        (0..7).for_each(|slot| queue.push(&request(slot, false, 0)).unwrap());
        let read: Vec<_> = finish(queue, 7).iter().map(|completion| completion.result.unwrap()).collect();
        assert_eq!(read, [BLOCK, BLOCK, BLOCK, BLOCK, BLOCK, BLOCK / 2, 0]);
        assert!(queue.buffer(2).unwrap() == &bytes[2 * BLOCK..3 * BLOCK]);
        (0..6).for_each(|slot| queue.push(&Request { len: read[slot], ..request(slot, true, 1) }).unwrap());
        finish(queue, 6);
        queue.close().unwrap();
        assert_eq!(Arc::strong_count(&files[1]), 1);
        let mut copied = vec![0; bytes.len() + 1];
        assert_eq!(to.read_at(&mut copied, 0).unwrap(), bytes.len());
        assert!(copied[..bytes.len()] == bytes);
    }

    #[test]
    fn every_queue_reads_and_writes_at_offsets_and_reports_short_counts() {
        for kind in ALL {
            copies(&mut *make(kind).unwrap());
        }
    }

    #[test]
    fn a_failed_request_is_its_own_failure_alone() {
        for kind in ALL {
            let mut queue = make(kind).unwrap();
            let writable = file();
            let readable = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writable))).unwrap();
            queue.shape(BLOCK, 3).unwrap();
            queue.open(&[Arc::new(readable.into()), Arc::new(writable.into())]).unwrap();
            for (slot, file) in [(0, 1), (1, 0), (2, 1)] {
                queue.push(&request(slot, true, file)).unwrap();
            }
            let results: Vec<_> = finish(&mut *queue, 3).iter().map(|completion| completion.result).collect();
            assert_eq!(results, [Ok(BLOCK), Err(Errno::BADF), Ok(BLOCK)], "{kind:?}");
        }
    }

    #[test]
    fn nothing_is_taken_back_from_a_request_before_it_is_done() {
        for kind in ALL {
            let mut queue = make(kind).unwrap();
            let files = [Arc::new(OwnedFd::from(file()))];
            queue.shape(BLOCK, 2).unwrap();
            queue.open(&files).unwrap();
            queue.push(&request(0, true, 0)).unwrap();
            assert_eq!(queue.push(&request(0, true, 0)), Err(Errno::BUSY), "{kind:?}");
            assert_eq!(queue.buffer(0).err(), Some(Errno::BUSY), "{kind:?}");
            assert_eq!((queue.close(), queue.open(&files)), (Err(Errno::BUSY), Err(Errno::BUSY)), "{kind:?}");
            assert_eq!(queue.shape(BLOCK, 1), Err(Errno::BUSY), "{kind:?}");
            assert_eq!(queue.push(&request(1, true, 1)), Err(Errno::INVAL), "{kind:?}: no such file");
            assert_eq!(queue.push(&request(2, true, 0)), Err(Errno::INVAL), "{kind:?}: no such slot");
            finish(&mut *queue, 1);
            assert!(queue.buffer(0).is_ok() && queue.close().is_ok(), "{kind:?}");
            assert_eq!(queue.wait(&mut Vec::new()), Ok(()), "{kind:?}: nothing to wait for");
        }
    }

    #[test]
    fn a_queue_that_is_dropped_with_requests_at_work_does_no_harm() {
        for kind in ALL {
            let mut queue = make(kind).unwrap();
            queue.shape(BLOCK, 2).unwrap();
            queue.open(&[Arc::new(OwnedFd::from(file()))]).unwrap();
            queue.push(&request(0, true, 0)).unwrap();
            queue.push(&request(1, false, 0)).unwrap();
            drop(queue);
            copies(&mut *make(kind).unwrap());
        }
    }
}
