//! Regular files: open both sides, move the data, set the attributes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fcntl_setfl, fstatfs, ftruncate};
use haul_sys::rustix::io::retry_on_intr;

use super::attributes::{Keep, ReplacedFile, Set};
use super::check::ReadAgain;
use super::entry::Subject;
use super::existing::Clear;
use super::free_space;
use super::images::Looked;
use super::temporary_file::Unfinished;
use super::{Reported, Run};
use crate::error::{Error, What};
use crate::facts::{FileId, Inode, Kind};
use crate::journal::Fingerprint;
use crate::meta::{self, NewEntries, Object};
use crate::plan::{ContextRule, EngineChoice, Preserve, Reflink, Sparse, Verify};
use crate::strategy::SMALL;
use crate::transfer::{Broken, Checkpoints, Peers, Transfer};
use crate::verify::Checked;
use crate::walk::{Identity, Spot};

/// What came of a file that was made.
#[derive(Debug, Default)]
pub(super) struct FileOutcome {
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

/// An open destination.
pub(super) struct Opened {
    pub fd: OwnedFd,
    pub inode: Inode,
    /// The inode was asked for; otherwise it is [`Inode::just_made`].
    pub known: bool,
    pub created: bool,
    /// An old one was removed just now, since it could not be opened.
    pub replaced: bool,
    /// What was known of the directory when it was made.
    pub entries: NewEntries,
}

impl<'a> Run<'a> {
    /// Copies the contents and attributes of a file into a regular file, or whatever stands at the destination.
    pub(super) fn copy_regular(
        &mut self,
        subject: &mut Subject<'_>,
        clear: &Clear,
        unfinished: &mut Unfinished,
    ) -> Result<FileOutcome, Reported> {
        let started = Instant::now();
        let (source, source_inode) = match subject.opened.take() {
            Some(opened) => (opened, subject.inode),
            None => self.open_regular_source(subject)?,
        };
        let subject = &*subject;
        unfinished.print = self.fingerprint_of(source.as_fd(), &source_inode);
        let dest = self.destination_of(subject, clear, &source_inode, unfinished)?;
        let source = Arc::new(source);
        let Opened { fd, inode, known, created, replaced, entries } = dest;
        if known {
            self.will_write_to(inode.id.device(), subject.dest.path, fd.as_fd());
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
            self.cx.attributes().prepare(&keep(&source_inode), &mut self.worker.report);
        }
        let has_contents = !created && clear.identity == Identity::DoubtfulAndFixed;
        let copied = match self.cx.plan.attributes_only {
            true => self.lacks_nothing(source_inode),
            false if has_contents => self.touch(subject, &fd).then_some((source_inode, Checked::default())),
            false => self.fill(subject, (&source, &source_inode), (&fd, &inode, created), unfinished),
        };
        let moved = Instant::now();
        self.worker.report.stats.data_time += moved - started;
        if copied.is_none() && replaced {
            self.worker.report.warning(&Error::new(What::Lost, subject.dest.path));
        }
        let (copied, checked) = copied.ok_or(Reported)?;
        // With `--resume` it stays for the next run.
        if clear.staged && unfinished.number.is_none() {
            self.cx.session.partials.is_nameless(subject.dest, subject.sides, inode.id);
        }
        if !clear.staged && !self.judge_in_place(fd.as_fd(), &inode, subject.dest.path, &checked) {
            return Err(Reported);
        }
        // A second attempt was of a source that nobody had seen settle.
        let copied_again = copied.changed != source_inode.changed || copied.modified != source_inode.modified;
        let source_inode = copied;
        self.worker.report.stats.regular += 1;
        let found;
        let mut keep = keep(&source_inode);
        if let Some(replaced) = &clear.replaced {
            found = self.inherit_or_give_up(subject.dest, &keep, replaced, unfinished)?;
            // From here on it is a file that was found there.
            keep = Keep { created: false, dest_inode: &found, ..keep };
        }
        // What could not be kept is told. Under the name of the meantime a whole file is of no use to anybody.
        let Set { kept: attributes_kept, deferred } =
            self.cx.attributes().set_of_file(&keep, clear.staged, &mut self.worker.report);
        self.worker.report.stats.metadata_time += moved.elapsed();
        let as_seen = attributes_kept && deferred.is_none() && !copied_again;
        self.worker.deferred.extend(deferred);
        self.sync_early(&inode);
        let unsynced = self.let_go(subject, clear, (fd, inode, created), unfinished)?;
        if !attributes_kept && !clear.staged {
            return Err(Reported);
        }
        let id = known.then_some(inode.id);
        let source = unfinished.print.filter(|_| as_seen);
        Ok(FileOutcome { id, checked, attributes_kept, unsynced, source })
    }

