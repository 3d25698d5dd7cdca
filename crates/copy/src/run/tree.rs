//! Directories: made before what they hold, finished after it, with a bounded number of descriptors at any depth.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::rustix::fs::{FileType, Mode, OFlags, openat};

use super::Run;
use super::attributes::Keep;
use super::entry::{Level, Step, Subject, Top, made_at};
use super::existing::Clear;
use super::ordered::Segment;
use super::peers::ReplyHandle;
use super::precreate::unmake;
use super::share::Tally;
use crate::error::{Error, What};
use crate::events::Event;
use crate::facts::{DeviceNumber, FileId, Inode, Kind};
use crate::links::DestDir;
use crate::manifest::Index;
use crate::meta::{self, NewEntries, Object};
use crate::publish::Sides;
use crate::walk::{Listed, Listing, PathNode, Spot, last_component};

/// Permissions of the owner, and of all others.
const OWNER: u32 = 0o700;
const OTHERS: u32 = 0o077;

/// A directory of the source and its copy: what does not change while it is being copied.
pub(super) struct Place {
    /// The source as it was when it was entered.
    pub source_inode: Inode,
    /// The destination directory just after it was made, or as it was found.
    pub dest_inode: Inode,
    /// What is known of entries that we make in the destination.
    pub entries: NewEntries,
    /// The source was opened with `O_PATH`.
    pub source_path_only: bool,
    pub dir: Arc<DestDir>,
    /// We made it, in this run or (`--resume`) in an earlier one.
    pub created: bool,
    /// We made it in this run: nothing can be in it but what we put there.
    pub fresh: bool,
    pub source_path: Arc<PathNode>,
    pub dest_path: Arc<PathNode>,
    /// Its number in the list of what is to be copied, if there is one.
    pub listed: Option<Index>,
    /// Another process could not begin with names of it: it gets no others.
    pub stays: AtomicBool,
}

/// The directory of the destination, open.
struct Home {
    fd: OwnedFd,
    inode: Inode,
    created: bool,
    fresh: bool,
}

/// A directory whose contents are being copied, or a part of them.
pub(super) struct Frame {
    place: Arc<Place>,
    sides: Option<Arc<Sides>>,
    listing: Listing,
    /// One side was reached through a symbolic link: its `..` is not the directory that it was found in.
    through_link: bool,
    /// Its contents are not wanted, or cannot be read.
    finished: bool,
    /// It is a part of a directory that another thread has entered, and that is not finished here.
    is_part: bool,
    /// Parts in other hands, and directories in it that wait for such parts.
    pub tally: Option<Arc<Tally>>,
    /// Where messages go on after the parts that were given away from this batch of names.
    pub resume: Option<Segment>,
    /// Another process has given it to us, and sets its attributes.
    pub reply: Option<ReplyHandle>,
}

impl Frame {
    /// Whether it made this directory of the destination.
    pub(super) fn is_filling(&self, dest: FileId) -> bool {
        self.place.created && self.place.dest_inode.id == dest
    }

    /// It was made by this run, or by another one of the same command.
    pub(super) fn is_created(&self) -> bool {
        self.place.created
    }

    /// Its number in the list of what is to be copied.
    pub(super) fn listed(&self) -> Option<Index> {
        self.place.listed
    }

    /// The directory of the destination, to be opened again.
    pub(super) fn dest_dir(&self) -> &Arc<DestDir> {
        &self.place.dir
    }

    /// The identity of the source.
    pub(super) fn source_id(&self) -> FileId {
        self.place.source_inode.id
    }

    /// What is known of entries that we make in the destination.
    pub(super) fn entries(&self) -> NewEntries {
        self.place.entries
    }

    /// The filesystems of both sides.
    pub(super) fn devices(&self) -> [DeviceNumber; 2] {
        [self.place.source_inode.id.device(), self.place.dest_inode.id.device()]
    }

    /// Both directories, as long as they are held open.
    pub(super) fn sides(&self) -> Option<[BorrowedFd<'_>; 2]> {
        self.sides.as_ref().map(|sides| [sides.source.as_fd(), sides.dest.as_fd()])
    }

