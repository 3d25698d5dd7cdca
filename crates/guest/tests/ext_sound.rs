//! ext2, ext3 and ext4 with changed metadata: refused, or nothing is called free that is not.

mod support;
#[path = "support/ext.rs"]
mod tools;

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

use haul_guest::fs::ext::Ext;
use haul_guest::fs::{FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, fill_with_noise, flush, run, write_noise};
use haul_testbed::{Bed, Command, temp_dir};
use support::{Fix, Pages, Soundness, assert_sound, free, open, within};
use tools::{fact, free_by_dumpe2fs, make, places, replay};

const SUPERBLOCK: Range<u64> = 1024..2048;
/// For each kind of change.
const ROUNDS: u64 = 1500;
const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// A small filesystem in memory, as far as the parser reads it.
struct Small {
    pages: Pages,
    free: ExtentSet,
    block: u64,
    /// What the parser reads.
    read: Vec<Range<u64>>,
    descriptors: Vec<Range<u64>>,
    bitmaps: Vec<Range<u64>>,
    /// The journal's own blocks: superblock, tags, revocations, commits.
    journal: Vec<Range<u64>>,
}

/// Makes one with a few files, with or without a past, and takes it out of the image when it is unmounted, or before.
fn small(bed: &Bed, mib: u64, options: &[&str], past: bool, dirty: bool) -> Small {
    let dir = temp_dir();
    let (image, live) = (dir.path().join("image"), dir.path().join("live"));
    make(&image, mib, options);
    let mounted = bed.mount_image("ext4", &image, &["noatime"]);
    let mut noise = Noise::new(1);
    if past {
        fill_with_noise(mounted.path(), &mut noise);
    }
    for number in 0..60 {
        let path = mounted.path().join(format!("{number}"));
        write_noise(&path, noise.below(60_000), &mut noise);
        if number == 30 {
            flush(mounted.path());
        }
        File::open(&path).unwrap().sync_all().unwrap();
        if number % 3 == 0 {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(digests(mounted.path()).len() > 30);
    if dirty {
        File::open(mounted.path()).unwrap().sync_all().unwrap();
        fs::copy(&image, &live).unwrap();
    }
    mounted.unmount();
    if dirty {
        fs::rename(&live, &image).unwrap();
    }
    taken(&image, dirty)
}

fn taken(image: &Path, dirty: bool) -> Small {
    let file = open(image);
    let session = Session::new(&file, Budget::for_image(file.size()));
    let found = Ext.free(&session.view(), &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
    let witnesses = session.into_witnesses();
    let read: Vec<_> = witnesses.iter().map(|witness| witness.offset..witness.offset + witness.len).collect();
    let mut pages = Pages::read_by(&Ext, &file);
    let (descriptors, bitmaps) = places(image);
    let dump = run(Command::new("dumpe2fs").arg("-h").arg(image));
    let block = fact(&dump, "Block size").unwrap();
    let own = |range: &&Range<u64>| pages.read(range.start, 4) == MAGIC;
    let mut journal: Vec<_> = read.iter().filter(own).map(|range| range.start..range.start + block).collect();
    journal.dedup();
    if dirty {
        replay(image);
    }
    let truly_free = free_by_dumpe2fs(image);
    assert!(found.free.is_subset_of(&truly_free));
    // What a change makes the parser read besides must be what is really there.
    let more: Vec<_> = descriptors.iter().chain(&bitmaps).cloned().collect();
    if !dirty {
        pages = Pages::of(&file, read.iter().cloned().chain(more));
    }
    Small { pages, free: truly_free, block, read, descriptors, bitmaps, journal }
}

/// CRC-32C from a seed, without inversions.
fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Makes the checksums of the superblock and of the descriptors right, for the checksums that `small` has.
fn repair(small: &Small, pages: &mut Pages) {
    // With meta_bg the descriptors are in several pieces, which these layouts have only without checksums.
    if let Some(range) = small.descriptors.first() {
        Fix::ExtGroups { from: range.start, len: range.end - range.start }.apply(pages, &small.pages);
    }
}

/// Makes the checksums of the journal's own blocks right, and those of [`repair`].
fn repair_journal(small: &Small, pages: &mut Pages) {
    repair(small, pages);
    let superblock = small.journal.iter().find(|range| small.pages.read(range.start + 4, 4) == [0, 0, 0, 4]).unwrap();
    for range in &small.journal {
        let journal = superblock.start;
        Fix::ExtJournal { from: range.start, len: small.block, journal }.apply(pages, &small.pages);
    }
}

fn report(what: &str, counts: &Soundness) {
    println!("{what}: {counts:?}");
    assert!(counts.refused > 0);
}

#[test]
fn changed_metadata_of_ext4_with_checksums_are_refused_or_harmless() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let used = small(&bed, 24, &["-t", "ext4", "-b", "1024", "-g", "2048"], true, false);
    let unused = small(&bed, 64, &["-t", "ext4", "-b", "4096", "-g", "2048"], false, false);
    let clusters =
        small(&bed, 64, &["-t", "ext4", "-b", "1024", "-C", "4096", "-g", "8192", "-O", "bigalloc"], false, false);
    for (what, small) in [("used", &used), ("never used", &unused), ("clusters", &clusters)] {
        let raw = assert_sound(&Ext, &small.pages, &small.free, &small.read, ROUNDS, |_| ());
        report(&format!("{what}, anything"), &raw);
        let bitmaps = assert_sound(&Ext, &small.pages, &small.free, &small.bitmaps, ROUNDS, |_| ());
        report(&format!("{what}, bitmaps"), &bitmaps);
        for place in [SUPERBLOCK, small.descriptors[0].clone()] {
            let repaired =
                assert_sound(&Ext, &small.pages, &small.free, &[place], ROUNDS, |pages| repair(small, pages));
            report(&format!("{what}, repaired"), &repaired);
            assert!(repaired.accepted > 0);
        }
    }
}

#[test]
fn changed_metadata_without_checksums_are_refused_or_harmless() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let layouts: [(&[&str], bool); 5] = [
        (&["-t", "ext3", "-b", "1024", "-g", "2048"], true),
        (&["-t", "ext2", "-b", "1024", "-g", "2048"], true),
        (&["-t", "ext3", "-b", "4096", "-g", "1024"], false),
        (&["-t", "ext4", "-b", "1024", "-g", "2048", "-O", "^metadata_csum,uninit_bg"], false),
        (&["-t", "ext4", "-b", "1024", "-g", "2048", "-O", "^metadata_csum,^uninit_bg,meta_bg,^resize_inode"], false),
    ];
    for (options, past) in layouts {
        let small = small(&bed, 24, options, past, false);
        let (superblock, descriptors) = (vec![SUPERBLOCK], &small.descriptors);
        let places = [
            ("superblock", &superblock),
            ("descriptors", descriptors),
            ("bitmaps", &small.bitmaps),
            ("all", &small.read),
        ];
        for (what, places) in places {
            let counts = assert_sound(&Ext, &small.pages, &small.free, places, ROUNDS, |pages| repair(&small, pages));
            report(&format!("{options:?}, {what}"), &counts);
        }
    }
}

#[test]
fn changed_journals_are_refused_or_harmless() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let guarded = small(&bed, 20, &["-t", "ext4", "-b", "1024", "-g", "2048"], true, true);
    let counts = assert_sound(&Ext, &guarded.pages, &guarded.free, &guarded.read, ROUNDS, |_| ());
    report("anything", &counts);
    let counts = assert_sound(&Ext, &guarded.pages, &guarded.free, &guarded.journal, ROUNDS, |_| ());
    report("journal", &counts);
    let repair = |pages: &mut Pages| repair_journal(&guarded, pages);
    let counts = assert_sound(&Ext, &guarded.pages, &guarded.free, &guarded.journal, ROUNDS, repair);
    report("journal, repaired", &counts);
    assert!(counts.accepted > 0);
    let heads: Vec<_> = guarded.journal.iter().map(|range| range.start..range.start + 64).collect();
    let counts = assert_sound(&Ext, &guarded.pages, &guarded.free, &heads, ROUNDS, repair);
    report("heads, repaired", &counts);

    let bare = small(&bed, 20, &["-t", "ext3", "-b", "1024", "-g", "2048"], true, true);
    // Without checksums, a copy that claims to be of another block is replayed by the kernel too: then the original is as
    // damaged as its copy. What frames the log must be right all the same.
    let frame = |range: &Range<u64>| match bare.pages.read(range.start + 4, 4)[3] {
        3 | 4 => range.clone(),
        _ => range.start..range.start + 12,
    };
    let frames: Vec<_> = bare.journal.iter().map(frame).collect();
    for (what, places) in [("frames", &frames), ("superblock", &vec![SUPERBLOCK]), ("descriptors", &bare.descriptors)] {
        let counts = assert_sound(&Ext, &bare.pages, &bare.free, places, ROUNDS, |_| ());
        report(&format!("ext3, {what}"), &counts);
    }
}

