//! Images that change while they are copied, and copies that are interrupted.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_testbed::{Bed, temp_dir};
use rustix::process::Signal;

use crate::harness::{Image, MIB, Program, assert_holds, ext4};

/// Offset and length of the longest free range.
fn longest(image: &Image) -> (u64, u64) {
    let longest = image.free.iter().max_by_key(|run| run.len).expect("something is free");
    (longest.start, longest.len)
}

/// The exit status where the copy stays although somebody wrote to the image.
fn after_a_change(program: Program) -> i32 {
    match program {
        Program::Haul => 0,
        Program::Smartcp => 3,
    }
}

#[test]
fn if_changed_decides_what_becomes_of_the_copy() {
    let Some(bed) = Bed::new() else { return };
    for (what, old, status) in
        [("warn", false, 3), ("fail", false, 1), ("fail", true, 1), ("retry", false, 0), ("retry", true, 0)]
    {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        let Some(image) = ext4(&bed, &at("disk"), 64 * MIB, 43) else { return };
        let before = |copy: &Path| {
            if old {
                fs::write(copy, vec![0xee; 70 << 20]).expect("it can be written");
            }
        };
        let option = format!("--if-changed={what}");
        let midway = Program::Smartcp.stopped_midway(dir.path(), &[&option], &before);
        let (start, _) = longest(&image);
        let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
        disk.write_all_at(b"somebody's data", start).expect("it can be written");
        drop(disk);
        let (ended, _, err) = midway.end();
        assert_eq!(ended, Some(status), "{what}: {err}");
        assert_eq!(err.contains("was written to while it was being copied"), status != 0, "{what}: {err}");
        assert_eq!(err.contains("was overwritten and is now incomplete"), old && status == 1, "{what}: {err}");
        assert_eq!(at("copy").exists(), old || status != 1, "{what}: {err}");
        if what == "retry" {
            // What is free is skipped again: the second copy has a map of its own.
            assert_holds(&at("copy"), &image.copied(), what);
        }
    }
}

#[test]
fn an_overwritten_copy_is_named_if_its_source_goes_away() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 64 * MIB, 47) else { return };
    let before = |copy: &Path| fs::write(copy, vec![0xee; 70 << 20]).expect("it can be written");
    let midway = Program::Smartcp.stopped_midway(dir.path(), &["--if-changed=retry"], &before);
    let (start, _) = longest(&image);
    let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
    disk.write_all_at(b"somebody's data", start).expect("it can be written");
    drop(disk);
    // It cannot be opened a second time.
    fs::remove_file(at("disk")).expect("it is there");
    let (ended, _, err) = midway.end();
    assert_eq!(ended, Some(1), "{err}");
    assert!(err.contains("was overwritten and is now incomplete"), "{err}");
}

#[test]
fn what_a_guest_writes_into_free_space_meanwhile_is_copied() {
    let Some(bed) = Bed::new() else { return };
    for program in Program::BOTH {
        for (sparse, old) in [("always", false), ("never", false), ("always", true)] {
            let dir = temp_dir();
            let at = |name: &str| dir.path().join(name);
            let Some(mut image) = ext4(&bed, &at("disk"), 64 * MIB, 41) else { return };
            let sparse = format!("--sparse={sparse}");
            let before = |copy: &Path| {
                if old {
                    fs::write(copy, vec![0xee; 70 << 20]).expect("it can be written");
                }
            };
            let midway = program.stopped_midway(dir.path(), &[&sparse], &before);
            let (start, len) = longest(&image);
            let place = start + len / 2;
            let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
            disk.write_all_at(b"somebody's data", place).expect("it can be written");
            drop(disk);
            let place = usize::try_from(place).expect("it fits");
            image.bytes[place..place + 15].copy_from_slice(b"somebody's data");
            let (status, _, err) = midway.end();
            assert_eq!(status, Some(after_a_change(program)), "{err}");
            assert!(err.contains("it was written to meanwhile"), "{program:?}: {err}");
            assert_holds(&at("copy"), &image.bytes, &format!("{program:?} {sparse}"));
        }
    }
}

