//! LVM2: extents are free exactly where LVM says so, and volumes that are more than they seem are not looked into.

mod support;

use std::ops::Range;

use haul_guest::crc32;
use haul_guest::fs::Options;
use haul_guest::{ExtentSet, Map, ReadAt, Region, Verdict, map_with};
use haul_testbed::guest::Noise;
use support::disk::{LISTED, assert_sane, make_listed};
use support::lvm::Lvm;
use support::{Pages, within};

const MIB: u64 = 1 << 20;
const EXTENT: u64 = 4 * MIB;

fn map(image: &dyn ReadAt) -> Map {
    let map = map_with(image, &Options::default(), LISTED);
    assert_sane(&map);
    map
}

/// A volume group of 49 extents: root in two pieces around data, and 19 extents free.
fn group() -> Option<(Lvm, Pages)> {
    let lvm = Lvm::new(&[200 * MIB], &[])?;
    lvm.run("lvcreate", &["-L", "60M", "-n", "root", "vg0"]);
    lvm.run("lvcreate", &["-L", "40M", "-n", "data", "vg0"]);
    lvm.run("lvextend", &["-L", "+20M", "vg0/root"]);
    let image = lvm.image(0);
    Some((lvm, image))
}

fn extents(numbers: Range<u64>) -> ExtentSet {
    ExtentSet::of(MIB + numbers.start * EXTENT..MIB + numbers.end * EXTENT)
}

fn region<'m>(map: &'m Map, place: &str) -> &'m Region {
    map.regions.iter().find(|region| region.place == place).unwrap_or_else(|| panic!("no {place}\n{map}"))
}

#[test]
fn free_extents_are_those_of_lvm_and_volumes_are_looked_into() {
    let Some((lvm, mut image)) = group() else { return };
    let free = lvm.free_extents(0);
    assert_eq!(free, extents(30..49));
    // A filesystem over both pieces of root.
    let superblock = support::disk::superblock(80 * MIB, &[MIB..2 * MIB, 59 * MIB..62 * MIB]);
    image.write(MIB + 2048, &superblock);
    let in_root = ExtentSet::from_ranges([2 * MIB..3 * MIB, 60 * MIB..61 * MIB, 101 * MIB..103 * MIB]);
    let map = map(&image);
    assert_eq!(map.free, free.union(&in_root), "{map}");
    let root = region(&map, "LVM volume vg0/root");
    assert_eq!((root.kind, root.free, root.extents.len()), (Some("listed"), 4 * MIB, 2), "{map}");
    assert_eq!(region(&map, "LVM volume vg0/data").verdict, Verdict::Unknown);
    assert_eq!(region(&map, "LVM free extents of vg0").free, free.bytes());
    assert!(map.still_holds(&image).unwrap());
    // The map does not survive a change of the metadata.
    lvm.run("lvcreate", &["-L", "4M", "-n", "new", "vg0"]);
    assert!(!map.still_holds(&lvm.image(0)).unwrap());
}

#[test]
fn metadata_that_went_round_their_ring_are_read() {
    let Some(lvm) = Lvm::new(&[64 * MIB], &[]) else { return };
    lvm.run("lvcreate", &["-L", "8M", "-n", "root", "vg0"]);
    // The ring has 1 MiB, so the text is made long.
    let tags: Vec<String> = (0..100).map(|number| format!("--addtag={number:0>1000}")).collect();
    lvm.run("vgchange", &tags.iter().map(String::as_str).chain(["vg0"]).collect::<Vec<_>>());
    let mut wrapped = 0;
    for round in 0..12 {
        lvm.run("lvchange", &[if round % 2 == 0 { "--addtag" } else { "--deltag" }, "tag", "vg0/root"]);
        let image = lvm.image(0);
        let map = map(&image);
        assert_eq!(map.free, lvm.free_extents(0), "{map}");
        let header = Header::of(&image);
        wrapped += u64::from(header.offset + header.len > header.area_len);
    }
    assert!(wrapped > 0, "the text never went round");
}

