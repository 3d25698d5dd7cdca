//! `--resume`: what the second run of a command makes of the first.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, SystemTime};

use haul_testbed::{Bed, Fs, assert_same_contents, create_painted, temp_dir};

use super::{assert_same_trees, assert_tidy, entries, haul, make_tree, said, succeeds};

/// The journals in a directory.
pub fn journals(dir: &Path) -> Vec<PathBuf> {
    let mut found = entries(dir);
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".haul-resume-")));
    found
}

/// A number of the statistics.
pub fn counted(output: &Output, name: &str) -> u64 {
    let text = said(output);
    let line = text.lines().find(|line| line.contains(&format!("\"{name}\":"))).expect("statistics");
    let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {line}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Waits until nothing below was changed just now: a change from then on can be seen by its time.
pub fn let_settle(dir: &Path) {
    for path in entries(dir) {
        let found = fs::symlink_metadata(path).unwrap();
        let changed = Duration::new(found.ctime().try_into().unwrap(), found.ctime_nsec().try_into().unwrap());
        while SystemTime::UNIX_EPOCH.elapsed().unwrap() < changed + Duration::from_millis(30) {
            thread::yield_now();
        }
    }
}

/// Starts a copy of `tree` that fails for one file, whose name is taken by a directory; everything else is finished.
pub fn interrupted(dir: &Path, options: &[&str]) {
    fs::create_dir_all(dir.join("dest/tree/small")).unwrap();
    let_settle(&dir.join("tree"));
    let arguments = [&["--resume"], options, &["tree", "dest/"]].concat();
    let output = haul(dir, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("incomplete; run the same command again to resume"), "{}", said(&output));
    assert_eq!(journals(&dir.join("dest")).len(), 1);
    fs::remove_dir(dir.join("dest/tree/small")).unwrap();
}

/// The same command again, which succeeds and reports in numbers what it did.
pub fn resumed(dir: &Path, options: &[&str]) -> Output {
    let output = succeeds(dir, &[&["--resume", "--stats=json"], options, &["tree", "dest/"]].concat());
    assert_eq!(journals(&dir.join("dest")), [] as [PathBuf; 0]);
    assert_tidy(&dir.join("dest"));
    output
}

#[test]
fn finished_files_are_not_copied_again_and_the_journal_goes_when_all_is_done() {
    let bed = Bed::new();
    let places = [Fs::Ext4, Fs::Xfs, Fs::Btrfs, Fs::Tmpfs].map(|kind| bed.as_ref().and_then(|bed| bed.mount(kind)));
    let own = temp_dir();
    for place in places.into_iter().flatten().chain([own.path().to_owned()]) {
        make_tree(&place.join("tree"));
        interrupted(&place, &["-a"]);
        let output = resumed(&place, &["-a"]);
        // All but the one that failed, and other names of one of them.
        assert_eq!(counted(&output, "resumed"), 55, "{place:?} {}", said(&output));
        assert_eq!(counted(&output, "regular"), 1, "{place:?} {}", said(&output));
        assert_same_trees(&place.join("tree"), &place.join("dest/tree"));
    }
}

#[test]
fn a_source_that_has_changed_is_copied_anew() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    interrupted(dir.path(), &["-a"]);
    let at = |name: &str| dir.path().join("tree").join(name);
    // Its size and its time stay the same.
    let before = fs::metadata(at("inner/some")).unwrap();
    let mut text = fs::read(at("inner/some")).unwrap();
    text[1000] ^= 1;
    fs::write(at("inner/some"), text).unwrap();
    File::options().write(true).open(at("inner/some")).unwrap().set_modified(before.modified().unwrap()).unwrap();
    // Only an attribute.
    fs::set_permissions(at("inner/file7"), Permissions::from_mode(0o640)).unwrap();
    let output = resumed(dir.path(), &["-a"]);
    assert_eq!(counted(&output, "regular"), 3, "{}", said(&output));
    assert_same_trees(&dir.path().join("tree"), &dir.path().join("dest/tree"));
}

#[test]
fn a_copy_that_has_changed_is_made_anew() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    interrupted(dir.path(), &["-a"]);
    let at = |name: &str| dir.path().join("dest/tree").join(name);
    fs::write(at("inner/some"), "something else").unwrap();
    fs::remove_file(at("inner/file7")).unwrap();
    // Another file by the same name, of the same size and with the same time.
    let time = fs::metadata(at("inner/file8")).unwrap().modified().unwrap();
    fs::rename(at("inner/file8"), dir.path().join("aside")).unwrap();
    fs::write(at("inner/file8"), "x".repeat(16)).unwrap();
    File::options().write(true).open(at("inner/file8")).unwrap().set_modified(time).unwrap();
    let output = resumed(dir.path(), &["-a"]);
    assert_eq!(counted(&output, "regular"), 4, "{}", said(&output));
    assert_same_trees(&dir.path().join("tree"), &dir.path().join("dest/tree"));
}

