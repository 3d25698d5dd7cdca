//! One entry of the source, of any kind: from the first look to the finished copy.

use std::borrow::Cow;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Kind};

use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::Event;
use crate::file::open::open_regular;
use crate::file::{regular, special};
use crate::finish::undo;
use crate::links::Made;
use crate::list::Index;
use crate::peers::PeerGroup;
use crate::peers::remote::RemoteSource;
use crate::plan::{Backup, Dereference, LinkMode};
use crate::report::{Reported, Reporter};
use crate::sources::selection::words_for;
use crate::tree::claims::{self, Earlier, Linked};
use crate::tree::walker::Walker;
use crate::tree::{enter, existing};
use crate::walk::{Spot, last_component, renamed};
use crate::work::directory::Frame;
use crate::work::entry::{Action, DestState, Level, Remote, Subject, Top};

/// What becomes of a source that was met before.
enum Instead {
    /// It has another name now, needs none, or cannot have one, which was reported.
    Ended { well: bool },
    /// It is copied all the same, and may be claimed for that.
    Copy { claimed: bool },
}

/// How a visit ended.
pub(crate) enum Step {
    /// The entry is dealt with, well or badly.
    Done,
    /// It is a directory whose contents come next.
    Enter(Box<Frame>),
}

/// Copies one entry; the contents of a directory are left to the caller.
pub(crate) fn visit(
    walker: &mut Walker<'_>,
    source: Spot<'_>,
    dest: Spot<'_>,
    missing: bool,
    level: &Level<'_>,
    top: &mut Top,
) -> Step {
    let Some((mut subject, state)) = prepare(walker, source, dest, missing, level, top) else { return Step::Done };
    // Before it is claimed: nobody should have to wait for a thread that waits for its turn.
    walker.cx.wait_to_make();
    let earlier = claims::earlier_copy(walker.cx, &mut walker.worker.report, &subject, level);
    if matches!(earlier, Earlier::Unknown) {
        undo::put_back(&mut walker.worker.report, &state, dest);
        return Step::Done;
    }
    let remote = peers_that_help(walker).and_then(|peers| RemoteSource::of(peers, &subject, level, top));
    subject.remote = remote.as_ref().map(|remote| remote as &dyn Remote);
    let (met_before, mut claimed) = (matches!(earlier, Earlier::Made(_)), matches!(earlier, Earlier::Claimed));
    if let Earlier::Made(earlier) = earlier {
        // It is seldom copied all the same, and to find the other name takes descriptors.
        subject.opened = None;
        match instead_of_copying(walker.cx, &mut walker.worker, earlier, &subject, level, top) {
            Instead::Copy { claimed: now } => claimed = now,
            Instead::Ended { well } => {
                if !well {
                    undo::put_back(&mut walker.worker.report, &state, dest);
                }
                return Step::Done;
            }
        }
    }
    let made = match subject.inode.kind {
        Kind::Directory => match enter::enter_directory(walker.cx, &mut walker.worker, &subject, &state, level) {
            Some(frame) => return Step::Enter(frame),
            None => Err(Reported),
        },
        _ => make(walker.cx, &mut walker.worker, &mut subject, &state),
    };
    if let Ok(made) = made {
        if subject.is_operand {
            walker.operands.remember(dest, made);
        }
        if claimed {
            claims::complete_claim_of(walker.cx, &mut walker.worker, &subject, &state, made);
        }
    } else {
        let noted = claimed || (!met_before && subject.is_operand);
        leave_unmade(walker.cx, &mut walker.worker, &subject, &state, (noted, claimed));
    }
    Step::Done
}

/// Looks at both sides, decides what is done about the entry, and does what comes before its copy. Nothing if no copy comes,
/// as was reported.
fn prepare<'s>(
    walker: &mut Walker<'_>,
    source: Spot<'s>,
    dest: Spot<'s>,
    missing: bool,
    level: &Level<'s>,
    top: &mut Top,
) -> Option<(Subject<'s>, DestState)> {
    let subject = look_at_source(walker, source, dest, level, missing)?;
    if !is_as_listed(walker.cx, &mut walker.worker.report, &subject, level.listed) {
        return None;
    }
    let state = match existing::action_for(walker, &subject, level, missing) {
        Action::Copy(state) => DestState { entries: level.entries(), ..state },
        Action::Nothing | Action::Failed => return None,
    };
    if through_just_made_link(walker, &subject, &state) {
        walker.worker.report.problem(Error::new(What::ThroughJustCreatedLink, source.path).and(dest.path));
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
    if is_being_filled(&subject, level) {
        walker.worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
        top.into_itself = true;
        undo::put_back(&mut walker.worker.report, &state, dest);
        return None;
    }
    Some((subject, state))
}

/// The other processes, where they may copy parts of a file.
fn peers_that_help<'a>(walker: &Walker<'a>) -> Option<&'a PeerGroup<'a>> {
    let alone = walker.pool.is_none() || walker.cx.plan.dereference == Dereference::Always;
    walker.cx.peers.filter(|_| !alone)
}

/// Makes the copy of anything but a directory, and says which file it is if that is known.
fn make(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &mut Subject<'_>,
    state: &DestState,
) -> Result<Option<FileId>, Reported> {
    match cx.plan.link {
        LinkMode::Symbolic => special::make_symbolic_link_to_source(cx, &mut worker.report, subject, state),
        LinkMode::Hard => special::make_hard_link_to_source(cx, &mut worker.report, subject, state),
        LinkMode::Copy => regular::make_file(cx, worker, subject, state),
    }
}

