//! What to do about a destination that exists already.

use std::iter;
use std::os::fd::AsFd;
use std::sync::Arc;

use haul_io::verify::Checked;
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::OFlags;

use crate::context::{RunContext, Worker};
use crate::decide::{self, Answers, CloseLook, Decision, Existing, Fact, Source};
use crate::error::{Error, What};
use crate::events::{Event, Kept, Question, Reason};
use crate::file::open::open_regular;
use crate::finish::removal::Removal;
use crate::finish::{deletion, moved, naming, shard};
use crate::journal::{Digest, Fingerprint};
use crate::links::DestDir;
use crate::plan::{Dereference, LinkMode, Overwrite, Plan, Update};
use crate::publish::backup;
use crate::publish::ready::Replaceable;
use crate::report::Reporter;
use crate::tree::claims::{self, Earlier, Instead};
use crate::tree::walker::Walker;
use crate::tree::{offline, rename, same};
use crate::walk::{Identity, Party, Spot, last_component, name_one_directory, one_entry, reopen_directory};
use crate::work::directory::Frame;
use crate::work::entry::{self, DestState, Subject, may_write};
use crate::work::planned;

/// Looks at the destination and makes way for the copy; how it is then. `None` if nothing is left to do, or if that failed, which
/// was reported.
pub(crate) fn make_way(walker: &mut Walker<'_>, subject: &mut Subject<'_>) -> Option<DestState> {
    let cx = walker.worker.cx;
    let mut waited = source_waits(cx, subject);
    if waited {
        walker.wait_for_turn();
        // It may have been written to under another name.
        let now = subject.source.inode_now(subject.follow());
        now.ok().filter(|now| now.is_same_file_as(&subject.inode)).into_iter().for_each(|now| subject.inode = now);
    }
    let existing = loop {
        let found = if subject.level.missing { Ok(None) } else { look(walker, subject) };
        // Then it may not be the turn of who has waited for it.
        if cx.cancelled() {
            return None;
        }
        match found {
            Ok(Some(existing)) if waited || !order_decides(cx, subject, &existing) => break existing,
            // Then it may be another.
            Ok(Some(_)) => walker.wait_for_turn(),
            Ok(None) if is_passed_over(&mut walker.worker, subject) => return None,
            Ok(None) => return Some(DestState { new: true, ..DestState::default() }),
            // Opening a loop of symbolic links fails, and then it is removed.
            Err(Errno::LOOP) if cx.plan.force => {
                if is_passed_over(&mut walker.worker, subject) {
                    return None;
                }
                let replaces = cx.plan.uses_temporary_file();
                return Some(DestState { new: replaces, replaces, ..DestState::default() });
            }
            Err(errno) => {
                walker.worker.report.problem(Error::new(What::CannotStat, subject.dest.path).errno(errno));
                moved::let_stay(&mut walker.worker, &subject.inode, subject.level.dir);
                return None;
            }
        }
        waited = true;
    };
    let in_made = subject.level.ancestors.last().is_some_and(|frame| frame.place.created);
    if rename::is_taken(&mut walker.worker, subject, &existing) || pass_over_finished(walker, subject, &existing) {
        None
    } else if shard::is_of_earlier_attempt(cx, subject, in_made, &existing) {
        let is_left = is_passed_over(&mut walker.worker, subject);
        if is_left { None } else { make_again(&mut walker.worker, subject) }
    } else if shard::is_noted_by_shard(cx, subject, &existing) {
        becomes_name_of_other_copy(walker, subject, &existing);
        None
    } else {
        let errors = walker.worker.report.failures_of_copying();
        let state = decide(walker, subject, existing);
        if walker.worker.report.failures_of_copying() > errors {
            moved::let_stay(&mut walker.worker, &subject.inode, subject.level.dir);
        }
        state
    }
}

/// Whether a file has other names in the source, where several threads meet what stands at the destination: that decides which
/// of them is copied, and what is written there may be the source.
fn source_waits(cx: RunContext<'_>, subject: &Subject<'_>) -> bool {
    let source = subject.inode.id.device();
    let [_, dest] = subject.level.ancestors.last().map_or([source; 2], Frame::devices);
    // A filesystem without a device of its own may show files of others under its own number.
    let may_be_one = source == dest || source.major == 0 || dest.major == 0;
    subject.inode.links > 1
        && subject.inode.kind != Kind::Directory
        && (cx.plan.preserve.links || cx.plan.keeps_existing() || may_be_one)
        && cx.services.order.several_meet_files()
}

