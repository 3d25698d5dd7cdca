//! A whole disk as an installer leaves it: GPT, an EFI partition, LVM with an ext4 root in two pieces and XFS data, swap.

mod support;

use std::ops::Range;
use std::path::Path;

use haul_forge::whole::{self, WholeDisk, pieces};
use haul_guest::fs::{ALL, FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, Map, Region, Verdict, map};
use haul_testbed::guest::run;
use haul_testbed::{Bed, Command, temp_dir};
use support::disk::assert_sane;

/// The parser, if there is one yet, for the filesystem that an image is.
fn parser_of(image: &Path) -> Option<&'static dyn FreeMap> {
    let file = support::open(image);
    let session = Session::new(&file, Budget::for_image(1 << 30));
    ALL.iter().copied().find(|parser| parser.detect(&session.view()).unwrap())
}

/// What a parser proves of the image alone, moved to where it lies on the disk.
fn expected(image: &Path, places: &[Range<u64>]) -> Option<ExtentSet> {
    let free = support::free(parser_of(image)?, &support::open(image)).expect("refused").free;
    let mut moved = ExtentSet::new();
    for (from, to) in pieces(places) {
        let piece = free.clipped(from..from + (to.end - to.start));
        for extent in piece.iter() {
            moved.insert(to.start + extent.start - from..to.start + extent.end() - from);
        }
    }
    Some(moved.trimmed_to(4096))
}

fn region<'m>(map: &'m Map, place: &str) -> &'m Region {
    map.regions.iter().find(|region| region.place == place).unwrap_or_else(|| panic!("no {place}\n{map}"))
}

/// Checks what the map says of one filesystem, as far as its parser is there.
fn check(map: &Map, name: &str, image: &Path, places: &[Range<u64>]) {
    let found = region(map, name);
    let whole = ExtentSet::from_ranges(places.iter().cloned());
    let free = map.free.intersection(&whole);
    match expected(image, places) {
        Some(expected) => {
            assert_eq!(found.kind, parser_of(image).map(|parser| parser.name()), "{map}");
            assert!(matches!(found.verdict, Verdict::Mapped { .. }), "{map}");
            assert_eq!(free, expected, "{map}");
            assert_eq!(found.free, free.bytes());
        }
        None => {
            assert_eq!((found.kind, &found.verdict), (None, &Verdict::Unknown), "{map}");
            assert!(free.is_empty(), "{map}");
        }
    }
}

#[test]
fn a_disk_with_efi_lvm_and_swap_is_understood_in_all_its_parts() {
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let Some(WholeDisk { disk, efi, root, data, swap, unused }) = whole::build(&bed, dir.path()) else { return };

    let image = support::open(&disk);
    let map = map(&image, &Options::default());
    assert_sane(&map);
    assert!(map.still_holds(&image).unwrap());
    check(&map, "GPT partition 1", &efi.image, &efi.places);
    check(&map, "LVM volume vg0/root", &root.image, &root.places);
    check(&map, "LVM volume vg0/data", &data.image, &data.places);
    check(&map, "GPT partition 3", &swap.image, &swap.places);
    let free = region(&map, "LVM free extents of vg0");
    assert_eq!(free.free, unused.iter().map(|range| range.end - range.start).sum::<u64>());
    assert!(ExtentSet::from_ranges(unused).is_subset_of(&map.free));
    for framework in ["start of the disk", "end of the disk", "LVM metadata of vg0 (GPT partition 2)"] {
        assert_eq!(region(&map, framework).verdict, Verdict::Framework);
    }

    // A copy without what is free has every file, and the same partitions.
    let copy = at("copy");
    support::copy_without(&disk, &map.free, &copy);
    let dump = |image: &Path| {
        let dump = run(Command::new("sfdisk").arg("-d").arg(image));
        dump.lines()
            .filter(|line| line.contains("start="))
            .map(|line| line.split(':').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(dump(&copy), dump(&disk));
    for (kind, part, options) in [
        ("ext4", &root, &["ro", "noload"][..]),
        ("xfs", &data, &["ro", "norecovery"]),
        ("ext4", &root, &["rw"]),
        ("xfs", &data, &["rw"]),
    ] {
        whole::assert_part(&bed, &copy, part, kind, options, &at("part"));
    }
}
