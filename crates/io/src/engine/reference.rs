//! The oracle: one block at a time through one small buffer, and nothing shared with the other engines. Of its bytes
//! it promises everything, of speed and space nothing.

use std::os::fd::AsFd;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::kernel::Kernel;

use super::caps::{Caps, Role};
use super::contract::{End, Engine, FailedOn, Failure, Job, Outcome, Zeros};
use super::tuning::{Tuning, USEFUL_JOB};
use crate::moved::Moved;

pub(super) const CAPS: Caps = Caps { role: Role::Oracle, streams: true, ..Caps::BUFFERED };

pub(super) fn make(kernel: Arc<dyn Kernel>, _: &Tuning) -> Box<dyn Engine> {
    Box::new(Reference::new(kernel))
}

struct Reference {
    kernel: Arc<dyn Kernel>,
}

impl Reference {
    fn new(kernel: Arc<dyn Kernel>) -> Reference {
        Reference { kernel }
    }

    fn copy(&self, job: &Job, moved: &mut Moved) -> Result<End, Failure> {
        let block = match job.zeros {
            Zeros::Write => 4096,
            Zeros::Skip(block) | Zeros::Punch(block) => u64::from(block.max(1)),
        };
        let mut buffer = vec![0; block as usize];
        loop {
            let done = moved.total();
            if done >= job.len {
                return Ok(End::Complete);
            }
            let at = job.offset + done;
            let want = (block - at % block).min(job.len - done) as usize;
            let mut have = 0;
            while have < want {
                match self.read(job, &mut buffer[have..want], at + have as u64)? {
                    0 => break,
                    count => have += count,
                }
            }
            if have == 0 {
                return Ok(End::SourceEnd);
            }
            let bytes = &buffer[..have];
            if job.dest.seekable && bytes.iter().all(|byte| *byte == 0) && self.leaves_hole(job, at, have as u64)? {
                moved.holes += have as u64;
            } else {
                self.write(job, bytes, at, moved)?;
            }
        }
    }

    fn read(&self, job: &Job, buffer: &mut [u8], at: u64) -> Result<usize, Failure> {
        loop {
            let count = if job.source.seekable {
                self.kernel.pread(job.source.as_fd(), buffer, at)
            } else {
                self.kernel.read(job.source.as_fd(), buffer)
            };
            match count {
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure { on: FailedOn::Read, errno }),
            }
        }
    }

    fn write(&self, job: &Job, bytes: &[u8], at: u64, moved: &mut Moved) -> Result<(), Failure> {
        let mut done = 0;
        while done < bytes.len() {
            let count = if job.dest.seekable {
                self.kernel.pwrite(job.dest.as_fd(), &bytes[done..], at + done as u64)
            } else {
                self.kernel.write(job.dest.as_fd(), &bytes[done..])
            };
            match count {
                Ok(0) => return Err(Failure { on: FailedOn::Write, errno: Errno::NOSPC }),
                Ok(count) => {
                    done += count;
                    moved.written += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure { on: FailedOn::Write, errno }),
            }
        }
        Ok(())
    }

    /// Whether the block of zeros need not be written.
    fn leaves_hole(&self, job: &Job, at: u64, len: u64) -> Result<bool, Failure> {
        match job.zeros {
            Zeros::Write => Ok(false),
            Zeros::Skip(_) => Ok(true),
            Zeros::Punch(_) => loop {
                match self.kernel.punch_hole(job.dest.as_fd(), at, len) {
                    Ok(()) => return Ok(true),
                    Err(Errno::INTR) => {}
                    // Zeros are written then.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM | Errno::NODEV) => {
                        return Ok(false);
                    }
                    Err(errno) => return Err(Failure { on: FailedOn::Hole, errno }),
                }
            },
        }
    }
}

impl Engine for Reference {
    fn caps(&self) -> Caps {
        Caps { max_job: USEFUL_JOB, ..CAPS }
    }

    fn run(&mut self, job: &Job) -> Outcome {
        let mut moved = Moved::default();
        let end = self.copy(job, &mut moved).unwrap_or_else(End::Failed);
        Outcome { moved, end }
    }
}
