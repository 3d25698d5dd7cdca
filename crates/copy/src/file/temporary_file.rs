//! Files that are made under another name and get theirs when they are whole (`--atomic`, `--durable=file`).
//!
//! The other name is in the directory of the final one, so that a rename puts one in the place of the other in one step.
//! Everything in between is done by the code that makes any other file, which sees a new file in that directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{OFlags, readlinkat};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use crate::attributes::{ReplacedFile, SPECIAL_RIGHTS};
use crate::context::{RunContext, Worker};
use crate::decide::{Existing, copied_as_regular};
use crate::error::{Error, What};
use crate::file::open::open_without_waiting;
use crate::file::special;
use crate::finish::{naming, resume, undo};
use crate::journal::Fingerprint;
use crate::meta::{NewEntries, Object};
use crate::plan::{LinkMode, Reflink, SmartCopy, Verify};
use crate::publish::ready::{ParentDirectory, Ready, Replaceable};
use crate::publish::temporary::TemporaryNames;
use crate::recorded_progress::{Partial, has_settled};
use crate::report::Reported;
use crate::walk::{Identity, Spot, open_directory};
use crate::work::entry::{Adopted, DestState, FileOutcome, Subject, Unfinished, may_write};

/// Both for the owner.
const READ_AND_WRITE: u32 = 0o600;

/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a file is made, and where it goes.
pub(crate) struct TemporaryFile {
    /// The directory of both, where that is not the one of the destination: behind a symbolic link.
    pub dir: Option<OwnedFd>,
    pub name: OsString,
    /// The name that it gets.
    last: OsString,
    /// Something stands there.
    replaces: bool,
    /// What that is, where nothing else may be replaced.
    stands: Option<Box<Replaceable>>,
}

impl TemporaryFile {
    pub(crate) fn spot<'s>(&'s self, dest: Spot<'s>, name: &'s OsStr) -> Spot<'s> {
        match &self.dir {
            Some(dir) => Spot::new(dir.as_fd(), name, dest.path),
            None => dest.beside(name, dest.path),
        }
    }
}

