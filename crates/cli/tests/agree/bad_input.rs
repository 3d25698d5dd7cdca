//! Wrong names, wrong options, no room, no right: a clear message, the right exit status, the other files copied.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use haul_agree::case::Place;
use haul_agree::grow::USER;
use haul_agree::scene::mount_tmpfs;
use haul_agree::snapshot::Snapshot;
use haul_agree::stage::{Call, Outcome};
use haul_testbed::Command;

use crate::support::{Sealed, exists, lay, sealed, stderr};

/// The contents of a file of the scene, as a digest.
fn digest<'a>(outcome: &'a Outcome, path: &str) -> Option<&'a [u8]> {
    outcome.after.get(format!("work/{path}").as_bytes()).map(|item| &item.contents[..])
}

#[test]
fn a_missing_source_does_not_keep_the_others_from_being_copied() {
    sealed("missing source", |place| {
        let done = place.agree(&|work| lay(work, &["f", "g", "d/"]), &Call::new(&["f", "none", "g", "d"]));
        assert_eq!((done.status.as_str(), exists(&done, "d/f"), exists(&done, "d/g")), ("exit 1", true, true));
    });
}

#[test]
fn a_directory_without_recursion_is_skipped() {
    sealed("directory without -r", |place| {
        let done = place.agree(&|work| lay(work, &["s/x", "f", "d/"]), &Call::new(&["s", "f", "d"]));
        assert_eq!((done.status.as_str(), exists(&done, "d/s"), exists(&done, "d/f")), ("exit 1", false, true));
    });
}

#[test]
fn a_destination_that_is_no_directory_is_refused() {
    sealed("destination not a directory", |place| {
        let scene = |work: &Path| lay(work, &["f", "g", "s/x", "plain"]);
        let calls: &[&[&str]] = &[
            &["f", "g", "plain"],
            &["f", "g", "none"],
            &["-t", "plain", "f"],
            &["-t", "none", "f"],
            &["f", "plain/"],
            &["f", "none/"],
            &["f", "none/deeper"],
            &["f", "plain/deeper"],
            &["-r", "s", "plain"],
            &["-rT", "s", "plain"],
            &["-T", "f", "s"],
            &["-T", "f", "g", "s"],
            &["-T", "-t", "s", "f"],
            &["--parents", "f", "g"],
        ];
        for call in calls {
            let done = place.agree(&scene, &Call::new(call));
            assert_eq!(done.status, "exit 1", "{call:?}");
            assert_eq!(done.before.keys().collect::<Vec<_>>(), done.after.keys().collect::<Vec<_>>(), "{call:?}");
        }
    });
}

#[test]
fn one_unreadable_file_among_twenty_is_named_and_the_others_are_copied() {
    sealed("unreadable source", |place| {
        let scene = |work: &Path| {
            for index in 0..20 {
                let path = work.join(format!("s/f{index:02}"));
                lay(work, &[&format!("s/f{index:02}")])?;
                fs::set_permissions(path, PermissionsExt::from_mode(if index == 7 { 0 } else { 0o644 }))?;
            }
            lay(work, &["s/closed/x", "s/open/y"])?;
            fs::set_permissions(work.join("s/closed"), PermissionsExt::from_mode(0o0))?;
            Ok(())
        };
        for options in ["-r", "-a"] {
            let done = place.agree(&scene, &Call { user: USER, ..Call::new(&[options, "s", "d"]) });
            let copied = (0..20).filter(|index| exists(&done, &format!("d/f{index:02}"))).count();
            assert_eq!((done.status.as_str(), copied, exists(&done, "d/open/y")), ("exit 1", 19, true), "{options}");
        }
    });
}

/// Two small files around one that does not fit, in front of a filesystem of 1 MiB at `d`.
fn too_much(work: &Path) -> io::Result<()> {
    lay(work, &["s/a", "s/z", "d/"])?;
    fs::write(work.join("s/m"), vec![7; 4 << 20])
}

fn no_stub_is_left(place: &Sealed, filesystem: Place, scene: &dyn Fn(&Path) -> io::Result<()>) {
    let done = place.play(filesystem, scene, &Call::new(&["-v", "s/a", "s/m", "s/z", "d"]));
    let said = stderr(&done);
    assert_eq!(done.status, "exit 1", "{said}");
    assert!(said.starts_with("cp: ") && said.contains("'d/m': No space left on device"), "{said:?}");
    assert_eq!(said.lines().count(), 1, "{said:?}");
    assert!(!exists(&done, "d/m"), "the file that is not whole is still there");
    assert_eq!(digest(&done, "d/a"), digest(&done, "s/a"));
    assert_eq!(digest(&done, "d/z"), digest(&done, "s/z"), "the file after the one that did not fit was not copied");
}

