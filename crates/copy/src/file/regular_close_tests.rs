use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use haul_sys::inode::Time;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::file::open;
use crate::plan::{Durable, Plan, Preserve};

/// Opens `a` and `b`, and closes the copy; whether it stays open until it is on its device.
fn close_b(bench: &Bench, temporary: bool) -> Ran<Result<bool, Reported>> {
    let (mut subject, state) = (bench.subject("a", "b"), DestState { temporary, ..bench.state("b") });
    bench.run(|worker| {
        let unfinished = &mut Unfinished::default();
        let files = open::both_sides(worker, &mut subject, &state, unfinished)?;
        close(worker, &subject, &state, files, unfinished).map(|open| open.is_some())
    })
}

fn durable(durable: Durable) -> Bench {
    Bench::new(Plan { durable, ..Plan::default() }).source("a", "new")
}

fn cannot_close(errno: Errno) -> String {
    format!(r#"error: failed to close "b": {errno}"#)
}

#[test]
fn a_new_file_whose_sync_fails_is_removed() {
    let mut bench = durable(Durable::Flush);
    bench.writes_to_filesystem(false);
    bench.kernel.sync = Some(Errno::IO);
    let ran = close_b(&bench, false);
    ran.says(&[&cannot_close(Errno::IO)]);
    assert_eq!((ran.value, bench.tree(), ran.damaged), (Err(Reported), vec![], vec![]));
}

#[test]
fn an_old_file_whose_sync_fails_is_damaged() {
    let mut bench = durable(Durable::Flush).dest("b", "half");
    bench.writes_to_filesystem(false);
    bench.kernel.sync = Some(Errno::IO);
    let ran = close_b(&bench, false);
    ran.says(&[&cannot_close(Errno::IO)]);
    assert_eq!((ran.value, ran.damaged), (Err(Reported), vec![PathBuf::from("b")]));
    assert_eq!(bench.tree(), ["b: half"]);
}

#[test]
fn files_are_synced_only_where_filesystems_are_not() {
    for (plan, syncs_whole, syncs) in [(Durable::Flush, false, 1), (Durable::Flush, true, 0), (Durable::None, false, 0)]
    {
        let bench = durable(plan);
        bench.writes_to_filesystem(syncs_whole);
        let ran = close_b(&bench, false);
        ran.says(&[]);
        assert_eq!((ran.value, bench.kernel.synced().len()), (Ok(false), syncs), "{plan:?} {syncs_whole}");
    }
}

#[test]
fn a_file_that_waits_for_its_name_stays_open() {
    let bench = durable(Durable::File);
    bench.writes_to_filesystem(false);
    assert_eq!(close_b(&bench, true).value, Ok(true));
    assert!(bench.kernel.synced().is_empty(), "it is synced when it gets its name");
    assert_eq!(close_b(&bench.dest("b", "old"), false).value, Ok(false), "this one has its name");
}

#[test]
fn a_file_that_somebody_still_writes_is_not_whole() {
    let bench = durable(Durable::None);
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    let ran = bench.run(|worker| {
        let unfinished = &mut Unfinished::default();
        let files = open::both_sides(worker, &mut subject, &state, unfinished).unwrap();
        let _held = Arc::clone(&files.dest.fd);
        close(worker, &subject, &state, files, unfinished).is_err()
    });
    ran.says(&[&cannot_close(Errno::BUSY)]);
    assert!(ran.value && bench.tree().is_empty());
}

#[test]
fn a_copy_gets_the_times_that_its_source_had() {
    let preserve = Preserve { timestamps: true, ..Preserve::default() };
    let bench = Bench::new(Plan { preserve, ..Plan::default() }).source("a", "new");
    let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
    let ran = bench.run(|worker| {
        let unfinished = &mut Unfinished::default();
        let files = open::both_sides(worker, &mut subject, &state, unfinished).unwrap();
        let copied = Inode { modified: Time { seconds: 1000, nanoseconds: 0 }, ..files.source_inode };
        set_attributes(worker, &subject, &state, (&files, &copied), unfinished).unwrap().kept.is_ok()
    });
    ran.says(&[]);
    assert!(ran.value);
    assert_eq!(fs::metadata(bench.dest_path("b")).unwrap().mtime(), 1000);
}
