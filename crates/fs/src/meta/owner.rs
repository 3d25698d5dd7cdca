//! Owner and group.

use haul_sys::Errno;
use haul_sys::inode::Kind;
use haul_sys::object::Object;
use haul_sys::rustix::process::getgroups;

use crate::error::{Error, What};
use crate::preserve::ModeRule;

use super::acl;
use super::caller::Caller;
use super::request::{Report, Request};

/// What became of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Result {
    /// It is as it should be.
    Kept,
    /// It is another one, which is no failure; but then the set-user-ID, set-group-ID and sticky bits must not be kept:
    /// they would give away rights of the wrong user.
    Refused,
    Failed,
}

/// Gives the destination the source's owner and group.
pub fn keep(request: &Request<'_>, report: Report<'_>) -> Result {
    let (source, dest) = (request.source.inode, request.dest.inode);
    if !differs(request) {
        return Result::Kept;
    }
    // Between the change of owner and the change of mode, the new owner's file would have the old file's permissions.
    let narrow = !request.created && dest.kind != Kind::SymbolicLink && request.preserve.mode == ModeRule::Keep;
    if narrow {
        let both = dest.permissions & source.permissions & 0o700;
        if let Err(errno) = acl::set_from_mode(request.dest.object, both) {
            if request.caller.privileged() || !matches!(errno, Errno::PERM | Errno::ACCESS) {
                report(Error::new(What::ClearingPermissions, request.dest.path).errno(errno));
            }
            return if request.preserve.required { Result::Failed } else { Result::Refused };
        }
    }
    let Err(errno) = change(request.dest.object, dest.kind, source.user, source.group) else { return Result::Kept };
    if is_tolerated(errno, request.caller) {
        return Result::Refused;
    }
    report(Error::new(What::PreservingOwnership, request.dest.path).errno(errno));
    if request.preserve.required { Result::Failed } else { Result::Refused }
}

/// Whether owner and group are as they are to be, or as near to that as the caller can bring them: others than root give
/// files only to groups of their own.
pub fn stands(request: &Request<'_>) -> bool {
    let (source, caller) = (request.source.inode, request.caller);
    let may_change = caller.privileged()
        || request.dest.inode.group != source.group
            && (source.group == caller.group
                || getgroups().is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == source.group)));
    !(differs(request) && may_change)
}

pub fn differs(request: &Request<'_>) -> bool {
    let (source, dest) = (request.source.inode, request.dest.inode);
    request.preserve.ownership && !request.links_to_source() && (source.user, source.group) != (dest.user, dest.group)
}

/// Changes both, else the group alone; the error is that of both.
fn change(object: Object<'_>, kind: Kind, user: u32, group: u32) -> std::result::Result<(), Errno> {
    let result = object.change_owner(Some(user), Some(group));
    if matches!(result, Err(Errno::PERM | Errno::INVAL)) && kind != Kind::SymbolicLink {
        // An unprivileged process may still pass a file to another of its groups. If not, the first error says it all.
        object.change_owner(None, Some(group)).ok();
    }
    result
}

/// An unprivileged process is not expected to give files away.
pub fn is_tolerated(errno: Errno, caller: Caller) -> bool {
    matches!(errno, Errno::PERM | Errno::INVAL) && !caller.privileged()
}