#[test]
fn two_copies_of_the_metadata_must_agree() {
    let Some(lvm) = Lvm::new(&[64 * MIB], &["--metadatacopies", "2"]) else { return };
    lvm.run("lvcreate", &["-L", "8M", "-n", "root", "vg0"]);
    let old = lvm.image(0);
    assert_eq!(map(&old).free, lvm.free_extents(0));
    lvm.run("lvcreate", &["-L", "8M", "-n", "data", "vg0"]);
    let mut new = lvm.image(0);
    assert_eq!(map(&new).free, lvm.free_extents(0));
    // The second copy, at the end, as it was before.
    let tail = 63 * MIB..64 * MIB;
    new.write(tail.start, &old.read(tail.start, MIB as usize));
    let map = map(&new);
    assert!(map.free.is_empty(), "{map}");
    assert!(map.to_json().contains("copies of the LVM metadata differ"));
}

#[test]
fn volumes_on_several_disks_are_not_looked_into() {
    let Some(lvm) = Lvm::new(&[64 * MIB, 64 * MIB], &[]) else { return };
    lvm.run("lvcreate", &["-L", "16M", "-i", "2", "-n", "striped", "vg0"]);
    lvm.run("lvcreate", &["-L", "80M", "-n", "long", "vg0"]);
    lvm.run("lvcreate", &["-L", "4M", "-n", "plain", "vg0"]);
    for disk in 0..2 {
        let map = map(&lvm.image(disk));
        assert_eq!(map.free, lvm.free_extents(disk), "{map}");
        assert!(matches!(region(&map, "LVM volume vg0/striped").verdict, Verdict::Opaque { .. }), "{map}");
        assert!(matches!(region(&map, "LVM volume vg0/long").verdict, Verdict::Opaque { .. }), "{map}");
    }
}

#[test]
fn what_matters_to_others_is_seen_in_volumes_that_nobody_understands() {
    let Some(lvm) = Lvm::new(&[64 * MIB, 64 * MIB], &[]) else { return };
    lvm.run("lvcreate", &["-L", "16M", "-i", "2", "-n", "striped", "vg0"]);
    lvm.run("lvcreate", &["-L", "8M", "-n", "plain", "vg0"]);
    let mut image = lvm.image(0);
    let start = |name: &str| lvm.segments(0).iter().find(|(volume, _)| volume == name).unwrap().1.start;
    let free = make_listed(&mut image, start("plain"), 8 * MIB);
    assert!(!free.is_empty() && free.is_subset_of(&map(&image).free));
    for (at, signature, why) in [
        (0, &b"verity\0\0\x01\0\0\0"[..], "dm-verity hash tree in this image"),
        (0, b"SnAp\x01\0\0\0\x01\0\0\0", "dm-snapshot in this image"),
        (4086, b"S1SUSPEND\0", "hibernated system in this image"),
    ] {
        let mut image = image.clone();
        image.write(start("striped") + at, signature);
        let map = map(&image);
        assert!(map.free.intersection(&free).is_empty(), "{map}");
        assert!(map.to_json().contains(why), "{map}");
    }
}

