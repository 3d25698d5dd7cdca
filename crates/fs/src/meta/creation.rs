//! The mode with which a file is made.

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::object::Object;

use crate::preserve::{ModeRule, Preserve, Wish};

use super::caller::Caller;
use super::new_entries::NewEntries;

const SET_USER_ID: u32 = 0o4000;
const OWNER: u32 = 0o700;
const GROUP_AND_OTHERS: u32 = 0o077;
const WRITE_OF_GROUP_AND_OTHERS: u32 = 0o022;

/// The permission bits to make a file with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creation {
    /// The mode argument of `open`, `mkdir` or `mknod`. The umask applies on top.
    pub mode: u32,
    /// Bits left out until the file has its owner and its contents.
    pub omitted: u32,
    /// Bits that the finished file must not have: write permission for the owner, without which an unprivileged process
    /// could not set extended attributes (`xattr_permission` in the kernel asks the mode, not how the file was opened).
    pub extra: u32,
}

/// With which mode to make a copy of this source, as a file of this kind, where new entries are of this sort.
///
/// A file that will change hands is made for its owner alone, and so is a regular one whose mode alone is kept: an ACL of the source,
/// whose mask is in the mode, or one that it inherits, says more than that. A directory is made without write permission for others,
/// who could place entries in it before it is ready. For a symbolic link the mode has no meaning.
pub fn creation_mode(
    kind: Kind,
    source: &Inode,
    entries: &NewEntries,
    preserve: &Preserve,
    caller: Caller,
) -> Creation {
    let changes_hands = entries.owner != Some((source.user, source.group));
    let mode_alone = preserve.mode == ModeRule::Keep && !preserve.ownership && kind == Kind::Regular;
    let omitted = source.permissions
        & match kind {
            // As long as it is being filled, nobody else has business in it.
            Kind::Directory if preserve.ownership => GROUP_AND_OTHERS,
            Kind::Directory => WRITE_OF_GROUP_AND_OTHERS,
            _ if preserve.ownership && changes_hands || mode_alone => GROUP_AND_OTHERS,
            _ => 0,
        };
    if kind != Kind::Regular {
        // With cp, which gives each new file its owner also where it has that one, chown(2) takes it; who may not give files
        // away keeps it with a file of somebody else.
        let same_owner = entries.owner.unwrap_or((caller.user, caller.group)) == (source.user, source.group);
        let chowned = preserve.ownership && kind != Kind::Directory && (caller.privileged() || same_owner);
        let dropped = if chowned && preserve.mode != ModeRule::Keep { SET_USER_ID } else { 0 };
        return Creation { mode: source.permissions & 0o7777 & !omitted & !dropped, omitted, extra: 0 };
    }
    let wanted = source.permissions & 0o777;
    let write = if preserve.xattr != Wish::No && !caller.privileged() { 0o200 } else { 0 };
    Creation { mode: wanted & !omitted | write, omitted, extra: write & !wanted }
}

/// Lets the owner into a directory that was just made with less than `rwx` for its owner, so that its entries can be
/// written. [`super::finish`] sets the mode right again.
///
/// # Errors
/// Whatever chmod(2) says; cp's words for it are `setting permissions for`.
pub fn open_up(directory: Object<'_>, made: &Inode) -> Result<(), Errno> {
    if made.permissions & OWNER == OWNER {
        return Ok(());
    }
    directory.set_mode(made.permissions | OWNER)
}

#[cfg(test)]
mod tests {
    use haul_sys::inode::DeviceNumber;

    use super::*;

    #[test]
    fn a_special_file_has_no_set_user_id_where_only_its_owner_is_kept() {
        let (user, group) = (1000, 1000);
        let source =
            Inode { permissions: 0o6711, user, group, ..Inode::just_made(DeviceNumber { major: 8, minor: 1 }) };
        let root = Caller { user: 0, group: 0, umask: 0o022, selinux: false };
        let owner = Preserve { ownership: true, ..Preserve::default() };
        let both = Preserve { mode: ModeRule::Keep, ..owner };
        let made = |kind, preserve: &Preserve, caller| {
            let creation = creation_mode(kind, &source, &NewEntries::UNKNOWN, preserve, caller);
            creation.mode | creation.omitted
        };
        assert_eq!(made(Kind::Fifo, &owner, root), 0o2711);
        assert_eq!([made(Kind::Fifo, &both, root), made(Kind::Fifo, &Preserve::default(), root)], [0o6711; 2]);
        assert_eq!(made(Kind::Directory, &owner, root), 0o6711);
        let users = [user, 1001].map(|user| Caller { user, group, ..root });
        assert_eq!(users.map(|caller| made(Kind::Fifo, &owner, caller)), [0o2711, 0o6711], "only its owner gives it");
    }
}
