//! Which thread, and which process, makes the copy of a source file that has several names.

use std::sync::Arc;

use haul_cluster::messages::LinkOwner;
use haul_cluster::patience::{PATIENCE, patiently};
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};

use crate::context::RunContext;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::finish::naming;
use crate::links::{Claim, DestDir, Made, Source};
use crate::peers::paths::find;
use crate::plan::{Dereference, LinkMode};
use crate::report::Reporter;
use crate::walk::{Spot, last_component};
use crate::work::dest_state::DestState;
use crate::work::subject::{Level, Subject};

/// What is known about earlier copies of a source.
pub(crate) enum Earlier {
    /// Nothing, or it does not matter.
    Nothing,
    /// It is copied now, and others may be waiting for it.
    Claimed,
    /// This.
    Made(Made),
    /// The table cannot tell, which was reported.
    Unknown,
}

/// What was made for this source before in this run, where that matters: for directories, to notice loops; for
/// files of several names, to keep them one file. Remembers what is about to be made.
pub(crate) fn earlier_copy(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    level: &Level<'_>,
) -> Earlier {
    if subject.inode.kind != Kind::Directory {
        return claim_if_linked(cx, report, subject, level);
    }
    let earlier = match level.dir {
        Some(dir) if subject.is_operand => {
            cx.services.links.remember((&subject.inode).into(), || made_at(dir, subject.dest))
        }
        Some(_) if !subject.is_operand => cx.services.links.get((&subject.inode).into()),
        _ => Ok(None),
    };
    match table(report, earlier, subject.source) {
        None => Earlier::Unknown,
        Some(earlier) => earlier.map_or(Earlier::Nothing, Earlier::Made),
    }
}

fn claim_if_linked(cx: RunContext<'_>, report: &mut Reporter<'_>, subject: &Subject<'_>, level: &Level<'_>) -> Earlier {
    let plan = cx.plan;
    // Two links that are followed may lead to one file.
    let several_names = subject.inode.links > 1 || subject.dereference != Dereference::Never;
    if !cx.plan.preserve.links || plan.link == LinkMode::Hard || !several_names {
        return Earlier::Nothing;
    }
    claim(cx, report, subject, level)
}

/// Asks what was made before for this source, and notes that it is made now if nothing was.
pub(crate) fn claim(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    level: &Level<'_>,
) -> Earlier {
    let Some(dir) = level.dir else { return Earlier::Nothing };
    let claim = cx.services.links.claim((&subject.inode).into(), || made_at(dir, subject.dest));
    match table(report, claim, subject.source) {
        None => Earlier::Unknown,
        Some(Claim::First) => claim_of_all(cx, report, subject, level),
        Some(Claim::Made(made)) => Earlier::Made(made),
    }
}

/// The same after a copy.
pub(crate) fn complete_claim_of(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    made: Option<FileId>,
) {
    // It was written through a symbolic link: as with cp, other names become links to that.
    let link = state.existing.filter(|existing| !subject.follow && existing.entry.kind == Kind::SymbolicLink);
    complete_claim(cx, worker, subject, link.map(|existing| existing.entry.id).or(made));
}

/// What was claimed stands at its place; `made` is which file it is, if that is known.
pub(crate) fn complete_claim(cx: RunContext<'_>, worker: &mut Worker<'_>, subject: &Subject<'_>, made: Option<FileId>) {
    let dest = subject.dest;
    let made = match made {
        Some(made) => Ok(made),
        // As the next name of it will be looked at.
        None if subject.follow => dest.inode_following().map(|inode| inode.id),
        None => dest.inode().map(|inode| inode.id),
    };
    let stands = made.is_ok();
    let completed = match made {
        Ok(made) => cx.services.links.complete((&subject.inode).into(), made),
        // It went away at once: whoever comes next copies it again.
        Err(_) => cx.services.links.forget((&subject.inode).into()),
    };
    table(&mut worker.report, completed, subject.source);
    settle_for_all(cx, worker, &subject.inode, stands);
}

/// Reports what the table of links could not do.
pub(crate) fn table<T>(report: &mut Reporter<'_>, result: Result<T, Errno>, source: Spot<'_>) -> Option<T> {
    report.check(result, What::LinksUnknown, source.path).ok()
}

/// Asks the other processes for what this one has not met: it is claimed here already.
fn claim_of_all(cx: RunContext<'_>, report: &mut Reporter<'_>, subject: &Subject<'_>, level: &Level<'_>) -> Earlier {
    let Some(peers) = cx.peers else { return Earlier::Claimed };
    let source = Source::from(&subject.inode);
    let key = peers.key_of(source);
    let trouble = match peers.claim(key) {
        LinkOwner::You => return Earlier::Claimed,
        LinkOwner::Rank(rank) => {
            let place = peers.ask_where(rank as usize, key);
            let stop = || cx.cancelled();
            let found = place
                .ok_or(Errno::STALE)
                .and_then(|place| patiently(PATIENCE, || if stop() { Err(Errno::CANCELED) } else { find(&place) }));
            match found {
                Ok(made) => {
                    let settled = cx.services.links.was_made_elsewhere(source, &made);
                    return match table(report, settled, subject.source) {
                        Some(()) => Earlier::Made(made),
                        None => Earlier::Unknown,
                    };
                }
                Err(errno) => errno,
            }
        }
        LinkOwner::Broken(errno) => Errno::from_raw_os_error(errno),
    };
    let forgotten = cx.services.links.forget(source);
    table(report, forgotten, subject.source);
    if !cx.cancelled() {
        let dest = level.dir.map_or_else(|| subject.dest.path.to_owned(), |dir| made_at(dir, subject.dest).path());
        report.problem(Error::new(What::LinksUnknown, subject.source.path).and(dest).errno(trouble));
    }
    Earlier::Unknown
}

/// What this process has claimed stands at its place, or does not: the other processes hear of it.
pub(crate) fn settle_for_all(cx: RunContext<'_>, worker: &mut Worker<'_>, inode: &Inode, made: bool) {
    let Some(peers) = cx.peers else { return };
    if made {
        // Another process links to it by its name.
        naming::give_names(cx, worker);
    }
    peers.settle(peers.key_of(inode.into()), made);
}

/// What stands, or will stand, at a name of the destination.
pub(crate) fn made_at(dir: &Arc<DestDir>, dest: Spot<'_>) -> Made {
    Made { dir: Arc::clone(dir), name: last_component(dest.name).to_owned(), id: None }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
