//! Destinations with a past, and sources of every size.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// What libvirt saves of a machine with this disk.
fn saved_by_libvirt(disk: &str) -> Vec<u8> {
    let mut bytes = b"LibvirtQemudSave\x02\0\0\0".to_vec();
    bytes.resize(92, 0);
    [bytes, format!("<domain><disk><source file='{disk}'/></disk></domain>\0QEVM").into_bytes()].concat()
}

#[test]
fn a_suspended_machine_beside_its_image_keeps_it_whole() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk.img"), 32 * MIB, 16) else { return };
    fs::create_dir_all(at("elsewhere")).expect("it can be made");
    std::os::unix::fs::symlink("../disk.img", at("elsewhere/link")).expect("it can be made");
    for (memory, contents) in [
        ("disk.save", b"LibvirtQemudSave".to_vec()),
        ("machine-77.vmss", b"memory".to_vec()),
        ("x.state", saved_by_libvirt("/of/a/pool/disk.img")),
        ("y.state", saved_by_libvirt(at("elsewhere/link").to_str().expect("a name"))),
        ("vm-1-state-suspend.raw", b"QEVM\0\0\0\x03".to_vec()),
    ] {
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
        let (status, out, err) = Program::Haul.run(dir.path(), &["--explain", "elsewhere/link", "copy"]);
        assert!(status == Some(0) && out.contains("a virtual machine was suspended with it"), "{out}{err}");
        let (status, _, err) = Program::Haul.run(dir.path(), &["--snapshot", "disk.img", "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert_holds(&at("copy"), &image.copied(), memory);
        fs::remove_file(at(memory)).expect("it is there");
    }
}

#[test]
fn the_memory_of_another_machine_keeps_no_image_whole() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("vm-1-disk-0.raw"), 32 * MIB, 16) else { return };
    fs::write(at("vm-11-state-suspend.raw"), b"QEVM\0\0\0\x03").expect("it can be written");
    fs::write(at("x.state"), saved_by_libvirt("/vm/vm-11-disk-0.raw")).expect("it can be written");
    let (status, _, err) = Program::Haul.run(dir.path(), &["vm-1-disk-0.raw", "copy"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_holds(&at("copy"), &image.copied(), "by its map");
}

#[test]
fn a_machine_suspended_in_a_session_of_a_user_keeps_its_image_whole() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("images")).expect("it can be made");
    let Some(image) = ext4(&bed, &at("images/disk.img"), 32 * MIB, 16) else { return };
    // Of the user who copies it, and of the one whose image it is.
    for (save, home, config) in [
        ("settings/libvirt/qemu/save", "nowhere", "settings"),
        ("me/.config/libvirt/qemu/save", "me", ""),
        ("me/.var/app/org.gnome.Boxes/config/libvirt/qemu/save", "me", ""),
        (".config/libvirt/qemu/save", "nowhere", ""),
        (".var/app/org.gnome.Boxes/config/libvirt/qemu/save", "nowhere", ""),
    ] {
        fs::create_dir_all(at(save)).expect("it can be made");
        fs::write(at(save).join("vm.save"), saved_by_libvirt("/images/disk.img")).expect("it can be written");
        let config = if config.is_empty() { PathBuf::new() } else { at(config) };
        let ended = |program: Program, arguments: &[&str]| {
            let mut command = program.command(dir.path(), arguments);
            let output = command.env("HOME", at(home)).env("XDG_CONFIG_HOME", &config).output().expect("it can be run");
            let said = [output.stdout, output.stderr].concat();
            (output.status.code(), String::from_utf8_lossy(&said).contains("a virtual machine was suspended with it"))
        };
        for (program, options) in [(Program::Haul, &["--explain"][..]), (Program::Smartcp, &[])] {
            let found = ended(program, &[options, &["images/disk.img", "copy"]].concat());
            assert_eq!(found, (Some(0), true), "{program:?} {save}");
            assert_holds(&at("copy"), &image.bytes, save);
        }
        assert_eq!(ended(Program::Haul, &["--punch", "images/disk.img"]), (Some(1), true), "{save}");
        fs::remove_file(at(save).join("vm.save")).expect("it is there");
    }
}

