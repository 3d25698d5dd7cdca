//! Partition tables: what `sfdisk` writes is found as `sfdisk` says it, and nothing that a table says makes used bytes
//! free.

mod support;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_guest::fs::swap::Swap;
use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::{ExtentSet, Map, ReadAt, Refusal, Verdict, View, map_with};
use haul_testbed::guest::{Noise, feed, has, run};
use haul_testbed::{Command, temp_dir};
use proptest::prelude::*;
use support::disk::{LISTED, Listed, assert_sane, blank, make_listed, superblock};
use support::{Fix, Pages, within};

const MIB: u64 = 1 << 20;

fn map(image: &dyn ReadAt) -> Map {
    let map = map_with(image, &Options::default(), LISTED);
    assert_sane(&map);
    map
}

/// A sparse image that `sfdisk` partitions; `None`, after a skip, if there is no sfdisk.
fn partitioned(size: u64, script: &str) -> Option<Pages> {
    if !has("sfdisk") {
        return None;
    }
    let dir = temp_dir();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(size).unwrap();
    feed(Command::new("sfdisk").args(["-q", "--no-reread"]).arg(&path), script);
    let data = haul_testbed::data_extents(&File::open(&path).unwrap());
    Some(Pages::of(&support::open(&path), data.into_iter().map(|(start, len)| start..start + len)))
}

/// A disk with sectors of 4 KiB, which sfdisk does not make in a file.
fn with_large_sectors(size: u64, partitions: &[(u64, u64)]) -> Pages {
    const SECTOR: u64 = 4096;
    let mut image = blank(size);
    let last = size / SECTOR - 1;
    image.write(446, &[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    image.write(510, &[0x55, 0xaa]);
    for (own, other, entries) in [(1, last, 2), (last, 1, last - 4)] {
        let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        for field in [own, other, 6, last - 5, 1, 1, entries, (128 << 32) | 128] {
            header.extend(field.to_le_bytes());
        }
        image.write(own * SECTOR, &header);
        for (number, (start, len)) in (0..).zip(partitions) {
            image.write(entries * SECTOR + number * 128, &[7; 32]);
            image.write(entries * SECTOR + number * 128 + 32, &(start / SECTOR).to_le_bytes());
            image.write(entries * SECTOR + number * 128 + 40, &((start + len) / SECTOR - 1).to_le_bytes());
        }
        repair_gpt(&mut image, own * SECTOR, SECTOR);
    }
    image
}

/// Partitions as `sfdisk` dumps them, container left out: start and length in bytes.
fn dumped(image: &Pages) -> Vec<(u64, u64)> {
    let dir = temp_dir();
    let path = dir.path().join("disk");
    image.save(&path);
    let dump = run(Command::new("sfdisk").arg("-d").arg(&path));
    let number = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key).unwrap();
        rest.split(',').next().unwrap().trim().parse::<u64>().unwrap() * 512
    };
    let mut found: Vec<(u64, u64)> = dump
        .lines()
        .filter(|line| line.contains("start=") && !line.contains("type=5") && !line.contains("type=f"))
        .map(|line| (number(line, "start="), number(line, "size=")))
        .collect();
    found.sort_unstable();
    found
}

fn partitions_of(map: &Map) -> Vec<(u64, u64)> {
    let regions = map.regions.iter().filter(|region| region.verdict != Verdict::Framework);
    regions.map(|region| (region.start(), region.size())).collect()
}

const GPT: &str = "label: gpt\nsize=4M\nsize=8M\nsize=2M,type=lvm\nstart=20M,size=9M\n";
const MBR: &str = "label: dos\nsize=4M\nsize=40M,type=5\nsize=4M\nsize=5M\nsize=6M\nsize=2M\nsize=1M\n";

/// A filesystem in each partition; returns what is free.
fn populate(image: &mut Pages, partitions: &[(u64, u64)]) -> ExtentSet {
    partitions.iter().fold(ExtentSet::new(), |free, (start, size)| free.union(&make_listed(image, *start, *size)))
}

