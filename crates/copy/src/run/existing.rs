//! What to do about a destination that exists already.

use std::ffi::OsString;

use haul_sys::Errno;

use super::Run;
use super::attributes::ReplacedFile;
use super::entry::{Earlier, Level, Subject};
use super::names::Linked;
use crate::decide::{self, Answers, CloseLook, Conflict, Decision, Existing, Fact, Kept, Source};
use crate::error::{Error, What};
use crate::events::{Event, Question};
use crate::facts::{Inode, Kind};
use crate::meta::NewEntries;
use crate::plan::{Dereference, Overwrite};
use crate::publish::backup;
use crate::walk::{Identity, Party, Spot, last_component};

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
    /// The old file that it replaces, and some of its attributes.
    pub replaced: Option<ReplacedFile>,
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
                self.worker.report.problem(Error::new(What::CannotStat, subject.dest.path).errno(errno));
                Way::Blocked
            }
            Ok(Found::Nothing) => Way::Clear(Clear { new: true, ..Clear::default() }),
            Ok(Found::Loop) if self.cx.plan.is_staged() => {
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
        let asks = self.cx.plan.overwrite == Overwrite::Ask;
        // Which name of the source is copied and which become links to that, where one of them stands there already.
        let several_sources = self.cx.keeps_links() && (subject.inode.links > 1 || subject.follow);
        if subject.inode.kind == Kind::Directory {
            // Found by another way (a link to a directory, a mount): others may be filling it.
            return !matches!(self.cx.services.links.get((&existing.target).into()), Ok(None));
        }
        // What is written here may be read or written elsewhere.
        existing.has_several_names() || several_sources || asks
    }

    /// Regular files can be written through a symbolic link, so for them what the link leads to counts; other files
    /// cannot, nor can what is going to be removed or linked.
    fn look(&mut self, subject: &Subject<'_>) -> Result<Found, Errno> {
        let plan = self.cx.plan;
        let entry = match subject.dest.inode() {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(Errno::LOOP) if plan.force => return Ok(Found::Loop),
            Err(errno) => return Err(errno),
        };
        let is_dot = matches!(last_component(subject.dest.path.as_os_str()).to_str(), Some("." | ".."));
        let itself = Found::Something(Existing { entry, target: entry, is_dot });
        if entry.kind != Kind::SymbolicLink {
            return Ok(itself);
        }
        // What it leads to may be just in the making, or be read or written elsewhere.
        self.drain();
        if decide::acts_on_entry(subject.inode.kind, plan) {
            if plan.keep_directory_symlink && subject.inode.kind == Kind::Directory {
                let target = subject.dest.inode_following();
                if let Ok(target) = target
                    && target.kind == Kind::Directory
                {
                    return Ok(Found::Something(Existing { entry, target, is_dot }));
                }
            }
            return Ok(itself);
        }
        match subject.dest.inode_following() {
            Ok(target) => Ok(Found::Something(Existing { entry, target, is_dot })),
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(Errno::LOOP) if plan.force => Ok(Found::Loop),
            Err(errno) => Err(errno),
        }
    }

    /// Does what is decided about an existing destination.
    fn decide(&mut self, subject: &Subject<'_>, level: &Level<'_>, existing: Existing) -> Way {
        let (source_path, dest_path) = (subject.source.path, subject.dest.path);
        let refused = match self.decision(subject, &existing) {
            Decision::Ask(_) | Decision::Nothing => return Way::Done,
            Decision::Keep(why) => return self.keep(subject, level, why),
            Decision::WriteInto(identity) => {
                return Way::Clear(Clear { existing: Some(existing), identity, ..Clear::default() });
            }
            Decision::Replace(identity) => {
                return Way::Clear(Clear { new: true, replaces: true, identity, ..Clear::default() });
            }
            Decision::Remove if !self.remove(subject.dest) => return Way::Blocked,
            Decision::Remove => return Way::Clear(Clear { new: true, removed: true, ..Clear::default() }),
            Decision::BackUp { link, identity } => return self.back_up(subject, link, identity),
            Decision::Refuse(conflict) => match conflict {
                Conflict::SameFile => Error::new(What::SameFile, source_path).and(dest_path),
                Conflict::Exists => Error::new(What::NotReplacing, dest_path),
                Conflict::Directory => Error::new(What::CannotOverwriteDirectory, dest_path).and(source_path),
                Conflict::NotDirectory => Error::new(What::CannotOverwriteNonDirectory, dest_path).and(source_path),
                Conflict::JustMade => Error::new(What::JustCreated, dest_path).and(source_path),
                Conflict::BackupIsSource => Error::new(What::BackupWouldDestroySource, dest_path).and(source_path),
            },
        };
        self.worker.report.problem(refused);
        Way::Blocked
    }

    /// Asks for the decision, and finds out what it depends on.
    fn decision(&self, subject: &Subject<'_>, existing: &Existing) -> Decision {
        let source = Source { inode: &subject.inode, dereference: subject.dereference, is_operand: subject.is_operand };
        let mut answers = Answers::default();
        loop {
            let fact = match decide::decide(&source, existing, &answers, self.cx.plan) {
                Decision::Ask(fact) => fact,
                decision => return decision,
            };
            match fact {
                Fact::CloseLook => answers.close_look = Some(close_look(subject, &source, existing)),
                Fact::Overwrite => answers.overwrite = Some(self.ask(subject.dest, &existing.target)),
                Fact::MadeForOperand => {
                    answers.made_for_operand = Some(self.operands.have_made(subject.dest, &existing.target));
                }
                Fact::Identity => answers.identity = Some(self.identity(subject, existing)),
                Fact::BackupIsSource => {
                    let source = (subject.source, &subject.inode);
                    answers.backup_is_source = Some(backup::would_destroy_source(source, subject.dest, self.cx.plan));
                }
            }
        }
    }

    /// Leaves the destination as it is.
    fn keep(&mut self, subject: &Subject<'_>, level: &Level<'_>, why: Kept) -> Way {
        // POSIX: not everything was copied. It is no error that --fail-fast would stop at.
        self.worker.report.failed |= why == Kept::Declined;
        self.skip(subject.dest);
        match why {
            Kept::NotOlder => self.link_instead_of_skipping(subject, level),
            Kept::Protected | Kept::Declined => Way::Done,
        }
    }

    fn skip(&mut self, dest: Spot<'_>) {
        self.worker.report.stats.skipped += 1;
        self.worker.report.tell(&Event::Skipped(dest.path));
    }

    fn ask(&self, dest: Spot<'_>, inode: &Inode) -> bool {
        let writable = inode.kind == Kind::SymbolicLink || self.cx.services.caller.privileged() || may_write(dest);
        let replaces = self.cx.plan.remove_destination || self.cx.plan.force;
        self.cx.session.confirm.overwrite(&Question { dest: dest.path, inode, writable, replaces })
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
        self.complete_claim(subject, Some(existing.target.id));
        None
    }

    /// What is left as it is counts as the copy.
    fn is_what_was_claimed(&mut self, subject: &Subject<'_>) -> Way {
        self.complete_claim(subject, None);
        Way::Done
    }

    /// Whether the old file may be the source, though its numbers are others.
    fn identity(&self, subject: &Subject<'_>, existing: &Existing) -> Identity {
        let source = Party { spot: subject.source, inode: &subject.inode, follow: subject.follow };
        let through_link = existing.entry.kind == Kind::SymbolicLink && existing.target.kind != Kind::SymbolicLink;
        let dest = Party { spot: subject.dest, inode: &existing.target, follow: through_link };
        self.cx.services.identities.judge(source, dest, &|| self.cx.cancelled())
    }

    /// Gives what stands there its backup name: by a link, if it shall keep its own for now and the filesystem has links.
    fn back_up(&mut self, subject: &Subject<'_>, link: bool, identity: Identity) -> Way {
        let (plan, dest) = (self.cx.plan, subject.dest);
        if link {
            match backup::link_aside(dest, plan, self.cx.temporary_names()) {
                Ok(Some(name)) => {
                    let backup = Some(name);
                    let backup_is_link = true;
                    let (new, replaces) = (true, true);
                    return Way::Clear(Clear { new, replaces, backup, backup_is_link, identity, ..Clear::default() });
                }
                // No links there: for a moment the name stands for nothing.
                Ok(None) => {}
                Err(errno) => {
                    self.worker.report.problem(Error::new(What::CannotBackup, dest.path).errno(errno));
                    return Way::Blocked;
                }
            }
        }
        match backup::move_aside(dest, plan) {
            Ok(name) => Way::Clear(Clear { new: true, backup: Some(name), ..Clear::default() }),
            Err(Errno::NOENT) => Way::Clear(Clear { new: true, ..Clear::default() }),
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotBackup, dest.path).errno(errno));
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
            self.operands.remember(subject.dest, None);
        }
        let may_be_met_again = subject.inode.links > 1 || subject.follow || subject.is_operand;
        if !self.cx.keeps_links() || !may_be_met_again {
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
                self.worker.report.tell(&Event::Removed(dest.path));
                true
            }
            Err(errno) => self.worker.report.problem(Error::new(What::CannotRemove, dest.path).errno(errno)),
        }
    }
}

/// How the two are related, where one may be the other or lead to it.
fn close_look(subject: &Subject<'_>, source: &Source<'_>, existing: &Existing) -> CloseLook {
    let (from, to) = (subject.source, subject.dest);
    let lead_to = |spot: Spot<'_>, entry: &Inode| match entry.kind {
        Kind::SymbolicLink => spot.inode_following().map(|target| target.id),
        _ => Ok(entry.id),
    };
    let same_target = || Some(lead_to(from, &subject.inode).ok()? == lead_to(to, &existing.target).ok()?);
    let entries = match source.dereference {
        Dereference::Never => Ok([subject.inode, existing.target]),
        _ => from.inode().and_then(|inode| Ok([inode, to.inode()?])),
    };
    CloseLook {
        one_entry: crate::walk::one_entry(from, to),
        entries: entries.ok(),
        same_target: if source.needs_targets(existing) { same_target() } else { None },
    }
}

pub(super) fn may_write(dest: Spot<'_>) -> bool {
    use haul_sys::rustix::fs::{Access, AtFlags, accessat};
    dest.dir().and_then(|dir| accessat(dir, dest.name, Access::WRITE_OK, AtFlags::EACCESS)).is_ok()
}