#[test]
fn a_full_tmpfs_loses_only_the_file_that_does_not_fit() {
    sealed("full tmpfs", |place| {
        no_stub_is_left(place, Place::Memory, &|work| {
            too_much(work)?;
            mount_tmpfs(&work.join("d"), "1m")
        });
    });
}

#[test]
fn a_full_ext4_loses_only_the_file_that_does_not_fit() {
    sealed("full ext4", |place| {
        no_stub_is_left(place, Place::Memory, &|work| {
            too_much(work)?;
            let image = work.parent().unwrap_or(work).join("image");
            fs::File::create(&image)?.set_len(2 << 20)?;
            let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status()?;
            let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(work.join("d")).status()?;
            assert!(made.success() && mounted.success());
            Ok(())
        });
    });
}

#[test]
fn an_overwritten_file_that_no_longer_fits_is_reported_and_kept_in_place() {
    sealed("full disk, existing file", |place| {
        let scene = |work: &Path| {
            too_much(work)?;
            mount_tmpfs(&work.join("d"), "1m")?;
            lay(work, &["d/m"])
        };
        let done = place.play(Place::Memory, &scene, &Call::new(&["s/m", "d"]));
        assert_eq!(done.status, "exit 1");
        assert!(stderr(&done).contains("'d/m': No space left on device"), "{}", stderr(&done));
        assert!(exists(&done, "d/m"), "a file that was there before may not be removed");
    });
}

#[test]
fn a_full_disk_also_ends_a_sparse_and_a_recursive_copy() {
    sealed("full disk, sparse and recursive", |place| {
        for options in ["-r", "-a", "-r --sparse=always", "-r --sparse=never", "-rl"] {
            let scene = |work: &Path| {
                too_much(work)?;
                mount_tmpfs(&work.join("d"), "1m")
            };
            let argv: Vec<&str> = options.split(' ').chain(["s", "d"]).collect();
            let done = place.play(Place::Memory, &scene, &Call::new(&argv));
            assert_eq!(done.status, "exit 1", "{options}: {}", stderr(&done));
            assert!(!exists(&done, "d/s/m"), "{options}");
            if options != "-rl" {
                assert!(exists(&done, "d/s/a") && exists(&done, "d/s/z"), "{options}");
            }
        }
    });
}

#[test]
fn a_file_above_the_size_limit_fails_and_the_others_are_copied() {
    sealed("file size limit", |place| {
        let starter = vec!["prlimit".to_owned(), "--fsize=1048576".to_owned()];
        let call = Call { starter, ..Call::new(&["s/a", "s/m", "s/z", "d"]) };
        let done = place.play(Place::Disk, &too_much, &call);
        let said = stderr(&done);
        assert_eq!(done.status, "exit 1", "{said}");
        assert!(said.contains("'d/m'") && said.contains("File too large"), "{said:?}");
        assert!(!exists(&done, "d/m"));
        assert!(exists(&done, "d/a") && exists(&done, "d/z"));
    });
}

#[test]
fn a_read_only_destination_is_refused_in_the_words_of_cp() {
    sealed("read-only destination", |place| {
        let scene = |work: &Path| {
            lay(work, &["f", "s/x", "d/"])?;
            mount_tmpfs(&work.join("d"), "1m")?;
            lay(work, &["d/f", "d/s/x"])?;
            let done = Command::new("mount").args(["-o", "remount,ro"]).arg(work.join("d")).status()?;
            assert!(done.success());
            Ok(())
        };
        for call in [&["f", "d"][..], &["-f", "f", "d"], &["--remove-destination", "f", "d"], &["-r", "s", "d"]] {
            assert_eq!(place.agree(&scene, &Call::new(call)).status, "exit 1", "{call:?}");
        }
        for call in [&["-b", "f", "d"][..], &["-a", "s", "d"], &["-l", "f", "d/new"], &["-s", "@/f", "d/new"]] {
            assert_eq!(place.agree(&scene, &Call::new(call)).status, "exit 1", "{call:?}");
        }
    });
}

