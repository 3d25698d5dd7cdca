//! How the kernel is to use the filesystem.

/// How the kernel is to use the filesystem.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Reads and writes come as they are made, past the page cache, and short counts reach who made them. Without it the
    /// kernel takes a short read for the end of the file.
    pub direct_io: bool,
    /// Writes stay in the page cache, and come when the file is synced or closed.
    pub write_back: bool,
}