    /// Whether another thread can take a part of it, while this one is `busy` in a directory below it or not.
    pub(super) fn has_names_to_share(&self, busy: bool) -> bool {
        self.place.fresh && !self.finished && self.sides.is_some() && self.listing.can_be_split(busy)
    }

    /// Half of the names that are left, for another thread.
    pub(super) fn split(&mut self) -> Frame {
        Frame {
            place: Arc::clone(&self.place),
            sides: self.sides.clone(),
            listing: self.listing.split(),
            through_link: self.through_link,
            finished: false,
            is_part: true,
            tally: Some(Arc::clone(self.tally.get_or_insert_default())),
            resume: None,
            reply: None,
        }
    }

    /// Names of a directory that another process has made.
    pub(super) fn received(place: Place, sides: Sides, listing: Listing, reply: ReplyHandle) -> Frame {
        Frame {
            place: Arc::new(place),
            sides: Some(Arc::new(sides)),
            listing,
            through_link: false,
            finished: false,
            is_part: false,
            tally: None,
            resume: None,
            reply: Some(reply),
        }
    }

    /// What does not change.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The names that were read and not visited, and where they are, if that is open.
    pub(super) fn names(&mut self) -> (&Place, Option<&Sides>, impl Iterator<Item = &mut Listed>) {
        (&self.place, self.sides.as_deref(), self.listing.names())
    }

    /// Takes the names out that it has.
    pub(super) fn take_names(&mut self) -> Vec<Listed> {
        self.listing.take_names()
    }

    /// Puts them in.
    pub(super) fn set_names(&mut self, names: Vec<Listed>) {
        self.listing = Listing::of(names);
    }

    /// Undoes [`Frame::split`].
    pub(super) fn take_back(&mut self, part: Frame) {
        self.listing.join(part.listing);
    }

    /// What the metadata room wants to know, if both sides are open; with both paths, for messages.
    pub(super) fn keep<'k>(&'k self, [source_path, dest_path]: [&'k Path; 2]) -> Option<Keep<'k>> {
        let sides = self.sides.as_ref()?;
        Some(Keep {
            source: Object { fd: sides.source.as_fd(), path_only: self.place.source_path_only },
            source_inode: &self.place.source_inode,
            source_path,
            dest: Object { fd: sides.dest.as_fd(), path_only: true },
            dest_inode: &self.place.dest_inode,
            dest_path,
            created: self.place.created,
            entries: self.place.entries,
        })
    }
}

impl Run<'_> {
    /// Makes or enters the destination directory and opens the source. `None` if that failed, and was reported.
    pub(super) fn enter_directory(
        &mut self,
        subject: &Subject<'_>,
        clear: &Clear,
        level: &Level<'_>,
    ) -> Option<Box<Frame>> {
        let (source, dest) = (subject.source, subject.dest);
        if level.dir.is_some_and(|dir| dir.is_within_copy_of(subject.inode.id)) {
            self.worker.report.problem(Error::new(What::CyclicLink, source.path));
            return None;
        }
        let Home { fd: dest_fd, inode: dest_inode, created, fresh } =
            self.make_or_find_directory(subject, clear, level.made)?;
        let dir = level.dir?.below(last_component(dest.name), dest_inode.id, subject.inode.id);
        // Below a directory that we made, everything is ours already.
        if created && !level.ancestors.last().is_some_and(|above| above.place.fresh) {
            self.remember_made_directory(&dest_inode, dest, level);
        }
        if fresh {
            self.worker.report.tell(&Event::Copying { source: source.path, dest: dest.path, backup: None });
        }
        self.worker.report.stats.directories += 1;
        let entries = match created && !fresh || self.cx.plan.shard.is_some() {
            // It may have got ACLs and another owner since, or get them from another shard.
            true => NewEntries::UNKNOWN,
            false => self.new_entries(&dest_fd, &dest_inode, fresh.then_some(&clear.entries)),
        };
        let (opened, contents) = self.open_source(subject, level)?;
        let [source_path, dest_path] = nodes_of(subject, level);
        let place = Place {
            source_inode: subject.inode,
            dest_inode,
            entries,
            // Also where only the contents are not wanted: as a handle it serves in either case.
            source_path_only: !contents,
            dir,
            created,
            // Nor has this shard been there before, and only it makes what it will make there; but what somebody else has
            // put there meanwhile may have to stay.
            fresh: fresh || created && self.is_first_attempt() && !self.cx.plan.keeps_existing(),
            source_path,
            dest_path,
            listed: level.listed,
            stays: AtomicBool::new(false),
        };
        let sides = Sides::new(opened, dest_fd, &place.dest_path);
        let frame = Box::new(Frame {
            place: Arc::new(place),
            sides: Some(Arc::new(sides)),
            listing: self.listing_of(level.listed),
            through_link: through_link(subject, clear),
            finished: !contents,
            is_part: false,
            tally: None,
            resume: None,
            reply: None,
        });
        if let Some(peers) = self.peers {
            peers.name_of(subject.inode.id.device(), Some(source.path));
        }
        if fresh {
            self.cx.attributes().prepare(&frame.keep([source.path, dest.path])?, &mut self.worker.report);
        }
        Some(frame)
    }

