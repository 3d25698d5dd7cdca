//! Filesystems with damage that their own checker finds: nothing of them is left out.
//!
//! Real filesystems are changed a little wherever something other than the contents of files is. Whatever is mapped
//! after that, the checker must be content with. `HAUL_MUTANTS` is how many are tried of each; by default few.

mod support;
#[path = "support/ext.rs"]
mod tools;

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use haul_guest::fs::{FreeMap, Options, btrfs::Btrfs, ext::Ext, xfs::Xfs};
use haul_guest::{ReadAt, Refusal, map_with};
use haul_testbed::guest::{Noise, flush, has, run};
use haul_testbed::{Bed, Command, temp_dir};
use support::{Counted, Pages, free, open};

const MIB: u64 = 1 << 20;
/// What files are full of.
const DATA: u8 = 0x5a;
const SECTOR: u64 = 512;

/// A filesystem that is damaged again and again.
struct Patient {
    parser: &'static dyn FreeMap,
    pages: Pages,
    /// Sectors that hold something, but nothing of a file.
    places: Vec<u64>,
    checker: &'static [&'static str],
}

/// How many mutants of each filesystem.
fn mutants() -> u64 {
    std::env::var("HAUL_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

/// Everything that gives a filesystem metadata of some kind.
fn live(root: &Path) {
    for number in 0..6 {
        let dir = root.join(format!("d{number}"));
        fs::create_dir(&dir).unwrap();
        for file in 0..if number == 0 { 400 } else { 12 } {
            fs::write(dir.join(format!("{file}-{}", "n".repeat(file % 60))), vec![DATA; 512 * (file % 9)]).unwrap();
        }
    }
    symlink("x".repeat(200), root.join("long link")).unwrap();
    symlink("short", root.join("short link")).unwrap();
    fs::hard_link(root.join("d1/1-n"), root.join("d2/second name")).unwrap();
    run(Command::new("mkfifo").arg(root.join("pipe")));
    let torn = File::create(root.join("torn")).unwrap();
    for number in 0..300 {
        torn.write_all_at(&[DATA; 4096], number << 13).unwrap();
    }
    for (name, len) in [("d1/2-nn", 300), ("d1/3-nnn", 40), ("torn", 700)] {
        if has("setfattr") {
            run(Command::new("setfattr").args(["-n", "user.haul", "-v", &"v".repeat(len)]).arg(root.join(name)));
        }
    }
    flush(root);
    for number in 0..12 {
        fs::remove_dir_all(root.join("d5")).unwrap_or_default();
        fs::remove_file(root.join(format!("d0/{}-{}", number * 5, "n".repeat(number * 5 % 60)))).unwrap();
    }
}

/// Makes a filesystem with `mkfs`, fills it, and unmounts it.
fn image(bed: &Bed, dir: &Path, kind: &str, mib: u64, mkfs: &[&str]) -> PathBuf {
    let image = dir.join("image");
    File::create(&image).unwrap().set_len(mib * MIB).unwrap();
    run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&image));
    let mounted = bed.mount_image(kind, &image, &["noatime"]);
    live(mounted.path());
    mounted.unmount();
    image
}

