//! The directories that `--parents` makes on the way to a file.

use crate::error::{Error, What};
use crate::preserve::{ModeRule, Preserve};

use super::creation::Creation;
use super::owner::is_tolerated;
use super::request::{Report, Request};
use super::times::times_of;
use super::xattr::Names;
use super::{acl, mode};

/// With which mode to make such a directory, from the source directory's permission bits.
pub fn parent_creation_mode(source_permissions: u32, preserve: &Preserve) -> Creation {
    let omitted = source_permissions
        & match preserve.mode {
            _ if preserve.ownership => 0o077,
            ModeRule::Keep => 0o022,
            ModeRule::Default | ModeRule::Discard => 0,
        };
    let wanted = if preserve.mode == ModeRule::Discard { 0o777 } else { source_permissions & 0o7777 };
    Creation { mode: wanted & !omitted, omitted, extra: 0 }
}

/// Gives such a directory the metadata that cp gives it: times, owner, mode, in words of its own. False if it failed.
///
/// As cp does it: if the innermost directory was there, none of them is touched; else all are, also those found. Call
/// it after everything was copied, the innermost first.
pub fn finish_parent(request: &Request<'_>, report: Report<'_>) -> bool {
    let (source, dest) = (request.source, request.dest);
    if request.preserve.timestamps
        && let Err(errno) = dest.object.set_times(&times_of(source.inode))
    {
        report(Error::new(What::ParentTimes, dest.path).errno(errno));
        return false;
    }
    let (user, group) = (source.inode.user, source.inode.group);
    let changes_hands = request.preserve.ownership && (user, group) != (dest.inode.user, dest.inode.group);
    // As with any other directory, the new owner does not get the old mode.
    if changes_hands
        && !request.created
        && request.caller.privileged()
        && request.preserve.mode == ModeRule::Keep
        && let Err(errno) = acl::set_from_mode(dest.object, dest.inode.permissions & source.inode.permissions & 0o700)
    {
        report(Error::new(What::ClearingPermissions, dest.path).errno(errno));
        return false;
    }
    if changes_hands && let Err(errno) = dest.object.change_owner(Some(user), Some(group)) {
        if !is_tolerated(errno, request.caller) {
            report(Error::new(What::PreservingOwnership, dest.path).errno(errno));
            return false;
        }
        // The first error says it all.
        dest.object.change_owner(None, Some(group)).ok();
    }
    if request.preserve.mode == ModeRule::Keep {
        return mode::copy(request, source.inode.permissions, None, &Names::default(), report);
    }
    let made = dest.inode.permissions;
    let omitted = parent_creation_mode(source.inode.permissions, request.preserve).omitted & !request.caller.umask;
    if request.created
        && (made & 0o700 != 0o700 || omitted & !made != 0)
        && let Err(errno) = dest.object.set_mode(made | omitted)
    {
        report(Error::new(What::ParentPermissions, dest.path).errno(errno));
        return false;
    }
    true
}
