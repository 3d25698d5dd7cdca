//! `--durable`: what is synced, and in which order.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_testbed::{Bed, Command, Fs, SlowDisk, create_painted, first_difference, temp_dir};

use super::{HAUL, assert_same_trees, assert_tidy, haul, make_tree, said, succeeds};

#[test]
fn a_durable_copy_of_a_tree_is_a_copy() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(place) = bed.mount(kind) else { continue };
        make_tree(&place.join("tree"));
        for options in [
            ["--durable=flush", "--jobs=1"],
            ["--durable", "--jobs=4"],
            ["--durable=file", "--jobs=1"],
            ["--durable=file", "--jobs=4"],
        ] {
            succeeds(&place, &[&["-a", "-T", "tree", "copy"][..], &options].concat());
            assert_same_trees(&place.join("tree"), &place.join("copy"));
            succeeds(&place, &[&["-a", "-T", "tree", "copy"][..], &options].concat());
            assert_same_trees(&place.join("tree"), &place.join("copy"));
            assert_tidy(&place);
            fs::remove_dir_all(place.join("copy")).unwrap();
        }
    }
}

/// The lines of strace about these calls.
fn calls(dir: &Path, calls: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let trace = format!("trace={calls}");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", &trace, HAUL])
        .args(arguments)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output();
    let Ok(traced) = traced else {
        haul_testbed::skip("no strace");
        return None;
    };
    assert!(traced.status.success(), "{}", said(&traced));
    Some(said(&traced).lines().map(str::to_owned).collect())
}

#[test]
fn with_flush_the_filesystem_is_synced_last_of_all() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    let trace = "syncfs,write,pwrite64,copy_file_range,mkdirat,utimensat,linkat,symlinkat,fchmod,fchown,mknodat,openat";
    let Some(calls) = calls(dir.path(), trace, &["-a", "--durable=flush", "--jobs=2", "tree", "copy"]) else { return };
    let last = calls.iter().rposition(|call| call.contains("syncfs(")).expect("it syncs");
    let changes = |call: &&String| !call.contains("openat(") && !call.contains("write(2");
    assert!(calls[last + 1..].iter().all(|call| !changes(&call)), "{:#?}", &calls[last..]);
    // What the errors are counted from was opened before anything was made.
    let opened = calls.iter().position(|call| call.contains("openat(") && call.contains("\".\"")).unwrap();
    let made = calls.iter().position(|call| call.contains("mkdirat(")).unwrap();
    assert!(opened < made, "{opened} {made}");
}

/// Files of so many bytes together that they are not left to one sync at the end. Their names.
fn make_many(dir: &Path) -> Vec<String> {
    fs::create_dir(dir).unwrap();
    let names: Vec<String> = (0..150).map(|number| format!("f{number}")).collect();
    for name in &names {
        create_painted(dir.join(name), 1_000_000);
    }
    names
}

#[test]
fn with_flush_ext4_and_xfs_are_synced_before_the_end_too_and_btrfs_is_not() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    let names = make_many(&place.join("tree"));
    for kind in [Fs::Ext4, Fs::Xfs, Fs::Btrfs] {
        let Some(dest) = bed.small(kind, 400 << 20) else { continue };
        let copy = dest.join("copy");
        for (option, early) in [("--durable=flush", kind != Fs::Btrfs), ("--durable=none", false)] {
            let arguments = ["-r", option, "-T", "tree", copy.to_str().unwrap()];
            let Some(calls) = calls(&place, "syncfs", &arguments) else { return };
            let syncs = calls.iter().filter(|call| call.contains("syncfs(")).count();
            let at_the_end = usize::from(option == "--durable=flush");
            assert!(
                if early { syncs > at_the_end } else { syncs == at_the_end },
                "{option}, {}: {calls:#?}",
                kind.name()
            );
        }
        for name in &names {
            assert_eq!(first_difference(place.join("tree").join(name), copy.join(name)), None, "{name}");
        }
    }
}

