//! Access control lists as the kernel's own bytes.

use std::ffi::CStr;

use haul_sys::Errno;
use haul_sys::object::Object;

/// The attribute that holds an inode's own POSIX ACL.
pub const ACCESS: &CStr = c"system.posix_acl_access";
/// The attribute that holds the ACL which a directory hands on to new entries.
pub const DEFAULT: &CStr = c"system.posix_acl_default";

/// Head of the attribute's value: the version, in the machine's byte order where the kernel says little-endian.
pub(super) const HEAD: usize = 4;
/// Tag, permissions, ID.
const ENTRY: usize = 8;

/// The filesystem has no ACLs, or says so in one of the ways that are known.
pub fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BUSY)
}

/// Whether the inode has an ACL of its own that says more than its mode.
pub fn is_there(object: Object<'_>) -> bool {
    object.get_xattr(ACCESS, &mut Vec::new()).is_ok()
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
/// Setting an ACL leaves the set-user-ID, set-group-ID and sticky bits as they are; they are set if the mode has one. The ACL comes
/// first: whom only the old one lets in must not meet a program with the rights of its owner.
pub fn set_from_mode(object: Object<'_>, mode: u32) -> Result<(), Errno> {
    let special = mode & 0o7000 != 0;
    match set_access(object, &from_mode(mode)) {
        Err(errno) if is_unsupported(errno) => object.set_mode(mode),
        Ok(()) if special => object.set_mode(mode),
        result => result,
    }
}

/// Sets the ACL of an inode.
///
/// # Errors
/// Whatever setxattr(2) says; EOPNOTSUPP also where there is no way to the inode.
pub fn set_access(object: Object<'_>, acl: &[u8]) -> Result<(), Errno> {
    match object.set_xattr(ACCESS, acl) {
        // No /proc, see `source_acls::read`.
        Err(Errno::NOENT | Errno::NOTDIR) if object.path_only => Err(Errno::OPNOTSUPP),
        result => result,
    }
}

/// Sets or takes away what a directory hands on.
pub fn set_default(object: Object<'_>, acl: Option<&[u8]>) -> Result<(), Errno> {
    let Some(acl) = acl else {
        return match object.remove_xattr(DEFAULT) {
            Err(Errno::NODATA) => Ok(()),
            result => result,
        };
    };
    object.set_xattr(DEFAULT, acl)
}
