//! Source files that have several names: which thread, and which process, makes the copy, and that other names become hard links
//! to it.

use std::sync::Arc;

use haul_cluster::messages::{LinkOwner, Whereabouts};
use haul_cluster::patience::{PATIENCE, patiently};
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};

use crate::context::Worker;
use crate::error::{Error, What};
use crate::finish::naming;
use crate::links::{Claim, DestDir, Made, Source};
use crate::peers::paths::{ask_again_for_way, find};
use crate::plan::LinkMode;
use crate::report::Reporter;
use crate::walk::{Spot, last_component};
use crate::work::entry::{DestState, Subject};

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
pub(crate) fn earlier_copy(worker: &mut Worker<'_>, subject: &Subject<'_>) -> Earlier {
    if subject.inode.kind != Kind::Directory {
        let plan = worker.cx.plan;
        // Two links that are followed may lead to one file.
        let several_names = subject.inode.links > 1 || subject.follow();
        let matters = plan.preserve.links && plan.link != LinkMode::Hard && several_names;
        return if matters { claim(worker, subject) } else { Earlier::Nothing };
    }
    let earlier = match subject.level.dir {
        Some(dir) if subject.is_operand() => {
            worker.cx.services.links.remember((&subject.inode).into(), || made_at(dir, subject.dest))
        }
        Some(_) => worker.cx.services.links.get((&subject.inode).into()),
        None => Ok(None),
    };
    match table(&mut worker.report, earlier, subject.source) {
        None => Earlier::Unknown,
        Some(earlier) => earlier.map_or(Earlier::Nothing, Earlier::Made),
    }
}

/// Asks what was made before for this source, and notes that it is made now if nothing was.
pub(crate) fn claim(worker: &mut Worker<'_>, subject: &Subject<'_>) -> Earlier {
    let Some(dir) = subject.level.dir else { return Earlier::Nothing };
    let claim = worker.cx.services.links.claim((&subject.inode).into(), || made_at(dir, subject.dest));
    match table(&mut worker.report, claim, subject.source) {
        None => Earlier::Unknown,
        Some(Claim::First) => claim_of_all(worker, subject),
        Some(Claim::Made(made)) => Earlier::Made(made),
    }
}

/// The same after a copy.
pub(crate) fn complete_claim_of(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    made: Option<FileId>,
) {
    // It was written through a symbolic link: as with cp, other names become links to that.
    let link =
        state.existing.as_ref().filter(|existing| !subject.follow() && existing.entry.kind == Kind::SymbolicLink);
    complete_claim(worker, subject, link.map(|existing| existing.entry.id).or(made));
}

/// What was claimed stands at its place; `made` is which file it is, if that is known.
pub(crate) fn complete_claim(worker: &mut Worker<'_>, subject: &Subject<'_>, made: Option<FileId>) {
    let dest = subject.dest;
    let made = match made {
        Some(made) => Ok(made),
        // As the next name of it will be looked at.
        None if subject.follow() => dest.inode_following().map(|inode| inode.id),
        None => dest.inode().map(|inode| inode.id),
    };
    let stands = made.is_ok();
    let completed = match made {
        Ok(made) => worker.cx.services.links.complete((&subject.inode).into(), made),
        // It went away at once: whoever comes next copies it again.
        Err(_) => worker.cx.services.links.forget((&subject.inode).into()),
    };
    table(&mut worker.report, completed, subject.source);
    settle_for_all(worker, &subject.inode, stands);
}

/// Reports what the table of links could not do.
pub(crate) fn table<T>(report: &mut Reporter<'_>, result: Result<T, Errno>, source: Spot<'_>) -> Option<T> {
    report.check(result, What::LinksUnknown, source.path).ok()
}