    /// Makes the directory of the destination, or opens the one that is there.
    fn make_or_find_directory(&mut self, subject: &Subject<'_>, clear: &Clear, made: Option<u32>) -> Option<Home> {
        let dest = subject.dest;
        let mut fresh = !clear.existing.is_some_and(|existing| existing.target.kind == Kind::Directory);
        let (preserve, caller) = (&self.cx.plan.preserve, self.cx.services.caller);
        let mode = meta::creation_mode(Kind::Directory, &subject.inode, &clear.entries, preserve, caller).mode;
        let stands = made == Some(mode);
        if made.is_some() && !stands {
            // The source has got another mode since: what was made may let others in.
            dest.remove_dir().ok();
        }
        if fresh && !stands {
            self.note_directory(dest);
            match self.cx.services.space_gate.with_space(|| dest.make_dir(mode)) {
                Ok(()) => {}
                // Another shard has come first.
                Err(Errno::EXIST) if self.cx.plan.shard.is_some() => fresh = false,
                Err(errno) => {
                    self.worker.report.problem(Error::new(What::CannotCreateDirectory, dest.path).errno(errno));
                    return None;
                }
            }
        }
        let opened = match self.open_destination(subject, clear) {
            // Somebody removes what is empty.
            Err(Errno::NOENT) if stands => self
                .cx
                .services
                .space_gate
                .with_space(|| dest.make_dir(mode))
                .and_then(|()| self.open_destination(subject, clear)),
            opened => opened,
        };
        let (fd, mut inode) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotStat, dest.path).errno(errno));
                return None;
            }
        };
        let created = fresh || self.was_made_earlier(&inode) || self.was_made_by_shard(dest, &inode);
        if fresh {
            self.promise_directory(&inode);
            if self.cx.plan.shard.is_some() {
                // Another one may have opened it up before it was looked at.
                inode = self.as_it_was_made(inode, &subject.inode, &clear.entries);
            }
        } else if created {
            inode = self.as_it_was_made(inode, &subject.inode, &clear.entries);
            if self.cx.plan.preserve.ownership {
                // Closed to others until it has its owner and what is in it, as a new one. Who may not do that may not set its
                // attributes either, and is told then.
                let object = Object { fd: fd.as_fd(), path_only: true };
                inode.permissions &= !OTHERS;
                object.set_mode(inode.permissions | OWNER).ok();
            }
        }
        if created && !self.make_usable(&fd, &inode, dest.path) {
            return None;
        }
        self.will_write_to(inode.id.device(), dest.path, fd.as_fd());
        if !fresh {
            // What is in it may be met again.
            self.give_names();
            self.tidy(fd.as_fd(), true);
        }
        Some(Home { fd, inode, created, fresh })
    }

    fn open_destination(&self, subject: &Subject<'_>, clear: &Clear) -> Result<(OwnedFd, Inode), Errno> {
        let no_follow = if is_link_to_directory(clear) { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = subject.dest.open(OFlags::PATH | OFlags::DIRECTORY | no_follow, 0)?;
        let inode = Inode::of(fd.as_fd())?;
        let found = clear.existing.map_or(inode.id, |existing| existing.target.id);
        if inode.id == found { Ok((fd, inode)) } else { Err(Errno::STALE) }
    }

    /// A directory of an earlier run as that made it, as far as this matters for its attributes.
    fn as_it_was_made(&self, found: Inode, source: &Inode, entries: &NewEntries) -> Inode {
        let creation =
            meta::creation_mode(Kind::Directory, source, entries, &self.cx.plan.preserve, self.cx.services.caller);
        // Only the owner's bits were added since.
        Inode { permissions: found.permissions & (creation.mode | !OWNER), ..found }
    }

    /// A new directory must let us in, whatever the umask made of it; its final mode is set when it is full.
    pub(super) fn make_usable(&mut self, dest: &OwnedFd, inode: &Inode, path: &Path) -> bool {
        match meta::open_up(Object { fd: dest.as_fd(), path_only: true }, inode) {
            Ok(()) => true,
            Err(errno) => self.worker.report.problem(Error::new(What::SettingPermissions, path).errno(errno)),
        }
    }

    /// The same for one that was found.
    pub(super) fn entries_of_found(&self, dest: &OwnedFd, inode: &Inode) -> NewEntries {
        self.new_entries(dest, inode, None)
    }

    /// What is known of entries that we make in a directory, itself just made where `above` is known or found there.
    fn new_entries(&self, dest: &OwnedFd, inode: &Inode, above: Option<&NewEntries>) -> NewEntries {
        if !NewEntries::matter(&self.cx.plan.preserve) {
            return NewEntries::UNKNOWN;
        }
        let object = Object { fd: dest.as_fd(), path_only: true };
        match above {
            Some(above) => above.of_made(object, inode, self.cx.services.caller, &self.cx.services.memory),
            None => NewEntries::of_found(object, inode, self.cx.services.caller, &self.cx.services.memory),
        }
    }

    fn remember_made_directory(&mut self, inode: &Inode, dest: Spot<'_>, level: &Level<'_>) {
        let Some(dir) = level.dir else { return };
        // Remembering what was remembered already is no error: the same directory may be entered for two operands.
        let remembered = self.cx.services.links.remember(inode.into(), || made_at(dir, dest));
        self.table(remembered, dest);
    }

    /// Opens the source directory. The flag says whether its contents are to be copied: not those of a directory on
    /// another filesystem with `-x`, nor those that cannot be read, which is reported.
    fn open_source(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Option<(OwnedFd, bool)> {
        let device = |id: FileId| -> DeviceNumber { id.device() };
        let foreign = self.cx.plan.one_file_system
            && level.ancestors.last().is_some_and(|above| device(above.source_id()) != device(subject.inode.id));
        let no_follow = if subject.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::DIRECTORY | no_follow;
        let mut contents = !foreign;
        let mut said = false;
        let mut opened = subject.source.open(flags | if foreign { OFlags::PATH } else { OFlags::RDONLY }, 0);
        if let Err(errno) = opened {
            self.worker.report.problem(Error::new(What::CannotAccess, subject.source.path).errno(errno));
            (said, contents) = (true, false);
            opened = subject.source.open(flags | OFlags::PATH, 0);
        }
        match opened.and_then(|fd| Ok((Inode::of(fd.as_fd())?.is_same_file_as(&subject.inode), fd))) {
            Ok((true, fd)) => Some((fd, contents)),
            Ok((false, _)) => {
                self.worker.report.problem(Error::new(What::ReplacedWhileCopied, subject.source.path));
                None
            }
            Err(errno) => {
                if !said {
                    self.worker.report.problem(Error::new(What::CannotAccess, subject.source.path).errno(errno));
                }
                None
            }
        }
    }

    /// Copies the contents of a directory, and of the directories in it, depth first.
    pub(super) fn walk_tree(&mut self, root: Frame, top: &mut Top) {
        let mut stack: Vec<Frame> = vec![root];
        while !stack.is_empty() {
            let stop = top.into_itself || self.cx.cancelled();
            if !stop {
                self.share_and_rest(&mut stack, top);
            }
            let Some(frame) = stack.last_mut() else { return };
            let listed = if stop || frame.finished { None } else { self.next_name(frame) };
            match listed {
                Some(listed) => {
                    if let Some(child) = self.visit_child(&stack, &listed, top) {
                        stack.push(*child);
                        close_far_ancestors(&mut stack, self.open_levels);
                    }
                }
                None => {
                    if let Some(mut frame) = stack.pop() {
                        self.unmake(&mut frame);
                        self.leave(frame, &mut stack);
                    }
                }
            }
        }
    }

    fn next_name(&mut self, frame: &mut Frame) -> Option<Listed> {
        if frame.sides.is_some()
            && let Some(listed) = frame.listing.next_of_batch()
        {
            return Some(listed);
        }
        let started = Instant::now();
        self.go_on_after_parts(frame);
        let next = match &frame.sides {
            Some(_) if frame.place.listed.is_some() => Ok((self.next_listed(&mut frame.listing), false)),
            Some(sides) => frame.listing.read(sides.source.as_fd()).map(|read| (None, read)),
            None => Ok((None, false)),
        };
        self.worker.report.stats.walk_time += started.elapsed();
        match next {
            Ok((None, true)) => {
                self.precreate(frame);
                frame.listing.next_of_batch()
            }
            Ok((listed, _)) => listed,
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotAccess, frame.place.source_path.path()).errno(errno));
                None
            }
        }
    }

    /// What comes from here on comes after the parts that were given away.
    fn go_on_after_parts(&mut self, frame: &mut Frame) {
        if let Some(resume) = frame.resume.take() {
            self.sink.switch_to(Some(resume));
        }
    }

    fn visit_child(&mut self, stack: &[Frame], listed: &Listed, top: &mut Top) -> Option<Box<Frame>> {
        let parent = stack.last()?;
        let sides = parent.sides.as_ref()?;
        let place = &parent.place;
        let [mut source_path, mut dest_path] = std::mem::take(&mut self.worker.paths);
        let (source_shown, dest_shown) =
            (source_path.entry(&place.source_path, &listed.name), dest_path.entry(&place.dest_path, &listed.name));
        let source = Spot::new(sides.source.as_fd(), &listed.name, source_shown);
        let dest = Spot::new(sides.dest.as_fd(), &listed.name, dest_shown);
        let is_regular = listed.kind == Some(FileType::RegularFile);
        let level = Level {
            dir: Some(&place.dir),
            sides: Some(sides),
            ancestors: stack,
            is_regular,
            listed: listed.entry,
            made: listed.made,
        };
        let step = self.visit(source, dest, place.fresh, &level, top);
        if matches!(step, Step::Done) {
            unmake(dest, listed);
        }
        self.worker.paths = [source_path, dest_path];
        match step {
            Step::Enter(frame) => Some(frame),
            Step::Done => None,
        }
    }

    /// The last entry of a directory is done, as far as it was done here: the way back up is opened, and its attributes
    /// are set once nothing of it is in other hands.
    fn leave(&mut self, mut frame: Frame, stack: &mut [Frame]) {
        self.go_on_after_parts(&mut frame);
        if let Some(parent) = stack.last_mut()
            && let Err(error) = reopen(parent, &frame)
        {
            self.worker.report.problem(error);
            parent.finished = true;
        }
        if frame.is_part {
            return;
        }
        if let Some(frame) = self.wait_for_parts(frame, stack.last_mut()) {
            self.directory_is_full(Box::new(frame));
        }
    }

    /// Sets the attributes of a directory whose contents are complete.
    pub(super) fn finish_directory(&mut self, frame: &Frame) {
        let [mut source_path, mut dest_path] = std::mem::take(&mut self.worker.paths);
        let shown = [source_path.of(&frame.place.source_path), dest_path.of(&frame.place.dest_path)];
        if let Some(keep) = frame.keep(shown).filter(|keep| !self.leave_to_last_shard(frame, keep)) {
            let started = Instant::now();
            if !frame.place.fresh {
                self.tidy(keep.dest.fd, false);
            }
            self.cx.attributes().set(&keep, &mut self.worker.report);
            let (dest, inode) = (keep.dest.fd, keep.dest_inode);
            if self.syncs_alone(inode.id.device())
                && let Err(errno) = sync_directory(dest)
            {
                self.worker.report.problem(Error::new(What::Syncing, keep.dest_path).errno(errno));
            }
            self.worker.report.stats.metadata_time += started.elapsed();
        }
        self.worker.paths = [source_path, dest_path];
    }
}

