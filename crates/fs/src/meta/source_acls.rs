//! The ACLs of the source, which are copied as the kernel's own bytes.

use haul_sys::Errno;
use haul_sys::inode::Kind;

use crate::preserve::Wish;

use super::acl::{ACCESS, DEFAULT, HEAD, is_unsupported};
use super::request::Request;
use super::xattr::{self, Names};

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
