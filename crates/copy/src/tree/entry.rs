//! One entry of the source, of any kind: from the first look to the finished copy.

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};

use crate::context::Worker;
use crate::error::{Error, What};
use crate::file::open::open_regular;
use crate::file::{regular, special};
use crate::finish::{moved, undo};
use crate::links::Made;
use crate::peers::PeerGroup;
use crate::peers::remote::RemoteSource;
use crate::plan::{Backup, Dereference, LinkMode, SpecialFiles, Update};
use crate::report::Reported;
use crate::sources::selection::words_for;
use crate::tree::claims::{self, Earlier, Instead};
use crate::tree::clone_tree::{Cloned, clone_tree};
use crate::tree::walker::Walker;
use crate::tree::{enter, existing, rename};
use crate::walk::{Spot, last_component, path_below};
use crate::work::directory::Frame;
use crate::work::entry::{DestState, Level, Remote, Subject, Top, announce};

/// Copies one entry, well or badly; of a directory whose contents come next, this gives it to the caller.
pub(crate) fn visit(
    walker: &mut Walker<'_>,
    source: Spot<'_>,
    dest: Spot<'_>,
    level: &Level<'_>,
    top: &mut Top,
) -> Option<Box<Frame>> {
    let (mut subject, state) = prepare(walker, source, dest, level, top)?;
    // Before it is claimed: nobody should have to wait for a thread that waits for its turn.
    walker.worker.cx.wait_to_make();
    let earlier = claims::earlier_copy(&mut walker.worker, &subject);
    if matches!(earlier, Earlier::Unknown) {
        moved::let_stay(&mut walker.worker, &subject.inode, level.dir);
        undo::put_back(&mut walker.worker.report, &state, dest);
        return None;
    }
    let remote = peers_that_help(walker).and_then(|peers| RemoteSource::of(peers, &subject, top));
    subject.remote = remote.as_ref().map(|remote| remote as &dyn Remote);
    let (met_before, mut claimed) = (matches!(earlier, Earlier::Made(_)), matches!(earlier, Earlier::Claimed));
    if let Earlier::Made(earlier) = earlier {
        // It is seldom copied all the same, and to find the other name takes descriptors.
        subject.opened = None;
        let replaces = walker.worker.cx.plan.force || state.existing.is_some() || state.replaces;
        match instead_of_copying(&mut walker.worker, earlier, &subject, top, replaces) {
            Instead::Copy { claimed: now } => claimed = now,
            Instead::Done => return None,
            Instead::Failed => {
                moved::let_stay(&mut walker.worker, &subject.inode, level.dir);
                undo::put_back(&mut walker.worker.report, &state, dest);
                return None;
            }
        }
    }
    let stays = (subject.inode, level.dir);
    let made = match subject.inode.kind {
        Kind::Directory => match clone_tree(&mut walker.worker, &subject, state.existing.is_some()) {
            Cloned::Whole => Ok(None),
            Cloned::Failed => Err(Reported),
            Cloned::No => {
                let entered = moved::let_stay_if_it_fails(&mut walker.worker, stays, |worker| {
                    enter::enter_directory(worker, &subject, &state)
                });
                match entered {
                    Some(frame) => {
                        if walker.worker.cx.plan.moves && subject.is_operand() {
                            walker.operands.remember(dest, None);
                        }
                        return Some(frame);
                    }
                    None => Err(Reported),
                }
            }
        },
        _ => moved::let_stay_if_it_fails(&mut walker.worker, stays, |worker| make(worker, &mut subject, &state)),
    };
    if let Ok(made) = made {
        if subject.is_operand() {
            walker.operands.remember(dest, made);
        }
        if claimed {
            claims::complete_claim_of(&mut walker.worker, &subject, &state, made);
        }
    } else {
        moved::let_stay(&mut walker.worker, &subject.inode, level.dir);
        let noted = claimed || (!met_before && subject.is_operand());
        leave_unmade(&mut walker.worker, &subject, &state, (noted, claimed));
    }
    None
}

/// Looks at both sides, decides what is done about the entry, and does what comes before its copy. Nothing if no copy comes,
/// as was reported.
fn prepare<'s>(
    walker: &mut Walker<'_>,
    source: Spot<'s>,
    dest: Spot<'s>,
    level: &'s Level<'s>,
    top: &mut Top,
) -> Option<(Subject<'s>, DestState)> {
    let mut subject = look_at_source(walker, source, dest, level, top)?;
    if !is_as_listed(&mut walker.worker, &subject) {
        return None;
    }
    if walker.worker.cx.plan.moves && subject.is_operand() {
        walker.worker.cx.services.operands.lock().insert(walker.operands.current, Some(subject.inode.id));
    }
    let state = DestState { entries: level.entries(), ..existing::make_way(walker, &mut subject)? };
    if through_just_made_link(walker, &subject, &state) {
        walker.worker.report.problem(Error::new(What::ThroughJustCreatedLink, source.path).and(dest.path));
        moved::let_stay(&mut walker.worker, &subject.inode, level.dir);
        return None;
    }
    if walker.worker.cx.plan.moves && rename::instead_of_copying(walker, &subject, &state) {
        return None;
    }
    let is_directory = subject.inode.kind == Kind::Directory;
    if level.made.is_some() && !is_directory {
        // It was one when its name was read.
        dest.remove_dir().ok();
    }
    if !is_directory {
        announce(&walker.worker.report, &subject, &state);
    }
    if is_being_filled(&subject) {
        walker.worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
        top.into_itself = true;
        moved::let_stay(&mut walker.worker, &subject.inode, level.dir);
        undo::put_back(&mut walker.worker.report, &state, dest);
        return None;
    }
    Some((subject, state))
}

