//! smartcp with whole images, end to end: every file of every guest is in the copy.
#![forbid(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_forge::open;
use haul_forge::whole::{self, WholeDisk, cut};
use haul_guest::fs::Options;
use haul_guest::map;
use haul_testbed::guest::{Noise, digests, has, live_through, run};
use haul_testbed::{Bed, Command, allocated, temp_dir};

/// Copies an image with the program; returns how many bytes it says it found free.
fn smartcp(dir: &Path, image: &Path, copy: &Path) -> u64 {
    smartcp_with(dir, &[], image, copy)
}

fn smartcp_with(dir: &Path, options: &[&str], image: &Path, copy: &Path) -> u64 {
    let program = dir.join("smartcp");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_haul"), &program).expect("the link can be made");
    }
    let said = run(Command::new(program).args(["-v", "-g"]).args(options).arg(image).arg(copy).env("LC_ALL", "C"));
    let line = said.lines().find_map(|line| line.trim().strip_prefix("proven free, not read:"));
    line.unwrap_or_else(|| panic!("{said}")).trim().parse().expect("a number")
}

#[test]
fn a_whole_disk_keeps_every_file_and_loses_what_the_map_calls_free() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let Some(WholeDisk { disk, root, data, efi, .. }) = whole::build(&bed, dir.path()) else { return };
    let map = map(&open(&disk), &Options::default());
    let copy = dir.path().join("copy");
    let free = smartcp(dir.path(), &disk, &copy);
    assert_eq!(free, map.free.bytes(), "{map}");
    assert!(allocated(&copy) <= map.size - free, "something was written that is free");

    assert_whole(&bed, &copy, [&root, &data, &efi], &dir.path().join("part"));
}

#[test]
fn a_whole_disk_in_a_container_that_is_kept_keeps_every_file() {
    if !has("qemu-img") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let Some(WholeDisk { disk, root, data, efi, .. }) = whole::build(&bed, dir.path()) else { return };
    let at = |name: &str| dir.path().join(name);
    run(Command::new("qemu-img").args(["convert", "-O", "qcow2"]).arg(&disk).arg(at("disk.qcow2")));
    let copy = at("copy.qcow2");
    smartcp_with(dir.path(), &["--container=keep"], &at("disk.qcow2"), &copy);
    let free = map(&open(&disk), &Options::default()).free.bytes();
    assert!(allocated(&copy) < allocated(at("disk.qcow2")) - free / 2, "of {free} free bytes");
    run(Command::new("qemu-img").args(["check", "-q", "-f", "qcow2"]).arg(&copy));
    run(Command::new("qemu-img").args(["convert", "-O", "raw"]).arg(&copy).arg(at("raw")));
    assert_whole(&bed, &at("raw"), [&root, &data, &efi], &at("part"));
}

/// All that was on a whole disk is on this one; `part` is for partitions of it.
fn assert_whole(bed: &Bed, copy: &Path, [root, data, efi]: [&whole::Part; 3], part: &Path) {
    // Nothing has been mounted yet: the checkers see what the copy is.
    cut(copy, &root.places, part);
    run(Command::new("e2fsck").arg("-fn").arg(part));
    cut(copy, &data.places, part);
    run(Command::new("xfs_repair").arg("-n").arg("-f").arg(part));
    cut(copy, &efi.places, part);
    run(Command::new("fsck.vfat").arg("-n").arg(part));
    whole::assert_part(bed, copy, root, "ext4", &["ro", "noload"], part);
    whole::assert_part(bed, copy, data, "xfs", &["ro", "norecovery"], part);
    for (kind, part_of) in [("ext4", root), ("xfs", data)] {
        whole::assert_part(bed, copy, part_of, kind, &["rw"], part);
        // What the mount wrote is in the image of the part.
        let checker = if kind == "ext4" { ("e2fsck", "-fn") } else { ("xfs_repair", "-nf") };
        run(Command::new(checker.0).arg(checker.1).arg(part));
    }
}

