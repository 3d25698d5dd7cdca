//! The mode of what was there before, while it gets its extended attributes.

use haul_sys::inode::{Inode, Kind};

use crate::error::{Error, What};

use super::request::{Report, Request};
use super::rules::Action;
use super::xattr::{CAPABILITY, Names};
use super::{acl, mode, owner, stands, xattr};

const OWNER_WRITES: u32 = 0o200;
const SET_GROUP_ID: u32 = 0o2000;

/// Narrows the mode of a file that is to have another one, if it gets capabilities: only who may run the finished file is to
/// run it with them.
pub fn narrow_for_capability(request: &Request<'_>, names: &Names) {
    let (source, dest) = (request.source, request.dest);
    // A change of owner has narrowed it.
    if request.created || dest.inode.kind != Kind::Regular || owner::differs(request) {
        return;
    }
    let is_copied = request.rules.action(CAPABILITY) == Action::Copy;
    if !is_copied || !names.of(source.object).is_ok_and(|mut names| names.any(|name| name == CAPABILITY)) {
        return;
    }
    let has_acl = || [source, dest].iter().any(|side| acl::is_there(side.object));
    if let Some(narrow) = mode::while_written(dest.inode, source.inode, request.preserve, has_acl)
        && !stands::permissions_stand(request, names)
    {
        // Who may not do that may set neither, which is reported then.
        dest.object.set_mode(narrow).ok();
    }
}

/// Lets an unprivileged owner write to what is read-only, if there are attributes of users to be set or removed: for these the
/// kernel asks the mode. Returns the mode that is to be given back.
pub fn let_owner_write(request: &Request<'_>, names: &Names) -> Option<u32> {
    let (dest, caller) = (request.dest, request.caller);
    let is_ours = !caller.privileged() && dest.inode.user == caller.user;
    if request.created
        || !request.despite_mode
        || !is_ours
        || !matches!(dest.inode.kind, Kind::Regular | Kind::Directory)
    {
        return None;
    }
    let now = Inode::of(dest.object.fd).ok()?.permissions;
    // Whoever is not in its group loses the set-group-ID bit by each change of the mode.
    if now & (OWNER_WRITES | SET_GROUP_ID) != 0 {
        return None;
    }
    let is_set = names.of(request.source.object).is_ok_and(|mut names| {
        names.any(|name| name.to_bytes().starts_with(b"user.") && request.rules.action(name) == Action::Copy)
    });
    let of_dest = Names::default();
    let is_removed =
        || request.exact && xattr::surplus(request, names, &of_dest).is_ok_and(|mut names| names.next().is_some());
    // If this fails, so will setting the attributes, and that is reported.
    ((is_set || is_removed()) && dest.object.set_mode(now | OWNER_WRITES).is_ok()).then_some(now)
}

/// Gives back the mode. False if that failed.
pub fn give_back(request: &Request<'_>, mode: u32, report: Report<'_>) -> bool {
    let Err(errno) = request.dest.object.set_mode(mode) else { return true };
    report(Error::new(What::PreservingPermissions, request.dest.path).errno(errno));
    false
}