/// A snapshot of a running machine is an overlay over what was its disk. What the guest had written, and not yet put into a
/// map, is in that disk alone; the map is in the overlay.
#[test]
fn the_base_of_an_overlay_keeps_what_its_own_map_calls_free() {
    if !has("mkfs.ext4") || !has("qemu-img") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    File::create(at("live")).expect("it can be made").set_len(64 << 20).expect("it can be extended");
    tool(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0"]).arg(at("live")));
    let guest = bed.mount_image("ext4", &at("live"), &["commit=300"]);
    tool(Command::new("sync").arg("-f").arg(guest.path()));
    let contents = Noise::new(19).bytes(8 << 20);
    fs::write(at("noise"), &contents).expect("it can be written");
    let file = format!("of={}", guest.path().join("file").display());
    tool(Command::new("dd").arg(format!("if={}", at("noise").display())).args([&file, "bs=1M", "oflag=direct"]));
    tool(Command::new("sync").arg(at("live")));
    fs::create_dir(at("vms")).expect("it can be made");
    fs::copy(at("live"), at("vms/base.raw")).expect("it can be copied");
    guest.unmount();
    let (base, end) = (fs::read(at("vms/base.raw")).expect("there"), fs::read(at("live")).expect("there"));
    // What was written since the snapshot.
    let changed = end.chunks(4096).zip(base.chunks(4096)).enumerate().filter(|(_, (new, old))| new != old);
    let writes = changed.map(|(number, (new, _))| {
        fs::write(at(&format!("block-{number}")), new).expect("it can be written");
        format!("write -s {} {} 4096", at(&format!("block-{number}")).display(), number * 4096)
    });
    let writes: Vec<String> = writes.collect();
    for (format, base_format, name) in [("qcow2", "raw", "base.raw"), ("qcow2", "qcow2", "base.qcow2")] {
        if base_format != "raw" {
            let convert = ["convert", "-O", base_format, "base.raw", name];
            tool(Command::new("qemu-img").current_dir(at("vms")).args(convert));
            fs::remove_file(at("vms/base.raw")).expect("it is there");
        }
        let create = ["create", "-q", "-f", format, "-b", name, "-F", base_format, "overlay"];
        tool(Command::new("qemu-img").current_dir(at("vms")).args(create));
        let commands = writes.iter().flat_map(|write| ["-c", write]);
        tool(Command::new("qemu-io").args(["-f", format]).args(commands).arg(at("vms/overlay")));
        settled(&at("vms").join(name));
        let (status, _, err) = Program::Haul.run(dir.path(), &["-aT", "vms", "copies"]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{name}");
        tool(Command::new("qemu-img").args(["convert", "-O", "raw"]).arg(at("copies/overlay")).arg(at("disk")));
        let copy = bed.mount_image("ext4", &at("disk"), &["ro"]);
        assert!(fs::read(copy.path().join("file")).is_ok_and(|file| file == contents), "{name}");
        copy.unmount();
        let (status, _, err) = Program::Haul.run(dir.path(), &["--punch", &format!("copies/{name}")]);
        assert!(status == Some(1) && err.contains("it is the backing file of another disk"), "{err}");
        // Where nobody sees the overlay, nothing is freed that its map may use.
        fs::remove_file(at("copies/overlay")).expect("it is there");
        let (status, _, err) = Program::Haul.run(dir.path(), &["--punch", &format!("copies/{name}")]);
        assert!(status == Some(1) && err.contains("it was not unmounted"), "{err}");
        for gone in ["copies", "vms/overlay"] {
            tool(Command::new("rm").arg("-r").arg(at(gone)));
        }
    }
}

/// What a command prints that a user without privileges runs.
fn said_to_nobody(dir: &Path, command: &[&str]) -> String {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(command)
        .current_dir(dir)
        .output()
        .expect("there is setpriv");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
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
    let shell = "exec 3<>disk; exec 4<&3; \"$0\" --smart --explain disk copy 3>&- 4>&-";
    let out = said_to_nobody(dir.path(), &["sh", "-c", shell, env!("CARGO_BIN_EXE_haul")]);
    assert!(out.contains("it is in use: another process has it open for writing"), "{out}");
    assert_holds(&at("copy"), &image.bytes, "whole");
}

#[test]
fn an_image_beside_a_file_that_may_be_its_overlay_and_cannot_be_read_is_copied_whole() {
    if !has("setpriv") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 20) else { return };
    fs::write(at("private"), "of somebody else").expect("it can be written");
    tool(Command::new("chmod").arg("600").arg(at("private")));
    tool(Command::new("chmod").arg("777").arg(dir.path()));
    let run =
        |name: &str| said_to_nobody(dir.path(), &[env!("CARGO_BIN_EXE_haul"), "--smart", "--explain", "disk", name]);
    let out = run("copy");
    assert!(out.contains("it may be the backing file of a disk in what cannot be read: private"), "{out}");
    assert_holds(&at("copy"), &image.bytes, "whole");
    fs::remove_file(at("private")).expect("it is there");
    run("second");
    assert_holds(&at("second"), &image.copied(), "by its map");
}

#[test]
fn an_image_beside_a_saved_machine_that_cannot_be_read_is_copied_whole() {
    if !has("setpriv") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 21) else { return };
    tool(Command::new("chmod").arg("777").arg(dir.path()));
    let run = || {
        let out = said_to_nobody(dir.path(), &[env!("CARGO_BIN_EXE_haul"), "--smart", "--explain", "disk", "copy"]);
        let copy = fs::read(at("copy")).expect("it is there");
        fs::remove_file(at("copy")).expect("it is there");
        (out, copy)
    };
    for hidden in ["machine.save", ".config/libvirt/qemu/save/vm.save", ".config/libvirt/qemu/save", ".config"] {
        if let Some((parent, _)) = hidden.rsplit_once('/') {
            fs::create_dir_all(at(parent)).expect("it can be made");
        }
        if !at(hidden).exists() {
            fs::write(at(hidden), "of somebody else").expect("it can be written");
        }
        tool(Command::new("chmod").arg("0").arg(at(hidden)));
        let (out, copy) = run();
        assert!(out.contains("a virtual machine may be suspended with it in what cannot be read"), "{hidden}: {out}");
        assert!(copy == image.bytes, "{hidden}");
        tool(Command::new("chmod").arg("755").arg(at(hidden)));
    }
    assert!(run().1 == image.copied(), "by its map");
}
