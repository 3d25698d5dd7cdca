use std::fs;
use std::os::unix::fs::symlink;

use haul_sys::inode::FileId;

use super::*;
use crate::context::stays::Stays;
use crate::context::test_support::{Bench, Ran};
use crate::filter::{Choice, Filter, Rule};
use crate::finish::moved;
use crate::links::DestDir;
use crate::tree::test_support::{alone, copy_into, make_dir, moving, troubles, whole_tree};

/// `dir` with a file, a symbolic link and an empty directory, which was copied into the destination.
fn bench() -> Bench {
    let mut bench = Bench::new(moving());
    for dir in [bench.source_path("dir"), bench.dest_path("dir")] {
        make_dir(&dir, 0o750);
        make_dir(dir.join("empty"), 0o755);
        fs::write(dir.join("file"), "contents").unwrap();
        symlink("file", dir.join("link")).unwrap();
    }
    copy_into(&mut bench, &["dir"]);
    bench
}

const TREE: [&str; 4] = ["dir/ 750", "dir/empty/ 755", "dir/file: contents", "dir/link -> file"];

fn run(bench: &Bench) -> Ran<()> {
    alone(bench, |walker| remove_sources(&mut walker.worker, 1, &[]))
}

/// What is left of the source, if this is said, and nothing of the destination is touched.
#[track_caller]
fn leaves(bench: &Bench, left: &[&str], errors: &[&str]) {
    let before = whole_tree(&bench.dest_path(""));
    let ran = run(bench);
    let errors: Vec<String> = errors.iter().map(|error| format!("error: {error}")).collect();
    assert_eq!((troubles(&ran), ran.failed), (errors.iter().map(String::as_str).collect(), !errors.is_empty()));
    assert_eq!(whole_tree(&bench.source_path("")), left);
    assert_eq!(whole_tree(&bench.dest_path("")), before);
}

#[test]
fn what_is_like_its_copy_goes() {
    let bench = bench();
    let ran = run(&bench);
    assert_eq!((troubles(&ran), ran.stats.removed, ran.failed), (vec![], 4, false));
    assert_eq!(ran.heard.last().unwrap(), "removed source source/dir");
    assert!(whole_tree(&bench.source_path("")).is_empty());
    assert_eq!(whole_tree(&bench.dest_path("")), TREE);
}

#[test]
fn what_differs_from_its_copy_stays_with_its_directory() {
    let bench = bench();
    fs::write(bench.source_path("dir/file"), "Contents").unwrap();
    let error = r#"not removing "source/dir/file": it is not the same as "dest/dir/file""#;
    leaves(&bench, &["dir/ 750", "dir/file: Contents"], &[error]);
}

#[test]
fn a_link_with_another_text_and_another_kind_of_file_stay() {
    let bench = bench();
    fs::remove_file(bench.dest_path("dir/link")).unwrap();
    symlink("elsewhere", bench.dest_path("dir/link")).unwrap();
    fs::remove_dir(bench.dest_path("dir/empty")).unwrap();
    symlink("/", bench.dest_path("dir/empty")).unwrap();
    let ran = run(&bench);
    assert_eq!(troubles(&ran).len(), 2);
    assert_eq!(whole_tree(&bench.source_path("")), ["dir/ 750", "dir/empty/ 755", "dir/link -> file"]);
}

#[test]
fn what_has_no_copy_stays() {
    let bench = bench();
    fs::remove_file(bench.dest_path("dir/file")).unwrap();
    let error = r#"not removing "source/dir/file": there is no "dest/dir/file""#;
    leaves(&bench, &["dir/ 750", "dir/file: contents"], &[error]);
}

#[test]
fn what_is_its_own_copy_stays() {
    let bench = bench();
    fs::remove_file(bench.dest_path("dir/file")).unwrap();
    fs::hard_link(bench.source_path("dir/file"), bench.dest_path("dir/file")).unwrap();
    let error = r#""source/dir/file" and "dest/dir/file" are the same file"#;
    leaves(&bench, &["dir/ 750", "dir/file: contents"], &[error]);
}

#[test]
fn every_name_of_a_file_goes() {
    let bench = bench();
    for dir in [bench.source_path("dir"), bench.dest_path("dir")] {
        fs::hard_link(dir.join("file"), dir.join("other")).unwrap();
    }
    leaves(&bench, &[], &[]);
}

