//! What the tests of ext2, ext3 and ext4 share.
#![allow(dead_code)]

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use haul_guest::ExtentSet;
use haul_testbed::guest::{Mounted, has, run};
use haul_testbed::{Bed, Command};

/// Whether the tools are there that make and check them.
pub fn tools() -> bool {
    ["mkfs.ext4", "dumpe2fs", "e2fsck", "debugfs"].into_iter().all(has)
}

/// Makes a filesystem of `mib` MiB with these options of mke2fs.
pub fn make(image: &Path, mib: u64, options: &[&str]) {
    let file = File::create(image).unwrap();
    file.set_len(mib << 20).unwrap();
    drop(file);
    // Inode tables are zeroed here and not by a thread of the kernel some time later.
    let quick = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
    run(Command::new("mke2fs").args(["-q", "-F", "-E", quick]).args(options).arg(image));
}

/// Mounts an image without changing it.
pub fn look(bed: &Bed, image: &Path) -> Mounted {
    let journal = run(Command::new("dumpe2fs").arg("-h").arg(image)).contains("has_journal");
    bed.mount_image("ext4", image, if journal { &["ro", "noload"] } else { &["ro"] })
}

/// Asserts that e2fsck finds nothing.
pub fn assert_healthy(image: &Path) {
    run(Command::new("e2fsck").arg("-fn").arg(image));
}

/// Lets e2fsck replay the journal.
pub fn replay(image: &Path) {
    let done = Command::new("e2fsck").args(["-E", "journal_only", "-p"]).arg(image).output().unwrap();
    assert!(done.status.code().is_some_and(|code| code <= 1), "{}", String::from_utf8_lossy(&done.stdout));
}

/// A line of dumpe2fs's head as a number.
pub fn fact(dump: &str, name: &str) -> Option<u64> {
    let line = dump.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// The bytes that dumpe2fs calls free.
pub fn free_by_dumpe2fs(image: &Path) -> ExtentSet {
    let dump = run(Command::new("dumpe2fs").arg(image));
    let block = fact(&dump, "Block size").unwrap();
    // It names the first block of each cluster.
    let cluster = fact(&dump, "Cluster size").unwrap_or(block) / block;
    let blocks = fact(&dump, "Block count").unwrap();
    let lists = dump.lines().filter_map(|line| line.strip_prefix("  Free blocks: "));
    let ranges = lists.flat_map(|list| list.split(", ").filter(|range| !range.is_empty())).map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u64>().unwrap(), last.parse::<u64>().unwrap());
        first * block..(last + cluster).min(blocks) * block
    });
    ExtentSet::from_ranges(ranges)
}

/// The places of the group descriptors and of the bitmaps, in bytes, as dumpe2fs says them. The primary ones only.
pub fn places(image: &Path) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let dump = run(Command::new("dumpe2fs").arg(image));
    let block = fact(&dump, "Block size").unwrap();
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        first.parse::<u64>().ok().zip(last.parse::<u64>().ok()).map(|(first, last)| first * block..(last + 1) * block)
    };
    let after = |line: &str, word: &str| {
        let (_, rest) = line.split_once(word)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        range(rest.get(..end)?)
    };
    // With meta_bg there are several blocks of them, named one by one.
    let mut descriptors: Vec<_> =
        dump.lines().filter_map(|line| after(line, "Group descriptors at ")).take(1).collect();
    descriptors.extend(dump.lines().filter_map(|line| after(line, "Group descriptor at ")));
    let bitmaps = dump.lines().filter_map(|line| after(line, "  Block bitmap at "));
    (descriptors, bitmaps.collect())
}
