use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use haul_sys::inode::{Inode, Kind, Time};

use super::*;
use crate::context::test_support::{Bench, Ran, tree};
use crate::list::{Entry, FileList};
use crate::plan::{Overwrite, Plan};
use crate::sources::selection::Selection;
use crate::tree::test_support::{alone, entered, found, make_dir, plan, top, troubles, whole_tree};

/// Copies what is in the source, with so many levels open.
fn walk(bench: &Bench, frame: Frame, open_levels: usize) -> Ran<()> {
    alone(bench, |walker| {
        walker.open_levels = open_levels;
        walk_tree(walker, frame, &mut top());
    })
}

/// `a/b/c/...`, with a file at the end of the way and beside each directory.
fn deep(bench: &Bench, depth: usize) {
    let mut path = bench.source_path("");
    for level in 0..depth {
        path.push("d");
        make_dir(&path, 0o700);
        fs::write(path.join("file"), level.to_string()).unwrap();
    }
}

#[test]
fn any_depth_is_copied_with_few_open_levels() {
    for open_levels in [1, 2, 7, 100] {
        let bench = Bench::new(plan());
        deep(&bench, 30);
        let ran = walk(&bench, entered(&bench), open_levels);
        assert_eq!(troubles(&ran), [""; 0]);
        assert_eq!(whole_tree(&bench.dest_path("")), whole_tree(&bench.source_path("")), "{open_levels}");
        assert_eq!((ran.stats.directories, ran.stats.regular), (30, 30));
    }
}

#[test]
fn far_ancestors_are_closed_and_opened_again() {
    let bench = Bench::new(plan());
    make_dir(bench.source_path("d"), 0o700);
    let mut descent = Descent::new(1);
    descent.enter(entered(&bench));
    alone(&bench, |walker| {
        let listed = Listed { name: "d".into(), kind: None, entry: None, made: None };
        let child = visit_child(walker, descent.levels(), &listed, &mut top());
        descent.enter(*child.unwrap());
    });
    assert_eq!([0, 1].map(|level| descent.levels()[level].sides.is_some()), [false, true]);
    descent.leave().unwrap().1.unwrap();
    let [frame] = descent.levels() else { panic!("one level") };
    let [source, dest] = frame.sides.as_ref().unwrap().both().map(|dir| Inode::of(dir).unwrap().id);
    assert_eq!([source, dest], [frame.place.source_inode.id, frame.place.dest_inode.id]);
}

#[test]
fn an_ancestor_of_what_is_behind_a_link_stays_open() {
    let bench = Bench::new(plan());
    let mut descent = Descent::new(1);
    descent.enter(entered(&bench));
    descent.enter(Frame { through_link: true, ..entered(&bench) });
    assert!(descent.levels()[0].sides.is_some());
}

