//! What is known about a copy and its surroundings: plain data, gathered once, decided upon elsewhere.

/// Processors that this process may use at the same time: its affinity, and what a cgroup allows.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The filesystems that take what is written, or copied, in ways of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filesystem {
    /// ext4: quicker where the space was allocated. Or ext2 and ext3, which tell the same number and do not allocate.
    Ext4,
    /// XFS: in large pieces and cheaply.
    Xfs,
    /// btrfs, which keeps the tiniest files beside their inodes.
    Btrfs,
    /// Any other, or not known.
    Other,
}

/// What is known about time and place of a copy: asked for only where a file is large enough for it to matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surroundings {
    /// Bytes of the source that are in the page cache; `None` where the kernel does not tell.
    pub cached: Option<u64>,
    /// Bytes of memory that can be had without swapping, in the machine and in this process's control group.
    pub memory: Option<u64>,
    /// Bytes that this run has left in the page cache so far.
    pub left_in_cache: u64,
    /// Source and destination are on one device; `None` where that cannot be determined (btrfs, network, overlay).
    pub same_device: Option<bool>,
    /// One of the devices has moving heads; `None` where a device does not tell, or what it tells means nothing (virtio,
    /// loop).
    pub rotational: Option<bool>,
    /// Source and destination are on one filesystem.
    pub within_one: bool,
    /// Processors that this process may use.
    pub cores: usize,
    /// Files of this size class that this run is copying at the moment, this one included.
    pub at_once: usize,
}
