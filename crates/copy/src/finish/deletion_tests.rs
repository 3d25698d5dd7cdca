use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use haul_sys::Errno;

use super::*;
use crate::context::test_support::{Bench, Ran, tree};
use crate::filter::{Choice, Filter, Rule};
use crate::plan::Plan;

fn plan(delete: Delete) -> Plan {
    Plan { recursive: true, delete: Some(delete), ..Plan::default() }
}

/// Two directories, of which the source has `kept`.
fn bench(delete: Delete) -> Bench {
    Bench::new(plan(delete)).source("kept", "new").dest("kept", "copy")
}

/// The same where these patterns are excluded.
fn excluding(delete: Delete, patterns: &[&str]) -> Bench {
    let rules = patterns.iter().map(|pattern| Rule::exclude(*pattern)).collect();
    let filter = Filter::new(Choice { rules, ..Choice::default() }).unwrap();
    let mut bench = bench(delete);
    bench.plan = Plan { filter, ..plan(delete) };
    bench
}

/// The two directories, of which the second was there before.
fn found(bench: &Bench) -> FullDirectory {
    let FullDirectory { place, sides } = bench.full_directory();
    let Some(place) = Arc::into_inner(place) else { panic!("nobody else has it") };
    FullDirectory { place: Arc::new(Directory { created: false, fresh: false, ..place }), sides }
}

fn delete(bench: &Bench) -> Ran<bool> {
    let directory = found(bench);
    bench.run(|worker| delete_extra(worker, &directory))
}

fn make_dirs(bench: &Bench, path: &str) {
    fs::create_dir_all(bench.dest_path(path)).unwrap();
}

#[test]
fn what_only_the_copy_has_goes() {
    let bench = bench(Delete::default()).dest("gone", "old");
    make_dirs(&bench, "dir/inner");
    fs::write(bench.dest_path("dir/inner/file"), "old").unwrap();
    let ran = delete(&bench);
    assert_eq!(bench.tree(), ["kept: copy"]);
    let mut heard = ran.heard.clone();
    heard.sort();
    assert_eq!(
        heard,
        ["deleted dest/dir/", "deleted dest/dir/inner/", "deleted dest/dir/inner/file", "deleted dest/gone"]
    );
    assert_eq!((ran.value, ran.failed), (true, false));
    assert_eq!((ran.stats.deleted_files, ran.stats.deleted_directories), (2, 2));
}

#[test]
fn a_plan_without_deletion_and_a_directory_that_was_made_keep_everything() {
    let mut bench = bench(Delete::default()).dest("gone", "old");
    let fresh = bench.full_directory();
    bench.run(|worker| delete_extra(worker, &fresh)).says(&[]);
    bench.plan.delete = None;
    let ran = delete(&bench);
    ran.says(&[]);
    assert!(!ran.value && bench.tree().len() == 2);
}

#[test]
fn the_copy_of_an_empty_directory_stays_unless_that_is_forced() {
    let empty = |force| Bench::new(plan(Delete { force, ..Delete::default() })).dest("a", "old").dest("b", "old");
    let (careful, forced) = (empty(false), empty(true));
    let ran = delete(&careful);
    ran.says(&[&format!("error: {}", Error::new(What::SourceEmpty, "dest").and("source"))]);
    assert_eq!(careful.tree(), ["a: old", "b: old"]);
    assert!(!delete(&forced).failed);
    assert_eq!(forced.tree(), [""; 0]);
}

#[test]
fn nothing_is_said_of_an_empty_directory_whose_copy_keeps_nothing_to_delete() {
    delete(&Bench::new(plan(Delete::default()))).says(&[]);
    let bench = excluding(Delete::default(), &["*.o"]).dest("a.o", "old");
    fs::remove_file(bench.source_path("kept")).unwrap();
    fs::remove_file(bench.dest_path("kept")).unwrap();
    delete(&bench).says(&[]);
    assert_eq!(bench.tree(), ["a.o: old"]);
}

