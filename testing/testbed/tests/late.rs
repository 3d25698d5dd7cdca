//! Several views of one directory: what one of them does, the others see late.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_testbed::Bed;
use haul_testbed::late::{self, FOR_EVER, LateView, Lateness};

/// A directory and two views of it.
struct Shared {
    backing: PathBuf,
    a: LateView,
    b: LateView,
}

fn view(bed: &Bed, name: &str, believed: Duration) -> Option<LateView> {
    let at = bed.path().join(name);
    fs::create_dir(&at).expect("a mount point");
    LateView::mount(&late::program(), &[], &bed.path().join("backing"), &at, Lateness::of(believed))
}

fn shared(bed: &Bed) -> Option<Shared> {
    let backing = bed.path().join("backing");
    fs::create_dir(&backing).expect("a directory");
    Some(Shared { a: view(bed, "a", FOR_EVER)?, b: view(bed, "b", FOR_EVER)?, backing })
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("a name").file_name().into_string().expect("text");
    let mut names: Vec<String> = fs::read_dir(directory).expect("it can be listed").map(name).collect();
    names.sort();
    names
}

#[test]
fn a_name_made_elsewhere_is_missing_while_the_directory_is_believed() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    assert_eq!(names(shared.b.path()), [""; 0]);
    fs::create_dir(shared.a.path().join("made")).expect("it can be made");
    assert!(shared.backing.join("made").is_dir());
    assert_eq!(fs::metadata(shared.b.path().join("made")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(names(shared.b.path()), [""; 0]);
    assert_eq!(names(shared.a.path()), ["made"]);
}

#[test]
fn a_name_made_elsewhere_is_there_when_the_time_is_over() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    let Some(soon) = view(&bed, "soon", Duration::from_millis(300)) else { return };
    let missing = fs::metadata(soon.path().join("made"));
    assert!(missing.is_err());
    fs::write(shared.a.path().join("made"), "x").expect("it can be made");
    let deadline = Instant::now() + Duration::from_secs(300);
    while fs::metadata(soon.path().join("made")).is_err() {
        assert!(Instant::now() < deadline, "it never shows");
        std::thread::yield_now();
    }
    assert_eq!(fs::read(soon.path().join("made")).expect("it is there"), b"x");
}

#[test]
fn a_name_removed_elsewhere_stays_while_the_directory_is_believed() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    fs::write(shared.backing.join("old"), "x").expect("it can be made");
    assert_eq!(names(shared.b.path()), ["old"]);
    fs::remove_file(shared.a.path().join("old")).expect("it can be removed");
    assert!(!shared.backing.join("old").exists());
    assert_eq!(names(shared.b.path()), ["old"]);
}

#[test]
fn who_makes_what_somebody_else_has_made_gets_an_error_and_sees_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    let (a, b) = (shared.a.path().join("made"), shared.b.path().join("made"));
    assert!(fs::metadata(&b).is_err());
    fs::create_dir(a).expect("it can be made");
    assert_eq!(fs::create_dir(&b).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(names(shared.b.path()).contains(&"made".to_owned()));
}

#[test]
fn ranges_that_two_views_write_are_both_in_the_file() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    let front = File::create(shared.a.path().join("file")).expect("it can be made");
    front.set_len(2 << 20).expect("it can grow");
    let back = File::options().write(true).open(shared.b.path().join("file")).expect("it is there");
    front.write_all_at(&vec![1; 1 << 20], 0).expect("it can be written");
    back.write_all_at(&vec![2; 1 << 20], 1 << 20).expect("it can be written");
    drop((front, back));
    let bytes = fs::read(shared.backing.join("file")).expect("it can be read");
    assert!(bytes == [vec![1; 1 << 20], vec![2; 1 << 20]].concat(), "{} bytes, or wrong ones", bytes.len());
}

#[test]
fn attributes_changed_elsewhere_are_seen_by_the_next_open() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    fs::write(shared.backing.join("file"), "x").expect("it can be made");
    let path = shared.b.path().join("file");
    let mode = |meta: fs::Metadata| meta.mode() & 0o777;
    assert_eq!(mode(fs::metadata(&path).unwrap()), 0o644);
    fs::set_permissions(shared.a.path().join("file"), PermissionsExt::from_mode(0o600)).expect("it can be changed");
    assert_eq!(mode(fs::metadata(&path).unwrap()), 0o644);
    assert_eq!(mode(File::open(&path).unwrap().metadata().unwrap()), 0o600);
}

#[test]
fn bytes_that_were_read_stay_until_the_next_open() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    fs::write(shared.backing.join("file"), "old").expect("it can be made");
    let file = File::open(shared.b.path().join("file")).expect("it can be opened");
    let mut bytes = [0; 3];
    let mut read = |file: &File| file.read_exact_at(&mut bytes, 0).map(|()| bytes).expect("it can be read");
    assert_eq!(&read(&file), b"old");
    fs::write(shared.a.path().join("file"), "new").expect("it can be written");
    assert_eq!(&read(&file), b"old");
    assert_eq!(&read(&File::open(shared.b.path().join("file")).expect("it can be opened")), b"new");
}

#[test]
fn times_are_kept_to_the_nanosecond_also_before_1970_and_after_late_bytes() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    let mut file = File::create(shared.a.path().join("file")).expect("it can be made");
    file.write_all(b"bytes").expect("it can be written");
    let time = std::time::SystemTime::UNIX_EPOCH - Duration::new(3, 600_000_001);
    file.set_modified(time).expect("it can be set");
    drop(file);
    assert_eq!(fs::metadata(shared.backing.join("file")).unwrap().modified().unwrap(), time);
    assert_eq!(fs::metadata(shared.a.path().join("file")).unwrap().modified().unwrap(), time);
}

#[test]
fn numbers_of_inodes_and_hard_links_are_those_of_the_backing_directory() {
    let Some(bed) = Bed::new() else { return };
    let Some(shared) = shared(&bed) else { return };
    let at = |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.ino(), meta.nlink())).expect("it is there");
    fs::write(shared.a.path().join("one"), "x").expect("it can be made");
    fs::hard_link(shared.a.path().join("one"), shared.a.path().join("two")).expect("it can be linked");
    for name in ["one", "two", "."] {
        assert_eq!(at(&shared.a.path().join(name)), at(&shared.backing.join(name)), "{name}");
    }
    assert_eq!(at(&shared.b.path().join("one")), at(&shared.b.path().join("two")));
}

#[test]
fn what_is_pending_is_written_when_a_view_ends() {
    let Some(bed) = Bed::new() else { return };
    let Some(Shared { backing, a, b: _b }) = shared(&bed) else { return };
    let mut file = File::create(a.path().join("file")).expect("it can be made");
    file.write_all(b"bytes").expect("it can be written");
    drop(a);
    let mut bytes = Vec::new();
    File::open(backing.join("file")).expect("it is there").read_to_end(&mut bytes).expect("it can be read");
    assert_eq!(bytes, b"bytes");
}
