//! Directories: made before what they hold, finished after it, with a bounded number of descriptors at any depth.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use haul_sys::Errno;
use haul_sys::rustix::fs::{Mode, OFlags, openat};

use super::entry::{Level, Step, Subject, Top, is_ancestor};
use super::existing::Clear;
use super::links::{DestDir, Made};
use super::{Keep, Run};
use crate::error::{Error, What};
use crate::events::Event;
use crate::facts::{DeviceNumber, FileId, Inode, Kind};
use crate::meta::{self, Object};
use crate::walk::{Listing, Spot, last_component};

/// A directory whose contents are being copied.
pub(super) struct Frame {
    /// The source as it was when it was entered.
    pub source_inode: Inode,
    source: Option<OwnedFd>,
    dest: Option<OwnedFd>,
    /// The destination directory just after it was made, or as it was found.
    dest_inode: Inode,
    dir: Arc<DestDir>,
    listing: Listing,
    created: bool,
    /// Nothing can be in the destination but what we put there.
    fresh: bool,
    /// One side was reached through a symbolic link: its `..` is not the directory that it was found in.
    through_link: bool,
    source_path: PathBuf,
    dest_path: PathBuf,
    /// Its contents are not wanted, or cannot be read.
    finished: bool,
}

impl Frame {
    /// Descriptors of both sides, if they are open.
    fn sides(&self) -> Option<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        Some((self.source.as_ref()?.as_fd(), self.dest.as_ref()?.as_fd()))
    }

    /// Whether it made this directory of the destination.
    pub(super) fn is_filling(&self, dest: FileId) -> bool {
        self.created && self.dest_inode.id == dest
    }

    /// What the metadata room wants to know, if both sides are open.
    fn keep(&self) -> Option<Keep<'_>> {
        let (source, dest) = self.sides()?;
        Some(Keep {
            // Opened for reading or not: as a handle it serves in either case.
            source: Object { fd: source, path_only: true },
            source_inode: &self.source_inode,
            source_path: &self.source_path,
            dest: Object { fd: dest, path_only: true },
            dest_inode: &self.dest_inode,
            dest_path: &self.dest_path,
            created: self.created,
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
        if is_ancestor(level.ancestors, subject.inode.id) {
            self.problem(Error::new(What::CyclicLink, source.path));
            return None;
        }
        let created = !clear.existing.is_some_and(|existing| existing.target.kind == Kind::Directory);
        if created {
            let creation =
                meta::creation_mode(Kind::Directory, subject.inode.permissions, &self.plan.preserve, self.caller);
            if let Err(errno) = dest.make_dir(creation.mode) {
                self.problem(Error::new(What::CannotCreateDirectory, dest.path).errno(errno));
                return None;
            }
        }
        let (dest_fd, dest_inode) = match self.open_destination(subject, clear) {
            Ok(opened) => opened,
            Err(errno) => {
                self.problem(Error::new(What::CannotStat, dest.path).errno(errno));
                return None;
            }
        };
        if created && !self.make_usable(&dest_fd, &dest_inode, dest.path) {
            return None;
        }
        let dir = level.dir?.below(last_component(dest.name), dest_inode.id);
        if created {
            // Below a directory that we made, everything is ours already.
            if !level.ancestors.last().is_some_and(|above| above.created) {
                self.remember_made_directory(&dest_inode, dest, level);
            }
            self.tell(&Event::Copying { source: source.path, dest: dest.path, backup: None });
        }
        self.stats.directories += 1;
        let (opened, contents) = self.open_source(subject, level)?;
        let frame = Box::new(Frame {
            source_inode: subject.inode,
            source: Some(opened),
            dest: Some(dest_fd),
            dest_inode,
            dir,
            listing: Listing::default(),
            created,
            fresh: created,
            through_link: through_link(subject, clear),
            source_path: source.path.to_owned(),
            dest_path: dest.path.to_owned(),
            finished: !contents,
        });
        if created {
            self.prepare_attributes(&frame.keep()?);
        }
        Some(frame)
    }

    fn open_destination(&self, subject: &Subject<'_>, clear: &Clear) -> Result<(OwnedFd, Inode), Errno> {
        let no_follow = if is_link_to_directory(clear) { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = subject.dest.open(OFlags::PATH | OFlags::DIRECTORY | no_follow, 0)?;
        let inode = Inode::of(fd.as_fd())?;
        let found = clear.existing.map_or(inode.id, |existing| existing.target.id);
        if inode.id == found { Ok((fd, inode)) } else { Err(Errno::STALE) }
    }

    /// A new directory must let us in, whatever the umask made of it; its final mode is set when it is full.
    pub(super) fn make_usable(&mut self, dest: &OwnedFd, inode: &Inode, path: &Path) -> bool {
        match meta::open_up(Object { fd: dest.as_fd(), path_only: true }, inode) {
            Ok(()) => true,
            Err(errno) => self.problem(Error::new(What::SettingPermissions, path).errno(errno)),
        }
    }

    fn remember_made_directory(&mut self, inode: &Inode, dest: Spot<'_>, level: &Level<'_>) {
        let Some(dir) = level.dir else { return };
        // Remembering what was remembered already is no error: the same directory may be entered for two operands.
        let _earlier = self.links.remember(inode.id, || Made {
            dir: Arc::clone(dir),
            name: last_component(dest.name).to_owned(),
            path: dest.path.to_owned(),
        });
    }

    /// Opens the source directory. The flag says whether its contents are to be copied: not those of a directory on
    /// another filesystem with `-x`, nor those that cannot be read, which is reported.
    fn open_source(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Option<(OwnedFd, bool)> {
        let device = |id: FileId| -> DeviceNumber { id.device() };
        let foreign = self.plan.one_file_system
            && level.ancestors.last().is_some_and(|above| device(above.source_inode.id) != device(subject.inode.id));
        let no_follow = if subject.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::DIRECTORY | no_follow;
        let mut contents = !foreign;
        let mut opened = subject.source.open(flags | if foreign { OFlags::PATH } else { OFlags::RDONLY }, 0);
        if let Err(errno) = opened {
            self.problem(Error::new(What::CannotAccess, subject.source.path).errno(errno));
            contents = false;
            opened = subject.source.open(flags | OFlags::PATH, 0);
        }
        match opened.and_then(|fd| Ok((Inode::of(fd.as_fd())?.is_same_file_as(&subject.inode), fd))) {
            Ok((true, fd)) => Some((fd, contents)),
            Ok((false, _)) => {
                self.problem(Error::new(What::ReplacedWhileCopied, subject.source.path));
                None
            }
            // Said already.
            Err(_) => None,
        }
    }

    /// Copies the contents of a directory, and of the directories in it, depth first.
    pub(super) fn walk_tree(&mut self, root: Box<Frame>, top: &mut Top) {
        let mut stack: Vec<Frame> = vec![*root];
        while let Some(frame) = stack.last_mut() {
            let stop = top.into_itself || self.cancelled();
            let name = if stop || frame.finished { None } else { self.next_name(frame) };
            match name {
                Some(name) => {
                    if let Some(child) = self.visit_child(&stack, &name, top) {
                        stack.push(*child);
                        close_far_ancestors(&mut stack, self.open_levels);
                    }
                }
                None => {
                    if let Some(frame) = stack.pop() {
                        self.leave(frame, &mut stack);
                    }
                }
            }
        }
    }

    fn next_name(&mut self, frame: &mut Frame) -> Option<OsString> {
        let started = Instant::now();
        let next = match &frame.source {
            Some(source) => frame.listing.next(source.as_fd()),
            None => Ok(None),
        };
        self.stats.walk_time += started.elapsed();
        match next {
            Ok(listed) => listed.map(|listed| listed.name),
            Err(errno) => {
                self.problem(Error::new(What::CannotAccess, &frame.source_path).errno(errno));
                None
            }
        }
    }

    fn visit_child(&mut self, stack: &[Frame], name: &OsStr, top: &mut Top) -> Option<Box<Frame>> {
        let parent = stack.last()?;
        let (source_dir, dest_dir) = parent.sides()?;
        let source_path = super::operands::joined(parent.source_path.as_os_str(), name);
        let dest_path = super::operands::joined(parent.dest_path.as_os_str(), name);
        let source = Spot::new(source_dir, name, &source_path);
        let dest = Spot::new(dest_dir, name, &dest_path);
        let level = Level { dir: Some(&parent.dir), ancestors: stack };
        match self.visit(source, dest, parent.fresh, &level, top) {
            Step::Enter(frame) => Some(frame),
            Step::Done => None,
        }
    }

    /// The last entry of a directory is done: its attributes can be set, and the way back up is opened.
    fn leave(&mut self, frame: Frame, stack: &mut [Frame]) {
        let started = Instant::now();
        if let Some(parent) = stack.last_mut()
            && let Err(error) = reopen(parent, &frame)
        {
            self.problem(error);
            parent.finished = true;
        }
        if let Some(keep) = frame.keep() {
            self.keep_attributes(&keep);
        }
        self.stats.metadata_time += started.elapsed();
    }
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
        frame.source = None;
        frame.dest = None;
        frame.listing.reopened();
    }
}

/// Opens the descriptors of a directory again, from its child, and makes sure that they are the same directories.
fn reopen(parent: &mut Frame, child: &Frame) -> Result<(), Error> {
    if parent.dest.is_some() {
        return Ok(());
    }
    let up = |fd: BorrowedFd<'_>, flags: OFlags, was: &Inode, path: &Path| -> Result<OwnedFd, Error> {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(fd, "..", flags, Mode::empty())
            .and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)))
            .map_err(|errno| Error::new(What::CannotAccess, path).errno(errno))?;
        if opened.0.is_same_file_as(was) { Ok(opened.1) } else { Err(Error::new(What::DirectoryMoved, path)) }
    };
    let Some((source, dest)) = child.sides() else { return Ok(()) };
    let source = up(source, OFlags::RDONLY, &parent.source_inode, &parent.source_path)?;
    parent.dest = Some(up(dest, OFlags::PATH, &parent.dest_inode, &parent.dest_path)?);
    parent.source = Some(source);
    Ok(())
}
