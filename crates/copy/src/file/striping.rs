//! The layout of a new file on Lustre.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};

use haul_fs::layout::Layout;
use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{OFlags, fcntl_setfl};

use crate::context::striping::WantedLayout;
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::Event;
use crate::walk::Spot;
use crate::work::entry::Subject;

/// The layout that the profile wants for a file of this source, if it is to be made on Lustre. Then the file is to be made
/// without objects.
pub(crate) fn wanted(
    cx: RunContext<'_>,
    subject: &Subject<'_>,
    (source, inode): (&OwnedFd, &Inode),
) -> Option<WantedLayout> {
    let profile = cx.plan.data.profile.as_deref()?;
    let dir = subject.dest.dir().ok()?;
    // A tree has looked at the directory; another look would be a message for each file. A file that is made behind a
    // symbolic link goes elsewhere.
    let device = || match subject.level.ancestors.last().filter(|_| subject.sides.is_some()) {
        Some(parent) => Some(parent.devices()[1]),
        None => Inode::of(dir).ok().map(|inode| inode.id.device()),
    };
    cx.services.striped.wanted(profile, (dir, device), (source.as_fd(), inode.size))
}

/// Gives a file its objects, with this layout. Where Lustre refuses that, with the layout of its directory, for which it is
/// opened again: without any, nothing could be written.
///
/// # Errors
/// Where it gets none at all.
pub(crate) fn stripe(
    worker: &mut Worker<'_>,
    dest: Spot<'_>,
    (made, access): (OwnedFd, OFlags),
    wanted: &WantedLayout,
) -> Result<OwnedFd, Errno> {
    let Err(errno) = wanted.layout.set(made.as_fd()) else {
        worker.report.tell(&Event::Striped {
            dest: dest.path.into(),
            stripes: wanted.stripes.as_ref().map(Cow::Borrowed),
            profile: wanted.origin().into(),
        });
        return Ok(made);
    };
    if wanted.is_first_refusal() {
        worker.report.warning(&Error::new(What::CannotStripe, dest.path).and(wanted.origin()).errno(errno));
    }
    if let Some(again) = opened_again(dest, &made, access) {
        return Ok(again);
    }
    // Its mode may forbid that. This is the layout of the filesystem.
    Layout::default().set(made.as_fd()).map(|()| made)
}

/// The same file opened by its name, as any other program opens one, which gives it objects.
fn opened_again(dest: Spot<'_>, made: &OwnedFd, access: OFlags) -> Option<OwnedFd> {
    let again = dest.open(access | OFlags::NOFOLLOW | OFlags::NONBLOCK, 0).ok()?;
    let [first, second] = [made, &again].map(|file| Inode::of(file.as_fd()).map(|inode| inode.id));
    (first.is_ok() && first == second && fcntl_setfl(&again, OFlags::empty()).is_ok()).then_some(again)
}