/// What the parser says of a filesystem with some bytes changed and the checksums repaired.
fn changed(small: &Small, changes: &[(u64, &[u8])]) -> Result<(), Refusal> {
    let mut pages = small.pages.clone();
    changes.iter().for_each(|(at, bytes)| pages.write(1024 + at, bytes));
    repair(small, &mut pages);
    free(&Ext, &pages).map(|found| assert!(found.free.is_subset_of(&small.free)))
}

#[test]
fn states_and_features_that_prove_nothing_are_refused() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let small = small(&bed, 24, &["-t", "ext4", "-b", "1024", "-O", "mmp"], false, false);
    assert_eq!(changed(&small, &[]), Ok(()));
    for state in [0, 2, 3, 4, 5, 0x21] {
        assert!(matches!(changed(&small, &[(0x3a, &[state])]), Err(Refusal::Dirty(_))), "state {state}");
    }
    assert!(matches!(changed(&small, &[(0x194, &[1])]), Err(Refusal::Dirty(_))), "recorded errors");
    // needs_recovery with an empty journal is what a filesystem without a change since its mount has.
    assert_eq!(changed(&small, &[(0x60, &[small.pages.read(1024 + 0x60, 1)[0] | 4])]), Ok(()));
    // Its journal on another device.
    let outside: [(u64, &[u8]); 2] =
        [(0xe0, &[0, 0, 0, 0, 1, 1, 0, 0]), (0x60, &[small.pages.read(1024 + 0x60, 1)[0] | 4])];
    assert!(matches!(changed(&small, &outside), Err(Refusal::Dirty(_))));
    for (word, known) in [(0x5c, 0x1fbf_u32 & !0x180), (0x60, 0x3f7d6 & !0x1000), (0x64, 0x1b77f)] {
        for bit in (0..32).filter(|bit| known >> bit & 1 == 0) {
            let with = word_at(&small, word) | 1 << bit;
            let refusal = changed(&small, &[(word, &with.to_le_bytes())]);
            assert!(matches!(refusal, Err(Refusal::Unsupported(_))), "{word:#x} bit {bit}: {refusal:?}");
        }
    }
    // The multiple mount protection counts while it is in use.
    let block = u64::from(word_at(&small, 0x168)) * small.block;
    let mut pages = small.pages.clone();
    pages.write(block + 4, &7_u32.to_le_bytes());
    let sum = crc(crc(!0, &pages.read(1024 + 0x68, 16)), &pages.read(block, 0x3fc));
    pages.write(block + 0x3fc, &sum.to_le_bytes());
    assert!(matches!(free(&Ext, &pages), Err(Refusal::Dirty(why)) if why.contains("mount protection")));
}

