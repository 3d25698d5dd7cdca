//! The SELinux context.

use crate::error::{Error, What};
use crate::preserve::{ContextRule, Wish};

use super::request::{Report, Request};
use super::xattr;

const NAME: &std::ffi::CStr = c"security.selinux";

/// Gives the destination the context of the source, or a new one the context that was asked for. False if that failed
/// and matters. Does nothing where SELinux is not enabled.
///
/// [`ContextRule::OfDestination`] is what the kernel does by itself: the context of a new file comes from its directory
/// and the policy.
pub fn keep(request: &Request<'_>, report: Report<'_>) -> bool {
    if !request.caller.selinux {
        return true;
    }
    let wish = request.preserve.context;
    let mut value = Vec::new();
    let result = match request.context {
        ContextRule::Fixed(context) if request.created => {
            value.extend_from_slice(context.as_encoded_bytes());
            // The kernel's values end with a zero byte.
            value.push(0);
            request.dest.object.set_xattr(NAME, &value)
        }
        _ if wish == Wish::No => return true,
        _ => {
            request.source.object.get_xattr(NAME, &mut value).and_then(|()| request.dest.object.set_xattr(NAME, &value))
        }
    };
    let Err(errno) = result else { return true };
    if xattr::worth_saying(request, wish, errno) {
        report(Error::new(What::PreservingContext, request.dest.path).errno(errno));
    }
    wish != Wish::Require
}