#[test]
fn partitions_are_those_of_sfdisk() {
    for script in [GPT, MBR, "label: dos\n"] {
        let Some(mut image) = partitioned(64 * MIB, script) else { return };
        let expected = dumped(&image);
        let free = populate(&mut image, &expected);
        let map = map(&image);
        if expected.is_empty() {
            assert_eq!(map.regions.len(), 1);
            assert_eq!(map.regions[0].verdict, Verdict::Unknown, "an empty table is none");
            continue;
        }
        assert_eq!(partitions_of(&map), expected, "{script}");
        assert_eq!(map.free, free, "{script}\n{map}");
        assert!(map.still_holds(&image).unwrap());
    }
}

const LARGE: &[(u64, u64)] = &[(MIB, 4 * MIB), (5 * MIB, 8 * MIB), (20 * MIB, 9 * MIB)];

#[test]
fn a_gpt_in_sectors_of_4_kib_is_read() {
    let mut image = with_large_sectors(64 * MIB, LARGE);
    let free = populate(&mut image, LARGE);
    for damaged in [None, Some(4096 + 30), Some(64 * MIB - 4096 + 30)] {
        let mut image = image.clone();
        damaged.into_iter().for_each(|at| image.write(at, &[0xff]));
        let map = map(&image);
        assert_eq!(partitions_of(&map), LARGE, "{map}");
        assert_eq!(map.free, free, "{map}");
    }
}

#[test]
fn a_broken_primary_gpt_is_replaced_by_its_backup() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let free = populate(&mut image, &expected);
    for damaged in [512 + 30, 1024 + 130] {
        let mut image = image.clone();
        image.write(damaged, &[0xff]);
        let map = map(&image);
        assert_eq!(map.free, free, "byte {damaged}\n{map}");
    }
    // And the backup may be broken.
    let mut without = image.clone();
    without.write(64 * MIB - 512 + 30, &[0xff]);
    assert_eq!(map(&without).free, free);
    // Without both there is a table that nobody can read.
    without.write(512 + 30, &[0xff]);
    let nothing = map(&without);
    assert!(nothing.free.is_empty() && matches!(nothing.regions[0].verdict, Verdict::Refused(_)), "{nothing}");
}

#[test]
fn copies_of_a_gpt_that_differ_both_count() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let free = populate(&mut image, &expected);
    // The backup says that the first partition begins in the second half of where the primary has it.
    let backup = 64 * MIB - 512;
    let entries = u64::from_le_bytes(image.read(backup + 72, 8).try_into().unwrap()) * 512;
    image.write(entries + 32, &(3 * MIB / 512).to_le_bytes());
    repair_gpt(&mut image, backup, 512);
    let map = map(&image);
    let claimed = ExtentSet::of(3 * MIB..5 * MIB);
    assert_eq!(map.free, free.without(&claimed), "{map}");
}

#[test]
fn a_gpt_that_no_mbr_protects_frees_nothing_by_itself() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let free = populate(&mut image, &expected);
    assert_eq!(map(&image).free, free);
    // Something that nobody knows was put on the disk, and has come to the middle of it: the backup is still there.
    let mut other = image.clone();
    other.write(0, &Noise::new(1).bytes(64 << 10));
    let unknown = map(&other);
    assert!(unknown.free.is_empty(), "{unknown}");
    // A partition of an MBR of another kind, around the first two.
    let (start, end) = (expected[0].0, expected[1].0 + expected[1].1);
    let mut dos = image.clone();
    let mut entry = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
    entry.extend(((start / 512) as u32).to_le_bytes());
    entry.extend((((end - start) / 512 + 8) as u32).to_le_bytes());
    dos.write(446, &entry);
    let dos = map(&dos);
    assert!(dos.free.is_subset_of(&free.clipped(start..end)), "{dos}");
}

