//! One entry of the source, of any kind: from the first look to the finished copy.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::rustix::fs::AtFlags;

use super::existing::{Clear, Way};
use super::names::Linked;
use super::peers::RemoteSource;
use super::regular::open_regular;
use super::tree::{Frame, overlap};
use super::{Reported, Run};
use crate::error::{Error, What};
use crate::events::Event;
use crate::facts::{DeviceNumber, FileId, Inode, Kind};
use crate::links::DestDir;
use crate::links::Made;
use crate::manifest::Index;
use crate::meta::NewEntries;
use crate::plan::{Backup, Dereference, LinkMode};
use crate::publish::{Sides, replace};
use crate::walk::{Operand, Spot, last_component, renamed};

/// Where in the tree an entry stands.
#[derive(Clone, Copy)]
pub(super) struct Level<'t> {
    /// The directory that will hold the copy, if it could be opened.
    pub dir: Option<&'t Arc<DestDir>>,
    /// Both directories, if they were entered in this walk.
    pub sides: Option<&'t Arc<Sides>>,
    /// The directories of the source on the way here, outermost first.
    pub ancestors: &'t [Frame],
    /// The directory says that the entry is a regular file.
    pub is_regular: bool,
    /// Its number in the list of what is to be copied, if there is one.
    pub listed: Option<Index>,
    /// Its copy, a directory, was made ahead, with this mode.
    pub made: Option<u32>,
}

impl Level<'_> {
    /// What is known of new entries of the directory that will hold the copy.
    fn entries(&self) -> NewEntries {
        self.ancestors.last().map_or(NewEntries::UNKNOWN, Frame::entries)
    }
}

/// What is known across all entries of one operand.
#[derive(Clone)]
pub(super) struct Top {
    /// The operand.
    pub source: PathBuf,
    /// Its destination.
    pub dest: PathBuf,
    /// The operand is being copied into itself: the rest of it is left alone.
    pub into_itself: bool,
}

/// An entry to be copied.
pub(super) struct Subject<'a> {
    pub source: Spot<'a>,
    pub dest: Spot<'a>,
    /// The source, links followed or not as the options say.
    pub inode: Inode,
    /// The source, if it was opened to be looked at.
    pub opened: Option<OwnedFd>,
    /// Which links are followed from here on: `-H` means none but the operands.
    pub dereference: Dereference,
    /// A symbolic link at the source is followed.
    pub follow: bool,
    /// It was named by the user, not found in a directory.
    pub is_operand: bool,
    /// The directories that it was found in and goes to, unless it was named by the user.
    pub sides: Option<&'a Arc<Sides>>,
    /// The filesystem of that destination directory.
    pub dest_device: Option<DeviceNumber>,
    /// How other processes find it, if they may help with it.
    pub remote: Option<&'a RemoteSource<'a>>,
}

/// What is known about earlier copies of a source.
pub(super) enum Earlier {
    /// Nothing, or it does not matter.
    Nothing,
    /// It is copied now, and others may be waiting for it.
    Claimed,
    /// This.
    Made(Made),
    /// The table cannot tell, which was reported.
    Unknown,
}

/// What becomes of a source that was met before.
enum Instead {
    /// It has another name now, needs none, or cannot have one, which was reported.
    Ended { well: bool },
    /// It is copied all the same, and may be claimed for that.
    Copy { claimed: bool },
}

/// How a visit ended.
pub(super) enum Step {
    /// The entry is dealt with, well or badly.
    Done,
    /// It is a directory whose contents come next.
    Enter(Box<Frame>),
}

