//! Seeds from real images. What cannot be made here, for lack of privilege or of a tool, is a counted skip.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use haul_guest::container::{self, Alone};
use haul_guest::fs::{FreeMap, Options, btrfs, exfat, ext, fat, ntfs, swap, xfs};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt};
use haul_testbed::guest::{Noise, flush, has, live_through, run, write_noise};
use haul_testbed::{Bed, Command, TempDir, data_extents, temp_dir, temp_dir_in};

use crate::fix::Fix;
use crate::lvm::Lvm;
use crate::ntfs::restart_page;
use crate::pages::{Pages, open};
use crate::seed::{Seed, Target};

const MIB: u64 = 1 << 20;

/// Makes the seeds of all targets below `dir`; gives how many there are of each.
///
/// # Panics
/// If an image cannot be made with the tools that are there.
pub fn all(dir: &Path) -> Vec<(&'static str, usize)> {
    let bed = Bed::new();
    let make = |(name, target)| {
        let seeds = make(target, bed.as_ref());
        let own = dir.join(name);
        fs::create_dir_all(&own).expect("cannot make the directory");
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(own.join(format!("{number:02}.seed")), seed.to_bytes()).expect("cannot write a seed");
        }
        (name, seeds.len())
    };
    Target::ALL.map(make).into()
}

/// The seeds of one target.
///
/// # Panics
/// If an image cannot be made with the tools that are there.
pub fn make(target: Target, bed: Option<&Bed>) -> Vec<Seed> {
    let with = |tools: &[&str], make: fn(&Bed) -> Vec<Seed>| match bed {
        Some(bed) if tools.iter().all(|tool| has(tool)) => make(bed),
        _ => Vec::new(),
    };
    match target {
        Target::Ext => with(&["mke2fs"], ext_seeds),
        Target::ExtJournal => with(&["mke2fs"], ext_journal_seeds),
        Target::Xfs => with(&["mkfs.xfs"], xfs_seeds),
        Target::XfsLog => with(&["mkfs.xfs"], xfs_log_seeds),
        Target::Btrfs => with(&["mkfs.btrfs"], btrfs_seeds),
        Target::Ntfs => with(&["mkfs.ntfs", "ntfs-3g"], ntfs_seeds),
        Target::Exfat => with(&["mkfs.exfat", "mount.exfat-fuse", "losetup"], exfat_seeds),
        Target::Fat if ["mkfs.vfat", "mcopy"].into_iter().all(has) => fat_seeds(),
        Target::Swap if has("mkswap") => swap_seeds(),
        Target::Gpt if has("sfdisk") && has("mkswap") => {
            let mut seed = disk("label: gpt\nsize=4M\nsize=8M\nsize=2M,type=lvm\nstart=20M,size=9M\n");
            let end = seed.pages.size();
            let [first, last] = [512, end - 512];
            seed.places = vec![446..512, 512..604, 1024..1536, last..last + 92, last - 16384..last - 16384 + 512];
            seed.fixes = vec![Fix::Gpt { at: first, sector: 512 }, Fix::Gpt { at: last, sector: 512 }];
            seed.guarded = true;
            vec![seed]
        }
        Target::Mbr if has("sfdisk") && has("mkswap") => {
            let mut seed = disk("label: dos\nsize=4M\nsize=40M,type=5\nsize=4M\nsize=5M\nsize=6M\nsize=2M\nsize=1M\n");
            let tables = seed.pages.iter().filter(|(_, page)| page[510..512] == [0x55, 0xaa]);
            seed.places = tables.map(|(at, _)| at + 446..at + 512).collect();
            vec![seed]
        }
        Target::Lvm => lvm_seeds(),
        Target::Qcow2 if has("qemu-img") => containers(
            "qcow2",
            &[
                "",
                "compat=0.10,cluster_size=512",
                "cluster_size=4k,refcount_bits=64",
                "extended_l2=on,cluster_size=16k",
            ],
        ),
        Target::Vmdk if has("qemu-img") => {
            containers("vmdk", &["subformat=monolithicSparse", "subformat=streamOptimized", "subformat=monolithicFlat"])
        }
        Target::Vhdx if has("qemu-img") => containers("vhdx", &["subformat=dynamic,block_size=1M", "subformat=fixed"]),
        Target::Vdi if has("qemu-img") => containers("vdi", &["", "static=on"]),
        Target::Vhd if has("qemu-img") => {
            containers("vpc", &["subformat=dynamic,force_size=on", "subformat=fixed,force_size=on"])
        }
        _ => Vec::new(),
    }
}