fn word_at(small: &Small, at: u64) -> u32 {
    word(&small.pages.read(1024 + at, 4), 0)
}

#[test]
fn forged_sizes_are_refused_at_once() {
    if !tools::tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let small = small(&bed, 24, &["-t", "ext4", "-b", "1024"], false, false);
    let (ones, zeros) = ([0xff_u8; 4], [0_u8; 4]);
    // Counts of inodes and blocks, the first block, log sizes, groups, inode size, the journal, descriptor size.
    let fields = [0x0, 0x4, 0x0c, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x28, 0x58, 0xe0, 0xfe, 0x150, 0x158];
    for at in fields {
        for value in [&ones[..], &zeros[..], &[0, 0, 0, 0x80], &[1, 0, 0, 0]] {
            let unchanged = small.pages.read(1024 + at, 4) == value;
            assert!(unchanged || changed(&small, &[(at, value)]).is_err(), "{at:#x}: {value:?}");
        }
    }
    // A huge filesystem of smallest groups on a huge image: nothing is held for what is not there.
    let mut forged = Pages::of(&vec![0; 1 << 20], []).with_size(16 << 40);
    forged.write(1024, &small.pages.read(1024, 1024));
    forged.write(1024 + 0x04, &ones);
    forged.write(1024 + 0x150, &[3, 0, 0, 0]);
    forged.write(1024 + 0x20, &[8, 0, 0, 0, 8, 0, 0, 0]);
    let sum = crc(!0, &forged.read(1024, 0x3fc));
    forged.write(1024 + 0x3fc, &sum.to_le_bytes());
    assert_eq!(free(&Ext, &forged), Err(Refusal::Budget("block groups")));
}

