//! What the caller of a smart copy wants.

use haul_io::options::CacheUse;

/// Bytes of a buffer unless the user says otherwise.
pub const BUFFER: usize = 128 << 10;

/// The largest buffer: with three of them the memory stays below 64 MiB.
pub const LARGEST_BUFFER: usize = 16 << 20;

/// Zeros are skipped, and free space is, in whole blocks of this many bytes at multiples of it.
pub(crate) const GRANULE: u64 = 4096;

/// What the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What is free or zero is not written, and reads as zeros. Otherwise zeros are written.
    pub sparse: bool,
    /// Whether free space is looked for.
    pub smart: Smart,
    /// The MD5 of what the destination holds.
    pub md5: bool,
    /// Bytes of a buffer: 1 to [`LARGEST_BUFFER`]; with direct I/O rounded up to what that needs.
    pub buffer_size: usize,
    /// Past the page cache on both sides, where the filesystems can, whatever is copied.
    pub direct: bool,
    /// Otherwise: whether the copy stays in the page cache. Where it does not, long runs go to the device directly.
    pub cache: CacheUse,
    /// Blocks of zeros are looked for in what is read.
    pub zero_scan: bool,
    /// Through queues, also where parallel workers would be faster: then the reader, the scanner and the writer each show how
    /// long they wait for the others.
    pub queued: bool,
    /// Both sides, or one of them to measure it.
    pub mode: Mode,
    /// An image that somebody writes to meanwhile is an error, [`What::SourceWritten`](haul_fs::error::What::SourceWritten).
    pub fail_if_written: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sparse: true,
            smart: Smart::Auto,
            md5: false,
            buffer_size: BUFFER,
            direct: false,
            cache: CacheUse::Auto,
            zero_scan: true,
            queued: false,
            mode: Mode::Copy,
            fail_if_written: false,
        }
    }
}

/// Whether free space is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smart {
    /// Every byte is read, holes too.
    Off,
    /// If nobody uses the image.
    Auto,
    /// In any case: the caller promises that the image is a snapshot that nobody writes to.
    Snapshot,
}

/// Both sides, or one of them to measure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A copy.
    Copy,
    /// Reads and scans as a copy does. The destination is neither opened nor made.
    ReadOnly,
    /// Reads nothing but the maps, and writes test data, without zeros, wherever a copy would read. The destination must
    /// be new, and is no copy.
    WriteOnly,
}
