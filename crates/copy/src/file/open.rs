//! Opening the two sides of a regular file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_fs::layout::WITHOUT_OBJECTS;
use haul_io::strategy::{Demands, SMALL};
use haul_io::transfer::{Peers, Transfer};
use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, ftruncate};
use haul_sys::rustix::io::retry_on_intr;

use crate::attributes::{Keep, SPECIAL_RIGHTS, side};
use crate::context::{RunContext, Worker};
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::events::Event;
use crate::file::striping;
use crate::finish::{resume, undo, written};
use crate::journal::{Fingerprint, Record};
use crate::meta::{NewEntries, Object};
use crate::plan::{ContextRule, EngineChoice, ModeRule, Plan, Preserve, Sparse, Verify};
use crate::report::Reported;
use crate::walk::Spot;
use crate::work::entry::{self, Adopted, DestState, Subject, Unfinished};
use crate::work::file_data::FileData;

pub(crate) struct OpenDest {
    pub fd: Arc<OwnedFd>,
    pub inode: Inode,
    /// The inode was asked for; otherwise it is [`Inode::just_made`].
    pub known: bool,
    pub created: bool,
    /// An old one was removed just now, since it could not be opened.
    pub replaced: bool,
    /// What was known of the directory when it was made.
    entries: NewEntries,
}

pub(crate) struct OpenFiles {
    pub source: Arc<OwnedFd>,
    pub source_inode: Inode,
    pub dest: OpenDest,
}

impl OpenFiles {
    /// What setting the attributes of the copy needs; `source_inode` is what it is a copy of.
    pub(crate) fn keep<'k>(&'k self, subject: &'k Subject<'_>, source_inode: &'k Inode) -> Keep<'k> {
        Keep {
            source: side(&self.source, false, source_inode, subject.source.path),
            dest: side(&self.dest.fd, false, &self.dest.inode, subject.dest.path),
            created: self.dest.created,
            entries: self.dest.entries,
        }
    }

    pub(crate) fn data<'t>(
        &'t self,
        subject: &Subject<'t>,
        demands: Demands,
        peers: Option<&'t dyn Peers>,
    ) -> FileData<'t> {
        let files = [Arc::clone(&self.source), Arc::clone(&self.dest.fd)];
        let transfer = Transfer::new(files, [&self.source_inode, &self.dest.inode], demands);
        FileData {
            transfer: Transfer { peers, ..transfer },
            source_path: subject.source.path,
            dest_path: subject.dest.path,
            source_dir: subject.source.dir().ok(),
            image: None,
            log: None,
        }
    }
}

/// Opens the source, and opens or makes the destination, without changing what stands there.
pub(crate) fn both_sides(
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
    unfinished: &mut Unfinished,
) -> Result<OpenFiles, Reported> {
    let (source, source_inode) = match subject.opened.take() {
        Some(opened) => (opened, subject.inode),
        None => open_regular_source(worker, subject)?,
    };
    unfinished.print = resume::fingerprint_of(worker.cx, source.as_fd(), &source_inode);
    let opened = open_regular_destination(worker, subject, state, (&source, &source_inode), unfinished);
    let Some(dest) = opened else {
        worker.cx.session.partials.done();
        return Err(Reported);
    };
    if dest.known {
        written::will_write_to(worker, dest.inode.id.device(), subject.dest.path, dest.fd.as_fd());
    }
    Ok(OpenFiles { source: Arc::new(source), source_inode, dest })
}

fn open_regular_source(worker: &mut Worker<'_>, subject: &Subject<'_>) -> Result<(OwnedFd, Inode), Reported> {
    let (report, path) = (&mut worker.report, subject.source.path);
    let flags = if subject.follow() { OFlags::RDONLY } else { OFlags::RDONLY | OFlags::NOFOLLOW };
    let flags = flags | noatime(worker.cx, &subject.inode);
    let opened = match subject.inode.kind {
        Kind::Regular => open_without_waiting(subject.source, flags),
        _ => subject.source.open(flags - OFlags::NOATIME, 0),
    };
    let opened = report.check(opened, What::CannotOpen, path)?;
    let inode = report.check(Inode::of(opened.as_fd()), What::CannotFstat, path)?;
    match inode.is_same_file_as(&subject.inode) {
        true => Ok((opened, inode)),
        false => Err(report.fail(Error::new(What::ReplacedWhileCopied, path))),
    }
}

