use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_sys::Errno;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::tree::test_support::{alone, copy_into, make_dir, plan, troubles, whole_tree};

fn copy(bench: &Bench) -> Ran<()> {
    alone(bench, copy_operands)
}

/// The plan copies these entries of the source to this name.
fn copy_as(bench: &mut Bench, operands: &[&str], dest: impl AsRef<Path>, destination: fn(OsString) -> Destination) {
    copy_into(bench, operands);
    bench.plan.destination = destination(dest.as_ref().as_os_str().to_owned());
}

#[track_caller]
fn fails(ran: &Ran<()>, error: &str) {
    assert_eq!(troubles(ran), [format!("error: {error}")]);
    assert!(ran.failed);
}

/// `dir` with a file, and a file.
fn bench() -> Bench {
    let bench = Bench::new(plan()).source("file", "contents");
    make_dir(bench.source_path("dir"), 0o750);
    fs::write(bench.source_path("dir/below"), "more").unwrap();
    bench
}

const DIR: [&str; 2] = ["dir/ 750", "dir/below: more"];

#[test]
fn every_operand_keeps_its_name_in_a_directory() {
    let mut bench = bench();
    copy_into(&mut bench, &["dir", "file"]);
    assert_eq!(troubles(&copy(&bench)), [""; 0]);
    assert_eq!(whole_tree(&bench.dest_path("")), [&DIR[..], &["file: contents"]].concat());
}

#[test]
fn one_operand_may_get_another_name() {
    let mut bench = bench();
    let dest = bench.dest_path("other");
    copy_as(&mut bench, &["file"], dest, Destination::Exactly);
    assert_eq!(troubles(&copy(&bench)), [""; 0]);
    assert_eq!(bench.tree(), ["other: contents"]);
}

#[test]
fn a_destination_is_the_copy_unless_it_is_a_directory() {
    let mut bench = bench();
    make_dir(bench.dest_path("there"), 0o700);
    for dest in ["there", "missing"] {
        let dest = bench.dest_path(dest);
        copy_as(&mut bench, &["file"], dest, Destination::Guess);
        assert_eq!(troubles(&copy(&bench)), [""; 0]);
    }
    assert_eq!(whole_tree(&bench.dest_path("")), ["missing: contents", "there/ 700", "there/file: contents"]);
}

#[test]
fn several_operands_need_a_directory() {
    let mut bench = bench();
    let dest = bench.dest_path("missing");
    copy_as(&mut bench, &["dir", "file"], dest, Destination::Guess);
    fails(&copy(&bench), &format!(r#"target "dest/missing": {}"#, Errno::NOENT));
    assert!(bench.tree().is_empty());
}

#[test]
fn a_named_directory_that_is_missing_is_an_error() {
    let mut bench = bench();
    let dest = bench.dest_path("missing");
    copy_as(&mut bench, &["file"], dest, Destination::Directory);
    fails(&copy(&bench), &format!(r#"target directory "dest/missing": {}"#, Errno::NOENT));
}

#[test]
fn whole_source_paths_need_a_directory() {
    let mut bench = bench();
    let dest = bench.dest_path("other");
    copy_as(&mut bench, &["file"], dest, Destination::Exactly);
    bench.plan.parents = true;
    fails(&copy(&bench), "with --parents, the destination must be a directory");
    assert!(bench.tree().is_empty());
}

#[test]
fn a_run_to_be_repeated_refuses_an_ambiguous_destination() {
    let mut bench = bench();
    let dest = bench.dest_path("other");
    copy_as(&mut bench, &["file"], dest, Destination::Guess);
    bench.plan.resume = true;
    fails(&copy(&bench), r#"cannot tell whether "dest/other" is the copy or the directory that it goes into"#);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let mut bench = bench();
    let dest = bench.source_path("dir/inside");
    copy_as(&mut bench, &["dir"], dest, Destination::Exactly);
    fails(&copy(&bench), r#"cannot copy a directory, "source/dir", into itself, "source/dir/inside""#);
    assert_eq!(whole_tree(&bench.source_path("dir")), ["below: more"]);
}

#[test]
fn only_what_would_be_in_itself_is_refused() {
    let mut bench = bench();
    let dest = bench.source_path("dir");
    copy_as(&mut bench, &["dir", "file"], dest, Destination::Directory);
    fails(&copy(&bench), r#"cannot copy a directory, "source/dir", into itself, "source/dir/dir""#);
    assert_eq!(whole_tree(&bench.source_path("dir")), ["below: more", "file: contents"]);
}

#[test]
fn a_directory_named_twice_is_copied_once() {
    let mut bench = bench();
    copy_into(&mut bench, &["dir", "dir"]);
    let ran = copy(&bench);
    assert_eq!(troubles(&ran), [r#"warning: warning: source directory "source/dir" specified more than once"#]);
    assert!(!ran.failed);
    assert_eq!((whole_tree(&bench.dest_path("")), ran.stats.regular), (DIR.map(String::from).to_vec(), 1));
}

#[test]
fn an_operand_does_not_replace_an_earlier_one() {
    let mut bench = bench();
    fs::write(bench.source_path("dir/file"), "another").unwrap();
    copy_into(&mut bench, &["file", "dir/file"]);
    fails(&copy(&bench), r#"will not overwrite just-created "dest/file" with "source/dir/file""#);
    assert_eq!(bench.tree(), ["file: contents"]);
}

#[test]
fn the_contents_of_a_dot_go_into_the_destination() {
    let mut bench = bench();
    copy_into(&mut bench, &["dir/."]);
    assert_eq!(troubles(&copy(&bench)), [""; 0]);
    assert_eq!(bench.tree(), ["below: more"]);
}

#[test]
fn slashes_behind_an_operand_are_stripped_if_asked() {
    let mut bench = bench();
    symlink("dir", bench.source_path("link")).unwrap();
    copy_into(&mut bench, &["link/"]);
    bench.plan.strip_trailing_slashes = true;
    assert_eq!(troubles(&copy(&bench)), [""; 0]);
    assert_eq!(bench.tree(), ["link -> dir"]);
}

#[test]
fn a_forced_copy_onto_itself_with_backup_makes_a_backup() {
    let mut bench = bench();
    let path = bench.source_path("file");
    copy_as(&mut bench, &["file"], &path, Destination::Guess);
    (bench.plan.force, bench.plan.backup) = (true, Backup::Simple);
    assert_eq!(troubles(&copy(&bench)), [""; 0]);
    assert_eq!(fs::read(bench.source_path("file~")).unwrap(), b"contents");
    assert_eq!(fs::read(path).unwrap(), b"contents");
}

#[test]
fn nothing_is_copied_after_a_cancellation() {
    let mut bench = bench();
    copy_into(&mut bench, &["dir", "file"]);
    bench.cancel.cancel();
    copy(&bench).says(&[]);
    assert!(bench.tree().is_empty());
}

#[test]
fn an_operand_without_listed_entries_is_passed_over() {
    let mut bench = bench();
    copy_into(&mut bench, &["file"]);
    let list = Arc::default();
    let none = || Vec::new();
    let selection = crate::sources::selection::Selection {
        list,
        shards: None,
        roots: vec![None],
        first: none(),
        next: none(),
        filtered: Default::default(),
        missing: 0,
    };
    bench.services.selection = Some(selection);
    copy(&bench).says(&[]);
    assert!(bench.tree().is_empty());
}