/// A file of `size` bytes in a directory of its own.
fn blank(size: u64) -> (TempDir, PathBuf) {
    let dir = temp_dir();
    let image = dir.path().join("image");
    File::create_new(&image).and_then(|file| file.set_len(size)).expect("cannot make an image");
    (dir, image)
}

/// What a parser reads of an image, and says is free; all of it is to be changed.
fn seed_of(parser: &dyn FreeMap, image: &Path) -> Seed {
    let file = open(image);
    let session = Session::new(&file, Budget::for_image(file.size()));
    let found = parser.free(&session.view(), &Options::default());
    let free = found.unwrap_or_else(|refusal| panic!("{}: {refusal}", parser.name())).free;
    // What is read besides if page files may lose their contents.
    parser.free(&session.view(), &Options { drop_page_files: true, ..Options::default() }).expect("refused");
    let mut places: Vec<Range<u64>> =
        session.into_witnesses().iter().map(|seen| seen.offset..seen.offset + seen.len).collect();
    places.sort_unstable_by_key(|place| (place.start, place.end));
    places.dedup();
    let pages = Pages::of(&file, places.iter().cloned());
    Seed { pages, free, places, fixes: Vec::new(), guarded: false }
}

/// Files that come and go, and some that stay.
fn busy(dir: &Path, count: u64) {
    let mut noise = Noise::new(1);
    for number in 0..count {
        write_noise(&dir.join(format!("{number}")), noise.below(60_000), &mut noise);
    }
    flush(dir);
    for number in (0..count).step_by(3) {
        fs::remove_file(dir.join(format!("{number}"))).expect("cannot remove");
    }
    flush(dir);
}

/// Files that are only fsync'ed.
fn synced(dir: &Path, count: u64) {
    for number in 0..count {
        let path = dir.join(format!("synced {number}"));
        write_noise(&path, 3000 + number * 100, &mut Noise::new(number));
        File::open(&path).and_then(|file| file.sync_all()).expect("cannot sync");
    }
}

fn snapshot(image: &Path) -> PathBuf {
    let live = image.with_extension("live");
    run(Command::new("cp").arg("--sparse=always").arg(image).arg(&live));
    live
}

fn le(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at + len).unwrap_or_default().iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn make_ext(size: u64, options: &[&str]) -> (TempDir, PathBuf) {
    let (dir, image) = blank(size);
    let quick = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
    run(Command::new("mke2fs").args(["-q", "-F", "-E", quick]).args(options).arg(&image));
    (dir, image)
}

/// The descriptors follow the first superblock, in its next block.
fn ext_fix(pages: &Pages) -> Fix {
    let superblock = pages.read(1024, 1024);
    let block = 1024 << le(&superblock, 0x18, 4);
    let groups = (le(&superblock, 4, 4) - le(&superblock, 0x14, 4)).div_ceil(le(&superblock, 0x20, 4));
    let size = if le(&superblock, 0x60, 4) & 0x80 != 0 { 64 } else { 32 };
    // The superblock is in block 1 if blocks have 1 KiB, whatever block the first group begins with.
    Fix::ExtGroups { from: (1024 / block + 1) * block, len: groups * size }
}

fn ext_seeds(bed: &Bed) -> Vec<Seed> {
    let layouts: [(u64, &[&str], bool); 4] = [
        (24, &["-t", "ext4", "-b", "1024", "-g", "2048"], true),
        (64, &["-t", "ext4", "-b", "1024", "-C", "4096", "-g", "8192", "-O", "bigalloc"], true),
        (24, &["-t", "ext3", "-b", "1024", "-g", "2048"], false),
        (24, &["-t", "ext4", "-b", "1024", "-g", "2048", "-O", "^metadata_csum,uninit_bg"], false),
    ];
    let make = |(mib, options, guarded): (u64, &[&str], bool)| {
        let (_dir, image) = make_ext(mib * MIB, options);
        let mounted = bed.mount_image("ext4", &image, &["noatime"]);
        busy(mounted.path(), 60);
        mounted.unmount();
        let mut seed = seed_of(&ext::Ext, &image);
        seed.fixes = vec![ext_fix(&seed.pages)];
        Seed { guarded, ..seed }
    };
    layouts.map(make).into()
}

