//! btrfs images that lie: refused, or what is called free is free all the same. Quickly, and in little memory.

mod support;

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

use haul_guest::ExtentSet;
use haul_guest::fs::btrfs::Btrfs;
use haul_testbed::guest::{Noise, fill_with_noise, flush, has, run, write_noise};
use haul_testbed::{Bed, Command, TempDir, temp_dir};
use support::{Fix, Pages, assert_sound, free, open};

const MIB: u64 = 1 << 20;
const NODE: usize = 4096;
const PRIMARY: u64 = 64 << 10;
const MIRROR: u64 = 64 << 20;
const HEADER: usize = 101;

const EXTENT_TREE: u64 = 2;
const CHUNK_TREE: u64 = 3;
const DEVICE_TREE: u64 = 4;
const FREE_SPACE_TREE: u64 = 10;
const LOG_TREE: u64 = 6_u64.wrapping_neg();

/// What the parser reads of a small filesystem with nodes as small as superblocks, and what is free in it.
struct Sample {
    pages: Pages,
    free: ExtentSet,
    _dir: TempDir,
}

/// A filesystem of `size` bytes with some hundred extents; `None`, after a counted skip, without root or btrfs-progs.
fn sample(size: u64, mkfs: &[&str], options: &[&str], dirty: bool) -> Option<Sample> {
    let bed = Bed::new()?;
    if !has("mkfs.btrfs") || !has("btrfs") {
        return None;
    }
    let dir = temp_dir();
    let image = dir.path().join("image");
    File::create_new(&image).unwrap().set_len(size).unwrap();
    run(Command::new("mkfs.btrfs").args(["-q", "-f", "-K", "-n", "4096"]).args(mkfs).arg(&image));
    let options: Vec<&str> = ["nodiscard", "commit=300"].iter().chain(options).copied().collect();
    let mounted = bed.mount_image("btrfs", &image, &options);
    populate(mounted.path());
    if dirty {
        for number in 0..40 {
            let path = mounted.path().join(format!("fsynced-{number}"));
            write_noise(&path, 20_000, &mut Noise::new(number));
            File::open(&path).unwrap().sync_all().unwrap();
        }
    } else {
        mounted.unmount();
    }
    let image = open(&image);
    let pages = Pages::read_by(&Btrfs, &image);
    let free = free(&Btrfs, &pages).unwrap().free;
    Some(Sample { pages, free, _dir: dir })
}