/// Whether it matters for the result that everything that comes before in a serial copy is done.
fn order_decides(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    // The user reads what was said before, and nothing comes between the question and the answer.
    let asks = cx.plan.overwrite == Overwrite::Ask;
    // Which name of the source is copied and which become links to that, where one of them stands there already.
    let several_sources = cx.plan.preserve.links && (subject.inode.links > 1 || subject.follow());
    if subject.inode.kind == Kind::Directory {
        // Found by another way (a link to a directory, a mount): others may be filling it.
        return !matches!(cx.services.links.get((&existing.target).into()), Ok(None));
    }
    // What is written here may be read or written elsewhere.
    existing.has_several_names() || several_sources || asks
}

/// What stands at the destination. Regular files can be written through a symbolic link, so for them what the link leads to
/// counts; other files cannot, nor can what is going to be removed or linked.
fn look(walker: &mut Walker<'_>, subject: &Subject<'_>) -> Result<Option<Existing>, Errno> {
    let (plan, dest) = (walker.worker.cx.plan, subject.dest);
    let there = |found| match found {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    };
    let Some(entry) = there(dest.inode())? else { return Ok(None) };
    let is_dot = matches!(last_component(dest.path.as_os_str()).to_str(), Some("." | ".."));
    let leading_to = |target| Existing { entry, target, is_dot };
    if entry.kind != Kind::SymbolicLink {
        return Ok(Some(leading_to(entry)));
    }
    let through = !decide::acts_on_entry(subject.inode.kind, plan, subject.is_operand());
    let enters = plan.keep_directory_symlink && subject.inode.kind == Kind::Directory;
    if through || enters {
        // What it leads to may be just in the making, or be read or written elsewhere.
        walker.wait_for_turn();
    }
    if through {
        return Ok(there(dest.inode_following())?.map(leading_to));
    }
    let target = enters.then(|| dest.inode_following().ok()).flatten();
    Ok(Some(leading_to(target.filter(|target| target.kind == Kind::Directory).unwrap_or(entry))))
}

/// Does what is decided about an existing destination.
fn decide(walker: &mut Walker<'_>, subject: &mut Subject<'_>, existing: Existing) -> Option<DestState> {
    let mut answers = Answers::default();
    let decision = decision(walker, subject, &existing, &mut answers);
    // It is opened again for the copy: meanwhile the user may have been asked, and what makes way may be another name of it.
    subject.opened = None;
    let reason = reason(subject, &existing, &answers, walker.worker.cx.plan);
    let state =
        match decision {
            Decision::Ask(_) | Decision::Nothing => return None,
            Decision::Keep(why) => {
                keep(walker, subject, &existing, why);
                return None;
            }
            Decision::WriteInto(identity) => {
                let stands = may_not_be_newer(walker.worker.cx, &existing.target);
                Ok(DestState { existing: Some(Box::new(existing)), stands, identity, ..DestState::default() })
            }
            Decision::Replace(identity) => {
                let stands = may_not_be_newer(walker.worker.cx, &existing.entry);
                Ok(DestState { new: true, replaces: true, stands, identity, ..DestState::default() })
            }
            // Of what goes only since its type is another, or it has other names, the source is opened first.
            Decision::Remove
                if decide::makes_equal(walker.worker.cx.plan, subject.is_operand())
                    && let Err(error) = open_first(walker.worker.cx, subject) =>
            {
                Err(error)
            }
            Decision::Remove => match entry::remove(&mut walker.worker.report, subject.dest) {
                true => {
                    look_again(subject);
                    Ok(DestState { new: true, removed: true, ..DestState::default() })
                }
                false => return None,
            },
            Decision::Delete(conflict) => delete(&mut walker.worker, subject, &existing, conflict)
                .map(|()| DestState { new: true, removed: true, ..DestState::default() }),
            Decision::BackUp { link, identity } => Ok(back_up(&mut walker.worker, subject, link, identity)?),
            Decision::Refuse(what) => Err(refusal(subject, what)),
        };
    match state {
        Ok(state) => Some(DestState { reason: (reason != Reason::Any).then_some(reason), ..state }),
        Err(refused) => {
            walker.worker.report.problem(refused);
            None
        }
    }
}

/// What is to be replaced, where that is only what was found to be older.
fn may_not_be_newer(cx: RunContext<'_>, inode: &Inode) -> Option<Box<Replaceable>> {
    (cx.plan.update == Update::Older).then(|| Box::new(Replaceable { inode: *inode, has_backup: false }))
}