#[test]
fn a_gpt_without_protective_mbr_frees_only_what_everything_confirms() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let free = populate(&mut image, &expected);
    let mut unsigned = image.clone();
    unsigned.write(510, &[0, 0]);
    assert_eq!(map(&unsigned).free, free, "the entry is there, but not the signature");
    let mut blank = image.clone();
    blank.write(0, &[0; 512]);
    assert_eq!(map(&blank).free, free, "nothing is there");
    let (end, (last, _)) = (64 * MIB, *expected.last().unwrap());
    let damages: [(&str, u64, &[u8]); 6] = [
        ("something was put into the first sector", 0, &[1]),
        ("another entry is there", 446, &[0, 0, 0, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]),
        ("the first copy is damaged", 512 + 30, &[0xff]),
        ("the last copy is damaged", end - 512 + 30, &[0xff]),
        ("the entries of the last copy are damaged", end - 33 * 512 + 40, &[0x5a]),
        ("one of the filesystems is none", last, &[0xa5; 128 << 10]),
    ];
    for (what, at, bytes) in damages {
        let mut other = blank.clone();
        other.write(at, bytes);
        let other = map(&other);
        assert!(other.free.is_empty(), "{what}: {other}");
    }
}

/// Fixes both checksums of the GPT header at `at`, if its fields make sense.
fn repair_gpt(image: &mut Pages, at: u64, sector: u64) {
    let pristine = image.clone();
    Fix::Gpt { at, sector }.apply(image, &pristine);
}

#[test]
fn a_partition_of_a_hybrid_mbr_must_agree() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let free = populate(&mut image, &expected);
    // The same partition in both tables is one.
    let entry = |kind: u8, first: u64, sectors: u64| {
        let mut entry = vec![0, 0, 0, 0, kind, 0, 0, 0];
        entry.extend((first as u32).to_le_bytes());
        entry.extend((sectors as u32).to_le_bytes());
        entry
    };
    let (start, size) = expected[0];
    image.write(446 + 16, &entry(0x83, start / 512, size / 512));
    let same = map(&image);
    assert_eq!(same.free, free, "{same}");
    assert_eq!(partitions_of(&same), expected);
    // Another one takes what it covers.
    image.write(446 + 16, &entry(0x83, start / 512 + 2048, size / 512));
    let other = map(&image);
    assert_eq!(other.free, free.without(&ExtentSet::of(start + MIB..start + MIB + size)), "{other}");
}

#[test]
fn forged_tables_are_refused_after_few_reads() {
    let Some(image) = partitioned(64 * MIB, GPT) else { return };
    // What is looked at for any disk: its ends, and where signatures are. No field makes it more.
    let map = |image: &Pages| within(image, 400, 2 * MIB, |image| map(image));
    for (at, value) in [(80, u32::MAX), (80, 1025), (84, 1 << 31), (84, 0), (84, 127), (12, 0), (12, u32::MAX)] {
        let mut forged = image.clone();
        for header in [512, 64 * MIB - 512] {
            forged.write(header + at, &value.to_le_bytes());
            repair_gpt(&mut forged, header, 512);
        }
        let map = map(&forged);
        assert!(matches!(map.regions[0].verdict, Verdict::Refused(_)), "{at} {value}\n{map}");
    }
    for (at, value) in [(72, u64::MAX), (72, u64::MAX / 512), (72, 1 << 54), (24, 7)] {
        let mut forged = image.clone();
        for header in [512, 64 * MIB - 512] {
            forged.write(header + at, &value.to_le_bytes());
            repair_gpt(&mut forged, header, 512);
        }
        let map = map(&forged);
        assert!(matches!(map.regions[0].verdict, Verdict::Refused(_)), "{at} {value}\n{map}");
    }
    // Entries that reach beyond the disk, or backwards.
    for (first, last) in [(0, u64::MAX), (u64::MAX, u64::MAX), (9, 8), (u64::MAX - 3, 5), (40, 1 << 60)] {
        let mut forged = image.clone();
        forged.write(1024 + 32, &first.to_le_bytes());
        forged.write(1024 + 40, &last.to_le_bytes());
        repair_gpt(&mut forged, 512, 512);
        map(&forged);
    }
}

