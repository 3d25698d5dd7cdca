use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::context::test_support::Bench;
use crate::plan::{Backup, Overwrite, Plan};
use crate::tree::test_support::{alone, beside_other, do_given, entered, found, make_dir, plan, top, troubles};
use crate::tree::walk::walk_tree;

/// Four files in the source, which is a thousand seconds old; directories keep their times.
fn bench() -> Bench {
    let mut bench = Bench::new(plan());
    bench.plan.preserve.timestamps = true;
    for name in ["a", "b", "c", "d"] {
        bench = bench.source(name, "new");
    }
    set_old(&bench, "");
    bench
}

fn set_old(bench: &Bench, dir: &str) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    File::open(bench.source_path(dir)).unwrap().set_modified(long_ago).unwrap();
}

/// Whether a directory of the destination has its times, which it gets last of all.
fn is_finished(bench: &Bench, dir: &str) -> bool {
    fs::metadata(bench.dest_path(dir)).is_ok_and(|dir| dir.mtime() == 1000)
}

const ALL: [&str; 4] = ["a: new", "b: new", "c: new", "d: new"];

#[test]
fn half_of_the_names_are_given_to_who_waits() {
    let bench = bench();
    let mut frame = entered(&bench);
    frame.listing.read(frame.sides.as_ref().unwrap().both()[0]).unwrap();
    let mut stack = [frame];
    let ran = beside_other(&bench, |walker, other| {
        share_and_rest(walker, &mut stack, &top());
        let names = (other.names(), stack[0].names().2.map(|listed| listed.name.clone()).collect::<Vec<_>>());
        do_given(walker, other);
        names
    });
    let (given, kept) = ran.value;
    assert_eq!((given.len(), kept.len()), (2, 2));
    let mut all = [given, kept].concat();
    all.sort();
    assert_eq!(all, ["a", "b", "c", "d"]);
}

#[test]
fn a_directory_is_finished_after_its_last_part() {
    let bench = bench();
    let ran = beside_other(&bench, |walker, other| {
        walk_tree(walker, entered(&bench), &mut top());
        let before = (bench.tree().len(), is_finished(&bench, ""));
        do_given(walker, other);
        before
    });
    let (copied, finished) = ran.value;
    assert!(copied < ALL.len() && !finished, "{copied} files");
    assert_eq!((troubles(&ran), bench.tree()), (vec![], ALL.map(String::from).to_vec()));
    assert!(is_finished(&bench, ""));
}

#[test]
fn a_directory_above_waits_for_parts_below() {
    let bench = Bench::new(bench().plan.clone());
    make_dir(bench.source_path("sub"), 0o755);
    for name in ["a", "b", "c", "d"] {
        fs::write(bench.source_path("sub").join(name), "new").unwrap();
    }
    set_old(&bench, "sub");
    set_old(&bench, "");
    let ran = beside_other(&bench, |walker, other| {
        walk_tree(walker, entered(&bench), &mut top());
        let before = ["sub", ""].map(|dir| is_finished(&bench, dir));
        do_given(walker, other);
        before
    });
    assert_eq!((ran.value, troubles(&ran)), ([false; 2], vec![]));
    assert_eq!(["sub", ""].map(|dir| is_finished(&bench, dir)), [true; 2]);
    assert_eq!(crate::context::test_support::tree(&bench.dest_path("sub")), ALL);
}

/// The directory of the destination, which was there, with its names read.
fn stack_of_existing(bench: &Bench) -> [Frame; 1] {
    let mut frame = found(bench);
    frame.listing.read(frame.sides.as_ref().unwrap().both()[0]).unwrap();
    [frame]
}

/// How many of its names are given away once somebody has looked at what is in it.
fn given_of_existing(bench: &Bench) -> usize {
    let mut stack = stack_of_existing(bench);
    let ran = beside_other(bench, |walker, other| {
        let order = &walker.worker.cx.services.order;
        assert!(order.ask());
        order.tell(look_ahead::look(walker.worker.cx, stack[0].sides.as_ref().unwrap(), 8));
        share_and_rest(walker, &mut stack, &top());
        let names = other.names().len();
        do_given(walker, other);
        names
    });
    assert_eq!(troubles(&ran), [""; 0]);
    ran.value
}

#[test]
fn a_directory_that_was_there_is_shared_once_somebody_has_looked_at_it() {
    assert_eq!(given_of_existing(&bench().dest("a", "old")), 2);
}

#[test]
fn a_directory_in_which_a_link_is_written_through_is_not_shared() {
    let bench = bench();
    symlink("b", bench.dest_path("a")).unwrap();
    assert_eq!(given_of_existing(&bench), 0);
}

/// Whether who waits for work is asked to look at a directory that was there, of which it gets nothing yet.
fn has_looked_ahead(change: impl FnOnce(&mut Plan)) -> bool {
    let mut bench = bench().dest("a", "old");
    change(&mut bench.plan);
    let mut stack = stack_of_existing(&bench);
    let ran = beside_other(&bench, |walker, other| {
        share_and_rest(walker, &mut stack, &top());
        assert_eq!(other.names().len(), 0);
        do_given(walker, other);
        walker.worker.cx.services.order.is_known()
    });
    ran.value
}

#[test]
fn who_waits_for_work_looks_at_a_directory_that_was_there() {
    assert!(has_looked_ahead(|_| ()));
    assert!(!has_looked_ahead(|plan| plan.overwrite = Overwrite::Ask), "questions have an order");
    assert!(!has_looked_ahead(|plan| plan.backup = Backup::Simple), "a backup may take another's name");
    assert!(!has_looked_ahead(|plan| plan.keep_directory_symlink = true), "another name may lead to a directory");
}

#[test]
fn what_nobody_takes_is_taken_back() {
    let bench = bench();
    let ran = beside_other(&bench, |walker, _| {
        // The system has no thread to give.
        walker.spawn = &Some;
        walk_tree(walker, entered(&bench), &mut top());
    });
    assert_eq!((troubles(&ran), bench.tree()), (vec![], ALL.map(String::from).to_vec()));
    assert!(is_finished(&bench, ""));
}

#[test]
fn reports_keep_the_order_of_one_thread() {
    let bench = Bench::new(plan());
    for number in 0..9 {
        let name = format!("f{number}");
        fs::write(bench.source_path(&name), "").unwrap();
        // Where each file goes a directory stands, which nobody expects in one that was just made.
        make_dir(bench.dest_path(&name), 0o755);
    }
    let one = alone(&bench, |walker| walk_tree(walker, entered(&bench), &mut top()));
    let two = beside_other(&bench, |walker, other| {
        walk_tree(walker, entered(&bench), &mut top());
        let errors = walker.worker.report.stats.errors;
        do_given(walker, other);
        errors
    });
    assert!(two.value < 9, "some are the other's");
    assert_eq!(troubles(&two), troubles(&one));
}