fn ext_journal_seeds(bed: &Bed) -> Vec<Seed> {
    let make = |(kind, guarded): (&str, bool)| {
        let (_dir, image) = make_ext(20 * MIB, &["-t", kind, "-b", "1024", "-g", "2048"]);
        let mounted = bed.mount_image("ext4", &image, &["noatime"]);
        busy(mounted.path(), 40);
        synced(mounted.path(), 20);
        let live = snapshot(&image);
        mounted.unmount();
        let mut seed = seed_of(&ext::Ext, &live);
        seed.fixes = vec![ext_fix(&seed.pages)];
        let own: Vec<u64> = seed
            .places
            .iter()
            .map(|place| place.start)
            .filter(|at| seed.pages.read(*at, 4) == [0xc0, 0x3b, 0x39, 0x98])
            .collect();
        let journal = own.iter().copied().find(|at| seed.pages.read(*at + 4, 4) == [0, 0, 0, 4]);
        if let Some(journal) = journal.filter(|_| guarded) {
            seed.fixes.extend(own.iter().map(|from| Fix::ExtJournal { from: *from, len: 1024, journal }));
        }
        Seed { guarded, ..seed }
    };
    [("ext4", true), ("ext3", false)].map(make).into()
}

fn make_xfs(size: u64, options: &[&str]) -> (TempDir, PathBuf) {
    let (dir, image) = blank(size);
    // It would not make such small ones otherwise.
    run(Command::new("mkfs.xfs").args(["-q", "-f", "-K", "--unsupported"]).args(options).arg(&image));
    (dir, image)
}