#[test]
fn chains_of_logical_partitions_that_loop_or_leave_are_refused() {
    let Some(mut image) = partitioned(64 * MIB, MBR) else { return };
    let expected = dumped(&image);
    populate(&mut image, &expected);
    let container = Range { start: 5 * MIB, end: 45 * MIB };
    let link = container.start + 446 + 16;
    // To itself, out of the container, beyond all numbers.
    for next in [0_u32, 1, 40 * 2048, u32::MAX] {
        let mut forged = image.clone();
        forged.write(link + 8, &next.to_le_bytes());
        let map = map(&forged);
        assert!(map.free.intersection(&ExtentSet::of(container.clone())).is_empty(), "{next}\n{map}");
    }
    // A chain without end, each link one sector further on.
    let mut forged = image.clone();
    for number in 0..1000_u32 {
        let at = container.start + u64::from(number) * 512;
        let mut sector = vec![0; 512];
        sector[446 + 4] = 0x05;
        sector[446 + 8..446 + 12].copy_from_slice(&(number + 1).to_le_bytes());
        sector[446 + 12] = 1;
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        forged.write(at, &sector);
    }
    let map = map(&forged);
    assert!(map.free.intersection(&ExtentSet::of(container)).is_empty(), "{map}");
}

#[test]
fn mutated_tables_free_nothing_that_is_used() {
    for (script, sector) in [(GPT, 512), (GPT, 4096), (MBR, 512)] {
        let made = match sector {
            512 => partitioned(64 * MIB, script),
            _ => Some(with_large_sectors(64 * MIB, LARGE)),
        };
        let Some(mut image) = made else { return };
        let expected = if sector == 512 { dumped(&image) } else { LARGE.to_vec() };
        let free = populate(&mut image, &expected);
        let headers = [sector, 64 * MIB - sector];
        let places = match script {
            GPT => vec![
                446..512,
                sector..sector + 92,
                2 * sector..2 * sector + 512,
                64 * MIB - sector..64 * MIB - sector + 92,
                64 * MIB - 16384 - sector..64 * MIB - 16384 - sector + 512,
            ],
            _ => [0, 5 * MIB]
                .into_iter()
                .chain(expected.iter().skip(2).map(|(start, _)| start - MIB))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|at| at + 446..at + 512)
                .collect(),
        };
        let mut alike = 0;
        for round in 0..1500 {
            let mut noise = Noise::new(round);
            let mut mutated = image.clone();
            for _ in 0..=noise.below(3) {
                let place = &places[noise.below(places.len() as u64) as usize];
                let at = place.start + noise.below(place.end - place.start);
                let new = match noise.below(3) {
                    0 => mutated.read(at, 1)[0] ^ (1 << noise.below(8)),
                    1 => [0, 1, 5, 0x0f, 0x42, 0x80, 0xee, 0xff][noise.below(8) as usize],
                    _ => noise.number() as u8,
                };
                mutated.write(at, &[new]);
            }
            if script == GPT && round % 4 != 0 {
                headers.iter().for_each(|header| repair_gpt(&mut mutated, *header, sector));
            }
            let map = map(&mutated);
            assert!(map.free.is_subset_of(&free), "round {round}\n{map}");
            alike += u64::from(map.free == free);
        }
        assert!((50..1500).contains(&alike), "{alike} of 1500 rounds changed nothing");
    }
}

#[test]
fn a_filesystem_without_a_table_and_one_beside_a_table() {
    let mut image = blank(16 * MIB);
    let free = make_listed(&mut image, 0, 16 * MIB);
    let alone = map(&image);
    assert_eq!((alone.regions.len(), &alone.free), (1, &free), "{alone}");
    assert_eq!(alone.regions[0].kind, Some("listed"));
    // A second signature, and a partition table, make it ambiguous.
    let mut luks = image.clone();
    luks.write(0, b"LUKS\xba\xbe");
    let mut table = image.clone();
    table.write(446, &[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
    table.write(510, &[0x55, 0xaa]);
    for other in [luks, table] {
        let map = map(&other);
        assert!(map.free.is_empty() && map.regions.len() == 1, "{map}");
        assert!(map.to_json().contains("ambiguous: signatures of listed and "), "{}", map.to_json());
    }
}

/// A swap area as mkswap makes it, its pages empty.
fn make_swap(image: &mut Pages, start: u64, size: u64) {
    image.write(start + 1024, &1_u32.to_le_bytes());
    image.write(start + 1028, &((size / 4096 - 1) as u32).to_le_bytes());
    image.write(start + 4086, b"SWAPSPACE2");
}

/// Puts a filesystem as `mkfs` makes it into a part of an image.
fn make_real(image: &mut Pages, start: u64, size: u64, mkfs: &[&str]) {
    let dir = temp_dir();
    let path = dir.path().join("filesystem");
    File::create(&path).unwrap().set_len(size).unwrap();
    run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&path));
    let data = haul_testbed::data_extents(&File::open(&path).unwrap());
    Pages::of(&support::open(&path), data.into_iter().map(|(from, len)| from..from + len)).copy_to(image, start);
}

