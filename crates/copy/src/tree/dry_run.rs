//! What a copy would do about one entry, found out without changing anything: the source and the destination are looked at as a
//! copy looks at them, and the same function decides.
//!
//! What is in a directory that a copy would make needs no look at the destination: nothing is there. Not foreseen is what an
//! entry changes for one that comes after it, but that the copies of two operands would have one name. Of `--delete`
//! neither that something cannot be removed, nor what only a directory that would be made could show of names there.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Kind};
use haul_sys::rustix::fs::Access;

use crate::context::Worker;
use crate::decide::{Decision, Existing, copied_as_regular, is_mirrored};
use crate::error::{Error, What};
use crate::events::{Action, Event, Kept, Planned, Reason};
use crate::file::special;
use crate::finish::deletion;
use crate::links::Made;
use crate::meta::NewEntries;
use crate::plan::{LinkMode, Overwrite, Plan, Update};
use crate::publish::{Sides, backup};
use crate::tree::access::{is_on_other_filesystem, may, may_make};
use crate::tree::claims::{self, Earlier, Instead};
use crate::tree::clone_tree::{Cloned, clone_tree};
use crate::tree::existing::{self, Foreseen};
use crate::tree::planned_rename::{self, Standing};
use crate::tree::walker::Walker;
use crate::tree::{enter, entry, offline, same};
use crate::walk::{Spot, last_component, one_entry, renamed};
use crate::work::directory::{Directory, Frame};
use crate::work::entry::{DestState, Level, Subject, Top};
use crate::work::planned;

/// Says what a copy would do about one entry; of a directory whose contents come next, this gives it to the caller.
pub(crate) fn visit(
    walker: &mut Walker<'_>,
    source: Spot<'_>,
    dest: Spot<'_>,
    level: &Level<'_>,
    top: &mut Top,
) -> Option<Box<Frame>> {
    // A file that is not copied need not be opened.
    let level = Level { is_regular: false, ..*level };
    let mut subject = entry::look_at_source(walker, source, dest, &level, top)?;
    if !entry::is_as_listed(&mut walker.worker, &subject) {
        return None;
    }
    let found = match existing::foresee(walker, &mut subject) {
        Ok(found) => found,
        Err(error) => {
            walker.worker.report.problem(error);
            return None;
        }
    };
    if found.is_none() && offline::would_be_passed_over(&mut walker.worker, &subject) {
        return None;
    }
    if walker.worker.cx.cancelled() || is_left_alone(walker, &mut subject, found.as_ref()) {
        return None;
    }
    let existing = found.as_ref().map(|found| Box::new(found.existing));
    if entry::through_just_made_link(walker, &subject, &DestState { existing, ..DestState::default() }) {
        walker.worker.report.problem(Error::new(What::ThroughJustCreatedLink, source.path).and(dest.path));
        return None;
    }
    if walker.worker.cx.plan.moves {
        let stands = standing(&mut walker.worker, &subject, found.as_ref())?;
        if planned_rename::instead_of_copying(walker, &subject, stands) {
            return None;
        }
    }
    if entry::is_being_filled(&subject) {
        walker.worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
        top.into_itself = true;
        return None;
    }
    let (claimed, met_before) = match claims::earlier_copy(&mut walker.worker, &subject) {
        Earlier::Unknown => return None,
        Earlier::Made(earlier) if subject.inode.kind != Kind::Directory => {
            plan_other_name(&mut walker.worker, &subject, found.as_ref(), &earlier);
            return None;
        }
        Earlier::Made(earlier) => match entry::instead_of_copying(&mut walker.worker, earlier, &subject, top, false) {
            Instead::Copy { claimed } => (claimed, true),
            Instead::Done | Instead::Failed => return None,
        },
        Earlier::Claimed => (true, false),
        Earlier::Nothing => (false, false),
    };
    let (frame, made) = match subject.inode.kind {
        Kind::Directory => match clone_tree(&mut walker.worker, &subject, stays(found.as_ref())) {
            Cloned::No => (enter_directory(walker, &subject, found.as_ref()), None),
            Cloned::Whole => (None, plan_clone(&mut walker.worker, &subject, found.as_ref())),
            Cloned::Failed => (None, None),
        },
        _ => (None, plan_file(&mut walker.worker, &subject, found.as_ref())),
    };
    if let Some(id) = made {
        remember(walker, &subject, id);
        if claimed {
            claims::complete_claim(&mut walker.worker, &subject, Some(id));
        }
    } else if frame.is_none() && (claimed || !met_before && subject.is_operand()) {
        let forgotten = walker.worker.cx.services.links.forget((&subject.inode).into());
        claims::table(&mut walker.worker.report, forgotten, source);
    }
    frame
}

