//! Images that somebody uses as a disk.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use haul_fs::error::What;
use haul_guest::ExtentSet;
use haul_image::{InUse, Options, Report, Smart};
use haul_sys::in_use::{is_still_alone, keep_others_out, lock_byte};
use haul_testbed::guest::{Noise, attach, run as command, unmount};
use haul_testbed::{Bed, Command, temp_dir};

use crate::harness::{Image, Run, assert_holds, words};

fn copy(image: &Image, dest: &Path, smart: Smart) -> (Report, ExtentSet) {
    let run = Run { free: ExtentSet::of(8192..60_000), ..Run::default() };
    let run = Run { options: Options { smart, ..run.options }, ..run };
    (run.copy(&image.path, dest).unwrap(), run.free)
}

fn image(dir: &Path) -> Image {
    Image::new(dir.join("image"), 100_000, 9000, &mut Noise::new(41))
}

/// It is copied whole, with the reason, and by the map only if it is said to be a snapshot.
fn is_copied_whole(dir: &Path, image: &Image, user: &InUse) {
    let dest = dir.join("copy");
    let (report, _) = copy(image, &dest, Smart::Auto);
    assert_eq!((report.in_use.as_ref(), report.map, report.stats.free), (Some(user), None, 0));
    assert_holds(&dest, &image.bytes, "whole");
    let (report, free) = copy(image, &dest, Smart::Snapshot);
    assert_eq!((report.in_use, report.stats.free), (None, 49_152));
    assert_holds(&dest, &image.without(&free), "a snapshot");
}

#[test]
fn an_image_with_the_locks_of_qemu_is_copied_whole() {
    for byte in [100, 103, 201, 203] {
        let dir = temp_dir();
        let image = image(dir.path());
        let qemu = File::open(&image.path).unwrap();
        lock_byte(qemu.as_fd(), byte).unwrap();
        is_copied_whole(dir.path(), &image, &InUse::Qemu);
    }
}

#[test]
fn an_image_with_any_other_lock_is_copied_whole() {
    let dir = temp_dir();
    let image = image(dir.path());
    let other = File::open(&image.path).unwrap();
    lock_byte(other.as_fd(), 7).unwrap();
    is_copied_whole(dir.path(), &image, &InUse::Locked);
}

#[test]
fn an_image_that_is_open_for_writing_is_copied_whole() {
    let dir = temp_dir();
    let image = image(dir.path());
    let _writer = File::options().write(true).open(&image.path).unwrap();
    is_copied_whole(dir.path(), &image, &InUse::Written);
}

#[test]
fn an_image_beside_a_lock_directory_of_vmware_is_copied_whole() {
    let dir = temp_dir();
    let image = image(dir.path());
    fs::create_dir(dir.path().join("image.lck")).unwrap();
    // Another test may be starting a program that holds our descriptors for a moment.
    let run = Run { free: ExtentSet::of(8192..60_000), ..Run::default() };
    let run = Run { options: Options { smart: Smart::Auto, ..run.options }, ..run };
    let copies = std::iter::repeat_with(|| run.copy(&image.path, &dir.path().join("copy")).unwrap().in_use);
    let found = copies.take(1000).find(|user| *user != Some(InUse::Written));
    assert_eq!(found, Some(Some(InUse::Vmware(dir.path().join("image.lck")))));
}