/// The paths of an entry, for those of entries below it.
fn nodes_of(subject: &Subject<'_>, level: &Level<'_>) -> [Arc<PathNode>; 2] {
    let (source, dest) = (subject.source, subject.dest);
    match level.ancestors.last() {
        Some(above) => [above.place.source_path.below(source.name), above.place.dest_path.below(dest.name)],
        None => [PathNode::root(source.path), PathNode::root(dest.path)],
    }
}

/// Brings the names in a directory to the device.
pub(super) fn sync_directory(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(dir, ".", flags, Mode::empty())?;
    haul_sys::rustix::io::retry_on_intr(|| haul_sys::rustix::fs::fsync(&opened))
}

fn through_link(subject: &Subject<'_>, clear: &Clear) -> bool {
    let source = subject.follow && subject.source.inode().is_ok_and(|entry| entry.kind == Kind::SymbolicLink);
    source || is_link_to_directory(clear)
}

fn is_link_to_directory(clear: &Clear) -> bool {
    clear.existing.is_some_and(|existing| existing.entry.kind == Kind::SymbolicLink)
}

/// Closes the directories that will be needed last, so that any depth does with `open` levels of descriptors.
/// A directory is reopened through the `..` of its child, so one whose child was reached through a link stays open.
fn close_far_ancestors(stack: &mut [Frame], open: usize) {
    let Some(far) = stack.len().checked_sub(open + 1) else { return };
    if stack.get(far + 1).is_some_and(|child| !child.through_link) {
        let frame = &mut stack[far];
        frame.sides = None;
        frame.listing.reopened();
    }
}

