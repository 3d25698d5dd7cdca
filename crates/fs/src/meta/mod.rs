//! Metadata: what a copy keeps beside the bytes, and in which order.
//!
//! The order is written once, in [`finish`]: owner, extended attributes, security context, mode and ACLs, times, inode
//! flags. Each step has its reason there. What has to come before the data is in [`before_data`].
//!
//! Every operation has one implementation for all kinds of file. It works on descriptors, never on a path that somebody
//! else could change: see [`haul_sys::object`].
//!
//! # How the caller makes a file
//! 1. `creation_mode` gives the mode for `open(O_CREAT | O_EXCL)`, `mkdir` or `mknod`. The umask stays in force: where
//!    the parent directory has a default ACL, the kernel takes that in its place, and only the mode at creation gets
//!    this right. [`NewEntries`] of the directory tell what need not be left out at first.
//! 2. `Inode::of` the new inode is what [`Side::inode`] wants; of an existing destination, its attributes after opening.
//!    Where nothing is to be kept, a new regular file need not be looked at.
//! 3. A new directory is opened up for its owner by [`open_up`], after its attributes were taken.
//! 4. [`before_data`], the data or the directory's entries, [`finish`].

mod acl;
mod caller;
mod context;
mod creation;
mod flags;
mod memory;
mod mode;
mod new_entries;
mod nfs4;
mod owner;
mod parent;
mod ready;
mod request;
mod rules;
mod source_acls;
mod stands;
mod times;
mod xattr;

pub use haul_sys::object::Object;

pub use acl::is_there as has_acl;
pub use caller::Caller;
pub use creation::{Creation, creation_mode, open_up};
pub use flags::{before_data, seal};
pub use memory::KnownFilesystems;
pub use mode::while_written;
pub use new_entries::NewEntries;
pub use parent::{finish_parent, parent_creation_mode};
pub use request::{Report, Request, Side};
pub use rules::{Action, BadLine, FILE as XATTR_RULES_FILE, XattrRules};
pub use stands::{stands, stands_unopened};
pub use xattr::is_acl_name;

use haul_sys::inode::Kind;

use crate::preserve::Wish;

/// Gives the destination the metadata of the source, as far as it is to be kept.
///
/// Call it after the data is in place, for a directory after its entries are; nothing may be written afterwards, since a
/// write clears the set-user-ID bit and the file capabilities. Returns false if the copy of this file failed: something
/// that had to be kept could not be. The copied data is good all the same.
pub fn finish(request: &Request<'_>, report: Report<'_>) -> bool {
    let kept = keep_all(request, report);
    let kept = if request.preserve.timestamps && kept.times_are_due {
        times::set(request, report) && kept.all
    } else {
        kept.all
    };
    // Last of all: an immutable inode takes no further change.
    flags::after_data(request, report) && kept
}

/// How far [`keep_all`] came.
struct Kept {
    /// Nothing failed that had to be kept.
    all: bool,
    /// The times are still to be set.
    times_are_due: bool,
}

fn keep_all(request: &Request<'_>, report: Report<'_>) -> Kept {
    let kind = request.dest.inode.kind;
    // Who may not set the times must not change anything else either. This is known for sure only by trying; where the
    // inode is our own and new it need not be tried. The times are set again at the end all the same: on network
    // filesystems the later steps can move them.
    let doubtful = !request.created || !request.caller.privileged() && request.dest.inode.user != request.caller.user;
    if request.preserve.timestamps && doubtful && !times::set(request, report) {
        return Kept { all: false, times_are_due: false };
    }
    let permissions = mode::let_attributes_in(request);
    // The owner comes first: a change of owner clears the set-user-ID bit and the file capabilities.
    let owner = owner::keep(request, report);
    if owner == owner::Result::Failed {
        return Kept { all: false, times_are_due: kind != Kind::SymbolicLink };
    }
    // Extended attributes come before the mode, which may take away our own write permission.
    let names = xattr::Names::default();
    let mut all = true;
    if request.preserve.xattr != Wish::No
        && !keep_xattrs(request, &names, report)
        && request.preserve.xattr == Wish::Require
    {
        all = false;
        if kind != Kind::Regular {
            return Kept { all, times_are_due: true };
        }
    }
    all &= context::keep(request, report);
    // The mode with the special bits, then the ACLs: an ACL changes the group bits of the mode.
    if kind != Kind::SymbolicLink {
        let special_bits = owner != owner::Result::Refused;
        let permissions = permissions.filter(|_| !owner::differs(request));
        all &= mode::keep(request, special_bits, permissions, &names, report);
    }
    Kept { all, times_are_due: true }
}

/// Sets extended attributes, under a mode that lets us do that, and nobody have rights by them that it shall not have.
fn keep_xattrs(request: &Request<'_>, names: &xattr::Names, report: Report<'_>) -> bool {
    ready::narrow_for_capability(request, names);
    let mode = ready::let_owner_write(request, names);
    let kept = xattr::keep(request, names, report);
    mode.is_none_or(|mode| ready::give_back(request, mode, report)) && kept
}
