//! A tree that is copied as a snapshot (`--clone-tree`).
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use haul_testbed::{Bed, Command, Fs, create_painted, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");
/// The inode of the directory that a subvolume is.
const SUBVOLUME: u64 = 256;

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HAUL).arg0("haul").args(arguments).current_dir(dir).env("LC_ALL", "C").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(dir: &Path, arguments: &[&str]) {
    let output = haul(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
}

fn assert_same_trees(a: &Path, b: &Path) {
    let options = ["-naHAXSi", "--checksum", "--delete"];
    let compared = Command::new("rsync").args(options).arg(a.join("")).arg(b.join("")).output().unwrap();
    assert!(compared.status.success(), "{compared:?}");
    assert_eq!(String::from_utf8_lossy(&compared.stdout), "");
}

fn subvolume(path: &Path) {
    let made = Command::new("btrfs").args(["subvolume", "create"]).arg(path).output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
}

/// A new btrfs with a subvolume in which there is one of everything; `None` after a skip.
fn scene(bed: &Bed) -> Option<PathBuf> {
    let place = bed.mount(Fs::Btrfs)?;
    let tree = place.join("tree");
    subvolume(&tree);
    fs::create_dir(tree.join("dir")).unwrap();
    create_painted(tree.join("dir/large"), 3 << 20);
    fs::write(tree.join("small"), "some words").unwrap();
    fs::hard_link(tree.join("small"), tree.join("dir/linked")).unwrap();
    symlink("small", tree.join("link")).unwrap();
    Some(place)
}

fn is_subvolume(path: &Path) -> bool {
    fs::metadata(path).unwrap().ino() == SUBVOLUME
}

#[test]
fn a_subvolume_is_copied_as_a_snapshot_with_all_that_is_in_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    for (option, name) in [("--clone-tree", "a"), ("--clone-tree=auto", "b")] {
        succeeds(&place, &["-aT", option, "tree", name]);
        assert!(is_subvolume(&place.join(name)), "{option}");
        assert_same_trees(&place.join("tree"), &place.join(name));
    }
    fs::write(place.join("a/small"), "others").unwrap();
    assert_eq!(fs::read_to_string(place.join("tree/small")).unwrap(), "some words", "the copy is its own");
}

#[test]
fn a_snapshot_goes_into_a_directory_as_a_copy_does() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    fs::create_dir(place.join("into")).unwrap();
    succeeds(&place, &["-a", "--clone-tree", "tree/", "into"]);
    assert!(is_subvolume(&place.join("into/tree")));
    assert_same_trees(&place.join("tree"), &place.join("into/tree"));
}

#[test]
fn without_the_option_a_subvolume_is_copied_entry_by_entry() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    succeeds(&place, &["-aT", "tree", "copy"]);
    assert!(!is_subvolume(&place.join("copy")));
    assert_same_trees(&place.join("tree"), &place.join("copy"));
}

/// With auto the copy is made entry by entry, and with always it is an error that says why, and nothing is made.
fn assert_not_cloned(place: &Path, more: &[&str], why: &str) {
    let arguments = |option, copy| [&["-aT", option][..], more, &["tree", copy][..]].concat();
    let refused = haul(place, &arguments("--clone-tree=always", "refused"));
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains(&format!("cannot clone the tree 'tree' to 'refused': {why}")),
        "{}",
        said(&refused)
    );
    assert!(!place.join("refused").exists());
    succeeds(place, &arguments("--clone-tree=auto", "copied"));
    assert!(!is_subvolume(&place.join("copied")));
}

#[test]
fn what_is_in_another_subvolume_is_not_lost() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    subvolume(&place.join("tree/dir/inner"));
    fs::write(place.join("tree/dir/inner/file"), "in it").unwrap();
    assert_not_cloned(&place, &[], "there are other subvolumes in it");
    assert_same_trees(&place.join("tree"), &place.join("copied"));
}

#[test]
fn what_is_mounted_in_a_subvolume_is_not_lost() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    let inner = place.join("tree/dir/inner");
    fs::create_dir(&inner).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&inner).output().unwrap();
    assert!(mounted.status.success(), "{}", said(&mounted));
    fs::write(inner.join("file"), "in it").unwrap();
    assert_not_cloned(&place, &[], "something is mounted in it");
    assert_eq!(fs::read_to_string(place.join("copied/dir/inner/file")).unwrap(), "in it");
    assert!(Command::new("umount").arg(&inner).status().unwrap().success());
}

#[test]
fn what_a_filter_excludes_is_in_no_snapshot() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    assert_not_cloned(&place, &["--exclude=small"], "not everything in it is wanted");
    assert!(place.join("copied/link").is_symlink() && !place.join("copied/small").exists());
}

#[test]
fn an_existing_destination_is_no_snapshot_afterwards() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    fs::create_dir(place.join("old")).unwrap();
    fs::write(place.join("old/own"), "stays").unwrap();
    let refused = haul(&place, &["-aT", "--clone-tree", "tree", "old"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("something stands at the destination"), "{}", said(&refused));
    assert!(!place.join("old/small").exists());
    succeeds(&place, &["-aT", "--clone-tree=auto", "tree", "old"]);
    assert_eq!(fs::read_to_string(place.join("old/own")).unwrap(), "stays");
    assert_eq!(fs::read_to_string(place.join("old/small")).unwrap(), "some words");
}

#[test]
fn a_directory_that_is_no_subvolume_is_copied_entry_by_entry() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    fs::rename(place.join("tree"), place.join("other")).unwrap();
    succeeds(&place, &["-aT", "other", "tree"]);
    assert_not_cloned(&place, &[], "it is no subvolume of btrfs");
    assert_same_trees(&place.join("tree"), &place.join("copied"));
}

#[test]
fn a_dry_run_foresees_a_snapshot_or_why_there_is_none() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = scene(&bed) else { return };
    let dry = |arguments: &[&str]| {
        let output = haul(&place, &[&["-aT", "--dry-run"], arguments].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
    };
    let (status, lines, _) = dry(&["--clone-tree=auto", "tree", "new"]);
    assert_eq!(lines, "clone tree 'tree' -> 'new'\ndry run: clone 1 tree; nothing was written\n");
    assert_eq!(status, Some(0));
    assert!(!place.join("new").exists());
    let other = temp_dir();
    let elsewhere = other.path().join("new");
    let elsewhere = elsewhere.to_str().unwrap();
    let (status, lines, _) = dry(&["--clone-tree=auto", "tree", elsewhere]);
    assert!(status == Some(0) && lines.contains("copy 'tree/dir/large'"), "{lines}");
    let (status, _, foreseen) = dry(&["--clone-tree=always", "tree", elsewhere]);
    let done = haul(&place, &["-aT", "--clone-tree=always", "tree", elsewhere]);
    assert_eq!((status, foreseen), (done.status.code(), said(&done)));
    assert_eq!(status, Some(1));
}