/// Chooses the name that a file is made under; how its destination is then, and what an earlier run has left of it.
pub(crate) fn begin(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<(TemporaryFile, DestState, Unfinished), Reported> {
    let cx = worker.cx;
    let kind = subject.inode.kind;
    let is_no_name = subject.dest.name.is_empty() || ends_in_slash(subject.dest);
    if is_no_name && !copied_as_regular(kind, cx.plan) {
        // As symlink(2) and mknod(2) say of it.
        let error = Error::new(special::cannot_make(kind), subject.dest.path).errno(Errno::NOENT);
        return Err(worker.report.fail(error));
    }
    let chosen = choose(subject.dest, state, cx.plan.write_through_dangling_link, cx.temporary_names());
    let mut temporary = worker.report.check(chosen, What::CannotCreateRegular, subject.dest.path)?;
    let last = temporary.spot(subject.dest, &temporary.last);
    let old = state.existing.as_ref().map(|existing| &existing.target);
    let replaced = old
        .map(|old| hold_replaced(cx, last, old).map(Box::new))
        .transpose()
        .map_err(|error| worker.report.fail(error))?;
    // Behind a link it is made in a directory of which nothing is known.
    let entries = if temporary.dir.is_some() { NewEntries::UNKNOWN } else { state.entries };
    if let Some(dir) = &temporary.dir {
        resume::tidy_behind_link(cx, dir.as_fd());
    }
    let mut unfinished = Unfinished::default();
    name_for_resuming(cx, subject, &mut temporary, &mut unfinished);
    let new = DestState { new: true, temporary: true, entries, replaced, ..DestState::default() };
    Ok((temporary, new, unfinished))
}

/// With `--resume`, gives the file a name that the next run will know, or takes up what an earlier one has left.
fn name_for_resuming(
    cx: RunContext<'_>,
    subject: &Subject<'_>,
    temporary: &mut TemporaryFile,
    unfinished: &mut Unfinished,
) {
    let Some(progress) = cx.services.progress.get() else { return };
    if subject.inode.kind == Kind::Regular && progress.is_worth_checkpoints(&subject.inode) {
        let home = temporary.spot(subject.dest, &temporary.last).dir().and_then(Inode::of);
        unfinished.home = home.ok().map(|home| Fingerprint::of_name(&home, &temporary.last));
    }
    let source = Fingerprint::of_source(&subject.inode);
    let beginning = unfinished.home.map(|home| Fingerprint::of_beginning(source, home));
    // What shares extents is done at once, and an image is not copied from its beginning to its end.
    let by_parts = cx.plan.data.reflink != Reflink::Always && cx.plan.smart == SmartCopy::Off;
    let partial = beginning.filter(|_| by_parts && has_settled(&subject.inode)).and_then(|key| progress.partial(key));
    if let Some(partial) = partial {
        let name = progress.names.with_number(partial.number);
        let owner = if cx.plan.preserve.ownership { subject.inode.user } else { cx.services.caller.user };
        let owners = [cx.services.caller.user, owner];
        let found = open_partial(temporary.spot(subject.dest, &name), &partial, owners, cx.plan.verify);
        if let Some((fd, inode)) = found {
            progress.adopt(partial.number);
            unfinished.number = Some(partial.number);
            unfinished.adopted = Some(Adopted { fd, inode, prefix: partial.prefix, source });
            // Whatever comes now, unless it is known to be of no use any more.
            unfinished.left = true;
            temporary.name = name;
            return;
        }
    }
    let number = progress.names.number();
    unfinished.number = Some(number);
    temporary.name = progress.names.with_number(number);
}

/// Whether it is made under another name first: because the plan asks for that, or because what stands there may be the
/// source. Not where an existing file is no regular one, which is written into, as
/// FIFOs and devices are; nor where only attributes are set.
pub(crate) fn is_needed(cx: RunContext<'_>, subject: &Subject<'_>, state: &DestState) -> bool {
    let plan = cx.plan;
    let regular = |existing: &Existing| existing.target.kind == Kind::Regular;
    let doubtful = match state.identity {
        Identity::Two => false,
        Identity::Doubtful => true,
        // What is asked of the bytes that are moved needs some.
        Identity::DoubtfulAndFixed => state.existing.is_none() || plan.checksum.is_some(),
    };
    (plan.uses_temporary_file() || doubtful)
        && plan.link == LinkMode::Copy
        && !(plan.attributes_only && state.existing.is_some())
        && state
            .existing
            .as_ref()
            .is_none_or(|existing| regular(existing) && copied_as_regular(subject.inode.kind, cx.plan))
}

/// Takes hold of a file that is going to be replaced, where writing into it would have been allowed.
fn hold_replaced(cx: RunContext<'_>, spot: Spot<'_>, old: &Inode) -> Result<ReplacedFile, Error> {
    let error = Error::new(What::CannotCreateRegular, spot.path);
    if !cx.plan.force && !cx.services.caller.privileged() && !may_write(spot) {
        return Err(error.errno(Errno::ACCESS));
    }
    let held = spot.open_path().and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)));
    match held {
        Ok((inode, fd)) if inode.is_same_file_as(old) => Ok(ReplacedFile { fd, inode }),
        Ok(_) => Err(Error::new(What::ReplacedWhileCopied, spot.path)),
        Err(errno) => Err(error.errno(errno)),
    }
}

/// The file is whole: gives it its name, or leaves that until it is on the device.
pub(crate) fn publish_or_wait(
    worker: &mut Worker<'_>,
    temporary: &TemporaryFile,
    spot: Spot<'_>,
    subject: &Subject<'_>,
    outcome: FileOutcome,
) -> bool {
    let FileOutcome { checked, unsynced, source, .. } = outcome;
    if let Some(mismatch) = checked.mismatch {
        return undo::set_aside(&mut worker.report, spot, &temporary.last, mismatch);
    }
    let Some((file, id)) = unsynced else {
        let (report, stands) = (&mut worker.report, temporary.stands.as_deref());
        let published = naming::publish(report, spot, &temporary.last, (temporary.replaces, stands));
        if published {
            naming::tell_digest(&worker.report, spot.path, &checked);
        }
        return published;
    };
    let parent = match ParentDirectory::of(spot, subject.sides.filter(|_| temporary.dir.is_none())) {
        Ok(parent) => parent,
        Err(errno) => {
            let error = Error::new(What::CannotPublish, spot.path).errno(errno);
            return undo::withdraw(&mut worker.report, spot, error);
        }
    };
    naming::wait_for_device(
        worker,
        Ready {
            file,
            id,
            size: subject.inode.size,
            checked,
            parent,
            name: temporary.name.clone(),
            last: temporary.last.clone(),
            replaces: temporary.replaces,
            stands: temporary.stands.clone(),
            source,
        },
    );
    true
}

