//! What to do about a destination that exists already.

use haul_io::verify::Checked;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};

use crate::context::{RunContext, Worker};
use crate::decide::{self, Answers, CloseLook, Conflict, Decision, Existing, Fact, Kept, Source};
use crate::error::{Error, What};
use crate::events::{Event, Question};
use crate::finish::{naming, shard};
use crate::journal::Fingerprint;
use crate::plan::{Dereference, Overwrite};
use crate::publish::backup;
use crate::report::{Reported, Reporter};
use crate::tree::claims::{self, Earlier, Linked};
use crate::tree::walker::Walker;
use crate::walk::{Identity, Party, Spot, last_component};
use crate::work::entry::{self, Action, DestState, Level, Subject, may_write};

/// What was found at the destination.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "one of it lives at a time, on the stack")]
pub(crate) enum Found {
    Nothing,
    Something(Existing),
    /// A loop of symbolic links, which `--force` will remove.
    Loop,
}

/// Looks at the destination and makes way for the copy.
pub(crate) fn action_for(walker: &mut Walker<'_>, subject: &Subject<'_>, level: &Level<'_>, missing: bool) -> Action {
    let found = if missing { Ok(Found::Nothing) } else { look(walker, subject) };
    if let Ok(Found::Something(existing)) = &found
        && order_decides(walker.cx, subject, existing)
    {
        walker.drain();
    }
    match found {
        Err(errno) => {
            walker.worker.report.problem(Error::new(What::CannotStat, subject.dest.path).errno(errno));
            Action::Failed
        }
        Ok(Found::Nothing) => Action::Copy(DestState { new: true, ..DestState::default() }),
        Ok(Found::Loop) if walker.cx.plan.uses_temporary_file() => {
            Action::Copy(DestState { new: true, replaces: true, ..DestState::default() })
        }
        Ok(Found::Loop) => Action::Copy(DestState::default()),
        Ok(Found::Something(existing)) => match pass_over_finished(walker, subject, level, &existing) {
            Some(way) => way,
            None if shard::is_of_earlier_attempt(
                walker.cx,
                subject,
                level.ancestors.last().is_some_and(|frame| frame.place.created),
                &existing,
            ) =>
            {
                make_again(walker.cx, &mut walker.worker.report, subject)
            }
            None if shard::is_noted_by_shard(walker.cx, subject, &existing) => {
                is_known_by_other_name(walker, subject, level, &existing).unwrap_or(Action::Nothing)
            }
            None => decide(walker, subject, level, existing),
        },
    }
}

/// Whether it matters for the result that everything that comes before in a serial copy is done.
fn order_decides(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    // The user reads what was said before, and nothing comes between the question and the answer.
    let asks = cx.plan.overwrite == Overwrite::Ask;
    // Which name of the source is copied and which become links to that, where one of them stands there already.
    let several_sources = cx.plan.preserve.links && (subject.inode.links > 1 || subject.follow);
    if subject.inode.kind == Kind::Directory {
        // Found by another way (a link to a directory, a mount): others may be filling it.
        return !matches!(cx.services.links.get((&existing.target).into()), Ok(None));
    }
    // What is written here may be read or written elsewhere.
    existing.has_several_names() || several_sources || asks
}