fn open_regular_destination(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    source: (&OwnedFd, &Inode),
    unfinished: &mut Unfinished,
) -> Option<OpenDest> {
    let (cx, source_inode) = (worker.cx, source.1);
    let dest = subject.dest;
    if let Some(adopted) = unfinished.adopted.take() {
        let mode = mode_as_new(cx, &adopted, state, source_inode);
        return go_on_with(worker, adopted, mode, dest.path, unfinished);
    }
    let mut replaced = false;
    let opened = if state.new {
        create(worker, subject, state, source)
    } else {
        match open_existing(cx, subject, state) {
            Err(Errno::NOENT) => create(worker, subject, state, source),
            // What this process lacks, it lacks for a new file, too.
            Err(errno) if cx.plan.force && !is_of_process(errno) => {
                if !entry::remove(&mut worker.report, dest) {
                    return None;
                }
                replaced = true;
                create(worker, subject, state, source)
            }
            opened => opened.map_err(|errno| Some(Error::new(What::CannotCreateRegular, dest.path).errno(errno))),
        }
    };
    let (fd, created, entries) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            worker.report.failed = true;
            error.into_iter().for_each(|error| _ = worker.report.problem(error));
            if replaced {
                worker.report.warning(&Error::new(What::Lost, dest.path));
            }
            return None;
        }
    };
    // What is made where a dangling link leads may be on another filesystem.
    let is_here = created && !cx.plan.write_through_dangling_link;
    if let Some(inode) = is_here.then(|| need_not_look(cx, subject, state, source_inode)).flatten() {
        return Some(OpenDest { fd: Arc::new(fd), inode, known: false, created, replaced, entries });
    }
    let inode = match Inode::of(fd.as_fd()) {
        Ok(inode) => inode,
        Err(errno) => {
            let error = Error::new(What::CannotFstat, dest.path).errno(errno);
            undo::refuse(worker, dest, (&fd, None), (created, unfinished), error);
            if replaced {
                worker.report.warning(&Error::new(What::Lost, dest.path));
            }
            return None;
        }
    };
    let existing = state.existing.as_deref().filter(|_| !created);
    if let Some(objection) = objection(subject, (&fd, &inode), existing, source_inode) {
        worker.report.problem(objection);
        return None;
    }
    Some(OpenDest { fd: Arc::new(fd), inode, known: true, created, replaced, entries })
}

/// Why nothing may be written to a destination: the names were checked before; this is what they lead to now.
fn objection(
    subject: &Subject<'_>,
    (fd, inode): (&OwnedFd, &Inode),
    existing: Option<&Existing>,
    source_inode: &Inode,
) -> Option<Error> {
    let dest = subject.dest.path;
    if inode.id == source_inode.id && inode.kind == Kind::Regular {
        return Some(Error::new(What::SameFile, subject.source.path).and(dest));
    }
    let expected = existing.map(|existing| &existing.target).filter(|target| target.kind == Kind::Regular)?;
    let same = inode.is_same_file_as(expected) || inode.kind == Kind::Regular && renumbers(fd.as_fd());
    (!same).then(|| Error::new(What::ReplacedWhileCopied, dest))
}

/// What may be taken for granted of a destination that was just made, where nothing else will be asked of it: a small
/// file of a tree, on a filesystem with a device of its own, whose attributes stay as the kernel made them. Spares each of
/// them a system call.
fn need_not_look(cx: RunContext<'_>, subject: &Subject<'_>, state: &DestState, source_inode: &Inode) -> Option<Inode> {
    let plan = cx.plan;
    let plain = plan.preserve == Preserve::default()
        && plan.context == ContextRule::Default
        && plan.data.engine == EngineChoice::Auto
        && plan.data.sparse == Sparse::Auto
        && !plan.uses_temporary_file()
        && !state.temporary;
    let [_, device] = subject.level.ancestors.last()?.devices();
    (plain && device.major != 0 && source_inode.size < SMALL).then(|| Inode::just_made(device))
}