#[test]
fn swap_and_btrfs_beside_a_mounted_filesystem_are_not_unmounted() {
    if !has("mke2fs") || !has("mkfs.btrfs") {
        return;
    }
    let script = "label: gpt\nsize=16M\nsize=8M,type=swap\nsize=128M\n";
    let Some(mut image) = partitioned(256 * MIB, script) else { return };
    let expected = dumped(&image);
    let [(root, root_len), (swap, swap_len), (data, data_len)] = expected[..] else { panic!("{expected:?}") };
    make_real(&mut image, root, root_len, &["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum"]);
    make_swap(&mut image, swap, swap_len);
    make_real(&mut image, data, data_len, &["mkfs.btrfs", "-q", "-f", "-K"]);
    let (swap, data) = (swap..swap + swap_len, data..data + data_len);
    let free = |image: &Pages, only_unmounted| {
        let map = map_with(image, &Options { only_unmounted, ..Options::default() }, haul_guest::fs::ALL);
        assert_sane(&map);
        let free = |range: &Range<u64>| map.free.clipped(range.clone()).bytes();
        (free(&(root..root + root_len)) > 0, free(&swap) > 7 * MIB, free(&data) > 0)
    };
    assert_eq!(free(&image, true), (true, true, true), "all of it was unmounted");
    // needs_recovery
    let flags = image.read(root + 1024 + 0x60, 1)[0];
    image.write(root + 1024 + 0x60, &[flags | 4]);
    let as_it_is = free(&image, false);
    assert_eq!((as_it_is.1, as_it_is.2), (true, true), "a copy is as good as the image");
    assert_eq!(free(&image, true), (false, false, false), "the root was mounted");
}

#[test]
fn a_hibernated_system_needs_all_that_it_had_mounted() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let listed = populate(&mut image, &expected[..1]);
    // Two swap areas; the system sleeps in one, and what it swapped out before is in both.
    for (start, size) in &expected[1..3] {
        make_swap(&mut image, *start, *size);
    }
    let parsers: [&dyn FreeMap; 2] = [&Listed, &Swap];
    let awake = map_with(&image, &Options::default(), &parsers);
    assert!(listed.is_subset_of(&awake.free) && awake.free.bytes() > listed.bytes() + 8 * MIB, "{awake}");
    for at in [expected[1].0, expected[2].0] {
        let mut image = image.clone();
        image.write(at + 4086, b"S1SUSPEND\0");
        let asleep = map_with(&image, &Options::default(), &parsers);
        assert_sane(&asleep);
        assert!(asleep.free.is_empty(), "{asleep}");
        let refused = |verdict: &Verdict| matches!(verdict, Verdict::Refused(Refusal::Dirty(_)));
        assert_eq!(asleep.regions.iter().filter(|region| refused(&region.verdict)).count(), 3, "{asleep}");
    }
}

/// Asserts that nothing of an image is free, and that the report says why.
fn assert_all_needed(what: &str, image: &Pages, why: &str) {
    let map = map(image);
    assert!(map.free.is_empty(), "{what}: {map}");
    assert!(map.to_json().contains(why), "{what}: {}", map.to_json());
}