/// Whether something stands at the destination that would be written into, or entered.
fn stays(found: Option<&Foreseen>) -> bool {
    found.is_some_and(|found| matches!(found.decision, Decision::WriteInto(_)))
}

/// Says that a whole tree would be made in one step.
fn plan_clone(worker: &mut Worker<'_>, subject: &Subject<'_>, found: Option<&Foreseen>) -> Option<FileId> {
    let backup = backup_path(worker, subject, found)?;
    let reason = found.map(|found| found.reason);
    let planned = Planned::new(Action::CloneTree, subject.source.path, subject.dest.path);
    worker.report.tell(&Event::Planned(Planned { reason, backup, ..planned }));
    Some(planned::inode(Kind::Directory, false).id)
}

/// What a move would find at the destination. `None` if it cannot get its backup name, which is reported.
#[expect(clippy::option_option, reason = "as a result it would be one of an option")]
fn standing<'p>(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    found: Option<&Foreseen>,
) -> Option<Option<Standing<'p>>> {
    let Some(found) = found else { return Some(None) };
    let backup = backup_path(worker, subject, Some(found))?;
    let stays = stays(Some(found));
    Some(Some(Standing { inode: found.existing.entry, stays, reason: found.reason, backup }))
}

fn remember(walker: &mut Walker<'_>, subject: &Subject<'_>, id: FileId) {
    // In a directory that is only planned, an entry cannot be distinguished from others.
    if !subject.is_operand() || subject.level.missing {
        return;
    }
    match planned::is_planned(id) {
        true => walker.operands.remember_planned(subject.dest, id),
        false => walker.operands.remember(subject.dest, Some(id)),
    }
}

/// Reports what no copy would be made of, what stays as it is or is refused; and says what would be removed in its favour.
fn is_left_alone(walker: &mut Walker<'_>, subject: &mut Subject<'_>, found: Option<&Foreseen>) -> bool {
    let Some(found) = found else { return false };
    match found.decision {
        Decision::Keep(why) => keep(walker, subject, found, why),
        Decision::Refuse(_) if found.asks => {
            let planned = Planned::new(Action::Ask, subject.source.path, subject.dest.path);
            walker.worker.report.tell(&Event::Planned(Planned { reason: Some(found.reason), ..planned }));
        }
        Decision::Refuse(what) => {
            walker.worker.report.problem(existing::refusal(subject, what));
        }
        Decision::Delete(what) => match existing::delete(&mut walker.worker, subject, &found.existing, what) {
            Ok(()) => return false,
            Err(error) => {
                walker.worker.report.problem(error);
            }
        },
        Decision::Ask(_) | Decision::Nothing => {
            // Who is asked, is asked first.
            let asks = walker.worker.cx.plan.overwrite == Overwrite::Ask;
            let action = if asks { Action::Ask } else { Action::Skip };
            let planned = Planned::new(action, subject.source.path, subject.dest.path);
            walker.worker.report.tell(&Event::Planned(Planned { reason: Some(Reason::SameFile), ..planned }));
        }
        Decision::WriteInto(_) | Decision::Remove | Decision::Replace(_) | Decision::BackUp { .. } => return false,
    }
    true
}

