//! Permission bits and ACLs.

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};

use crate::error::{Error, What};
use crate::preserve::{ModeRule, Preserve};

use super::acl;
use super::creation::{Creation, creation_mode};
use super::request::{Report, Request};
use super::source_acls::{self, Acls};
use super::xattr::{self, Names};

/// Set-user-ID, set-group-ID and sticky bit.
pub(super) const SPECIAL: u32 = 0o7000;
const STICKY: u32 = 0o1000;

/// Gives the destination the permission bits that it shall have in the end. False if that failed and matters.
///
/// Without `special_bits` the destination could not get the source's owner, so it does not get these bits either.
/// `current` are the bits that it has now, if that is known.
pub fn keep(
    request: &Request<'_>,
    special_bits: bool,
    current: Option<u32>,
    names: &Names,
    report: Report<'_>,
) -> bool {
    let dest = request.dest;
    match request.preserve.mode {
        ModeRule::Keep => {
            let dropped = if special_bits { 0 } else { SPECIAL };
            copy(request, request.source.inode.permissions & !dropped, current, names, report)
                || !request.preserve.required
        }
        // Also an ACL inherited from the parent directory goes: new files are as if it had none.
        ModeRule::Discard if request.created => {
            let all = if matches!(dest.inode.kind, Kind::Directory | Kind::Socket) { 0o777 } else { 0o666 };
            let Err(errno) = set_plain(request, all & !request.caller.umask, current) else { return true };
            report(Error::new(What::SettingAcl, dest.path).errno(errno));
            false
        }
        ModeRule::Default | ModeRule::Discard => {
            let Err(errno) = complete(request) else { return true };
            report(Error::new(What::PreservingPermissions, dest.path).errno(errno));
            !request.preserve.required
        }
    }
}

/// The permission bits that an old file has while new contents are written to it, where it gets its source's mode in the
/// end: others may do no more than before, nor more than they may with the finished file; and the set-user-ID and
/// set-group-ID bits of one owner do not stand on contents of another. Where one of the two has an ACL, the bits of its group are the
/// mask of that, and say nothing of whom it lets in: then only the owner is. `None` if it keeps its mode.
pub fn while_written(old: &Inode, source: &Inode, preserve: &Preserve, has_acl: impl FnOnce() -> bool) -> Option<u32> {
    if preserve.mode != ModeRule::Keep {
        return None;
    }
    let (was, will) = (old.permissions & 0o7777, source.permissions & 0o7777);
    if preserve.ownership && (old.user, old.group) != (source.user, source.group) {
        return Some(was & (0o700 | STICKY));
    }
    let others = if has_acl() { 0 } else { was & will & 0o077 };
    Some(was & 0o700 | was & will & SPECIAL | others)
}

/// Adds the owner's write permission that extended attributes need, where the umask took it from the mode at creation.
/// Returns the permission bits of a new destination, if they are known.
pub fn let_attributes_in(request: &Request<'_>) -> Option<u32> {
    let dest = request.dest;
    let made = dest.inode.permissions;
    match dest.inode.kind {
        _ if !request.created => return None,
        Kind::Regular => {}
        // It may have been opened up since.
        Kind::Directory => return (made & 0o700 == 0o700).then_some(made),
        _ => return Some(made),
    }
    if creation(request).extra & !made == 0 {
        return Some(made);
    }
    // If this fails, so will setting the attributes, and that is reported.
    dest.object.set_mode(made | creation(request).extra).ok();
    None
}

/// How the destination was made.
fn creation(request: &Request<'_>) -> Creation {
    creation_mode(request.dest.inode.kind, request.source.inode, &request.entries, request.preserve, request.caller)
}

/// Sets exactly this mode and the source's ACLs. False if that failed.
///
/// As with cp, special bits of an existing directory (or the set-group-ID bit that a new one has inherited) stay if the
/// source has none of the three and the filesystem has ACLs. Those of an overwritten file go: new contents under an old
/// set-user-ID bit would be a program with rights that its source has not.
pub fn copy(request: &Request<'_>, mode: u32, current: Option<u32>, names: &Names, report: Report<'_>) -> bool {
    let (source, dest) = (request.source, request.dest);
    let acls = match source_acls::read(request, names) {
        Ok(acls) => acls,
        Err(errno) => {
            report(Error::new(What::ReadingAcl, source.path).errno(errno));
            return false;
        }
    };
    let result = match &acls.access {
        Some(access) if acl::is_extended(access) => set_extended(request, mode, access),
        _ => set_plain(request, mode, current),
    };
    if let Err(errno) = result.and_then(|()| set_default(request, &acls)) {
        report(Error::new(What::PreservingAcl, dest.path).errno(errno));
        return false;
    }
    // A filesystem without POSIX ACLs may have those of NFSv4.
    !acls.unsupported || xattr::keep_permissions(request, names, report)
}

