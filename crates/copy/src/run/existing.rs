//! What to do about a destination that exists already.

use std::ffi::OsString;

use haul_sys::Errno;

use super::Run;
use super::backup;
use super::entry::{Earlier, Level, Subject};
use super::names::Linked;
use super::same_file::{Pair, Verdict, judge};
use super::stage::Heritage;
use crate::error::{Error, What};
use crate::events::{Event, Question};
use crate::facts::{Inode, Kind};
use crate::meta::NewEntries;
use crate::plan::{Backup, Dereference, LinkMode, Overwrite};
use crate::walk::{Identity, Party, Spot, last_component};

/// A destination as it was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Existing {
    /// The entry itself.
    pub entry: Inode,
    /// What the copy would act on: the entry, or what it leads to.
    pub target: Inode,
}

impl Existing {
    fn has_several_names(&self) -> bool {
        self.target.kind != Kind::Directory && self.target.links > 1
    }
}

/// What was found at the destination.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "one of it lives at a time, on the stack")]
pub(super) enum Found {
    Nothing,
    Something(Existing),
    /// A loop of symbolic links, which `--force` will remove.
    Loop,
}

/// Whether and how the copy goes on.
#[expect(clippy::large_enum_variant, reason = "one of it lives at a time, on the stack")]
pub(super) enum Way {
    /// The entry is dealt with.
    Done,
    /// It failed, and was reported.
    Blocked,
    /// Go on.
    Clear(Clear),
}

/// The destination when the copy begins.
#[derive(Debug, Default)]
pub(super) struct Clear {
    /// It has to be made.
    pub new: bool,
    /// What stands there, if it is to be written into.
    pub existing: Option<Existing>,
    /// Where the old one went.
    pub backup: Option<OsString>,
    /// The old one was removed.
    pub removed: bool,
    /// The old one stands there until the copy takes its place.
    pub replaces: bool,
    /// The backup is another name of the old one, which still has its own.
    pub backup_is_link: bool,
    /// It is made under a name that is not its last.
    pub staged: bool,
    /// The old file that it takes the place of, and some of its attributes.
    pub heritage: Option<Heritage>,
    /// Whether what stands there may be the source.
    pub identity: Identity,
    /// What is known of the directory that it stands in.
    pub entries: NewEntries,
}

