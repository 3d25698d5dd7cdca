//! An MBR does not say in which sectors it counts.

mod support;

use haul_guest::fs::{FreeMap, Options};
use haul_guest::{ExtentSet, Map, ReadAt, Region, Verdict, map_with};
use support::Pages;
use support::disk::{LISTED, assert_sane, blank, make_listed};

const MIB: u64 = 1 << 20;
const LARGE: u64 = 4096;

fn map(image: &dyn ReadAt) -> Map {
    let map = map_with(image, &Options::default(), LISTED);
    assert_sane(&map);
    map
}

/// Writes a table of at most four partitions: kind, first byte and length, in these sectors.
fn write_table(image: &mut Pages, at: u64, sector: u64, partitions: &[(u8, u64, u64)]) {
    for (number, (kind, start, len)) in (0..).zip(partitions) {
        let mut entry = vec![0, 0, 0, 0, *kind, 0, 0, 0];
        entry.extend(((start / sector) as u32).to_le_bytes());
        entry.extend(((len / sector) as u32).to_le_bytes());
        image.write(at + 446 + number * 16, &entry);
    }
    image.write(at + 510, &[0x55, 0xaa]);
}

/// The partitions of a table of large sectors, misread as of small ones, are kept.
fn misread(free: &ExtentSet, sector: u64, partitions: &[(u8, u64, u64)]) -> ExtentSet {
    let small = |(_, start, len): &(u8, u64, u64)| start / 8..(start + len) / 8;
    let kept = if sector == LARGE { partitions.iter().map(small).collect() } else { ExtentSet::new() };
    free.without(&kept).trimmed_to(4096)
}

const PARTITIONS: [(u8, u64, u64); 2] = [(0x83, MIB, 20 * MIB), (0x83, 24 * MIB, 30 * MIB)];

#[test]
fn a_table_of_sectors_of_4_kib_is_read_where_something_lies_in_them_alone() {
    // One of both partitions is enough.
    for (sector, (_, start, len)) in [512, LARGE].into_iter().flat_map(|sector| PARTITIONS.map(|part| (sector, part))) {
        let mut image = blank(64 * MIB);
        write_table(&mut image, 0, sector, &PARTITIONS);
        let free = make_listed(&mut image, start, len);
        let map = map(&image);
        assert_eq!(map.free, misread(&free, sector, &PARTITIONS), "{sector}: {map}");
        let usual = |region: &&Region| region.place.starts_with("MBR") && !region.place.contains("sectors");
        let partitions: Vec<_> = map.regions.iter().filter(usual).map(|part| (part.start(), part.size())).collect();
        assert_eq!(partitions, PARTITIONS.map(|(_, start, len)| (start, len)), "{sector}: {map}");
    }
}

#[test]
fn logical_partitions_are_counted_in_the_same_sectors() {
    for sector in [512, LARGE] {
        let mut image = blank(64 * MIB);
        let primary = [(0x83, MIB, 4 * MIB), (0x0f, 8 * MIB, 50 * MIB)];
        write_table(&mut image, 0, sector, &primary);
        write_table(&mut image, 8 * MIB, sector, &[(0x83, MIB, 16 * MIB), (0x05, 24 * MIB, 20 * MIB)]);
        write_table(&mut image, 32 * MIB, sector, &[(0x83, MIB, 16 * MIB)]);
        let free = make_listed(&mut image, 33 * MIB, 16 * MIB).union(&make_listed(&mut image, 9 * MIB, 16 * MIB));
        let map = map(&image);
        assert_eq!(map.free, misread(&free, sector, &primary), "{sector}: {map}");
    }
}

#[test]
fn a_table_with_something_known_in_both_kinds_of_sectors_frees_nothing() {
    let mut image = blank(64 * MIB);
    write_table(&mut image, 0, LARGE, &PARTITIONS);
    make_listed(&mut image, PARTITIONS[0].1, PARTITIONS[0].2);
    assert!(!map(&image).free.is_empty());
    // In the place of the second one in smaller sectors: what an older table had there.
    make_listed(&mut image, PARTITIONS[1].1 / 8, 3 * MIB);
    let map = map(&image);
    assert!(map.free.is_empty(), "{map}");
    assert!(matches!(&map.regions[0].verdict, Verdict::Refused(_)), "{map}");
}

#[test]
fn a_table_that_does_not_fit_in_large_sectors_is_of_small_ones() {
    let mut image = blank(64 * MIB);
    write_table(&mut image, 0, 512, &[(0x83, 2 * MIB, 40 * MIB)]);
    let free = make_listed(&mut image, 2 * MIB, 40 * MIB);
    // Inside the first one, where it would start.
    make_listed(&mut image, 16 * MIB, MIB);
    let map = map(&image);
    assert_eq!(map.free, free, "{map}");
    let nothing = map_with(&image, &Options::default(), &[] as &[&dyn FreeMap]);
    assert_eq!(nothing.free, ExtentSet::new());
}
