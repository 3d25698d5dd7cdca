//! One operand, with everything below it.

use std::sync::Arc;

use crate::finish::{naming, written};
use crate::links::DestDir;
use crate::list::Index;
use crate::publish::Sides;
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
        pool.fix(
            walker
                .worker
                .mover
                .jobs_of_profile(&walker.cx.plan.data, frame.devices(), || frame.sides.as_deref().map(Sides::both)),
        );
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

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::context::test_support::Bench;
    use crate::plan::{Destination, Durable};
    use crate::tree::operands::copy_operands;
    use crate::tree::test_support::{alone, beside_other, copy_into, make_dir, plan, troubles, whole_tree};

    #[test]
    fn an_operand_finds_a_name_that_waits_for_its_device() {
        let mut bench = Bench::new(plan()).source("file", "first");
        make_dir(bench.source_path("dir"), 0o755);
        fs::write(bench.source_path("dir/file"), "second").unwrap();
        copy_into(&mut bench, &["file", "dir/file"]);
        bench.plan.durable = Durable::File;
        let ran = alone(&bench, |walker| {
            copy_operands(walker);
            walker.drain();
        });
        assert_eq!(troubles(&ran), [r#"error: will not overwrite just-created "dest/file" with "source/dir/file""#]);
        assert_eq!(bench.tree(), ["file: first"]);
    }

    #[test]
    fn names_that_wait_are_given_before_the_next_operand() {
        let mut bench = Bench::new(plan()).source("file", "last");
        make_dir(bench.source_path("dir"), 0o755);
        fs::write(bench.source_path("dir/below"), "first").unwrap();
        copy_into(&mut bench, &["dir", "file"]);
        bench.plan.durable = Durable::File;
        let ran = alone(&bench, |walker| {
            copy_operands(walker);
            bench.tree()
        });
        // That of the last one is given by the end of the run.
        assert_eq!(ran.value.iter().filter(|line| *line == "dir/").count(), 1);
        assert_eq!(fs::read(bench.dest_path("dir/below")).unwrap(), b"first");
        assert!(!ran.value.contains(&"file: last".to_owned()));
    }

    #[test]
    fn one_thread_copies_what_changes_its_own_source() {
        let mut bench = Bench::new(plan());
        fs::create_dir_all(bench.dest_path("d/d/sub")).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(bench.dest_path("d/d/sub").join(name), name).unwrap();
        }
        bench.plan.sources = vec![bench.dest_path("d/d").into()];
        bench.plan.destination = Destination::Directory(bench.dest_path("").into());
        let ran = beside_other(&bench, |walker, _| {
            walker.spawn = &|_| panic!("something is given to another thread");
            copy_operands(walker);
            assert!(walker.pool.is_some(), "the next operand may be shared again");
        });
        assert_eq!(troubles(&ran), [""; 0]);
        assert_eq!(whole_tree(&bench.dest_path("d/sub")), ["a: a", "b: b", "c: c"]);
    }
}
