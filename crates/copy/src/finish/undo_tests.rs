use std::fs;
use std::path::PathBuf;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::plan::Plan;

/// What is reported of a copy that failed.
const REASON: &str = r#"error: error writing "b""#;

fn reason() -> Error {
    Error::new(What::Writing, "b")
}

/// Gives the copy `b` up, which is this file.
fn give_up_b(bench: &Bench, inode: &Inode, (created, left): (bool, bool)) -> Ran<()> {
    bench.run(|worker| {
        let unfinished = Unfinished { left, ..Unfinished::default() };
        let broken = Broken { error: Some(reason()) };
        give_up(worker, bench.to("b"), inode, (created, &unfinished), broken);
    })
}

fn half() -> (Bench, Inode) {
    let bench = Bench::new(Plan::default()).dest("b", "half");
    let inode = bench.to("b").inode().unwrap();
    (bench, inode)
}

#[test]
fn a_new_file_that_is_not_whole_is_removed() {
    let (bench, inode) = half();
    let ran = give_up_b(&bench, &inode, (true, false));
    ran.says(&[REASON]);
    assert_eq!((bench.tree(), ran.damaged), (vec![], vec![]));
}

#[test]
fn an_overwritten_file_stays_and_is_named_as_damaged() {
    let (bench, inode) = half();
    let ran = give_up_b(&bench, &inode, (false, false));
    ran.says(&[REASON]);
    assert_eq!((bench.tree(), ran.damaged), (vec!["b: half".into()], vec![PathBuf::from("b")]));
}

#[test]
fn a_new_file_stays_where_that_is_wanted() {
    let (mut bench, inode) = half();
    let for_next_run = give_up_b(&bench, &inode, (true, true));
    bench.plan.remove_partial = false;
    let as_planned = give_up_b(&bench, &inode, (true, false));
    for ran in [for_next_run, as_planned] {
        ran.says(&[REASON]);
        assert!(ran.damaged.is_empty());
    }
    assert_eq!(bench.tree(), ["b: half"]);
}

#[test]
fn a_file_that_was_moved_meanwhile_is_not_removed() {
    let (bench, inode) = half();
    fs::rename(bench.dest_path("b"), bench.dest_path("c")).unwrap();
    let gone = give_up_b(&bench, &inode, (true, false));
    fs::write(bench.dest_path("b"), "theirs").unwrap();
    let replaced = give_up_b(&bench, &inode, (true, false));
    for ran in [gone, replaced] {
        ran.says(&[REASON]);
        assert_eq!(ran.damaged, [PathBuf::from("b")]);
    }
    assert_eq!(bench.tree(), ["b: theirs", "c: half"]);
}

#[test]
fn a_fifo_is_neither_removed_nor_damaged() {
    let bench = Bench::new(Plan::default());
    bench.make_fifo("b");
    let inode = bench.to("b").inode().unwrap();
    for created in [true, false] {
        let ran = give_up_b(&bench, &inode, (created, false));
        ran.says(&[REASON]);
        assert!(ran.damaged.is_empty());
    }
    assert_eq!(bench.tree().len(), 1);
}

#[test]
fn a_cancelled_copy_fails_without_a_word() {
    let (bench, inode) = half();
    let ran = bench.run(|worker| {
        let broken = Broken { error: None };
        give_up(worker, bench.to("b"), &inode, (true, &Unfinished::default()), broken);
    });
    assert!(ran.failed && ran.heard.is_empty());
    assert!(bench.tree().is_empty());
}