/// What stays may still have to become another name of what stands, or would stand, for another name of the source.
fn keep(walker: &mut Walker<'_>, subject: &Subject<'_>, found: &Foreseen, why: Kept) {
    let stands = if subject.follow() { found.existing.target.id } else { found.existing.entry.id };
    let becomes_name = match why {
        Kept::NotOlder => !walker.worker.cx.plan.moves,
        Kept::Same | Kept::Finished => {
            remember(walker, subject, stands);
            walker.worker.cx.plan.preserve.links
        }
        Kept::Protected | Kept::Declined | Kept::Offline => false,
    };
    if becomes_name && existing::may_be_met_again(subject) {
        match claims::claim(&mut walker.worker, subject) {
            Earlier::Unknown => return,
            Earlier::Made(earlier) if earlier.id != Some(stands) => {
                return plan_other_name(&mut walker.worker, subject, Some(found), &earlier);
            }
            Earlier::Claimed => claims::complete_claim(&mut walker.worker, subject, Some(stands)),
            Earlier::Made(_) | Earlier::Nothing => {}
        }
    }
    walker.worker.report.stats.skipped += 1;
    walker.worker.report.stats.offline += u64::from(why == Kept::Offline);
    let compared = why == Kept::Same && !planned::is_planned(found.existing.target.id);
    let action = match compared && same::lacks_attributes(&mut walker.worker, subject, &found.existing) {
        true => Action::SetAttributes,
        false => Action::Skip,
    };
    let planned = Planned::new(action, subject.source.path, subject.dest.path);
    walker.worker.report.tell(&Event::Planned(Planned { reason: Some(found.reason), ..planned }));
}

fn plan_other_name(worker: &mut Worker<'_>, subject: &Subject<'_>, found: Option<&Foreseen>, earlier: &Made) {
    let (dest, other_name) = (subject.dest, earlier.path());
    let cannot = Error::new(What::CannotHardLink, dest.path).and(&other_name);
    let stays = |found: &Foreseen| matches!(found.decision, Decision::Keep(_));
    if found.is_some_and(|found| stays(found) && found.existing.entry.kind == Kind::Directory) {
        worker.report.problem(cannot.errno(Errno::ISDIR));
        return;
    }
    if let Some(error) = no_new_entry(dest, found, cannot) {
        worker.report.problem(error);
        return;
    }
    let Some(backup) = backup_path(worker, subject, found) else { return };
    worker.report.stats.hard_links += 1;
    let link = Planned::new(Action::Link, subject.source.path, dest.path);
    let reason = found.map(|found| found.reason);
    worker.report.tell(&Event::Planned(Planned { reason, backup, other_name: Some(Cow::Owned(other_name)), ..link }));
}

/// Says what would be done about anything but a directory, and which file the copy would be. `None` if it would fail, which is
/// reported.
fn plan_file(worker: &mut Worker<'_>, subject: &Subject<'_>, found: Option<&Foreseen>) -> Option<FileId> {
    let plan = worker.cx.plan;
    let kind = subject.inode.kind;
    let asks = found.is_some() && plan.overwrite == Overwrite::Ask;
    // Nothing fails for who says no.
    if let Some(error) = objection(worker, subject, found).filter(|_| !asks) {
        worker.report.problem(error);
        return None;
    }
    let (action, size) = match plan.link {
        _ if asks => (Action::Ask, 0),
        LinkMode::Hard => (Action::Link, 0),
        LinkMode::Symbolic => (Action::SymbolicLink, 0),
        LinkMode::Copy if found.is_some() => (Action::Replace, subject.inode.size),
        LinkMode::Copy => (Action::Copy, subject.inode.size),
    };
    let is_file = plan.link == LinkMode::Copy && copied_as_regular(kind, plan);
    let size = if kind == Kind::Regular && !plan.attributes_only { size } else { 0 };
    let backup = backup_path(worker, subject, found)?;
    let counters = &mut worker.report.stats;
    match plan.link {
        LinkMode::Hard => counters.hard_links += 1,
        LinkMode::Symbolic => counters.symbolic_links += 1,
        LinkMode::Copy if is_file => counters.regular += 1,
        LinkMode::Copy if kind == Kind::SymbolicLink => counters.symbolic_links += 1,
        LinkMode::Copy => counters.special += 1,
    }
    let reason = found.map(|found| found.reason);
    let planned = Planned::new(action, subject.source.path, subject.dest.path);
    worker.report.tell(&Event::Planned(Planned { reason, backup, size, ..planned }));
    let stays = match found {
        Some(Foreseen { decision: Decision::WriteInto(_), existing, .. }) => Some(existing),
        _ => None,
    };
    let link = |existing: &&Existing| !subject.follow() && existing.entry.kind == Kind::SymbolicLink;
    Some(match stays {
        // As `complete_claim_of` has it.
        Some(existing) if link(&existing) => existing.entry.id,
        Some(existing) => existing.target.id,
        None => planned::inode(kind, false).id,
    })
}