/// The first fields of the metadata of dm-cache and dm-thin: checksum, flags, block number and UUID, the signature, version 2.
fn superblock_with(signature: u64) -> Vec<u8> {
    let mut superblock = vec![0; 44];
    superblock[..4].fill(0x5a);
    superblock[32..40].copy_from_slice(&signature.to_le_bytes());
    superblock[40] = 2;
    superblock
}

#[test]
fn data_of_a_hash_tree_checksums_a_snapshot_or_a_cache_need_their_free_blocks() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    assert!(!populate(&mut image, &expected[..2]).is_empty());
    assert!(!map(&image).free.is_empty());
    for (kind, signature, why) in [
        ("DM_verity_hash", &b"verity\0\0\x01\0\0\0"[..], "dm-verity hash tree in this image"),
        ("avb_vbmeta", b"AVB0\0\0\0\x01", "dm-verity hash tree in this image"),
        ("DM_integrity", b"integrt\0\x05\0", "checksums of dm-integrity in this image"),
        ("DM_snapshot_cow", b"SnAp\x01\0\0\0\x01\0\0\0", "dm-snapshot in this image"),
        ("DM_writecache", b"\x21\x93\x48\x23\x01\0\0\0\0\x10\0\0", "dm-writecache in this image"),
        ("DM_cache_metadata", &superblock_with(0o6_142_003), "dm-cache in this image"),
        ("DM_thin_metadata", &superblock_with(27_022_010), "data of a dm-thin pool in this image"),
    ] {
        let mut image = image.clone();
        image.write(expected[2].0, signature);
        let map = map(&image);
        assert!(map.regions.iter().any(|region| region.kind == Some(kind)), "{map}");
        assert_all_needed(kind, &image, why);
        // A table inside that makes no sense.
        image.write(expected[2].0 + 4096, b"EFI PART");
        assert_all_needed(kind, &image, why);
    }
}

#[test]
fn data_of_a_hash_tree_that_only_a_type_names_need_their_free_blocks() {
    // Of root on x86-64, and the signature of /usr on AArch64.
    for kind in ["2C7357ED-EBD2-46D9-AEC1-23D437EC2BF5", "C23CE4FF-44BD-4B00-B2D4-B41B3419E02A"] {
        let script = format!("label: gpt\nsize=8M\nsize=4M,type={kind}\n");
        let Some(mut image) = partitioned(64 * MIB, &script) else { return };
        let expected = dumped(&image);
        assert!(!populate(&mut image, &expected[..1]).is_empty());
        assert_all_needed(kind, &image, "dm-verity hash tree in this image");
    }
}

#[test]
fn a_partition_of_an_encrypted_type_is_used_whatever_it_seems_to_be() {
    for (kind, name) in [
        ("7FFEC5C9-2D00-49B7-8941-3EA10A5586B7", "dm_crypt"),
        ("CA7D7CCB-63ED-4C53-861C-1742536059CC", "crypto_LUKS"),
        ("8C8F8EFF-AC95-4770-814A-21994F2DBC8F", "VeraCrypt"),
        ("4FBD7E29-9D25-41B8-AFD0-5EC00CEFF05D", "ceph_dm_crypt"),
        ("CAFECAFE-9B03-4F30-B4C6-35865CEFF106", "ceph_dm_crypt"),
    ] {
        let Some(mut image) = partitioned(64 * MIB, &format!("label: gpt\nsize=8M\nsize=8M,type={kind}\n")) else {
            return;
        };
        let expected = dumped(&image);
        populate(&mut image, &expected[1..]);
        let free = populate(&mut image, &expected[..1]);
        let map = map(&image);
        assert_eq!(map.free, free, "{map}");
        assert!(
            map.regions.iter().any(|region| region.kind == Some(name) && region.verdict.word() == "opaque"),
            "{map}"
        );
    }
}