#[test]
fn where_names_wait_for_the_device_there_are_no_other_syncs_before_the_end() {
    let Some(bed) = Bed::new() else { return };
    let (Some(place), Some(dest)) = (bed.mount(Fs::Tmpfs), bed.small(Fs::Ext4, 400 << 20)) else { return };
    make_many(&place.join("tree"));
    let copy = dest.join("copy");
    for options in [&["--durable=file"][..], &["--durable=flush", "--verify=device"]] {
        let arguments = [&["-r", "-T", "tree", copy.to_str().unwrap()][..], options].concat();
        let Some(calls) = calls(&place, "syncfs", &arguments) else { return };
        // For all names, and for what is made after them.
        assert_eq!(calls.iter().filter(|call| call.contains("syncfs(")).count(), 2, "{options:?}: {calls:#?}");
        fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn an_error_of_the_device_during_the_copy_is_reported_at_the_end() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    make_many(&place.join("tree"));
    let Some(disk) = SlowDisk::mount(&bed, "faulty", 200 << 20, false) else { return };
    let copy = disk.path().join("copy");
    // It is one of data, some MiB after the first: whoever asks after the first sync finds nothing wrong.
    disk.fail_once_after(100);
    let output = haul(&place, &["-r", "--durable=flush", "--jobs=1", "tree", copy.to_str().unwrap()]);
    assert_eq!(disk.slowed(), 1, "the write was not made");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("to its device: Input/output error"), "{}", said(&output));
    disk.hurry();
}

#[test]
fn with_file_every_name_is_given_after_a_sync_that_came_after_the_data() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    let trace = "syncfs,fsync,renameat,renameat2,write,pwrite64,copy_file_range,ftruncate";
    let Some(calls) = calls(dir.path(), trace, &["-a", "--durable=file", "--jobs=1", "tree", "copy"]) else { return };
    let mut dirty = false;
    let mut renamed = 0;
    for call in calls {
        if call.contains("write") || call.contains("copy_file_range") || call.contains("ftruncate") {
            dirty |= call.contains(".haul-");
        } else if call.contains("sync(") || call.contains("syncfs(") {
            dirty = false;
        } else if call.contains("renameat")
            && !call.contains("fifo")
            && !call.contains("link\"")
            && !call.contains("dangling")
        {
            assert!(!dirty, "{call}");
            renamed += 1;
        }
    }
    // Those with data and the empty one; the others are links.
    assert_eq!(renamed, 56);
}

#[test]
fn several_names_of_one_file_stay_one_file_also_when_names_are_given_late() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for number in 0..500 {
        let first = dir.path().join(format!("tree/a{number}"));
        fs::write(&first, number.to_string()).unwrap();
        for other in ["b", "c"] {
            fs::hard_link(&first, dir.path().join(format!("tree/{other}{number}"))).unwrap();
        }
    }
    succeeds(dir.path(), &["-a", "--durable=file", "--jobs=4", "tree", "copy"]);
    for number in 0..500 {
        let inodes = ["a", "b", "c"].map(|name| {
            let path = dir.path().join(format!("copy/{name}{number}"));
            assert_eq!(fs::read(&path).unwrap(), number.to_string().as_bytes());
            fs::metadata(&path).unwrap().ino()
        });
        assert!(inodes[0] == inodes[1] && inodes[1] == inodes[2]);
    }
}

#[test]
fn operands_that_meet_in_one_place_are_dealt_with_as_without_it() {
    for option in ["--durable=none", "--durable=file"] {
        let dir = temp_dir();
        for (name, text) in [("one/sub/x", "1"), ("one/sub/y", "1"), ("two/sub/x", "2"), ("a/f", "a"), ("b/f", "b")] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir(dir.path().join("dest")).unwrap();
        succeeds(dir.path(), &["-r", option, "one/sub", "two/sub", "dest"]);
        assert_eq!(fs::read(dir.path().join("dest/sub/x")).unwrap(), b"2", "{option}");
        assert_eq!(fs::read(dir.path().join("dest/sub/y")).unwrap(), b"1", "{option}");
        let refused = haul(dir.path(), &[option, "a/f", "b/f", "dest"]);
        assert_eq!(said(&refused), "haul: will not overwrite just-created 'dest/f' with 'b/f'\n", "{option}");
        assert_eq!(fs::read(dir.path().join("dest/f")).unwrap(), b"a", "{option}");
        succeeds(dir.path(), &["-n", option, "b/f", "dest"]);
        assert_eq!(fs::read(dir.path().join("dest/f")).unwrap(), b"a", "{option}");
        assert_tidy(dir.path());
    }
}