fn look_at_source<'s>(
    walker: &mut Walker<'_>,
    source: Spot<'s>,
    dest: Spot<'s>,
    level: &Level<'s>,
    missing: bool,
) -> Option<Subject<'s>> {
    let plan = walker.cx.plan;
    let is_operand = level.ancestors.is_empty();
    let sides = level.sides;
    let dest_device = level.ancestors.last().map(|parent| parent.devices()[1]);
    let dereference = match plan.dereference {
        Dereference::Operands if !is_operand => Dereference::Never,
        dereference => dereference,
    };
    let follow = dereference != Dereference::Never;
    let subject = |inode, opened| {
        let remote = None;
        Subject { source, dest, inode, opened, dereference, follow, is_operand, sides, dest_device, remote }
    };
    // One look less: what will be opened anyway is looked at when it is open.
    if level.is_regular
        && missing
        && !follow
        && plan.link == LinkMode::Copy
        && let Ok((opened, inode)) = open_regular(source, plan.data.engine)
    {
        return walker.cx.wanted().entry(&inode).then(|| subject(inode, Some(opened)));
    }
    let inode = match if follow { source.inode_following() } else { source.inode() } {
        Err(Errno::NOENT) if level.listed.is_some() => {
            walker.worker.report.problem(Error::new(What::ListedMissing, source.path));
            return None;
        }
        inode => walker.worker.report.check(inode, What::CannotStat, source.path).ok()?,
    };
    if !walker.cx.wanted().entry(&inode) {
        return None;
    }
    if !walker.cx.wanted().operand(&inode) {
        walker.worker.report.problem(Error::new(What::OmittingDirectory, source.path));
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

/// Whether writing would go through a symbolic link that this run made for an earlier operand.
fn through_just_made_link(walker: &Walker<'_>, subject: &Subject<'_>, state: &DestState) -> bool {
    if !subject.is_operand || walker.cx.plan.backup != Backup::None || !walker.operands.are_several() {
        return false;
    }
    let entry = match &state.existing {
        Some(existing) => Ok(existing.entry),
        None => subject.dest.inode(),
    };
    entry.is_ok_and(|entry| entry.kind == Kind::SymbolicLink && walker.operands.have_made(subject.dest, &entry))
}

fn announce(report: &Reporter<'_>, subject: &Subject<'_>, state: &DestState) {
    let backup = state.backup.as_ref().map(|name| renamed(subject.dest.path, name));
    report.tell(&Event::Copying {
        source: subject.source.path.into(),
        dest: subject.dest.path.into(),
        backup: backup.map(Cow::Owned),
    });
}

/// The source was met before.
fn instead_of_copying(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    earlier: Made,
    subject: &Subject<'_>,
    level: &Level<'_>,
    top: &mut Top,
) -> Instead {
    if subject.inode.kind != Kind::Directory {
        return match claims::link_to_earlier(cx, worker, earlier, subject, level) {
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
        worker.report.problem(Error::new(What::IntoItself, &top.source).and(&top.dest));
        top.into_itself = true;
        return Instead::Ended { well: false };
    }
    if is_entry(dest) {
        worker.report.warning(&Error::new(What::SourceDirectoryTwice, &top.source));
        return Instead::Ended { well: true };
    }
    // Met again through another symbolic link: a second copy is what was asked for.
    if subject.follow {
        return Instead::Copy { claimed: false };
    }
    worker.report.problem(Error::new(What::HardLinkToDirectory, dest.path).and(earlier.path()));
    Instead::Ended { well: false }
}

/// Nothing was made: what was noted of it is forgotten, who waits for what was claimed is woken, and what stood there
/// before comes back.
fn leave_unmade(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (noted, claimed): (bool, bool),
) {
    if noted {
        let forgotten = cx.services.links.forget((&subject.inode).into());
        claims::table(&mut worker.report, forgotten, subject.source);
    }
    if claimed {
        claims::settle_for_all(cx, worker, &subject.inode, false);
    }
    undo::put_back(&mut worker.report, state, subject.dest);
}

/// Whether a source is what it was when it was listed. Another kind of file is an error; other contents are a warning. In a
/// shard they are an error, too: other shards may have copied other files, or other names, as they were.
fn is_as_listed(cx: RunContext<'_>, report: &mut Reporter<'_>, subject: &Subject<'_>, listed: Option<Index>) -> bool {
    let (Some(selection), Some(listed)) = (&cx.services.selection, listed) else { return true };
    let entry = selection.list.entry(listed);
    let path = subject.source.path;
    if entry.kind != subject.inode.kind {
        return report.problem(Error::new(What::ListedOtherwise, path).detail(words_for(entry.kind)));
    }
    let resized = entry.size != subject.inode.size || entry.modified != subject.inode.modified;
    let changed = resized || entry.changed != subject.inode.changed;
    match entry.kind {
        Kind::Regular | Kind::SymbolicLink if changed && selection.shards.is_some() => {
            report.problem(Error::new(What::ChangedBetweenShards, path))
        }
        Kind::Regular if resized => {
            report.warning(&Error::new(What::ListedChanged, path));
            true
        }
        _ => true,
    }
}

/// Whether a symbolic link leads to a directory that this run is just filling: every level of it would have another one
/// in it. Found by a name, not through a link, such a directory is known from the table of what was made.
fn is_being_filled(subject: &Subject<'_>, level: &Level<'_>) -> bool {
    subject.follow
        && subject.inode.kind == Kind::Directory
        && level.ancestors.iter().any(|frame| frame.is_filling(subject.inode.id))
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
