use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use haul_sys::inode::{DeviceNumber, FileId};

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::decide::Existing;
use crate::plan::Dereference;
use crate::tree::test_support::{at, entered, level_in, make_dir, mode_of, plan, top_level, troubles, whole_tree};
use crate::work::entry::Level;

/// A directory of the source, `a`, of which `b` will be the copy. That is closed to others until it has its owner.
fn bench() -> Bench {
    let mut bench = Bench::new(plan());
    bench.plan.preserve.ownership = true;
    make_dir(bench.source_path("a"), 0o750);
    bench
}

fn new() -> DestState {
    DestState { new: true, ..DestState::default() }
}

/// Enters `a` and `b`, which the user has named.
fn enter(bench: &Bench, state: &DestState, made: Option<u32>) -> Ran<Option<Box<Frame>>> {
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    let level = Level { made, ..top_level(&root) };
    bench.run(|worker| enter_directory(worker, &at(&level, subject), state))
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let bench = bench();
    let ran = enter(&bench, &new(), None);
    let frame = ran.value.as_ref().expect("it is entered");
    assert!(frame.place.created && frame.place.fresh && !frame.finished && !frame.through_link);
    let begun = r#"Copying { source: "a", dest: "b", backup: None, kind: Directory, size: 0, reason: None }"#;
    assert_eq!(ran.heard, [begun]);
    assert_eq!((ran.stats.directories, bench.tree()), (1, vec!["b/".into()]));
    assert_eq!(mode_of(bench.dest_path("b")) & 0o077, 0);
    assert_eq!(frame.place.dest_inode.id, bench.to("b").inode().unwrap().id);
}

#[test]
fn a_directory_that_is_there_keeps_its_mode() {
    let bench = bench();
    make_dir(bench.dest_path("b"), 0o710);
    let ran = enter(&bench, &bench.state("b"), None);
    let frame = ran.value.as_ref().expect("it is entered");
    assert!(!frame.place.created && !frame.place.fresh);
    assert_eq!((mode_of(bench.dest_path("b")), ran.stats.directories), (0o710, 1));
    ran.says(&[]);
}

#[test]
fn a_directory_that_is_there_is_closed_to_whom_its_source_is() {
    for (found, filled) in [(0o711, 0o710), (0o2777, 0o2750), (0o577, 0o550), (0o1700, 0o1700)] {
        let bench = bench();
        make_dir(bench.dest_path("b"), found);
        let frame = enter(&bench, &bench.state("b"), None).value.expect("it is entered");
        assert_eq!(mode_of(bench.dest_path("b")), filled, "{found:o}");
        bench.run(|worker| directories::finish_directory(worker, &frame.directory())).says(&[]);
        let special = found & 0o7000;
        assert_eq!(mode_of(bench.dest_path("b")), 0o750 | special, "{found:o}");
    }
}

#[test]
fn a_directory_keeps_a_wider_mode_where_modes_are_not_preserved() {
    let mut bench = bench();
    bench.plan.preserve.mode = ModeRule::Default;
    make_dir(bench.dest_path("b"), 0o777);
    enter(&bench, &bench.state("b"), None).value.expect("it is entered");
    assert_eq!(mode_of(bench.dest_path("b")), 0o777);
}

#[test]
fn a_directory_that_changes_hands_is_filled_for_its_owner_alone() {
    let bench = bench();
    make_dir(bench.dest_path("b"), 0o2777);
    if chown(bench.source_path("a"), Some(1001), Some(1001)).is_err() {
        return haul_testbed::skip("not root");
    }
    enter(&bench, &bench.state("b"), None).value.expect("it is entered");
    assert_eq!(mode_of(bench.dest_path("b")), 0o2700);
}

#[test]
fn a_directory_made_ahead_is_taken_as_it_is() {
    let bench = bench();
    make_dir(bench.dest_path("b"), 0o700);
    let ahead = bench.to("b").inode().unwrap().id;
    // That something is in it shows that it was not made again.
    fs::write(bench.dest_path("b/mark"), "").unwrap();
    let ran = enter(&bench, &new(), Some(0o700));
    assert_eq!(troubles(&ran), [""; 0]);
    let frame = ran.value.expect("it is entered");
    assert!(frame.place.fresh && frame.place.dest_inode.id == ahead);
    assert_eq!(whole_tree(&bench.dest_path("")), ["b/ 700", "b/mark: "]);
}

#[test]
fn a_directory_made_ahead_with_another_mode_is_made_again() {
    let bench = bench();
    make_dir(bench.dest_path("b"), 0o755);
    let ran = enter(&bench, &new(), Some(0o755));
    assert_eq!(troubles(&ran), [""; 0]);
    assert!(ran.value.expect("it is entered").place.fresh);
    assert_eq!(mode_of(bench.dest_path("b")), 0o700);
}

#[test]
fn a_directory_made_ahead_and_removed_since_is_made_again() {
    let bench = bench();
    let ran = enter(&bench, &new(), Some(0o700));
    assert_eq!(troubles(&ran), [""; 0]);
    assert!(ran.value.is_some());
    assert_eq!(bench.tree(), ["b/"]);
}

