//! What stands for entries of the destination that a dry run does not make.

use std::os::fd::OwnedFd;

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind, Time};
use haul_sys::rustix::event::{EventfdFlags, eventfd};

/// No filesystem has this number.
const NO_DEVICE: DeviceNumber = DeviceNumber { major: 0, minor: 0 };

/// The inode number of a planned entry that is renamed; those of others are 0 and 1.
const RENAMED: u64 = 2;

/// An entry that a copy would have made a moment ago. With `keeps_time` its time is not known, and the oldest.
pub(crate) fn inode(kind: Kind, keeps_time: bool) -> Inode {
    let is_directory = kind == Kind::Directory;
    let kind = if is_directory { Kind::Directory } else { Kind::Regular };
    let seconds = if keeps_time { i64::MIN } else { i64::MAX };
    let id = FileId::new(NO_DEVICE, is_directory.into());
    Inode { id, kind, modified: Time { seconds, nanoseconds: 0 }, ..Inode::just_made(NO_DEVICE) }
}

/// An entry that a move would have renamed a moment ago.
pub(crate) fn renamed() -> Inode {
    Inode { id: FileId::new(NO_DEVICE, RENAMED), ..inode(Kind::Regular, false) }
}

/// Whether this is an entry that is only planned.
pub(crate) fn is_planned(id: FileId) -> bool {
    id.device() == NO_DEVICE
}

/// In the place of a directory that is only planned: nothing can be found in it, and nothing can be made.
pub(crate) fn nowhere() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::Path;

    use super::*;
    use crate::walk::Spot;

    #[test]
    fn nothing_is_found_nor_made_nowhere() {
        let nowhere = nowhere().unwrap();
        let spot = Spot::new(nowhere.as_fd(), "name".as_ref(), Path::new("name"));
        assert_eq!(spot.inode().unwrap_err(), Errno::NOTDIR);
        assert_eq!(spot.make_dir(0o700).unwrap_err(), Errno::NOTDIR);
        assert_eq!(spot.make_link("text".as_ref()).unwrap_err(), Errno::NOTDIR);
    }

    #[test]
    fn planned_entries_are_distinguished_from_all_others() {
        assert!(is_planned(inode(Kind::Directory, false).id) && is_planned(inode(Kind::Fifo, true).id));
        assert!(!is_planned(Inode::of(nowhere().unwrap().as_fd()).unwrap().id));
    }
}