    /// Gives a new file what the old one had, or removes it; how the new one is then.
    fn inherit_or_give_up(
        &mut self,
        dest: Spot<'_>,
        keep: &Keep<'_>,
        replaced: &ReplacedFile,
        unfinished: &Unfinished,
    ) -> Result<Inode, Reported> {
        if self.cx.attributes().of_replaced(keep, replaced, &mut self.worker.report) {
            return Ok(Inode::of(keep.dest.fd).unwrap_or(*keep.dest_inode));
        }
        let error = Some(Error::new(What::NotTakenOver, keep.dest_path));
        self.give_up(dest, keep.dest_inode, (keep.created, unfinished), Broken { error });
        Err(Reported)
    }

    fn destination_of(
        &mut self,
        subject: &Subject<'_>,
        clear: &Clear,
        source_inode: &Inode,
        unfinished: &mut Unfinished,
    ) -> Result<Opened, Reported> {
        let opened = self.open_regular_destination(subject, clear, source_inode, unfinished);
        if opened.is_none() {
            self.cx.session.partials.done();
        }
        opened.ok_or(Reported)
    }

    /// A file that gets no data is whole when it is made.
    fn lacks_nothing(&self, source_inode: Inode) -> Option<(Inode, Checked)> {
        self.cx.session.partials.done();
        Some((source_inode, Checked::default()))
    }

