//! A whole file gets its attributes, and is closed.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::rustix::io::retry_on_intr;

use crate::attributes::{Keep, ReplacedFile, Set};
use crate::context::RunContext;
use crate::error::{Error, What};
use crate::facts::{FileId, Inode, Kind};
use crate::file::open::OpenFiles;
use crate::finish::{undo, written};
use crate::report::{Reported, Reporter};
use crate::transfer::Broken;
use crate::walk::Spot;
use crate::work::dest_state::DestState;
use crate::work::subject::Subject;
use crate::work::unfinished::Unfinished;

/// Sets the attributes of a whole file: those of the old one that it replaces, then those of the source as it was when it
/// was `copied`.
pub(crate) fn set_attributes(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (files, copied): (&OpenFiles, &Inode),
    unfinished: &Unfinished,
) -> Result<Set, Reported> {
    let found;
    let mut keep = files.keep(subject, copied);
    if let Some(replaced) = &state.replaced {
        found = inherit_or_give_up(cx, report, subject.dest, &keep, replaced, unfinished)?;
        // From here on it is a file that was found there.
        keep = Keep { created: false, dest_inode: &found, ..keep };
    }
    // What could not be kept is reported. Under a temporary name a whole file is of no use to anybody.
    Ok(cx.attributes().set_of_file(&keep, state.temporary, report))
}

/// Gives a new file what the old one had, or removes it; how the new one is then.
fn inherit_or_give_up(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    dest: Spot<'_>,
    keep: &Keep<'_>,
    replaced: &ReplacedFile,
    unfinished: &Unfinished,
) -> Result<Inode, Reported> {
    if cx.attributes().of_replaced(keep, replaced, report) {
        return Ok(Inode::of(keep.dest.fd).unwrap_or(*keep.dest_inode));
    }
    let error = Some(Error::new(What::NotTakenOver, keep.dest_path));
    undo::give_up(cx, report, dest, keep.dest_inode, (keep.created, unfinished), Broken { error });
    Err(Reported)
}

/// Closes a whole copy, or gives it back if it must stay open until it is on its device. An error if it turned out not to
/// be whole.
pub(crate) fn close(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    files: OpenFiles,
    unfinished: &Unfinished,
) -> Result<Option<(OwnedFd, FileId)>, Reported> {
    let OpenFiles { dest: fd, dest_inode: inode, created, .. } = files;
    // That of a block device tells nothing of what could not be written back (Linux 6.18), so it is asked first.
    let alone = inode.kind == Kind::BlockDevice || written::syncs_alone(cx, inode.id.device());
    let waits = state.temporary && cx.names_wait();
    let synced = if alone && !waits { retry_on_intr(|| cx.kernel.sync(fd.as_fd())) } else { Ok(()) };
    // No engine holds a job now, so this is the last reference and the close is a real one.
    let closed = match Arc::try_unwrap(fd) {
        Ok(fd) if waits => return Ok(Some((fd, inode.id))),
        Ok(fd) => haul_sys::close(fd).and(synced),
        Err(_still_shared) => Err(Errno::BUSY),
    };
    match closed {
        Ok(()) => Ok(None),
        Err(errno) => {
            // Some filesystems write only now: the data is not whole.
            let error = Error::new(What::Closing, subject.dest.path).errno(errno);
            undo::give_up(cx, report, subject.dest, &inode, (created, unfinished), Broken { error: Some(error) });
            Err(Reported)
        }
    }
}