/// Where what stands there would go.
#[expect(clippy::option_option, reason = "as a result it would be one of an option")]
fn backup_path<'p>(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    found: Option<&Foreseen>,
) -> Option<Option<Cow<'p, Path>>> {
    if !found.is_some_and(|found| matches!(found.decision, Decision::BackUp { .. })) {
        return Some(None);
    }
    let dest = subject.dest;
    let is_taken = |name: &OsStr| dest.beside(name, dest.path).inode().is_ok_and(|inode| inode.kind == Kind::Directory);
    let name = backup::backup_name(dest, worker.cx.plan, None).and_then(|(name, numbered)| {
        // A file is not renamed to a directory.
        if !numbered && is_taken(&name) { Err(Errno::ISDIR) } else { Ok(name) }
    });
    let name = worker.report.check(name, What::CannotBackup, dest.path).ok()?;
    Some(Some(Cow::Owned(renamed(subject.dest.path, &name))))
}

/// Why the copy of anything but a directory would fail, as far as looking shows.
fn objection(worker: &Worker<'_>, subject: &Subject<'_>, found: Option<&Foreseen>) -> Option<Error> {
    let (plan, source, dest) = (worker.cx.plan, subject.source, subject.dest);
    let is_file = plan.link == LinkMode::Copy && copied_as_regular(subject.inode.kind, plan);
    let cannot =
        if is_file { Error::new(What::CannotCreateRegular, dest.path) } else { cannot_make(plan.link, subject) };
    if plan.link == LinkMode::Copy && subject.inode.kind == Kind::Unknown {
        return Some(Error::new(What::UnknownType, source.path));
    }
    if plan.link == LinkMode::Symbolic
        && let Some(error) = special::relative_link_elsewhere(source, dest)
    {
        // What stands there is removed before.
        let removed = found.filter(|found| found.decision == Decision::Remove);
        return removed.and_then(|found| no_new_entry(dest, Some(found), cannot)).or(Some(error));
    }
    let readable = match subject.inode.kind {
        Kind::Socket => Err(Errno::NXIO),
        _ => may(Access::READ_OK, source, source.name, subject.follow()),
    };
    if is_file && let Err(errno) = readable {
        let first = found.and_then(|found| objection_before_opening(plan, subject, found, cannot));
        return first.or(Some(Error::new(What::CannotOpen, source.path).errno(errno)));
    }
    let Some(found) = found else {
        if is_file && !subject.level.missing && !plan.write_through_dangling_link && dest.read_link().is_ok() {
            let removed = plan.force && matches!(dest.inode_following(), Err(Errno::LOOP));
            return (!removed).then(|| Error::new(What::DanglingLink, dest.path));
        }
        if plan.link == LinkMode::Hard && is_on_other_filesystem(subject) {
            return Some(cannot.errno(Errno::XDEV));
        }
        if dest.name.as_encoded_bytes().last() == Some(&b'/') {
            let no_directory = if is_file { Errno::NOTDIR } else { Errno::NOENT };
            return Some(cannot.errno(dest.dir().err().unwrap_or(no_directory)));
        }
        return no_new_entry(dest, None, cannot);
    };
    if plan.link == LinkMode::Hard && is_on_other_filesystem(subject) {
        return Some(cannot.errno(Errno::XDEV));
    }
    let goes = matches!(found.decision, Decision::Remove | Decision::BackUp { link: false, .. });
    if is_file && goes && one_entry(source, dest) {
        // A link that is followed, and makes way for what it leads to.
        return Some(Error::new(What::CannotOpen, source.path).errno(Errno::NOENT));
    }
    if !matches!(found.decision, Decision::WriteInto(_)) {
        return no_new_entry(dest, Some(found), cannot);
    }
    if is_file {
        let can_write = match planned::is_planned(found.existing.target.id) {
            true => Ok(()),
            false => may(Access::WRITE_OK, dest, dest.name, true),
        };
        if plan.force && can_write.is_err() {
            return may_make(dest).err().map(|errno| Error::new(What::CannotRemove, dest.path).errno(errno));
        }
        let is_made_anew = plan.uses_temporary_file() && found.existing.entry.kind == Kind::Regular;
        let can_make = if is_made_anew { may_make(dest) } else { Ok(()) };
        return can_write.and(can_make).err().map(|errno| cannot.errno(errno));
    }
    // What is neither written into nor removed must not be there, unless something else takes its place at once.
    let replaced = match (plan.link, subject.inode.kind) {
        (LinkMode::Hard, _) => plan.force || plan.overwrite == Overwrite::Ask,
        (LinkMode::Symbolic, _) => plan.force,
        (LinkMode::Copy, Kind::SymbolicLink) => plan.force || stands_as_link(plan.update, source, dest),
        (LinkMode::Copy, _) => false,
    };
    (!replaced).then(|| cannot.errno(Errno::EXIST))
}