#[test]
fn a_directory_is_not_copied_into_itself_and_nothing_is_made() {
    sealed("destination below the source", |place| {
        let scene = |work: &Path| {
            lay(work, &["s/a/b/c", "s/x", "s/in/y"])?;
            symlink("s", work.join("l"))
        };
        for argv in [
            &["-r", "s", "s/in"][..],
            &["-r", "s", "s"],
            &["-r", "s", "s/in/new"],
            &["-a", ".", "s/in"],
            &["-r", "./s/../s", "s/a/b/new"],
            &["-r", "s/", "l/in"],
            &["-rT", "s", "s/in"],
            &["-r", "s/..", "s"],
        ] {
            let (reference, tested) = place.both(&scene, &Call::new(argv));
            assert_eq!(tested.status, reference.status, "{argv:?}");
            assert_eq!(stderr(&tested).lines().last(), stderr(&reference).lines().last(), "{argv:?}");
            let names = |tree: &Snapshot| tree.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&tested.before), names(&tested.after), "{argv:?}");
        }
    });
}

#[test]
fn a_dangling_destination_link_is_written_through_only_for_posix() {
    sealed("dangling destination link", |place| {
        let scene = |work: &Path| {
            lay(work, &["f", "d/"])?;
            symlink("nowhere", work.join("dangling"))?;
            symlink("nowhere", work.join("d/f"))
        };
        for argv in [&["f", "dangling"][..], &["f", "d"], &["-f", "f", "dangling"], &["--remove-destination", "f", "d"]]
        {
            place.agree(&scene, &Call::new(argv));
            let mut call = Call::new(argv);
            call.environment.push(("POSIXLY_CORRECT".to_owned(), "1".to_owned()));
            place.agree(&scene, &call);
        }
        let refused = place.agree(&scene, &Call::new(&["f", "dangling"]));
        assert!(refused.status == "exit 1" && !exists(&refused, "nowhere"));
    });
}

#[test]
fn wrong_options_are_refused_in_the_words_of_getopt_and_cp() {
    sealed("wrong options", |place| {
        let scene = |work: &Path| lay(work, &["f", "s/x", "d/"]);
        let calls: &[&[&str]] = &[
            &[],
            &["f"],
            &["-t", "d"],
            &["-T", "f"],
            &["-T", "f", "f", "d"],
            &["-t"],
            &["--target-directory"],
            &["-S"],
            &["--suffix"],
            &["-Q", "f", "d"],
            &["--bogus", "f", "d"],
            &["--bogus=x", "f", "d"],
            &["--no", "f", "d"],
            &["--recursive=yes", "f", "d"],
            &["--sparse", "f", "d"],
            &["--sparse=", "f", "d"],
            &["--sparse=wrong", "f", "d"],
            &["--reflink=wrong", "f", "d"],
            &["--backup=wrong", "f", "d"],
            &["--backup=n", "f", "d"],
            &["--preserve=wrong", "f", "d"],
            &["--preserve=mode,wrong", "f", "d"],
            &["--no-preserve=wrong", "f", "d"],
            &["--no-preserve", "f", "d"],
            &["-ls", "f", "d"],
            &["-bn", "f", "d"],
            &["--reflink=always", "--sparse=never", "f", "d"],
            &["-t", "d", "-t", "d", "f"],
            &["--preserve=context", "f", "d"],
            &["--context=x", "--preserve=context", "f", "d"],
            &["", "d"],
            &["f", ""],
            &["-t", "", "f"],
        ];
        for argv in calls {
            place.agree(&scene, &Call::new(argv));
        }
    });
}

#[test]
fn a_refused_owner_does_not_leave_a_set_user_id_copy() {
    sealed("set-user-ID without the owner", |place| {
        let scene = |work: &Path| {
            lay(work, &["f"])?;
            chown(work.join("f"), Some(0), Some(0))?;
            fs::set_permissions(work.join("f"), PermissionsExt::from_mode(0o6755))
        };
        for options in ["-p", "-a", "--preserve=mode", "--preserve=ownership", "-r"] {
            let done = place.agree(&scene, &Call { user: USER, ..Call::new(&[options, "f", "d"]) });
            if options == "-p" || options == "-a" {
                assert_eq!(done.after[&b"work/d"[..]].mode & 0o6000, 0, "{options}");
            }
        }
    });
}