/// Asks the other processes for what this one has not met: it is claimed here already.
fn claim_of_all(worker: &mut Worker<'_>, subject: &Subject<'_>) -> Earlier {
    let cx = worker.cx;
    let Some(peers) = cx.peers else { return Earlier::Claimed };
    let source = Source::from(&subject.inode);
    let key = peers.key_of(source);
    let trouble = match peers.claim(key) {
        LinkOwner::You => return Earlier::Claimed,
        LinkOwner::Rank(rank) => {
            let found = match peers.ask_where(rank as usize, key) {
                Whereabouts::At(place) => {
                    let attempt = || if cx.cancelled() { Err(Errno::CANCELED) } else { find(&place) };
                    patiently(PATIENCE, || ask_again_for_way(&place.way), attempt)
                }
                // It is claimed here, and stays so: the next names are linked to what is made now.
                Whereabouts::TakesNoMoreNames => return Earlier::Claimed,
                Whereabouts::Unknown => Err(Errno::STALE),
            };
            match found {
                Ok(made) => {
                    let settled = cx.services.links.was_made_elsewhere(source, &made);
                    return match table(&mut worker.report, settled, subject.source) {
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
    table(&mut worker.report, forgotten, subject.source);
    if !cx.cancelled() {
        let dest =
            subject.level.dir.map_or_else(|| subject.dest.path.to_owned(), |dir| made_at(dir, subject.dest).path());
        worker.report.problem(Error::new(What::LinksUnknown, subject.source.path).and(dest).errno(trouble));
    }
    Earlier::Unknown
}

/// What this process has claimed stands at its place, or does not: the other processes hear of it.
pub(crate) fn settle_for_all(worker: &mut Worker<'_>, inode: &Inode, made: bool) {
    let Some(peers) = worker.cx.peers else { return };
    if made {
        // Another process links to it by its name.
        naming::give_names(worker);
    }
    peers.settle(peers.key_of(inode.into()), made);
}

/// What stands, or will stand, at a name of the destination.
pub(crate) fn made_at(dir: &Arc<DestDir>, dest: Spot<'_>) -> Made {
    Made { dir: Arc::clone(dir), name: last_component(dest.name).to_owned(), id: None }
}

/// Files with fewer names than this are linked when the queue of names is emptied. NTFS allows 1,023 names, ext4 65,000:
/// whether one more is possible must be known while the source is at hand.
const MANY: u32 = 1000;

/// What becomes of a source that was met before.
pub(crate) enum Instead {
    /// What was made has this name, too, or will get it with the others that wait; or none is needed.
    Done,
    /// It cannot have it, which was reported.
    Failed,
    /// It is copied all the same. If it is claimed for that, as where the filesystem allows no more names of what was made, what
    /// stands at the destination next is the file that other names are linked to from here on.
    Copy { claimed: bool },
}

/// Makes the entry a name of what was made before for another name of the source, in the place of what stands there if it
/// `replaces` that.
pub(crate) fn link_to_earlier(
    worker: &mut Worker<'_>,
    mut earlier: Made,
    subject: &Subject<'_>,
    replaces: bool,
) -> Instead {
    loop {
        let linked = match worker.cx.plan.names_wait() && subject.inode.links < MANY {
            true => naming::link_later(worker, &earlier, subject, replaces),
            false => link_at_once(worker, &earlier, subject, replaces),
        };
        let full = match linked {
            Ok(()) => return Instead::Done,
            Err(Errno::MLINK) => earlier,
            Err(errno) => {
                let error = Error::new(What::CannotHardLink, subject.dest.path).and(earlier.path());
                worker.report.problem(error.errno(errno));
                return Instead::Failed;
            }
        };
        match name_of_another(worker, full, subject) {
            Ok(next) => earlier = next,
            Err(linked) => return linked,
        }
    }
}

/// What the entry becomes a name of where this takes no more names: what another thread has begun, if one has by now.
fn name_of_another(worker: &mut Worker<'_>, full: Made, subject: &Subject<'_>) -> Result<Made, Instead> {
    let source = Source::from(&subject.inode);
    let forgotten = worker.cx.services.links.forget_if(source, full.id);
    if table(&mut worker.report, forgotten, subject.source).is_none() {
        return Err(Instead::Failed);
    }
    // Among peers each process begins a file of its own: the others hear only of the first one.
    let claim = subject.level.dir.map(|dir| worker.cx.services.links.claim(source, || made_at(dir, subject.dest)));
    match table(&mut worker.report, claim.unwrap_or(Err(Errno::STALE)), subject.source) {
        Some(Claim::Made(next)) => Ok(next),
        Some(Claim::First) => {
            worker.report.warning(&Error::new(What::NoMoreLinks, full.path()).and(subject.dest.path));
            Err(Instead::Copy { claimed: true })
        }
        None => Err(Instead::Failed),
    }
}

fn link_at_once(worker: &mut Worker<'_>, made: &Made, subject: &Subject<'_>, replaces: bool) -> Result<(), Errno> {
    let here = subject.level.dir.map(|dir| dir.id);
    let how = (subject.follow(), replaces);
    match naming::link_now(worker, made, subject.dest, here, how) {
        // What it is to be a name of may wait for its own.
        Err(Errno::NOENT | Errno::STALE) if worker.cx.plan.names_wait() => {
            naming::give_names(worker);
            naming::link_now(worker, made, subject.dest, here, how)
        }
        linked => linked,
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "names_tests.rs"]
mod names_tests;
