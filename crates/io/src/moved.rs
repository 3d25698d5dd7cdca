//! Bytes that were moved, by the way they went, and why an engine would not move them: plain data that engines
//! produce, and that the counters and the events carry.

use std::ops::AddAssign;

use haul_sys::Errno;

/// Why an engine does not take a job, or stops within one. Not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel or the filesystem does not support it; the errno tells how it said so.
    Unsupported(Errno),
    /// Nothing was moved although the source has more: known of copy_file_range on virtual filesystems (Linux 5.3 to 5.18).
    NoProgress,
    /// The kernel waits for an answer that does not come: known of COPY of NFS 4.2, whose server says only once that it is done.
    NoAnswer,
    /// Offset or length do not suit it.
    Misaligned,
    /// One of the sides has no offsets.
    NotSeekable,
    /// The bytes must be seen (zero detection, hashing), and it does not see them.
    BlindToBytes,
    /// O_DIRECT is not available on either side.
    NoDirectIo,
}

/// Bytes by the way they went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Extents shared with the source.
    pub cloned: u64,
    /// Copied inside the kernel.
    pub offloaded: u64,
    /// Read into and written from memory of this process.
    pub written: u64,
    /// Holes made (or left) instead of zeros.
    pub holes: u64,
}

impl Moved {
    /// Bytes that the destination gained, holes included.
    pub fn total(&self) -> u64 {
        self.cloned + self.offloaded + self.written + self.holes
    }
}

impl AddAssign for Moved {
    fn add_assign(&mut self, other: Moved) {
        self.cloned += other.cloned;
        self.offloaded += other.offloaded;
        self.written += other.written;
        self.holes += other.holes;
    }
}
