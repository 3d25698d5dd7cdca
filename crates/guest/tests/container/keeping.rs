//! Bytes of a container's files that hold nothing but given bytes of the disk can be left out.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_guest::ExtentSet;
use haul_guest::container::{HostRanges, Opened};
use haul_guest::image::ReadAt;
use haul_testbed::guest::{Noise, has, run};
use haul_testbed::{Command, temp_dir};

use crate::bench::{FORMATS, as_qemu_reads, contents, first_difference, make_raw, open};

/// Some bytes of a disk, in pieces of pages.
fn some(size: u64, seed: u64) -> ExtentSet {
    let mut noise = Noise::new(seed);
    let mut set = ExtentSet::new();
    for _ in 0..60 {
        let start = noise.below(size) / 4096 * 4096;
        set.insert(start..(start + (noise.below(100) + 1) * 4096).min(size));
    }
    set
}

/// Copies all files of a container to another directory without the bytes of `ranges`.
fn copy_without(opened: &Opened, from: &Path, ranges: &HostRanges, to: &Path) {
    assert_eq!(ranges.files.len(), opened.parts.len());
    for (part, free) in opened.parts.iter().zip(&ranges.files) {
        let bytes = fs::read(from.join(&part.name)).unwrap();
        assert!(free.iter().all(|extent| extent.end() <= bytes.len() as u64));
        let file = File::create(to.join(&part.name)).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for kept in free.complement(0..bytes.len() as u64).iter() {
            file.write_all_at(&bytes[kept.start as usize..kept.end() as usize], kept.start).unwrap();
        }
    }
}

fn without(disk: &[u8], set: &ExtentSet) -> Vec<u8> {
    let mut rest = disk.to_vec();
    for extent in set.iter() {
        let end = extent.end().min(disk.len() as u64) as usize;
        rest[extent.start.min(end as u64) as usize..end].fill(0);
    }
    rest
}

