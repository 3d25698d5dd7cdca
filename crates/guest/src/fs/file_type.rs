//! The types of files in the modes of inodes, as all filesystems of Unix have them.

pub(super) const FIFO: u16 = 0x1000;
pub(super) const CHARACTERS: u16 = 0x2000;
pub(super) const DIRECTORY: u16 = 0x4000;
pub(super) const BLOCKS: u16 = 0x6000;
pub(super) const FILE: u16 = 0x8000;
pub(super) const SYMLINK: u16 = 0xa000;
pub(super) const SOCKET: u16 = 0xc000;