fn populate(dir: &Path) {
    let mut noise = Noise::new(1);
    for number in 0..400 {
        write_noise(&dir.join(format!("{number}")), 3000 + noise.below(30_000), &mut noise);
    }
    flush(dir);
    for number in (0..400).filter(|number| number % 3 == 0) {
        fs::remove_file(dir.join(format!("{number}"))).unwrap();
    }
    flush(dir);
    fill_with_noise(dir, &mut noise);
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn le32(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// A node of a tree.
struct Node {
    at: u64,
    owner: u64,
    level: u8,
    items: usize,
}

impl Sample {
    /// Where the superblocks and nodes are that the parser reads.
    fn blocks(&self) -> Vec<u64> {
        use haul_guest::fs::{FreeMap, Options};
        use haul_guest::{Budget, ReadAt, image::Session};
        let session = Session::new(&self.pages, Budget::for_image(self.pages.size()));
        Btrfs.free(&session.view(), &Options::default()).unwrap();
        let witnesses = session.into_witnesses();
        witnesses.iter().filter(|witness| witness.len == NODE as u64).map(|witness| witness.offset).collect()
    }

    fn nodes(&self) -> Vec<Node> {
        let blocks = self.blocks().into_iter().filter(|at| ![PRIMARY, MIRROR].contains(at));
        blocks
            .map(|at| {
                let bytes = self.pages.read(at, NODE);
                Node { at, owner: le64(&bytes, 0x58), level: bytes[0x64], items: le32(&bytes, 0x60) }
            })
            .collect()
    }

    /// What means something in the superblocks and nodes: headers, pointers, items and their data.
    fn places(&self) -> Vec<Range<u64>> {
        let mut places = vec![PRIMARY..PRIMARY + 0x131, PRIMARY + 0x32b..PRIMARY + 0x42b, MIRROR..MIRROR + 0x131];
        for node in self.nodes() {
            let bytes = self.pages.read(node.at, NODE);
            let item = if node.level == 0 { 25 } else { 33 };
            places.push(node.at..node.at + (HEADER + item * node.items) as u64);
            if node.level == 0 && node.items > 0 {
                let data = le32(&bytes, HEADER + 25 * (node.items - 1) + 17);
                let data = node.at + (HEADER + data) as u64..node.at + NODE as u64;
                places.extend((!data.is_empty()).then_some(data));
            }
        }
        places
    }

    /// An image in which one block is changed and has its right checksum again.
    fn changed(&self, at: u64, change: impl FnOnce(&mut [u8])) -> Pages {
        let mut bytes = self.pages.read(at, NODE);
        change(&mut bytes);
        let mut pages = self.pages.clone();
        pages.write(at, &bytes);
        repair(&mut pages, &[at]);
        pages
    }

    fn node(&self, owner: u64, level: u8) -> Node {
        self.nodes().into_iter().find(|node| node.owner == owner && node.level == level).unwrap()
    }

    /// All items of a kind in a tree: the leaf, and where in it the key and the data are.
    fn items(&self, owner: u64, kind: u8) -> Vec<(u64, usize, usize)> {
        let mut found = Vec::new();
        for node in self.nodes().iter().filter(|node| node.owner == owner && node.level == 0) {
            let bytes = self.pages.read(node.at, NODE);
            let keys = (0..node.items).map(|number| HEADER + 25 * number);
            let keys = keys.filter(|key| bytes[key + 8] == kind);
            found.extend(keys.map(|key| (node.at, key, HEADER + le32(&bytes, key + 17))));
        }
        found
    }
}

/// Gives blocks the checksums of what is in them.
fn repair(pages: &mut Pages, blocks: &[u64]) {
    let pristine = pages.clone();
    for at in blocks {
        Fix::Crc32c { from: at + 32, len: NODE as u64 - 32, to: *at }.apply(pages, &pristine);
    }
}

#[test]
fn damage_with_right_checksums_frees_nothing_that_is_used() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let (places, blocks) = (sample.places(), sample.blocks());
    println!("{} places in {} blocks", places.len(), blocks.len());
    let counts = assert_sound(&Btrfs, &sample.pages, &sample.free, &places, 8000, |pages| repair(pages, &blocks));
    println!("{counts:?}");
    assert!(counts.refused > 1000, "{counts:?}");
}

#[test]
fn damage_of_mixed_and_dup_filesystems_frees_nothing_that_is_used() {
    for (size, mkfs) in [(130 * MIB, ["--mixed"].as_slice()), (250 * MIB, &["-d", "dup"])] {
        let Some(sample) = sample(size, mkfs, &[], false) else { return };
        let (places, blocks) = (sample.places(), sample.blocks());
        let counts = assert_sound(&Btrfs, &sample.pages, &sample.free, &places, 3000, |pages| repair(pages, &blocks));
        println!("{mkfs:?}: {counts:?}");
        assert!(counts.refused > 1000, "{counts:?}");
    }
}

#[test]
fn damage_with_wrong_checksums_is_noticed() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    // All that is under a checksum, and the checksum itself.
    let blocks = sample.blocks().into_iter();
    let places: Vec<Range<u64>> = blocks.flat_map(|at| [at..at + 4, at + 32..at + NODE as u64]).collect();
    let counts = assert_sound(&Btrfs, &sample.pages, &sample.free, &places, 3000, |_| {});
    println!("{counts:?}");
    // Some changes write what was there.
    assert!(counts.accepted < 300, "{counts:?}");
}

/// Without a free space tree nothing contradicts an extent that says, under a right checksum, to be elsewhere: for btrfs
/// itself its place is free then. So the leaves of the extent tree keep their wrong checksums here.
#[test]
fn damage_without_a_free_space_tree_frees_nothing_that_is_used() {
    let Some(sample) = sample(130 * MIB, &["-R", "^free-space-tree"], &["nospace_cache"], false) else { return };
    let leaves = sample.nodes().into_iter().filter(|node| node.owner == EXTENT_TREE && node.level == 0);
    let leaves: Vec<u64> = leaves.map(|node| node.at).collect();
    let blocks: Vec<u64> = sample.blocks().into_iter().filter(|at| !leaves.contains(at)).collect();
    let places = sample.places();
    let counts = assert_sound(&Btrfs, &sample.pages, &sample.free, &places, 4000, |pages| repair(pages, &blocks));
    println!("{counts:?}");
}