fn patient(image: &Path, parser: &'static dyn FreeMap, checker: &'static [&'static str]) -> Patient {
    let file = open(image);
    let data = haul_testbed::data_extents(&File::open(image).unwrap());
    let (mut places, mut all) = (Vec::new(), Vec::new());
    for (start, len) in data {
        all.push(start..start + len);
        for at in (start..start + len).step_by(SECTOR as usize) {
            let mut sector = vec![0; SECTOR.min(file.size() - at) as usize];
            file.read_exact_at(at, &mut sector).unwrap();
            let counts = |wanted: u8| sector.iter().filter(|byte| **byte == wanted).count();
            if counts(0) < sector.len() && counts(DATA) < 100 {
                places.push(at);
            }
        }
    }
    let pages = Pages::of(&file, all);
    Patient { parser, pages, places, checker }
}

impl Patient {
    /// A copy with one change, and what was changed.
    fn mutant(&self, number: u64) -> (Pages, String) {
        let mut noise = Noise::new(number);
        let mut pages = self.pages.clone();
        let at = self.places[noise.below(self.places.len() as u64) as usize] + noise.below(SECTOR);
        let len = [1, 1, 1, 2, 4, 8, 64][noise.below(7) as usize].min((pages.size() - at) as usize);
        let old = pages.read(at, len);
        let new: Vec<u8> = match noise.below(4) {
            0 => old.iter().map(|byte| byte ^ (1 << noise.below(8))).collect(),
            1 => vec![0xff; len],
            2 => vec![0; len],
            _ => noise.bytes(len),
        };
        pages.write(at, &new);
        (pages, format!("mutant {number}: {len} bytes at {at}, {old:x?} -> {new:x?}"))
    }

    /// What the checker says; nothing if it is content.
    fn complaint(&self, pages: &Pages, dir: &Path) -> Option<String> {
        let path = dir.join("mutant");
        pages.save(&path);
        let done = Command::new(self.checker[0]).args(&self.checker[1..]).arg(&path).output().unwrap();
        fs::remove_file(&path).unwrap();
        if done.status.success() {
            return None;
        }
        let said = [done.stdout, done.stderr].concat();
        Some(format!("{}\n{}", done.status, String::from_utf8_lossy(&said)))
    }

    /// Tries all mutants. `is_harmless` knows what of the checker's complaints no map can suffer from.
    fn assert_damage_is_copied(&self, name: &str, is_harmless: impl Fn(&str) -> bool) {
        let dir = temp_dir();
        let counted = Counted::new(&self.pages);
        assert!(free(self.parser, &counted).is_ok_and(|found| !found.free.is_empty()), "{name}: healthy");
        println!("{name}: {} reads of {} bytes", counted.work().0, counted.work().1);
        assert_eq!(self.complaint(&self.pages, dir.path()), None, "{name}: healthy");
        let (mut mapped, mut excused, mut wrong) = (0, 0, Vec::new());
        for number in 0..mutants() {
            let (pages, change) = self.mutant(number);
            let map = map_with(&pages, &Options::default(), &[self.parser]);
            if map.free.is_empty() {
                continue;
            }
            mapped += 1;
            match self.complaint(&pages, dir.path()) {
                Some(said) if is_harmless(&said) => excused += 1,
                Some(said) => wrong.push(format!("{change}\n{map}\n{said}")),
                None => {}
            }
        }
        println!("{name}: of {} mutants {mapped} were mapped, {excused} of them excused", mutants());
        assert!(wrong.is_empty(), "{name}: {} damaged ones were mapped:\n{}", wrong.len(), wrong.join("\n"));
    }
}

fn never(_: &str) -> bool {
    false
}

const E2FSCK: &[&str] = &["e2fsck", "-fn"];
const MKE2FS: [&str; 6] = ["mke2fs", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "-t"];

/// A small filesystem in one of these layouts.
fn ext(bed: &Bed, dir: &Path, options: &[&str]) -> PathBuf {
    image(bed, dir, "ext4", 48, &[&MKE2FS[..], options].concat())
}

#[test]
fn ext4_with_damage_that_e2fsck_finds_is_copied_whole() {
    let Some(bed) = Bed::new() else { return };
    if !tools::tools() {
        return;
    }
    let layouts: [&[&str]; 3] = [
        &["ext4"],
        &["ext4", "-b", "1024", "-I", "256", "-J", "size=1"],
        &["ext4", "-b", "1024", "-O", "^has_journal"],
    ];
    for options in layouts {
        let dir = temp_dir();
        let patient = patient(&ext(&bed, dir.path(), options), &Ext, E2FSCK);
        patient.assert_damage_is_copied(&format!("{options:?}"), is_padding);
    }
}

/// The lines of a complaint of e2fsck that name damage.
fn named(said: &str) -> impl Iterator<Item = &str> {
    let frame = ["Pass ", "Fix? no", "Clear? no", "e2fsck 1."];
    let end = [": ***", " non-contiguous), "];
    said.lines().skip(1).filter(move |line| {
        !line.is_empty()
            && !frame.iter().any(|word| line.starts_with(word))
            && !end.iter().any(|word| line.contains(word))
    })
}

/// Bits behind the last inode or block of a group belong to nothing.
fn is_padding(said: &str) -> bool {
    named(said).all(|line| line.starts_with("Padding at end of "))
}

/// What no block depends on, and no checksum guards: names, kinds, lengths, counts of links, times, flags, attributes, and
/// indexes of hashes. e2fsck speaks of blocks in all other cases.
fn moves_no_block(said: &str) -> bool {
    let of_blocks = ["block", "Block", "extent", "Resize inode", "Journal"];
    let of_none = ["HTREE", "LARGE_DIR flag in superblock", "is an illegal block device", "Padding at end of "];
    let moves = |line: &str| {
        of_blocks.iter().any(|word| line.contains(word)) && !of_none.iter().any(|word| line.contains(word))
    };
    !named(said).any(moves)
}

#[test]
fn ext_without_checksums_loses_no_block_to_damage() {
    let Some(bed) = Bed::new() else { return };
    if !tools::tools() {
        return;
    }
    for options in [&["ext4", "-O", "^metadata_csum"][..], &["ext3", "-b", "1024", "-J", "size=1"], &["ext2"]] {
        let dir = temp_dir();
        let patient = patient(&ext(&bed, dir.path(), options), &Ext, E2FSCK);
        patient.assert_damage_is_copied(&format!("{options:?}"), moves_no_block);
    }
}

/// Asserts that an image is refused once these bytes of it are changed.
fn assert_refused(image: &Path, what: &str, at: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().read(true).write(true).open(image).unwrap();
    let mut old = vec![0; bytes.len()];
    file.read_exact_at(&mut old, at).unwrap();
    file.write_all_at(bytes, at).unwrap();
    let found = free(&Ext, &open(image));
    let checked = Command::new("e2fsck").arg("-fn").arg(image).output().unwrap();
    assert!(!checked.status.success(), "{what}: e2fsck is content");
    assert!(matches!(found, Err(Refusal::Corrupt(_) | Refusal::Dirty(_))), "{what}: {found:?}");
    file.write_all_at(&old, at).unwrap();
    assert!(free(&Ext, &open(image)).is_ok());
}

fn debugfs(image: &Path, command: &str) -> String {
    run(Command::new("debugfs").args(["-R", command]).arg(image))
}

/// The first block of a file, in bytes.
fn first_block(image: &Path, name: &str, block: u64) -> u64 {
    let blocks = debugfs(image, &format!("blocks {name}"));
    block * blocks.split_whitespace().next().unwrap().parse::<u64>().unwrap()
}

#[test]
fn ext4_with_a_damaged_structure_in_use_is_refused() {
    let Some(bed) = Bed::new() else { return };
    if !tools::tools() {
        return;
    }
    let dir = temp_dir();
    let image = ext(&bed, dir.path(), &["ext4", "-b", "4096"]);
    assert!(free(&Ext, &open(&image)).is_ok());
    // "located at block 7, offset 0x0400"
    let imap = debugfs(&image, "imap /d1");
    let word = |before: &str| imap.split_once(before).unwrap().1.split([',', '\n']).next().unwrap().trim().to_owned();
    let block: u64 = word("at block ").parse().unwrap();
    let inode = block * 4096 + u64::from_str_radix(word("offset 0x").as_str(), 16).unwrap();
    assert_refused(&image, "an inode", inode, &[0xff; 64]);
    assert_refused(&image, "a time of an inode", inode + 0x10, &[1, 2, 3, 4]);
    assert_refused(&image, "a directory", first_block(&image, "/d1", 4096), &[0xff; 64]);
    assert_refused(&image, "the index of a directory", first_block(&image, "/d0", 4096) + 40, &[0xff; 4]);
    assert_refused(&image, "the target of a link", first_block(&image, "\"/long link\"", 4096) + 9, &[0; 8]);
    let tree = debugfs(&image, "ex /torn");
    let interior = tree.lines().find(|line| line.trim_start().starts_with("0/ 1")).unwrap();
    let at: u64 = interior.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
    assert_refused(&image, &format!("an extent tree: {interior}"), at * 4096 + 100, &[1, 2, 3, 4]);
    let file = debugfs(&image, "stat /d1/2-nn");
    let attributes: u64 = file.split_once("File ACL: ").unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
    if attributes != 0 {
        assert_refused(&image, "attributes", attributes * 4096 + 4000, &[0xff; 8]);
    }
    let dump = run(Command::new("dumpe2fs").arg(&image));
    let bitmap: u64 = dump.split_once("Inode bitmap at ").unwrap().1.split([' ', ',']).next().unwrap().parse().unwrap();
    assert_refused(&image, "the bitmap of the inodes", bitmap * 4096, &[0xf0]);
}

#[test]
fn ext4_that_remembers_errors_is_refused() {
    if !tools::tools() {
        return;
    }
    let dir = temp_dir();
    for field in ["state 2", "error_count 3", "first_error_time 20260101", "last_error_time 20260101"] {
        let image = dir.path().join("image");
        tools::make(&image, 32, &["-t", "ext4"]);
        assert!(free(&Ext, &open(&image)).is_ok());
        run(Command::new("debugfs").args(["-w", "-R", &format!("ssv {field}")]).arg(&image));
        assert!(matches!(free(&Ext, &open(&image)), Err(Refusal::Dirty(_))), "{field}");
    }
}

#[test]
fn xfs_with_damage_that_xfs_repair_finds_is_copied_whole() {
    let Some(bed) = Bed::new() else { return };
    if !has("mkfs.xfs") || !has("xfs_repair") {
        return;
    }
    for options in [&["-b", "size=1024"][..], &["-m", "rmapbt=1,reflink=1"]] {
        let dir = temp_dir();
        let mkfs = [&["mkfs.xfs", "-q", "-f", "-K", "--unsupported"], options].concat();
        let image = image(&bed, dir.path(), "xfs", 64, &mkfs);
        let mut patient = patient(&image, &Xfs, &["xfs_repair", "-n", "-f"]);
        // After a clean unmount nobody reads what the log holds, and there is more of it than of all the rest.
        let log = log_by_xfs_db(&image);
        patient.places.retain(|at| !log.contains(at));
        patient.assert_damage_is_copied(&format!("XFS {options:?}"), never);
    }
}

/// Where the log is, in bytes.
fn log_by_xfs_db(image: &Path) -> Range<u64> {
    let fields = ["blocksize", "agblocks", "agblklog", "logstart", "logblocks"];
    let print = format!("p {}", fields.join(" "));
    let said = run(Command::new("xfs_db").args(["-r", "-c", "sb 0", "-c", &print]).arg(image));
    let numbers: Vec<u64> =
        said.lines().map(|line| line.split(" = ").nth(1).unwrap().trim().parse().unwrap()).collect();
    let [block, ag_blocks, ag_log, start, blocks] = numbers[..] else { panic!("{said}") };
    let start = ((start >> ag_log) * ag_blocks + (start & ((1 << ag_log) - 1))) * block;
    start..start + blocks * block
}

/// The place of a block that xfs_db has read, in bytes.
fn place_by_xfs_db(image: &Path, commands: &[&str]) -> u64 {
    let mut command = Command::new("xfs_db");
    command.arg("-r");
    for one in commands.iter().chain(&["daddr"]) {
        command.args(["-c", one]);
    }
    let said = run(command.arg(image));
    said.lines().find_map(|line| line.strip_prefix("current daddr is ")).unwrap().trim().parse::<u64>().unwrap() * 512
}

#[test]
fn xfs_with_a_damaged_structure_in_use_is_refused() {
    let Some(bed) = Bed::new() else { return };
    if !has("mkfs.xfs") || !has("xfs_db") {
        return;
    }
    let dir = temp_dir();
    let mkfs = ["mkfs.xfs", "-q", "-f", "-K", "--unsupported", "-b", "size=1024", "-m", "rmapbt=1,reflink=1"];
    let image = image(&bed, dir.path(), "xfs", 64, &mkfs);
    assert!(free(&Xfs, &open(&image)).is_ok());
    let structures: [(&str, &[&str]); 9] = [
        ("a header of inodes", &["agi 1"]),
        ("a copy of the superblock", &["sb 1"]),
        ("a tree of inodes", &["agi 0", "addr root"]),
        ("a tree of reverse mappings", &["agf 0", "addr rmaproot"]),
        ("a tree of reference counts", &["agf 0", "addr refcntroot"]),
        ("an inode", &["path /d1/3-nnn"]),
        ("a block of a directory", &["path /d0", "dblock 0"]),
        ("the index of a directory", &["path /d0", "dblock 33554432"]),
        ("a tree of extents", &["path /torn", "addr u3.bmbt.ptrs[1]"]),
    ];
    let file = fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    for (what, commands) in structures {
        let at = place_by_xfs_db(&image, commands) + 300;
        let mut old = [0; 4];
        file.read_exact_at(&mut old, at).unwrap();
        file.write_all_at(&old.map(|byte| !byte), at).unwrap();
        let found = free(&Xfs, &open(&image));
        assert!(matches!(found, Err(Refusal::Corrupt(_))), "{what}: {found:?}");
        file.write_all_at(&old, at).unwrap();
    }
    assert!(free(&Xfs, &open(&image)).is_ok());
}

#[test]
fn btrfs_with_damage_that_btrfs_check_finds_is_copied_whole() {
    let Some(bed) = Bed::new() else { return };
    if !has("mkfs.btrfs") || !has("btrfs") {
        return;
    }
    for options in [&["-m", "single"][..], &["-m", "dup", "-n", "4096"]] {
        let dir = temp_dir();
        let mkfs = [&["mkfs.btrfs", "-q", "-f", "-K"], options].concat();
        let checker = &["btrfs", "check", "--readonly", "--force"];
        let patient = patient(&image(&bed, dir.path(), "btrfs", 128, &mkfs), &Btrfs, checker);
        patient.assert_damage_is_copied(&format!("btrfs {options:?}"), never);
    }
}

#[test]
fn btrfs_with_a_damaged_tree_of_files_or_checksums_is_refused() {
    let Some(bed) = Bed::new() else { return };
    if !has("mkfs.btrfs") || !has("btrfs") {
        return;
    }
    let dir = temp_dir();
    let mkfs = ["mkfs.btrfs", "-q", "-f", "-K", "-m", "single"];
    let image = image(&bed, dir.path(), "btrfs", 128, &mkfs);
    assert!(free(&Btrfs, &open(&image)).is_ok());
    let file = fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    for tree in ["5", "7", "9"] {
        // "leaf 30818304 items ..." or "node ..."
        let dump = run(Command::new("btrfs").args(["inspect-internal", "dump-tree", "-t", tree]).arg(&image));
        let line = dump.lines().find(|line| line.starts_with("leaf ")).unwrap();
        let logical = line.split(' ').nth(1).unwrap();
        let map = Command::new("btrfs-map-logical").args(["-l", logical]).arg(&image).output().unwrap();
        let text = String::from_utf8_lossy(&map.stdout).into_owned();
        let at: u64 = text.split_once("physical ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        let mut old = [0; 4];
        file.read_exact_at(&mut old, at + 3000).unwrap();
        file.write_all_at(&old.map(|byte| !byte), at + 3000).unwrap();
        let found = free(&Btrfs, &open(&image));
        assert!(matches!(found, Err(Refusal::Corrupt(_))), "tree {tree}: {found:?}");
        file.write_all_at(&old, at + 3000).unwrap();
    }
    assert!(free(&Btrfs, &open(&image)).is_ok());
}