/// Packages with which programs run, and many small files.
const PACKAGES: &[&str] = &[
    "base-files",
    "libc6",
    "libc-bin",
    "coreutils",
    "bash",
    "dash",
    "grep",
    "sed",
    "libtinfo6",
    "libselinux1",
    "libpcre2-8-0",
    "libacl1",
    "libattr1",
    "libgmp10",
    "tzdata",
    "perl-base",
];

#[test]
fn a_root_filesystem_of_real_packages_still_runs() {
    if !["dpkg", "tar", "chroot", "mkfs.ext4", "e2fsck"].iter().all(|tool| has(tool)) {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let (image, copy) = (dir.path().join("image"), dir.path().join("copy"));
    File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("an image can be made");
    run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
    let mounted = bed.mount_image("ext4", &image, &[]);
    live_through(mounted.path(), 20 << 20, 7);
    // Where /bin is a link to usr/bin, that must be there first. Packages that are not here are skipped.
    let fill =
        "cd \"$0\" && mkdir -p usr/bin usr/sbin usr/lib usr/lib64 && cd / && dpkg -L \"$@\" 2>/dev/null | sort -u |
        tar -c --no-recursion --ignore-failed-read -T - 2>/dev/null | tar -x -C \"$0\"";
    run(Command::new("sh").arg("-c").arg(fill).arg(mounted.path()).args(PACKAGES));
    let files = digests(mounted.path());
    run(Command::new("chroot").arg(mounted.path()).arg("/bin/true"));
    mounted.unmount();
    assert!(files.len() > 1000, "only {} files", files.len());

    let free = smartcp(dir.path(), &image, &copy);
    assert!(free > 40 << 20, "only {free} bytes are free");
    run(Command::new("e2fsck").arg("-fn").arg(&copy));
    for options in [&["ro", "noload"][..], &["rw"]] {
        let mounted = bed.mount_image("ext4", &copy, options);
        assert_eq!(digests(mounted.path()), files, "{options:?}");
        run(Command::new("chroot").arg(mounted.path()).arg("/bin/true"));
        let said =
            run(Command::new("chroot").arg(mounted.path()).args(["/bin/bash", "-c", "echo $((6*7)) | grep -c 42"]));
        assert_eq!(said.trim(), "1");
        mounted.unmount();
    }
    run(Command::new("e2fsck").arg("-fn").arg(&copy));
}

#[test]
fn page_files_lose_their_contents_only_if_the_user_says_so() {
    if !has("mkntfs") || !has("ntfscp") || !has("ntfscat") {
        return;
    }
    const SIZE: usize = 3 << 20;
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let (image, noise) = (at("image"), Noise::new(77).bytes(SIZE));
    File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("it can be made");
    std::fs::write(at("noise"), &noise).expect("it can be written");
    run(Command::new("mkntfs").args(["-q", "-F", "-Q"]).arg(&image));
    for name in ["pagefile.sys", "notes.txt"] {
        run(Command::new("ntfscp").arg("-q").arg(&image).arg(at("noise")).arg(name));
    }
    let held = |copy: &Path, name: &str| {
        let said = Command::new("ntfscat").arg(copy).arg(name).output().expect("it can be run");
        assert!(said.status.success(), "{said:?}");
        said.stdout
    };
    let kept = smartcp_with(dir.path(), &["--snapshot"], &image, &at("kept"));
    let dropped = smartcp_with(dir.path(), &["--snapshot", "--page-files=drop"], &image, &at("dropped"));
    assert_eq!(dropped, kept + SIZE as u64);
    assert!(kept > 32 << 20, "{kept}");
    assert!(held(&at("kept"), "pagefile.sys") == noise && held(&at("kept"), "notes.txt") == noise);
    assert!(held(&at("dropped"), "pagefile.sys") == vec![0; SIZE] && held(&at("dropped"), "notes.txt") == noise);
}