/// LVM makes mirrors and pools with device-mapper only, so their metadata are written here as LVM writes them.
#[test]
fn mirrors_and_pools_keep_their_hidden_parts() {
    let Some((_lvm, mut image)) = group() else { return };
    make_listed(&mut image, MIB, 60 * MIB);
    let volume = |name: &str, status: &str, segment: &str| {
        format!(
            "{name} {{\nid = \"{name}\"\nstatus = [{status}]\nflags = []\nsegment_count = 1\nsegment1 {{\nstart_extent = 0\n\
             {segment}\n}}\n}}\n"
        )
    };
    let on_disk = |start: u32| {
        format!("extent_count = 4\ntype = \"striped\"\nstripe_count = 1\nstripes = [\n\"pv0\", {start}\n]")
    };
    let hidden = "\"READ\", \"WRITE\"";
    let visible = "\"READ\", \"WRITE\", \"VISIBLE\"";
    let volumes = [
        volume(
            "mirror",
            visible,
            "extent_count = 4\ntype = \"raid1\"\ndevice_count = 2\nraids = [\n\"rmeta\", \"rimage\",\n]",
        ),
        volume("rmeta", hidden, &on_disk(0)),
        volume("rimage", hidden, &on_disk(8)),
        volume("thin", visible, "extent_count = 999\ntype = \"thin\"\nthin_pool = \"pool\"\ndevice_id = 1"),
        volume("pool", visible, "extent_count = 4\ntype = \"thin-pool\"\nmetadata = \"tmeta\"\npool = \"tdata\""),
        volume("tmeta", hidden, &on_disk(16)),
        volume("tdata", hidden, &on_disk(20)),
        volume("plain", visible, &on_disk(30)),
        // Old mirrors and raids name the disk themselves.
        volume("direct", visible, "extent_count = 4\ntype = \"raid5\"\nraids = [\n\"pv0\", 40, \"pv0\", 44\n]"),
    ];
    let text = text_of(&image);
    let (before, _) = text.split_once("logical_volumes {\n").unwrap();
    let (_, after) = text.split_once("# Generated by").unwrap();
    let text = format!("{before}logical_volumes {{\n{}}}\n}}\n# Generated by{after}", volumes.concat());
    let mut image = with_text(&image, text.as_bytes());
    // The metadata of the pool, whose data LVM names.
    image.write(MIB + 16 * EXTENT + 32, &27_022_010_u64.to_le_bytes());
    let map = map(&image);
    let used = [0..4, 8..12, 16..20, 20..24, 30..34, 40..48].map(extents);
    let used = used.iter().fold(ExtentSet::new(), |all, some| all.union(some));
    assert_eq!(map.free, extents(0..49).without(&used), "{map}");
    for name in ["rmeta", "rimage", "tmeta", "tdata", "direct"] {
        assert_eq!(region(&map, &format!("LVM volume vg0/{name}")).verdict.word(), "opaque", "{map}");
    }
    assert_eq!(region(&map, "LVM volume vg0/plain").verdict.word(), "unknown", "{map}");
}

/// The metadata area of an image.
struct Header {
    area_len: u64,
    offset: u64,
    len: u64,
}

const AREA: u64 = 4096;

impl Header {
    fn of(image: &Pages) -> Header {
        let field = |at| u64::from_le_bytes(image.read(AREA + at, 8).try_into().unwrap());
        Header { area_len: field(32), offset: field(40), len: field(48) }
    }
}

fn text_of(image: &Pages) -> String {
    let header = Header::of(image);
    let text = image.read(AREA + header.offset, header.len as usize - 1);
    String::from_utf8(text).unwrap()
}

/// Replaces the metadata, with all checksums right.
fn with_text(image: &Pages, text: &[u8]) -> Pages {
    let mut image = image.clone();
    let header = Header::of(&image);
    let mut text = text.to_vec();
    text.push(0);
    image.write(AREA + header.offset, &text);
    image.write(AREA + 48, &(text.len() as u64).to_le_bytes());
    image.write(AREA + 56, &lvm_checksum(&text).to_le_bytes());
    repair_header(&mut image);
    image
}

fn lvm_checksum(bytes: &[u8]) -> u32 {
    crc32::update(0xf597_a6cf, bytes)
}

fn repair_header(image: &mut Pages) {
    let sum = lvm_checksum(&image.read(AREA + 4, 508));
    image.write(AREA, &sum.to_le_bytes());
}

