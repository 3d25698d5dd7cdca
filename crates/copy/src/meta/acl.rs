//! Access control lists, copied as the kernel's own bytes.

use std::ffi::CStr;

use haul_sys::Errno;
use haul_sys::object::Object;

use crate::facts::Kind;
use crate::plan::Wish;

use super::Request;
use super::xattr::{self, Names};

/// The attribute that holds an inode's own POSIX ACL.
pub const ACCESS: &CStr = c"system.posix_acl_access";
/// The attribute that holds the ACL which a directory hands on to new entries.
pub const DEFAULT: &CStr = c"system.posix_acl_default";

/// Head of the attribute's value: the version, in the machine's byte order where the kernel says little-endian.
const HEAD: usize = 4;
/// Tag, permissions, ID.
const ENTRY: usize = 8;

/// The filesystem has no ACLs, or says so in one of the ways that are known.
pub fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BUSY)
}

/// The ACLs of a file.
#[derive(Debug, Default)]
pub struct Acls {
    /// Its own; `None` if it has no more than its mode.
    pub access: Option<Vec<u8>>,
    /// What a directory hands on.
    pub default: Option<Vec<u8>>,
    /// The filesystem has no POSIX ACLs at all.
    pub unsupported: bool,
}

/// Reads the ACLs of the source.
///
/// # Errors
/// Whatever getxattr(2) says, except that there is none.
pub fn read(request: &Request<'_>, names: &Names) -> Result<Acls, Errno> {
    let (object, kind) = (request.source.object, request.source.inode.kind);
    let (has_access, has_default) = listed(request, names);
    let mut acls = Acls::default();
    let mut value = Vec::new();
    match if has_access { object.get_xattr(ACCESS, &mut value) } else { Err(Errno::NODATA) } {
        Ok(()) => acls.access = Some(value),
        Err(Errno::NODATA) => {}
        // Without /proc the attributes of a device node cannot be reached. Such nodes hardly ever have an ACL, and
        // a copy of /dev in a bare root must not fail for it.
        Err(Errno::NOENT | Errno::NOTDIR) if object.path_only => acls.unsupported = true,
        Err(errno) if is_unsupported(errno) => acls.unsupported = true,
        Err(errno) => return Err(errno),
    }
    if kind == Kind::Directory && has_default && !acls.unsupported {
        let mut value = Vec::new();
        match object.get_xattr(DEFAULT, &mut value) {
            Ok(()) if value.len() > HEAD => acls.default = Some(value),
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) if is_unsupported(errno) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(acls)
}

/// Which of the two ACLs the source may have, going by the names of its attributes where these are known or one list
/// saves two questions.
fn listed(request: &Request<'_>, names: &Names) -> (bool, bool) {
    let source = request.source;
    let cheap = request.preserve.xattr != Wish::No || source.inode.kind == Kind::Directory;
    if !cheap || !request.memory.keeps_to_rules(source.object, source.inode.id.device()) {
        return (true, true);
    }
    let Ok(mut names) = names.of(source.object) else { return (true, true) };
    // Whether ACLs are supported at all is then of interest.
    if names.clone().any(|name| xattr::holds_permissions(request, name)) {
        return (true, true);
    }
    (names.clone().any(|name| name == ACCESS), names.any(|name| name == DEFAULT))
}

/// Says more than nine permission bits can: it has more than the entries for owner, group and others.
pub fn is_extended(acl: &[u8]) -> bool {
    acl.len() > HEAD + 3 * ENTRY
}

/// The ACL that says the same as nine permission bits.
pub fn from_mode(mode: u32) -> Vec<u8> {
    const VERSION: u32 = 2;
    const OWNER: u16 = 0x01;
    const GROUP: u16 = 0x04;
    const OTHERS: u16 = 0x20;
    const NO_ID: u32 = u32::MAX;
    let mut acl = Vec::with_capacity(HEAD + 3 * ENTRY);
    acl.extend(VERSION.to_le_bytes());
    for (tag, shift) in [(OWNER, 6), (GROUP, 3), (OTHERS, 0)] {
        let bits = (mode >> shift & 7) as u16;
        acl.extend(tag.to_le_bytes());
        acl.extend(bits.to_le_bytes());
        acl.extend(NO_ID.to_le_bytes());
    }
    acl
}

/// Sets the permission bits and takes away what an ACL says beyond them, in one call where there are ACLs.
///
/// Setting an ACL leaves the set-user-ID, set-group-ID and sticky bits as they are; they are set if the mode has one.
///
/// # Errors
/// Whatever chmod(2) or setxattr(2) says.
pub fn set_from_mode(object: Object<'_>, mode: u32) -> Result<(), Errno> {
    let special = mode & 0o7000 != 0;
    if special {
        object.set_mode(mode)?;
    }
    match set_access(object, &from_mode(mode)) {
        Err(errno) if is_unsupported(errno) && !special => object.set_mode(mode),
        Err(errno) if is_unsupported(errno) => Ok(()),
        result => result,
    }
}

/// Sets the ACL of an inode.
///
/// # Errors
/// Whatever setxattr(2) says; EOPNOTSUPP also where there is no way to the inode.
pub fn set_access(object: Object<'_>, acl: &[u8]) -> Result<(), Errno> {
    match object.set_xattr(ACCESS, acl) {
        // No /proc, see `read`.
        Err(Errno::NOENT | Errno::NOTDIR) if object.path_only => Err(Errno::OPNOTSUPP),
        result => result,
    }
}

/// Sets or takes away what a directory hands on.
///
/// # Errors
/// Whatever setxattr(2) or removexattr(2) says.
pub fn set_default(object: Object<'_>, acl: Option<&[u8]>) -> Result<(), Errno> {
    let Some(acl) = acl else {
        return match object.remove_xattr(DEFAULT) {
            Err(Errno::NODATA) => Ok(()),
            result => result,
        };
    };
    object.set_xattr(DEFAULT, acl)
}