/// Opens what stands there, without truncating it: first it must be known that it is not the source.
fn open_existing(
    cx: RunContext<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<(OwnedFd, bool, NewEntries), Errno> {
    let was_link = state.existing.as_ref().is_none_or(|existing| existing.entry.kind == Kind::SymbolicLink);
    let flags = if was_link { OFlags::WRONLY } else { OFlags::WRONLY | OFlags::NOFOLLOW };
    // Only who names a FIFO, to write to that, means to wait for somebody who reads it.
    let means_it = !cx.plan.recursive && !cx.plan.uses_temporary_file();
    let opened = match state.existing.as_ref().map(|existing| existing.target.kind) {
        Some(Kind::Regular) => open_without_waiting(subject.dest, flags)?,
        Some(Kind::Fifo) if !means_it => open_without_waiting(subject.dest, flags)?,
        _ => subject.dest.open(flags, 0)?,
    };
    Ok((opened, false, NewEntries::UNKNOWN))
}

/// Makes it. No error if it must not be made any more.
pub(crate) fn create(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (source, source_inode): (&OwnedFd, &Inode),
) -> Result<(OwnedFd, bool, NewEntries), Option<Error>> {
    let (cx, dest) = (worker.cx, subject.dest);
    if !cx.session.partials.intend(dest, subject.sides) {
        return Err(None);
    }
    let mode = |entries: &NewEntries| creation_mode(cx, state, source_inode, entries);
    let access = if cx.plan.verify == Verify::Off { OFlags::WRONLY } else { OFlags::RDWR };
    let layout = striping::wanted(cx, subject, (source, source_inode));
    let objects = if layout.is_some() { WITHOUT_OBJECTS } else { OFlags::empty() };
    let flags = access | OFlags::CREATE | OFlags::EXCL | objects;
    let errno = match cx.services.space_gate.with_space(|| dest.open(flags, mode(&state.entries))) {
        Ok(made) => {
            let striped = match &layout {
                Some(layout) => striping::stripe(worker, dest, (made, access), layout),
                None => Ok(made),
            };
            return striped.map(|opened| (opened, true, state.entries)).map_err(|errno| {
                cx.session.partials.done();
                // Nobody could write to it. What cannot be removed is empty, and the error is reported.
                dest.unlink().ok();
                Some(Error::new(What::CannotCreateRegular, dest.path).errno(errno))
            });
        }
        Err(errno) => errno,
    };
    cx.session.partials.done();
    let error = Error::new(What::CannotCreateRegular, dest.path);
    if errno == Errno::EXIST && dest.read_link().is_ok() {
        if !cx.plan.write_through_dangling_link {
            return Err(Some(Error::new(What::DanglingLink, dest.path)));
        }
        // It is made in another directory.
        let entries = NewEntries::UNKNOWN;
        return match dest.open(OFlags::WRONLY | OFlags::CREATE, mode(&entries)) {
            // Somebody may have made it meanwhile: then it is an existing one, and is truncated.
            Ok(opened) => {
                let empty = Inode::of(opened.as_fd()).is_ok_and(|inode| inode.size == 0);
                Ok((opened, empty, entries))
            }
            Err(errno) => Err(Some(error.errno(errno))),
        };
    }
    // A name that ends in a slash cannot be a file's; EISDIR would sound as if there were a directory.
    let slash = dest.name.as_encoded_bytes().last() == Some(&b'/');
    Err(Some(error.errno(if errno == Errno::ISDIR && slash { Errno::NOTDIR } else { errno })))
}

/// The mode that a new file is made with.
pub(crate) fn creation_mode(cx: RunContext<'_>, state: &DestState, source_inode: &Inode, entries: &NewEntries) -> u32 {
    match state.replaced {
        // It gets that of the old one, which may be narrower than the source's.
        Some(_) => 0o600,
        None => cx.creation_mode(Kind::Regular, source_inode, entries),
    }
}

/// The mode that a file which an earlier run has begun would have if it had just been made.
fn mode_as_new(cx: RunContext<'_>, adopted: &Adopted, state: &DestState, source_inode: &Inode) -> u32 {
    let preserve = &cx.plan.preserve;
    let as_made = state.replaced.is_none() && preserve.mode == ModeRule::Default && !preserve.ownership;
    match as_made {
        true => adopted.inode.permissions & !SPECIAL_RIGHTS,
        false => creation_mode(cx, state, source_inode, &NewEntries::UNKNOWN) & !cx.services.caller.umask,
    }
}

/// Goes on with such a file, with this mode.
fn go_on_with(
    worker: &mut Worker<'_>,
    adopted: Adopted,
    mode: u32,
    path: &Path,
    unfinished: &mut Unfinished,
) -> Option<OpenDest> {
    let Adopted { fd, inode, prefix, source } = adopted;
    // What has changed since the look is another source.
    let start = if unfinished.print == Some(source) { prefix } else { 0 };
    if start < prefix && !take_back_beginning(worker, source, &inode, unfinished) {
        return None;
    }
    let prepared = Object { fd: fd.as_fd(), path_only: false }
        .set_mode(mode)
        .and_then(|()| retry_on_intr(|| ftruncate(&fd, start)))
        .and_then(|()| Inode::of(fd.as_fd()));
    let inode = worker.report.check(prepared, What::CannotCreateRegular, path).ok()?;
    unfinished.start = start;
    worker.report.stats.resumed_bytes += start;
    worker.report.tell(&Event::Spared { bytes: start, whole: false });
    let (fd, entries) = (Arc::new(fd), NewEntries::UNKNOWN);
    Some(OpenDest { fd, inode, known: true, created: true, replaced: false, entries })
}

/// Writes down that nothing is on the device of a beginning that is about to be cut. False if that was not possible.
fn take_back_beginning(
    worker: &mut Worker<'_>,
    source: Fingerprint,
    file: &Inode,
    unfinished: &mut Unfinished,
) -> bool {
    let (Some(progress), Some(home), Some(number)) =
        (worker.cx.services.progress.get(), unfinished.home, unfinished.number)
    else {
        return false;
    };
    let source = Fingerprint::of_beginning(source, home);
    let record = Record::Partial { source, file: Fingerprint::of_file(file), number, prefix: 0 };
    let noted = progress.journal.append(&[record]).and_then(|()| progress.journal.sync());
    let noted = worker.report.check(noted, What::JournalEnds, &progress.path).is_ok();
    unfinished.left &= !noted;
    noted
}

/// Whether nothing is wrong with the file itself.
fn is_of_process(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR)
}

