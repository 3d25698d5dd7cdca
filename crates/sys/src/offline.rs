//! Whether the contents of a file are elsewhere (on tape, in a cloud) and come back only when somebody reads them, as the
//! filesystem says.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

use crate::object::Object;

/// `struct hsm_user_state` of Lustre.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct HsmState {
    states: u32,
    archive: u32,
    action_state: u32,
    action: u32,
    action_start: u64,
    action_length: u64,
}

/// LL_IOC_HSM_STATE_GET.
const GET_HSM_STATE: Opcode = opcode::read::<HsmState>(b'f', 211);
/// HS_RELEASED.
const RELEASED: u32 = 0x4;
/// FILE_ATTRIBUTE_OFFLINE, FILE_ATTRIBUTE_RECALL_ON_OPEN and FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS, as [MS-FSCC] 2.6 has them.
const NOT_HERE: u32 = 0x1000 | 0x4_0000 | 0x40_0000;

/// Whether a file on Lustre is released: an archive has its contents, and Lustre has none of them. Opening it to ask does not
/// bring them back; reading it does.
///
/// # Errors
/// ENOTTY where the filesystem is not Lustre; EBADF of a descriptor opened with `O_PATH`.
pub fn is_released(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: the opcode is that of LL_IOC_HSM_STATE_GET, which writes one hsm_user_state and keeps no pointer.
    let found = unsafe { ioctl(file, Getter::<GET_HSM_STATE, HsmState>::new()) }?;
    Ok(found.states & RELEASED != 0)
}

/// Whether a file on an SMB server has an attribute that says that its contents are not there. The descriptor may be one that was
/// opened with `O_PATH`, which the server does not hear of.
///
/// # Errors
/// As getxattr(2): EOPNOTSUPP and ENODATA where the filesystem is not the kernel's SMB client.
pub fn has_offline_attribute(file: Object<'_>) -> Result<bool, Errno> {
    let mut value = Vec::with_capacity(size_of::<u32>());
    file.get_xattr(c"user.cifs.dosattrib", &mut value)?;
    Ok(value.first_chunk().is_some_and(|bits| u32::from_ne_bytes(*bits) & NOT_HERE != 0))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_structure_is_as_long_as_that_of_lustre() {
        assert_eq!(size_of::<HsmState>(), 32);
    }

    #[test]
    fn other_filesystems_know_of_neither() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(is_released(file.as_fd()), Err(Errno::NOTTY));
        assert!(has_offline_attribute(Object { fd: file.as_fd(), path_only: false }).is_err());
    }
}