#[test]
fn doubtful_groups_are_used_as_a_whole() {
    let Some((_lvm, image)) = group() else { return };
    let text = text_of(&image);
    assert!(!map(&with_text(&image, text.as_bytes())).free.is_empty(), "the forger's tools are right");
    for (from, to) in [
        // Status of the group, of the disk, of a volume.
        (
            "status = [\"RESIZEABLE\", \"READ\", \"WRITE\"]",
            "status = [\"RESIZEABLE\", \"READ\", \"WRITE\", \"EXPORTED\"]",
        ),
        ("status = [\"RESIZEABLE\", \"READ\", \"WRITE\"]", "status = [\"PARTIAL\", \"READ\", \"WRITE\"]"),
        ("format = \"lvm2\"", "format = \"lvm2\"\nlock_type = \"sanlock\""),
        ("status = [\"ALLOCATABLE\"]\nflags = []", "status = [\"ALLOCATABLE\"]\nflags = [\"MISSING\"]"),
        ("status = [\"READ\", \"WRITE\", \"VISIBLE\"]", "status = [\"READ\", \"WRITE\", \"VISIBLE\", \"LOCKED\"]"),
        ("status = [\"READ\", \"WRITE\", \"VISIBLE\"]", "status = [\"READ\", \"WRITE\", \"PVMOVE\"]"),
        // Segments.
        ("type = \"striped\"", "type = \"of-tomorrow\""),
        ("\"pv0\", 15", "\"pv0\""),
        ("\"pv0\", 15", "\"pv0\", -1"),
        ("\"pv0\", 15", "\"pv0\", 14"),
        ("\"pv0\", 15", "\"pv0\", 9223372036854775807"),
        ("\"pv0\", 25", "\"pv0\", 45"),
        ("start_extent = 15", "start_extent = 14"),
        ("extent_count = 15", "extent_count = 0"),
        ("segment_count = 2", "segment_count = 3"),
        ("stripe_count = 1", "stripe_count = \"1\""),
        // The disk.
        ("pe_start = 2048", "pe_start = 0"),
        ("pe_start = 2048", "pe_start = 4096"),
        ("pe_count = 49", "pe_count = 50"),
        ("pe_count = 49", "pe_count = 9223372036854775807"),
        ("extent_size = 8192", "extent_size = 0"),
        ("extent_size = 8192", "extent_size = 9223372036854775807"),
        ("id = \"", "id = \"x"),
        // The text.
        ("seqno", "seqno = 1\nseqno"),
        ("vg0 {", "vg0 {\nx { y { z { a { b { c { d { e { } } } } } } } }\n"),
        ("vg0 {", "other { }\nvg0 {"),
        ("vg0 {", "v\u{e9}g0 {"),
        ("contents = \"Text", "contents = \"Other"),
    ] {
        assert!(text.contains(from), "{from}");
        let map = map(&with_text(&image, text.replace(from, to).as_bytes()));
        assert!(map.free.is_empty(), "{from} -> {to}\n{map}");
        assert_eq!(map.regions[0].verdict.word(), "refused", "{from} -> {to}\n{map}");
    }
}

#[test]
fn the_origin_of_a_snapshot_is_not_looked_into() {
    let Some((_lvm, mut image)) = group() else { return };
    make_listed(&mut image, MIB, 60 * MIB);
    let text = text_of(&image);
    let seen = map(&with_text(&image, text.as_bytes()));
    assert_eq!(region(&seen, "LVM volume vg0/root").verdict.word(), "mapped");
    let snapshot = "logical_volumes {\nsnapshot0 {\nid = \"NhB9Px-yuDO-Y6Hu-Fube-AqSE-y0Sk-umXXXX\"\nstatus = [\"READ\", \"WRITE\"]\n\
        flags = []\nsegment_count = 1\nsegment1 {\nstart_extent = 0\nextent_count = 20\ntype = \"snapshot\"\nchunk_size = 8\n\
        origin = \"root\"\ncow_store = \"data\"\n}\n}\n";
    let map = map(&with_text(&image, text.replace("logical_volumes {\n", snapshot).as_bytes()));
    assert_eq!(map.free, extents(30..49), "{map}");
    for volume in ["root", "data"] {
        let region = region(&map, &format!("LVM volume vg0/{volume}"));
        assert_eq!(region.verdict.reason().as_deref(), Some("other volumes are built of it"));
    }
    // LVM says of which volume it is a snapshot. It does not say what a hash tree covers.
    for (signature, expected) in [(&b"SnAp\x01\0\0\0"[..], extents(30..49)), (b"verity\0\0", ExtentSet::new())] {
        let mut image = with_text(&image, text.replace("logical_volumes {\n", snapshot).as_bytes());
        image.write(MIB + 15 * EXTENT, signature);
        let map = self::map(&image);
        assert_eq!(map.free, expected, "{map}");
    }
}

