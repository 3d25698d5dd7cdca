use std::ffi::OsStr;
use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::context::test_support::{Bench, Ran, tree};
use crate::journal::{Digest, Record};
use crate::links::{Claim, Made};
use crate::plan::{Backup, Checksum, Delete, Plan, Preserve, Update};
use crate::schedule::order::Found;
use crate::tree::test_support::{alone, at, found, level_in, make_dir, plan, top_level, troubles};
use crate::work::directory::Directory;
use crate::work::entry::Level;

/// What is done about `dest`, an operand, for the copy of `source`.
fn act(bench: &Bench, source: &str, dest: &str) -> Ran<Option<DestState>> {
    let (subject, root) = (bench.subject(source, dest), bench.root());
    alone(bench, |walker| make_way(walker, &mut at(&top_level(&root), subject)))
}

/// What is known of a destination that a copy is made for.
#[track_caller]
fn copied(ran: &Ran<Option<DestState>>) -> &DestState {
    ran.value.as_ref().unwrap_or_else(|| panic!("nothing is left to do, or it failed: {:?}", ran.heard))
}

#[track_caller]
fn refused(ran: &Ran<Option<DestState>>, error: &str) {
    assert!(ran.value.is_none());
    assert_eq!(troubles(ran), [error]);
    assert!(ran.failed);
}

#[track_caller]
fn left_alone(ran: &Ran<Option<DestState>>) {
    assert!(ran.value.is_none(), "{:?}", ran.heard);
    assert!(troubles(ran).is_empty(), "{:?}", ran.heard);
}

#[test]
fn a_free_name_gets_a_new_copy() {
    let bench = Bench::new(plan()).source("a", "new");
    let ran = act(&bench, "a", "b");
    let state = copied(&ran);
    assert!(state.new && !state.replaces && state.existing.is_none());
    ran.says(&[]);
}

#[test]
fn nobody_looks_at_a_name_that_must_be_free() {
    let bench = Bench::new(plan()).source("a", "new").dest("b", "old");
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    let ran = alone(&bench, |walker| make_way(walker, &mut at(&Level { missing: true, ..top_level(&root) }, subject)));
    assert!(copied(&ran).new);
}

#[test]
fn a_file_is_written_into() {
    let bench = Bench::new(plan()).source("a", "new").dest("b", "old");
    let ran = act(&bench, "a", "b");
    let state = copied(&ran);
    assert_eq!(state.existing.as_ref().unwrap().target.id, bench.to("b").inode().unwrap().id);
    assert!(!state.new);
    assert_eq!(bench.tree(), ["b: old"]);
}

#[test]
fn what_an_atomic_copy_removes_stands_until_that_is_whole() {
    let plan = Plan { remove_destination: true, atomic: true, ..plan() };
    let bench = Bench::new(plan).source("a", "new").dest("b", "old");
    let ran = act(&bench, "a", "b");
    let state = copied(&ran);
    assert!(state.new && state.replaces && state.existing.is_none());
    assert_eq!(bench.tree(), ["b: old"]);
}

#[test]
fn only_what_was_found_to_be_older_may_be_replaced() {
    for (update, remove_destination) in [(Update::Older, false), (Update::Older, true), (Update::Content, false)] {
        let plan = Plan { update, remove_destination, atomic: true, ..plan() };
        let bench = Bench::new(plan).source("a", "newer").dest("b", "old");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        File::options().write(true).open(bench.dest_path("b")).unwrap().set_modified(long_ago).unwrap();
        let ran = act(&bench, "a", "b");
        let may = copied(&ran).stands.as_ref().map(|stands| (stands.inode.id, stands.has_backup));
        let seen = bench.to("b").inode().unwrap().id;
        assert_eq!(may, (update == Update::Older).then_some((seen, false)), "{update:?} {remove_destination}");
    }
}