#[test]
fn what_matters_to_others_is_seen_in_partitions_that_nobody_understands() {
    // Of the logical disk manager, and one that ends beyond the disk.
    let ldm = "label: gpt\nsize=8M\nsize=4M,type=AF9B60A0-1431-4F62-BC68-3311714A69AD\n";
    for (script, beyond) in [(ldm, false), ("label: dos\nsize=8M\nsize=4M\n", true)] {
        let Some(mut image) = partitioned(64 * MIB, script) else { return };
        let expected = dumped(&image);
        let free = populate(&mut image, &expected[..1]);
        if beyond {
            image.write(446 + 16 + 12, &u32::MAX.to_le_bytes());
        }
        assert!(!free.is_empty());
        assert_eq!(map(&image).free, free, "{}", map(&image));
        for (at, signature, why) in [
            (0, &b"verity\0\0\x01\0\0\0"[..], "dm-verity hash tree in this image"),
            (0, b"integrt\0\x05\0", "checksums of dm-integrity in this image"),
            (4086, b"S1SUSPEND\0", "hibernated system in this image"),
        ] {
            let mut image = image.clone();
            image.write(expected[1].0 + at, signature);
            assert_all_needed(script, &image, why);
        }
    }
}

#[test]
fn a_hash_tree_behind_a_filesystem_needs_all_free_blocks() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    assert!(!populate(&mut image, &expected[..2]).is_empty());
    // The second filesystem leaves the last 4 MiB of its partition.
    let end = expected[1].0 + 4 * MIB + 1536;
    image.write(expected[1].0 + 2048 + 8, &(end - expected[1].0).to_le_bytes());
    assert!(!map(&image).free.is_empty());
    for (what, at) in
        [("right behind it", end), ("at the next MiB", end.next_multiple_of(MIB)), ("far", (end + 3 * MIB) / MIB * MIB)]
    {
        for signature in [&b"verity\0\0\x01\0\0\0"[..], b"\x01\xb0\x01\xb0\0\0\0\0"] {
            let mut image = image.clone();
            image.write(at / 512 * 512, signature);
            assert_all_needed(what, &image, "dm-verity hash tree in this image");
        }
    }
    // In a free block of the filesystem, it is the rest of a file.
    let mut inside = image.clone();
    inside.write(expected[1].0 + MIB, b"verity\0\0\x01\0\0\0");
    assert!(!map(&inside).free.is_empty());
}

/// Programs that make a filesystem in a file.
const MAKERS: &[(&str, &[&str])] = &[
    ("mkfs.ext4", &["-q", "-F"]),
    ("mkfs.xfs", &["-q", "-f"]),
    ("mkfs.btrfs", &["-q", "-f"]),
    ("mkntfs", &["-q", "-Q", "-F"]),
    ("mkfs.vfat", &[]),
    ("mkfs.exfat", &[]),
];

#[test]
fn the_end_of_every_kind_of_filesystem_is_known() {
    const SIZE: u64 = 320 * MIB;
    for (maker, options) in MAKERS {
        if !has(maker) {
            continue;
        }
        let dir = temp_dir();
        let path = dir.path().join("image");
        let file = File::create(&path).unwrap();
        file.set_len(SIZE).unwrap();
        run(Command::new(maker).args(*options).arg(&path));
        // The hash tree is put behind it.
        file.set_len(SIZE + 4 * MIB).unwrap();
        let map = |file: &Path| map_with(&support::open(file), &Options::default(), haul_guest::fs::ALL);
        assert!(!map(&path).free.is_empty(), "{maker}: {}", map(&path));
        file.write_all_at(b"verity\0\0\x01\0\0\0", SIZE).unwrap();
        assert!(map(&path).free.is_empty(), "{maker}: {}", map(&path));
    }
}

#[test]
fn a_filesystem_before_a_footer_of_android_verified_boot_is_used() {
    let mut image = blank(16 * MIB);
    assert!(!make_listed(&mut image, 0, 16 * MIB).is_empty());
    image.write(16 * MIB - 64, b"AVBf\0\0\0\x01");
    assert_all_needed("footer", &image, "ambiguous: signatures of listed and avb_footer");
}

/// Reads single bytes, as many as it may.
struct Nibbler {
    reads: u32,
}

impl FreeMap for Nibbler {
    fn name(&self) -> &'static str {
        "nibbler"
    }
    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Listed.detect(region)
    }
    fn free(&self, region: &View<'_>, options: &Options) -> Result<Findings, Refusal> {
        (0..self.reads).try_for_each(|_| region.read(0, 1).map(drop))?;
        Listed.free(region, options)
    }
}

