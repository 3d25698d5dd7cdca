use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use haul_sys::Errno;

use super::*;
use crate::context::test_support::{Bench, Meanwhile, Ran, tree};
use crate::plan::{Checksum, Durable, IfChanged, ModeRule, Plan, Preserve, Verify};
use crate::walk::Spot;

/// Copies `a` to `b`.
fn make_b(bench: &Bench) -> Ran<Result<Option<FileId>, Reported>> {
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    bench.run(|worker| make_file(worker, &mut subject, &state))
}

/// Copies a source to `b` whose data cannot be read.
fn make_b_of_unreadable(bench: &Bench) -> Ran<Result<Option<FileId>, Reported>> {
    let dir = File::open("/proc/self").unwrap();
    let source = unreadable(dir.as_fd());
    let (mut subject, state) = (bench.subject_of(source, "b"), bench.state("b"));
    bench.run(|worker| make_file(worker, &mut subject, &state))
}

/// The memory of this process: nothing is mapped where it begins.
fn unreadable(proc: BorrowedFd<'_>) -> Spot<'_> {
    Spot::new(proc, "mem".as_ref(), Path::new("a"))
}

const UNREADABLE: &str = r#"error: error reading "a": "#;

fn atomic() -> Plan {
    Plan { atomic: true, ..Plan::default() }
}

#[test]
fn a_new_file_gets_the_contents_of_its_source() {
    let bench = Bench::new(Plan::default()).source("a", "new");
    let ran = make_b(&bench);
    ran.says(&[]);
    assert_eq!(bench.tree(), ["b: new"]);
    assert_eq!((ran.value, ran.stats.regular), (Ok(Some(bench.to("b").inode().unwrap().id)), 1));
}

#[test]
fn a_file_that_exists_is_written_into() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old and longer");
    fs::set_permissions(bench.dest_path("b"), Permissions::from_mode(0o611)).unwrap();
    let before = bench.to("b").inode().unwrap();
    make_b(&bench).says(&[]);
    let after = bench.to("b").inode().unwrap();
    assert_eq!(bench.tree(), ["b: new"]);
    assert_eq!((after.id, after.permissions), (before.id, 0o611));
}

#[test]
fn a_file_behind_a_link_is_written_into() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("c", "old").link("b", "c");
    make_b(&bench).says(&[]);
    assert_eq!(bench.tree(), ["b -> c", "c: new"]);
}

/// What the destination has in it when the data is about to be moved.
fn expect_meanwhile(expected: &'static [&'static str]) -> Option<Meanwhile> {
    Some(Box::new(move |path| assert_eq!(tree(&path.join("dest")), expected)))
}

#[test]
fn the_old_file_keeps_its_name_until_the_new_is_whole() {
    let mut bench = Bench::new(atomic()).source("a", "new").dest("b", "old");
    bench.before_data = expect_meanwhile(&["(temporary): ", "b: old"]);
    let ran = make_b(&bench);
    ran.says(&[]);
    assert_eq!((bench.tree(), ran.moves), (vec!["b: new".into()], 1));
    assert_eq!(ran.value, Ok(Some(bench.to("b").inode().unwrap().id)));
}

#[test]
fn a_file_that_replaces_another_has_its_mode() {
    let bench = Bench::new(atomic()).source("a", "new").dest("b", "old");
    fs::set_permissions(bench.source_path("a"), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(bench.dest_path("b"), Permissions::from_mode(0o751)).unwrap();
    let before = bench.to("b").inode().unwrap();
    make_b(&bench).says(&[]);
    let after = bench.to("b").inode().unwrap();
    assert_ne!(after.id, before.id);
    assert_eq!(after.permissions, 0o751);
}

#[test]
fn a_file_that_must_be_durable_waits_for_its_name() {
    let bench = Bench::new(Plan { durable: Durable::File, ..Plan::default() }).source("a", "new");
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    let ran = bench.run(|worker| {
        make_file(worker, &mut subject, &state).unwrap();
        let before = bench.tree();
        naming::give_names(worker);
        before
    });
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree()), (vec!["(temporary): new".into()], vec!["b: new".into()]));
    assert_eq!(bench.kernel.synced(), ["a file, with [(temporary): new]"], "once, and before it has its name");
}

