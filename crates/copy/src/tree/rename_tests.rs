use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::plan::{Destination, Overwrite};
use crate::tree::operands::copy_operands;
use crate::tree::test_support::{alone, at, copy_into, found, level_in, make_dir, moving, troubles, whole_tree};

fn inode_number(path: impl AsRef<Path>) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// `dir` with a file, and a file, all of which go into the destination.
fn bench(operands: &[&str]) -> Bench {
    let mut bench = Bench::new(moving()).source("file", "contents");
    make_dir(bench.source_path("dir"), 0o750);
    fs::write(bench.source_path("dir/below"), "more").unwrap();
    copy_into(&mut bench, operands);
    bench
}

fn run(bench: &Bench) -> Ran<()> {
    alone(bench, copy_operands)
}

/// The source is as it was, and this is said.
#[track_caller]
fn stays(bench: &Bench, error: &str) {
    let before = whole_tree(&bench.source_path(""));
    let ran = run(bench);
    assert_eq!(troubles(&ran), [format!("error: {error}")]);
    assert_eq!((whole_tree(&bench.source_path("")), ran.stats.renamed), (before, 0));
}

#[test]
fn a_file_and_a_directory_are_the_same_under_their_new_names() {
    let bench = bench(&["dir", "file"]);
    let numbers = ["dir", "dir/below", "file"].map(|name| inode_number(bench.source_path(name)));
    let ran = run(&bench);
    ran.says(&["renamed source/dir to dest/dir", "renamed source/file to dest/file"]);
    assert_eq!(["dir", "dir/below", "file"].map(|name| inode_number(bench.dest_path(name))), numbers);
    assert_eq!((ran.stats.renamed, ran.stats.regular, ran.stats.directories), (2, 0, 0));
    assert!(whole_tree(&bench.source_path("")).is_empty());
}

#[test]
fn what_is_in_a_directory_goes_one_by_one_into_the_one_that_stands_there() {
    let bench = bench(&["dir"]);
    make_dir(bench.dest_path("dir"), 0o700);
    fs::write(bench.dest_path("dir/old"), "stays").unwrap();
    make_dir(bench.source_path("dir/inner"), 0o700);
    let ran = run(&bench);
    assert_eq!((troubles(&ran), ran.stats.renamed, ran.moves), (vec![], 2, 0));
    let tree = ["dir/ 750", "dir/below: more", "dir/inner/ 700", "dir/old: stays"];
    assert_eq!(whole_tree(&bench.dest_path("")), tree);
    assert_eq!(whole_tree(&bench.source_path("dir")), [""; 0]);
}

#[test]
fn a_file_takes_the_place_of_another_and_of_a_link() {
    let mut bench = bench(&["file"]).dest("target", "safe").dest("file", "old");
    let number = inode_number(bench.source_path("file"));
    run(&bench).says(&["renamed source/file to dest/file"]);
    assert_eq!(inode_number(bench.dest_path("file")), number);
    fs::write(bench.source_path("file"), "again").unwrap();
    fs::remove_file(bench.dest_path("file")).unwrap();
    symlink("target", bench.dest_path("file")).unwrap();
    copy_into(&mut bench, &["file"]);
    run(&bench).says(&["renamed source/file to dest/file"]);
    assert_eq!(bench.tree(), ["file: again", "target: safe"]);
}

#[test]
fn what_is_left_alone_at_the_destination_stays_at_the_source_too() {
    let mut bench = bench(&["file"]).dest("file", "old");
    bench.plan.overwrite = Overwrite::Skip;
    let ran = run(&bench);
    assert_eq!((troubles(&ran), ran.stats.renamed, ran.stats.skipped), (vec![], 0, 1));
    assert_eq!(
        (bench.tree(), fs::read(bench.source_path("file")).unwrap()),
        (vec!["file: old".into()], b"contents".into())
    );
}

#[test]
fn nothing_without_a_name_of_its_own_is_moved() {
    for (operand, errno) in [("dir/.", Errno::BUSY), ("dir/..", Errno::BUSY), ("link/", Errno::NOTDIR)] {
        let bench = bench(&[operand]);
        symlink("dir", bench.source_path("link")).unwrap();
        let before = whole_tree(&bench.source_path(""));
        let ran = run(&bench);
        let [error] = troubles(&ran)[..] else { panic!("{ran:?}") };
        assert!(error.starts_with("error: cannot move ") && error.ends_with(&format!(": {errno}")), "{error}");
        assert_eq!((whole_tree(&bench.source_path("")), bench.tree()), (before, vec![]));
    }
}

#[test]
fn a_directory_with_a_slash_behind_its_name_is_renamed() {
    let bench = bench(&["dir/"]);
    let ran = run(&bench);
    assert_eq!((troubles(&ran), ran.stats.renamed), (vec![], 1));
    assert_eq!(whole_tree(&bench.dest_path("")), ["dir/ 750", "dir/below: more"]);
}

#[test]
fn a_second_directory_of_one_name_does_not_replace_what_the_first_had() {
    let bench = bench(&["dir", "other/dir"]);
    fs::create_dir_all(bench.source_path("other/dir")).unwrap();
    fs::write(bench.source_path("other/dir/below"), "another").unwrap();
    let error = r#"error: will not overwrite just-created "dest/dir" with "source/other/dir""#;
    assert_eq!(troubles(&run(&bench)), [error]);
    assert_eq!(fs::read(bench.dest_path("dir/below")).unwrap(), b"more");
    assert_eq!(fs::read(bench.source_path("other/dir/below")).unwrap(), b"another");
}

