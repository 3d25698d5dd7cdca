//! What waits in memory for a slow disk when a copy ends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_testbed::guest::has;
use haul_testbed::{Bed, Fs, SlowDisk, create_painted, first_difference, skip};

use super::{assert_same_trees, run, succeeds};

/// Each write takes so long: of 128 KiB at most, that is 20 MB/s.
const DELAY: Duration = Duration::from_millis(6);

/// Copies to a slow disk. How many writes it made until haul ended, and how many it had still to make then.
fn writes(disk: &SlowDisk, place: &Path, arguments: &[&str]) -> (u32, u32) {
    disk.slow_down(DELAY);
    succeeds(place, arguments);
    let at_the_end = disk.slowed();
    run("sync", &["-f", disk.path().to_str().unwrap()]);
    let all = disk.slowed();
    disk.hurry();
    (at_the_end, all - at_the_end)
}

/// So many writes take three seconds, whatever their size.
fn three_seconds() -> u32 {
    u32::try_from(Duration::from_secs(3).as_micros() / DELAY.as_micros()).unwrap()
}

#[test]
fn a_slow_disk_has_little_left_to_write_when_haul_ends() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    create_painted(place.join("large"), 100 << 20);
    let Some(disk) = SlowDisk::mount(&bed, "slow", 200 << 20, false) else { return };
    let copy = disk.path().join("copy");
    let (made, left) = writes(&disk, &place, &["large", copy.to_str().unwrap()]);
    // 800 of 128 KiB.
    assert!(made + left >= 800, "{made} writes were made, {left} were left");
    assert!(left <= three_seconds(), "{made} writes were made, {left} were left");
    assert_eq!(first_difference(place.join("large"), &copy), None);
}

#[test]
fn small_files_behind_a_large_one_are_not_left_to_a_slow_disk_either() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    create_painted(place.join("large"), 70 << 20);
    for number in 0..1000 {
        let dir = place.join(format!("tree/small-{}", number % 7));
        fs::create_dir_all(&dir).unwrap();
        create_painted(dir.join(number.to_string()), 60_000);
    }
    let Some(disk) = SlowDisk::mount(&bed, "slow", 200 << 20, false) else { return };
    let (made, left) = writes(&disk, &place, &["-a", "large", "tree", disk.path().to_str().unwrap()]);
    assert!(made + left >= 600, "{made} writes were made, {left} were left");
    assert!(left <= three_seconds(), "{made} writes were made, {left} were left");
    assert_same_trees(&place.join("tree"), &disk.path().join("tree"));
}

#[test]
fn what_a_disk_image_uses_is_not_left_to_a_slow_disk_either() {
    if !has("mkfs.ext4") || !has("debugfs") {
        return skip("mkfs.ext4 or debugfs is missing");
    }
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    fs::create_dir(place.join("guest")).unwrap();
    create_painted(place.join("guest/large"), 100 << 20);
    fs::File::create(place.join("image")).unwrap().set_len(160 << 20).unwrap();
    let (guest, image) = (place.join("guest"), place.join("image"));
    run("mkfs.ext4", &["-qF", "-d", guest.to_str().unwrap(), image.to_str().unwrap()]);
    let Some(disk) = SlowDisk::mount(&bed, "slow", 250 << 20, false) else { return };
    let copy = disk.path().join("copy");
    let (made, left) = writes(&disk, &place, &["--smart=require", "image", copy.to_str().unwrap()]);
    assert!(made + left >= 800, "{made} writes were made, {left} were left");
    assert!(left <= three_seconds(), "{made} writes were made, {left} were left");
    let found = place.join("found");
    run("debugfs", &["-R", &format!("dump /large {}", found.display()), copy.to_str().unwrap()]);
    assert_eq!(first_difference(guest.join("large"), found), None);
}
