//! Destinations with a past, and sources of every size.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use haul_testbed::guest::{Noise, has, run as tool};
use haul_testbed::{Bed, Command, Fs, temp_dir};

use crate::harness::{Image, Loop, MIB, Program, assert_holds, ext4, settled};

#[test]
fn devices_as_source_and_destination_keep_nothing_old_in_the_place_of_what_is_free() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 11) else { return };
    assert!(image.free.bytes() > 10 * MIB);
    let old = Noise::new(12).bytes(33 << 20);
    let source = Loop::over(&at("disk"), &["--read-only"]);
    for (program, options) in [
        (Program::Haul, &[][..]),
        (Program::Haul, &["--sparse=never"]),
        (Program::Haul, &["--sparse=always"]),
        (Program::Haul, &["--cache=drop"]),
        (Program::Haul, &["--smart=require"]),
        (Program::Smartcp, &[]),
        (Program::Smartcp, &["--sparse=never"]),
        (Program::Smartcp, &["--zero-scan=no", "--direct-io=yes"]),
    ] {
        for from in ["disk", source.0.as_str()] {
            // A file behind a loop device is in use, even by one for reading only.
            let options = [options, &["--snapshot"]].concat();
            let what = format!("{program:?} {options:?} {from}");
            fs::write(at("old"), &old).expect("it can be written");
            let dest = Loop::over(&at("old"), &[]);
            let (status, _, err) = program.run(dir.path(), &[&options[..], &[from, &dest.0]].concat());
            assert_eq!((status, err.as_str()), (Some(0), ""), "{what}");
            let expected = [image.copied(), old[32 << 20..].to_vec()].concat();
            assert_holds(dest.path(), &expected, &what);
            drop(dest);
            assert_holds(&at("old"), &expected, &what);
            fs::remove_file(at("old")).expect("it is there");
        }
    }
}

#[test]
fn a_device_of_large_sectors_takes_an_image_of_any_length() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 18) else { return };
    let tail = Noise::new(6).bytes(8192 + 333);
    let disk = fs::OpenOptions::new().append(true).open(at("disk"));
    std::io::Write::write_all(&mut disk.expect("it is there"), &tail).expect("it can be written");
    settled(&at("disk"));
    let expected = [image.copied(), tail].concat();
    let old = Noise::new(12).bytes(33 << 20);
    for (program, options) in [
        (Program::Haul, &[][..]),
        (Program::Haul, &["--cache=drop", "--sparse=always"]),
        (Program::Smartcp, &["--direct-io=yes"]),
        (Program::Smartcp, &["--sparse=never"]),
    ] {
        let what = format!("{program:?} {options:?}");
        fs::write(at("old"), &old).expect("it can be written");
        let dest = Loop::over(&at("old"), &["--sector-size=4096"]);
        let (status, _, err) = program.run(dir.path(), &[options, &["disk", &dest.0]].concat());
        assert_eq!((status, err.as_str()), (Some(0), ""), "{what}");
        drop(dest);
        assert_holds(&at("old"), &[&expected[..], &old[expected.len()..]].concat(), &what);
    }
}

#[test]
fn a_device_that_nobody_uses_is_a_source_without_free_space() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 13) else { return };
    let source = Loop::over(&at("disk"), &[]);
    for program in Program::BOTH {
        let (status, _, err) = program.run(dir.path(), &[&source.0, "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert_holds(&at("copy"), &image.copied(), "the device");
        assert!(haul_testbed::allocated(at("copy")) < 32 * MIB - image.free.bytes() + MIB);
        fs::remove_file(at("copy")).expect("it is there");
    }
}

#[test]
fn old_files_longer_or_shorter_leave_nothing_behind_on_every_filesystem() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let disk = dir.path().join("disk");
    let Some(image) = ext4(&bed, &disk, 32 * MIB, 14) else { return };
    let disk = disk.to_str().expect("a name");
    for kind in Fs::ALL {
        let Some(place) = bed.mount(kind) else { continue };
        for program in Program::BOTH {
            for (old, sparse) in
                [(1_000_001, "always"), (32 << 20, "always"), (40_000_003, "always"), (9_999_999, "never")]
            {
                let what = format!("{} {program:?} {old} {sparse}", kind.name());
                let copy = place.join("copy");
                fs::write(&copy, Noise::new(old as u64).bytes(old)).expect("it can be written");
                let before = fs::metadata(&copy).expect("there").ino();
                let (status, _, err) = program.run(&place, &[&format!("--sparse={sparse}"), disk, "copy"]);
                assert_eq!((status, err.as_str()), (Some(0), ""), "{what}");
                assert_holds(&copy, &image.copied(), &what);
                assert_eq!(fs::metadata(&copy).expect("there").ino(), before, "{what}");
            }
        }
    }
}