/// Opens what an earlier run has left of a file, if it is still that.
fn open_partial(spot: Spot<'_>, partial: &Partial, owners: [u32; 2], verify: Verify) -> Option<(OwnedFd, Inode)> {
    let held = spot.open_path().ok()?;
    let inode = Inode::of(held.as_fd()).ok()?;
    // Without a birth the number alone tells little: somebody else may have made a file that got it.
    let ours = inode.kind == Kind::Regular && inode.links == 1 && owners.contains(&inode.user);
    if !ours || Fingerprint::of_file(&inode) != partial.file || inode.size < partial.prefix {
        return None;
    }
    let object = Object { fd: held.as_fd(), path_only: true };
    if inode.permissions & READ_AND_WRITE != READ_AND_WRITE || inode.permissions & SPECIAL_RIGHTS != 0 {
        // It was whole and had its mode already, by which others than root could not open it, or might run it.
        object.set_mode(inode.permissions & !SPECIAL_RIGHTS | READ_AND_WRITE).ok()?;
    }
    let access = if verify == Verify::Off { OFlags::WRONLY } else { OFlags::RDWR };
    let opened = open_without_waiting(spot, access | OFlags::NOFOLLOW).ok()?;
    let now = Inode::of(opened.as_fd()).ok()?;
    now.is_same_file_as(&inode).then_some((opened, inode))
}

fn ends_in_slash(dest: Spot<'_>) -> bool {
    dest.name.as_bytes().last() == Some(&b'/')
}

/// Finds the place behind the destination: behind symbolic links, if it is one that is written through.
fn choose(
    dest: Spot<'_>,
    state: &DestState,
    through_dangling: bool,
    names: &TemporaryNames,
) -> Result<TemporaryFile, Errno> {
    // As open(2) says of a name that ends in a slash where no directory is to be made.
    if dest.name.is_empty() {
        return Err(Errno::NOENT);
    }
    if ends_in_slash(dest) {
        return Err(Errno::NOTDIR);
    }
    let through_link = state.existing.as_ref().is_some_and(|existing| existing.entry.kind == Kind::SymbolicLink);
    let dangling = through_dangling && state.existing.is_none() && !state.replaces && dest.read_link().is_ok();
    let (dir, last) = match through_link || dangling {
        true => follow(dest).map(|(dir, last)| (Some(dir), last))?,
        false => (None, dest.name.to_owned()),
    };
    let replaces = state.existing.is_some() || state.replaces;
    Ok(TemporaryFile { dir, name: names.another(), last, replaces, stands: state.stands.clone() })
}

/// The directory and the name that symbolic links lead to, found as the kernel finds them.
fn follow(dest: Spot<'_>) -> Result<(OwnedFd, OsString), Errno> {
    let mut dir = fcntl_dupfd_cloexec(dest.dir()?, 0)?;
    let mut name = dest.name.to_owned();
    for _ in 0..MOST_LINKS {
        let text = match readlinkat(&dir, name.as_os_str(), Vec::new()) {
            Ok(text) => text.into_bytes(),
            // What is no link, or is not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok((dir, name)),
            Err(errno) => return Err(errno),
        };
        let path = Path::new(OsStr::from_bytes(&text));
        let last = path.file_name().ok_or(Errno::ISDIR)?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        dir = open_directory(&dir, above.unwrap_or(Path::new(".")))?;
        name = last.to_owned();
    }
    Err(Errno::LOOP)
}

#[cfg(test)]
#[path = "temporary_file_tests.rs"]
mod tests;
