use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use haul_sys::Errno;

use super::*;
use crate::context::Services;
use crate::context::test_support::{Bench, Ran, file_data};
use crate::file::open;
use crate::meta::Caller;
use crate::plan::{DataOptions, IfChanged, Plan};

/// Opens `a` and `b` as they are found, and fills `b`. What is returned is whether it has its contents.
fn fill_b(bench: &Bench, identity: Identity) -> Ran<bool> {
    let (mut subject, state) = (bench.subject("a", "b"), DestState { identity, ..bench.state("b") });
    bench.run(|worker| {
        let unfinished = &mut Unfinished::default();
        let files = open::both_sides(worker, &mut subject, &state, unfinished).unwrap();
        contents(worker, &subject, &state, &files, unfinished).is_ok()
    })
}

fn only_shared() -> Bench {
    Bench::new(Plan { data: DataOptions { reflink: Reflink::Always, ..DataOptions::default() }, ..Plan::default() })
        .source("a", "new")
        .dest("b", "old")
}

#[test]
fn a_refused_reflink_leaves_the_old_contents() {
    let mut bench = only_shared();
    bench.kernel.clone_range = Some(Errno::OPNOTSUPP);
    let ran = fill_b(&bench, Identity::Two);
    ran.says(&[&format!(r#"error: failed to clone "b" from "a": {}"#, Errno::OPNOTSUPP)]);
    assert_eq!((ran.value, bench.tree(), ran.damaged), (false, vec!["b: old".into()], vec![]));
    assert_eq!(bench.partials.removed(), [], "it is not damaged if the process ends now");
}

#[test]
fn two_files_that_share_nothing_are_told_from_those_that_may() {
    let large = "x".repeat(1 << 20);
    for (errno, stays) in [(Errno::INVAL, true), (Errno::PERM, false)] {
        let plan = Plan { data: DataOptions { reflink: Reflink::Always, ..DataOptions::default() }, ..Plan::default() };
        let mut bench = Bench::new(plan).source("a", &large).dest("b", &large);
        (bench.kernel.clone_range, bench.kernel.share_if_same) = (Some(Errno::INVAL), Some(errno));
        let before = bench.tree();
        let ran = fill_b(&bench, Identity::Two);
        assert_eq!((bench.tree() == before, ran.damaged.is_empty()), (stays, stays), "{errno}");
    }
}

#[test]
fn a_range_that_nobody_shares_is_no_refusal() {
    let mut bench = only_shared();
    bench.kernel.clone_range = Some(Errno::INVAL);
    fill_b(&bench, Identity::Two);
    assert_ne!(bench.tree(), ["b: old"], "the old contents have gone, and sharing was tried");
}

#[test]
fn a_longer_file_is_cut() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old and longer");
    let ran = fill_b(&bench, Identity::Two);
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree(), ran.moves), (true, vec!["b: new".into()], 1));
}

#[test]
fn no_data_is_moved_where_only_attributes_are_copied() {
    let plan = Plan { attributes_only: true, ..Plan::default() };
    for (dest, after) in [(None, "b: "), (Some("old"), "b: old")] {
        let mut bench = Bench::new(plan.clone()).source("a", "new");
        if let Some(old) = dest {
            bench = bench.dest("b", old);
        }
        let ran = fill_b(&bench, Identity::Two);
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree(), ran.moves), (true, vec![after.into()], 0));
    }
}

#[test]
fn a_file_without_data_is_whole_at_once() {
    let bench = Bench::new(Plan { attributes_only: true, ..Plan::default() }).source("a", "new");
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    bench.run(|worker| {
        let unfinished = &mut Unfinished::default();
        let files = open::both_sides(worker, &mut subject, &state, unfinished).unwrap();
        contents(worker, &subject, &state, &files, unfinished).unwrap();
        assert_eq!(bench.partials.removed(), [], "as when the process ends, with the file open");
    });
    assert_eq!(bench.tree(), ["b: "]);
}

