//! What is proven free in XFS, against the kernel, xfs_db and xfs_repair.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_guest::fs::Findings;
use haul_guest::fs::xfs::Xfs;
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, fill_with_noise, has, live_through, run, write_noise};
use haul_testbed::{Bed, temp_dir};

use support::{Pages, allocated, assert_sound, copy_without, free, open};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 128 * MIB;

/// What mkfs can be told that changes how or where free space is written down.
const LAYOUTS: [&[&str]; 10] = [
    &[],
    &["-b", "size=1024"],
    &["-d", "agcount=16"],
    &["-m", "rmapbt=1,reflink=1"],
    &["-m", "finobt=0,reflink=0,inobtcount=0,bigtime=0"],
    &["-m", "bigtime=1", "-i", "sparse=1,nrext64=1"],
    &["-s", "size=4096"],
    &["-b", "size=2048", "-s", "size=2048", "-m", "rmapbt=1", "-d", "agcount=7"],
    &["-l", "su=65536", "-d", "agcount=3"],
    &["-b", "size=65536", "-n", "size=65536", "-d", "agcount=2"],
];

fn make(dir: &Path, options: &[&str]) -> PathBuf {
    let image = dir.join("image");
    File::create(&image).unwrap().set_len(SIZE).unwrap();
    // It would not make such small ones otherwise.
    run(Command::new("mkfs.xfs").args(["-q", "-f", "-K", "--unsupported"]).args(options).arg(&image));
    image
}

fn tools() -> bool {
    has("mkfs.xfs") && has("xfs_db") && has("xfs_repair")
}

/// Free space as xfs_db sees it, with the blocks of the free lists.
fn free_by_xfs_db(image: &Path) -> ExtentSet {
    let number = |name: &str| -> u64 {
        let text = run(Command::new("xfs_db").args(["-r", "-c", "sb 0", "-c", &format!("p {name}")]).arg(image));
        text.trim().rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (block, ag_blocks) = (number("blocksize"), number("agblocks"));
    let text = run(Command::new("xfs_db").args(["-r", "-c", "freesp -d"]).arg(image));
    let rows = text.lines().skip(1).map_while(|line| {
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [ag, at, len] = numbers[..] else { return None };
        let start = (ag * ag_blocks + at) * block;
        Some(start..start + len * block)
    });
    ExtentSet::from_ranges(rows)
}

fn assert_agrees_with_xfs_db(image: &Path, found: &Findings) {
    let theirs = free_by_xfs_db(image);
    let wrong = found.free.without(&theirs);
    assert!(wrong.is_empty(), "not free: {wrong:?}");
    assert!(found.free.bytes() * 100 >= theirs.bytes() * 99, "{} of {}", found.free.bytes(), theirs.bytes());
}

fn assert_repair_is_content(image: &Path) {
    run(Command::new("xfs_repair").args(["-n", "-f"]).arg(image));
}

#[test]
fn every_layout_keeps_every_file_and_frees_what_xfs_db_says() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    for (seed, options) in (0..).zip(LAYOUTS) {
        let dir = temp_dir();
        let image = make(dir.path(), options);
        let mounted = bed.mount_image("xfs", &image, &[]);
        live_through(mounted.path(), 24 * MIB, seed);
        let before = digests(mounted.path());
        mounted.unmount();

        let found = free(&Xfs, &open(&image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
        assert!(found.evidence.contains(&"clean".to_owned()), "{:?}", found.evidence);
        assert_agrees_with_xfs_db(&image, &found);
        let copy = dir.path().join("copy");
        copy_without(&image, &found.free, &copy);
        assert!(allocated(&copy) < SIZE - found.free.bytes() + MIB);
        assert_repair_is_content(&copy);
        for how in ["ro,norecovery", "rw"] {
            let mounted = bed.mount_image("xfs", &copy, &[how]);
            assert_eq!(digests(mounted.path()), before, "{options:?}, mounted {how}");
            mounted.unmount();
        }
        assert_repair_is_content(&copy);
    }
}