#[test]
fn a_file_that_is_no_part_of_the_copy_stays_and_does_not_count() {
    let mut bench = bench(Delete { most: Some(0), ..Delete::default() }).dest("list", "of another program");
    bench.skip_files = vec![bench.to("list").inode().unwrap().id];
    let report = |bench: &Bench| {
        let directory = found(bench);
        bench.run(|worker| {
            delete_extra(worker, &directory);
            report_rest(worker);
        })
    };
    report(&bench).says(&[]);
    fs::remove_file(bench.source_path("kept")).unwrap();
    fs::remove_file(bench.dest_path("kept")).unwrap();
    report(&bench).says(&[]);
    assert_eq!(bench.tree(), ["list: of another program"], "beside the copy of an empty directory, too");
}

#[test]
fn the_copy_of_what_could_not_be_read_stays() {
    let bench = bench(Delete { force: true, ..Delete::default() }).dest("gone", "old");
    let unread = found(&bench);
    unread.place.unread.store(true, Ordering::Relaxed);
    let FullDirectory { place, sides } = found(&bench);
    let Some(place) = Arc::into_inner(place) else { panic!("nobody else has it") };
    let unopened = FullDirectory { place: Arc::new(Directory { source_path_only: true, ..place }), sides };
    let closed = FullDirectory { sides: None, ..found(&bench) };
    for directory in [unread, unopened, closed] {
        bench.run(|worker| delete_extra(worker, &directory)).says(&[]);
    }
    assert_eq!(bench.tree(), ["gone: old", "kept: copy"]);
}