/// The destination is new and cannot have inherited an ACL.
fn has_no_acl(request: &Request<'_>) -> bool {
    request.created && request.entries.inherit_acl == Some(false)
}

/// Sets the permission bits where they are not right already, and takes away an ACL where there may be one.
fn set_plain(request: &Request<'_>, mode: u32, current: Option<u32>) -> Result<(), Errno> {
    let dest = request.dest;
    let inherited = dest.inode.permissions & SPECIAL;
    // The set-group-ID bit of a new directory stays, as it does where an ACL is set.
    let stays = dest.inode.kind == Kind::Directory && mode & SPECIAL == 0;
    take_too_much(request, mode)?;
    if !has_no_acl(request) || inherited != 0 && mode & SPECIAL == 0 && !stays {
        return acl::set_from_mode(dest.object, mode);
    }
    // The kernel may want to take a special bit away when the mode is set.
    if current == Some(mode) && inherited == 0 {
        return Ok(());
    }
    dest.object.set_mode(if stays { mode | inherited } else { mode })
}

/// Setting an ACL leaves the special bits as they are, and one has to go. Until the ACL is set nobody but the owner is let in: the
/// bits of the group are its mask. (A node that was made with them keeps them if its owner could not be kept, as with cp.)
fn take_too_much(request: &Request<'_>, mode: u32) -> Result<(), Errno> {
    let dest = request.dest;
    let has_too_much =
        !request.created && dest.inode.kind != Kind::Directory && dest.inode.permissions & SPECIAL & !mode != 0;
    if has_too_much { dest.object.set_mode(mode & (SPECIAL | 0o700)) } else { Ok(()) }
}

fn set_extended(request: &Request<'_>, mode: u32, access: &[u8]) -> Result<(), Errno> {
    let dest = request.dest.object;
    take_too_much(request, mode)?;
    let result = acl::set_access(dest, access);
    if result.is_err() {
        // The mode is better than nothing; what failed is reported with the first error.
        dest.set_mode(mode).ok();
    } else if mode & SPECIAL != 0 {
        // After the ACL, which says who is let in: the bits of the group are its mask.
        return dest.set_mode(mode);
    }
    result
}

/// What a directory hands on.
fn set_default(request: &Request<'_>, acls: &Acls) -> Result<(), Errno> {
    if request.dest.inode.kind != Kind::Directory || acls.default.is_none() && has_no_acl(request) {
        return Ok(());
    }
    let wanted = acls.default.is_some();
    match acl::set_default(request.dest.object, acls.default.as_deref()) {
        // The destination has no ACLs; that the source's own one did not fit either is known already. cp says nothing.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) if !(wanted && request.moves) => Ok(()),
        // There was none to be taken away. (Of one that is set, EINVAL means an ID that this user namespace does not have.)
        Err(errno) if !wanted && acl::is_unsupported(errno) => Ok(()),
        result => result,
    }
}

/// Gives back the bits that were left out when the file was made, less the umask, and takes away those that were added.
fn complete(request: &Request<'_>) -> Result<(), Errno> {
    if !request.created {
        return Ok(());
    }
    let dest = request.dest;
    let (source, umask) = (request.source.inode.permissions, request.caller.umask);
    let creation = creation(request);
    let omitted = creation.omitted & !umask;
    if dest.inode.kind == Kind::Regular {
        if omitted | creation.extra == 0 {
            return Ok(());
        }
        return dest.object.set_mode(source & 0o777 & !umask);
    }
    // A change of owner may have cleared bits of anything but a directory.
    let made = match dest.inode.kind {
        Kind::Directory => dest.inode.permissions,
        _ if omitted == 0 => return Ok(()),
        _ => Inode::of(dest.object.fd)?.permissions,
    };
    let opened_up = dest.inode.kind == Kind::Directory && made & 0o700 != 0o700;
    if opened_up || omitted & !made != 0 { dest.object.set_mode(made | omitted) } else { Ok(()) }
}
