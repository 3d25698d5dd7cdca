//! A whole disk as an installer leaves it: GPT, an EFI partition, LVM with an ext4 root in two pieces and XFS data, swap.

mod support;

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_guest::fs::{ALL, FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, Map, Region, Verdict, map};
use haul_testbed::guest::{Noise, digests, has, live_through, run, write_noise};
use haul_testbed::{Bed, temp_dir};
use support::disk::{assert_sane, feed};
use support::lvm::Lvm;

const MIB: u64 = 1 << 20;

/// Sizes of the physical volume and its two volumes.
const PHYSICAL: u64 = 560 * MIB;
const ROOT: u64 = 140 * MIB;
const DATA: u64 = 320 * MIB;

/// The parser, if there is one yet, for the filesystem that an image is.
fn parser_of(image: &Path) -> Option<&'static dyn FreeMap> {
    let file = support::open(image);
    let session = Session::new(&file, Budget::for_image(1 << 30));
    ALL.iter().copied().find(|parser| parser.detect(&session.view()).unwrap())
}

/// Copies an image to places in another: pairs of where from (in order) and where to.
fn place(image: &Path, disk: &File, places: &[Range<u64>]) {
    let file = File::open(image).unwrap();
    for (from, to) in pieces(places) {
        let mut buffer = vec![0; (to.end - to.start) as usize];
        file.read_exact_at(&mut buffer, from).unwrap();
        disk.write_all_at(&buffer, to.start).unwrap();
    }
}

/// Cuts an image out of another.
fn cut(disk: &Path, places: &[Range<u64>], image: &Path) {
    let (disk, image) = (File::open(disk).unwrap(), File::create(image).unwrap());
    for (from, to) in pieces(places) {
        let mut buffer = vec![0; (to.end - to.start) as usize];
        disk.read_exact_at(&mut buffer, to.start).unwrap();
        image.write_all_at(&buffer, from).unwrap();
    }
}

fn pieces(places: &[Range<u64>]) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
    places.iter().scan(0, |from, to| {
        let start = *from;
        *from += to.end - to.start;
        Some((start, to.clone()))
    })
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

/// Fills a mounted image with a past; returns its files.
fn populated(bed: &Bed, kind: &str, image: &Path, seed: u64) -> std::collections::BTreeMap<PathBuf, (u64, u64)> {
    let mounted = bed.mount_image(kind, image, &[]);
    live_through(mounted.path(), 20 * MIB, seed);
    let files = digests(mounted.path());
    mounted.unmount();
    files
}

/// A file of noise of the given size, so that whatever a filesystem does not write is not zero.
fn noise_image(path: &Path, size: u64) {
    write_noise(path, size, &mut Noise::new(size));
}

#[test]
fn a_disk_with_efi_lvm_and_swap_is_understood_in_all_its_parts() {
    let tools = ["sfdisk", "mkfs.vfat", "mkfs.ext4", "mkfs.xfs", "mkswap"];
    if !tools.iter().all(|tool| has(tool)) {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let (efi, root, data, swap, disk) = (at("efi"), at("root"), at("data"), at("swap"), at("disk"));

    let Some(lvm) = Lvm::new(&[PHYSICAL], &[]) else { return };
    lvm.run("lvcreate", &["-L", "80M", "-n", "root", "vg0"]);
    lvm.run("lvcreate", &["-L", "320M", "-n", "data", "vg0"]);
    lvm.run("lvextend", &["-L", "140M", "vg0/root"]);
    noise_image(&efi, 40 * MIB);
    run(Command::new("mkfs.vfat").arg("-F32").arg(&efi));
    noise_image(&swap, 24 * MIB);
    run(Command::new("mkswap").args(["-q"]).arg(&swap));
    noise_image(&root, ROOT);
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&root));
    noise_image(&data, DATA);
    run(Command::new("mkfs.xfs").args(["-q", "-f", "-K"]).arg(&data));
    let root_files = populated(&bed, "ext4", &root, 1);
    let data_files = populated(&bed, "xfs", &data, 2);

    File::create(&disk).unwrap().set_len(640 * MIB).unwrap();
    let script =
        "label: gpt\nstart=1M,size=40M,type=uefi\nstart=41M,size=560M,type=lvm\nstart=601M,size=24M,type=swap\n";
    feed(Command::new("sfdisk").args(["-q", "--no-reread"]).arg(&disk), script);
    let file = File::options().write(true).open(&disk).unwrap();
    // The headers of LVM, then each volume at its extents, as LVM says them.
    let physical = 41 * MIB;
    place(&lvm.path(0), &file, std::slice::from_ref(&(physical..physical + PHYSICAL)));
    let segments = lvm.segments(0);
    let of = |volume: &str| -> Vec<Range<u64>> {
        let own = segments.iter().filter(|(name, _)| name == volume);
        own.map(|(_, range)| physical + range.start..physical + range.end).collect()
    };
    let (root_at, data_at, unused) = (of("root"), of("data"), of(""));
    assert_eq!(root_at.len(), 2, "{segments:?}");
    place(&root, &file, &root_at);
    place(&data, &file, &data_at);
    let one = |start: u64, len: u64| vec![Range { start: start * MIB, end: (start + len) * MIB }];
    let (efi_at, swap_at) = (one(1, 40), one(601, 24));
    place(&efi, &file, &efi_at);
    place(&swap, &file, &swap_at);
    let leftovers: Vec<u8> = Noise::new(3).bytes(MIB as usize);
    unused.iter().for_each(|range| file.write_all_at(&leftovers, range.start).unwrap());
    drop(file);

    let image = support::open(&disk);
    let map = map(&image, &Options::default());
    assert_sane(&map);
    assert!(map.still_holds(&image).unwrap());
    check(&map, "GPT partition 1", &efi, &efi_at);
    check(&map, "LVM volume vg0/root", &root, &root_at);
    check(&map, "LVM volume vg0/data", &data, &data_at);
    check(&map, "GPT partition 3", &swap, &swap_at);
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
    for (kind, places, files, options) in [
        ("ext4", &root_at, &root_files, &["ro", "noload"][..]),
        ("xfs", &data_at, &data_files, &["ro", "norecovery"]),
        ("ext4", &root_at, &root_files, &["rw"]),
        ("xfs", &data_at, &data_files, &["rw"]),
    ] {
        let part = at("part");
        cut(&copy, places, &part);
        let mounted = bed.mount_image(kind, &part, options);
        assert_eq!(digests(mounted.path()), *files, "{kind} {options:?}");
        mounted.unmount();
        fs::remove_file(&part).unwrap();
    }
}