/// What is wrong with what stands at the destination of a file and is looked at before the source is opened.
fn objection_before_opening(plan: &Plan, subject: &Subject<'_>, found: &Foreseen, cannot: Error) -> Option<Error> {
    let dest = subject.dest;
    let is_made_anew = plan.uses_temporary_file() && !plan.force && found.existing.entry.kind == Kind::Regular;
    match found.decision {
        Decision::Remove if is_mirrored(plan, subject.is_operand()) => None,
        Decision::Remove | Decision::BackUp { .. } => no_new_entry(dest, Some(found), cannot),
        Decision::WriteInto(_) if is_made_anew && !planned::is_planned(found.existing.target.id) => {
            may(Access::WRITE_OK, dest, dest.name, true).err().map(|errno| cannot.errno(errno))
        }
        _ => None,
    }
}

/// With `-u`, a link that leads to the same place already is as new as can be.
fn stands_as_link(update: Update, source: Spot<'_>, dest: Spot<'_>) -> bool {
    let text = source.read_link();
    update == Update::Older && text.is_ok() && text == dest.read_link()
}

/// What a copy would say if it could not make what it makes of the source.
fn cannot_make(link: LinkMode, subject: &Subject<'_>) -> Error {
    let (source, dest) = (subject.source.path, subject.dest.path);
    match (link, subject.inode.kind) {
        (LinkMode::Hard, _) => Error::new(What::CannotHardLink, dest).and(source),
        (LinkMode::Symbolic, _) => Error::new(What::CannotCreateLinkTo, dest).and(source),
        (LinkMode::Copy, kind) => Error::new(special::cannot_make(kind), dest),
    }
}

/// Why nothing could take the place of what was found, if permissions forbid it; `cannot`: what would be said where nothing has to
/// make way.
fn no_new_entry(dest: Spot<'_>, found: Option<&Foreseen>, cannot: Error) -> Option<Error> {
    let errno = may_make(dest).err()?;
    let error = match found.map(|found| found.decision) {
        Some(Decision::Remove | Decision::Delete(_)) => Error::new(What::CannotRemove, dest.path),
        Some(Decision::BackUp { .. }) => Error::new(What::CannotBackup, dest.path),
        _ => cannot,
    };
    Some(error.errno(errno))
}

