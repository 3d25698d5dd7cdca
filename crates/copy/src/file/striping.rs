//! The layout of a new file on Lustre.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use haul_fs::layout::Layout;
use haul_sys::inode::Inode;

use crate::context::striping::WantedLayout;
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::Event;
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
    // A tree has looked at the directory; another look would be a message for each file.
    let device = || match subject.level.ancestors.last() {
        Some(parent) => Some(parent.devices()[1]),
        None => Inode::of(dir).ok().map(|inode| inode.id.device()),
    };
    cx.services.striped.wanted(profile, (dir, device), (source.as_fd(), inode.size))
}

/// Gives a file its objects, with this layout. Where Lustre refuses that, with the layout of its directory: without any, nothing
/// could be written.
pub(crate) fn stripe(worker: &mut Worker<'_>, path: &Path, file: &OwnedFd, wanted: &WantedLayout) {
    let Err(errno) = wanted.layout.set(file.as_fd()) else {
        return worker.report.tell(&Event::Striped {
            dest: path.into(),
            stripes: wanted.stripes.as_ref().map(Cow::Borrowed),
            profile: wanted.origin().into(),
        });
    };
    // If that fails as well, writing says why.
    let _said_by_the_first_write = Layout::default().set(file.as_fd());
    if wanted.is_first_refusal() {
        worker.report.warning(&Error::new(What::CannotStripe, path).and(wanted.origin()).errno(errno));
    }
}