/// The other processes, where they may copy parts of a file.
fn peers_that_help<'a>(walker: &Walker<'a>) -> Option<&'a PeerGroup<'a>> {
    let cx = walker.worker.cx;
    // Files that are named are found by their paths, also through symbolic links.
    let alone = walker.pool.is_none() || cx.plan.recursive && cx.plan.dereference == Dereference::Always;
    cx.peers.filter(|_| !alone)
}

/// Makes the copy of anything but a directory, and says which file it is if that is known.
fn make(worker: &mut Worker<'_>, subject: &mut Subject<'_>, state: &DestState) -> Result<Option<FileId>, Reported> {
    match worker.cx.plan.link {
        LinkMode::Symbolic => special::make_symbolic_link_to_source(worker, subject, state),
        LinkMode::Hard => special::make_hard_link_to_source(worker, subject, state),
        LinkMode::Copy => regular::make_file(worker, subject, state),
    }
}

/// Looks at the source. Nothing if it is not copied, which was reported if it is no filter's doing.
pub(crate) fn look_at_source<'s>(
    walker: &mut Walker<'_>,
    source: Spot<'s>,
    dest: Spot<'s>,
    level: &'s Level<'s>,
    top: &Top,
) -> Option<Subject<'s>> {
    let cx = walker.worker.cx;
    let plan = cx.plan;
    let is_operand = level.ancestors.is_empty();
    let sides = level.ancestors.last().and_then(|parent| parent.sides.as_ref());
    let dereference = match plan.dereference {
        Dereference::Operands if !is_operand => Dereference::Never,
        dereference => dereference,
    };
    let follow = dereference != Dereference::Never;
    let subject = |inode, opened| Subject { source, dest, inode, opened, dereference, level, sides, remote: None };
    // What a list names was chosen when the list was made.
    let filtered = plan.filter.is_some() && !is_operand && level.listed.is_none();
    // One look less: what will be opened anyway is looked at when it is open.
    if level.is_regular
        && (level.missing || plan.update == Update::Content)
        && !filtered
        && !follow
        // What is renamed is not opened.
        && !plan.moves
        // A server may bring back what is opened.
        && !plan.skip_offline
        && plan.link == LinkMode::Copy
        // Whose it is decides whether it can be opened that way.
        && (!plan.open_noatime || cx.services.caller.privileged())
        && let Ok((opened, inode)) = open_regular(source, false, plan)
    {
        return cx.wanted().entry(&inode).then(|| subject(inode, Some(opened)));
    }
    let inode = match if follow { source.inode_following() } else { source.inode() } {
        Err(_) if filtered && is_excluded(&mut walker.worker, source, None, top) => return None,
        Err(Errno::NOENT) if level.listed.is_some() => {
            walker.worker.report.problem(Error::new(What::ListedMissing, source.path));
            return None;
        }
        Err(errno) => {
            walker.worker.report.problem(Error::new(What::CannotStat, source.path).errno(errno));
            // Then there is none.
            if !matches!(errno, Errno::NOENT | Errno::NOTDIR) {
                let_unknown_stay(&mut walker.worker, level);
            }
            return None;
        }
        Ok(inode) => inode,
    };
    if !cx.wanted().entry(&inode) || filtered && is_excluded(&mut walker.worker, source, Some(&inode), top) {
        return None;
    }
    if !cx.wanted().operand(&inode) {
        walker.worker.report.problem(Error::new(What::OmittingDirectory, source.path));
        moved::let_stay(&mut walker.worker, &inode, level.dir);
        return None;
    }
    if plan.special_files == SpecialFiles::Refused && is_special(inode.kind) {
        walker.worker.report.problem(Error::new(What::SpecialFile, source.path));
        moved::let_stay(&mut walker.worker, &inode, level.dir);
        return None;
    }
    // A file named twice is copied once; with backups the second copy is what the user asked for.
    let once = is_operand && inode.kind != Kind::Directory && plan.backup == Backup::None;
    if is_operand && walker.operands.was_seen(source, &inode) && once {
        walker.worker.report.warning(&Error::new(What::SourceTwice, source.path));
        return None;
    }
    Some(subject(inode, None))
}

