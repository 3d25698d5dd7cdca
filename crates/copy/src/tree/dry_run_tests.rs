use std::fs;
use std::os::unix::fs::symlink;

use haul_sys::inode::Time;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::links::LinkTable;
use crate::plan::{Backup, Plan, Preserve};
use crate::tree::operands::copy_operands;
use crate::tree::test_support::{alone, copy_into, plan, troubles, whole_tree};

/// Two directories, of which these entries of the first are to be copied into the second.
fn bench(change: impl FnOnce(&mut Plan)) -> Bench {
    let mut plan = Plan { dry_run: true, ..plan() };
    change(&mut plan);
    let mut bench = Bench::new(plan);
    bench.services.links = LinkTable::in_memory();
    bench
}

/// What is said of each entry: action, destination, reason.
fn said(ran: &Ran<()>) -> Vec<String> {
    let line = |line: &String| {
        let rest = line.strip_prefix("Planned(Planned { action: ")?;
        let (action, rest) = rest.split_once(", source: ")?;
        let dest = rest.split_once("dest: \"")?.1.split_once('"')?.0;
        let reason = rest.split_once("reason: ")?.1.split_once(", backup")?.0;
        let reason = reason.strip_prefix("Some(").and_then(|reason| reason.strip_suffix(')'));
        Some([action, dest].into_iter().chain(reason).collect::<Vec<_>>().join(" "))
    };
    ran.heard.iter().filter_map(line).collect()
}

/// Runs dry; nothing at the destination changes.
fn dry(bench: &mut Bench, operands: &[&str]) -> Ran<()> {
    copy_into(bench, operands);
    let before = whole_tree(&bench.dest_path(""));
    let ran = alone(bench, copy_operands);
    assert_eq!(whole_tree(&bench.dest_path("")), before);
    ran
}

#[test]
fn a_new_tree_is_made_in_the_order_of_a_copy() {
    let mut bench = bench(|_| {});
    fs::create_dir_all(bench.source_path("tree/inner/deep")).unwrap();
    fs::write(bench.source_path("tree/inner/deep/file"), "text").unwrap();
    let ran = dry(&mut bench, &["tree"]);
    assert_eq!(
        said(&ran),
        [
            "MakeDirectory dest/tree",
            "MakeDirectory dest/tree/inner",
            "MakeDirectory dest/tree/inner/deep",
            "Copy dest/tree/inner/deep/file"
        ]
    );
    assert_eq!(troubles(&ran), [""; 0]);
    assert_eq!((ran.stats.directories, ran.stats.regular), (3, 1));
}

#[test]
fn a_tree_deeper_than_what_is_held_open_is_left_again() {
    let mut bench = bench(|_| {});
    let deep = "d/".repeat(40);
    fs::create_dir_all(bench.source_path(&deep)).unwrap();
    fs::create_dir_all(bench.dest_path(&"d/".repeat(20))).unwrap();
    for depth in 1..=40 {
        fs::write(bench.source_path(&"d/".repeat(depth)).join("file"), "text").unwrap();
    }
    copy_into(&mut bench, &["d"]);
    let ran = alone(&bench, |walker| {
        walker.open_levels = 2;
        copy_operands(walker);
    });
    assert_eq!(troubles(&ran), [""; 0]);
    let count = |action: &str| said(&ran).iter().filter(|line| line.starts_with(action)).count();
    assert_eq!([count("EnterDirectory"), count("MakeDirectory"), count("Copy")], [20, 20, 40]);
}

#[test]
fn what_stands_there_is_replaced_or_stays_for_a_reason() {
    let mut bench = bench(|plan| plan.update = Update::Content).source("same", "text").source("longer", "texts");
    bench = bench.source("other", "text").source("fifo", "").dest("same", "text").dest("longer", "text");
    bench = bench.dest("other", "TEXT");
    bench.make_fifo("fifo");
    let ran = dry(&mut bench, &["same", "longer", "other", "fifo"]);
    assert_eq!(
        said(&ran),
        [
            "Skip dest/same SameContents",
            "Replace dest/longer SizeDiffers",
            "Replace dest/other ContentsDiffer",
            "Replace dest/fifo TypeDiffers"
        ]
    );
    assert_eq!(ran.stats.skipped, 1);
}