/// `O_NOATIME`, where the plan wants that of sources, and the kernel lets the caller have it.
pub(crate) fn noatime(cx: RunContext<'_>, source: &Inode) -> OFlags {
    let caller = cx.services.caller;
    let may = caller.privileged() || caller.user == source.user;
    if cx.plan.open_noatime && may { OFlags::NOATIME } else { OFlags::empty() }
}

/// Opens a regular file of which nothing but its type in the directory is known. Whatever goes wrong, or turns out to be
/// something else, is an error without a meaning: look at it in the ordinary way.
pub(crate) fn open_regular(source: Spot<'_>, follow: bool, plan: &Plan) -> Result<(OwnedFd, Inode), Errno> {
    let quietly = if plan.open_noatime { OFlags::NOATIME } else { OFlags::empty() };
    let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let opened = open_at_once(source, OFlags::RDONLY | no_follow | quietly)?;
    let inode = Inode::of(opened.as_fd())?;
    if inode.kind != Kind::Regular {
        return Err(Errno::STALE);
    }
    if plan.data.engine != EngineChoice::Auto || !ignores_nonblock(&inode) {
        wait_from_now_on(&opened, quietly)?;
    }
    Ok((opened, inode))
}

/// Whether reading behaves as if O_NONBLOCK were not set: a small file of a filesystem with a device of its own, which is
/// read and not sent through io_uring. Spares each of them a system call.
pub(crate) fn ignores_nonblock(inode: &Inode) -> bool {
    inode.id.device().major != 0 && inode.size < SMALL
}

/// Whether a file may get another number when it is opened for writing: an overlay copies it up then.
fn renumbers(file: BorrowedFd<'_>) -> bool {
    FilesystemType::of(file) == Ok(FilesystemType::OVERLAY)
}

/// If it is a FIFO, or was replaced by one meanwhile, opening must not wait for the other end: ENXIO where nobody reads what
/// would be written.
pub(crate) fn open_without_waiting(spot: Spot<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let opened = open_at_once(spot, flags)?;
    wait_from_now_on(&opened, flags)?;
    Ok(opened)
}

/// Takes `O_NONBLOCK` away, and leaves `O_NOATIME` if it is there, which it may be if it is one of these flags.
fn wait_from_now_on(opened: &OwnedFd, flags: OFlags) -> Result<(), Errno> {
    let kept = match flags.contains(OFlags::NOATIME) {
        true => fcntl_getfl(opened)? & OFlags::NOATIME,
        false => OFlags::empty(),
    };
    fcntl_setfl(opened, kept)
}

pub(crate) fn open_at_once(spot: Spot<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let open = |flags: OFlags| match flags.contains(OFlags::NOATIME) {
        true => spot.open_noatime(flags),
        false => spot.open(flags, 0),
    };
    match open(flags | OFlags::NONBLOCK) {
        // Somebody holds a lease and is asked to give it up: wait for that, as an ordinary open does.
        Err(Errno::AGAIN) => open(flags),
        opened => opened,
    }
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
