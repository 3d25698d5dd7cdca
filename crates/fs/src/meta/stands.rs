//! Whether an entry has the attributes already that it is to get.

use std::ffi::{CStr, OsStr};

use haul_sys::inode::Kind;
use haul_sys::object::Object;
use haul_sys::{Errno, has_xattrs};

use crate::preserve::{ContextRule, ModeRule, Wish};

use super::acl::{ACCESS, DEFAULT, is_unsupported};
use super::mode::SPECIAL;
use super::request::Request;
use super::rules::Action;
use super::xattr::{self, Names, is_acl_name};
use super::{flags, owner};

/// Whether [`finish`](super::finish) would change nothing of a destination that it did not make, as far as the filesystem can
/// keep the attributes and the caller may set them. The time of the last access does not count: looking changes it.
///
/// What cannot be looked at counts as different: setting it will say why.
pub fn stands(request: &Request<'_>) -> bool {
    inode_stands(request) && attributes_stand(request) && flags::stand(request)
}

/// Whether that is certain of two entries that are not open: the objects of the request are the directories that they are in, on
/// the same filesystems, and these are their names. A file without extended attributes is recognized by one call.
pub fn stands_unopened(request: &Request<'_>, names: [&OsStr; 2]) -> bool {
    let sides = [request.source, request.dest];
    let is_bare = || {
        let mut sides = sides.iter().zip(names);
        sides.all(|(side, name)| {
            request.memory.keeps_to_rules(side.object, side.inode.id.device())
                && has_xattrs(side.object.fd, name) == Ok(false)
        })
    };
    !request.preserve.flags
        && !request.preserve.project
        && inode_stands(request)
        && (!wants_attributes(request) || is_bare())
}

/// What statx(2) tells.
fn inode_stands(request: &Request<'_>) -> bool {
    let (source, dest) = (request.source.inode, request.dest.inode);
    let times = !request.preserve.timestamps || dest.is_modified_as(source);
    times && owner::stands(request) && mode_stands(request)
}

fn wants_attributes(request: &Request<'_>) -> bool {
    let preserve = request.preserve;
    keeps_mode(request) || preserve.xattr != Wish::No || (preserve.context != Wish::No && request.caller.selinux)
}

fn keeps_mode(request: &Request<'_>) -> bool {
    request.preserve.mode == ModeRule::Keep && request.dest.inode.kind != Kind::SymbolicLink
}

fn mode_stands(request: &Request<'_>) -> bool {
    let (source, dest) = (request.source.inode, request.dest.inode);
    if request.preserve.mode != ModeRule::Keep || dest.kind == Kind::SymbolicLink {
        return true;
    }
    // As `mode::copy` leaves them: without its owner an entry has no special bits, and a directory may keep what it had.
    let wanted = if owner::differs(request) { source.permissions & !SPECIAL } else { source.permissions };
    let may_keep = dest.kind == Kind::Directory && wanted & SPECIAL == 0;
    wanted == if may_keep { dest.permissions & !SPECIAL } else { dest.permissions }
}

/// Whether it has the mode and the ACLs that it is to get.
pub fn permissions_stand(request: &Request<'_>, names: &Names) -> bool {
    mode_stands(request) && acls_stand(request, names)
}

/// ACLs, extended attributes and the SELinux context. What only the destination has stays, but an ACL, and what is to go.
fn attributes_stand(request: &Request<'_>) -> bool {
    let (preserve, keeps_mode) = (request.preserve, keeps_mode(request));
    if !wants_attributes(request) {
        return true;
    }
    let names = Names::default();
    // What cannot be listed is reported when it is to be set.
    let has_surplus = || match xattr::surplus(request, &names, &Names::default()) {
        Ok(mut names) => names.next().is_some(),
        Err(errno) => !has_none(errno),
    };
    if keeps_mode && !acls_stand(request, &names) || request.exact && has_surplus() {
        return false;
    }
    let (source, dest) = (request.source.object, request.dest.object);
    let Ok(names) = names.of(source) else { return names.of(source).is_err_and(has_none) };
    names.filter(|name| is_kept(request, keeps_mode, name)).all(|name| match value(source, name) {
        Ok(None) => true,
        Ok(wanted) => match value(dest, name) {
            // Nothing can be done about it, and that matters only where it must be said.
            Err(errno) if has_none(errno) => preserve.xattr != Wish::Require,
            found => found == Ok(wanted),
        },
        Err(_) => false,
    })
}

fn is_kept(request: &Request<'_>, keeps_mode: bool, name: &CStr) -> bool {
    let preserve = request.preserve;
    let apart = preserve.context != Wish::No || *request.context != ContextRule::Default;
    if apart && name == c"security.selinux" {
        return preserve.context != Wish::No && request.caller.selinux;
    }
    !is_acl_name(name)
        && match request.rules.action(name) {
            Action::Copy => preserve.xattr != Wish::No,
            Action::Permissions => keeps_mode,
            Action::Skip => false,
        }
}

fn acls_stand(request: &Request<'_>, names: &Names) -> bool {
    let (source, dest) = (request.source, request.dest);
    let default = dest.inode.kind == Kind::Directory;
    let sides = [source, dest];
    if sides.iter().all(|side| request.memory.keeps_to_rules(side.object, side.inode.id.device())) {
        let has_none = |names: &Names, object| names.of(object).is_ok_and(|mut names| !names.any(is_acl_name));
        if has_none(names, source.object) && has_none(&Names::default(), dest.object) {
            return true;
        }
    }
    let same = |name| {
        let [one, other] = sides.map(|side| value(side.object, name));
        match (one, other) {
            (Err(one), Err(other)) => is_unsupported(one) && is_unsupported(other),
            // What it says beyond the mode cannot be kept there, which is reported once.
            (Ok(None), Err(errno)) | (Err(errno), Ok(None)) => is_unsupported(errno),
            (one, other) => one == other,
        }
    };
    same(ACCESS) && (!default || same(DEFAULT))
}

/// The value of an attribute, if there is one.
fn value(object: Object<'_>, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = Vec::new();
    match object.get_xattr(name, &mut value) {
        Ok(()) => Ok(Some(value)),
        Err(Errno::NODATA) => Ok(None),
        // Without /proc there is no way to the attributes of a node.
        Err(Errno::NOENT | Errno::NOTDIR) if object.path_only => Err(Errno::OPNOTSUPP),
        Err(errno) => Err(errno),
    }
}

/// The filesystem has no extended attributes.
fn has_none(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT | Errno::NOTDIR)
}
