//! Which sources a move leaves where they are (`--move`): those that were not copied, since an option or the user wanted that or
//! since it failed. What stands at the destination may be like them all the same.

use std::ffi::OsStr;
use std::sync::Arc;

use haul_sys::inode::Inode;

use crate::context::Worker;
use crate::error::{Error, What};
use crate::links::DestDir;

/// Notes that this source stays, with all that is in it. It was to go into `dir`.
pub(crate) fn let_stay(worker: &mut Worker<'_>, source: &Inode, dir: Option<&Arc<DestDir>>) {
    let cx = worker.cx;
    // Without a directory nothing is at the destination that could be taken for its copy.
    let Some(dir) = dir.filter(|_| cx.plan.moves && !cx.plan.dry_run) else { return };
    if let Err(errno) = cx.services.stays.note(source.into(), dir) {
        worker.report.problem(Error::new(What::StaysUnknown, dir.shown(OsStr::new(""))).errno(errno));
    }
}

/// Does something, and notes that this source stays if that fails, also where the cause was reported before. What waited for its name and did not get it
/// is missed at the destination.
pub(crate) fn let_stay_if_it_fails<'w, T>(
    worker: &mut Worker<'w>,
    (source, dir): (Inode, Option<&Arc<DestDir>>),
    act: impl FnOnce(&mut Worker<'w>) -> T,
) -> T {
    let failures = worker.report.failures_of_copying();
    let done = act(worker);
    if worker.report.failures_of_copying() > failures {
        let_stay(worker, &source, dir);
    }
    done
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::context::test_support::Bench;
    use crate::plan::Plan;

    #[test]
    fn what_has_lost_attributes_stays_also_where_the_cause_is_known() {
        let bench = Bench::new(Plan { moves: true, ..Plan::default() }).source("kept", "").source("lost", "");
        let root = bench.root();
        for (name, kept) in [("kept", true), ("lost", false)] {
            let source = bench.from(name).inode().unwrap();
            bench.run(|worker| {
                let_stay_if_it_fails(worker, (source, Some(&root)), |worker| {
                    worker.report.attributes(Path::new(name), |_| kept)
                });
                assert_eq!(worker.cx.services.stays.has((&source).into()), Ok(!kept), "{name}");
            });
        }
    }
}