#[test]
fn nothing_is_left_of_a_new_file_that_failed() {
    for plan in [Plan::default(), atomic()] {
        let bench = Bench::new(plan);
        let ran = make_b_of_unreadable(&bench);
        ran.says(&[&format!("{UNREADABLE}{}", Errno::IO)]);
        assert_eq!((ran.value, ran.stats.regular), (Err(Reported), 0));
        assert_eq!((bench.tree(), ran.damaged), (vec![], vec![]));
    }
}

#[test]
fn an_overwritten_file_that_failed_is_named_as_damaged() {
    let bench = Bench::new(Plan::default()).dest("b", "old");
    let ran = make_b_of_unreadable(&bench);
    ran.says(&[&format!("{UNREADABLE}{}", Errno::IO)]);
    assert_eq!((bench.tree(), ran.damaged), (vec!["b: ".into()], vec![PathBuf::from("b")]));
}

#[test]
fn an_old_file_stays_where_the_new_one_failed() {
    let bench = Bench::new(atomic()).dest("b", "old");
    let ran = make_b_of_unreadable(&bench);
    ran.says(&[&format!("{UNREADABLE}{}", Errno::IO)]);
    assert_eq!((bench.tree(), ran.damaged), (vec!["b: old".into()], vec![]));
}

#[test]
fn nothing_is_left_of_a_cancelled_copy() {
    for plan in [Plan::default(), atomic()] {
        let mut bench = Bench::new(plan).source("a", "x".repeat(1 << 20));
        let cancel = bench.cancel.clone();
        bench.before_data = Some(Box::new(move |_| cancel.cancel()));
        let ran = make_b(&bench);
        assert!(ran.failed && ran.heard.is_empty(), "{:?}", ran.heard);
        assert_eq!((ran.value, bench.tree()), (Err(Reported), vec![]));
    }
}

#[test]
fn whole_files_stay_when_the_process_ends() {
    for plan in [Plan::default(), atomic()] {
        let bench = Bench::new(plan).source("a", "new");
        make_b(&bench).says(&[]);
        assert_eq!(bench.partials.removed(), []);
        assert_eq!(bench.tree(), ["b: new"]);
    }
}

#[test]
fn half_files_go_when_the_process_ends() {
    for plan in [Plan::default(), atomic()] {
        let mut bench = Bench::new(plan).source("a", "new");
        let partials = bench.partials.clone();
        bench.before_data = Some(Box::new(move |path| {
            assert_eq!(partials.removed(), []);
            assert_eq!(tree(&path.join("dest")), [""; 0]);
        }));
        assert_eq!(make_b(&bench).moves, 1);
    }
}

/// The source grows by a byte before each of the first attempts to copy it.
fn growing(if_changed: IfChanged, attempts: u32) -> Bench {
    let mut bench = Bench::new(Plan { if_changed, ..Plan::default() }).source("a", "new");
    let so_far = AtomicU32::new(0);
    bench.before_data = Some(Box::new(move |path| {
        if so_far.fetch_add(1, Ordering::Relaxed) < attempts {
            File::options().append(true).open(path.join("source/a")).unwrap().write_all(b"!").unwrap();
        }
    }));
    bench
}

const CHANGED: &str = r#""a" changed while it was being copied"#;

#[test]
fn nobody_looks_at_a_changing_source_unless_asked() {
    let bench = growing(IfChanged::Ignore, 1);
    make_b(&bench).says(&[]);
    assert_eq!(bench.tree(), ["b: new!"]);
}

#[test]
fn a_changing_source_is_warned_of() {
    let bench = growing(IfChanged::Warn, 1);
    let ran = make_b(&bench);
    ran.says(&[&format!("warning: {CHANGED}")]);
    assert_eq!((bench.tree(), ran.moves), (vec!["b: new!".into()], 1));
}