#[test]
fn a_filesystem_of_any_kind_in_an_image_of_any_kind_of_filesystem_is_copied() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    for kind in Fs::ALL {
        let Some(place) = bed.mount(kind) else { continue };
        // Holes in the source, and an end that is not even a sector's.
        let disk = place.join("disk");
        let Some(mut image) = ext4(&bed, &disk, 32 * MIB, 15) else { return };
        tool(Command::new("fallocate").args(["--dig-holes"]).arg(&disk));
        fs::OpenOptions::new()
            .append(true)
            .open(&disk)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[7; 333]))
            .expect("it can be written");
        settled(&disk);
        image = Image { bytes: [image.bytes, vec![7; 333]].concat(), ..image };
        for program in Program::BOTH {
            let what = format!("{} {program:?}", kind.name());
            let copy = dir.path().join("copy");
            let arguments = [disk.to_str().expect("a name"), copy.to_str().expect("a name")];
            let (status, _, err) = program.run(dir.path(), &arguments);
            assert_eq!((status, err.as_str()), (Some(0), ""), "{what}");
            assert_holds(&copy, &image.copied(), &what);
            fs::remove_file(&copy).expect("it is there");
        }
        fs::remove_file(&disk).expect("it is there");
    }
}

#[test]
fn files_that_are_no_images_arrive_as_they_are_whatever_their_size() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for size in [0, 1, 7, 511, 512, 513, 4095, 4097, 65_537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_001] {
        fs::write(at("file"), Noise::new(size as u64).bytes(size)).expect("it can be written");
        let sparse = File::create(at("sparse")).expect("it can be made");
        sparse.set_len(size as u64).expect("it can be extended");
        drop(sparse);
        for program in Program::BOTH {
            for name in ["file", "sparse"] {
                settled(&at(name));
                let (status, _, err) = program.run(dir.path(), &[name, "copy"]);
                assert_eq!((status, err.as_str()), (Some(0), ""), "{size}");
                assert_holds(&at("copy"), &fs::read(at(name)).expect("there"), &format!("{program:?} {size}"));
            }
        }
    }
}

#[test]
fn a_suspended_machine_beside_its_image_keeps_it_whole() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk.img"), 32 * MIB, 16) else { return };
    for (memory, contents) in [("disk.save", "LibvirtQemudSave"), ("machine-77.vmss", "memory")] {
        fs::write(at(memory), contents).expect("it can be written");
        let said = format!("a virtual machine was suspended with it: {memory}");
        let (status, out, err) = Program::Haul.run(dir.path(), &["--explain", "disk.img", "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert!(out.contains(&format!("copied whole: it is in use: {said}")), "{out}");
        assert_holds(&at("copy"), &image.bytes, memory);
        let (status, _, err) = Program::Smartcp.run(dir.path(), &["disk.img", "copy"]);
        assert!(status == Some(0) && err.contains(&said), "{err}");
        assert_holds(&at("copy"), &image.bytes, memory);
        let (status, _, err) = Program::Haul.run(dir.path(), &["--punch", "disk.img"]);
        assert!(status == Some(1) && err.contains(&said), "{err}");
        // A link elsewhere has it beside what it leads to.
        fs::create_dir_all(at("elsewhere")).expect("it can be made");
        std::os::unix::fs::symlink("../disk.img", at("elsewhere/link")).ok();
        let (status, out, err) = Program::Haul.run(dir.path(), &["--explain", "elsewhere/link", "copy"]);
        assert!(status == Some(0) && out.contains("a virtual machine was suspended with it"), "{out}{err}");
        let (status, _, err) = Program::Haul.run(dir.path(), &["--snapshot", "disk.img", "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert_holds(&at("copy"), &image.copied(), memory);
        fs::remove_file(at(memory)).expect("it is there");
    }
}

#[test]
fn a_writer_is_found_among_the_processes_where_there_are_no_leases() {
    if !has("setpriv") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 17) else { return };
    // Not the owner and without privileges, nobody is granted a lease: only what processes of the same user show is left.
    tool(Command::new("chmod").arg("666").arg(at("disk")));
    tool(Command::new("chmod").arg("777").arg(dir.path()));
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let shell = "exec 3<>disk; exec 4<&3; \"$0\" --smart --explain disk copy 3>&- 4>&-";
    let output = Command::new("setpriv")
        .args(user)
        .args(["sh", "-c", shell, env!("CARGO_BIN_EXE_haul")])
        .current_dir(dir.path())
        .output()
        .expect("there is setpriv");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(out.contains("it is in use: another process has it open for writing"), "{out}");
    assert_holds(&at("copy"), &image.bytes, "whole");
}