#[test]
fn an_image_from_which_another_disk_goes_on_is_copied_whole() {
    let qcow2 = |base: &str| {
        let at = [&32_u64.to_be_bytes()[..], &(base.len() as u32).to_be_bytes()].concat();
        [&b"QFI\xfb\0\0\0\x03"[..], &at, &[0; 12], base.as_bytes()].concat()
    };
    for (file, base) in [
        ("overlay", "image"),
        ("Snapshots/overlay", "../image"),
        ("overlay", "/gone/to/another/place/image"),
        // Other names of the same file.
        ("overlay", "link"),
        ("overlay", "file:link"),
        ("overlay", r#"json:{"driver":"raw","file":{"filename":"./link"}}"#),
    ] {
        let dir = temp_dir();
        let image = image(dir.path());
        let overlay = dir.path().join(file);
        fs::create_dir_all(overlay.parent().unwrap()).unwrap();
        fs::write(&overlay, qcow2(base)).unwrap();
        fs::hard_link(&image.path, dir.path().join("link")).unwrap();
        // Another test may be starting a program that holds our descriptors for a moment.
        let tries = std::iter::repeat_with(|| copy(&image, &dir.path().join("copy"), Smart::Auto).0.in_use);
        let found = tries.take(1000).find(|user| *user != Some(InUse::Written));
        assert_eq!(found, Some(Some(InUse::Base(overlay.clone()))), "{base}");
        is_copied_whole(dir.path(), &image, &InUse::Base(overlay));
    }
    let dir = temp_dir();
    let image = image(dir.path());
    fs::write(dir.path().join("overlay"), qcow2("another-image")).unwrap();
    let copies = std::iter::repeat_with(|| copy(&image, &dir.path().join("copy"), Smart::Auto).0);
    let found = copies.take(1000).find(|report| report.in_use.is_none());
    assert_eq!(found.map(|report| report.stats.free), Some(49_152), "the base of the overlay is another one");
}

#[test]
fn whoever_is_alone_with_a_file_beside_an_image_stays_so() {
    let dir = temp_dir();
    let image = image(dir.path());
    let other = dir.path().join("other");
    fs::write(&other, vec![1; 4096]).unwrap();
    // A child of another test may hold a descriptor of it for a moment.
    let alone = std::iter::repeat_with(|| {
        let file = File::options().read(true).write(true).open(&other).unwrap();
        (keep_others_out(file.as_fd()) == Ok(true)).then_some(file)
    });
    let alone = alone.take(10_000).flatten().next().expect("nobody has it for so long");
    copy(&image, &dir.path().join("copy"), Smart::Auto);
    assert_eq!(is_still_alone(alone.as_fd()), Ok(true));
}

#[test]
fn an_image_that_nobody_uses_is_copied_by_its_map() {
    let dir = temp_dir();
    let image = image(dir.path());
    // As above.
    let copies = std::iter::repeat_with(|| copy(&image, &dir.path().join("copy"), Smart::Auto).0);
    let found = copies.take(1000).find(|report| report.in_use.is_none());
    assert_eq!(found.map(|report| report.stats.free), Some(49_152));
}

/// A loop device of an image, detached at the end.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Loop {
        Loop(attach(image, &[]))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A failure shows in the list of leftovers.
        Command::new("losetup").args(["-d", &self.0]).status().map(drop).unwrap_or_default();
    }
}

#[test]
fn an_image_behind_a_loop_device_is_copied_whole_and_not_overwritten() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = image(dir.path());
    let device = Loop::new(&image.path);
    let name = device.0.strip_prefix("/dev/").unwrap().to_owned();
    is_copied_whole(dir.path(), &image, &InUse::Loop(name.clone()));
    let failure = Run::default().copy(&dir.path().join("copy"), &image.path).unwrap_err();
    assert_eq!(failure.error.as_ref().map(|error| error.what), Some(What::DestinationInUse), "{}", words(&failure));
    assert!(words(&failure).contains(&name));
    assert_holds(&image.path, &image.bytes, "not overwritten");
}

#[test]
fn an_image_behind_a_loop_device_that_knows_it_by_a_lost_name_is_copied_whole_and_not_overwritten() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = image(dir.path());
    fs::hard_link(&image.path, dir.path().join("name")).unwrap();
    // For reading only, so that no writer is seen.
    let device = Loop(attach(&dir.path().join("name"), &["--read-only"]));
    fs::remove_file(dir.path().join("name")).unwrap();
    is_copied_whole(dir.path(), &image, &InUse::Loop(device.0.strip_prefix("/dev/").unwrap().to_owned()));
    let failure = Run::default().copy(&dir.path().join("copy"), &image.path).unwrap_err();
    assert_eq!(failure.error.as_ref().map(|error| error.what), Some(What::DestinationInUse), "{}", words(&failure));
}