#[test]
fn a_changing_source_fails_its_copy() {
    let bench = growing(IfChanged::Fail, 1);
    make_b(&bench).says(&[&format!("error: {CHANGED}")]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_changed_source_is_copied_again() {
    let bench = growing(IfChanged::Retry, 3);
    let ran = make_b(&bench);
    ran.says(&[]);
    assert_eq!((bench.tree(), ran.moves), (vec!["b: new!!!".into()], 4));
}

#[test]
fn a_source_that_changes_each_time_fails_its_copy() {
    let bench = growing(IfChanged::Retry, 4);
    let ran = make_b(&bench);
    ran.says(&[&format!("error: {CHANGED}, 4 times in a row")]);
    assert_eq!((bench.tree(), ran.moves), (vec![], 4));
}

#[test]
fn a_source_that_shrinks_leaves_nothing_of_its_first_attempt() {
    let mut bench = Bench::new(Plan { if_changed: IfChanged::Retry, ..Plan::default() }).source("a", "long");
    let so_far = AtomicU32::new(0);
    bench.before_data = Some(Box::new(move |path| {
        if so_far.fetch_add(1, Ordering::Relaxed) == 0 {
            fs::write(path.join("source/a"), "x").unwrap();
        }
    }));
    make_b(&bench).says(&[]);
    assert_eq!(bench.tree(), ["b: x"]);
}

#[test]
fn digests_are_reported_of_files_that_have_their_names() {
    let plan = Plan { checksum: Some(Checksum::Md5), ..Plan::default() };
    for atomic in [false, true] {
        let bench = Bench::new(Plan { atomic, ..plan.clone() }).source("a", "new");
        make_b(&bench).says(&["digest of b: 22af645d1859cb5ca6da0c484f1f37ea"]);
    }
}

#[test]
fn a_copy_that_differs_from_its_source_is_set_aside() {
    let mut bench = Bench::new(Plan { verify: Verify::Read, ..Plan::default() }).source("a", "new").dest("b", "old");
    bench.kernel.spoil = true;
    let ran = make_b(&bench);
    assert_eq!((ran.value.is_err(), ran.heard.len()), (true, 1));
    assert!(ran.heard[0].starts_with(r#"error: the copy "b" differs from its source from byte 0 on"#));
    assert_eq!(bench.tree(), ["b.haul-mismatch: new", "b: old"]);
}

#[test]
fn nothing_is_left_of_a_temporary_link_that_failed() {
    let bench = Bench::new(atomic());
    for name in ["a", "other"] {
        std::os::unix::fs::symlink("text", bench.source_path(name)).unwrap();
    }
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    fs::rename(bench.source_path("other"), bench.source_path("a")).unwrap();
    let ran = bench.run(|worker| make_file(worker, &mut subject, &state));
    ran.says(&[r#"error: skipping file "a", as it was replaced while being copied"#]);
    assert_eq!((ran.value, bench.tree()), (Err(Reported), vec![]));
}

#[test]
fn a_file_that_replaces_another_counts_as_found() {
    // A file that is made gets the mode of the umask then, and one that is found keeps its own.
    let preserve = Preserve { mode: ModeRule::Discard, ..Preserve::default() };
    let bench = Bench::new(Plan { preserve, ..atomic() }).source("a", "new").dest("b", "old");
    fs::set_permissions(bench.dest_path("b"), Permissions::from_mode(0o751)).unwrap();
    make_b(&bench).says(&[]);
    assert_eq!(bench.to("b").inode().unwrap().permissions, 0o751);
}

#[test]
fn a_symbolic_link_is_made_anew() {
    let bench = Bench::new(Plan { recursive: true, ..atomic() });
    std::os::unix::fs::symlink("text", bench.source_path("a")).unwrap();
    make_b(&bench).says(&[]);
    assert_eq!(bench.tree(), ["b -> text"]);
    assert_eq!(fs::symlink_metadata(bench.dest_path("b")).unwrap().nlink(), 1);
}