#[test]
fn names_of_one_file_are_names_of_one_file_after_two_runs() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    interrupted(dir.path(), &["-a"]);
    let at = |name: &str| dir.path().join("dest/tree").join(name);
    // One name is missing, another is a file of its own now.
    fs::remove_file(at("one")).unwrap();
    fs::remove_file(at("inner/two")).unwrap();
    fs::write(at("inner/two"), "linked").unwrap();
    resumed(dir.path(), &["-a"]);
    let inodes = ["one", "inner/two", "inner/deeper/three"].map(|name| fs::metadata(at(name)).unwrap().ino());
    assert_eq!(inodes, [inodes[0]; 3]);
    assert_same_trees(&dir.path().join("tree"), &dir.path().join("dest/tree"));
}

#[test]
fn a_new_destination_is_completed_and_not_copied_into() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    let at = |name: &str| dir.path().join(name);
    // A name that is too long there, but not in the source.
    let limited = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    fs::create_dir(at("tree").join("d".repeat(200))).unwrap();
    fs::write(at("tree").join(&limited), "text").unwrap();
    // The source goes away in the middle: a directory that cannot be read as it was.
    fs::rename(at("tree/inner"), at("inner")).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", at("tree/zmem")).unwrap();
    let output = haul(dir.path(), &["--resume", "-rLT", "tree", "dest"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(journals(dir.path()).len(), 1);
    fs::remove_file(at("tree/zmem")).unwrap();
    fs::remove_file(at("tree/dangling")).unwrap();
    fs::remove_file(at("tree/fifo")).unwrap();
    fs::rename(at("inner"), at("tree/inner")).unwrap();
    succeeds(dir.path(), &["--resume", "-rLT", "tree", "dest"]);
    assert!(!at("dest/tree").exists());
    assert_same_contents(at("tree/inner/some"), at("dest/inner/some"));
    assert_tidy(dir.path());
}

#[test]
fn a_full_disk_is_gone_on_from_when_there_is_room_again() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.small(Fs::Ext4, 400 << 20) else { return };
    let dir = temp_dir();
    fs::create_dir(dir.path().join("tree")).unwrap();
    create_painted(dir.path().join("tree/large"), 300 << 20);
    let_settle(dir.path());
    fs::write(dir.path().join("tree/after"), "small").unwrap();
    let ballast = place.join("ballast");
    rustix::fs::fallocate(File::create(&ballast).unwrap(), rustix::fs::FallocateFlags::empty(), 0, 150 << 20).unwrap();
    let dest = place.join("dest");
    let arguments = ["--resume", "--stats=json", "-aT", "tree", dest.to_str().unwrap()];
    let output = haul(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("No space left on device"), "{}", said(&output));
    assert!(!dest.join("large").exists());
    fs::remove_file(&ballast).unwrap();
    let output = succeeds(dir.path(), &arguments);
    assert!(counted(&output, "resumed_bytes") >= 64 << 20, "{}", said(&output));
    assert_same_trees(&dir.path().join("tree"), &dest);
    assert_tidy(&place);
}

#[test]
fn digests_of_finished_files_are_reported_again() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    for algorithm in ["blake3", "md5"] {
        let options = ["-a", &format!("--checksum={algorithm}"), "--digests=list"];
        interrupted(dir.path(), &options);
        let output = resumed(dir.path(), &options);
        assert_eq!(counted(&output, "resumed"), 55, "{}", said(&output));
        let check = if algorithm == "md5" { "md5sum" } else { "b3sum" };
        super::run("sh", &["-c", &format!("cd '{}' && {check} -c list > out", dir.path().display())]);
        // Each file once, whatever names it has besides.
        assert_eq!(fs::read_to_string(dir.path().join("list")).unwrap().lines().count(), 56);
        fs::remove_dir_all(dir.path().join("dest")).unwrap();
    }
}

#[test]
fn a_command_that_is_not_the_same_begins_anew() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    interrupted(dir.path(), &["-a"]);
    let output = succeeds(dir.path(), &["--resume", "--stats=json", "-r", "tree", "dest/"]);
    assert_eq!(counted(&output, "resumed"), 0, "{}", said(&output));
    assert_eq!(journals(&dir.path().join("dest")).len(), 1, "that of the other command stays");
    let output = resumed(dir.path(), &["-a", "--jobs=3", "--engine=read-write", "--limit=1G"]);
    assert_eq!(counted(&output, "resumed"), 0, "its copies were replaced: {}", said(&output));
}

