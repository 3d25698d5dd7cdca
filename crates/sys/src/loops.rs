//! What a loop device is made of.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};

/// `struct loop_info64` of linux/loop.h, of which only the beginning is looked at.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    node: u64,
    rest: [u64; 26],
}

/// LOOP_GET_STATUS64 of linux/loop.h: a number from before there was a system in them.
const LOOP_GET_STATUS64: Opcode = 0x4c05;

/// The file behind a loop device, whatever its name is by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backing {
    /// Major and minor number of its filesystem, as stat(2) has them.
    pub device: (u32, u32),
    /// Its inode number.
    pub inode: u64,
    /// Major and minor number of what it stands for, if it is a device itself; zeros otherwise.
    pub node: (u32, u32),
}

/// What an open loop device is made of.
///
/// # Errors
/// ENXIO if it is not in use, ENOTTY if it is no loop device.
pub fn backing(device: BorrowedFd<'_>) -> Result<Backing, Errno> {
    // SAFETY: the opcode is LOOP_GET_STATUS64's, which writes exactly this structure, of plain numbers, and reads no
    // memory of ours.
    let info = unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }?;
    let LoopInfo { device, inode, node, rest: _ } = info;
    let number = |number| (rustix::fs::major(number), rustix::fs::minor(number));
    Ok(Backing { device: number(device), inode, node: number(node) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_structure_is_as_large_as_the_kernel_writes_it() {
        assert_eq!(size_of::<LoopInfo>(), 232);
    }

    #[test]
    fn what_is_no_loop_device_says_so() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(backing(file.as_fd()), Err(Errno::NOTTY));
    }
}