/// Says whether a directory would be made or entered, and opens what there is of both sides.
fn enter_directory(walker: &mut Walker<'_>, subject: &Subject<'_>, found: Option<&Foreseen>) -> Option<Box<Frame>> {
    let worker = &mut walker.worker;
    let cx = worker.cx;
    let (source, dest) = (subject.source, subject.dest);
    if subject.level.dir.is_some_and(|dir| dir.is_within_copy_of(subject.inode.id)) {
        worker.report.problem(Error::new(What::CyclicLink, source.path));
        return None;
    }
    let stands = found.map(|found| found.existing).filter(|existing| existing.target.kind == Kind::Directory);
    let planned_before = stands.is_some_and(|existing| planned::is_planned(existing.target.id));
    let state = DestState { existing: stands.map(Box::new), ..DestState::default() };
    let (dest_fd, dest_inode) = match stands.is_some() && !planned_before {
        true => worker.report.check(enter::open_destination(subject, &state), What::CannotStat, dest.path).ok()?,
        false => {
            let cannot = Error::new(What::CannotCreateDirectory, dest.path);
            // A directory that `--parents` would make has these two already.
            let is_there = subject.level.missing && matches!(dest.name.as_encoded_bytes(), b"." | b"..");
            // mkdir(2) follows no link, also where a slash would make others follow it.
            let plain = last_component(dest.name);
            let is_link = plain.len() < dest.name.len() && dest.beside(plain, dest.path).read_link().is_ok();
            let objection = match is_there || found.is_none() && is_link {
                true => Some(cannot.errno(Errno::EXIST)),
                false => no_new_entry(dest, found, cannot),
            };
            if let Some(error) = objection {
                worker.report.problem(error);
                return None;
            }
            let nowhere = worker.report.check(planned::nowhere(), What::CannotCreateDirectory, dest.path);
            (nowhere.ok()?, planned::inode(Kind::Directory, false))
        }
    };
    let missing = planned::is_planned(dest_inode.id);
    if let Some(above) = subject.level.ancestors.last().filter(|_| !missing) {
        deletion::look_at_name(cx, dest, above.place.dest_inode.id.device());
    }
    let above = subject.level.dir?;
    let backup = backup_path(worker, subject, found)?;
    let reason = found.filter(|_| stands.is_none()).map(|_| Reason::TypeDiffers);
    let action = if stands.is_some() { Action::EnterDirectory } else { Action::MakeDirectory };
    worker.report.tell(&Event::Planned(Planned { reason, backup, ..Planned::new(action, source.path, dest.path) }));
    worker.report.stats.directories += 1;
    let (opened, contents) = enter::open_source(worker, subject)?;
    let [source_path, dest_path] = enter::nodes_of(subject);
    let place = Directory {
        source_inode: subject.inode,
        dest_inode,
        entries: NewEntries::UNKNOWN,
        source_path_only: !contents,
        dir: above.below(last_component(dest.name), dest_inode.id, subject.inode.id),
        created: missing,
        fresh: missing,
        source_path,
        dest_path,
        listed: subject.level.listed,
        stays: AtomicBool::new(false),
        unread: AtomicBool::new(false),
    };
    let listing = enter::listing_of(cx, subject.level.listed, &opened);
    let sides = Arc::new(Sides::new(opened, dest_fd, &place.dest_path));
    let mut frame = Box::new(Frame::new(Arc::new(place), Some(sides), listing));
    // From nowhere there is no way back: the last directory that is there stays open.
    frame.through_link = enter::through_link(subject, &state) || missing && !subject.level.missing;
    frame.finished = !contents;
    if missing {
        remember(walker, subject, planned::inode(Kind::Directory, false).id);
    } else {
        remember(walker, subject, dest_inode.id);
    }
    Some(frame)
}

#[cfg(test)]
#[path = "dry_run_tests.rs"]
mod tests;