/// Adds the checksums of everything outside the log.
fn with_xfs_sums(mut seed: Seed) -> Seed {
    for place in &seed.places {
        let head = seed.pages.read(place.start, 10);
        let to = match (&head[..4], &head[8..]) {
            (b"XFSB", _) => 224,
            (b"XAGF", _) => 216,
            (b"XAGI", _) => 312,
            (b"XAFL", _) => 32,
            (b"AB3B" | b"AB3C" | b"ABTB" | b"ABTC" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC", _) => 52,
            (b"BMA3", _) => 64,
            (b"XDB3" | b"XDD3" | b"XDF3", _) => 4,
            (b"XARM" | b"XSLM", _) | (_, [0x3d, 0xf1 | 0xff] | [0x3e, 0xbe] | [0x3b, 0xee]) => 12,
            ([b'I', b'N', ..], _) => {
                // A chunk of inodes of the default size.
                let inodes = (place.start..place.end).step_by(512);
                seed.fixes.extend(inodes.map(|from| Fix::Crc32c { from, len: 512, to: from + 100 }));
                continue;
            }
            _ => continue,
        };
        seed.fixes.push(Fix::Crc32c { from: place.start, len: place.end - place.start, to: place.start + to });
    }
    seed
}

fn xfs_seeds(bed: &Bed) -> Vec<Seed> {
    let (_dir, image) = make_xfs(64 * MIB, &["-b", "size=1024", "-m", "rmapbt=1"]);
    let mounted = bed.mount_image("xfs", &image, &[]);
    busy(mounted.path(), 60);
    for number in 0..800 {
        fs::write(mounted.path().join(format!("small {number}")), [7; 600]).expect("cannot write");
    }
    flush(mounted.path());
    for number in (0..800).step_by(2) {
        fs::remove_file(mounted.path().join(format!("small {number}"))).expect("cannot remove");
    }
    mounted.unmount();
    let new = Seed { guarded: true, ..with_xfs_sums(seed_of(&xfs::Xfs, &image)) };
    let (_dir, image) = make_xfs(64 * MIB, &["-m", "crc=0", "-l", "version=1"]);
    vec![new, seed_of(&xfs::Xfs, &image)]
}

fn xfs_log_seeds(bed: &Bed) -> Vec<Seed> {
    let (_dir, image) = make_xfs(64 * MIB, &["-b", "size=1024"]);
    let mounted = bed.mount_image("xfs", &image, &[]);
    busy(mounted.path(), 30);
    mounted.unmount();
    let mounted = bed.mount_image("xfs", &image, &[]);
    synced(mounted.path(), 30);
    let live = snapshot(&image);
    mounted.unmount();
    let mut seed = with_xfs_sums(seed_of(&xfs::Xfs, &live));
    let blocks = seed.pages.iter().flat_map(|(at, page)| (at..).step_by(512).zip(page.chunks_exact(512)));
    let records = blocks.filter(|(_, block)| block.starts_with(&[0xfe, 0xed, 0xba, 0xbe]));
    let records: Vec<Fix> = records.map(|(at, _)| Fix::XfsRecord { at }).collect();
    assert!(!records.is_empty(), "no records in the log");
    seed.fixes.extend(records);
    vec![Seed { guarded: true, ..seed }]
}

fn btrfs_seeds(bed: &Bed) -> Vec<Seed> {
    let layouts: [(u64, &[&str], bool); 3] = [(130, &[], false), (130, &["--mixed"], false), (130, &[], true)];
    let make = |(mib, options, dirty): (u64, &[&str], bool)| {
        let (_dir, image) = blank(mib * MIB);
        run(Command::new("mkfs.btrfs").args(["-q", "-f", "-K", "-n", "4096"]).args(options).arg(&image));
        let mounted = bed.mount_image("btrfs", &image, &["nodiscard", "commit=300"]);
        busy(mounted.path(), 150);
        let seen = if dirty {
            synced(mounted.path(), 20);
            let live = snapshot(&image);
            mounted.unmount();
            live
        } else {
            mounted.unmount();
            image
        };
        let mut seed = seed_of(&btrfs::Btrfs, &seen);
        // Superblocks and nodes; both have their checksum in front.
        let blocks = seed.places.iter().filter(|place| place.end - place.start == 4096);
        seed.fixes = blocks.map(|block| Fix::Crc32c { from: block.start + 32, len: 4064, to: block.start }).collect();
        Seed { guarded: true, ..seed }
    };
    layouts.map(make).into()
}

fn ntfs_seeds(bed: &Bed) -> Vec<Seed> {
    let make = |(cluster, restarts): (&str, bool)| {
        // The larger the volume, the longer its log, most of which says nothing.
        let (_dir, image) = blank(1900 << 10);
        run(Command::new("mkfs.ntfs").args(["-q", "-F", "-f", "-c", cluster]).arg(&image));
        let mounted = bed.mount_fuse("ntfs-3g", &image, &[]);
        live_through(mounted.path(), 250_000, 8);
        fs::write(mounted.path().join("pagefile.sys"), vec![9; 60_000]).expect("cannot write");
        mounted.unmount();
        let mut seed = seed_of(&ntfs::Ntfs, &image);
        if restarts {
            // Windows closes its log, where ntfs-3g empties it.
            let log = seed.places.iter().find(|place| seed.pages.read(place.start, 4096) == [0xff; 4096]);
            let pages = restart_page(9, 0, 2, [1, 1], 256 << 10).repeat(2);
            let file = File::options().write(true).open(&image).expect("cannot open");
            file.write_all_at(&pages, log.expect("no log").start).expect("cannot write");
            seed = seed_of(&ntfs::Ntfs, &image);
        }
        let boot = seed.pages.read(0, 512);
        let cluster = le(&boot, 11, 2) * le(&boot, 13, 1);
        let (table, mirror) = (le(&boot, 48, 8) * cluster, le(&boot, 56, 8) * cluster);
        seed.fixes = vec![
            Fix::Copy { from: 0, len: 512, to: le(&boot, 40, 8) * 512 },
            Fix::Copy { from: table, len: 4096, to: mirror },
        ];
        seed
    };
    [("1024", false), ("4096", false), ("1024", true)].map(make).into()
}

fn fat_seeds() -> Vec<Seed> {
    let make = |(bits, size, sectors): (&str, u64, &str)| {
        let (dir, image) = blank(size);
        run(Command::new("mkfs.vfat").args(["-F", bits, "-s", sectors]).arg(&image));
        let mtools = |program: &str| {
            let mut command = Command::new(program);
            command.env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(&image);
            command
        };
        run(mtools("mmd").arg("::dir"));
        let mut noise = Noise::new(size);
        for number in 0..12 {
            let file = dir.path().join(format!("A file with a long name {number}"));
            write_noise(&file, noise.below(20_000), &mut noise);
            run(mtools("mcopy").arg(&file).arg(if number % 2 == 0 { "::dir" } else { "::" }));
        }
        run(mtools("mdel").arg("::dir/A file with a long name 4"));
        let mut seed = seed_of(&fat::Fat, &image);
        let boot = seed.pages.read(0, 512);
        let short = le(&boot, 22, 2);
        let len = if short == 0 { le(&boot, 36, 4) } else { short } * 512;
        let start = le(&boot, 14, 2) * 512;
        seed.fixes = vec![Fix::Copy { from: start, len, to: start + len }];
        if bits == "32" {
            seed.fixes.push(Fix::Copy { from: 0, len: 512, to: 6 * 512 });
        }
        seed
    };
    [("12", MIB, "1"), ("16", 5 * MIB, "2"), ("32", 34 * MIB, "1")].map(make).into()
}

fn exfat_seeds(bed: &Bed) -> Vec<Seed> {
    let make = |cluster: &str| {
        let (_dir, image) = blank(8 * MIB);
        let attached = run(Command::new("losetup").args(["-f", "--show"]).arg(&image));
        let device = attached.trim();
        run(Command::new("mkfs.exfat").args(["-c", cluster, device]));
        let at = temp_dir_in(bed.path()).keep();
        run(Command::new("mount.exfat-fuse").args(["-o", "rw", device]).arg(&at));
        busy(&at, 40);
        haul_testbed::guest::unmount(&at);
        run(Command::new("losetup").args(["-d", device]));
        let mut seed = seed_of(&exfat::ExFat, &image);
        let boot = seed.pages.read(0, 512);
        let heap = le(&boot, 88, 4) * 512;
        seed.fixes = vec![Fix::ExfatBoot];
        let sets = seed.places.iter().filter(|place| place.start >= heap);
        let sets = sets.map(|place| Fix::ExfatSets { from: place.start, len: place.end - place.start });
        seed.fixes.extend(sets.collect::<Vec<_>>());
        seed
    };
    ["512", "4K"].map(make).into()
}

fn swap_seeds() -> Vec<Seed> {
    let make = |options: &[&str]| {
        let (_dir, image) = blank(2 * MIB);
        run(Command::new("mkswap").args(options).arg(&image));
        seed_of(&swap::Swap, &image)
    };
    vec![make(&[]), make(&["-p", "65536", "-L", "label"])]
}

/// A disk that sfdisk partitions, with swap in every partition that the map calls unknown.
fn disk(script: &str) -> Seed {
    let (dir, image) = blank(64 * MIB);
    let text = dir.path().join("script");
    fs::write(&text, script).expect("cannot write");
    let input = Stdio::from(File::open(&text).expect("cannot open"));
    run(Command::new("sfdisk").args(["-q", "--no-reread"]).arg(&image).stdin(input));
    let file = File::options().write(true).open(&image).expect("cannot open");
    for region in haul_guest::map(&open(&image), &Options::default()).regions {
        if region.verdict.word() == "unknown" && region.size() >= MIB {
            let (_dir, part) = blank(region.size());
            run(Command::new("mkswap").arg(&part));
            let head = fs::read(&part).expect("cannot read");
            file.write_all_at(&head[..8192], region.start()).expect("cannot write");
        }
    }
    let map = haul_guest::map(&open(&image), &Options::default());
    assert!(map.free.bytes() > 10 * MIB, "{map}");
    let data = data_extents(&File::open(&image).expect("cannot open"));
    let pages = Pages::of(&open(&image), data.into_iter().map(|(start, len)| start..start + len));
    Seed { pages, free: map.free, places: Vec::new(), fixes: Vec::new(), guarded: false }
}

fn lvm_seeds() -> Vec<Seed> {
    let Some(lvm) = Lvm::new(&[200 * MIB], &[]) else { return Vec::new() };
    lvm.run("lvcreate", &["-L", "60M", "-n", "root", "vg0"]);
    lvm.run("lvcreate", &["-L", "40M", "-n", "data", "vg0"]);
    lvm.run("lvextend", &["-L", "+20M", "vg0/root"]);
    let pages = lvm.image(0);
    let free = haul_guest::map(&pages, &Options::default()).free;
    let header = pages.read(4096, 512);
    let text = 4096 + le(&header, 40, 8);
    let places = vec![512..1024, 4096..4096 + 96, text..text + le(&header, 48, 8)];
    vec![Seed { pages, free, places, fixes: vec![Fix::Lvm], guarded: true }]
}

/// A small disk in containers of one format.
fn containers(format: &str, layouts: &[&str]) -> Vec<Seed> {
    let (dir, raw) = blank(3 * MIB);
    let file = File::options().write(true).open(&raw).expect("cannot open");
    for number in 0..6 {
        let bytes = Noise::new(number).bytes(20_000);
        file.write_all_at(&bytes, number * 480_000).expect("cannot write");
    }
    let make = |(number, options): (usize, &&str)| {
        let disk = dir.path().join(format!("{number}.disk"));
        let mut convert = Command::new("qemu-img");
        convert.args(["convert", "-f", "raw", "-O", format]);
        if !options.is_empty() {
            convert.args(["-o", options]);
        }
        run(convert.arg(&raw).arg(&disk));
        container_seed(format, &disk)
    };
    layouts.iter().enumerate().map(make).collect()
}

fn container_seed(format: &str, path: &Path) -> Seed {
    let file: Arc<dyn ReadAt> = Arc::new(open(path));
    let size = file.size();
    let opened = container::open(Arc::clone(&file), path.as_os_str(), &Alone);
    let mut places: Vec<Range<u64>> = match &opened {
        Ok(opened) => {
            let seen = opened.disk.witnesses().iter().map(|seen| seen.witness);
            seen.map(|seen| seen.offset..seen.offset + seen.len).collect()
        }
        // A text that names other files.
        Err(_) => std::iter::once(0..size).collect(),
    };
    places.sort_unstable_by_key(|place| (place.start, place.end));
    places.dedup();
    // What is stored as it is need not be there, but what is packed must.
    let all = if size <= 256 << 10 { 0..size } else { 0..4096 };
    let pages = Pages::of(&*file, places.iter().cloned().chain([all, size.saturating_sub(4096)..size]));
    let fixes = match format {
        "vhdx" => {
            let blocks = [(64, 4), (128, 4), (192, 64), (256, 64)].map(|(at, len)| (at << 10, len << 10));
            blocks.map(|(from, len)| Fix::Crc32c { from, len, to: from + 4 }).into()
        }
        "vpc" => {
            let footer = Fix::Vhd { from: size - 512, len: 512, field: 64 };
            match pages.read(0, 8) == *b"conectix" {
                true => vec![
                    Fix::Vhd { from: 0, len: 512, field: 64 },
                    Fix::Vhd { from: 512, len: 1024, field: 36 },
                    Fix::Copy { from: 0, len: 512, to: size - 512 },
                ],
                false => vec![footer],
            }
        }
        _ => Vec::new(),
    };
    Seed { pages, free: ExtentSet::new(), places, fixes, guarded: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::{Ended, run};

    /// Without a fuzzer, but with the same seeds and the same promises.
    #[test]
    fn changed_seeds_of_every_parser_keep_their_promises() {
        let bed = Bed::new();
        for (name, target) in Target::ALL {
            let made = make(target, bed.as_ref());
            let seeds: Vec<Seed> = made.iter().map(|seed| Seed::from_bytes(&seed.to_bytes()).unwrap()).collect();
            // Nothing is changed, and fixing what is right changes nothing. A descriptor's extents are not there.
            for input in 0..seeds.len() as u8 * 2 {
                let ended = run(target, &seeds, &[input]);
                assert!(ended == Ended::Accepted || target == Target::Vmdk, "{name}: input {input} is refused");
            }
            let (mut accepted, mut refused) = (0, 0);
            for round in 0..if seeds.is_empty() { 0 } else { 400 } {
                let mut noise = Noise::new(round);
                let len = noise.below(40) as usize;
                match run(target, &seeds, &noise.bytes(len + 1)) {
                    Ended::Accepted => accepted += 1,
                    _ => refused += 1,
                }
            }
            println!("{name}: {} seeds, {accepted} accepted, {refused} refused", seeds.len());
        }
    }
}