/// What a log says is said nowhere else, so its nodes keep their wrong checksums here.
#[test]
fn damage_around_logs_frees_nothing_that_is_used() {
    let Some(sample) = sample(130 * MIB, &[], &[], true) else { return };
    let logs: Vec<u64> = sample.nodes().iter().filter(|node| node.owner == LOG_TREE).map(|node| node.at).collect();
    assert!(logs.len() > 3, "no log");
    let blocks: Vec<u64> = sample.blocks().into_iter().filter(|at| !logs.contains(at)).collect();
    let places = sample.places();
    let counts = assert_sound(&Btrfs, &sample.pages, &sample.free, &places, 5000, |pages| repair(pages, &blocks));
    println!("{counts:?}");
}

/// The new bytes of a field.
fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[test]
fn forged_superblocks_are_refused() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let huge = u64::MAX.to_le_bytes();
    let last = (u64::MAX - 4095).to_le_bytes();
    let lies: &[(&str, usize, &[u8])] = &[
        ("another place", 0x30, &MIRROR.to_le_bytes()),
        ("a seed device", 0x38, &(1_u64 | 1 << 32).to_le_bytes()),
        ("an error", 0x38, &5_u64.to_le_bytes()),
        ("no generation", 0x48, &[0; 8]),
        ("the last generation", 0x48, &huge),
        ("a generation before the mirror's", 0x48, &3_u64.to_le_bytes()),
        ("trees at the end of all numbers", 0x50, &last),
        ("trees between sectors", 0x50, &12345_u64.to_le_bytes()),
        ("chunks at the end of all numbers", 0x58, &last),
        ("a log that is none", 0x60, &(30 * MIB).to_le_bytes()),
        ("a log at the end of all numbers", 0x60, &last),
        ("a huge filesystem", 0x70, &huge),
        ("a full filesystem", 0x78, &(130 * MIB).to_le_bytes()),
        ("an empty filesystem", 0x78, &[0; 8]),
        ("no device", 0x88, &[0; 8]),
        ("two devices", 0x88, &2_u64.to_le_bytes()),
        ("no sectors", 0x90, &[0; 4]),
        ("huge sectors", 0x90, &[0, 0, 0, 0x80]),
        ("no nodes", 0x94, &[0; 8]),
        ("huge nodes", 0x94, &[0, 0, 0, 0x80, 0, 0, 0, 0x80]),
        ("nodes smaller than sectors", 0x90, &[0, 0, 1, 0, 0, 0x80, 0, 0, 0, 0x80, 0, 0]),
        ("no chunks", 0xa0, &[0; 4]),
        ("chunks without end", 0xa0, &[0xff; 4]),
        ("half a chunk", 0xa0, &[100, 0, 0, 0]),
        ("another chunk tree", 0xa4, &[1, 0, 0, 0, 0, 0, 0, 0]),
        ("a new compatible feature", 0xac, &[1]),
        ("a new feature for writers", 0xb4, &[0x13]),
        ("a tree of block groups", 0xb4, &[0x0b]),
        ("another checksum", 0xc4, &[1]),
        ("no known checksum", 0xc4, &[9]),
        ("a high tree", 0xc6, &[7]),
        ("too high a tree", 0xc6, &[0xff]),
        ("too high a chunk tree", 0xc7, &[0xff]),
        ("another device", 0xc9, &[7]),
        ("a huge device", 0xd1, &huge),
        ("a small device", 0xd1, &MIB.to_le_bytes()),
        ("a chunk of many stripes", 0x32b + 17 + 44, &[0xff, 0xff]),
        ("a striped chunk", 0x32b + 17 + 24, &[2 | 8]),
        ("a huge chunk", 0x32b + 17, &huge),
        ("a chunk elsewhere", 0x32b + 17 + 56, &(100 * MIB).to_le_bytes()),
    ];
    for (lie, at, field) in lies {
        let forged = sample.changed(PRIMARY, |bytes| put(bytes, *at, field));
        let found = free(&Btrfs, &forged);
        assert!(found.is_err(), "{lie}");
    }
}