/// Opens the descriptors of a directory again, from its child, and makes sure that they are the same directories.
fn reopen(parent: &mut Frame, child: &Frame) -> Result<(), Error> {
    if parent.sides.is_some() {
        return Ok(());
    }
    let up = |fd: BorrowedFd<'_>, flags: OFlags, was: &Inode, path: &PathNode| -> Result<OwnedFd, Error> {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(fd, "..", flags, Mode::empty())
            .and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)))
            .map_err(|errno| Error::new(What::CannotAccess, path.path()).errno(errno))?;
        if opened.0.is_same_file_as(was) { Ok(opened.1) } else { Err(Error::new(What::DirectoryMoved, path.path())) }
    };
    let Some(sides) = &child.sides else { return Ok(()) };
    let place = &parent.place;
    let source = up(sides.source.as_fd(), OFlags::RDONLY, &place.source_inode, &place.source_path)?;
    let dest = up(sides.dest.as_fd(), OFlags::PATH, &place.dest_inode, &place.dest_path)?;
    parent.sides = Some(Arc::new(Sides::new(source, dest, &place.dest_path)));
    Ok(())
}

/// Whether one of the two directories is in the other, as far as the ways up from them tell. Doubt counts as yes.
pub(super) fn overlap(sides: &Frame) -> bool {
    let Some(sides) = &sides.sides else { return true };
    let within = |from: BorrowedFd<'_>, what: BorrowedFd<'_>| -> Result<bool, Errno> {
        let what = Inode::of(what)?.id;
        let mut at = openat(from, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut id = Inode::of(at.as_fd())?.id;
        loop {
            if id == what {
                return Ok(true);
            }
            at = openat(&at, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let above = Inode::of(at.as_fd())?.id;
            // The root is its own parent.
            if above == id {
                return Ok(false);
            }
            id = above;
        }
    };
    let (source, dest) = (sides.source.as_fd(), sides.dest.as_fd());
    within(source, dest).unwrap_or(true) || within(dest, source).unwrap_or(true)
}