#[test]
fn a_file_that_may_be_the_source_is_only_touched() {
    let bench = Bench::new(Plan::default()).source("a", "the same").dest("b", "the same");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    File::options().write(true).open(bench.dest_path("b")).unwrap().set_modified(long_ago).unwrap();
    let ran = fill_b(&bench, Identity::DoubtfulAndFixed);
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree(), ran.moves), (true, vec!["b: the same".into()], 0));
    assert_ne!(fs::metadata(bench.dest_path("b")).unwrap().mtime(), 1000);
}

/// A source that changes while it is copied, which fails the copy.
fn changing() -> Bench {
    let mut bench = Bench::new(Plan { if_changed: IfChanged::Fail, ..Plan::default() }).source("a", "new");
    bench.before_data = Some(Box::new(|path| fs::write(path.join("source/a"), "other").unwrap()));
    bench
}

const CHANGED: &str = r#"error: "a" changed while it was being copied"#;

#[test]
fn a_new_file_that_could_not_be_filled_is_removed() {
    let bench = changing();
    let ran = fill_b(&bench, Identity::Two);
    ran.says(&[CHANGED]);
    assert_eq!((ran.value, bench.tree(), ran.damaged), (false, vec![], vec![]));
}

#[test]
fn an_old_file_that_could_not_be_filled_is_damaged() {
    let bench = changing().dest("b", "old");
    let ran = fill_b(&bench, Identity::Two);
    ran.says(&[CHANGED]);
    assert_eq!((ran.value, ran.damaged), (false, vec![PathBuf::from("b")]));
}

#[test]
fn what_force_removed_for_a_copy_that_failed_is_lost() {
    let mut bench = changing();
    bench.plan.force = true;
    std::os::unix::net::UnixListener::bind(bench.dest_path("b")).unwrap();
    fill_b(&bench, Identity::Two).says(&[
        "removed b",
        CHANGED,
        r#"warning: the old "b" was removed and could not be replaced"#,
    ]);
    assert!(bench.tree().is_empty());
}

/// Moves a file to a device that is always full, as if that were a file. How often that is tried, and whether by this
/// thread alone at last.
fn move_to_full_device(several: bool, source: impl FnOnce(&Bench) -> File) -> (usize, bool) {
    let services = Services::new(None, Caller::this_thread().unwrap(), several);
    let bench = Bench::with(Plan::default(), services).source("a", "new");
    let source = source(&bench);
    let inodes = [Inode::of(source.as_fd()).unwrap(), bench.from("a").inode().unwrap()];
    let dest = File::options().write(true).open("/dev/full").unwrap();
    let ran = bench.run(|worker| {
        let mut job = file_data([source.into(), dest.into()], [&inodes[0], &inodes[1]]);
        let (result, held) = move_with_room(worker, &mut job, None);
        assert!(free_space::ran_out(&result));
        matches!(held, free_space::Held::Alone(_))
    });
    (ran.moves, ran.value)
}

fn of_a(bench: &Bench) -> File {
    File::open(bench.source_path("a")).unwrap()
}

#[test]
fn a_file_without_space_is_tried_again_alone() {
    assert_eq!(move_to_full_device(true, of_a), (2, true));
}

#[test]
fn a_single_thread_does_not_try_again() {
    assert_eq!(move_to_full_device(false, of_a), (1, false));
}

#[test]
fn what_is_made_up_while_it_is_read_and_a_stream_are_not_tried_again() {
    assert_eq!(move_to_full_device(true, |_| File::open("/proc/version").unwrap()), (1, false));
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"new").unwrap();
    assert_eq!(move_to_full_device(true, |_| OwnedFd::from(reader).into()), (1, false));
}

#[test]
fn an_overwritten_file_is_damaged_if_the_process_ends_meanwhile() {
    let mut bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old");
    let partials = bench.partials.clone();
    bench.before_data = Some(Box::new(move |_| assert_eq!(partials.removed(), [Error::new(What::Damaged, "b")])));
    assert_eq!(fill_b(&bench, Identity::Two).moves, 1);
    assert_eq!(bench.partials.removed(), [], "now it is whole");
}
