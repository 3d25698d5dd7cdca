//! Extended attributes of all namespaces.

use std::cell::OnceCell;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use haul_sys::Errno;
use haul_sys::object::Object;

use crate::error::{Error, What};
use crate::preserve::{ContextRule, Wish};

use super::acl;
use super::request::{Report, Request};
use super::rules::Action;

/// The attribute that holds the capabilities of a program.
pub const CAPABILITY: &CStr = c"security.capability";

/// The names of the source's attributes, asked for at most once for each file.
#[derive(Debug, Default)]
pub struct Names(OnceCell<Result<Vec<u8>, Errno>>);

impl Names {
    pub fn of(&self, source: Object<'_>) -> Result<impl Iterator<Item = &CStr> + Clone, Errno> {
        let listed = self.0.get_or_init(|| {
            let mut names = Vec::new();
            source.list_xattrs(&mut names).map(|()| names)
        });
        match listed {
            Ok(names) => {
                Ok(names.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok()))
            }
            Err(errno) => Err(*errno),
        }
    }
}

/// Copies all extended attributes but those that the rules leave out, ACLs and, where it is kept for itself, the SELinux
/// context. Attributes that the destination has and the source has not are left alone, but for those of [`surplus`]. False if one
/// could not be copied, or removed.
pub fn keep(request: &Request<'_>, names: &Names, report: Report<'_>) -> bool {
    let apart = request.preserve.context != Wish::No || *request.context != ContextRule::Default;
    let removed = remove_surplus(request, names, report);
    let copied = copy(request, names, report, |name| {
        request.rules.action(name) == Action::Copy && !is_acl_name(name) && !(apart && name == c"security.selinux")
    });
    copied && removed
}

/// The attributes that only the destination has and that are to go: those of users, and capabilities. Others a filesystem, a
/// server or a security module may have given to the file.
pub fn surplus<'n>(
    request: &'n Request<'_>,
    names: &'n Names,
    of_dest: &'n Names,
) -> Result<impl Iterator<Item = &'n CStr>, Errno> {
    let wanted = names.of(request.source.object)?;
    let found = of_dest.of(request.dest.object)?;
    Ok(found.filter(move |name| {
        (name.to_bytes().starts_with(b"user.") || *name == CAPABILITY)
            && request.rules.action(name) == Action::Copy
            && !wanted.clone().any(|wanted| wanted == *name)
    }))
}

fn remove_surplus(request: &Request<'_>, names: &Names, report: Report<'_>) -> bool {
    let dest = request.dest;
    let of_dest = Names::default();
    if !request.exact || request.created {
        return true;
    }
    match of_dest.of(dest.object) {
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(Errno::NOENT | Errno::NOTDIR) if dest.object.path_only => {}
        Err(errno) => {
            report(Error::new(What::ListingAttributes, dest.path).errno(errno));
            return false;
        }
    }
    // What cannot be listed of the source is reported when it is copied, or there is none.
    let Ok(names) = surplus(request, names, &of_dest) else { return true };
    let mut removed = true;
    for name in names {
        if let Err(errno) = dest.object.remove_xattr(name)
            && errno != Errno::NODATA
        {
            removed = false;
            if worth_saying(request, request.preserve.xattr, errno) {
                let name = OsStr::from_bytes(name.to_bytes());
                report(Error::new(What::RemovingAttribute, dest.path).and(name).errno(errno));
            }
        }
    }
    removed
}

/// Copies the attributes that hold permissions in ways other than a POSIX ACL: those of NFSv4. False if one could not
/// be copied and the destination has such attributes.
pub fn keep_permissions(request: &Request<'_>, names: &Names, report: Report<'_>) -> bool {
    let mut kept = true;
    let mut listen = |error: Error| {
        // EINVAL is a server's word for an owner whom it does not know.
        if !matches!(error.errno, Some(Errno::OPNOTSUPP | Errno::NOSYS)) {
            kept = false;
            report(Error { what: What::PreservingAcl, path: request.dest.path.to_owned(), ..error });
        }
    };
    copy_all(request, names, &mut listen, |name| holds_permissions(request, name));
    kept
}

/// Whether an attribute that is no POSIX ACL goes with the permissions.
pub fn holds_permissions(request: &Request<'_>, name: &CStr) -> bool {
    request.rules.action(name) == Action::Permissions && !is_acl_name(name)
}

/// Whether this is the name of a POSIX ACL.
pub fn is_acl_name(name: &CStr) -> bool {
    name == acl::ACCESS || name == acl::DEFAULT
}

/// Whether a failure is reported: always if attributes were asked for by name or are all that is copied, else if it is
/// not just that the filesystem has none, and never when the user wants to hear nothing (`-a`).
pub fn worth_saying(request: &Request<'_>, wish: Wish, errno: Errno) -> bool {
    let unsupported = matches!(errno, Errno::OPNOTSUPP | Errno::NODATA);
    request.no_data || wish == Wish::Require || !request.preserve.quiet && !unsupported
}

fn copy(request: &Request<'_>, names: &Names, report: Report<'_>, wanted: impl Fn(&CStr) -> bool) -> bool {
    let mut listen = |error: Error| {
        if worth_saying(request, request.preserve.xattr, error.errno.unwrap_or(Errno::IO)) {
            report(error);
        }
    };
    copy_all(request, names, &mut listen, wanted)
}

fn copy_all(request: &Request<'_>, names: &Names, report: Report<'_>, wanted: impl Fn(&CStr) -> bool) -> bool {
    let (source, dest) = (request.source, request.dest);
    let names = match names.of(source.object) {
        Ok(names) => names,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return true,
        // Without /proc there is no way to the attributes of a node, see `source_acls::read`.
        Err(Errno::NOENT | Errno::NOTDIR) if source.object.path_only => return true,
        Err(errno) => {
            report(Error::new(What::ListingAttributes, source.path).errno(errno));
            return false;
        }
    };
    let (mut copied, mut unsupported) = (true, false);
    let mut value = Vec::new();
    for name in names {
        if !wanted(name) {
            continue;
        }
        let plain = OsStr::from_bytes(name.to_bytes());
        if let Err(errno) = source.object.get_xattr(name, &mut value) {
            report(Error::new(What::GettingAttribute, source.path).and(plain).errno(errno));
            copied = false;
            continue;
        }
        match dest.object.set_xattr(name, &value) {
            Ok(()) => {}
            // The filesystem has none at all, or none with such a name (`security.` on NFS): the others may be possible.
            Err(Errno::OPNOTSUPP) => unsupported = true,
            Err(errno) => {
                report(Error::new(What::SettingAttribute, dest.path).and(plain).errno(errno));
                copied = false;
            }
        }
    }
    if unsupported {
        // One message for the file is enough.
        report(Error::new(What::SettingAttributes, dest.path).errno(Errno::OPNOTSUPP));
    }
    copied && !unsupported
}