#[test]
fn a_container_without_freed_bytes_is_the_disk_without_them() {
    if !has("qemu-img") {
        return;
    }
    let dir = temp_dir();
    let raw = dir.path().join("raw");
    let wanted = make_raw(&raw, (20 << 20) + 512, 11);
    for format in FORMATS {
        let path = format.make(&raw, dir.path());
        let opened = open(&path);
        let set = some(opened.disk.size(), 3);
        let ranges = opened.disk.host_ranges(&set);
        if format.options.contains("streamOptimized") {
            assert!(ranges.is_none());
            continue;
        }
        let ranges = ranges.unwrap_or_else(|| panic!("{format:?}: nothing can be freed"));
        assert!(ranges.still_holds().unwrap());
        assert!(ranges.held.is_subset_of(&set));
        assert_eq!(opened.disk.stored_in(&ranges.files), ranges.held, "{format:?}: back from the files to the disk");
        let freed: u64 = ranges.files.iter().map(ExtentSet::bytes).sum();
        assert_eq!(freed, ranges.held.bytes(), "{format:?}");
        let kept = set.without(&ranges.held);
        // What does not get shorter by compression is stored as it is, and can be freed even there.
        if !format.packed {
            let nothing_there = kept.is_subset_of(opened.disk.unallocated());
            assert!(nothing_there, "{format:?}: {} of {} bytes", freed, set.bytes());
            assert!(freed > 0);
        }
        let to = dir.path().join("copy");
        fs::create_dir(&to).unwrap();
        copy_without(&opened, path.parent().unwrap(), &ranges, &to);
        let copy = to.join(path.file_name().unwrap());
        let have = as_qemu_reads(format.name, &copy, &dir.path().join("back"));
        let rest = without(&wanted, &ranges.held);
        assert_eq!(first_difference(&have, &rest), None, "{format:?}, as qemu reads it");
        assert_eq!(first_difference(&contents(&*open(&copy).disk), &rest), None, "{format:?}");
        if matches!(format.name, "qcow2" | "vdi" | "vhdx") {
            run(Command::new("qemu-img").args(["check", "-q", "-f", format.name]).arg(&copy));
        }
        fs::remove_dir_all(&to).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}

#[test]
fn clusters_that_others_may_need_are_not_freed() {
    if !has("qemu-img") || !has("qemu-io") {
        return;
    }
    let dir = temp_dir();
    let disk = dir.path().join("disk");
    let all = ExtentSet::of(0..8 << 20);
    let qemu = |program: &str, arguments: &[&str]| {
        run(Command::new(program).args(arguments).arg(&disk));
    };
    let create = || run(Command::new("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(&disk).arg("8M"));
    create();
    qemu("qemu-io", &["-f", "qcow2", "-c", "write -P 1 0 2M"]);
    assert_eq!(open(&disk).disk.host_ranges(&all).unwrap().held.bytes(), 2 << 20);
    qemu("qemu-img", &["snapshot", "-c", "one"]);
    assert!(open(&disk).disk.host_ranges(&all).is_none(), "an internal snapshot");
    qemu("qemu-img", &["snapshot", "-d", "one"]);
    assert!(open(&disk).disk.host_ranges(&all).is_some());
    run(Command::new("qemu-img").args(["bitmap", "--add"]).arg(&disk).arg("changed"));
    assert!(open(&disk).disk.host_ranges(&all).is_none(), "a bitmap");
    // Compressed clusters stay, others of the same container go.
    create();
    qemu("qemu-io", &["-f", "qcow2", "-c", "write -c -P 1 0 64k", "-c", "write -P 2 64k 64k"]);
    assert_eq!(open(&disk).disk.host_ranges(&all).unwrap().held, ExtentSet::of(64 << 10..128 << 10));
}

#[test]
fn clusters_with_other_counts_than_one_are_not_freed() {
    if !has("qemu-img") || !has("qemu-io") {
        return;
    }
    let dir = temp_dir();
    let disk = dir.path().join("disk");
    run(Command::new("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(&disk).arg("8M"));
    run(Command::new("qemu-io").args(["-f", "qcow2", "-c", "write -P 1 0 256k"]).arg(&disk));
    let all = ExtentSet::of(0..8 << 20);
    let whole = fs::read(&disk).unwrap();
    let opened = open(&disk);
    let freed = opened.disk.host_ranges(&all).unwrap().files[0].clone();
    assert_eq!(freed.bytes(), 256 << 10);
    let table = u64::from_be_bytes(whole[48..56].try_into().unwrap()) as usize;
    let block = u64::from_be_bytes(whole[table..table + 8].try_into().unwrap()) as usize;
    let first = freed.iter().next().unwrap().start;
    let l1 = u64::from_be_bytes(whole[40..48].try_into().unwrap()) as usize;
    let l2 = (u64::from_be_bytes(whole[l1..l1 + 8].try_into().unwrap()) & 0xff_ffff_ffff_fe00) as usize;
    let changed = |place: usize, bytes: &[u8]| {
        let mut other = whole.clone();
        other[place..place + bytes.len()].copy_from_slice(bytes);
        fs::write(&disk, other).unwrap();
        open(&disk).disk.host_ranges(&all).is_some()
    };
    let count = block + (first >> 16) as usize * 2;
    assert!(changed(count, &1_u16.to_be_bytes()));
    assert!(!changed(count, &2_u16.to_be_bytes()), "counted twice");
    assert!(!changed(count, &0_u16.to_be_bytes()), "counted never");
    assert!(!changed(table, &0_u64.to_be_bytes()), "no counts");
    let entry = |offset: u64| (offset | 1 << 63).to_be_bytes();
    assert!(!changed(l2 + 8, &entry(first)), "one cluster for two places");
    assert!(!changed(l2 + 8, &entry(l2 as u64)), "a table as data");
    assert!(!changed(l2 + 8, &entry(block as u64)), "counts as data");
    assert!(!changed(l2 + 8, &entry(table as u64)), "counts as data");
}
