//! Other names of a file that was copied already: hard links.

use haul_sys::Errno;

use crate::context::RunContext;
use crate::context::Worker;
use crate::error::{Error, What};
use crate::finish::naming;
use crate::links::{Claim, Made, Source};
use crate::report::Reporter;
use crate::tree::claims::{self, made_at};
use crate::work::subject::{Level, Subject};

/// Files with fewer names than this are linked when the queue of names is emptied. NTFS allows 1,023 names, ext4 65,000:
/// whether one more is possible must be known while the source is at hand.
const MANY: u32 = 1000;

/// What came of giving a file another name.
pub(crate) enum Linked {
    /// It has that name, or will get it with the others that wait.
    Done,
    /// It has not, which was reported.
    Failed,
    /// Its filesystem allows no more names of it. The source is claimed: what stands at the destination next is the file that
    /// other names are linked to from here on.
    Claimed,
}

/// Makes the entry a name of what was made before for another name of the source.
pub(crate) fn link_to_earlier(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    mut earlier: Made,
    subject: &Subject<'_>,
    level: &Level<'_>,
) -> Linked {
    loop {
        let linked = match cx.plan.names_wait() && subject.inode.links < MANY {
            true => naming::link_later(cx, worker, &earlier, subject),
            false => link_at_once(cx, worker, &earlier, subject, level),
        };
        let full = match linked {
            Ok(()) => return Linked::Done,
            Err(Errno::MLINK) => earlier,
            Err(errno) => {
                let error = Error::new(What::CannotHardLink, subject.dest.path).and(earlier.path());
                worker.report.problem(error.errno(errno));
                return Linked::Failed;
            }
        };
        match name_of_another(cx, &mut worker.report, full, subject, level) {
            Ok(next) => earlier = next,
            Err(linked) => return linked,
        }
    }
}

/// What the entry becomes a name of where this takes no more names: what another thread has begun, if one has by now.
fn name_of_another(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    full: Made,
    subject: &Subject<'_>,
    level: &Level<'_>,
) -> Result<Made, Linked> {
    let source = Source::from(&subject.inode);
    let forgotten = cx.services.links.forget_if(source, full.id);
    if claims::table(report, forgotten, subject.source).is_none() {
        return Err(Linked::Failed);
    }
    // Among peers each process begins a file of its own: the others hear only of the first one.
    let claim = level.dir.map(|dir| cx.services.links.claim(source, || made_at(dir, subject.dest)));
    match claims::table(report, claim.unwrap_or(Err(Errno::STALE)), subject.source) {
        Some(Claim::Made(next)) => Ok(next),
        Some(Claim::First) => {
            report.warning(&Error::new(What::NoMoreLinks, full.path()).and(subject.dest.path));
            Err(Linked::Claimed)
        }
        None => Err(Linked::Failed),
    }
}

fn link_at_once(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    made: &Made,
    subject: &Subject<'_>,
    level: &Level<'_>,
) -> Result<(), Errno> {
    let here = level.dir.map(|dir| dir.id);
    match naming::link_now(cx, &mut worker.report, made, subject.dest, here, subject.follow) {
        // What it is to be a name of may wait for its own.
        Err(Errno::NOENT | Errno::STALE) if cx.plan.names_wait() => {
            naming::give_names(cx, worker);
            naming::link_now(cx, &mut worker.report, made, subject.dest, here, subject.follow)
        }
        linked => linked,
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