/// What an existing destination was found to be beside its source.
fn reason(subject: &Subject<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Reason {
    let source = Source { inode: &subject.inode, dereference: subject.dereference, is_operand: subject.is_operand() };
    decide::reason(&source, existing, answers, plan)
}

/// Opens what is to take the place of something that goes: that must not go for what cannot be read. False for what is read only
/// when it is copied and cannot be opened before.
fn open_first(cx: RunContext<'_>, subject: &mut Subject<'_>) -> Result<bool, Error> {
    let (source, was, follow) = (subject.source, subject.inode, subject.follow());
    let opened = match was.kind {
        Kind::Regular => open_regular(source, follow, cx.plan),
        Kind::Directory => {
            let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
            let opened = source.open(OFlags::RDONLY | OFlags::DIRECTORY | no_follow, 0);
            opened.and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd))).map(|(inode, fd)| (fd, inode))
        }
        kind => return Ok(!decide::copied_as_regular(kind, cx.plan)),
    };
    let (fd, inode) = opened.map_err(|errno| Error::new(What::CannotOpen, source.path).errno(errno))?;
    if !inode.is_same_file_as(&was) {
        return Err(Error::new(What::ReplacedWhileCopied, source.path));
    }
    if was.kind == Kind::Regular {
        (subject.opened, subject.inode) = (Some(fd), inode);
    }
    Ok(true)
}

/// Removes what stands there with all that is in it, or says in a dry run what that is.
///
/// # Errors
/// Some of it stays, the source cannot be opened, or nothing may go before the copy is whole.
pub(crate) fn delete(
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    existing: &Existing,
    conflict: What,
) -> Result<(), Error> {
    if worker.cx.plan.uses_temporary_file() {
        return Err(refusal(subject, What::NotInOneStep));
    }
    match open_first(worker.cx, subject)? && remove_with_contents(worker, subject, existing) {
        true => {
            look_again(subject);
            Ok(())
        }
        false => Err(refusal(subject, conflict)),
    }
}

/// A name of the source may be among what was removed, which changes its time of change, and nothing of what is copied.
fn look_again(subject: &mut Subject<'_>) {
    let now = subject.opened.as_ref().and_then(|opened| Inode::of(opened.as_fd()).ok());
    now.into_iter().for_each(|now| subject.inode = now);
}

/// Whether it is gone.
fn remove_with_contents(worker: &mut Worker<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    let Some(above) = subject.level.ancestors.last() else { return false };
    // It may be the copy of another entry of the source.
    let cx = worker.cx;
    let is_its_own = || {
        let dir = subject.dest.dir().and_then(reopen_directory);
        dir.is_ok_and(|dir| deletion::doubt(cx, &above.place, dir.as_fd(), iter::once(subject.dest)).is_none())
    };
    is_its_own()
        && Removal::below(worker, &above.place, above.sides.as_deref())
            .is_some_and(|mut removal| removal.make_way(subject.dest, &existing.entry))
}

/// Why nothing happens to either side.
pub(crate) fn refusal(subject: &Subject<'_>, what: What) -> Error {
    let (source_path, dest_path) = (subject.source.path, subject.dest.path);
    match what {
        What::SameFile => Error::new(what, source_path).and(dest_path),
        What::NotReplacing => Error::new(what, dest_path),
        what => Error::new(what, dest_path).and(source_path),
    }
}

/// What a copy would do about what stands at the destination, and why.
pub(crate) struct Foreseen {
    pub existing: Existing,
    pub decision: Decision,
    pub reason: Reason,
    /// The user would be asked before.
    pub asks: bool,
}

/// Whether an earlier operand would have made this.
fn is_planned(walker: &Walker<'_>, subject: &Subject<'_>, inode: &Inode) -> bool {
    // All directories that are only planned look the same.
    !subject.level.missing && walker.operands.have_made(subject.dest, inode)
}

