use std::fs;
use std::num::NonZero;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use haul_sys::inode::Time;
use haul_sys::rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::list::{Entry, FileList, Shard, split};
use crate::plan::{Plan, Preserve, SpecialFiles};
use crate::sources::selection::Selection;
use crate::tree::operands::copy_operands;
use crate::tree::test_support::{
    alone, break_links, copy_into, entered, found, level_in, make_dir, mode_of, moving, plan, top, top_level, troubles,
    whole_tree,
};

/// How a visit ended: whether a directory is entered, and whether the operand is copied into itself.
type End = (bool, bool);

const DONE: End = (false, false);
const ENTERED: End = (true, false);

/// Visits an entry of the source that was named by the user.
fn visit_operand(walker: &mut Walker<'_>, bench: &Bench, source: &str, dest: &str) -> End {
    let root = bench.root();
    end_of(walker, bench, (source, dest), &top_level(&root))
}

fn end_of(walker: &mut Walker<'_>, bench: &Bench, (source, dest): (&str, &str), level: &Level<'_>) -> End {
    let mut top = top();
    let entered = visit(walker, bench.from(source), bench.to(dest), level, &mut top);
    (entered.is_some(), top.into_itself)
}

fn visited(bench: &Bench, source: &str, dest: &str) -> Ran<End> {
    alone(bench, |walker| visit_operand(walker, bench, source, dest))
}

/// Hard links stay hard links.
fn linked() -> Plan {
    let plan = plan();
    Plan { preserve: Preserve { links: true, ..plan.preserve }, ..plan }
}

#[test]
fn a_file_is_copied_and_the_visit_is_over() {
    let bench = Bench::new(plan()).source("a", "new");
    let ran = visited(&bench, "a", "b");
    assert_eq!((ran.value, troubles(&ran)), (DONE, vec![]));
    assert_eq!(bench.tree(), ["b: new"]);
    let begun = r#"Copying { source: "a", dest: "b", backup: None, kind: Regular, size: 3, reason: None }"#;
    assert_eq!(ran.heard, [begun]);
}

#[test]
fn a_directory_is_made_and_entered() {
    let bench = Bench::new(plan());
    make_dir(bench.source_path("a"), 0o750);
    fs::write(bench.source_path("a/below"), "left to the caller").unwrap();
    let ran = visited(&bench, "a", "b");
    assert_eq!((ran.value, troubles(&ran)), (ENTERED, vec![]));
    assert_eq!(whole_tree(&bench.dest_path("")).len(), 1);
}

