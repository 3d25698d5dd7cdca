//! The mode of what was there before, while it gets its extended attributes.

use haul_sys::inode::Kind;

use super::request::Request;
use super::rules::Action;
use super::xattr::{CAPABILITY, Names};
use super::{acl, mode, owner, stands};

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
