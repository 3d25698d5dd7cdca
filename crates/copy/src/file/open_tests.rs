use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use haul_sys::inode::{DeviceNumber, FileId};

use super::*;
use crate::attributes::ReplacedFile;
use crate::context::test_support::{Bench, Ran};
use crate::plan::{Plan, SpecialFiles};
use crate::tree::test_support::{at, entered, level_in};

/// What an opened pair shows: the destination was looked at, was made, and was removed first.
type Outcome = Result<(bool, bool, bool), Reported>;

/// Opens both sides, and closes them again.
fn open(bench: &Bench, subject: &mut Subject<'_>, state: &DestState) -> Ran<Outcome> {
    bench.run(|worker| {
        let files = both_sides(worker, subject, state, &mut Unfinished::default())?;
        Ok((files.dest.known, files.dest.created, files.dest.replaced))
    })
}

/// Opens `a` and `b` as they are found.
fn open_a_and_b(bench: &Bench) -> Ran<Outcome> {
    open(bench, &mut bench.subject("a", "b"), &bench.state("b"))
}

/// The destination was looked at and stood there before.
const FOUND: Outcome = Ok((true, false, false));
/// It was made.
const MADE: Outcome = Ok((true, true, false));

const REPLACED: &str = "as it was replaced while being copied";

#[test]
fn what_exists_is_opened_as_it_is() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old");
    let ran = open_a_and_b(&bench);
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree()), (FOUND, vec!["b: old".into()]));
}