#[test]
fn a_source_that_is_missing_is_an_error() {
    let bench = Bench::new(plan());
    let ran = visited(&bench, "a", "b");
    assert_eq!(ran.value, DONE);
    ran.says(&[&format!(r#"error: cannot stat "a": {}"#, Errno::NOENT)]);
}

#[test]
fn a_directory_is_omitted_unless_the_copy_is_recursive() {
    let bench = Bench::new(Plan { recursive: false, ..plan() });
    make_dir(bench.source_path("a"), 0o755);
    let ran = visited(&bench, "a", "b");
    assert_eq!((ran.value, troubles(&ran).len()), (DONE, 1));
    assert!(ran.failed && bench.tree().is_empty());
}

#[test]
fn special_files_are_errors_where_the_plan_says_so() {
    let bench = Bench::new(Plan { special_files: SpecialFiles::Refused, ..plan() }).dest("b", "old");
    mknodat(CWD, bench.source_path("a"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let ran = visited(&bench, "a", "b");
    assert_eq!(ran.value, DONE);
    ran.says(&[r#"error: not copying the special file "a""#]);
    assert_eq!(bench.tree(), ["b: old"]);
}

#[test]
fn a_file_that_was_named_twice_is_copied_once() {
    let mut bench = Bench::new(plan()).source("a", "new");
    bench.plan.sources = vec!["a".into(), "a".into()];
    let ran = alone(&bench, |walker| ["b", "c"].map(|dest| visit_operand(walker, &bench, "a", dest)));
    assert_eq!(bench.tree(), ["b: new"]);
    assert_eq!(troubles(&ran), [r#"warning: warning: source file "a" specified more than once"#]);
    assert!(!ran.failed);
}

#[test]
fn nothing_is_written_through_a_link_just_made() {
    let mut bench = Bench::new(plan()).source("a", "new");
    symlink("outside", bench.source_path("link")).unwrap();
    bench.plan.sources = vec!["link".into(), "a".into()];
    let ran = alone(&bench, |walker| ["link", "a"].map(|source| visit_operand(walker, &bench, source, "b")));
    assert_eq!(bench.tree(), ["b -> outside"]);
    assert_eq!(troubles(&ran), [r#"error: will not copy "a" through just-created symlink "b""#]);
}

#[test]
fn a_second_name_becomes_a_link_to_the_first_copy() {
    let bench = Bench::new(linked()).source("a", "new");
    fs::hard_link(bench.source_path("a"), bench.source_path("b")).unwrap();
    let ran = alone(&bench, |walker| ["a", "b"].map(|name| visit_operand(walker, &bench, name, name)));
    assert_eq!((ran.value, troubles(&ran)), ([DONE; 2], vec![]));
    assert_eq!(bench.tree(), ["a: new", "b: new"]);
    assert_eq!(bench.to("a").inode().unwrap().id, bench.to("b").inode().unwrap().id);
    assert_eq!((ran.stats.hard_links, ran.moves), (1, 1));
}

#[test]
fn a_name_is_copied_where_an_earlier_one_failed() {
    let bench = Bench::new(linked()).source("a", "new");
    fs::hard_link(bench.source_path("a"), bench.source_path("b")).unwrap();
    let root = bench.root();
    make_dir(bench.dest_path("a"), 0o755);
    let ran = alone(&bench, |walker| {
        // Said to be free, so that it fails late.
        visit(walker, bench.from("a"), bench.to("a"), &Level { missing: true, ..top_level(&root) }, &mut top());
        visit_operand(walker, &bench, "b", "b")
    });
    assert_eq!(ran.value, DONE);
    assert_eq!(troubles(&ran).len(), 1, "{:?}", ran.heard);
    assert_eq!(bench.tree(), ["a/", "b: new"]);
}

#[test]
fn a_table_that_fails_puts_the_backup_back() {
    let plan = linked();
    let mut bench = Bench::new(Plan { backup: Backup::Simple, ..plan }).source("a", "new").dest("b", "old");
    fs::hard_link(bench.source_path("a"), bench.source_path("other")).unwrap();
    break_links(&mut bench);
    let ran = visited(&bench, "a", "b");
    assert_eq!(ran.value, DONE);
    assert_eq!(bench.tree(), ["b: old"]);
    assert!(troubles(&ran)[0].starts_with(r#"error: cannot keep track of the hard links of "a""#), "{:?}", ran.heard);
}

#[test]
fn a_directory_that_cannot_be_made_leaves_what_stood_there() {
    let bench = Bench::new(plan()).dest("b", "came meanwhile");
    make_dir(bench.source_path("a"), 0o755);
    let root = bench.root();
    let ran = alone(&bench, |walker| {
        visit(walker, bench.from("a"), bench.to("b"), &Level { missing: true, ..top_level(&root) }, &mut top())
            .is_some()
    });
    assert!(!ran.value);
    ran.says(&[&format!(r#"error: cannot create directory "b": {}"#, Errno::EXIST)]);
    assert_eq!(bench.tree(), ["b: came meanwhile"]);
}

#[test]
fn a_directory_made_in_its_source_is_not_entered() {
    let bench = Bench::new(plan());
    make_dir(bench.source_path("a"), 0o755);
    let inode = bench.from("a").inode().unwrap();
    let above = crate::walk::directory_id(bench.from("a")).unwrap();
    let ancestors = [entered(&bench)];
    // The directory of the source is that of the destination here, and `a` was made in it.
    let dir = bench.root().known_below("same".as_ref(), above);
    let made = || Made { dir, name: "a".into(), id: None };
    assert!(bench.services.links.remember((&inode).into(), made).unwrap().is_none());
    let ran = alone(&bench, |walker| end_of(walker, &bench, ("a", "b"), &level_in(&ancestors)));
    assert_eq!(ran.value, (false, true));
    assert_eq!(troubles(&ran), [r#"error: cannot copy a directory, "source", into itself, "dest""#]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_link_to_what_is_being_filled_is_not_followed() {
    let bench = Bench::new(Plan { dereference: Dereference::Always, ..plan() });
    symlink(bench.dest_path(""), bench.source_path("a")).unwrap();
    let ancestors = [entered(&bench)];
    let ran = alone(&bench, |walker| end_of(walker, &bench, ("a", "b"), &level_in(&ancestors)));
    assert_eq!(ran.value, (false, true));
    assert!(ran.failed && bench.tree().is_empty());
}

#[test]
fn a_directory_made_ahead_gives_way_to_a_file() {
    let bench = Bench::new(plan()).source("a", "a file by now");
    make_dir(bench.dest_path("a"), 0o700);
    let ancestors = [entered(&bench)];
    let level = Level { made: Some(0o700), missing: true, ..level_in(&ancestors) };
    let ran = alone(&bench, |walker| {
        visit(walker, bench.from("a"), bench.to("a"), &level, &mut top());
    });
    assert_eq!(troubles(&ran), [""; 0]);
    assert_eq!(bench.tree(), ["a: a file by now"]);
}

#[test]
fn only_links_of_operands_are_followed_if_asked() {
    let bench = Bench::new(Plan { dereference: Dereference::Operands, ..plan() }).source("far", "contents");
    symlink("far", bench.source_path("link")).unwrap();
    let ancestors = [entered(&bench)];
    let ran = alone(&bench, |walker| {
        visit_operand(walker, &bench, "link", "followed");
        end_of(walker, &bench, ("link", "kept"), &level_in(&ancestors))
    });
    assert_eq!(troubles(&ran), [""; 0]);
    assert_eq!(bench.tree(), ["followed: contents", "kept -> far"]);
}

/// A list with one entry, which is `a`; only a shard's part of it if there are shards.
fn listed(bench: &mut Bench, kind: Kind, size: u64, sharded: bool) {
    let inode = bench.from("a").inode();
    let never = Time { seconds: 0, nanoseconds: 0 };
    let (modified, changed) = inode.map_or((never, never), |inode| (inode.modified, inode.changed));
    let mut list = FileList::default();
    list.add_operand("a".as_ref(), None);
    list.add_root(&Entry { kind, size, modified, changed, id: None }).unwrap();
    let list = Arc::new(list);
    let shards = sharded.then(|| (Shard::new(1, 2).unwrap(), split(&list, NonZero::new(2).unwrap())));
    bench.services.selection = Some(Selection {
        list,
        shards,
        roots: vec![Some(0)],
        first: vec![0],
        next: vec![0],
        filtered: Default::default(),
        missing: 0,
    });
}

fn visit_listed(bench: &Bench) -> Ran<End> {
    let root = bench.root();
    alone(bench, |walker| end_of(walker, bench, ("a", "b"), &Level { listed: Some(0), ..top_level(&root) }))
}

#[test]
fn what_was_listed_and_is_missing_is_an_error() {
    let mut bench = Bench::new(plan());
    listed(&mut bench, Kind::Regular, 3, false);
    visit_listed(&bench).says(&[r#"error: "a" was listed, and is not there any more"#]);
}

#[test]
fn another_kind_of_file_than_listed_is_not_copied() {
    let mut bench = Bench::new(plan()).source("a", "new");
    listed(&mut bench, Kind::Fifo, 0, false);
    visit_listed(&bench).says(&[r#"error: not copying "a": when it was listed it was a FIFO"#]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_file_changed_since_its_listing_brings_a_warning() {
    let mut bench = Bench::new(plan()).source("a", "new");
    listed(&mut bench, Kind::Regular, 2, false);
    let ran = visit_listed(&bench);
    assert_eq!(troubles(&ran), [r#"warning: "a" has changed since it was listed; it is copied as it is now"#]);
    assert_eq!(bench.tree(), ["b: new"]);
}

#[test]
fn a_shard_copies_nothing_that_changed_since_it_was_listed() {
    let mut bench = Bench::new(plan()).source("a", "new");
    listed(&mut bench, Kind::Regular, 2, true);
    let ran = visit_listed(&bench);
    assert!(troubles(&ran)[0].starts_with(r#"error: not copying "a": it has changed since the shards were made"#));
    assert!(bench.tree().is_empty());
}

#[test]
fn a_file_that_is_as_listed_is_copied() {
    let mut bench = Bench::new(plan()).source("a", "new");
    listed(&mut bench, Kind::Regular, 3, true);
    assert_eq!(troubles(&visit_listed(&bench)), [""; 0]);
    assert_eq!((bench.tree(), mode_of(bench.dest_path("b"))), (vec!["b: new".into()], mode_of(bench.source_path("a"))));
}

#[test]
fn of_a_move_stays_what_may_have_been_copied_under_another_name() {
    let mut bench = Bench::new(moving()).source("a", "text");
    // So that it is copied, and not renamed.
    bench.plan.preserve.timestamps = false;
    fs::hard_link(bench.source_path("a"), bench.source_path("b")).unwrap();
    let inode = bench.from("a").inode().unwrap();
    copy_into(&mut bench, &["a"]);
    break_links(&mut bench);
    let ran = alone(&bench, |walker| {
        copy_operands(walker);
        walker.worker.cx.services.stays.has((&inode).into())
    });
    assert!(ran.failed && bench.tree().is_empty(), "{ran:?}");
    assert_eq!(ran.value, Ok(true));
}

#[test]
fn of_a_move_stays_the_directory_of_what_cannot_be_looked_at() {
    let bench = Bench::new(moving());
    let parent = [found(&bench)];
    let inode = parent[0].place.source_inode;
    bench.run(|worker| let_unknown_stay(worker, &level_in(&parent)));
    assert_eq!(bench.services.stays.has((&inode).into()), Ok(true));
    bench.run(|worker| let_unknown_stay(worker, &top_level(&bench.root())));
    assert!(bench.services.stays.has((&inode).into()).is_err(), "nothing is known of any");
}
