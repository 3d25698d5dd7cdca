//! Regular files: open both sides, move the data, set the attributes.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::io::retry_on_intr;

use crate::attributes::{Keep, ReplacedFile, Set};
use crate::context::RunContext;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::facts::{FileId, Inode, Kind};
use crate::file::open::{self, Opened};
use crate::file::{check, fill};
use crate::finish::{resume, undo, written};
use crate::journal::Fingerprint;
use crate::meta::Object;
use crate::report::{Reported, Reporter};
use crate::transfer::Broken;
use crate::verify::Checked;
use crate::walk::{Identity, Spot};
use crate::work::dest_state::DestState;
use crate::work::subject::Subject;
use crate::work::unfinished::Unfinished;

/// What came of a file that was made.
#[derive(Debug, Default)]
pub(crate) struct FileOutcome {
    /// Which file it is, where that is known better than a look at its name would tell.
    pub id: Option<FileId>,
    /// What reading it again has found.
    pub checked: Checked,
    /// It has the attributes that it must have.
    pub attributes_kept: bool,
    /// It is whole, not on its device yet, and has to be before it gets its name.
    pub unsynced: Option<(OwnedFd, FileId)>,
    /// What it is a copy of, if it may be noted that it is finished.
    pub source: Option<Fingerprint>,
}

/// Copies the contents and attributes of a file into a regular file, or whatever stands at the destination.
pub(crate) fn copy_regular(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
    unfinished: &mut Unfinished,
) -> Result<FileOutcome, Reported> {
    let started = Instant::now();
    let (source, source_inode) = match subject.opened.take() {
        Some(opened) => (opened, subject.inode),
        None => open::open_regular_source(&mut worker.report, subject)?,
    };
    let subject = &*subject;
    unfinished.print = resume::fingerprint_of(cx, source.as_fd(), &source_inode);
    let dest = open::destination_of(cx, &mut worker.report, subject, state, &source_inode, unfinished)?;
    let source = Arc::new(source);
    let Opened { fd, inode, known, created, replaced, entries } = dest;
    if known {
        written::will_write_to(cx, worker, inode.id.device(), subject.dest.path, fd.as_fd());
    }
    let fd = Arc::new(fd);
    let keep = |source_inode| Keep {
        source: Object { fd: source.as_fd(), path_only: false },
        source_inode,
        source_path: subject.source.path,
        dest: Object { fd: fd.as_fd(), path_only: false },
        dest_inode: &inode,
        dest_path: subject.dest.path,
        created,
        entries,
    };
    if created && unfinished.start == 0 {
        cx.attributes().prepare(&keep(&source_inode), &mut worker.report);
    }
    let has_contents = !created && state.identity == Identity::DoubtfulAndFixed;
    let copied = match cx.plan.attributes_only {
        true => lacks_nothing(cx, source_inode),
        false if has_contents => {
            fill::touch(&mut worker.report, subject, &fd).then_some((source_inode, Checked::default()))
        }
        false => fill::fill(cx, worker, subject, (&source, &source_inode), (&fd, &inode, created), unfinished),
    };
    let moved = Instant::now();
    worker.report.stats.data_time += moved - started;
    if copied.is_none() && replaced {
        worker.report.warning(&Error::new(What::Lost, subject.dest.path));
    }
    let (copied, checked) = copied.ok_or(Reported)?;
    // With `--resume` it stays for the next run.
    if state.temporary && unfinished.number.is_none() {
        cx.session.partials.is_nameless(subject.dest, subject.sides, inode.id);
    }
    if !state.temporary && !check::judge_in_place(&mut worker.report, fd.as_fd(), &inode, subject.dest.path, &checked) {
        return Err(Reported);
    }
    // A second attempt was of a source that nobody had seen settle.
    let copied_again = copied.changed != source_inode.changed || copied.modified != source_inode.modified;
    let source_inode = copied;
    worker.report.stats.regular += 1;
    let found;
    let mut keep = keep(&source_inode);
    if let Some(replaced) = &state.replaced {
        found = inherit_or_give_up(cx, &mut worker.report, subject.dest, &keep, replaced, unfinished)?;
        // From here on it is a file that was found there.
        keep = Keep { created: false, dest_inode: &found, ..keep };
    }
    // What could not be kept is told. Under the temporary name a whole file is of no use to anybody.
    let Set { kept: attributes_kept, deferred } =
        cx.attributes().set_of_file(&keep, state.temporary, &mut worker.report);
    worker.report.stats.metadata_time += moved.elapsed();
    let as_seen = attributes_kept && deferred.is_none() && !copied_again;
    worker.deferred.extend(deferred);
    written::sync_early(cx, worker, &inode);
    let unsynced = let_go(cx, &mut worker.report, subject, state, (fd, inode, created), unfinished)?;
    if !attributes_kept && !state.temporary {
        return Err(Reported);
    }
    let id = known.then_some(inode.id);
    let source = unfinished.print.filter(|_| as_seen);
    Ok(FileOutcome { id, checked, attributes_kept, unsynced, source })
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

/// A file that gets no data is whole when it is made.
fn lacks_nothing(cx: RunContext<'_>, source_inode: Inode) -> Option<(Inode, Checked)> {
    cx.session.partials.done();
    Some((source_inode, Checked::default()))
}

/// Closes a whole copy, or gives it back if it must stay open until it is on its device. An error if it turned out not to
/// be whole.
fn let_go(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    dest: (Arc<OwnedFd>, Inode, bool),
    unfinished: &Unfinished,
) -> Result<Option<(OwnedFd, FileId)>, Reported> {
    let (fd, inode, created) = dest;
    // That of a block device tells nothing of what could not be written back (Linux 6.18), so it is asked first.
    let alone = inode.kind == Kind::BlockDevice || written::syncs_alone(cx, inode.id.device());
    let waits = state.temporary && cx.names_wait();
    let synced = if alone && !waits { retry_on_intr(|| Linux.sync(fd.as_fd())) } else { Ok(()) };
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