/// Looks at the destination and decides about it, as a copy does. In a dry run, which changes nothing and asks nobody. `None` if
/// nothing stands there.
pub(crate) fn foresee(walker: &mut Walker<'_>, subject: &mut Subject<'_>) -> Result<Option<Foreseen>, Error> {
    let plan = walker.worker.cx.plan;
    if is_planned(walker, subject, &planned::renamed()) {
        // As of what was renamed.
        return Err(Error::new(What::JustCreated, subject.dest.path).and(subject.source.path));
    }
    let planned = [Kind::Directory, Kind::Regular].map(|kind| planned::inode(kind, plan.preserve.timestamps));
    let mut answers = Answers::default();
    let existing = if let Some(inode) = planned.into_iter().find(|inode| is_planned(walker, subject, inode)) {
        // It is no other file.
        answers.identity = Some(Identity::Two);
        Existing { entry: inode, target: inode, is_dot: false }
    } else {
        match if subject.level.missing { Ok(None) } else { look(walker, subject) } {
            Ok(Some(existing)) => existing,
            Ok(None) => return Ok(None),
            // Opening a loop of symbolic links fails, and then it is removed.
            Err(Errno::LOOP) if plan.force => return Ok(None),
            Err(errno) => return Err(Error::new(What::CannotStat, subject.dest.path).errno(errno)),
        }
    };
    if finished(walker.worker.cx, subject, &existing).is_some() {
        let decision = Decision::Keep(Kept::Finished);
        return Ok(Some(Foreseen { existing, decision, reason: Reason::Finished, asks: false }));
    }
    let decision = decision(walker, subject, &existing, &mut answers);
    let reason = match decision {
        Decision::Keep(Kept::Offline) => Reason::Offline,
        _ => reason(subject, &existing, &answers, plan),
    };
    Ok(Some(Foreseen { existing, decision, reason, asks: answers.overwrite.is_some() }))
}

/// Asks for the decision, and finds out what it depends on.
fn decision(
    walker: &mut Walker<'_>,
    subject: &mut Subject<'_>,
    existing: &Existing,
    answers: &mut Answers,
) -> Decision {
    let cx = walker.worker.cx;
    let (inode, dereference, is_operand) = (subject.inode, subject.dereference, subject.is_operand());
    let source = Source { inode: &inode, dereference, is_operand };
    loop {
        let fact = match decide::decide(&source, existing, answers, cx.plan) {
            Decision::Ask(fact) => fact,
            decision => return decision,
        };
        match fact {
            Fact::CloseLook => answers.close_look = Some(close_look(cx, subject, &source, existing)),
            Fact::Contents => match same::has_same_contents(&mut walker.worker, subject, existing) {
                None => return Decision::Nothing,
                same => answers.same_contents = same,
            },
            Fact::Offline => answers.offline = Some(offline::is_left_out(cx, subject)),
            Fact::Overwrite => {
                answers.overwrite = Some(cx.plan.dry_run || ask(cx, subject.dest, &existing.target));
            }
            Fact::MadeForOperand => {
                answers.made_for_operand = Some(walker.operands.have_made(subject.dest, &existing.target));
            }
            Fact::Identity => answers.identity = Some(identity(cx, subject, existing)),
            Fact::BackupIsSource => answers.backup_is_source = Some(backup_is_source(cx, subject)),
            Fact::KeptForOther => answers.kept_for_other = Some(is_kept_for_other(cx, subject, existing)),
        }
    }
}

/// Whether another source has found its copy in this file. Where that is not known, it is taken for one: a copy of its own is
/// right in any case.
fn is_kept_for_other(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    let is_of_other =
        |dir: &Arc<DestDir>| cx.services.kept.is_of_other(&existing.target, &subject.inode, subject.dest.path, dir);
    subject.level.dir.is_some_and(|dir| is_of_other(dir).unwrap_or(true))
}

/// Leaves the destination as it is. A file that is up to date may still have another name in the source that was copied before:
/// then the two names at the destination become one file too.
fn keep(walker: &mut Walker<'_>, subject: &Subject<'_>, existing: &Existing, why: Kept) {
    pass_over(&mut walker.worker.report, subject, why);
    match why {
        // What is moved takes nothing away that is newer.
        Kept::NotOlder if may_be_met_again(subject) && !walker.worker.cx.plan.moves => {
            _ = is_name_of_other_copy(&mut walker.worker, subject, None)
        }
        Kept::Protected if is_of_killed_run(walker.worker.cx, subject, existing) => {
            // Nothing that stands there is replaced; names that come after it become names of this file.
            if let Earlier::Claimed = claims::claim(&mut walker.worker, subject) {
                claims::complete_claim(&mut walker.worker, subject, Some(existing.entry.id));
            }
        }
        Kept::Same if !becomes_name_of_other_copy(walker, subject, existing) => {
            same::bring_up_to_date(&mut walker.worker, subject, existing);
        }
        _ => {}
    }
    if why != Kept::Same {
        moved::let_stay(&mut walker.worker, &subject.inode, subject.level.dir);
    }
}