/// Copies `a/b/c` and `a/b/e`, with a file in each. The one that comes first is moved away while its file is copied, on this
/// side; where it goes to a directory of the other one's name is already, with a secret in it. The two names, in this order.
fn moved_away(bench: &mut Bench, side: &'static str) -> [&'static str; 2] {
    for name in ["c", "e"] {
        fs::create_dir_all(bench.source_path("a/b").join(name)).unwrap();
        fs::write(bench.source_path("a/b").join(name).join("file"), "contents").unwrap();
    }
    let moved = AtomicBool::new(false);
    bench.before_data = Some(Box::new(move |path| {
        if moved.swap(true, Ordering::Relaxed) {
            return;
        }
        let [first, other] = in_order(path);
        fs::create_dir_all(path.join("elsewhere").join(other)).unwrap();
        fs::write(path.join("elsewhere").join(other).join("secret"), "").unwrap();
        fs::rename(path.join(side).join("a/b").join(first), path.join("elsewhere").join(first)).unwrap();
    }));
    let ran = walk(bench, entered(bench), 1);
    assert_eq!(troubles(&ran)[0], format!(r#"error: directory "{side}/a/b" was moved while it was being copied"#));
    assert!(ran.failed);
    let elsewhere = |name: &str| bench.path().join("elsewhere").join(name).join("file").exists();
    if elsewhere("c") { ["c", "e"] } else { ["e", "c"] }
}

/// Only the first one was made when its file is copied.
fn in_order(path: &Path) -> [&'static str; 2] {
    if path.join("dest/a/b/c").exists() { ["c", "e"] } else { ["e", "c"] }
}

#[test]
fn nothing_is_read_where_a_source_was_moved_to() {
    let mut bench = Bench::new(plan());
    let [first, _] = moved_away(&mut bench, "source");
    let copied = whole_tree(&bench.dest_path("a/b"));
    assert_eq!(copied[1..], [format!("{first}/file: contents")], "{copied:?}");
}

#[test]
fn nothing_is_written_where_a_destination_was_moved_to() {
    let mut bench = Bench::new(plan());
    let [_, other] = moved_away(&mut bench, "dest");
    let there = tree(&bench.path().join("elsewhere").join(other));
    assert_eq!(there, ["secret: "]);
    assert!(tree(&bench.dest_path("a/b")).is_empty());
}

#[test]
fn making_files_in_a_directory_leaves_its_times() {
    let mut bench = Bench::new(plan());
    bench.plan.preserve.timestamps = true;
    make_dir(bench.source_path("d"), 0o755);
    fs::write(bench.source_path("d/file"), "").unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    for dir in ["d", ""] {
        File::open(bench.source_path(dir)).unwrap().set_modified(long_ago).unwrap();
    }
    assert_eq!(troubles(&walk(&bench, entered(&bench), 9)), [""; 0]);
    assert_eq!(["d", ""].map(|dir| fs::metadata(bench.dest_path(dir)).unwrap().mtime()), [1000; 2]);
}

#[test]
fn what_stands_in_a_directory_that_was_there_is_met() {
    let bench = Bench::new(Plan { overwrite: Overwrite::Skip, ..plan() });
    let bench = bench.source("a", "new").source("b", "new").dest("a", "old");
    let ran = walk(&bench, found(&bench), 9);
    assert_eq!((troubles(&ran), ran.stats.skipped), (vec![], 1));
    assert_eq!(bench.tree(), ["a: old", "b: new"]);
}

#[test]
fn nothing_more_of_an_operand_in_itself_is_copied() {
    let bench = Bench::new(plan()).source("a", "new");
    alone(&bench, |walker| walk_tree(walker, entered(&bench), &mut Top { into_itself: true, ..top() })).says(&[]);
    assert!(bench.tree().is_empty());
}

#[test]
fn a_directory_whose_contents_are_not_wanted_stays_empty() {
    let bench = Bench::new(plan()).source("a", "new");
    let mut frame = entered(&bench);
    frame.finished = true;
    walk(&bench, frame, 9).says(&[]);
    assert!(bench.tree().is_empty());
}

#[test]
fn only_listed_names_are_copied() {
    let mut bench = Bench::new(plan()).source("a", "new").source("b", "new").source("c", "new");
    let never = Time { seconds: 0, nanoseconds: 0 };
    let entry = |inode: &Inode| Entry {
        kind: inode.kind,
        size: inode.size,
        modified: inode.modified,
        changed: inode.changed,
        id: None,
    };
    let mut list = FileList::default();
    list.add_operand("source".as_ref(), None);
    let root = Entry { kind: Kind::Directory, size: 0, modified: never, changed: never, id: None };
    let root = list.add_root(&root).unwrap();
    for name in ["a", "c"] {
        list.add(root, name.as_ref(), &entry(&bench.from(name).inode().unwrap())).unwrap();
    }
    let list = Arc::new(list);
    let (first, next) = (vec![1, 0, 0], vec![0, 2, 0]);
    bench.services.selection = Some(Selection {
        list,
        shards: None,
        roots: vec![Some(0)],
        first,
        next,
        filtered: Default::default(),
        missing: 0,
    });
    let mut frame = entered(&bench);
    Arc::get_mut(&mut frame.place).unwrap().listed = Some(0);
    frame.listing = Listing::out_of_list(Some(1));
    assert_eq!(troubles(&walk(&bench, frame, 9)), [""; 0]);
    assert_eq!(bench.tree(), ["a: new", "c: new"]);
}