#[test]
fn what_a_map_rests_on_is_bounded() {
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    populate(&mut image, &expected);
    // Two regions may rest on a million pieces each. The next ones are refused while they are read, and so is one that
    // reads more by itself.
    for (reads, mapped, work) in [(1_000_000, 2, 2_300_000), (3_000_000, 0, 8_500_000)] {
        let parsers: [&dyn FreeMap; 1] = [&Nibbler { reads }];
        let map = within(&image, work, 16 * MIB, |image| map_with(image, &Options::default(), &parsers));
        assert_sane(&map);
        let found = map.regions.iter().filter(|region| matches!(region.verdict, Verdict::Mapped { .. })).count();
        assert_eq!(found, mapped, "{map}");
        assert!(map.to_json().contains("pieces that the map rests on"), "{map}");
        assert!(map.witnesses.len() <= 2 << 20);
    }
}

#[test]
fn images_of_any_length_are_covered() {
    for size in [0, 1, 511, 512, 513, 4095, 4096, 8191, 70_000, MIB + 1] {
        let map = map(&blank(size));
        assert_eq!(map.size, size);
        assert!(map.free.is_empty());
    }
}

#[test]
fn a_parser_that_panics_costs_its_region_only() {
    struct Panics;
    impl FreeMap for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }
        fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
            Ok(region.size() == 8 * MIB)
        }
        fn free(&self, _: &View<'_>, _: &Options) -> Result<Findings, Refusal> {
            panic!("a forgery that nobody thought of")
        }
    }
    let Some(mut image) = partitioned(64 * MIB, GPT) else { return };
    let expected = dumped(&image);
    let parts: Vec<(u64, u64)> = expected.iter().copied().filter(|(_, size)| *size != 8 * MIB).collect();
    let free = populate(&mut image, &parts);
    let parsers: [&dyn FreeMap; 2] = [LISTED[0], &Panics];
    let map = map_with(&image, &Options::default(), &parsers);
    assert_sane(&map);
    assert_eq!(map.free, free, "{map}");
    assert!(map.to_json().contains("\"internal error\""));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_byte_is_free_only_where_all_that_own_it_agree(
        partitions in prop::collection::vec((8_u64..200, 1_u64..120, prop::bool::ANY), 0..4)
    ) {
        // An MBR with partitions that may overlap, in units of 64 KiB, with or without a filesystem.
        const UNIT: u64 = 64 << 10;
        let mut image = blank(400 * UNIT);
        image.write(510, &[0x55, 0xaa]);
        let mut partitions = partitions;
        // Of filesystems with one start, the last superblock would be that of all.
        partitions.sort_unstable();
        partitions.dedup_by_key(|(start, _, _)| *start);
        let free_of = |start: u64, len: u64| vec![0..UNIT / 2, len * UNIT / 2..len * UNIT]
            .into_iter().map(move |range| (start * UNIT + range.start.max(4096))..(start * UNIT + range.end));
        for (number, (start, len, filesystem)) in (0..).zip(&partitions) {
            let mut entry = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
            entry.extend((*start as u32 * 128).to_le_bytes());
            entry.extend((*len as u32 * 128).to_le_bytes());
            image.write(446 + number * 16, &entry);
            if *filesystem {
                let free: Vec<_> = free_of(0, *len).collect();
                image.write(start * UNIT + 2048, &superblock(len * UNIT, &free));
            }
        }
        let map = map(&image);
        for page in 0..400 * UNIT / 4096 {
            let byte = page * 4096;
            let mut owners = partitions.iter().filter(|(start, len, _)| (start * UNIT..(start + len) * UNIT).contains(&byte)).peekable();
            let expected = owners.peek().is_some()
                && owners.all(|(start, len, filesystem)| *filesystem && free_of(*start, *len).any(|range| range.contains(&byte)));
            prop_assert_eq!(map.free.contains(byte), expected, "page {} of {:?}\n{}", page, partitions, map);
        }
    }
}
