use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

use haul_sys::rustix::fs::{Mode, OFlags, open};
use haul_testbed::{TempDir, temp_dir};

use super::*;
use crate::links::DestDir;

fn held(path: &Path) -> Arc<OwnedFd> {
    Arc::new(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).unwrap())
}

fn id_of(path: &Path) -> FileId {
    Inode::of(held(path).as_fd()).unwrap().id
}

fn root(path: &Path) -> Arc<DestDir> {
    DestDir::root_shown_as(held(path), "shown/".into()).unwrap()
}

fn made(dir: &Arc<DestDir>, name: &str) -> Made {
    Made { dir: Arc::clone(dir), name: name.into(), id: None }
}

/// Files to link: `made` is in `sub`, and was completed.
fn linking(follow: bool, between: impl FnOnce(&Path)) -> (TempDir, Result<bool, Errno>) {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("sub")).unwrap();
    fs::write(path("sub/made"), "made").unwrap();
    fs::write(path("secret"), "secret").unwrap();
    let sub = root(dir.path()).known_below(OsStr::new("sub"), id_of(&path("sub")));
    let made = Made { id: Some(id_of(&path("sub/made"))), ..made(&sub, "made") };
    between(dir.path());
    let here = held(dir.path());
    let dest = path("dest");
    let result = link_to(
        &made,
        Spot::new(here.as_fd(), OsStr::new("dest"), &dest),
        Some(id_of(dir.path())),
        follow,
        Some(&TemporaryNames::anybodys()),
    );
    (dir, result)
}

#[test]
fn another_name_is_made_of_what_was_made() {
    for (existing, replaced) in [(None, false), (Some("old"), true)] {
        let (dir, result) = linking(false, |dir| {
            existing.inspect(|old| fs::write(dir.join("dest"), old).unwrap());
        });
        assert_eq!(result, Ok(replaced));
        assert_eq!(fs::read(dir.path().join("dest")).unwrap(), b"made");
        assert_eq!(fs::metadata(dir.path().join("sub/made")).unwrap().nlink(), 2);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}

#[test]
fn what_was_put_in_the_place_of_what_was_made_gets_no_name() {
    for follow in [false, true] {
        for put in ["file", "link", "hard link"] {
            let (dir, result) = linking(follow, |dir| {
                let (made, secret) = (dir.join("sub/made"), dir.join("secret"));
                fs::rename(&made, dir.join("sub/aside")).unwrap();
                match put {
                    "file" => fs::write(&made, "other").unwrap(),
                    "link" => symlink(&secret, &made).unwrap(),
                    _ => fs::hard_link(&secret, &made).unwrap(),
                }
            });
            assert_eq!(result, Err(Errno::STALE), "{put}");
            assert!(!dir.path().join("dest").exists(), "{put}");
        }
    }
}

/// The way of old kernels without /proc, which cannot be had here.
#[test]
fn a_link_that_was_made_by_name_to_something_else_is_taken_away() {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("made"), "made").unwrap();
    fs::write(path("other"), "other").unwrap();
    let top = root(dir.path());
    let here = held(dir.path());
    let dest = path("dest");
    let spot = Spot::new(here.as_fd(), OsStr::new("dest"), &dest);
    let link = |wanted| link_by_name(&made(&top, "made"), here.as_fd(), spot, OsStr::new("dest"), wanted);
    assert_eq!(link(id_of(&path("other"))), Err(Errno::STALE));
    assert!(!dest.exists());
    assert_eq!(link(id_of(&path("made"))), Ok(()));
    assert_eq!(id_of(&dest), id_of(&path("made")));
}

#[test]
fn a_directory_that_was_exchanged_is_not_entered() {
    let (dir, result) = linking(false, |dir| {
        fs::rename(dir.join("sub"), dir.join("aside")).unwrap();
        fs::create_dir(dir.join("sub")).unwrap();
        fs::hard_link(dir.join("aside/made"), dir.join("sub/made")).unwrap();
    });
    assert_eq!(result, Err(Errno::STALE));
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn what_was_written_through_a_link_is_found_through_it() {
    let exchange = |dir: &Path| {
        fs::rename(dir.join("sub/made"), dir.join("target")).unwrap();
        symlink("../target", dir.join("sub/made")).unwrap();
    };
    let (dir, result) = linking(true, exchange);
    assert!(result.is_ok());
    assert_eq!(id_of(&dir.path().join("dest")), id_of(&dir.path().join("target")));
    assert_eq!(linking(false, exchange).1, Err(Errno::STALE));
}

#[test]
fn where_a_taken_name_cannot_be_refused_a_file_is_linked_and_a_directory_looked_for() {
    let dir = temp_dir();
    for name in ["file", "taken"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    fs::create_dir(dir.path().join("dir")).unwrap();
    let held = held(dir.path());
    let (file, all) = (OsStr::new("file"), OsStr::new("dir"));
    let moved = |name, to: &str| {
        let spot = |name| Spot::new(held.as_fd(), name, Path::new("shown"));
        link_to_free((spot(name), name), (spot(OsStr::new(to)), OsStr::new(to)))
    };
    assert_eq!([moved(file, "taken"), moved(all, "taken")], [Err(Errno::EXIST); 2]);
    assert_eq!(fs::read(dir.path().join("taken")).unwrap(), b"taken");
    assert_eq!([moved(file, "free"), moved(all, "other")], [Ok(()); 2]);
    assert_eq!(fs::read(dir.path().join("free")).unwrap(), b"file");
    assert!(dir.path().join("other").is_dir() && !dir.path().join("file").exists() && !dir.path().join("dir").exists());
}

#[test]
fn a_name_that_is_taken_is_refused_by_a_link_where_no_rename_does() {
    let dir = temp_dir();
    let here = held(dir.path());
    let spot = |name: &'static str| Spot::new(here.as_fd(), OsStr::new(name), Path::new(name));
    fs::write(dir.path().join("new"), "new").unwrap();
    fs::write(dir.path().join("taken"), "old").unwrap();
    let name = |last| link_to_free((spot("new"), OsStr::new("new")), (spot("new"), OsStr::new(last)));
    assert_eq!(name("taken"), Err(Errno::EXIST));
    assert_eq!(name("free"), Ok(()));
    let [taken, free] = ["taken", "free"].map(|name| fs::read_to_string(dir.path().join(name)).unwrap());
    assert_eq!((&*taken, &*free, dir.path().join("new").exists()), ("old", "new", false));
}