/// Whether what stays as it is looks as if an earlier run of this command had made it of this source, which has several names,
/// and was killed before it noted that. Files of no other names need not be known.
fn is_of_killed_run(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    let (source, found) = (&subject.inode, &existing.entry);
    let is_copied_alike = cx.plan.preserve.links && cx.plan.preserve.timestamps && cx.plan.link == LinkMode::Copy;
    let is_alike = source.kind == Kind::Regular
        && found.kind == Kind::Regular
        && found.size == source.size
        && found.is_modified_as(source)
        // It has not changed since.
        && found.born.is_some_and(|born| source.changed < born);
    let progress = cx.services.progress.get().filter(|_| is_copied_alike && is_alike && source.links > 1);
    progress.is_some_and(|progress| progress.is_born_since(found))
}

/// Passes over a file that an archive has, and of which nothing stands at the destination that would have to be decided about.
fn is_passed_over(worker: &mut Worker<'_>, subject: &Subject<'_>) -> bool {
    let is_left_out = offline::is_left_out(worker.cx, subject);
    if is_left_out {
        pass_over(&mut worker.report, subject, Kept::Offline);
        moved::let_stay(worker, &subject.inode, subject.level.dir);
    }
    is_left_out
}

/// Counts the source among those that are not copied, and says so.
fn pass_over(report: &mut Reporter<'_>, subject: &Subject<'_>, why: Kept) {
    // POSIX: not everything was copied. It is no error that --fail-fast would stop at.
    report.failed |= why == Kept::Declined;
    report.stats.skipped += 1;
    report.stats.offline += u64::from(why == Kept::Offline);
    report.tell(&Event::Skipped(subject.dest.path.into(), why));
    tell_spared(report, &subject.inode);
}

fn ask(cx: RunContext<'_>, dest: Spot<'_>, inode: &Inode) -> bool {
    let writable = inode.kind == Kind::SymbolicLink || cx.services.caller.privileged() || may_write(dest);
    let replaces = cx.plan.remove_destination || cx.plan.force;
    cx.session.confirm.overwrite(&Question { dest: dest.path, inode, writable, replaces })
}

/// Not a file that has no other name, and was not reached through a link.
pub(crate) fn may_be_met_again(subject: &Subject<'_>) -> bool {
    subject.inode.links > 1 || subject.follow() || subject.is_operand()
}

/// Makes the entry a name of what was copied for another name of its source. True if there is such a copy, and also if that
/// failed, which was reported; otherwise what is left as it is counts as the copy. `stands` is which file that is, where it is
/// known to be a finished one.
fn is_name_of_other_copy(worker: &mut Worker<'_>, subject: &Subject<'_>, stands: Option<FileId>) -> bool {
    match claims::claim(worker, subject) {
        Earlier::Nothing => return false,
        Earlier::Unknown => return true,
        Earlier::Made(earlier) if stands.is_some() && earlier.id == stands => return true,
        Earlier::Made(earlier) => match claims::link_to_earlier(worker, earlier, subject, true) {
            Instead::Done | Instead::Failed => return true,
            Instead::Copy { .. } => {}
        },
        Earlier::Claimed => {}
    }
    claims::complete_claim(worker, subject, stands);
    false
}