impl Run<'_> {
    /// Looks at the destination and makes way for the copy.
    pub(super) fn clear_way(&mut self, subject: &Subject<'_>, level: &Level<'_>, missing: bool) -> Way {
        let found = if missing { Ok(Found::Nothing) } else { self.look(subject) };
        if let Ok(Found::Something(existing)) = &found
            && self.order_decides(subject, existing)
        {
            self.drain();
        }
        match found {
            Err(errno) => {
                self.problem(Error::new(What::CannotStat, subject.dest.path).errno(errno));
                Way::Blocked
            }
            Ok(Found::Nothing) => Way::Clear(Clear { new: true, ..Clear::default() }),
            Ok(Found::Loop) if self.plan.is_staged() => {
                Way::Clear(Clear { new: true, replaces: true, ..Clear::default() })
            }
            Ok(Found::Loop) => Way::Clear(Clear::default()),
            Ok(Found::Something(existing)) => match self.pass_over_finished(subject, level, &existing) {
                Some(way) => way,
                None if self.is_of_earlier_attempt(subject, level, &existing) => self.make_again(subject),
                None if self.is_noted_by_shard(subject, &existing) => {
                    self.is_known_by_other_name(subject, level, &existing).unwrap_or(Way::Done)
                }
                None => self.decide(subject, level, existing),
            },
        }
    }

    /// Whether it matters for the result that everything that comes before in a serial copy is done.
    fn order_decides(&self, subject: &Subject<'_>, existing: &Existing) -> bool {
        // The user reads what was said before, and nothing comes between the question and the answer.
        let asks = self.plan.overwrite == Overwrite::Ask;
        // Which name of the source is copied and which become links to that, where one of them stands there already.
        let several_sources = self.keeps_links() && (subject.inode.links > 1 || subject.follow);
        if subject.inode.kind == Kind::Directory {
            // Found by another way (a link to a directory, a mount): others may be filling it.
            return !matches!(self.shared.links.get((&existing.target).into()), Ok(None));
        }
        // What is written here may be read or written elsewhere.
        existing.has_several_names() || several_sources || asks
    }

    /// Regular files can be written through a symbolic link, so for them what the link leads to counts; other files
    /// cannot, nor can what is going to be removed or linked.
    fn look(&mut self, subject: &Subject<'_>) -> Result<Found, Errno> {
        let plan = self.plan;
        let entry = match subject.dest.inode() {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(Errno::LOOP) if plan.force => return Ok(Found::Loop),
            Err(errno) => return Err(errno),
        };
        let itself = Found::Something(Existing { entry, target: entry });
        if entry.kind != Kind::SymbolicLink {
            return Ok(itself);
        }
        // What it leads to may be just in the making, or be read or written elsewhere.
        self.drain();
        if self.acts_on_entry(subject) {
            if plan.keep_directory_symlink && subject.inode.kind == Kind::Directory {
                let target = subject.dest.inode_following();
                if let Ok(target) = target
                    && target.kind == Kind::Directory
                {
                    return Ok(Found::Something(Existing { entry, target }));
                }
            }
            return Ok(itself);
        }
        match subject.dest.inode_following() {
            Ok(target) => Ok(Found::Something(Existing { entry, target })),
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(Errno::LOOP) if plan.force => Ok(Found::Loop),
            Err(errno) => Err(errno),
        }
    }

    fn acts_on_entry(&self, subject: &Subject<'_>) -> bool {
        let plan = self.plan;
        !self.copied_as_regular(subject.inode.kind)
            || plan.link != LinkMode::Copy
            || plan.backup != Backup::None
            || plan.remove_destination
    }

    /// The checks and options that concern an existing destination, in cp's order.
    fn decide(&mut self, subject: &Subject<'_>, level: &Level<'_>, existing: Existing) -> Way {
        let plan = self.plan;
        let pair = Pair {
            source: subject.source,
            source_inode: &subject.inode,
            dest: subject.dest,
            dest_inode: &existing.target,
            dereference: subject.dereference,
        };
        let verdict = match plan.overwrite {
            // What is left alone need not be looked at.
            Overwrite::Skip | Overwrite::Refuse => Verdict::Go,
            _ => judge(&pair, plan),
        };
        if verdict == Verdict::Refuse {
            self.problem(Error::new(What::SameFile, subject.source.path).and(subject.dest.path));
            return Way::Blocked;
        }
        if subject.inode.kind != Kind::Directory
            && let Some(way) = self.keep_old_one(subject, level, &existing)
        {
            return way;
        }
        if verdict == Verdict::Nothing {
            return Way::Done;
        }
        if let Some(error) = self.unsuitable(subject, &existing) {
            self.problem(error);
            return Way::Blocked;
        }
        let identity = self.identity(subject, &existing);
        self.remove_or_back_up(subject, existing, identity)
    }

    /// `--update`, `-n` and `-i`: reasons to leave the destination as it is.
    fn keep_old_one(&mut self, subject: &Subject<'_>, level: &Level<'_>, existing: &Existing) -> Option<Way> {
        let plan = self.plan;
        if plan.only_newer && !self.is_newer(&subject.inode, &existing.target) {
            self.skip(subject.dest);
            return Some(self.link_instead_of_skipping(subject, level));
        }
        let keep = match plan.overwrite {
            Overwrite::Replace => false,
            Overwrite::Skip => true,
            Overwrite::Refuse => {
                self.problem(Error::new(What::NotReplacing, subject.dest.path));
                return Some(Way::Blocked);
            }
            Overwrite::Ask => {
                let declined = !self.ask(subject.dest, &existing.target);
                // POSIX: not everything was copied. It is no error that --fail-fast would stop at.
                self.failed |= declined;
                declined
            }
        };
        if keep {
            self.skip(subject.dest);
        }
        keep.then_some(Way::Done)
    }

    fn skip(&mut self, dest: Spot<'_>) {
        self.stats.skipped += 1;
        self.tell(&Event::Skipped(dest.path));
    }

    fn ask(&self, dest: Spot<'_>, inode: &Inode) -> bool {
        let writable = inode.kind == Kind::SymbolicLink || self.shared.caller.privileged() || may_write(dest);
        let replaces = self.plan.remove_destination || self.plan.force;
        self.session.confirm.overwrite(&Question { dest: dest.path, inode, writable, replaces })
    }

    /// A file that is up to date may still have another name in the source that was copied before: then the two names
    /// at the destination become one file too.
    fn link_instead_of_skipping(&mut self, subject: &Subject<'_>, level: &Level<'_>) -> Way {
        // A file that has no other name, and was not reached through a link, is not met again.
        if subject.inode.links < 2 && !subject.follow && !subject.is_operand {
            return Way::Done;
        }
        match self.claim(subject, level) {
            Earlier::Made(earlier) => match self.link_to_earlier(earlier, subject, level) {
                Linked::Done => Way::Done,
                Linked::Failed => Way::Blocked,
                Linked::Claimed => self.is_what_was_claimed(subject),
            },
            Earlier::Claimed => self.is_what_was_claimed(subject),
            Earlier::Nothing => Way::Done,
            Earlier::Unknown => Way::Blocked,
        }
    }

    fn stands_as_claimed(&mut self, subject: &Subject<'_>, existing: &Existing) -> Option<Way> {
        self.made = Some(existing.target.id);
        self.complete_claim(subject);
        None
    }

    /// What is left as it is counts as the copy.
    fn is_what_was_claimed(&mut self, subject: &Subject<'_>) -> Way {
        self.made = None;
        self.complete_claim(subject);
        Way::Done
    }

    fn is_newer(&self, source: &Inode, dest: &Inode) -> bool {
        source.modified > dest.modified
    }

    /// Types that cannot replace each other, and files that this very run made.
    fn unsuitable(&self, subject: &Subject<'_>, existing: &Existing) -> Option<Error> {
        let (source, dest) = (subject.source.path, subject.dest.path);
        let from_directory = subject.inode.kind == Kind::Directory;
        if existing.target.kind == Kind::Directory {
            return (!from_directory).then(|| Error::new(What::CannotOverwriteDirectory, dest).and(source));
        }
        if from_directory {
            // With a backup it makes way.
            let in_the_way = self.plan.backup == Backup::None;
            return in_the_way.then(|| Error::new(What::CannotOverwriteNonDirectory, dest).and(source));
        }
        if subject.is_operand
            && self.plan.backup != Backup::Numbered
            && self.made_for_operand(subject.dest, &existing.target)
        {
            return Some(Error::new(What::JustCreated, dest).and(source));
        }
        None
    }

    /// Whether the old file may be the source, though its numbers are others.
    fn identity(&self, subject: &Subject<'_>, existing: &Existing) -> Identity {
        if existing.target.kind == Kind::Directory || self.plan.attributes_only {
            return Identity::Two;
        }
        let source = Party { spot: subject.source, inode: &subject.inode, follow: subject.follow };
        let through_link = existing.entry.kind == Kind::SymbolicLink && existing.target.kind != Kind::SymbolicLink;
        let dest = Party { spot: subject.dest, inode: &existing.target, follow: through_link };
        self.shared.identities.judge(source, dest, &|| self.cancelled())
    }

    fn remove_or_back_up(&mut self, subject: &Subject<'_>, existing: Existing, identity: Identity) -> Way {
        let plan = self.plan;
        // What may be the source stands there until it is copied.
        let replaces = plan.is_staged() || identity != Identity::Two;
        let dest = subject.dest;
        let is_directory = existing.target.kind == Kind::Directory;
        let dots = matches!(last_component(dest.path.as_os_str()).to_str(), Some("." | ".."));
        if plan.backup != Backup::None && !dots && !is_directory {
            return self.back_up(subject, identity);
        }
        let must_go = plan.remove_destination
            || (!plan.attributes_only
                && ((self.keeps_links() && existing.target.links > 1)
                    || (subject.dereference == Dereference::Never && subject.inode.kind != Kind::Regular)));
        if is_directory || !must_go {
            return Way::Clear(Clear { existing: Some(existing), identity, ..Clear::default() });
        }
        if replaces {
            return Way::Clear(Clear { new: true, replaces, identity, ..Clear::default() });
        }
        if !self.remove(dest) {
            return Way::Blocked;
        }
        Way::Clear(Clear { new: true, removed: true, ..Clear::default() })
    }

    fn back_up(&mut self, subject: &Subject<'_>, identity: Identity) -> Way {
        let plan = self.plan;
        let (source, dest) = (subject.source, subject.dest);
        if plan.backup != Backup::Numbered && backup::would_destroy_source(source, &subject.inode, dest, plan) {
            self.problem(Error::new(What::BackupWouldDestroySource, dest.path).and(source.path));
            return Way::Blocked;
        }
        // A directory is not renamed into its place.
        let replaces = plan.is_staged() || identity != Identity::Two;
        if replaces && subject.inode.kind != Kind::Directory {
            match backup::link_aside(dest, plan, self.temporary_names()) {
                Ok(Some(name)) => {
                    let backup = Some(name);
                    return Way::Clear(Clear {
                        new: true,
                        replaces: true,
                        backup,
                        backup_is_link: true,
                        identity,
                        ..Clear::default()
                    });
                }
                // No links there: for a moment the name stands for nothing.
                Ok(None) => {}
                Err(errno) => {
                    self.problem(Error::new(What::CannotBackup, dest.path).errno(errno));
                    return Way::Blocked;
                }
            }
        }
        match backup::move_aside(dest, plan) {
            Ok(name) => Way::Clear(Clear { new: true, backup: Some(name), ..Clear::default() }),
            Err(Errno::NOENT) => Way::Clear(Clear { new: true, ..Clear::default() }),
            Err(errno) => {
                self.problem(Error::new(What::CannotBackup, dest.path).errno(errno));
                Way::Blocked
            }
        }
    }

    /// What stands there is the finished copy of this source. If it has other names, those that come get the same file; what is
    /// to be done with this one if another name came before it.
    pub(super) fn is_known_by_other_name(
        &mut self,
        subject: &Subject<'_>,
        level: &Level<'_>,
        existing: &Existing,
    ) -> Option<Way> {
        if subject.is_operand {
            self.remember_destination(subject.dest);
        }
        let may_be_met_again = subject.inode.links > 1 || subject.follow || subject.is_operand;
        if !self.keeps_links() || !may_be_met_again {
            return None;
        }
        match self.claim(subject, level) {
            Earlier::Made(earlier) if earlier.id == Some(existing.target.id) => Some(Way::Done),
            Earlier::Made(earlier) => match self.link_to_earlier(earlier, subject, level) {
                Linked::Done => Some(Way::Done),
                Linked::Failed => Some(Way::Blocked),
                Linked::Claimed => self.stands_as_claimed(subject, existing),
            },
            Earlier::Unknown => Some(Way::Blocked),
            Earlier::Claimed => self.stands_as_claimed(subject, existing),
            Earlier::Nothing => None,
        }
    }

    /// Removes an existing destination that is not a directory.
    pub(super) fn remove(&mut self, dest: Spot<'_>) -> bool {
        match dest.unlink() {
            Ok(()) | Err(Errno::NOENT) => {
                self.tell(&Event::Removed(dest.path));
                true
            }
            Err(errno) => self.problem(Error::new(What::CannotRemove, dest.path).errno(errno)),
        }
    }

    /// Whether a file of this kind is copied by its contents, into a regular file.
    pub(super) fn copied_as_regular(&self, kind: Kind) -> bool {
        let contents = !self.plan.recursive || self.plan.copy_contents;
        kind == Kind::Regular || (contents && kind != Kind::Directory && kind != Kind::SymbolicLink)
    }

    /// Whether hard links between source files become hard links between copies.
    pub(super) fn keeps_links(&self) -> bool {
        self.plan.preserve.links
    }
}

pub(super) fn may_write(dest: Spot<'_>) -> bool {
    use haul_sys::rustix::fs::{Access, AtFlags, accessat};
    dest.dir().and_then(|dir| accessat(dir, dest.name, Access::WRITE_OK, AtFlags::EACCESS)).is_ok()
}