#[test]
fn forged_labels_and_areas_are_refused_after_few_reads() {
    let Some((_lvm, image)) = group() else { return };
    // The area of 1 MiB is read once or twice, whatever its header says.
    let map = |image: &Pages| within(image, 400, 4 * MIB, |image| map(image));
    // Fields of the header of the metadata area: start, size, offset, length, flags, and the second slot.
    for (at, value) in [
        (24, 0),
        (32, u64::MAX),
        (32, 0),
        (40, 0),
        (40, u64::MAX),
        (40, 1 << 40),
        (40, 511),
        (48, 0),
        (48, u64::MAX),
        (48, 1 << 40),
        (56, 1 << 32),
        (64, 512),
        (72, 1),
    ] {
        let mut forged = image.clone();
        forged.write(AREA + at, &u64::to_le_bytes(value));
        repair_header(&mut forged);
        let map = map(&forged);
        assert_eq!(map.regions[0].verdict.word(), "refused", "{at} {value}\n{map}");
    }
    // Fields of the label: where the header is, the size of the disk, data and metadata areas.
    for (at, value) in [
        (20, 0xffff_ffff_u64),
        (20, 500),
        (64, u64::MAX),
        (72, 0),
        (72, 512),
        (72, u64::MAX),
        (104, u64::MAX),
        (104, 0),
        (112, u64::MAX),
        (136, 9),
    ] {
        let mut forged = image.clone();
        let old = forged.read(512 + at, 8);
        let bytes = if at == 20 || at == 136 {
            [&value.to_le_bytes()[..4], &old[4..]].concat()
        } else {
            value.to_le_bytes().to_vec()
        };
        forged.write(512 + at, &bytes);
        let sum = lvm_checksum(&forged.read(512 + 20, 492));
        forged.write(512 + 16, &sum.to_le_bytes());
        let map = map(&forged);
        assert_eq!(map.regions[0].verdict.word(), "refused", "{at} {value}\n{map}");
    }
    // Texts that are long, deep, or full of names.
    for text in ["a { ".repeat(200_000), "a = [".repeat(200_000), "a = 1\n".repeat(150_000), "[".repeat(900_000)] {
        let map = map(&with_text(&image, text.as_bytes()));
        assert_eq!(map.regions[0].verdict.word(), "refused");
    }
}

/// Which bytes the text calls used, read in the dumbest way: a line with the disk's name and a number, and the count of
/// extents above it. `None` if a line looks odd.
fn used_by_lines(text: &str) -> Option<Vec<Range<u64>>> {
    let mut used = Vec::new();
    let mut count = None;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
    let (unit, first) = (field("extent_size = ")? * 512, field("pe_start = ")? * 512);
    for line in text.lines() {
        let line = line.replace([' ', '\t'], "");
        if line.contains('{') {
            count = None;
        }
        if let Some(number) = line.strip_prefix("extent_count=") {
            count = Some(number.parse::<u64>().ok()?);
        }
        if let Some(number) = line.strip_prefix("\"pv0\",") {
            let start = number.parse::<u64>().ok()?;
            used.push(first + start * unit..first + start.checked_add(count?)? * unit);
        }
    }
    Some(used)
}