#[test]
fn when_the_map_itself_changes_everything_is_copied() {
    let Some(bed) = Bed::new() else { return };
    for (program, option) in
        [(Program::Haul, "--snapshot"), (Program::Haul, "--smart=require"), (Program::Smartcp, "--snapshot")]
    {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        let Some(mut image) = ext4(&bed, &at("disk"), 64 * MIB, 42) else { return };
        let midway = program.stopped_midway(dir.path(), &[option], &|_| ());
        // The number of mounts, in the superblock.
        let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
        disk.write_all_at(&[77], 1024 + 52).expect("it can be written");
        drop(disk);
        let (status, _, err) = midway.end();
        assert_eq!(status, Some(after_a_change(program)), "{err}");
        assert!(err.contains("its guests' maps were changed meanwhile"), "{program:?}: {err}");
        // What was copied before it changed is as it was.
        let copy = File::open(at("copy")).expect("it is there");
        let mut count = [0];
        copy.read_exact_at(&mut count, 1024 + 52).expect("it can be read");
        image.bytes[1024 + 52] = count[0];
        assert_holds(&at("copy"), &image.bytes, &format!("{program:?}"));
    }
}

#[test]
fn a_machine_that_starts_meanwhile_brings_everything_back() {
    let Some(bed) = Bed::new() else { return };
    for program in Program::BOTH {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        let Some(image) = ext4(&bed, &at("disk"), 64 * MIB, 43) else { return };
        let midway = program.stopped_midway(dir.path(), &[], &|_| ());
        let machine = File::open(at("disk")).expect("it can be opened");
        haul_sys::in_use::lock_byte(machine.as_fd(), 100).expect("it can be locked");
        let (status, _, err) = midway.end();
        assert_eq!(status, Some(0), "{err}");
        assert!(err.contains("it is in use by now: QEMU has it open"), "{program:?}: {err}");
        assert_holds(&at("copy"), &image.bytes, &format!("{program:?}"));
    }
}

#[test]
fn an_image_that_shrinks_or_grows_meanwhile_leaves_no_copy() {
    let Some(bed) = Bed::new() else { return };
    for program in Program::BOTH {
        for size in [63 * MIB, 2 * MIB, 64 * MIB - 1, 64 * MIB + 1, 65 * MIB] {
            let dir = temp_dir();
            let at = |name: &str| dir.path().join(name);
            let Some(_) = ext4(&bed, &at("disk"), 64 * MIB, 44) else { return };
            let midway = program.stopped_midway(dir.path(), &[], &|_| ());
            let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
            disk.set_len(size).expect("it can be resized");
            drop(disk);
            let (status, _, err) = midway.end();
            assert!(
                status == Some(1) && err.contains("changed its size while it was being copied"),
                "{program:?}: {err}"
            );
            assert!(!at("copy").exists(), "{program:?} {size}");
        }
    }
}

#[test]
fn a_signal_in_the_middle_leaves_no_half_copy() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(_) = ext4(&bed, &at("disk"), 64 * MIB, 45) else { return };
    // Slow enough to hear the signal.
    for (program, slow) in [(Program::Haul, "--limit=4M"), (Program::Smartcp, "--buffer-size=64")] {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            for old in [false, true] {
                let before = |copy: &Path| {
                    if old {
                        fs::write(copy, "old").expect("it can be written");
                    }
                };
                let midway = program.stopped_midway(dir.path(), &[slow], &before);
                midway.send(signal);
                let (ended, _, err) = midway.end();
                let what = format!("{program:?} {signal:?} {old}: {err}");
                assert_eq!(ended, Some(status), "{what}");
                assert_eq!(err.contains("'copy' was overwritten and is now incomplete"), old, "{what}");
                assert_eq!(at("copy").exists(), old, "{what}");
                if old {
                    assert_ne!(fs::metadata(at("copy")).expect("there").len(), 64 * MIB, "{what}");
                    fs::remove_file(at("copy")).expect("it is there");
                }
            }
        }
    }
}