#[test]
fn features_that_are_not_known_are_refused() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let known = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 16];
    for feature in 0..64 {
        let forged = sample.changed(PRIMARY, |bytes| bytes[0xbc + feature / 8] |= 1 << (feature % 8));
        match free(&Btrfs, &forged) {
            // It says that the nodes carry another fsid.
            Err(_) if feature == 10 => {}
            Ok(found) => assert!(known.contains(&feature) && found.free == sample.free, "{feature}"),
            Err(refusal) => assert!(!known.contains(&feature), "{feature}: {refusal}"),
        }
    }
    let forged = sample.changed(PRIMARY, |bytes| bytes[0xbc] &= !1);
    assert!(free(&Btrfs, &forged).is_err(), "extents of the first format");
}

#[test]
fn a_mirror_that_does_not_fit_is_refused() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let newer = sample.changed(MIRROR, |bytes| put(bytes, 0x48, &1_000_000_u64.to_le_bytes()));
    assert!(free(&Btrfs, &newer).is_err());
    let other = sample.changed(MIRROR, |bytes| bytes[0x20] ^= 1);
    assert!(free(&Btrfs, &other).is_err());
    let mut gone = sample.pages.clone();
    gone.write(MIRROR, &[0; NODE]);
    assert!(free(&Btrfs, &gone).is_err());
    // As fsync leaves it.
    let older = sample.changed(MIRROR, |bytes| put(bytes, 0x48, &1_u64.to_le_bytes()));
    assert_eq!(free(&Btrfs, &older).unwrap().free, sample.free);
}

#[test]
fn trees_that_loop_or_lead_elsewhere_are_refused() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let top = sample.node(EXTENT_TREE, 1);
    let pointer = HEADER + 17;
    let logical = sample.pages.read(top.at + 0x30, 8);
    let itself = sample.changed(top.at, |bytes| put(bytes, pointer, &logical));
    assert!(free(&Btrfs, &itself).is_err(), "a node below itself");
    let twice = sample.changed(top.at, |bytes| bytes.copy_within(HEADER..HEADER + 33, HEADER + 33));
    assert!(free(&Btrfs, &twice).is_err(), "a node twice");
    let lost = sample.changed(top.at, |bytes| {
        let behind = HEADER + 33 * 2;
        bytes.copy_within(behind.., behind - 33);
        bytes[0x60] -= 1;
    });
    assert!(free(&Btrfs, &lost).is_err(), "a leaf lost");
    for lie in [0_u64, 1, 4096, 1 << 63, u64::MAX, u64::MAX - 4095] {
        let nowhere = sample.changed(top.at, |bytes| put(bytes, pointer, &lie.to_le_bytes()));
        assert!(free(&Btrfs, &nowhere).is_err(), "a child at {lie}");
    }
    let other = sample.pages.read(sample.node(FREE_SPACE_TREE, 0).at + 0x30, 8);
    let foreign = sample.changed(top.at, |bytes| put(bytes, pointer, &other));
    assert!(free(&Btrfs, &foreign).is_err(), "a leaf of another tree");
    let crowded = sample.changed(top.at, |bytes| put(bytes, 0x60, &[0xff; 4]));
    assert!(free(&Btrfs, &crowded).is_err(), "more pointers than fit");
    let empty = sample.changed(top.at, |bytes| put(bytes, 0x60, &[0; 4]));
    assert!(free(&Btrfs, &empty).is_err(), "no pointers");
}

#[test]
fn leaves_that_overflow_are_refused() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    for owner in [EXTENT_TREE, CHUNK_TREE, DEVICE_TREE, FREE_SPACE_TREE] {
        let leaf = sample.node(owner, 0).at;
        let lies: &[(&str, usize, &[u8])] = &[
            ("many items", 0x60, &[0xff; 4]),
            ("a few more items", 0x60, &[159, 0, 0, 0]),
            ("data far behind", HEADER + 17, &[0xff; 4]),
            ("long data", HEADER + 21, &[0xff; 4]),
            ("data that wrap around", HEADER + 17, &[0xf0, 0xff, 0xff, 0xff, 0x20, 0, 0, 0]),
            ("not written", 0x38, &[0]),
            ("of the future", 0x50, &[0xff; 8]),
        ];
        for (lie, at, field) in lies {
            let forged = sample.changed(leaf, |bytes| put(bytes, *at, field));
            assert!(free(&Btrfs, &forged).is_err(), "tree {owner}: {lie}");
        }
    }
}