    /// Closes a whole copy, or gives it back if it must stay open until it is on its device. An error if it turned out not to
    /// be whole.
    fn let_go(
        &mut self,
        subject: &Subject<'_>,
        clear: &Clear,
        dest: (Arc<OwnedFd>, Inode, bool),
        unfinished: &Unfinished,
    ) -> Result<Option<(OwnedFd, FileId)>, Reported> {
        let (fd, inode, created) = dest;
        // That of a block device tells nothing of what could not be written back (Linux 6.18), so it is asked first.
        let alone = inode.kind == Kind::BlockDevice || self.syncs_alone(inode.id.device());
        let waits = clear.staged && self.cx.names_wait();
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
                self.give_up(subject.dest, &inode, (created, unfinished), Broken { error: Some(error) });
                Err(Reported)
            }
        }
    }

    fn open_regular_source(&mut self, subject: &Subject<'_>) -> Result<(OwnedFd, Inode), Reported> {
        let path = subject.source.path;
        let mut flags = OFlags::RDONLY;
        if !subject.follow {
            flags |= OFlags::NOFOLLOW;
        }
        let opened = match subject.inode.kind {
            Kind::Regular => open_without_waiting(subject.source, flags),
            _ => subject.source.open(flags, 0),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(errno) => return Err(self.worker.report.fail(Error::new(What::CannotOpen, path).errno(errno))),
        };
        match Inode::of(opened.as_fd()) {
            Ok(inode) if inode.is_same_file_as(&subject.inode) => Ok((opened, inode)),
            Ok(_) => Err(self.worker.report.fail(Error::new(What::ReplacedWhileCopied, path))),
            Err(errno) => Err(self.worker.report.fail(Error::new(What::CannotFstat, path).errno(errno))),
        }
    }

    fn open_regular_destination(
        &mut self,
        subject: &Subject<'_>,
        clear: &Clear,
        source_inode: &Inode,
        unfinished: &mut Unfinished,
    ) -> Option<Opened> {
        let dest = subject.dest;
        if let Some(adopted) = unfinished.adopted.take() {
            return self.go_on_with(adopted, subject, clear, source_inode, unfinished);
        }
        let mut replaced = false;
        let opened = if clear.new {
            self.create(subject, clear, source_inode)
        } else {
            match self.open_existing(subject, clear) {
                Err(Errno::NOENT) => self.create(subject, clear, source_inode),
                Err(_) if self.cx.plan.force => {
                    if !self.remove(dest) {
                        return None;
                    }
                    replaced = true;
                    self.create(subject, clear, source_inode)
                }
                opened => opened.map_err(|errno| Some(Error::new(What::CannotCreateRegular, dest.path).errno(errno))),
            }
        };
        let (fd, created, entries) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.worker.report.failed = true;
                if let Some(error) = error {
                    self.worker.report.problem(error);
                }
                if replaced {
                    self.worker.report.warning(&Error::new(What::Lost, dest.path));
                }
                return None;
            }
        };
        if let Some(inode) = created.then(|| self.need_not_look(subject, clear, source_inode)).flatten() {
            return Some(Opened { fd, inode, known: false, created, replaced, entries });
        }
        let inode = match Inode::of(fd.as_fd()) {
            Ok(inode) => inode,
            Err(errno) => {
                let error = Error::new(What::CannotFstat, dest.path).errno(errno);
                self.give_up_unseen(dest, &fd, (created, unfinished), error);
                if replaced {
                    self.worker.report.warning(&Error::new(What::Lost, dest.path));
                }
                return None;
            }
        };
        if inode.id == source_inode.id && inode.kind == Kind::Regular {
            // The names were checked before; this is what they lead to now. Nothing has been written yet.
            self.worker.report.problem(Error::new(What::SameFile, subject.source.path).and(dest.path));
            return None;
        }
        if let Some(existing) = clear.existing.filter(|_| !created)
            && existing.target.kind == Kind::Regular
            && !(inode.is_same_file_as(&existing.target) || inode.kind == Kind::Regular && renumbers(fd.as_fd()))
        {
            self.worker.report.problem(Error::new(What::ReplacedWhileCopied, dest.path));
            return None;
        }
        Some(Opened { fd, inode, known: true, created, replaced, entries })
    }

    /// What may be taken for granted of a destination that was just made, where nothing else will be asked of it: a small
    /// file of a tree, on a filesystem with a device of its own, whose attributes stay as the kernel made them. Spares each of
    /// them a system call.
    fn need_not_look(&self, subject: &Subject<'_>, clear: &Clear, source_inode: &Inode) -> Option<Inode> {
        let plan = self.cx.plan;
        let plain = plan.preserve == Preserve::default()
            && plan.context == ContextRule::Default
            && plan.engine == EngineChoice::Auto
            && plan.sparse == Sparse::Auto
            && !plan.is_staged()
            && !clear.staged;
        let device = subject.dest_device.filter(|device| device.major != 0)?;
        (plain && source_inode.size < SMALL).then(|| Inode::just_made(device))
    }

    /// Opens what stands there, without truncating it: first it must be known that it is not the source.
    fn open_existing(&self, subject: &Subject<'_>, clear: &Clear) -> Result<(OwnedFd, bool, NewEntries), Errno> {
        let was_link = clear.existing.is_none_or(|existing| existing.entry.kind == Kind::SymbolicLink);
        let flags = if was_link { OFlags::WRONLY } else { OFlags::WRONLY | OFlags::NOFOLLOW };
        // Only who names a FIFO, to write to that, means to wait for somebody who reads it.
        let means_it = !self.cx.plan.recursive && !self.cx.plan.is_staged();
        let opened = match clear.existing.map(|existing| existing.target.kind) {
            Some(Kind::Regular) => open_without_waiting(subject.dest, flags)?,
            Some(Kind::Fifo) if !means_it => open_without_waiting(subject.dest, flags)?,
            _ => subject.dest.open(flags, 0)?,
        };
        Ok((opened, false, NewEntries::UNKNOWN))
    }

    /// Makes it. No error if it must not be made any more.
    fn create(
        &self,
        subject: &Subject<'_>,
        clear: &Clear,
        source_inode: &Inode,
    ) -> Result<(OwnedFd, bool, NewEntries), Option<Error>> {
        let dest = subject.dest;
        if !self.cx.session.partials.intend(dest, subject.sides) {
            return Err(None);
        }
        let mode = |entries: &NewEntries| self.creation_mode(clear, source_inode, entries);
        let access = if self.cx.plan.verify == Verify::Off { OFlags::WRONLY } else { OFlags::RDWR };
        let flags = access | OFlags::CREATE | OFlags::EXCL;
        let errno = match self.cx.services.space_gate.with_space(|| dest.open(flags, mode(&clear.entries))) {
            Ok(opened) => return Ok((opened, true, clear.entries)),
            Err(errno) => errno,
        };
        self.cx.session.partials.done();
        let error = Error::new(What::CannotCreateRegular, dest.path);
        if errno == Errno::EXIST && dest.read_link().is_ok() {
            if !self.cx.plan.write_through_dangling_link {
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
    pub(super) fn creation_mode(&self, clear: &Clear, source_inode: &Inode, entries: &NewEntries) -> u32 {
        match clear.replaced {
            // It gets that of the old one, which may be narrower than the source's.
            Some(_) => 0o600,
            None => {
                let (preserve, caller) = (&self.cx.plan.preserve, self.cx.services.caller);
                meta::creation_mode(Kind::Regular, source_inode, entries, preserve, caller).mode
            }
        }
    }

    /// Moves the data; on failure cleans up and reports. Returns the source as it was when its data was copied, and what reading
    /// it again has found.
    fn fill(
        &mut self,
        subject: &Subject<'_>,
        (source, source_inode): (&Arc<OwnedFd>, &Inode),
        (dest, dest_inode, created): (&Arc<OwnedFd>, &Inode, bool),
        unfinished: &mut Unfinished,
    ) -> Option<(Inode, Checked)> {
        let mut copied = *source_inode;
        let peers = subject.remote.map(|remote| remote.with_copy(subject.dest.name));
        let mut job = Transfer {
            source: Arc::clone(source),
            dest: Arc::clone(dest),
            source_inode,
            dest_inode,
            source_path: subject.source.path,
            dest_path: subject.dest.path,
            source_dir: subject.source.dir().ok(),
            image: None,
            follower: None,
            start: 0,
            checkpoints: None,
            peers: peers.as_ref().map(|peers| peers as &dyn Peers),
        };
        let shared = self.cx.services;
        let checkpoints = self.checkpoints(&job, unfinished);
        job.start = unfinished.start;
        job.checkpoints = checkpoints.as_ref();
        let regular = dest_inode.kind == Kind::Regular;
        if regular && created && checkpoints.is_none() {
            // A look at a disk image may take a moment, and a new file must not stay behind if it is stopped.
            self.cx.session.partials.begin(subject.dest, subject.sides, dest, created);
        } else {
            self.cx.session.partials.done(); // With checkpoints it stays for the next run.
        }
        let mut looked = match self.look_for_free(&job, created, &shared.images) {
            Ok(looked) => looked,
            Err(error) => {
                self.refuse(subject.dest, (dest, dest_inode), (created, unfinished), error);
                return None;
            }
        };
        if regular && !created && !self.empty(subject, (source, source_inode), (dest, dest_inode)) {
            return None;
        }
        if regular && !created {
            // Of a device or a FIFO there is nothing to remove.
            self.cx.session.partials.begin(subject.dest, subject.sides, dest, created);
        }
        let whole_image = looked.take_if(|looked| looked.found.is_none());
        job.image = whole_image.as_ref().map(|looked| &looked.report);
        let before = self.worker.report.stats.moved;
        let (result, room) = self.move_with_room(&mut job, looked.as_deref_mut());
        let result = match looked.is_some() {
            // The copy of an image looks for itself.
            true => result,
            false => result.and_then(|read| self.settle_changes(&job, &mut copied, before, read)),
        };
        let whole = match result.and_then(|read| Self::settle_check(&job, read)) {
            Ok(checked) => {
                unfinished.left = false;
                if let Some(looked) = looked.or(whole_image) {
                    self.worker.report.stats.count_image(&looked.report);
                }
                Some((copied, checked))
            }
            Err(broken) => {
                unfinished.left = checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.noted() > 0);
                let inode = Inode::of(dest.as_fd()).unwrap_or(*dest_inode);
                self.give_up(subject.dest, &inode, (created, unfinished), broken);
                None
            }
        };
        self.cx.session.partials.done();
        // Not before a file that does not fit was removed.
        drop(room);
        whole
    }

    /// Moves the data; once more if there was no room for it while others were at work. What is held of the room is to be
    /// dropped when the file is whole or gone.
    fn move_with_room(
        &mut self,
        job: &mut Transfer<'_>,
        mut looked: Option<&mut Looked<'_>>,
    ) -> (Result<ReadAgain, Broken>, free_space::Held<'a>) {
        let room: &'a free_space::FreeSpaceGate = &self.cx.services.space_gate;
        let together = room.together();
        let result = self.move_data(job, looked.as_deref_mut());
        if job.dest_inode.kind != Kind::Regular
            || !free_space::ran_out(&result)
            || !self.cx.services.space_gate.has_company()
        {
            return (result, free_space::Held::Together(together));
        }
        job.start = job.checkpoints.map_or(0, Checkpoints::noted);
        if let Some(checkpoints) = job.checkpoints {
            checkpoints.begin_again();
        }
        // If that fails, there is only less room for the next attempt.
        retry_on_intr(|| ftruncate(&job.dest, job.start)).ok();
        drop(together);
        let alone = free_space::Held::Alone(room.alone());
        if !free_space::would_fit(&job.dest, job.source_inode) {
            return (result, alone);
        }
        (self.move_data(job, looked), alone)
    }

    /// Leaves a file as it is that has the contents of the source already, and may be the source: it looks as if it had been
    /// written to.
    fn touch(&mut self, subject: &Subject<'_>, dest: &OwnedFd) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: now };
        match (Object { fd: dest.as_fd(), path_only: false }).set_times(&times) {
            Ok(()) => true,
            Err(errno) => self.worker.report.problem(Error::new(What::PreservingTimes, subject.dest.path).errno(errno)),
        }
    }

    /// Makes an existing file empty, unless that is known to be in vain.
    fn empty(
        &mut self,
        subject: &Subject<'_>,
        (source, source_inode): (&OwnedFd, &Inode),
        (dest, dest_inode): (&OwnedFd, &Inode),
    ) -> bool {
        // A refusal must leave the old contents alone, so it is provoked before they go.
        if self.cx.plan.reflink == Reflink::Always
            && let Err(errno) = can_share(source, dest)
        {
            let error = Error::new(What::CloneFailed, subject.dest.path).and(subject.source.path);
            return self.worker.report.problem(error.errno(errno));
        }
        if let Err(errno) = retry_on_intr(|| ftruncate(dest, 0)) {
            self.worker.report.problem(Error::new(What::CannotCreateRegular, subject.dest.path).errno(errno));
            // It may have been done all the same (FUSE, network filesystems).
            if !Inode::of(dest.as_fd()).is_ok_and(|inode| inode.size > 0) {
                self.worker.report.damage(subject.dest.path);
            }
            return false;
        }
        if let Some(mode) = meta::while_written(dest_inode, source_inode, &self.cx.plan.preserve)
            && mode != dest_inode.permissions
        {
            // Where this is not possible, neither is what follows the data, and that is told then.
            Object { fd: dest.as_fd(), path_only: false }.set_mode(mode).ok();
        }
        true
    }

    /// Nothing happens to what stands there; a new file is removed.
    fn refuse(
        &mut self,
        place: Spot<'_>,
        (dest, inode): (&OwnedFd, &Inode),
        (created, unfinished): (bool, &Unfinished),
        error: Error,
    ) {
        if created {
            let inode = Inode::of(dest.as_fd()).unwrap_or(*inode);
            self.give_up(place, &inode, (created, unfinished), Broken { error: Some(error) });
            self.cx.session.partials.done();
        } else {
            self.worker.report.problem(error);
        }
    }

    /// A destination that cannot be looked at: a new one must not stay behind empty.
    fn give_up_unseen(
        &mut self,
        place: Spot<'_>,
        dest: &OwnedFd,
        (created, unfinished): (bool, &Unfinished),
        error: Error,
    ) {
        match Inode::of(dest.as_fd()) {
            Ok(inode) if created => {
                self.give_up(place, &inode, (created, unfinished), Broken { error: Some(error) });
            }
            _ => {
                self.worker.report.problem(error);
                if created {
                    self.worker.report.damage(place.path);
                }
            }
        }
    }

    fn move_data(&mut self, job: &Transfer<'_>, looked: Option<&mut Looked<'_>>) -> Result<ReadAgain, Broken> {
        match looked {
            Some(looked) => self.move_image(job, looked).map(|()| Ok(Checked::default())),
            None => self.move_and_check(job),
        }
    }

    /// Moves the data once more, of a source that looks like this now.
    pub(super) fn move_again(&mut self, job: &Transfer<'_>, source_inode: &Inode) -> Result<ReadAgain, Broken> {
        // What was noted is of the source as it was.
        self.move_and_check(&Transfer { source_inode, start: 0, checkpoints: None, ..job.clone() })
    }

    /// The data could not be moved whole: a new file is removed, an overwritten one is named as damaged.
    fn give_up(&mut self, dest: Spot<'_>, inode: &Inode, (created, unfinished): (bool, &Unfinished), broken: Broken) {
        if let Some(error) = broken.error {
            self.worker.report.problem(error);
        } else {
            self.worker.report.failed = true;
        }
        if created && inode.kind == Kind::Regular {
            if !self.cx.plan.remove_partial || unfinished.left {
                return;
            }
            let removed = match dest.inode() {
                Ok(now) if now.is_same_file_as(inode) => dest.unlink(),
                // Made through a link, or moved: the name is not the file's.
                Ok(_) | Err(Errno::NOENT) => return self.worker.report.damage(dest.path),
                Err(errno) => Err(errno),
            };
            if let Err(errno) = removed {
                self.worker.report.problem(Error::new(What::CannotRemovePartial, dest.path).errno(errno));
            }
        } else if inode.kind == Kind::Regular {
            self.worker.report.damage(dest.path);
        }
    }
}

/// Opens a regular file of which nothing but its type in the directory is known. Whatever goes wrong, or turns out to be
/// something else, is an error without a meaning: look at it in the ordinary way.
pub(super) fn open_regular(source: Spot<'_>, engine: EngineChoice) -> Result<(OwnedFd, Inode), Errno> {
    let opened = open_at_once(source, OFlags::RDONLY | OFlags::NOFOLLOW)?;
    let inode = Inode::of(opened.as_fd())?;
    if inode.kind != Kind::Regular {
        return Err(Errno::STALE);
    }
    if engine != EngineChoice::Auto || !ignores_nonblock(&inode) {
        fcntl_setfl(&opened, OFlags::empty())?;
    }
    Ok((opened, inode))
}

/// Whether reading behaves as if O_NONBLOCK were not set: a small file of a filesystem with a device of its own, which is
/// read and not sent through io_uring. Spares each of them a system call.
fn ignores_nonblock(inode: &Inode) -> bool {
    inode.id.device().major != 0 && inode.size < SMALL
}

/// Whether a file may get another number when it is opened for writing: an overlay copies it up then.
fn renumbers(file: BorrowedFd<'_>) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    fstatfs(file).is_ok_and(|filesystem| u64::try_from(filesystem.f_type) == Ok(OVERLAY))
}

/// If it is a FIFO, or was replaced by one meanwhile, opening must not wait for the other end: ENXIO where nobody reads what
/// would be written.
pub(super) fn open_without_waiting(spot: Spot<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let opened = open_at_once(spot, flags)?;
    fcntl_setfl(&opened, OFlags::empty())?;
    Ok(opened)
}

fn open_at_once(spot: Spot<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    match spot.open(flags | OFlags::NONBLOCK, 0) {
        // Somebody holds a lease and is asked to give it up: wait for that, as an ordinary open does.
        Err(Errno::AGAIN) => spot.open(flags, 0),
        opened => opened,
    }
}

/// Whether two files can share extents at all. Asks for a range that no filesystem grants, since it begins within a block:
/// one that can share says EINVAL, and nothing has changed.
fn can_share(source: &OwnedFd, dest: &OwnedFd) -> Result<(), Errno> {
    match Linux.clone_range(source.as_fd(), dest.as_fd(), 1, 1) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno),
    }
}