#[test]
fn what_is_to_be_removed_first_is_removed() {
    let bench = Bench::new(Plan { remove_destination: true, ..plan() }).source("a", "new").dest("b", "old");
    let ran = act(&bench, "a", "b");
    assert!(copied(&ran).new && copied(&ran).removed);
    ran.says(&["removed b"]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_backup_takes_the_old_file_aside() {
    let bench = Bench::new(Plan { backup: Backup::Simple, ..plan() }).source("a", "new").dest("b", "old");
    let ran = act(&bench, "a", "b");
    let state = copied(&ran);
    assert_eq!(state.backup.as_deref(), Some(OsStr::new("b~")));
    assert!(state.new && !state.backup_is_link);
    assert_eq!(bench.tree(), ["b~: old"]);
}

#[test]
fn an_atomic_copy_leaves_the_old_name_beside_the_backup() {
    let bench = Bench::new(Plan { backup: Backup::Simple, atomic: true, ..plan() }).source("a", "new").dest("b", "old");
    let ran = act(&bench, "a", "b");
    assert!(copied(&ran).backup_is_link && copied(&ran).replaces);
    assert!(copied(&ran).stands.as_ref().is_some_and(|stands| stands.has_backup));
    assert_eq!(bench.tree(), ["b: old", "b~: old"]);
}

#[test]
fn a_backup_that_would_destroy_the_source_is_refused() {
    let bench = Bench::new(Plan { backup: Backup::Simple, ..plan() }).dest("b", "old").dest("b~", "the source");
    let (subject, root) = (bench.subject_of(bench.to("b~"), "b"), bench.root());
    let ran = alone(&bench, |walker| make_way(walker, &mut at(&top_level(&root), subject)));
    refused(&ran, r#"error: backing up "b" might destroy source;  "b~" not copied"#);
    assert_eq!(bench.tree(), ["b: old", "b~: the source"]);
}

#[test]
fn a_protected_file_is_skipped() {
    let bench = Bench::new(Plan { overwrite: Overwrite::Skip, ..plan() }).source("a", "new").dest("b", "old");
    let ran = act(&bench, "a", "b");
    left_alone(&ran);
    assert_eq!((ran.stats.skipped, ran.failed), (1, false));
}

#[test]
fn an_existing_file_may_be_an_error() {
    let bench = Bench::new(Plan { overwrite: Overwrite::Refuse, ..plan() }).source("a", "new").dest("b", "old");
    refused(&act(&bench, "a", "b"), r#"error: not replacing "b""#);
}

#[test]
fn directories_and_files_do_not_replace_each_other() {
    let bench = Bench::new(plan()).source("file", "new").dest("file", "old");
    make_dir(bench.source_path("dir"), 0o755);
    make_dir(bench.dest_path("dir"), 0o755);
    refused(&act(&bench, "file", "dir"), r#"error: cannot overwrite directory "dir" with non-directory "file""#);
    refused(&act(&bench, "dir", "file"), r#"error: cannot overwrite non-directory "file" with directory "dir""#);
    assert_eq!(bench.tree(), ["dir/", "file: old"]);
}

#[test]
fn another_name_of_the_source_is_not_written_into() {
    let bench = Bench::new(plan()).source("a", "new");
    fs::hard_link(bench.source_path("a"), bench.dest_path("b")).unwrap();
    refused(&act(&bench, "a", "b"), r#"error: "a" and "b" are the same file"#);
}

#[test]
fn what_was_made_for_an_earlier_operand_stays() {
    let mut bench = Bench::new(plan()).source("a", "new").dest("b", "of another operand");
    bench.plan.sources = vec!["x".into(), "a".into()];
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    let ran = alone(&bench, |walker| {
        walker.operands.remember(bench.to("b"), None);
        make_way(walker, &mut at(&top_level(&root), subject))
    });
    refused(&ran, r#"error: will not overwrite just-created "b" with "a""#);
}

#[test]
fn a_file_is_written_through_a_link() {
    let bench = Bench::new(plan()).source("a", "new").dest("far", "old").link("b", "far");
    let ran = act(&bench, "a", "b");
    let existing = copied(&ran).existing.as_ref().unwrap();
    assert_eq!((existing.entry.kind, existing.target.kind), (Kind::SymbolicLink, Kind::Regular));
    assert_eq!(existing.target.id, bench.to("far").inode().unwrap().id);
}

#[test]
fn a_link_to_nothing_counts_as_nothing_for_a_file() {
    let bench = Bench::new(plan()).source("a", "new").link("b", "nothing");
    let ran = act(&bench, "a", "b");
    assert!(copied(&ran).new && copied(&ran).existing.is_none());
}

#[test]
fn a_loop_of_links_is_an_error_unless_forced() {
    let mut bench = Bench::new(plan()).source("a", "new").link("b", "b");
    let ran = act(&bench, "a", "b");
    assert!(ran.value.is_none() && ran.failed);
    assert!(troubles(&ran)[0].starts_with(r#"error: cannot stat "b""#), "{:?}", ran.heard);
    bench.plan.force = true;
    let ran = act(&bench, "a", "b");
    assert!(!copied(&ran).new && !copied(&ran).replaces, "opening it fails, and then it is removed");
    bench.plan.atomic = true;
    let ran = act(&bench, "a", "b");
    assert!(copied(&ran).new && copied(&ran).replaces);
}

#[test]
fn a_link_to_a_directory_is_kept_if_asked() {
    let mut bench = Bench::new(plan()).link("b", "far");
    make_dir(bench.source_path("a"), 0o755);
    make_dir(bench.dest_path("far"), 0o755);
    refused(&act(&bench, "a", "b"), r#"error: cannot overwrite non-directory "b" with directory "a""#);
    bench.plan.keep_directory_symlink = true;
    let ran = act(&bench, "a", "b");
    assert_eq!(copied(&ran).existing.as_ref().unwrap().target.id, bench.to("far").inode().unwrap().id);
}

/// A file that is up to date with its copy.
fn up_to_date() -> Bench {
    let preserve = Preserve { links: true, ..Preserve::default() };
    let bench = Bench::new(Plan { update: Update::Older, preserve, ..plan() }).source("a", "new").dest("b", "old");
    File::open(bench.source_path("a")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    bench
}

#[test]
fn a_file_that_is_not_older_is_skipped() {
    let bench = up_to_date();
    let ran = act(&bench, "a", "b");
    left_alone(&ran);
    assert_eq!(ran.stats.skipped, 1);
    assert_eq!(bench.tree(), ["b: old"]);
}

#[test]
fn a_skipped_file_becomes_a_name_of_the_earlier_copy() {
    let bench = up_to_date().dest("first", "copy");
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    let links = &bench.services.links;
    let made = || Made { dir: root.clone(), name: "first".into(), id: None };
    assert!(matches!(links.claim((&subject.inode).into(), made), Ok(Claim::First)));
    links.complete((&subject.inode).into(), bench.to("first").inode().unwrap().id).unwrap();
    left_alone(&alone(&bench, |walker| make_way(walker, &mut at(&top_level(&root), subject))));
    assert_eq!(bench.tree(), ["b: copy", "first: copy"]);
    assert_eq!(bench.to("b").inode().unwrap().id, bench.to("first").inode().unwrap().id);
}

#[test]
fn later_names_become_names_of_a_skipped_file() {
    let bench = up_to_date();
    left_alone(&act(&bench, "a", "b"));
    let source = (&bench.from("a").inode().unwrap()).into();
    let made = bench.services.links.get(source).unwrap().expect("it counts as the copy");
    assert_eq!((made.name.to_str(), made.id), (Some("b"), Some(bench.to("b").inode().unwrap().id)));
}

/// A run with `--resume`, after one that has finished the copy `b` of `a`.
fn after_finished(plan: Plan, digest: Option<Digest>) -> Bench {
    let mut bench = Bench::new(Plan { resume: true, ..plan }).source("a", "new").dest("b", "new");
    bench.open_journal();
    let [source, copy] = [bench.from("a"), bench.to("b")].map(|spot| spot.inode().unwrap());
    let pair = Fingerprint::of_copy(Fingerprint::of_source(&source), &copy);
    let progress = bench.services.progress.get().unwrap();
    progress.promise(&[Record::Finished { pair, digest }], true).unwrap();
    bench.open_journal();
    bench
}

#[test]
fn what_an_earlier_run_has_finished_is_passed_over() {
    let bench = after_finished(plan(), None);
    let ran = act(&bench, "a", "b");
    left_alone(&ran);
    assert_eq!((ran.stats.resumed_files, ran.stats.resumed_bytes), (1, 3));
}

#[test]
fn a_finished_copy_that_was_changed_is_made_again() {
    let bench = after_finished(plan(), None);
    fs::write(bench.dest_path("b"), "changed since").unwrap();
    let ran = act(&bench, "a", "b");
    assert!(copied(&ran).existing.is_some());
    assert_eq!(ran.stats.resumed_files, 0);
}

#[test]
fn a_finished_copy_without_a_wanted_digest_is_made_again() {
    let bench = after_finished(Plan { checksum: Some(Checksum::Sha256), ..plan() }, None);
    assert!(copied(&act(&bench, "a", "b")).existing.is_some());
}

#[test]
fn the_digest_of_a_finished_copy_is_reported_again() {
    let hex = "0123456789abcdef".repeat(4);
    let bench = after_finished(Plan { checksum: Some(Checksum::Sha256), ..plan() }, Digest::from_hex(&hex));
    let ran = act(&bench, "a", "b");
    left_alone(&ran);
    ran.says(&[r#"Skipped("b", Finished)"#, &format!("digest of b: {hex}")]);
}

#[test]
fn a_source_of_several_names_waits_where_several_threads_meet_files() {
    let mut bench = Bench::new(plan()).source("a", "new").source("single", "new");
    fs::hard_link(bench.source_path("a"), bench.source_path("b")).unwrap();
    bench.plan.preserve.links = true;
    let waits = |bench: &Bench, name: &str, files: Option<bool>| {
        let ran = bench.run(|worker| {
            let order = &worker.cx.services.order;
            order.forget();
            if let Some(files) = files {
                order.ask();
                order.tell(Some(Found { files, ..Found::default() }));
            }
            source_waits(worker.cx, &bench.subject(name, "c"))
        });
        ran.value
    };
    assert!(waits(&bench, "a", Some(true)) && waits(&bench, "b", Some(true)));
    assert!(!waits(&bench, "single", Some(true)));
    assert!(!waits(&bench, "a", Some(false)), "where nothing stands, nothing is met");
    assert!(!waits(&bench, "a", None), "one thread meets what stands there");
}

#[test]
fn nothing_is_done_to_what_stands_there_once_the_run_is_cancelled() {
    let mut bench = Bench::new(plan()).source("a", "new").dest("b", "old");
    fs::hard_link(bench.dest_path("b"), bench.dest_path("c")).unwrap();
    bench.plan.preserve.links = true;
    bench.cancel.cancel();
    // It would be removed when its turn has come, which it never does.
    left_alone(&act(&bench, "a", "b"));
    assert_eq!(bench.tree(), ["b: old", "c: old"]);
}

/// What is done about an entry of a directory that stood there before.
fn act_below(bench: &Bench, source: &str, dest: &str) -> Ran<Option<DestState>> {
    let (subject, above) = (bench.subject(source, dest), [found(bench)]);
    alone(bench, |walker| make_way(walker, &mut at(&level_in(&above), subject)))
}

#[test]
fn what_is_in_the_way_goes_with_all_that_is_in_it() {
    let delete = Some(Delete::default());
    let bench = Bench::new(Plan { delete, ..plan() }).source("a", "new").dest("file", "old");
    make_dir(bench.dest_path("b"), 0o755);
    fs::write(bench.dest_path("b/inner"), "old").unwrap();
    make_dir(bench.source_path("dir"), 0o755);
    for (source, dest) in [("a", "b"), ("dir", "file")] {
        let ran = act_below(&bench, source, dest);
        assert!(copied(&ran).new && copied(&ran).removed && !ran.failed);
    }
    assert_eq!(bench.tree(), [""; 0]);
}

#[test]
fn what_is_in_the_way_stays_if_it_is_too_much_or_in_the_way_of_an_operand() {
    let delete = |most| Some(Delete { most, ..Delete::default() });
    let bench = |most| {
        let bench = Bench::new(Plan { delete: delete(most), ..plan() }).source("a", "new");
        make_dir(bench.dest_path("b"), 0o755);
        fs::write(bench.dest_path("b/inner"), "old").unwrap();
        bench
    };
    let error = r#"error: cannot overwrite directory "b" with non-directory "a""#;
    let limited = bench(Some(1));
    refused(&act_below(&limited, "a", "b"), error);
    assert_eq!((limited.tree(), limited.services.deletions.left()), (vec!["b/".to_owned()], 2));
    let named = bench(None);
    refused(&act(&named, "a", "b"), error);
    assert_eq!(named.tree(), ["b/"]);
}

#[test]
fn what_is_in_the_way_stays_whole_if_a_source_is_in_it() {
    let bench = Bench::new(Plan { delete: Some(Delete::default()), ..plan() }).source("a", "new");
    make_dir(bench.dest_path("b"), 0o755);
    for name in ["b/1", "b/2"] {
        fs::write(bench.dest_path(name), "old").unwrap();
    }
    make_dir(bench.dest_path("b/source"), 0o755);
    let frame = found(&bench);
    let Some(place) = Arc::into_inner(frame.place) else { panic!("nobody else has it") };
    let source = bench.to("b/source").inode().unwrap().id;
    let dir = place.dir.below("dest".as_ref(), place.dest_inode.id, source);
    let above = [Frame::new(Arc::new(Directory { dir, ..place }), frame.sides, frame.listing)];
    let ran = alone(&bench, |walker| make_way(walker, &mut at(&level_in(&above), bench.subject("a", "b"))));
    assert!(ran.failed && ran.heard[0].contains("it is a source"), "{:?}", ran.heard);
    assert_eq!(tree(&bench.dest_path("b")), ["1: old", "2: old", "source/"]);
}