#[test]
fn a_sync_that_fails_is_an_error_and_the_old_file_stays() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::create_dir_all(dir.path().join("copy/tree")).unwrap();
    for number in 0..5 {
        fs::write(dir.path().join(format!("tree/f{number}")), "new").unwrap();
        fs::write(dir.path().join(format!("copy/tree/f{number}")), "old").unwrap();
    }
    for (option, call) in
        [("--durable=file", "syncfs"), ("--durable=file", "sync_file_range"), ("--durable=flush", "syncfs")]
    {
        let inject = format!("inject={call}:error=EIO:when=1");
        let output = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject, HAUL])
            .args(["-r", option, "tree", "copy"])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .output();
        let Ok(output) = output else { return haul_testbed::skip("no strace") };
        assert_eq!(output.status.code(), Some(1), "{option} {call}");
        assert!(said(&output).contains("to its device: Input/output error"), "{}", said(&output));
        assert_tidy(dir.path());
        let old = (0..5).filter(|number| fs::read(dir.path().join(format!("copy/tree/f{number}"))).unwrap() == b"old");
        let expected = match (option, call) {
            ("--durable=flush", _) => 0,
            (_, "syncfs") => 5,
            _ => 1,
        };
        assert_eq!(old.count(), expected, "{option} {call}");
        for number in 0..5 {
            fs::write(dir.path().join(format!("copy/tree/f{number}")), "old").unwrap();
        }
    }
}

#[test]
fn directories_made_for_parents_get_their_times_after_the_names_in_them() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::create_dir(at("dest")).unwrap();
    fs::write(at("a/b/file"), "text").unwrap();
    super::run("touch", &["-d", "@1000000000", at("a/b").to_str().unwrap()]);
    succeeds(dir.path(), &["--durable=file", "-p", "--parents", "a/b/file", "dest"]);
    assert_eq!(fs::read(at("dest/a/b/file")).unwrap(), b"text");
    assert_eq!(fs::metadata(at("dest/a/b")).unwrap().mtime(), 1_000_000_000);
}

#[test]
fn where_a_sync_of_the_filesystem_does_not_reach_the_device_each_file_is_synced() {
    let Some(bed) = Bed::new() else { return };
    if !haul_testbed::guest::has("mkfs.ntfs") {
        return;
    }
    let dir = temp_dir();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    haul_testbed::guest::run(Command::new("mkfs.ntfs").args(["-F", "-Q", "-q"]).arg(&image));
    // In user space, where syncfs(2) asks for nothing.
    let mounted = bed.mount_fuse("ntfs-3g", &image, &[]);
    fs::create_dir(dir.path().join("tree")).unwrap();
    for number in 0..20 {
        fs::write(dir.path().join(format!("tree/f{number}")), number.to_string()).unwrap();
    }
    for option in ["--durable=flush", "--durable=file"] {
        let to = mounted.path().join(option);
        let arguments = ["-r", option, "tree", to.to_str().unwrap()];
        let Some(calls) = calls(dir.path(), "fsync", &arguments) else { return };
        let synced = calls.iter().filter(|call| call.contains("fsync(")).count();
        assert!(synced > 20, "{option} {synced}");
        for number in 0..20 {
            assert_eq!(fs::read(to.join(format!("f{number}"))).unwrap(), number.to_string().as_bytes());
        }
    }
    mounted.unmount();
}