#[test]
fn the_same_holds_where_the_first_went_into_a_directory_that_was_there() {
    let bench = bench(&["dir", "other/dir"]);
    make_dir(bench.dest_path("dir"), 0o700);
    fs::create_dir_all(bench.source_path("other/dir")).unwrap();
    fs::write(bench.source_path("other/dir/below"), "another").unwrap();
    let ran = run(&bench);
    assert!(matches!(troubles(&ran)[..], [error] if error.contains("just-created")), "{ran:?}");
    assert_eq!(fs::read(bench.dest_path("dir/below")).unwrap(), b"more");
}

#[test]
fn a_source_that_is_its_destination_by_another_name_stays() {
    let bench = bench(&["file"]);
    fs::hard_link(bench.source_path("file"), bench.dest_path("file")).unwrap();
    stays(&bench, r#""source/file" and "dest/file" are the same file"#);
}

#[test]
fn a_directory_does_not_go_into_the_one_that_it_is_in() {
    let mut bench = bench(&[]);
    fs::create_dir(bench.source_path("dir/dir")).unwrap();
    fs::write(bench.source_path("dir/dir/below"), "inner").unwrap();
    bench.plan.sources = vec![bench.source_path("dir/dir").into()];
    bench.plan.destination = Destination::Exactly(bench.source_path("dir").into());
    stays(&bench, &format!(r#"cannot move "source/dir/dir" to "source/dir": {}"#, Errno::NOTEMPTY));
}

#[test]
fn a_directory_does_not_go_into_itself() {
    let mut bench = bench(&["dir"]);
    bench.plan.destination = Destination::Exactly(bench.source_path("dir/new").into());
    stays(&bench, r#"cannot copy a directory, "source/dir", into itself, "source/dir/new""#);
}

#[test]
fn what_is_to_have_other_attributes_is_copied() {
    let mut bench = bench(&["dir", "file"]);
    bench.plan.preserve.timestamps = false;
    let ran = run(&bench);
    assert_eq!((troubles(&ran), ran.stats.renamed, ran.stats.regular), (vec![], 0, 2));
}

#[test]
fn a_plan_that_could_not_tell_copies_from_sources_moves_nothing() {
    let mut bench = bench(&["file"]);
    bench.plan.attributes_only = true;
    stays(&bench, "moving does not go with --attributes-only, which copies no data; nothing was moved");
}

#[test]
fn a_name_that_may_be_another_one_in_other_letters_is_not_taken_by_a_rename() {
    let bench = Bench::new(moving()).dest("Name", "").dest("other", "").dest("12.3", "").dest("\u{e4}", "");
    // Two names of one file stand for a directory in which the case of letters does not matter.
    fs::hard_link(bench.dest_path("Name"), bench.dest_path("nAME")).unwrap();
    for (name, may_be) in [("Name", true), ("other", false), ("12.3", false), ("\u{e4}", true)] {
        assert_eq!(looks_like_another_name(bench.to(name)), Ok(may_be), "{name}");
    }
}

#[test]
fn where_names_are_exact_any_of_them_is_taken_by_a_rename() {
    let bench = Bench::new(moving()).dest("\u{e4}", "").source("a", "");
    let parent = [found(&bench)];
    let level = level_in(&parent);
    assert_eq!(may_be_another_name(&at(&level, bench.subject("a", "\u{e4}"))), Ok(false));
}

#[test]
fn nothing_is_renamed_to_where_another_name_may_be_the_same() {
    let bench = Bench::new(moving()).source("a", "");
    let parent = [found(&bench)];
    let level = level_in(&parent);
    let proc = fs::File::open("/proc").unwrap();
    let dest = Spot::new(std::os::fd::AsFd::as_fd(&proc), OsStr::new("a"), Path::new("/proc/a"));
    alone(&bench, |walker| {
        let subject = at(&level, bench.subject("a", "a"));
        assert_eq!(may_be_renamed(walker, &subject, true), Ok(true));
        assert_eq!(may_be_renamed(walker, &Subject { dest, ..subject }, true), Ok(false));
    });
}

#[test]
fn what_was_renamed_is_neither_replaced_nor_entered() {
    for (name, other) in [("file", "into/file"), ("dir", "into/dir")] {
        let mut bench = bench(&[]);
        fs::create_dir_all(bench.source_path("into/dir")).unwrap();
        for path in ["into/dir/below", "into/file"] {
            fs::write(bench.source_path(path), "second").unwrap();
        }
        fs::create_dir_all(bench.dest_path("into")).unwrap();
        fs::rename(bench.source_path(name), bench.dest_path(other)).unwrap();
        let first = bench.to(other).inode().unwrap();
        bench.services.renamed.note((&first).into(), &bench.root()).unwrap();
        copy_into(&mut bench, &["into"]);
        let ran = run(&bench);
        let error = format!(r#"error: will not overwrite just-created "dest/{other}" with "source/{other}""#);
        assert_eq!(troubles(&ran), [error]);
        assert_eq!(bench.to(other).inode().unwrap().id, first.id);
        let contents = if name == "dir" { "into/dir/below" } else { "into/file" };
        assert_eq!(fs::read(bench.source_path(contents)).unwrap(), b"second");
    }
}

#[test]
fn backups_are_not_made_of_what_is_moved() {
    let mut bench = bench(&["file"]).dest("file", "old");
    bench.plan.backup = crate::plan::Backup::Simple;
    let ran = run(&bench);
    assert!(matches!(troubles(&ran)[..], [error] if error.contains("moving does not go with --backup")), "{ran:?}");
    assert_eq!(bench.tree(), ["file: old"]);
}