#[test]
fn a_new_file_that_cannot_be_removed_is_reported() {
    let (bench, inode) = half();
    let ran = bench.run(|worker| {
        let dest = Spot::unreachable(Errno::STALE, OsStr::new("b"), "b".as_ref());
        let broken = Broken { error: None };
        give_up(worker, dest, &inode, (true, &Unfinished::default()), broken);
    });
    ran.says(&[&format!(r#"error: cannot remove the incomplete "b": {}"#, Errno::STALE)]);
}

#[test]
fn a_refused_copy_leaves_an_existing_file_as_it_is() {
    let (bench, inode) = half();
    let fd = bench.to("b").open_path().unwrap();
    let refuse = |created: bool| {
        bench.run(|worker| {
            let unfinished = Unfinished::default();
            refuse(worker, bench.to("b"), (&fd, Some(inode)), (created, &unfinished), reason());
        })
    };
    let ran = refuse(false);
    ran.says(&[REASON]);
    assert_eq!((bench.tree(), ran.damaged), (vec!["b: half".into()], vec![]));
    let ran = refuse(true);
    ran.says(&[REASON]);
    assert_eq!((bench.tree(), ran.damaged), (vec![], vec![]));
}

#[test]
fn a_new_file_that_was_not_looked_at_is_removed() {
    let (bench, _) = half();
    let fd = bench.to("b").open_path().unwrap();
    for (created, left) in [(false, vec!["b: half".to_owned()]), (true, vec![])] {
        let ran = bench.run(|worker| {
            let unfinished = Unfinished::default();
            refuse(worker, bench.to("b"), (&fd, None), (created, &unfinished), reason());
        });
        ran.says(&[REASON]);
        assert_eq!((bench.tree(), ran.damaged), (left, vec![]));
    }
}

#[test]
fn a_whole_file_that_cannot_get_its_name_is_removed() {
    let (bench, _) = half();
    bench.run(|worker| assert!(!withdraw(&mut worker.report, bench.to("b"), reason()))).says(&[REASON]);
    assert!(bench.tree().is_empty());
    let again = bench.run(|worker| withdraw(&mut worker.report, bench.to("b"), reason()));
    again.says(&[REASON, &format!(r#"error: cannot remove the incomplete "b": {}"#, Errno::NOENT)]);
}

#[test]
fn a_mismatch_is_set_aside_under_a_free_name() {
    let bench = Bench::new(Plan::default()).dest("b", "old").dest("b.haul-mismatch", "of yesterday").dest("t", "new");
    let mismatch = Mismatch { offset: 7, source: 1, dest: 2 };
    let ran = bench.run(|worker| set_aside(&mut worker.report, bench.to("t"), OsStr::new("b"), mismatch));
    assert!(!ran.value);
    let where_it_differs = mismatch.describe();
    ran.says(&[&format!(
        r#"error: the copy "t" differs from its source {where_it_differs}; it is kept as "b.haul-mismatch-2""#
    )]);
    assert_eq!(bench.tree(), ["b.haul-mismatch-2: new", "b.haul-mismatch: of yesterday", "b: old"]);
}

#[test]
fn a_mismatch_without_a_possible_name_stays_where_it_is() {
    let bench = Bench::new(Plan::default()).dest("t", "new");
    let mismatch = Mismatch { offset: 7, source: 1, dest: 2 };
    let last = "x".repeat(250);
    let ran = bench.run(|worker| set_aside(&mut worker.report, bench.to("t"), OsStr::new(&last), mismatch));
    assert!(ran.heard[0].ends_with(r#"it is kept as "t""#), "{:?}", ran.heard);
    assert_eq!(bench.tree(), ["t: new"]);
}

#[test]
fn a_backup_is_put_back() {
    let bench = Bench::new(Plan::default()).dest("b~", "old");
    let state = DestState { backup: Some("b~".into()), ..DestState::default() };
    bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&["b~ is b again"]);
    assert_eq!(bench.tree(), ["b: old"]);
}

#[test]
fn a_backup_that_is_a_second_name_goes() {
    let bench = Bench::new(Plan::default()).dest("b", "old");
    fs::hard_link(bench.dest_path("b"), bench.dest_path("b~")).unwrap();
    let state = DestState { backup: Some("b~".into()), backup_is_link: true, ..DestState::default() };
    bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&["b~ is b again"]);
    assert_eq!(bench.tree(), ["b: old"]);
}

#[test]
fn a_backup_that_cannot_be_put_back_is_reported() {
    let bench = Bench::new(Plan::default());
    let state = DestState { backup: Some("b~".into()), ..DestState::default() };
    let ran = bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b")));
    ran.says(&[&format!(r#"error: cannot un-backup "b": {}"#, Errno::NOENT)]);
}

#[test]
fn a_backup_does_not_replace_what_somebody_else_made() {
    for backup_is_link in [false, true] {
        let bench = Bench::new(Plan::default()).dest("b~", "old").dest("b", "theirs");
        let state = DestState { backup: Some("b~".into()), backup_is_link, ..DestState::default() };
        // What this run made is gone.
        state.note_made(|| Some(bench.to("b~").inode().unwrap().id));
        let ran = bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b")));
        ran.says(&[&format!(r#"error: cannot un-backup "b": {}"#, Errno::EXIST)]);
        assert_eq!(bench.tree(), ["b: theirs", "b~: old"]);
    }
}

#[test]
fn a_backup_replaces_what_this_run_has_made() {
    for backup_is_link in [false, true] {
        let bench = Bench::new(Plan::default()).dest("b~", "old").dest("b", "new");
        let state = DestState { backup: Some("b~".into()), backup_is_link, ..DestState::default() };
        state.note_made(|| Some(bench.to("b").inode().unwrap().id));
        bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&["b~ is b again"]);
        assert_eq!(bench.tree(), ["b: old"]);
    }
}

#[test]
fn a_loss_is_warned_of_where_nothing_came_instead() {
    let state = DestState { removed: true, ..DestState::default() };
    let bench = Bench::new(Plan::default());
    let ran = bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b")));
    ran.says(&[r#"warning: the old "b" was removed and could not be replaced"#]);
    let bench = bench.dest("b", "half");
    bench.run(|worker| put_back(&mut worker.report, &state, bench.to("b"))).says(&[]);
}