#[test]
fn what_stands_in_a_directorys_way_is_reported() {
    let bench = bench().dest("b", "came meanwhile");
    let ran = enter(&bench, &new(), None);
    assert!(ran.value.is_none());
    ran.says(&[&format!(r#"error: cannot create directory "b": {}"#, Errno::EXIST)]);
}

#[test]
fn a_source_that_was_replaced_meanwhile_is_not_entered() {
    let bench = bench();
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    fs::rename(bench.source_path("a"), bench.source_path("moved")).unwrap();
    make_dir(bench.source_path("a"), 0o750);
    let ran = bench.run(|worker| enter_directory(worker, &at(&top_level(&root), subject), &new()));
    assert!(ran.value.is_none());
    assert_eq!(troubles(&ran), [r#"error: skipping file "a", as it was replaced while being copied"#]);
}

#[test]
fn a_source_that_became_a_link_is_not_followed() {
    let bench = bench();
    let (subject, root) = (bench.subject("a", "b"), bench.root());
    fs::rename(bench.source_path("a"), bench.source_path("moved")).unwrap();
    symlink("moved", bench.source_path("a")).unwrap();
    let ran = bench.run(|worker| enter_directory(worker, &at(&top_level(&root), subject), &new()));
    assert!(ran.value.is_none());
    assert_eq!(troubles(&ran).len(), 1, "{:?}", ran.heard);
}

#[test]
fn a_destination_that_was_replaced_meanwhile_is_not_entered() {
    let bench = bench();
    make_dir(bench.dest_path("b"), 0o711);
    let state = bench.state("b");
    fs::rename(bench.dest_path("b"), bench.dest_path("moved")).unwrap();
    make_dir(bench.dest_path("b"), 0o711);
    let ran = enter(&bench, &state, None);
    assert!(ran.value.is_none());
    ran.says(&[&format!(r#"error: cannot stat "b": {}"#, Errno::STALE)]);
}

#[test]
fn a_link_back_into_what_is_copied_is_cyclic() {
    let bench = bench();
    let subject = bench.subject("a", "b");
    let root = bench.root();
    let within = root.below("x".as_ref(), root.id, subject.inode.id);
    let ran = bench.run(|worker| enter_directory(worker, &at(&top_level(&within), subject), &new()));
    assert!(ran.value.is_none());
    ran.says(&[r#"error: cannot copy cyclic symbolic link "a""#]);
    assert!(bench.tree().is_empty());
}

#[test]
fn the_contents_of_another_filesystem_are_left_if_asked() {
    let mut bench = bench();
    bench.plan.one_file_system = true;
    let mut above = entered(&bench);
    let place = Arc::get_mut(&mut above.place).unwrap();
    place.source_inode.id = FileId::new(DeviceNumber { major: 7, minor: 7 }, 1);
    let (subject, ancestors) = (bench.subject("a", "b"), [above]);
    let ran = bench.run(|worker| enter_directory(worker, &at(&level_in(&ancestors), subject), &new()));
    let frame = ran.value.as_ref().expect("the directory itself is copied");
    assert!(frame.finished && frame.place.source_path_only);
    assert_eq!((troubles(&ran), bench.tree()), (vec![], vec!["b/".to_owned()]));
}

#[test]
fn a_directory_knows_that_it_is_behind_a_link() {
    let mut bench = bench();
    bench.plan.dereference = Dereference::Always;
    symlink("a", bench.source_path("link")).unwrap();
    let root = bench.root();
    let inode = bench.from("link").inode_following().unwrap();
    let subject = Subject { inode, dereference: Dereference::Always, ..bench.subject("link", "b") };
    let ran = bench.run(|worker| enter_directory(worker, &at(&top_level(&root), subject), &new()));
    assert!(ran.value.expect("it is entered").through_link);
}

#[test]
fn a_followed_link_to_a_directory_is_entered() {
    let bench = bench().link("b", "far");
    make_dir(bench.dest_path("far"), 0o711);
    let [entry, target] = [bench.to("b").inode().unwrap(), bench.to("far").inode().unwrap()];
    let state =
        DestState { existing: Some(Box::new(Existing { entry, target, is_dot: false })), ..DestState::default() };
    let frame = enter(&bench, &state, None).value.expect("it is entered");
    assert!(frame.through_link && !frame.place.created);
    assert_eq!(frame.place.dest_inode.id, target.id);
}

#[test]
fn a_made_directory_is_remembered_for_later_operands() {
    let bench = bench();
    enter(&bench, &new(), None).value.expect("it is entered");
    let made = bench.services.links.get((&bench.to("b").inode().unwrap()).into()).unwrap();
    assert_eq!(made.expect("it is remembered").name, "b");
    assert_eq!(fs::metadata(bench.dest_path("b")).unwrap().nlink(), bench.to("b").inode().unwrap().links.into());
}

#[test]
fn a_directory_of_an_earlier_run_hands_on_its_group_only_if_it_did_then() {
    for (source, above, filled) in [(0o2750, 0o755, 0o700), (0o2750, 0o2755, 0o2700), (0o750, 0o2755, 0o2700)] {
        let mut bench = bench();
        fs::set_permissions(bench.source_path("a"), fs::Permissions::from_mode(source)).unwrap();
        bench.open_journal();
        fs::set_permissions(bench.dest_path(""), fs::Permissions::from_mode(above)).unwrap();
        make_dir(bench.dest_path("b"), 0o2750);
        let made = bench.to("b").inode().unwrap();
        bench.run(|worker| resume::promise_directory(worker, &made)).says(&[]);
        bench.open_journal();
        let frame = enter(&bench, &bench.state("b"), None).value.expect("it is entered");
        assert!(frame.place.created && !frame.place.fresh);
        assert_eq!(mode_of(bench.dest_path("b")), filled, "{source:o} {above:o}");
        bench.run(|worker| directories::finish_directory(worker, &frame.directory())).says(&[]);
        assert_eq!(mode_of(bench.dest_path("b")), 0o2750, "{source:o} {above:o}");
    }
}