#[test]
fn a_device_that_is_mounted_is_copied_whole_and_not_overwritten() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let disk = dir.path().join("disk");
    File::create(&disk).unwrap().set_len(4 << 20).unwrap();
    command(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk));
    let device = Loop::new(&disk);
    let run = Run { free: ExtentSet::of(1 << 20..2 << 20), ..Run::default() };
    let run = Run { options: Options { smart: Smart::Auto, ..run.options }, ..run };
    let report = run.copy(device.0.as_ref(), &dir.path().join("copy")).unwrap();
    assert_eq!((report.in_use, report.stats.total, report.stats.free), (None, 4 << 20, 1 << 20));
    let at = bed.path().join("mounted");
    fs::create_dir(&at).unwrap();
    command(Command::new("mount").arg(&device.0).arg(&at));
    let report = run.copy(device.0.as_ref(), &dir.path().join("copy")).unwrap();
    assert_eq!((report.in_use, report.stats.free), (Some(InUse::Mounted(at.clone())), 0));
    let failure = run.copy(&dir.path().join("copy"), device.0.as_ref()).unwrap_err();
    assert_eq!(failure.error.as_ref().map(|error| error.what), Some(What::DestinationInUse), "{}", words(&failure));
    unmount(&at);
}

#[test]
fn a_device_that_a_virtual_machine_has_is_copied_whole() {
    let Some(_bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = image(dir.path());
    let device = Loop::new(&image.path);
    let run = Run { free: ExtentSet::of(8192..60_000), ..Run::default() };
    let run = Run { options: Options { smart: Smart::Auto, ..run.options }, ..run };
    let user = || run.copy(device.0.as_ref(), &dir.path().join("copy")).unwrap().in_use;
    let qemu = File::open(&device.0).unwrap();
    lock_byte(qemu.as_fd(), 201).unwrap();
    assert_eq!(user(), Some(InUse::Qemu));
    drop(qemu);
    // One without locks, or with its own /dev.
    let writer = File::options().write(true).open(&device.0).unwrap();
    let mut machine = Command::new("sleep").arg("600").stdout(writer).spawn().unwrap();
    let found = user();
    machine.kill().unwrap();
    machine.wait().unwrap();
    assert_eq!((found, user()), (Some(InUse::Written), None));
    // The disk of a loop device.
    let upper = Loop::new(device.0.as_ref());
    assert_eq!(user(), Some(InUse::Loop(upper.0.trim_start_matches("/dev/").to_owned())));
}

#[test]
fn a_partition_of_a_disk_that_a_virtual_machine_has_is_copied_whole_and_not_overwritten() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = image(dir.path());
    let disk = dir.path().join("disk");
    let sectors = image.bytes.len().div_ceil(512);
    File::create(&disk).unwrap().set_len((2048 + sectors as u64) << 9).unwrap();
    let device = Loop(attach(&disk, &["--partscan"]));
    let name = device.0.strip_prefix("/dev/").unwrap().to_owned();
    // Not every kernel reads partition tables.
    command(Command::new("addpart").arg(&device.0).args(["1", "2048", &sectors.to_string()]));
    // Its name in /dev may be somebody else's work.
    let number = fs::read_to_string(format!("/sys/block/{name}/{name}p1/dev")).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let part = bed.path().join("partition");
    command(Command::new("mknod").arg(&part).args(["b", major, minor]));
    command(Command::new("dd").arg(format!("if={}", image.path.display())).arg(format!("of={}", part.display())));
    let run = Run { free: ExtentSet::of(8192..60_000), ..Run::default() };
    let run = Run { options: Options { smart: Smart::Auto, ..run.options }, ..run };
    let user = || run.copy(&part, &dir.path().join("copy")).unwrap().in_use;
    let refused = || run.copy(&image.path, &part).unwrap_err().error.map(|error| error.what);
    assert_eq!(user(), None);
    let qemu = File::open(&device.0).unwrap();
    lock_byte(qemu.as_fd(), 201).unwrap();
    assert_eq!((user(), refused()), (Some(InUse::Disk(name.clone())), Some(What::DestinationInUse)));
    drop(qemu);
    let writer = File::options().write(true).open(&device.0).unwrap();
    let mut machine = Command::new("sleep").arg("600").stdout(writer).spawn().unwrap();
    let found = user();
    machine.kill().unwrap();
    machine.wait().unwrap();
    assert_eq!(found, Some(InUse::Disk(name.clone())));
    let upper = Loop::new(device.0.as_ref());
    assert_eq!((user(), refused()), (Some(InUse::Disk(name)), Some(What::DestinationInUse)));
    drop(upper);
    assert_eq!(user(), None);
}