/// Regular files can be written through a symbolic link, so for them what the link leads to counts; other files
/// cannot, nor can what is going to be removed or linked.
pub(crate) fn look(walker: &mut Walker<'_>, subject: &Subject<'_>) -> Result<Found, Errno> {
    let plan = walker.cx.plan;
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
    walker.drain();
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
pub(crate) fn decide(walker: &mut Walker<'_>, subject: &Subject<'_>, level: &Level<'_>, existing: Existing) -> Action {
    let (source_path, dest_path) = (subject.source.path, subject.dest.path);
    let refused = match decision(walker, subject, &existing) {
        Decision::Ask(_) | Decision::Nothing => return Action::Nothing,
        Decision::Keep(why) => return keep(walker.cx, &mut walker.worker, subject, level, why),
        Decision::WriteInto(identity) => {
            return Action::Copy(DestState { existing: Some(existing), identity, ..DestState::default() });
        }
        Decision::Replace(identity) => {
            return Action::Copy(DestState { new: true, replaces: true, identity, ..DestState::default() });
        }
        Decision::Remove if !entry::remove(&mut walker.worker.report, subject.dest) => return Action::Failed,
        Decision::Remove => return Action::Copy(DestState { new: true, removed: true, ..DestState::default() }),
        Decision::BackUp { link, identity } => {
            return back_up(walker.cx, &mut walker.worker.report, subject, link, identity);
        }
        Decision::Refuse(conflict) => match conflict {
            Conflict::SameFile => Error::new(What::SameFile, source_path).and(dest_path),
            Conflict::Exists => Error::new(What::NotReplacing, dest_path),
            Conflict::Directory => Error::new(What::CannotOverwriteDirectory, dest_path).and(source_path),
            Conflict::NotDirectory => Error::new(What::CannotOverwriteNonDirectory, dest_path).and(source_path),
            Conflict::JustMade => Error::new(What::JustCreated, dest_path).and(source_path),
            Conflict::BackupIsSource => Error::new(What::BackupWouldDestroySource, dest_path).and(source_path),
        },
    };
    walker.worker.report.problem(refused);
    Action::Failed
}

/// Asks for the decision, and finds out what it depends on.
pub(crate) fn decision(walker: &Walker<'_>, subject: &Subject<'_>, existing: &Existing) -> Decision {
    let source = Source { inode: &subject.inode, dereference: subject.dereference, is_operand: subject.is_operand };
    let mut answers = Answers::default();
    loop {
        let fact = match decide::decide(&source, existing, &answers, walker.cx.plan) {
            Decision::Ask(fact) => fact,
            decision => return decision,
        };
        match fact {
            Fact::CloseLook => answers.close_look = Some(close_look(subject, &source, existing)),
            Fact::Overwrite => answers.overwrite = Some(ask(walker.cx, subject.dest, &existing.target)),
            Fact::MadeForOperand => {
                answers.made_for_operand = Some(walker.operands.have_made(subject.dest, &existing.target));
            }
            Fact::Identity => answers.identity = Some(identity(walker.cx, subject, existing)),
            Fact::BackupIsSource => {
                let source = (subject.source, &subject.inode);
                answers.backup_is_source = Some(backup::would_destroy_source(source, subject.dest, walker.cx.plan));
            }
        }
    }
}

/// Leaves the destination as it is.
pub(crate) fn keep(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    level: &Level<'_>,
    why: Kept,
) -> Action {
    // POSIX: not everything was copied. It is no error that --fail-fast would stop at.
    worker.report.failed |= why == Kept::Declined;
    skip(&mut worker.report, subject.dest);
    match why {
        Kept::NotOlder => link_instead_of_skipping(cx, worker, subject, level),
        Kept::Protected | Kept::Declined => Action::Nothing,
    }
}

pub(crate) fn skip(report: &mut Reporter<'_>, dest: Spot<'_>) {
    report.stats.skipped += 1;
    report.tell(&Event::Skipped(dest.path.into()));
}

pub(crate) fn ask(cx: RunContext<'_>, dest: Spot<'_>, inode: &Inode) -> bool {
    let writable = inode.kind == Kind::SymbolicLink || cx.services.caller.privileged() || may_write(dest);
    let replaces = cx.plan.remove_destination || cx.plan.force;
    cx.session.confirm.overwrite(&Question { dest: dest.path, inode, writable, replaces })
}

/// A file that is up to date may still have another name in the source that was copied before: then the two names
/// at the destination become one file too.
fn link_instead_of_skipping(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    level: &Level<'_>,
) -> Action {
    // A file that has no other name, and was not reached through a link, is not met again.
    if subject.inode.links < 2 && !subject.follow && !subject.is_operand {
        return Action::Nothing;
    }
    match claims::claim(cx, &mut worker.report, subject, level) {
        Earlier::Made(earlier) => match claims::link_to_earlier(cx, worker, earlier, subject, level) {
            Linked::Done => Action::Nothing,
            Linked::Failed => Action::Failed,
            Linked::Claimed => is_what_was_claimed(cx, worker, subject),
        },
        Earlier::Claimed => is_what_was_claimed(cx, worker, subject),
        Earlier::Nothing => Action::Nothing,
        Earlier::Unknown => Action::Failed,
    }
}

fn stands_as_claimed(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    existing: &Existing,
) -> Option<Action> {
    claims::complete_claim(cx, worker, subject, Some(existing.target.id));
    None
}

/// What is left as it is counts as the copy.
fn is_what_was_claimed(cx: RunContext<'_>, worker: &mut Worker<'_>, subject: &Subject<'_>) -> Action {
    claims::complete_claim(cx, worker, subject, None);
    Action::Nothing
}

/// Whether the old file may be the source, though its numbers are others.
pub(crate) fn identity(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> Identity {
    let source = Party { spot: subject.source, inode: &subject.inode, follow: subject.follow };
    let through_link = existing.entry.kind == Kind::SymbolicLink && existing.target.kind != Kind::SymbolicLink;
    let dest = Party { spot: subject.dest, inode: &existing.target, follow: through_link };
    cx.services.identities.judge(source, dest, &|| cx.cancelled())
}

/// Gives what stands there its backup name: by a link, if it shall keep its own for now and the filesystem has links.
fn back_up(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    link: bool,
    identity: Identity,
) -> Action {
    let (plan, dest) = (cx.plan, subject.dest);
    if link {
        match backup::link_aside(dest, plan, cx.temporary_names()) {
            Ok(Some(name)) => {
                let state = DestState { new: true, replaces: true, backup_is_link: true, ..DestState::default() };
                return Action::Copy(DestState { backup: Some(name), identity, ..state });
            }
            // No links there: for a moment the name stands for nothing.
            Ok(None) => {}
            Err(errno) => {
                report.problem(Error::new(What::CannotBackup, dest.path).errno(errno));
                return Action::Failed;
            }
        }
    }
    let backup = match backup::move_aside(dest, plan) {
        Err(Errno::NOENT) => None,
        moved => match report.check(moved, What::CannotBackup, dest.path) {
            Ok(name) => Some(name),
            Err(Reported) => return Action::Failed,
        },
    };
    Action::Copy(DestState { new: true, backup, ..DestState::default() })
}

/// What stands there is the finished copy of this source. If it has other names, those that come get the same file; what is
/// to be done with this one if another name came before it.
fn is_known_by_other_name(
    walker: &mut Walker<'_>,
    subject: &Subject<'_>,
    level: &Level<'_>,
    existing: &Existing,
) -> Option<Action> {
    if subject.is_operand {
        walker.operands.remember(subject.dest, None);
    }
    let may_be_met_again = subject.inode.links > 1 || subject.follow || subject.is_operand;
    if !walker.cx.plan.preserve.links || !may_be_met_again {
        return None;
    }
    match claims::claim(walker.cx, &mut walker.worker.report, subject, level) {
        Earlier::Made(earlier) if earlier.id == Some(existing.target.id) => Some(Action::Nothing),
        Earlier::Made(earlier) => {
            match claims::link_to_earlier(walker.cx, &mut walker.worker, earlier, subject, level) {
                Linked::Done => Some(Action::Nothing),
                Linked::Failed => Some(Action::Failed),
                Linked::Claimed => stands_as_claimed(walker.cx, &mut walker.worker, subject, existing),
            }
        }
        Earlier::Unknown => Some(Action::Failed),
        Earlier::Claimed => stands_as_claimed(walker.cx, &mut walker.worker, subject, existing),
        Earlier::Nothing => None,
    }
}

/// Passes over a copy that an earlier run has finished, if neither it nor its source has changed since.
fn pass_over_finished(
    walker: &mut Walker<'_>,
    subject: &Subject<'_>,
    level: &Level<'_>,
    existing: &Existing,
) -> Option<Action> {
    let progress = walker.cx.services.progress.get().filter(|progress| progress.earlier)?;
    if subject.inode.kind != Kind::Regular || existing.target.kind != Kind::Regular {
        return None;
    }
    let source = Fingerprint::of_source(&subject.inode);
    let digest = progress.finished(Fingerprint::of_copy(source, &existing.target))?;
    if walker.cx.plan.checksum.is_some() && digest.is_none() {
        return None;
    }
    if let Some(way) = is_known_by_other_name(walker, subject, level, existing) {
        return Some(way);
    }
    walker.worker.report.stats.resumed_files += 1;
    walker.worker.report.stats.resumed_bytes += subject.inode.size;
    if let Some(digest) = digest.filter(|_| walker.cx.plan.checksum.is_some()) {
        let digest = Some(digest.to_hex());
        naming::tell_digest(&walker.worker.report, subject.dest.path, &Checked { digest, ..Checked::default() });
    }
    Some(Action::Nothing)
}

/// Makes way for it once more, whatever options say of files that were there.
fn make_again(cx: RunContext<'_>, report: &mut Reporter<'_>, subject: &Subject<'_>) -> Action {
    if cx.plan.uses_temporary_file() {
        return Action::Copy(DestState { new: true, replaces: true, ..DestState::default() });
    }
    match entry::remove(report, subject.dest) {
        true => Action::Copy(DestState { new: true, ..DestState::default() }),
        false => Action::Failed,
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

#[cfg(test)]
#[path = "existing_tests.rs"]
mod tests;