#[test]
fn what_cannot_be_asked_for_in_the_source_stays() {
    let bench = bench(Delete { force: true, ..Delete::default() }).dest("gone", "old");
    let no_directory = fs::File::open(bench.source_path("kept")).unwrap();
    let dest = bench.sides().dest;
    let FullDirectory { place, .. } = found(&bench);
    let sides = Sides::new(no_directory.into(), dest, &place.dest_path);
    let ran = bench.run(|worker| delete_extra(worker, &FullDirectory { place, sides: Some(Arc::new(sides)) }));
    ran.says(&[&format!(r#"error: cannot access "source": {}"#, Errno::NOTDIR)]);
    assert_eq!(bench.tree(), ["gone: old", "kept: copy"]);
}

#[test]
fn what_is_excluded_stays_and_so_does_what_holds_it() {
    let bench = excluding(Delete::default(), &["*.o", "/dir/cache/"]).dest("gone.o", "old").dest("gone", "old");
    make_dirs(&bench, "dir/cache");
    make_dirs(&bench, "dir/empty");
    for name in ["dir/cache/x", "dir/a.o", "dir/a.c"] {
        fs::write(bench.dest_path(name), "old").unwrap();
    }
    let ran = delete(&bench);
    assert_eq!(bench.tree(), ["dir/", "gone.o: old", "kept: copy"]);
    assert_eq!(tree(&bench.dest_path("dir")), ["a.o: old", "cache/"]);
    assert_eq!(tree(&bench.dest_path("dir/cache")), ["x: old"]);
    assert!(!ran.failed);
}

#[test]
fn what_is_excluded_goes_where_that_is_asked_for() {
    let bench = excluding(Delete { excluded: true, ..Delete::default() }, &["*.o"]).source("a.o", "new");
    let bench = bench.dest("a.o", "old").dest("gone.o", "old");
    delete(&bench);
    assert_eq!(bench.tree(), ["kept: copy"]);
}

#[test]
fn what_is_left_out_by_its_size_stays() {
    for excluded in [false, true] {
        let mut bench = bench(Delete { excluded, ..Delete::default() }).source("large", "12345").dest("large", "old");
        bench.plan.filter = Filter::new(Choice { max_size: Some(4), ..Choice::default() }).unwrap();
        delete(&bench).says(&[]);
        assert_eq!(bench.tree(), ["kept: copy", "large: old"]);
    }
}

#[test]
fn of_a_cache_everything_stays_unless_what_is_excluded_goes() {
    for excluded in [false, true] {
        let tag = "Signature: 8a477f597d28d172789f06886806bc55";
        let mut bench = bench(Delete { excluded, ..Delete::default() }).source("CACHEDIR.TAG", tag);
        bench.plan.filter = Filter::new(Choice { exclude_caches: true, ..Choice::default() }).unwrap();
        let bench = bench.dest("CACHEDIR.TAG", tag).dest("old", "old");
        make_dirs(&bench, "cache");
        fs::write(bench.dest_path("cache/CACHEDIR.TAG"), tag).unwrap();
        fs::write(bench.dest_path("cache/x"), "").unwrap();
        delete(&bench);
        assert_eq!(bench.tree().len(), if excluded { 1 } else { 4 }, "{:?}", bench.tree());
        assert!(bench.dest_path("CACHEDIR.TAG").exists());
    }
}

#[test]
fn a_cache_that_only_the_copy_has_stays_whole() {
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    let mut bench = bench(Delete::default());
    bench.plan.filter = Filter::new(Choice { exclude_caches: true, ..Choice::default() }).unwrap();
    for name in ["filled", "bare"] {
        make_dirs(&bench, name);
        fs::write(bench.dest_path(name).join("CACHEDIR.TAG"), tag).unwrap();
    }
    fs::write(bench.dest_path("filled/x"), "").unwrap();
    assert!(!delete(&bench).failed);
    assert_eq!(bench.tree(), ["filled/", "kept: copy"]);
    assert_eq!(tree(&bench.dest_path("filled")).len(), 2);
}

#[test]
fn a_link_goes_and_what_it_leads_to_stays() {
    let bench = bench(Delete::default());
    fs::create_dir(bench.path().join("elsewhere")).unwrap();
    fs::write(bench.path().join("elsewhere/file"), "precious").unwrap();
    make_dirs(&bench, "dir");
    for name in ["link", "dir/link"] {
        symlink(bench.path().join("elsewhere"), bench.dest_path(name)).unwrap();
    }
    delete(&bench);
    assert_eq!(bench.tree(), ["kept: copy"]);
    assert_eq!(tree(&bench.path().join("elsewhere")), ["file: precious"]);
}

#[test]
fn no_more_goes_than_may_and_the_rest_is_counted() {
    for (most, stay) in [(0, 4), (3, 1), (4, 0)] {
        let bench = bench(Delete { most: Some(most), ..Delete::default() });
        make_dirs(&bench, "dir/inner");
        for name in ["dir/a", "dir/inner/b"] {
            fs::write(bench.dest_path(name), "old").unwrap();
        }
        let ran = delete(&bench);
        assert_eq!(ran.stats.deleted_files + ran.stats.deleted_directories, most);
        assert_eq!(bench.services.deletions.left(), stay);
        let limit = bench.run(report_rest);
        assert_eq!((limit.failed, limit.heard.len()), (stay > 0, usize::from(stay > 0)), "{:?}", limit.heard);
    }
}

/// The same bench with 20 directories of three entries each that only the copy has.
fn many_extra(delete: Delete, jobs: usize) -> Bench {
    let mut bench = bench(delete);
    bench.plan.jobs = Some(jobs);
    bench.in_order = false;
    for dir in 0..20 {
        make_dirs(&bench, &format!("dir{dir}/inner"));
        for file in ["file", "inner/file"] {
            fs::write(bench.dest_path(&format!("dir{dir}/{file}")), "old").unwrap();
        }
    }
    bench
}

#[test]
fn several_threads_remove_what_one_does() {
    let [alone, together] = [1, 4].map(|jobs| {
        let bench = many_extra(Delete::default(), jobs);
        let ran = delete(&bench);
        let mut heard = ran.heard.clone();
        heard.sort();
        assert_eq!((ran.value, ran.failed, bench.tree()), (true, false, vec!["kept: copy".to_owned()]));
        (heard, ran.stats.deleted_files, ran.stats.deleted_directories)
    });
    assert_eq!(alone, together);
    assert_eq!((alone.1, alone.2), (40, 40));
}

#[test]
fn several_threads_remove_no_more_than_may_be() {
    let bench = many_extra(Delete { most: Some(25), ..Delete::default() }, 4);
    let ran = delete(&bench);
    assert_eq!(ran.stats.deleted_files + ran.stats.deleted_directories, 25);
    assert_eq!(bench.services.deletions.left(), 55);
}

#[test]
fn directories_share_threads_unless_one_is_enough_or_order_is_asked_for_or_nothing_is_written() {
    let mut bench = many_extra(Delete::default(), 3);
    let extra = |name: &str| Extra {
        listed: Listed { name: name.into(), kind: None, entry: None, made: None },
        inode: bench.to(name).inode().unwrap(),
    };
    let extras = ["dir0", "kept", "dir1", "dir2", "dir3"].map(extra);
    let threads = |bench: &Bench, extras: &[Extra]| bench.run(|worker| wanted_threads(worker.cx, extras)).value;
    let most = affordable_threads();
    assert_eq!((threads(&bench, &extras), threads(&bench, &extras[..3])), (most.min(3), most.min(2)));
    assert_eq!(threads(&bench, &extras[..2]), 1);
    bench.in_order = true;
    assert_eq!(threads(&bench, &extras), 1);
    (bench.in_order, bench.plan.dry_run) = (false, true);
    assert_eq!(threads(&bench, &extras), 1);
}

#[test]
fn several_threads_report_once_that_the_source_cannot_be_asked() {
    let bench = many_extra(Delete::default(), 4);
    let directory = found(&bench);
    let sides = directory.sides.as_deref().unwrap();
    let pair = Pair { place: &directory.place, sides, delete: Delete::default(), is_cache: false };
    let extras: Vec<_> = (0..20)
        .map(|dir| {
            let name = format!("dir{dir}");
            let inode = bench.to(&name).inode().unwrap();
            Extra { listed: Listed { name: name.into(), kind: None, entry: None, made: None }, inode }
        })
        .collect();
    let before = bench.tree();
    fs::remove_dir_all(bench.source_path("")).unwrap();
    let ran = bench.run(|worker| remove(worker, &pair, &extras).unwrap_err().to_string());
    assert_eq!(ran.value, Error::new(What::ReplacedWhileCopied, "source").to_string());
    ran.says(&[]);
    assert_eq!(bench.tree(), before);
}

#[test]
fn a_run_that_is_to_end_removes_nothing() {
    let bench = bench(Delete::default()).dest("gone", "old");
    bench.cancel.cancel();
    delete(&bench).says(&[]);
    assert_eq!(bench.tree(), ["gone: old", "kept: copy"]);
}

#[test]
fn a_tree_deeper_than_a_path_goes() {
    let bench = bench(Delete::default());
    let name = "d".repeat(200);
    let mut dir = bench.sides().dest;
    for _ in 0..50 {
        let spot = Spot::new(dir.as_fd(), OsStr::new(&name), Path::new(""));
        spot.make_dir(0o700).unwrap();
        dir = crate::walk::open_directory(dir.as_fd(), &name).unwrap();
    }
    let ran = delete(&bench);
    assert_eq!((ran.stats.deleted_directories, ran.failed), (50, false), "{:?}", ran.heard);
    assert_eq!(bench.tree(), ["kept: copy"]);
}

#[test]
fn what_is_in_a_directory_that_its_owner_cannot_write_goes() {
    let bench = bench(Delete::default());
    make_dirs(&bench, "dir/inner");
    fs::write(bench.dest_path("dir/inner/file"), "old").unwrap();
    for (name, mode) in [("dir/inner", 0o000), ("dir", 0o555)] {
        fs::set_permissions(bench.dest_path(name), Permissions::from_mode(mode)).unwrap();
    }
    assert!(!delete(&bench).failed);
    assert_eq!(bench.tree(), ["kept: copy"]);
}

#[test]
fn a_source_in_what_would_go_is_not_touched() {
    let bench = bench(Delete::default());
    make_dirs(&bench, "dir");
    let FullDirectory { place, sides } = found(&bench);
    let Some(place) = Arc::into_inner(place) else { panic!("nobody else has it") };
    let source = bench.to("dir").inode().unwrap().id;
    let dir = place.dir.below(OsStr::new("dest"), place.dest_inode.id, source);
    let directory = FullDirectory { place: Arc::new(Directory { dir, ..place }), sides };
    let ran = bench.run(|worker| delete_extra(worker, &directory));
    ran.says(&[r#"error: not deleting "dest/dir": it is a source"#]);
    assert_eq!(bench.tree(), ["dir/", "kept: copy"]);
}

#[test]
fn nothing_goes_where_names_may_be_alike_which_is_said_once() {
    let bench = bench(Delete::default());
    // Nothing to remove, nothing to say.
    bench.services.deletions.note_case(bench.to("kept").inode().unwrap().id.device(), false);
    delete(&bench).says(&[]);
    let bench = bench.dest("gone", "old");
    delete(&bench).says(&[&format!("error: {}", Error::new(What::NamesMayBeAlike, "dest"))]);
    delete(&bench).says(&[]);
    assert_eq!(bench.tree(), ["gone: old", "kept: copy"]);
}

#[test]
fn nothing_goes_where_a_directory_of_the_copy_is_shown_twice_which_is_said_once() {
    let bench = bench(Delete::default()).dest("gone", "old");
    assert!(bench.services.deletions.shown_twice(|| true));
    delete(&bench).says(&[&format!("error: {}", Error::new(What::ShownTwice, "dest"))]);
    delete(&bench).says(&[]);
    assert_eq!(bench.tree(), ["gone: old", "kept: copy"]);
}

#[test]
fn a_look_at_a_name_shows_that_names_are_exact_and_looks_that_differ_that_they_are_not() {
    let bench = bench(Delete::default());
    make_dirs(&bench, "dir");
    let device = bench.to("dir").inode().unwrap().id.device();
    bench.run(|worker| look_at_name(worker.cx, bench.to("dir"), device)).says(&[]);
    assert_ne!(bench.services.deletions.case_counts(device), Some(false));
    // Once it is doubtful, it stays so.
    bench.services.deletions.note_case(device, true);
    bench.services.deletions.note_case(device, false);
    bench.services.deletions.note_case(device, true);
    assert_eq!(bench.services.deletions.case_counts(device), Some(false));
}

#[test]
fn a_directory_that_was_removed_meanwhile_says_nothing_about_its_copy() {
    let bench = bench(Delete { force: true, ..Delete::default() });
    let directory = found(&bench);
    fs::remove_dir_all(bench.source_path("")).unwrap();
    let ran = bench.run(|worker| delete_extra(worker, &directory));
    assert_eq!((ran.heard.len(), ran.failed), (1, true), "{:?}", ran.heard);
    assert_eq!(bench.tree(), ["kept: copy"]);
}

#[test]
fn what_came_or_was_replaced_since_it_was_looked_at_stays() {
    let bench = bench(Delete::default()).dest("came", "old").dest("replaced", "old").dest("gone", "old");
    make_dirs(&bench, "dir");
    let directory = found(&bench);
    let sides = directory.sides.as_deref().unwrap();
    let pair = Pair { place: &directory.place, sides, delete: Delete::default(), is_cache: false };
    let extra = |name: &str| Extra {
        listed: Listed { name: name.into(), kind: None, entry: None, made: None },
        inode: bench.to(name).inode().unwrap(),
    };
    let extras = ["came", "replaced", "gone", "dir"].map(extra);
    fs::write(bench.source_path("came"), "new").unwrap();
    fs::write(bench.dest_path("other"), "precious").unwrap();
    fs::rename(bench.dest_path("other"), bench.dest_path("replaced")).unwrap();
    fs::rename(bench.dest_path("dir"), bench.dest_path("kept-dir")).unwrap();
    make_dirs(&bench, "dir");
    bench.run(|worker| remove(worker, &pair, &extras).unwrap()).says(&["deleted dest/gone"]);
    assert_eq!(bench.tree(), ["came: old", "dir/", "kept-dir/", "kept: copy", "replaced: precious"]);
}