#[test]
fn what_was_not_to_be_copied_stays_though_a_like_file_is_there() {
    let bench = bench();
    let inode = bench.from("dir/file").inode().unwrap();
    bench.run(|worker| moved::let_stay(worker, &inode, Some(&bench.root()))).says(&[]);
    leaves(&bench, &["dir/ 750", "dir/file: contents"], &[]);
}

#[test]
fn what_a_filter_excludes_stays_with_its_directory_and_is_no_error() {
    let mut bench = bench();
    let choice = Choice { rules: vec![Rule::exclude("/file")], ..Choice::default() };
    bench.plan.filter = Filter::new(choice).unwrap();
    leaves(&bench, &["dir/ 750", "dir/file: contents"], &[]);
}

#[test]
fn a_cache_that_is_left_out_stays_with_its_tag() {
    let mut bench = bench();
    let choice = Choice { exclude_caches: true, ..Choice::default() };
    bench.plan.filter = Filter::new(choice).unwrap();
    for dir in [bench.source_path("dir"), bench.dest_path("dir")] {
        fs::write(dir.join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    }
    let mut whole = TREE.to_vec();
    whole.insert(1, "dir/CACHEDIR.TAG: Signature: 8a477f597d28d172789f06886806bc55");
    leaves(&bench, &whole, &[]);
}

#[test]
fn a_run_that_is_cancelled_removes_nothing() {
    let bench = bench();
    bench.cancel.cancel();
    leaves(&bench, &TREE, &[]);
}

#[test]
fn nothing_goes_once_it_is_not_known_what_has_to_stay() {
    let mut bench = bench();
    let nowhere = Arc::new(fs::File::open("/proc").unwrap().into());
    let dir = DestDir::root_shown_as(nowhere, "/proc/".into()).unwrap();
    bench.services.stays = Stays::without_memory();
    let inode = bench.from("dir").inode().unwrap();
    let ran = bench.run(|worker| {
        for number in 0..1000 {
            let id = FileId::new(inode.id.device(), 1 << 40 | number);
            moved::let_stay(worker, &Inode { id, ..inode }, Some(&dir));
        }
    });
    assert!(ran.failed, "there is a place for everything");
    let ran = run(&bench);
    assert!(ran.failed && troubles(&ran).len() == 1, "{ran:?}");
    assert_eq!(whole_tree(&bench.source_path("")), TREE);
}

#[test]
fn a_file_that_was_written_to_after_it_was_compared_stays() {
    let bench = Bench::new(moving()).source("file", "contents");
    let spot = bench.from("file");
    let inode = spot.inode().unwrap();
    fs::write(bench.source_path("file"), "another").unwrap();
    bench
        .run(|worker| {
            let (open_levels, buffers, operand, blind) = (1, Buffers::new(), Path::new(""), false);
            let mut removal =
                Removal { worker, open_levels, buffers, operand, blind, read_names: Names::read, synced: &[] };
            assert!(matches!(removal.unlink(spot, &inode), Fate::Stays));
        })
        .says(&[r#"error: not removing "file": it has changed while it was being moved"#]);
    assert_eq!(fs::read(bench.source_path("file")).unwrap(), b"another");
}

#[test]
fn a_deep_tree_goes_with_few_descriptors() {
    let mut bench = Bench::new(moving());
    for top in [bench.source_path("dir"), bench.dest_path("dir")] {
        let mut dir = top;
        for _ in 0..40 {
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("file"), "contents").unwrap();
            dir.push("d");
        }
    }
    copy_into(&mut bench, &["dir"]);
    leaves(&bench, &[], &[]);
}

#[test]
fn what_is_seen_in_a_directory_that_something_else_is_put_into_is_that_directory() {
    let bench = Bench::new(moving());
    let [from, to] = [bench.from("."), bench.to(".")].map(|spot| spot.dir().unwrap());
    let seen = |dir, other| bench.run(|worker| is_seen_in(&worker.cx.services.names, dir, other)).value;
    assert_eq!((seen(from, from), seen(from, to)), (Ok(true), Ok(false)));
    assert!(bench.tree().is_empty(), "nothing stays of it");
}

/// Removes what was copied to where only these names are given back, whatever is found by others.
fn run_where_names_are(bench: &Bench, read_names: fn(BorrowedFd<'_>) -> Names) -> Ran<()> {
    bench.run(|worker| {
        let (open_levels, buffers, operand, blind) = (1, Buffers::new(), Path::new(""), false);
        let mut removal = Removal { worker, open_levels, buffers, operand, blind, read_names, synced: &[] };
        removal.remove_operand(0, bench.from("dir"), bench.to("dir"));
    })
}

#[test]
fn of_two_sources_that_have_one_copy_one_stays() {
    let bench = bench();
    // As if upper and lower case were alike at the destination.
    for dir in [bench.source_path("dir"), bench.dest_path("dir")] {
        fs::write(dir.join("FILE"), "contents").unwrap();
    }
    let ran =
        run_where_names_are(&bench, |_| Names::These(["dir", "empty", "file", "link"].map(OsString::from).into()));
    let [error] = troubles(&ran)[..] else { panic!("{ran:?}") };
    assert!(error.contains("FILE") && error.contains("differs in its spelling only"), "{error}");
    assert_eq!(whole_tree(&bench.source_path("")), ["dir/ 750", "dir/FILE: contents"]);
}

#[test]
fn nothing_goes_where_names_are_not_known() {
    let bench = bench();
    let ran = run_where_names_are(&bench, |_| Names::Unknown);
    assert_eq!(troubles(&ran).len(), 3, "{ran:?}");
    assert_eq!(whole_tree(&bench.source_path("")), TREE);
}

#[test]
fn names_are_read_where_they_are_not_known_to_be_exact() {
    let proc = fs::File::open("/proc/self").unwrap();
    let names = Names::read(proc.as_fd());
    assert!(matches!(names, Names::These(_)) && names.have(OsStr::new("status")) && !names.have(OsStr::new("STATUS")));
    assert!(matches!(Names::read(fs::File::open("/dev/shm").unwrap().as_fd()), Names::Exact), "a tmpfs");
}

#[test]
fn an_operand_that_is_copied_into_itself_stays() {
    let mut bench = Bench::new(moving());
    make_dir(bench.dest_path("dir"), 0o750);
    fs::write(bench.dest_path("dir/file"), "contents").unwrap();
    bench.plan.sources = vec![bench.dest_path("").join("dir").into()];
    bench.plan.destination = Destination::Exactly(bench.dest_path("").into());
    let ran = run(&bench);
    let error = r#"error: not removing what is in "dest/dir": "dest/" may be the same directory"#;
    assert!(matches!(troubles(&ran)[..], [said] if said == error) && ran.stats.removed == 0, "{ran:?}");
    assert_eq!(whole_tree(&bench.dest_path("")), ["dir/ 750", "dir/file: contents"]);
}

#[test]
fn slashes_that_are_stripped_for_the_copy_are_stripped_for_the_removal() {
    let mut bench = Bench::new(moving());
    for dir in [bench.source_path(""), bench.dest_path("")] {
        symlink("nowhere", dir.join("link")).unwrap();
    }
    copy_into(&mut bench, &["link/"]);
    bench.plan.strip_trailing_slashes = true;
    leaves(&bench, &[], &[]);
}

#[test]
fn copies_are_synced_one_by_one_where_their_filesystem_was_not() {
    let bench = bench();
    run(&bench);
    assert_eq!(bench.kernel.synced().len(), 1, "the only file");
    let bench = self::bench();
    let device = bench.to(".").inode().unwrap().id.device();
    let ran = alone(&bench, |walker| remove_sources(&mut walker.worker, 1, &[device]));
    assert_eq!((troubles(&ran), bench.kernel.synced()), (vec![], vec![]));
    assert!(whole_tree(&bench.source_path("")).is_empty());
}

#[test]
fn a_source_stays_whose_copy_cannot_be_brought_to_its_device() {
    let mut bench = bench();
    bench.kernel.sync = Some(Errno::IO);
    let error = format!(r#"failed to write "dest/dir/file" to its device: {}"#, Errno::IO);
    leaves(&bench, &["dir/ 750", "dir/file: contents"], &[&error]);
}

#[test]
fn another_operand_of_the_same_name_stays() {
    let bench = bench();
    let other = bench.from("dir/file").inode().unwrap().id;
    bench.services.operands.lock().insert(0, Some(other));
    leaves(&bench, &TREE, &[r#"skipping file "source/dir", as it was replaced while being copied"#]);
    // It was renamed, and something else has its name now.
    bench.services.operands.lock().insert(0, None);
    leaves(&bench, &TREE, &[]);
}