impl Run<'_> {
    /// Copies an operand with everything below it. `root` is the directory that holds its copy; one that cannot be opened is
    /// none, and making anything there will say why.
    pub(super) fn copy_operand(&mut self, source: Operand, dest: Spot<'_>, missing: bool, root: Option<&Arc<DestDir>>) {
        let Some(listed) = self.listed_operand() else { return };
        let mut top = Top { source: source.path().to_owned(), dest: dest.path.to_owned(), into_itself: false };
        self.will_write_beside(dest);
        self.give_names_if_one_is(dest);
        let level = Level { dir: root, sides: None, ancestors: &[], is_regular: false, listed, made: None };
        let Step::Enter(frame) = self.visit(source.spot(), dest, missing, &level, &mut top) else { return };
        // A descriptor less while the tree is copied.
        drop(source);
        // Where a copy changes its own source, the order decides how it ends: that is the order of one thread.
        let pool = self.pool.filter(|_| !overlap(&frame));
        let pool = std::mem::replace(&mut self.pool, pool);
        if let Some(pool) = self.pool {
            pool.fix(self.worker.mover.jobs_of_profile(self.cx.plan, frame.devices(), || frame.sides()));
            if self.cx.services.transfers.probe.has_heads(frame.devices()) {
                pool.start_low();
            }
        }
        self.walk_tree(*frame, &mut top);
        self.drain();
        self.pool = pool;
    }

    /// Copies one entry; the contents of a directory are left to the caller.
    pub(super) fn visit(
        &mut self,
        source: Spot<'_>,
        dest: Spot<'_>,
        missing: bool,
        level: &Level<'_>,
        top: &mut Top,
    ) -> Step {
        let Some(mut subject) = self.look_at_source(source, dest, level, missing) else { return Step::Done };
        if !self.is_as_listed(&subject, level.listed) {
            return Step::Done;
        }
        let clear = match self.clear_way(&subject, level, missing) {
            Way::Clear(clear) => Clear { entries: level.entries(), ..clear },
            Way::Done | Way::Blocked => return Step::Done,
        };
        if self.through_just_made_link(&subject, &clear) {
            self.worker.report.problem(Error::new(What::ThroughJustCreatedLink, source.path).and(dest.path));
            return Step::Done;
        }
        let is_directory = subject.inode.kind == Kind::Directory;
        if level.made.is_some() && !is_directory {
            // It was one when its name was read.
            dest.remove_dir().ok();
        }
        if !is_directory {
            self.announce(&subject, &clear);
        }
        if is_being_filled(&subject, level) {
            self.worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
            top.into_itself = true;
            self.put_back(&clear, dest);
            return Step::Done;
        }
        // Before it is claimed: nobody should have to wait for a thread that waits for its turn.
        self.cx.wait_to_make();
        let earlier = self.earlier_copy(&subject, level);
        if matches!(earlier, Earlier::Unknown) {
            self.put_back(&clear, dest);
            return Step::Done;
        }
        let remote = self.remote_source(&subject, level, top);
        subject.remote = remote.as_ref();
        let (met_before, mut claimed) = (matches!(earlier, Earlier::Made(_)), matches!(earlier, Earlier::Claimed));
        if let Earlier::Made(earlier) = earlier {
            // It is seldom copied all the same, and to find the other name takes descriptors.
            subject.opened = None;
            match self.instead_of_copying(earlier, &subject, level, top) {
                Instead::Copy { claimed: now } => claimed = now,
                Instead::Ended { well } => {
                    if !well {
                        self.put_back(&clear, dest);
                    }
                    return Step::Done;
                }
            }
        }
        let made = match subject.inode.kind {
            Kind::Directory => match self.enter_directory(&subject, &clear, level) {
                Some(frame) => return Step::Enter(frame),
                None => Err(Reported),
            },
            _ if self.cx.plan.link == LinkMode::Symbolic => self.make_symbolic_link_to_source(&subject, &clear),
            _ if self.cx.plan.link == LinkMode::Hard => self.make_hard_link_to_source(&subject, &clear),
            _ => self.make_file(&mut subject, &clear),
        };
        if let Ok(made) = made {
            if subject.is_operand {
                self.operands.remember(dest, made);
            }
            if claimed {
                self.complete_claim_of(&subject, &clear, made);
            }
        } else {
            let noted = claimed || (!met_before && subject.is_operand);
            self.leave_unmade(&subject, &clear, (noted, claimed));
        }
        Step::Done
    }

    fn look_at_source<'s>(
        &mut self,
        source: Spot<'s>,
        dest: Spot<'s>,
        level: &Level<'s>,
        missing: bool,
    ) -> Option<Subject<'s>> {
        let plan = self.cx.plan;
        let is_operand = level.ancestors.is_empty();
        let sides = level.sides;
        let dest_device = level.ancestors.last().map(|parent| parent.devices()[1]);
        let remote = None;
        let dereference = match plan.dereference {
            Dereference::Operands if !is_operand => Dereference::Never,
            dereference => dereference,
        };
        let follow = dereference != Dereference::Never;
        // One look less: what will be opened anyway is looked at when it is open.
        if level.is_regular
            && missing
            && !follow
            && plan.link == LinkMode::Copy
            && let Ok((opened, inode)) = open_regular(source, plan.engine)
        {
            if self.cx.session.leave_out.contains(&inode.id) {
                return None;
            }
            let opened = Some(opened);
            return Some(Subject {
                source,
                dest,
                inode,
                opened,
                dereference,
                follow,
                is_operand,
                sides,
                dest_device,
                remote,
            });
        }
        let inode = match if follow { source.inode_following() } else { source.inode() } {
            Ok(inode) => inode,
            Err(Errno::NOENT) if level.listed.is_some() => {
                self.worker.report.problem(Error::new(What::ListedMissing, source.path));
                return None;
            }
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotStat, source.path).errno(errno));
                return None;
            }
        };
        if self.cx.session.leave_out.contains(&inode.id) {
            return None;
        }
        if inode.kind == Kind::Directory && !plan.recursive {
            self.worker.report.problem(Error::new(What::OmittingDirectory, source.path));
            return None;
        }
        // A file named twice is copied once; with backups the second copy is what the user asked for.
        let once = is_operand && inode.kind != Kind::Directory && plan.backup == Backup::None;
        if is_operand && self.operands.was_seen(source, &inode) && once {
            self.worker.report.warning(&Error::new(What::SourceTwice, source.path));
            return None;
        }
        Some(Subject { source, dest, inode, opened: None, dereference, follow, is_operand, sides, dest_device, remote })
    }

    /// Whether writing would go through a symbolic link that this run made for an earlier operand.
    fn through_just_made_link(&self, subject: &Subject<'_>, clear: &Clear) -> bool {
        if !subject.is_operand || self.cx.plan.backup != Backup::None || !self.operands.are_several() {
            return false;
        }
        let entry = match &clear.existing {
            Some(existing) => Ok(existing.entry),
            None => subject.dest.inode(),
        };
        entry.is_ok_and(|entry| entry.kind == Kind::SymbolicLink && self.operands.have_made(subject.dest, &entry))
    }

    fn announce(&self, subject: &Subject<'_>, clear: &Clear) {
        let backup = clear.backup.as_ref().map(|name| renamed(subject.dest.path, name));
        self.worker.report.tell(&Event::Copying {
            source: subject.source.path,
            dest: subject.dest.path,
            backup: backup.as_deref(),
        });
    }

    /// What was made for this source before in this run, where that matters: for directories, to notice loops; for
    /// files of several names, to keep them one file. Remembers what is about to be made.
    fn earlier_copy(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Earlier {
        if subject.inode.kind != Kind::Directory {
            return self.claim_if_linked(subject, level);
        }
        let earlier = match level.dir {
            Some(dir) if subject.is_operand => {
                self.cx.services.links.remember((&subject.inode).into(), || made_at(dir, subject.dest))
            }
            Some(_) if !subject.is_operand => self.cx.services.links.get((&subject.inode).into()),
            _ => Ok(None),
        };
        match self.table(earlier, subject.source) {
            None => Earlier::Unknown,
            Some(earlier) => earlier.map_or(Earlier::Nothing, Earlier::Made),
        }
    }

    fn claim_if_linked(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Earlier {
        let plan = self.cx.plan;
        // Two links that are followed may lead to one file.
        let several_names = subject.inode.links > 1 || subject.dereference != Dereference::Never;
        if !self.cx.keeps_links() || plan.link == LinkMode::Hard || !several_names {
            return Earlier::Nothing;
        }
        self.claim(subject, level)
    }

    /// Asks what was made before for this source, and notes that it is made now if nothing was.
    pub(super) fn claim(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Earlier {
        let Some(dir) = level.dir else { return Earlier::Nothing };
        let claim = self.cx.services.links.claim((&subject.inode).into(), || made_at(dir, subject.dest));
        self.claim_with_others(claim, subject, level)
    }

    /// The same after a copy.
    fn complete_claim_of(&mut self, subject: &Subject<'_>, clear: &Clear, made: Option<FileId>) {
        // It was written through a symbolic link: as with cp, other names become links to that.
        let link = clear.existing.filter(|existing| !subject.follow && existing.entry.kind == Kind::SymbolicLink);
        self.complete_claim(subject, link.map(|existing| existing.entry.id).or(made));
    }

    /// What was claimed stands at its place; `made` is which file it is, if that is known.
    pub(super) fn complete_claim(&mut self, subject: &Subject<'_>, made: Option<FileId>) {
        let dest = subject.dest;
        let made = match made {
            Some(made) => Ok(made),
            // As the next name of it will be looked at.
            None if subject.follow => dest.inode_following().map(|inode| inode.id),
            None => dest.inode().map(|inode| inode.id),
        };
        let stands = made.is_ok();
        let completed = match made {
            Ok(made) => self.cx.services.links.complete((&subject.inode).into(), made),
            // It went away at once: whoever comes next copies it again.
            Err(_) => self.cx.services.links.forget((&subject.inode).into()),
        };
        self.table(completed, subject.source);
        self.settle_for_all(&subject.inode, stands);
    }

    /// Reports what the table of links could not do.
    pub(super) fn table<T>(&mut self, result: Result<T, Errno>, source: Spot<'_>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(errno) => {
                self.worker.report.problem(Error::new(What::LinksUnknown, source.path).errno(errno));
                None
            }
        }
    }

    /// The source was met before.
    fn instead_of_copying(
        &mut self,
        earlier: Made,
        subject: &Subject<'_>,
        level: &Level<'_>,
        top: &mut Top,
    ) -> Instead {
        if subject.inode.kind != Kind::Directory {
            return match self.link_to_earlier(earlier, subject, level) {
                Linked::Done => Instead::Ended { well: true },
                Linked::Failed => Instead::Ended { well: false },
                Linked::Claimed => Instead::Copy { claimed: true },
            };
        }
        let (source, dest) = (subject.source, subject.dest);
        let is_entry = |spot: Spot<'_>| {
            crate::walk::directory_id(spot).is_some_and(|dir| earlier.is_entry(dir, last_component(spot.name)))
        };
        if is_entry(source) {
            self.worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
            top.into_itself = true;
            return Instead::Ended { well: false };
        }
        if is_entry(dest) {
            self.worker.report.warning(&Error::new(What::SourceDirectoryTwice, &top.source));
            return Instead::Ended { well: true };
        }
        // Met again through another symbolic link: a second copy is what was asked for.
        if subject.follow {
            return Instead::Copy { claimed: false };
        }
        self.worker.report.problem(Error::new(What::HardLinkToDirectory, dest.path).and(earlier.path()));
        Instead::Ended { well: false }
    }

    /// Nothing was made: what was noted of it is forgotten, who waits for what was claimed is told, and what stood there
    /// before comes back.
    fn leave_unmade(&mut self, subject: &Subject<'_>, clear: &Clear, (noted, claimed): (bool, bool)) {
        if noted {
            let forgotten = self.cx.services.links.forget((&subject.inode).into());
            self.table(forgotten, subject.source);
        }
        if claimed {
            self.settle_for_all(&subject.inode, false);
        }
        self.put_back(clear, subject.dest);
    }

    /// Undoes a backup after a failure. What was removed cannot be put back: the user is told.
    fn put_back(&mut self, clear: &Clear, dest: Spot<'_>) {
        if clear.removed && dest.inode().is_err_and(|errno| errno == Errno::NOENT) {
            self.worker.report.warning(&Error::new(What::Lost, dest.path));
        }
        let Some(name) = &clear.backup else { return };
        let path = renamed(dest.path, name);
        let backup = dest.beside(name, &path);
        let put_back = backup.rename_to(dest.name);
        if clear.backup_is_link && put_back.is_ok() {
            // A rename from one name of a file to another does nothing: the old file has never lost its own.
            backup.unlink().ok();
        }
        match put_back {
            Ok(()) => self.worker.report.tell(&Event::UnBackedUp { backup: &path, dest: dest.path }),
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotUnBackup, dest.path).errno(errno));
            }
        }
    }

    fn make_hard_link_to_source(&mut self, subject: &Subject<'_>, clear: &Clear) -> Result<Option<FileId>, Reported> {
        let plan = self.cx.plan;
        let flags = if subject.follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
        let may_replace = plan.force || plan.overwrite == crate::plan::Overwrite::Ask || clear.replaces;
        match replace::hard_link(subject.source, subject.dest, flags, self.cx.names_if(may_replace)) {
            Ok(_) => {
                self.worker.report.stats.hard_links += 1;
                Ok(None)
            }
            Err(errno) => {
                let error = Error::new(What::CannotHardLink, subject.dest.path).and(subject.source.path);
                Err(self.worker.report.fail(error.errno(errno)))
            }
        }
    }
}

/// What stands, or will stand, at a name of the destination.
pub(super) fn made_at(dir: &Arc<DestDir>, dest: Spot<'_>) -> Made {
    Made { dir: Arc::clone(dir), name: last_component(dest.name).to_owned(), id: None }
}

/// Whether a symbolic link leads to a directory that this run is just filling: every level of it would have another one
/// in it. Found by a name, not through a link, such a directory is known from the table of what was made.
fn is_being_filled(subject: &Subject<'_>, level: &Level<'_>) -> bool {
    subject.follow
        && subject.inode.kind == Kind::Directory
        && level.ancestors.iter().any(|frame| frame.is_filling(subject.inode.id))
}
