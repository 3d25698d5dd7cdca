//! One operand, with everything below it.

use std::sync::Arc;

use crate::finish::{naming, written};
use crate::links::DestDir;
use crate::list::Index;
use crate::tree::entry::{self, Step};
use crate::tree::walk;
use crate::tree::walker::Walker;
use crate::walk::{Operand, Spot};
use crate::work::frame::overlap;
use crate::work::subject::{Level, Top};

/// Copies an operand with everything below it. `root` is the directory that holds its copy; one that cannot be opened is
/// none, and making anything there will say why.
pub(crate) fn copy_operand(
    walker: &mut Walker<'_>,
    source: Operand,
    dest: Spot<'_>,
    missing: bool,
    root: Option<&Arc<DestDir>>,
) {
    let Some(listed) = listed_operand(walker) else { return };
    let mut top = Top { source: source.path().to_owned(), dest: dest.path.to_owned(), into_itself: false };
    written::will_write_beside(walker.cx, &mut walker.worker, dest);
    naming::give_names_if_one_is(walker.cx, &mut walker.worker, dest);
    let level = Level { dir: root, sides: None, ancestors: &[], is_regular: false, listed, made: None };
    let Step::Enter(frame) = entry::visit(walker, source.spot(), dest, missing, &level, &mut top) else { return };
    // A descriptor less while the tree is copied.
    drop(source);
    // Where a copy changes its own source, the order decides how it ends: that is the order of one thread.
    let pool = walker.pool.filter(|_| !overlap(&frame));
    let pool = std::mem::replace(&mut walker.pool, pool);
    if let Some(pool) = walker.pool {
        pool.fix(walker.worker.mover.jobs_of_profile(walker.cx.plan, frame.devices(), || frame.sides()));
        if walker.cx.services.transfers.probe.has_heads(frame.devices()) {
            pool.start_low();
        }
    }
    walk::walk_tree(walker, *frame, &mut top);
    walker.drain();
    walker.pool = pool;
}

/// The number of the operand in the list, if there is a list; `None` if there is nothing to do in it.
fn listed_operand(walker: &Walker<'_>) -> Option<Option<Index>> {
    match &walker.cx.services.selection {
        None => Some(None),
        Some(selection) => selection.roots.get(walker.operands.current).copied().flatten().map(Some),
    }
}