#[test]
fn a_source_that_was_replaced_is_not_copied() {
    let bench = Bench::new(Plan::default()).source("a", "new").source("other", "another");
    let mut subject = bench.subject("a", "b");
    fs::rename(bench.source_path("other"), bench.source_path("a")).unwrap();
    let ran = open(&bench, &mut subject, &bench.state("b"));
    ran.says(&[&format!(r#"error: skipping file "a", {REPLACED}"#)]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_source_that_became_a_link_is_not_followed() {
    let bench = Bench::new(Plan::default()).source("a", "new").source("other", "another");
    let mut subject = bench.subject("a", "b");
    fs::remove_file(bench.source_path("a")).unwrap();
    std::os::unix::fs::symlink("other", bench.source_path("a")).unwrap();
    let ran = open(&bench, &mut subject, &bench.state("b"));
    ran.says(&[&format!(r#"error: cannot open "a" for reading: {}"#, Errno::LOOP)]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_source_that_became_a_fifo_is_not_waited_for() {
    let bench = Bench::new(Plan::default()).source("a", "new");
    let mut subject = bench.subject("a", "b");
    fs::remove_file(bench.source_path("a")).unwrap();
    bench.make_fifo("fifo");
    fs::rename(bench.dest_path("fifo"), bench.source_path("a")).unwrap();
    let ran = open(&bench, &mut subject, &bench.state("b"));
    ran.says(&[&format!(r#"error: skipping file "a", {REPLACED}"#)]);
}

#[test]
fn a_destination_that_is_the_source_is_refused() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old");
    let mut state = bench.state("b");
    fs::remove_file(bench.dest_path("b")).unwrap();
    fs::hard_link(bench.source_path("a"), bench.dest_path("b")).unwrap();
    // Even if nobody has seen that there is anything.
    for existing in [state.existing, None] {
        state.existing = existing;
        let ran = open(&bench, &mut bench.subject("a", "b"), &state);
        ran.says(&[r#"error: "a" and "b" are the same file"#]);
        assert_eq!(bench.tree(), ["b: new"]);
    }
}

#[test]
fn a_destination_that_was_replaced_stays_as_it_is() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old").dest("c", "theirs");
    let state = bench.state("b");
    fs::rename(bench.dest_path("c"), bench.dest_path("b")).unwrap();
    let ran = open(&bench, &mut bench.subject("a", "b"), &state);
    ran.says(&[&format!(r#"error: skipping file "b", {REPLACED}"#)]);
    assert_eq!((bench.tree(), ran.damaged), (vec!["b: theirs".into()], vec![]));
}

#[test]
fn a_destination_that_became_a_link_is_not_followed() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old").dest("c", "theirs");
    let state = bench.state("b");
    fs::remove_file(bench.dest_path("b")).unwrap();
    let bench = bench.link("b", "c");
    let ran = open(&bench, &mut bench.subject("a", "b"), &state);
    ran.says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::LOOP)]);
    assert_eq!(bench.tree(), ["b -> c", "c: theirs"]);
}

#[test]
fn a_destination_that_went_meanwhile_is_made() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("b", "old");
    let state = bench.state("b");
    fs::remove_file(bench.dest_path("b")).unwrap();
    let ran = open(&bench, &mut bench.subject("a", "b"), &state);
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree()), (MADE, vec!["b: ".into()]));
}

#[test]
fn what_came_to_exist_is_not_opened_as_new() {
    let bench = Bench::new(Plan::default()).source("a", "new");
    let state = bench.state("b");
    let bench = bench.dest("b", "theirs");
    let ran = open(&bench, &mut bench.subject("a", "b"), &state);
    ran.says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::EXIST)]);
    assert_eq!(bench.tree(), ["b: theirs"]);
}

#[test]
fn a_dangling_link_is_not_written_through() {
    let bench = Bench::new(Plan::default()).source("a", "new").link("b", "c");
    open_a_and_b(&bench).says(&[r#"error: not writing through dangling symlink "b""#]);
    assert_eq!(bench.tree(), ["b -> c"]);
}

#[test]
fn a_dangling_link_is_written_through_if_asked() {
    let plan = Plan { write_through_dangling_link: true, ..Plan::default() };
    let bench = Bench::new(plan).source("a", "new").link("b", "c");
    let ran = open_a_and_b(&bench);
    ran.says(&[]);
    assert_eq!((ran.value, bench.tree()), (MADE, vec!["b -> c".into(), "c: ".into()]));
}

/// A destination that nobody can open, root neither: a socket.
fn with_socket(force: bool) -> Bench {
    let bench = Bench::new(Plan { force, ..Plan::default() }).source("a", "new");
    UnixListener::bind(bench.dest_path("b")).unwrap();
    bench
}

#[test]
fn what_cannot_be_opened_stays() {
    let bench = with_socket(false);
    open_a_and_b(&bench).says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::NXIO)]);
    assert_eq!(bench.to("b").inode().unwrap().kind, Kind::Socket);
}

#[test]
fn what_cannot_be_opened_is_removed_by_force() {
    let bench = with_socket(true);
    let ran = open_a_and_b(&bench);
    ran.says(&["removed b"]);
    assert_eq!((ran.value, bench.tree()), (Ok((true, true, true)), vec!["b: ".into()]));
}

#[test]
fn a_loop_of_links_is_removed_by_force() {
    let bench = Bench::new(Plan { force: true, ..Plan::default() }).source("a", "new").link("b", "b");
    open(&bench, &mut bench.subject("a", "b"), &DestState::default()).says(&["removed b"]);
    assert_eq!(bench.tree(), ["b: "]);
}

#[test]
fn what_was_removed_in_vain_is_lost() {
    let bench = with_socket(true);
    bench.partials.removed();
    let ran = open_a_and_b(&bench);
    assert_eq!(ran.heard, ["removed b", r#"warning: the old "b" was removed and could not be replaced"#]);
    assert!(ran.failed && bench.tree().is_empty());
}

#[test]
fn nothing_is_made_when_the_process_ends() {
    let bench = Bench::new(Plan::default()).source("a", "new");
    bench.partials.removed();
    let ran = open_a_and_b(&bench);
    assert!(ran.failed && ran.heard.is_empty(), "{:?}", ran.heard);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_fifo_without_reader_is_not_waited_for() {
    let bench = Bench::new(Plan { recursive: true, special_files: SpecialFiles::Contents, ..Plan::default() })
        .source("a", "new");
    bench.make_fifo("b");
    open_a_and_b(&bench).says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::NXIO)]);
}

#[test]
fn a_name_that_ends_in_a_slash_is_no_file() {
    let bench = Bench::new(Plan::default()).source("a", "new");
    let ran = open(&bench, &mut bench.subject("a", "b/"), &bench.state("b/"));
    ran.says(&[&format!(r#"error: cannot create regular file "b/": {}"#, Errno::NOTDIR)]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_small_file_of_a_tree_is_not_looked_at() {
    let mut bench = Bench::new(Plan::default()).source("a", "new");
    let device = DeviceNumber { major: 8, minor: 1 };
    let open_in_tree = |bench: &Bench| {
        let mut frame = entered(bench);
        Arc::get_mut(&mut frame.place).unwrap().dest_inode.id = FileId::new(device, 1);
        let ancestors = [frame];
        let ran = open(bench, &mut at(&level_in(&ancestors), bench.subject("a", "b")), &bench.state("b"));
        fs::remove_file(bench.dest_path("b")).unwrap();
        ran.value
    };
    assert_eq!(open_in_tree(&bench), Ok((false, true, false)));
    bench.plan.preserve.timestamps = true;
    assert_eq!(open_in_tree(&bench), MADE, "its attributes will be set");
}

#[test]
fn nobody_else_reads_a_file_that_replaces_another() {
    let bench = Bench::new(Plan::default()).source("a", "new").dest("old", "old");
    fs::set_permissions(bench.source_path("a"), Permissions::from_mode(0o644)).unwrap();
    let old = ReplacedFile { fd: bench.to("old").open_path().unwrap(), inode: bench.to("old").inode().unwrap() };
    let state = DestState { new: true, replaced: Some(Box::new(old)), ..DestState::default() };
    open(&bench, &mut bench.subject("a", "b"), &state).says(&[]);
    assert_eq!(bench.to("b").inode().unwrap().permissions, 0o600 & !bench.services.caller.umask);
}

#[test]
fn a_regular_file_is_opened_at_once_and_nothing_else() {
    let bench = Bench::new(Plan::default()).source("a", "new");
    assert!(open_regular(bench.from("a"), false, &Plan::default()).is_ok());
    bench.make_fifo("fifo");
    assert_eq!(open_regular(bench.to("fifo"), false, &Plan::default()).unwrap_err(), Errno::STALE);
    let bench = bench.link("link", "fifo");
    assert_eq!(open_regular(bench.to("link"), false, &Plan::default()).unwrap_err(), Errno::LOOP);
}