#[test]
fn nobody_is_asked() {
    let mut bench = bench(|plan| plan.overwrite = Overwrite::Ask).source("file", "new").dest("file", "old");
    assert_eq!(said(&dry(&mut bench, &["file"])), ["Ask dest/file Any"]);
}

#[test]
fn another_name_of_a_file_becomes_a_link() {
    let mut bench = bench(|plan| plan.preserve = Preserve { links: true, ..plan.preserve }).source("one", "text");
    fs::hard_link(bench.source_path("one"), bench.source_path("two")).unwrap();
    let ran = dry(&mut bench, &["one", "two"]);
    assert_eq!(said(&ran), ["Copy dest/one", "Link dest/two"]);
    let link = ran.heard.last().unwrap();
    assert!(link.contains(r#"other_name: Some("dest/one")"#), "{link}");
}

#[test]
fn a_backup_is_named() {
    let bench = bench(|plan| plan.backup = Backup::Numbered).source("file", "new").dest("file", "old");
    let ran = dry(&mut bench.dest("file.~7~", "older"), &["file"]);
    assert!(ran.heard[0].contains(r#"backup: Some("dest/file.~8~")"#), "{:?}", ran.heard);
}

#[test]
fn what_a_copy_would_refuse_is_an_error() {
    let mut bench = bench(|_| {}).source("file", "text").source("name", "text");
    fs::create_dir(bench.source_path("dir")).unwrap();
    fs::create_dir(bench.dest_path("file")).unwrap();
    fs::write(bench.dest_path("dir"), "text").unwrap();
    symlink("nowhere", bench.dest_path("name")).unwrap();
    let ran = dry(&mut bench, &["file", "dir", "missing", "name"]);
    assert_eq!(
        troubles(&ran),
        [
            r#"error: cannot overwrite directory "dest/file" with non-directory "source/file""#,
            r#"error: cannot overwrite non-directory "dest/dir" with directory "source/dir""#,
            &format!(r#"error: cannot stat "source/missing": {}"#, Errno::NOENT),
            r#"error: not writing through dangling symlink "dest/name""#,
        ]
    );
    assert!(ran.failed && said(&ran).is_empty());
}

#[test]
fn two_operands_of_one_name_are_one_too_many() {
    let mut bench = bench(|_| {}).source("file", "first");
    fs::create_dir(bench.source_path("dir")).unwrap();
    fs::write(bench.source_path("dir/file"), "second").unwrap();
    let ran = dry(&mut bench, &["file", "dir/file"]);
    assert_eq!(troubles(&ran), [r#"error: will not overwrite just-created "dest/file" with "source/dir/file""#]);
    assert_eq!(said(&ran), ["Copy dest/file"]);
}

#[test]
fn directories_of_the_source_path_are_planned_once() {
    let mut bench = bench(|plan| plan.parents = true);
    fs::create_dir_all(bench.source_path("one/two")).unwrap();
    fs::write(bench.source_path("one/two/a"), "a").unwrap();
    fs::write(bench.source_path("one/two/b"), "b").unwrap();
    let ran = dry(&mut bench, &["one/two/a", "one/two/b"]);
    let ends = |end: &str| said(&ran).iter().filter(|line| line.ends_with(end)).count();
    assert_eq!([ends("/one"), ends("/two"), ends("/a"), ends("/b")], [1; 4], "{:?}", said(&ran));
    assert_eq!(troubles(&ran), [""; 0]);
}

#[test]
fn a_time_that_is_not_kept_makes_the_first_of_two_operands_the_newer() {
    let planned = |keeps_time| planned::inode(Kind::Regular, keeps_time).modified;
    let now = Time { seconds: 1_700_000_000, nanoseconds: 0 };
    assert!(planned(false) > now && planned(true) < now);
}

#[test]
fn a_directory_that_parents_would_make_cannot_be_made_again() {
    for operand in ["one/.", "one/two/.."] {
        let mut bench = bench(|plan| plan.parents = true);
        fs::create_dir_all(bench.source_path("one/two")).unwrap();
        let ran = dry(&mut bench, &[operand]);
        let said = troubles(&ran);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("error: cannot create directory "), "{said:?}");
        assert!(said[0].ends_with(&format!("/{operand}\": File exists (os error 17)")), "{said:?}");
    }
}