#[test]
fn how_fast_a_command_goes_does_not_make_it_another() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    interrupted(dir.path(), &["-a"]);
    let output = resumed(dir.path(), &["-a", "--jobs=3", "--engine=read-write", "--limit=1G", "--cache=keep"]);
    assert_eq!(counted(&output, "resumed"), 55, "{}", said(&output));
}

#[test]
fn what_cannot_be_resumed_is_refused_before_anything_is_written() {
    let dir = temp_dir();
    fs::write(dir.path().join("a"), "text").unwrap();
    for (option, why) in [
        ("--backup=numbered", "--resume does not go with --backup: the backup of the first run would be lost"),
        ("--link", "--resume does not go with --link and --symbolic-link, which copy nothing"),
        ("--update=none-fail", "--resume does not go with --update=none-fail: what the first run made is there"),
    ] {
        let output = haul(dir.path(), &["--resume", option, "-T", "a", "b"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).starts_with(&format!("haul: {why}\n")), "{}", said(&output));
        assert_eq!(entries(dir.path()).len(), 1);
    }
}

#[test]
fn where_no_journal_can_be_kept_nothing_is_copied() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    make_tree(&at("tree"));
    interrupted(dir.path(), &["-a"]);
    let journal = journals(&at("dest")).remove(0);
    let held = File::open(&journal).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = haul(dir.path(), &["--resume", "-a", "tree", "dest/"]);
    assert_eq!(output.status.code(), Some(1));
    let name = journal.file_name().unwrap().to_str().unwrap();
    let busy = format!("haul: another run of this command is still at work: it has the journal 'dest/{name}'\n");
    assert_eq!(said(&output), busy);
    drop(held);
    fs::remove_file(&journal).unwrap();
    fs::write(at("precious"), "text").unwrap();
    std::os::unix::fs::symlink(at("precious"), &journal).unwrap();
    let output = haul(dir.path(), &["--resume", "-a", "tree", "dest/"]);
    let foreign =
        format!("haul: will not use 'dest/{name}' as a journal: it is not a file of yours with a single name\n");
    assert_eq!(said(&output), foreign);
    assert_eq!(fs::read(at("precious")).unwrap(), b"text");
    assert!(!at("dest/tree/small").exists());
}

#[test]
fn a_damaged_journal_costs_time_and_nothing_else() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    let mut resumed_files = Vec::new();
    for at in [70, 700, 3000] {
        interrupted(dir.path(), &["-a"]);
        let journal = journals(&dir.path().join("dest")).remove(0);
        let mut bytes = fs::read(&journal).unwrap();
        assert!(bytes.len() > 3000);
        bytes[at] ^= 0x10;
        fs::write(&journal, bytes).unwrap();
        let output = resumed(dir.path(), &["-a"]);
        resumed_files.push(counted(&output, "resumed"));
        assert_same_trees(&dir.path().join("tree"), &dir.path().join("dest/tree"));
        fs::remove_dir_all(dir.path().join("dest")).unwrap();
    }
    assert!(resumed_files.is_sorted() && resumed_files[0] < 3 && resumed_files[2] > 30, "{resumed_files:?}");
}

#[test]
fn a_run_that_did_nothing_leaves_no_journal() {
    let dir = temp_dir();
    let output = haul(dir.path(), &["--resume", "-aT", "missing", "dest"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(entries(dir.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_source_that_changes_twice_within_a_tick_of_the_clock_is_copied_anew() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("tree/blocked")).unwrap();
    fs::create_dir_all(at("dest/tree")).unwrap();
    fs::write(at("dest/tree/blocked"), "in the way").unwrap();
    // Too fresh to be distinguished from what it may be a moment later: nothing is promised of it.
    fs::write(at("tree/file"), "text").unwrap();
    let arguments = ["--resume", "--stats=json", "-r", "tree", "dest/"];
    for attempt in 0.. {
        assert!(attempt < 400, "this machine cannot start a program within 15 ms");
        fs::write(at("tree/file"), "text").unwrap();
        let output = haul(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let changed = fs::metadata(at("tree/file")).unwrap().modified().unwrap();
        let copied = fs::metadata(at("dest/tree/file")).unwrap().modified().unwrap();
        // On a slow machine it may have been old enough.
        if copied.duration_since(changed).unwrap() < Duration::from_millis(15) {
            break;
        }
    }
    fs::remove_file(at("dest/tree/blocked")).unwrap();
    let output = succeeds(dir.path(), &arguments);
    assert_eq!((counted(&output, "resumed"), counted(&output, "regular")), (0, 1), "{}", said(&output));
}