/// A filesystem of 4 MiB without checksums, with a file of some blocks: where the map of its inode is, in bytes, and its
/// blocks.
fn of_one_file(kind: &str) -> (Pages, u64, Vec<u64>) {
    let dir = temp_dir();
    let (image, file) = (dir.path().join("image"), dir.path().join("file"));
    make(&image, 4, &["-t", kind, "-b", "4096", "-I", "256", "-N", "16", "-O", "^metadata_csum,^has_journal,^64bit"]);
    write_noise(&file, 6 * 4096, &mut Noise::new(1));
    let debugfs =
        |args: &[&str], command: &str| run(Command::new("debugfs").args(args).args(["-R", command]).arg(&image));
    debugfs(&["-w"], &format!("write {} file", file.display()));
    let blocks = debugfs(&[], "blocks file").split_whitespace().map(|block| block.parse().unwrap()).collect();
    // "located at block 7, offset 0x0400"
    let imap = debugfs(&[], "imap file");
    let word = |before: &str| imap.split_once(before).unwrap().1.split([',', '\n']).next().unwrap().trim().to_owned();
    let inode = 4096 * word("at block ").parse::<u64>().unwrap() + u64::from_str_radix(&word("offset 0x"), 16).unwrap();
    let pages = Pages::of(&open(&image), std::iter::once(0..4 << 20));
    assert!(free(&Ext, &pages).is_ok_and(|found| !found.free.is_empty()));
    (pages, inode + 0x28, blocks)
}

/// Asserts that no more is read of a filesystem of 4 MiB than its blocks, whatever the size of the disk that it is on
/// permits.
fn assert_soon_refused(forged: Pages) {
    let forged = forged.with_size(1 << 60);
    let found = within(&forged, 2048, 8 << 20, |image| {
        let session = Session::new(image, Budget::new(1 << 40, 1 << 20, 1 << 20));
        Ext.free(&session.view(), &Options::default())
    });
    let said = found.unwrap_err().to_string();
    assert!(said.contains("more blocks are used than there are"), "{said}");
}

#[test]
fn maps_of_files_that_lead_to_themselves_are_refused_after_few_reads() {
    if !tools::tools() {
        return;
    }
    // A tree of extents in which each node has 340 times the same child.
    let (mut forged, at, blocks) = of_one_file("ext4");
    let node = |count: u16, most: u16, depth: u16, child: u64| {
        let mut node = [0xf30a, count, most, depth, 0, 0].map(u16::to_le_bytes).concat();
        for _ in 0..count {
            node.extend([&[0; 4][..], &child.to_le_bytes()].concat());
        }
        node
    };
    forged.write(at, &node(4, 4, 5, blocks[4]));
    for depth in 1..5 {
        forged.write(blocks[depth] * 4096, &node(340, 340, depth as u16, blocks[depth - 1]));
    }
    forged.write(blocks[0] * 4096, &node(0, 340, 0, 0));
    assert_soon_refused(forged);
    // A block of pointers to blocks of pointers to blocks of pointers to itself.
    let (mut forged, at, blocks) = of_one_file("ext2");
    forged.write(at + 14 * 4, &(blocks[1] as u32).to_le_bytes());
    forged.write(blocks[1] * 4096, &(blocks[1] as u32).to_le_bytes().repeat(1024));
    assert_soon_refused(forged);
}

#[test]
fn a_superblock_alone_is_refused() {
    let mut image = vec![0; 1 << 20];
    assert!(!detects(&image));
    image[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
    assert!(detects(&image));
    assert!(free(&Ext, &image).is_err());
    assert!(!detects(&image[..2047].to_vec()));
}

fn detects(image: &Vec<u8>) -> bool {
    let session = Session::new(image, Budget::for_image(image.size()));
    Ext.detect(&session.view()).unwrap()
}