/// Whether the old file may be the source, though its numbers are others.
fn identity(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> Identity {
    let source = Party { spot: subject.source, inode: &subject.inode, follow: subject.follow() };
    let through_link = existing.entry.kind == Kind::SymbolicLink && existing.target.kind != Kind::SymbolicLink;
    let dest = Party { spot: subject.dest, inode: &existing.target, follow: through_link };
    cx.services.identities.judge(source, dest, &|| cx.cancelled())
}

/// Whether the source is what the backup would be called, or may be, though its numbers are others.
fn backup_is_source(cx: RunContext<'_>, subject: &Subject<'_>) -> bool {
    let source = Party { spot: subject.source, inode: &subject.inode, follow: subject.follow() };
    let judge = |backup: Party<'_>| cx.services.identities.judge(source, backup, &|| cx.cancelled());
    backup::would_destroy_source((subject.source, &subject.inode), subject.dest, cx.plan)
        || backup::may_destroy_source(source, subject.dest, cx.plan, &judge)
}

/// Gives what stands there its backup name: by a link, if it shall keep its own for now and the filesystem has links.
fn back_up(worker: &mut Worker<'_>, subject: &Subject<'_>, link: bool, identity: Identity) -> Option<DestState> {
    let (cx, dest) = (worker.cx, subject.dest);
    if link {
        let linked = backup::link_aside(dest, cx.plan, cx.temporary_names());
        // Where there are no links, for a moment the name stands for nothing.
        if let backup @ Some(_) = worker.report.check(linked, What::CannotBackup, dest.path).ok()? {
            // Making a link may give it another number: an overlay copies it up.
            let seen = worker.report.check(dest.inode(), What::CannotStat, dest.path).ok()?;
            let stands = Some(Box::new(Replaceable { inode: seen, has_backup: true }));
            let state = DestState { new: true, replaces: true, backup_is_link: true, ..DestState::default() };
            return Some(DestState { backup, stands, identity, ..state });
        }
    }
    let backup = match backup::move_aside(dest, cx.plan) {
        Err(Errno::NOENT) => None,
        moved => Some(worker.report.check(moved, What::CannotBackup, dest.path).ok()?),
    };
    Some(DestState { new: true, backup, ..DestState::default() })
}

/// What stands there is a finished copy of this source. If it has other names, those that come get the same file; if one came
/// before it, it becomes a name of that copy.
fn becomes_name_of_other_copy(walker: &mut Walker<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    if subject.is_operand() {
        walker.operands.remember(subject.dest, None);
    }
    // As `complete_claim_of` has it of a copy that was written through a link.
    let stands = if subject.follow() { existing.target.id } else { existing.entry.id };
    walker.worker.cx.plan.preserve.links
        && may_be_met_again(subject)
        && is_name_of_other_copy(&mut walker.worker, subject, Some(stands))
}

/// A file whose copy stands there need not be moved.
fn tell_spared(report: &Reporter<'_>, source: &Inode) {
    if source.kind == Kind::Regular {
        report.tell(&Event::Spared { bytes: source.size, whole: true });
    }
}

/// The digest that an earlier run has noted, if it has finished this copy, and neither that nor its source has changed since.
fn finished(cx: RunContext<'_>, subject: &Subject<'_>, existing: &Existing) -> Option<Option<Digest>> {
    if subject.inode.kind != Kind::Regular || existing.target.kind != Kind::Regular {
        return None;
    }
    let pair = || Fingerprint::of_copy(Fingerprint::of_source(&subject.inode), &existing.target);
    let progress = cx.services.progress.get().filter(|progress| progress.earlier);
    let digest = match cx.services.earlier_runs.get() {
        Some(runs) => runs.finished(pair())?,
        None => progress?.finished(pair())?,
    };
    // A digest that is wanted and was not noted takes another copy.
    (cx.plan.checksum.is_none() || digest.is_some()).then_some(digest)
}

/// Passes over a copy that an earlier run has finished.
fn pass_over_finished(walker: &mut Walker<'_>, subject: &Subject<'_>, existing: &Existing) -> bool {
    let cx = walker.worker.cx;
    let Some(digest) = finished(cx, subject, existing) else { return false };
    let wants_digest = cx.plan.checksum.is_some();
    if becomes_name_of_other_copy(walker, subject, existing) {
        return true;
    }
    let report = &mut walker.worker.report;
    report.stats.resumed_files += 1;
    report.stats.resumed_bytes += subject.inode.size;
    report.tell(&Event::Skipped(subject.dest.path.into(), Kept::Finished));
    tell_spared(report, &subject.inode);
    if wants_digest {
        let checked = Checked { digest: digest.map(Digest::to_hex), ..Checked::default() };
        naming::tell_digest(&walker.worker.report, subject.dest.path, &checked);
    }
    true
}

/// Makes way for it once more, whatever options say of files that were there.
fn make_again(worker: &mut Worker<'_>, subject: &Subject<'_>) -> Option<DestState> {
    let replaces = worker.cx.plan.uses_temporary_file();
    let free = replaces || entry::remove(&mut worker.report, subject.dest);
    free.then(|| DestState { new: true, replaces, ..DestState::default() })
}

/// How the two are related, where one may be the other or lead to it.
fn close_look(cx: RunContext<'_>, subject: &Subject<'_>, source: &Source<'_>, existing: &Existing) -> CloseLook {
    let (from, to) = (subject.source, subject.dest);
    // Else it is a name in a directory that the user has named.
    let exactly = to.path.as_os_str() == cx.plan.destination.path();
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
        one_entry: one_entry(from, to),
        one_path: one_entry(from, to) && name_one_directory(from, to, exactly),
        entries: entries.ok(),
        same_target: if source.needs_targets(existing) { same_target() } else { None },
    }
}

#[cfg(test)]
#[path = "existing_tests.rs"]
mod tests;