#[test]
fn mutated_metadata_free_nothing_that_they_call_used() {
    let Some((_lvm, image)) = group() else { return };
    let text = text_of(&image);
    let (mut accepted, mut odd) = (0, 0);
    for round in 0..6000 {
        let mut noise = Noise::new(round);
        let mut mutated = text.clone().into_bytes();
        for _ in 0..=noise.below(3) {
            let at = noise.below(mutated.len() as u64) as usize;
            match noise.below(4) {
                0 => mutated[at] ^= 1 << noise.below(8),
                1 => mutated[at] = b"0123456789{}[]\"=, \n#"[noise.below(20) as usize],
                2 => drop(mutated.remove(at)),
                _ => {
                    // A digit, where a mutation is most likely to be understood.
                    let digits: Vec<usize> = (0..mutated.len()).filter(|at| mutated[*at].is_ascii_digit()).collect();
                    mutated[digits[noise.below(digits.len() as u64) as usize]] = b'0' + noise.below(10) as u8;
                }
            }
        }
        let map = map(&with_text(&image, &mutated));
        let shown = String::from_utf8_lossy(&mutated).into_owned();
        if map.free.is_empty() {
            continue;
        }
        accepted += 1;
        let Some(used) = String::from_utf8(mutated).ok().and_then(|text| used_by_lines(&text)) else {
            odd += 1;
            continue;
        };
        let used = ExtentSet::from_ranges(used);
        assert!(map.free.intersection(&used).is_empty(), "round {round}\n{map}\n{shown}");
    }
    assert!(accepted > 500 && odd * 10 < accepted, "{accepted} accepted, {odd} of them odd");
    // Every byte of the headers, without right checksums: nothing changes, or nothing is free.
    let free = map(&image).free;
    for at in (512..1024)
        .chain(AREA..AREA + 512)
        .chain(AREA + Header::of(&image).offset..AREA + Header::of(&image).offset + 99)
    {
        let mut mutated = image.clone();
        mutated.write(at, &[image.read(at, 1)[0] ^ 0x10]);
        let map = map(&mutated);
        assert!(map.free.is_empty() || map.free == free, "byte {at}\n{map}");
    }
}

#[test]
fn disks_of_one_group_that_tell_different_stories_are_used() {
    let Some(lvm) = Lvm::new(&[64 * MIB, 64 * MIB], &[]) else { return };
    lvm.run("lvcreate", &["-L", "16M", "-n", "root", "vg0"]);
    let old = lvm.image(1);
    lvm.run("lvcreate", &["-L", "100M", "-n", "data", "vg0"]);
    let (first, new) = (lvm.image(0), lvm.image(1));
    let disk = |second: &Pages| {
        let mut disk = support::disk::blank(130 * MIB);
        for (number, (part, start)) in (0..).zip([(&first, MIB), (second, 65 * MIB)]) {
            let mut entry = vec![0, 0, 0, 0, 0x8e, 0, 0, 0];
            entry.extend((start as u32 / 512).to_le_bytes());
            entry.extend((64 * MIB as u32 / 512).to_le_bytes());
            disk.write(446 + number * 16, &entry);
            part.copy_to(&mut disk, start);
        }
        disk.write(510, &[0x55, 0xaa]);
        disk
    };
    let both = map(&disk(&new));
    let expected = lvm.free_extents(0).shifted(MIB).union(&lvm.free_extents(1).shifted(65 * MIB));
    assert_eq!(both.free, expected, "{both}");
    let stale = map(&disk(&old));
    assert!(stale.free.is_empty() && stale.to_json().contains("another disk of their group"), "{stale}");
    let twice = map(&disk(&first));
    assert!(twice.free.is_empty() && twice.to_json().contains("there twice"), "{twice}");
    // What is in their volumes matters to others.
    let mut disk = disk(&old);
    let mut entry = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
    entry.extend((129 * 2048_u32).to_le_bytes());
    entry.extend(2048_u32.to_le_bytes());
    disk.write(446 + 32, &entry);
    let free = make_listed(&mut disk, 129 * MIB, MIB);
    assert_eq!(map(&disk).free, free);
    disk.write(2 * MIB, b"verity\0\0\x01\0\0\0");
    assert!(map(&disk).free.is_empty());
}