/// A lie in words, the tree, the kind of item, whether it is in the key, where there, and the bytes.
type Lie<'a> = (&'static str, u64, u8, bool, usize, &'a [u8]);

#[test]
fn contradictions_between_trees_are_refused() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let lies: &[Lie<'_>] = &[
        ("a longer chunk", CHUNK_TREE, 228, false, 0, &(40 * MIB).to_le_bytes()),
        ("a huge chunk", CHUNK_TREE, 228, false, 0, &[0xff; 8]),
        ("an empty chunk", CHUNK_TREE, 228, false, 0, &[0; 8]),
        ("a striped chunk", CHUNK_TREE, 228, false, 24, &[1 | 8]),
        ("a chunk of three copies", CHUNK_TREE, 228, false, 44, &[3]),
        ("a chunk beyond the device", CHUNK_TREE, 228, false, 56, &(129 * MIB).to_le_bytes()),
        ("a chunk elsewhere", CHUNK_TREE, 228, false, 56, &(90 * MIB).to_le_bytes()),
        ("another device", CHUNK_TREE, 216, true, 9, &[2]),
        ("a device of another size", CHUNK_TREE, 216, false, 8, &(100 * MIB).to_le_bytes()),
        ("a device extent elsewhere", DEVICE_TREE, 204, true, 9, &(3 * MIB).to_le_bytes()),
        ("a shorter device extent", DEVICE_TREE, 204, false, 24, &MIB.to_le_bytes()),
        ("a device that is being replaced", DEVICE_TREE, 249, true, 8, &[250, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("a block group that counts less", EXTENT_TREE, 192, false, 0, &[0; 8]),
        ("a block group of another kind", EXTENT_TREE, 192, false, 16, &[7]),
        ("a shorter block group", EXTENT_TREE, 192, true, 9, &MIB.to_le_bytes()),
        ("an extent without references", EXTENT_TREE, 168, false, 0, &[0; 8]),
        ("an extent of no kind", EXTENT_TREE, 168, false, 16, &[0]),
        ("an extent of the future", EXTENT_TREE, 168, false, 8, &[0xff; 8]),
        ("an endless extent", EXTENT_TREE, 168, true, 9, &[0xff; 8]),
        ("an empty extent", EXTENT_TREE, 168, true, 9, &[0; 8]),
        ("an extent of half a sector", EXTENT_TREE, 168, true, 9, &512_u64.to_le_bytes()),
        ("an item of another kind", EXTENT_TREE, 168, true, 8, &[170]),
        ("free space that miscounts", FREE_SPACE_TREE, 198, false, 0, &[77]),
        ("free space in bitmaps that are none", FREE_SPACE_TREE, 198, false, 4, &[1]),
        ("endless free space", FREE_SPACE_TREE, 199, true, 9, &[0xff; 8]),
    ];
    for (lie, owner, kind, in_key, at, field) in lies {
        let items = sample.items(*owner, *kind);
        // The first chunks in the free space tree may be such as are gone.
        let item = if *owner == FREE_SPACE_TREE { items.last() } else { items.first() };
        let &(leaf, key, data) = item.unwrap();
        let start = if *in_key { key } else { data };
        let forged = sample.changed(leaf, |bytes| {
            put(bytes, start + at, field);
            if *kind == 249 {
                put(bytes, data + 32, &[1]); // has been started
            }
        });
        assert!(free(&Btrfs, &forged).is_err(), "{lie}");
    }
}

/// The items of a leaf: keys and data.
type Items = Vec<([u8; 17], Vec<u8>)>;

fn unpack(leaf: &[u8]) -> Items {
    let keys = (0..le32(leaf, 0x60)).map(|number| HEADER + 25 * number);
    keys.map(|key| {
        let start = HEADER + le32(leaf, key + 17);
        (leaf[key..key + 17].try_into().unwrap(), leaf[start..start + le32(leaf, key + 21)].to_vec())
    })
    .collect()
}

fn pack(leaf: &mut [u8], items: &Items) {
    put(leaf, 0x60, &(items.len() as u32).to_le_bytes());
    let mut end = leaf.len();
    for (number, (key, data)) in items.iter().enumerate() {
        let at = HEADER + 25 * number;
        end -= data.len();
        assert!(end >= HEADER + 25 * items.len(), "too many items for a leaf");
        put(leaf, end, data);
        put(leaf, at, key);
        put(leaf, at + 17, &((end - HEADER) as u32).to_le_bytes());
        put(leaf, at + 21, &(data.len() as u32).to_le_bytes());
    }
}

/// Takes an extent of this kind out of the extent tree: its last one in a leaf that has several. With `accounted` as if it had never
/// been there for those that count: the block group, and the superblock.
fn without_extent(sample: &Sample, kind: u8, accounted: bool) -> Pages {
    let mut pages = sample.pages.clone();
    let mut blocks = vec![PRIMARY];
    let mut gone = None;
    for leaf in sample.nodes().iter().filter(|node| node.owner == EXTENT_TREE && node.level == 0) {
        let mut bytes = pages.read(leaf.at, NODE);
        let mut items = unpack(&bytes);
        // Not the first one, whose key the node above knows.
        let place = items.iter().rposition(|(key, _)| key[8] == kind).filter(|place| *place > 0);
        let Some(place) = place.filter(|_| gone.is_none()) else { continue };
        let (key, _) = items.remove(place);
        gone = Some((le64(&key, 0), if kind == 169 { NODE as u64 } else { le64(&key, 9) }));
        pack(&mut bytes, &items);
        pages.write(leaf.at, &bytes);
        blocks.push(leaf.at);
    }
    let (start, len) = gone.expect("an extent");
    if accounted {
        for leaf in sample.nodes().iter().filter(|node| node.owner == EXTENT_TREE && node.level == 0) {
            let mut bytes = pages.read(leaf.at, NODE);
            let mut items = unpack(&bytes);
            let holds = |key: &[u8; 17]| key[8] == 192 && (le64(key, 0)..le64(key, 0) + le64(key, 9)).contains(&start);
            let Some((_, group)) = items.iter_mut().find(|(key, _)| holds(key)) else { continue };
            let used = le64(group, 0) - len;
            put(group, 0, &used.to_le_bytes());
            pack(&mut bytes, &items);
            pages.write(leaf.at, &bytes);
            blocks.push(leaf.at);
        }
        let used = le64(&pages.read(PRIMARY, NODE), 0x78) - len;
        pages.write(PRIMARY + 0x78, &used.to_le_bytes());
    }
    repair(&mut pages, &blocks);
    pages
}

#[test]
fn an_extent_that_is_missing_is_noticed_by_what_counts_it_and_by_the_free_space_tree() {
    let with_tree = sample(130 * MIB, &[], &[], false);
    let without_tree = sample(130 * MIB, &["-R", "^free-space-tree"], &["nospace_cache"], false);
    let (Some(with_tree), Some(without_tree)) = (with_tree, without_tree) else { return };
    for (sample, second_account) in [(&with_tree, true), (&without_tree, false)] {
        for kind in [168, 169] {
            assert!(free(&Btrfs, &without_extent(sample, kind, false)).is_err(), "{kind}");
            let accounted = free(&Btrfs, &without_extent(sample, kind, true));
            // Alone, a tree with right checksums and right counts everywhere is the authority.
            assert!(accounted.is_err() || !second_account, "{kind}");
        }
    }
}

/// Moves the block groups of a sample to a tree of their own, as newer tools make it. It gets the node of the tree of
/// UUIDs, which the parser does not read.
fn with_block_group_tree(sample: &Sample) -> Pages {
    const BLOCK_GROUP: u8 = 192;
    let mut pages = sample.pages.clone();
    let mut change = |at: u64, change: &mut dyn FnMut(&mut [u8])| {
        let mut bytes = pages.read(at, NODE);
        change(&mut bytes);
        pages.write(at, &bytes);
        repair(&mut pages, &[at]);
    };
    let mut groups = Items::new();
    let mut first_keys = Vec::new();
    for leaf in sample.nodes().iter().filter(|node| node.owner == EXTENT_TREE && node.level == 0) {
        change(leaf.at, &mut |bytes| {
            let (moved, stay): (Items, Items) = unpack(bytes).into_iter().partition(|(key, _)| key[8] == BLOCK_GROUP);
            first_keys.push((bytes[0x30..0x38].to_vec(), stay[0].0));
            groups.extend(moved);
            pack(bytes, &stay);
        });
    }
    change(sample.node(EXTENT_TREE, 1).at, &mut |bytes| {
        for pointer in (0..le32(bytes, 0x60)).map(|number| HEADER + 33 * number) {
            let child = first_keys.iter().find(|(address, _)| *address == bytes[pointer + 17..pointer + 25]).unwrap();
            put(bytes, pointer, &child.1);
        }
    });
    let mut root = (0, 0);
    for leaf in sample.nodes().iter().filter(|node| node.owner == 1 && node.level == 0) {
        change(leaf.at, &mut |bytes| {
            let mut items = unpack(bytes);
            let is_root = |key: &[u8; 17], tree: u64| le64(key, 0) == tree && key[8] == 132;
            let Some(uuids) = items.iter().position(|(key, _)| is_root(key, 9)) else { return };
            assert!(is_root(&items[uuids + 1].0, FREE_SPACE_TREE));
            root = (le64(&items[uuids].1, 176), le64(&items[uuids].1, 160));
            // One key further on for both, so that they still rise.
            items[uuids].0[0] = 10;
            items[uuids + 1].0[0] = 11;
            let free_space = std::mem::take(&mut items[uuids + 1].1);
            items[uuids + 1].1 = std::mem::replace(&mut items[uuids].1, free_space);
            pack(bytes, &items);
        });
    }
    // All trees but that of chunks are in one chunk here, a constant way from their addresses.
    let other = sample.node(EXTENT_TREE, 1);
    let shift = other.at - le64(&sample.pages.read(other.at, NODE), 0x30);
    change(root.0 + shift, &mut |bytes| {
        let model = sample.pages.read(other.at, NODE);
        put(bytes, 0, &model[..HEADER]);
        put(bytes, 0x30, &root.0.to_le_bytes());
        put(bytes, 0x50, &root.1.to_le_bytes());
        put(bytes, 0x58, &11_u64.to_le_bytes());
        bytes[0x64] = 0;
        pack(bytes, &groups);
    });
    change(PRIMARY, &mut |bytes| bytes[0xb4] |= 8);
    pages
}

#[test]
fn block_groups_in_a_tree_of_their_own_are_understood() {
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    let moved = with_block_group_tree(&sample);
    assert_eq!(free(&Btrfs, &moved).unwrap().free, sample.free);
    let mut without = sample.pages.clone();
    let mut bytes = sample.pages.read(PRIMARY, NODE);
    bytes[0xb4] |= 8;
    without.write(PRIMARY, &bytes);
    repair(&mut without, &[PRIMARY]);
    assert!(free(&Btrfs, &without).is_err(), "the tree is missing");
    let mut unknown = moved.clone();
    let mut bytes = moved.read(PRIMARY, NODE);
    bytes[0xb4] &= !8;
    unknown.write(PRIMARY, &bytes);
    repair(&mut unknown, &[PRIMARY]);
    assert!(free(&Btrfs, &unknown).is_err(), "the block groups are missing");
}

#[test]
fn a_budget_that_is_too_small_is_a_refusal() {
    use haul_guest::fs::{FreeMap, Options};
    use haul_guest::{Budget, Refusal, image::Session};
    let Some(sample) = sample(130 * MIB, &[], &[], false) else { return };
    for budget in [Budget::new(20_000, 1000, 1000), Budget::new(MIB, 3, 1000), Budget::new(MIB, 1000, 3)] {
        let session = Session::new(&sample.pages, budget);
        let found = Btrfs.free(&session.view(), &Options::default());
        assert!(matches!(found, Err(Refusal::Budget(_))), "{found:?}");
    }
}
