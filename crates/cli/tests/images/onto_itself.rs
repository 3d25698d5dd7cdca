//! An image is never overwritten with itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use haul_testbed::guest::{run as tool, unmount};
use haul_testbed::{Bed, Command, temp_dir};

use crate::harness::{Loop, MIB, Program, assert_holds, ext4, settled};

/// Both programs refuse to copy `from` to `to`, saying this, and the image stays as it was.
fn refused(dir: &Path, from: &Path, to: &Path, said: &str, image: (&Path, &[u8])) {
    let (from, to) = (from.to_str().expect("a name"), to.to_str().expect("a name"));
    for (program, options) in [
        (Program::Smartcp, &["--snapshot"][..]),
        (Program::Smartcp, &[]),
        (Program::Smartcp, &["--sparse=never", "--direct-io=yes", "--snapshot"]),
        (Program::Haul, &["--snapshot"]),
        (Program::Haul, &[]),
        (Program::Haul, &["--smart=require", "--snapshot"]),
        (Program::Haul, &["--snapshot", "--force"]),
        (Program::Haul, &["--snapshot", "--sparse=always"]),
    ] {
        let what = format!("{program:?} {options:?} {from} {to}");
        let (status, _, err) = program.run(dir, &[options, &[from, to]].concat());
        assert_eq!(status, Some(1), "{what}: {err}");
        assert!(err.contains(said), "{what}: {err}");
        assert!(!err.contains("incomplete"), "{what}: {err}");
        assert_holds(image.0, image.1, &what);
    }
}

fn node_of(device: &Loop, at: PathBuf) -> PathBuf {
    let name = device.0.trim_start_matches("/dev/");
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).expect("it is attached");
    let (major, minor) = number.trim().split_once(':').expect("two numbers");
    tool(Command::new("mknod").arg(&at).args(["b", major, minor]));
    at
}

#[test]
fn an_image_is_not_copied_onto_another_name_of_itself() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 1) else { return };
    fs::hard_link(at("disk"), at("hard")).expect("it can be linked");
    symlink("disk", at("soft")).expect("it can be linked");
    let mount = bed.path().join("bound");
    fs::write(&mount, "").expect("it can be made");
    tool(Command::new("mount").arg("--bind").arg(at("disk")).arg(&mount));
    for name in [at("disk"), at("hard"), at("soft"), mount.clone()] {
        for (program, option) in [(Program::Haul, "--snapshot"), (Program::Smartcp, "--snapshot")] {
            let (status, _, err) = program.run(dir.path(), &[option, "disk", name.to_str().expect("a name")]);
            assert!(status == Some(1) && err.contains("are the same file"), "{name:?}: {err}");
            assert_holds(&at("disk"), &image.bytes, "the image");
        }
    }
    unmount(&mount);
}

#[test]
fn an_image_is_not_copied_onto_a_loop_device_of_itself_whatever_the_names_say() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 2) else { return };
    let bytes = (&*at("disk"), &image.bytes[..]);
    let common = "it has bytes in common with";
    fs::hard_link(at("disk"), at("hard")).expect("it can be linked");
    symlink("disk", at("soft")).expect("it can be linked");
    fs::create_dir(at("bound")).expect("it can be made");
    tool(Command::new("mount").arg("--bind").arg(dir.path()).arg(at("bound")));

    let direct = Loop::over(&at("disk"), &[]);
    refused(dir.path(), &at("disk"), direct.path(), common, bytes);
    let node = node_of(&direct, at("node"));
    refused(dir.path(), &at("hard"), &node, common, bytes);
    symlink(direct.path(), at("to-device")).expect("it can be linked");
    refused(dir.path(), &at("soft"), &at("to-device"), common, bytes);

    // A second device of one file, a part of it, and a device of a device.
    let second = Loop::over(&at("hard"), &["--offset=4096"]);
    refused(dir.path(), &at("disk"), second.path(), common, bytes);
    let upper = Loop::over(direct.path(), &[]);
    refused(dir.path(), &at("disk"), upper.path(), common, bytes);
    drop((upper, second));

    let bound = Loop::over(&at("bound/disk"), &[]);
    refused(dir.path(), &at("disk"), bound.path(), common, bytes);
    drop((bound, direct));

    // The name is gone, or another file has it.
    let deleted = Loop::over(&at("hard"), &[]);
    fs::remove_file(at("hard")).expect("it is there");
    refused(dir.path(), &at("disk"), deleted.path(), common, bytes);
    let name = fs::read_to_string(format!("/sys/block/{}/loop/backing_file", deleted.0.trim_start_matches("/dev/")));
    fs::write(name.expect("it is attached").trim_end(), "another").expect("it can be made");
    refused(dir.path(), &at("disk"), deleted.path(), common, bytes);
    drop(deleted);
    unmount(&at("bound"));
}

#[test]
fn the_file_behind_a_loop_device_is_not_overwritten_with_that() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 3) else { return };
    let bytes = (&*at("disk"), &image.bytes[..]);
    fs::hard_link(at("disk"), at("hard")).expect("it can be linked");
    for options in [&[][..], &["--read-only"]] {
        let device = Loop::over(&at("hard"), options);
        refused(dir.path(), device.path(), &at("disk"), "it has bytes in common with", bytes);
    }
    let device = Loop::over(&at("hard"), &["--read-only"]);
    fs::remove_file(at("hard")).expect("it is there");
    refused(dir.path(), device.path(), &at("disk"), "it has bytes in common with", bytes);
}

#[test]
fn a_disk_that_somebody_has_is_not_overwritten() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(image) = ext4(&bed, &at("disk"), 32 * MIB, 4) else { return };
    fs::copy(at("disk"), at("used")).expect("it can be copied");
    settled(&at("used"));
    let bytes = (&*at("used"), &image.bytes[..]);
    // Behind a device whose name for it is gone.
    fs::hard_link(at("used"), at("hard")).expect("it can be linked");
    let device = Loop::over(&at("hard"), &[]);
    fs::remove_file(at("hard")).expect("it is there");
    refused(dir.path(), &at("disk"), &at("used"), "which is in use: it is the disk of loop device", bytes);
    let mounted = bed.path().join("mounted");
    fs::create_dir(&mounted).expect("it can be made");
    tool(Command::new("mount").args(["-o", "ro,noload"]).arg(device.path()).arg(&mounted));
    refused(dir.path(), &at("disk"), device.path(), "which is in use: it is mounted", bytes);
    unmount(&mounted);
    drop(device);
    // Nobody has it any more.
    let (status, _, err) = Program::Haul.run(dir.path(), &["--snapshot", "disk", "used"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_holds(&at("used"), &image.copied(), "overwritten");
}