fn is_special(kind: Kind) -> bool {
    !matches!(kind, Kind::Regular | Kind::Directory | Kind::SymbolicLink)
}

/// What cannot be looked at stays where it is: with the directory that it is in, or, if that is not known, with all sources.
fn let_unknown_stay(worker: &mut Worker<'_>, level: &Level<'_>) {
    match level.ancestors.last() {
        Some(above) => moved::let_stay(worker, &above.place.source_inode, Some(&above.place.dir)),
        None => worker.cx.services.stays.lose(),
    }
}

/// Whether a filter excludes the entry, which is counted; without `inode` it cannot be looked at.
fn is_excluded(worker: &mut Worker<'_>, source: Spot<'_>, inode: Option<&Inode>, top: &Top) -> bool {
    let (wanted, path) = (worker.cx.wanted(), || path_below(&top.source, source.path));
    let verdict = match inode {
        Some(inode) => wanted.below(inode, source.name, path),
        None => wanted.unseen(source.name, path),
    };
    worker.report.stats.count_verdict(verdict);
    verdict.excluded
}

/// Whether writing would go through a symbolic link that this run made for an earlier operand.
pub(crate) fn through_just_made_link(walker: &Walker<'_>, subject: &Subject<'_>, state: &DestState) -> bool {
    if !subject.is_operand() || walker.worker.cx.plan.backup != Backup::None || !walker.operands.several {
        return false;
    }
    let entry = match &state.existing {
        Some(existing) => Ok(existing.entry),
        None => subject.dest.inode(),
    };
    entry.is_ok_and(|entry| entry.kind == Kind::SymbolicLink && walker.operands.have_made(subject.dest, &entry))
}

/// The source was met before. What stands at the destination goes if the entry `replaces` it.
pub(crate) fn instead_of_copying(
    worker: &mut Worker<'_>,
    earlier: Made,
    subject: &Subject<'_>,
    top: &mut Top,
    replaces: bool,
) -> Instead {
    if subject.inode.kind != Kind::Directory {
        return claims::link_to_earlier(worker, earlier, subject, replaces);
    }
    let (source, dest) = (subject.source, subject.dest);
    let is_entry = |spot: Spot<'_>| {
        crate::walk::directory_id(spot).is_some_and(|dir| earlier.is_entry(dir, last_component(spot.name)))
    };
    if is_entry(source) {
        worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
        top.into_itself = true;
        return Instead::Failed;
    }
    if is_entry(dest) {
        worker.report.warning(&Error::new(What::SourceDirectoryTwice, &top.source));
        return Instead::Done;
    }
    // Met again through another symbolic link: a second copy is what was asked for.
    if subject.follow() {
        return Instead::Copy { claimed: false };
    }
    worker.report.problem(Error::new(What::HardLinkToDirectory, dest.path).and(earlier.path()));
    Instead::Failed
}

/// Nothing was made: what was noted of it is forgotten, who waits for what was claimed is woken, and what stood there
/// before comes back.
fn leave_unmade(worker: &mut Worker<'_>, subject: &Subject<'_>, state: &DestState, (noted, claimed): (bool, bool)) {
    if noted {
        let forgotten = worker.cx.services.links.forget((&subject.inode).into());
        claims::table(&mut worker.report, forgotten, subject.source);
    }
    if claimed {
        claims::settle_for_all(worker, &subject.inode, false);
    }
    undo::put_back(&mut worker.report, state, subject.dest);
}

/// Whether a source is what it was when it was listed. Another kind of file is an error; other contents are a warning. In a
/// shard they are an error, too: other shards may have copied other files, or other names, as they were.
pub(crate) fn is_as_listed(worker: &mut Worker<'_>, subject: &Subject<'_>) -> bool {
    let (Some(selection), Some(listed)) = (&worker.cx.services.selection, subject.level.listed) else { return true };
    let entry = selection.list.entry(listed);
    let path = subject.source.path;
    if entry.kind != subject.inode.kind {
        return worker.report.problem(Error::new(What::ListedOtherwise, path).detail(words_for(entry.kind)));
    }
    let resized = entry.size != subject.inode.size || entry.modified != subject.inode.modified;
    let changed = resized || entry.changed != subject.inode.changed;
    match entry.kind {
        Kind::Regular | Kind::SymbolicLink if changed && selection.shards.is_some() => {
            worker.report.problem(Error::new(What::ChangedBetweenShards, path))
        }
        Kind::Regular if resized => {
            worker.report.warning(&Error::new(What::ListedChanged, path));
            true
        }
        _ => true,
    }
}

/// Whether a symbolic link leads to a directory that this run is just filling: every level of it would have another one
/// in it. Found by a name, not through a link, such a directory is known from the table of what was made.
pub(crate) fn is_being_filled(subject: &Subject<'_>) -> bool {
    subject.follow()
        && subject.inode.kind == Kind::Directory
        && subject.level.ancestors.iter().any(|frame| frame.is_filling(subject.inode.id))
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
