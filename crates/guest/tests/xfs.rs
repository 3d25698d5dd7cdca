//! What is proven free in XFS, against the kernel, xfs_db and xfs_repair.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use haul_guest::fs::Findings;
use haul_guest::fs::xfs::Xfs;
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, fill_with_noise, has, live_through, run, write_noise};
use haul_testbed::{Bed, Command, temp_dir};

use support::{Fix, Pages, allocated, assert_sound, copy_without, free, open};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 128 * MIB;
/// Room for 16 allocation groups.
const LARGER: u64 = 272 * MIB;

/// Options of mkfs that change how or where free space is written down.
const LAYOUTS: [(u64, &[&str]); 10] = [
    (SIZE, &[]),
    (SIZE, &["-b", "size=1024"]),
    (LARGER, &["-d", "agcount=16"]),
    (SIZE, &["-m", "rmapbt=1,reflink=1"]),
    (SIZE, &["-m", "finobt=0,reflink=0,inobtcount=0,bigtime=0"]),
    (SIZE, &["-m", "bigtime=1", "-i", "sparse=1,nrext64=1"]),
    (SIZE, &["-s", "size=4096"]),
    (SIZE, &["-b", "size=2048", "-s", "size=2048", "-m", "rmapbt=1", "-d", "agcount=7"]),
    (SIZE, &["-l", "su=65536", "-d", "agcount=3"]),
    (SIZE, &["-b", "size=65536", "-n", "size=65536", "-d", "agcount=2"]),
];

fn make(dir: &Path, size: u64, options: &[&str]) -> PathBuf {
    let image = dir.join("image");
    File::create(&image).unwrap().set_len(size).unwrap();
    // It would not make such small ones otherwise.
    run(Command::new("mkfs.xfs").args(["-q", "-f", "-K", "--unsupported"]).args(options).arg(&image));
    image
}

fn tools() -> bool {
    has("mkfs.xfs") && has("xfs_db") && has("xfs_io") && has("xfs_repair")
}

/// Free space as xfs_db sees it, with the blocks of the free lists.
fn free_by_xfs_db(image: &Path) -> ExtentSet {
    let (block, ag_blocks) = (number_by_xfs_db(image, "blocksize"), number_by_xfs_db(image, "agblocks"));
    let text = run(Command::new("xfs_db").args(["-r", "-c", "freesp -d"]).arg(image));
    let rows = text.lines().skip(1).map_while(|line| {
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [ag, at, len] = numbers[..] else { return None };
        let start = (ag * ag_blocks + at) * block;
        Some(start..start + len * block)
    });
    ExtentSet::from_ranges(rows)
}

fn assert_agrees_with_xfs_db(image: &Path, found: &Findings) {
    let theirs = free_by_xfs_db(image);
    let wrong = found.free.without(&theirs);
    assert!(wrong.is_empty(), "not free: {wrong:?}");
    assert!(found.free.bytes() * 100 >= theirs.bytes() * 99, "{} of {}", found.free.bytes(), theirs.bytes());
}

fn assert_repair_is_content(image: &Path) {
    run(Command::new("xfs_repair").args(["-n", "-f"]).arg(image));
}

#[test]
fn every_layout_keeps_every_file_and_frees_what_xfs_db_says() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    for (seed, (size, options)) in (0..).zip(LAYOUTS) {
        let dir = temp_dir();
        let image = make(dir.path(), size, options);
        let mounted = bed.mount_image("xfs", &image, &[]);
        live_through(mounted.path(), 24 * MIB, seed);
        let before = digests(mounted.path());
        mounted.unmount();

        let found = free(&Xfs, &open(&image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
        assert!(found.evidence.contains(&"cleanly unmounted".to_owned()), "{:?}", found.evidence);
        assert_agrees_with_xfs_db(&image, &found);
        let copy = dir.path().join("copy");
        copy_without(&image, &found.free, &copy);
        assert!(allocated(&copy) < size - found.free.bytes() + MIB);
        assert_repair_is_content(&copy);
        for how in ["ro,norecovery", "rw"] {
            let mounted = bed.mount_image("xfs", &copy, &[how]);
            assert_eq!(digests(mounted.path()), before, "{options:?}, mounted {how}");
            mounted.unmount();
        }
        assert_repair_is_content(&copy);
    }
}

/// Many files of one block, every second of which is deleted: the btrees get more than one level.
fn fragment(dir: &Path, count: usize) {
    let dir = dir.join("fragments");
    fs::create_dir(&dir).unwrap();
    for number in 0..count {
        fs::write(dir.join(number.to_string()), [7; 600]).unwrap();
    }
    haul_testbed::guest::flush(&dir);
    for number in (0..count).step_by(2) {
        fs::remove_file(dir.join(number.to_string())).unwrap();
    }
}

/// An unmounted image with small blocks and fragmented free space.
fn fragmented(bed: &Bed, dir: &Path, options: &[&str]) -> PathBuf {
    let image = make(dir, 64 * MIB, &[&["-b", "size=1024"], options].concat());
    let mounted = bed.mount_image("xfs", &image, &[]);
    fragment(mounted.path(), 2400);
    mounted.unmount();
    image
}

#[test]
fn fragmented_free_space_is_found_in_trees_of_several_levels() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = fragmented(&bed, dir.path(), &["-m", "rmapbt=1"]);
    let text = run(Command::new("xfs_db").args(["-r", "-c", "agf 0", "-c", "p bnolevel"]).arg(&image));
    assert_eq!(text.trim(), "bnolevel = 2");
    let found = free(&Xfs, &open(&image)).unwrap();
    assert!(found.free.count() > 500, "{}", found.free.count());
    assert_agrees_with_xfs_db(&image, &found);
}

/// No kernel of today mounts version 4, so mkfs fills it, and xfs_db says where the files are.
#[test]
fn version_4_keeps_every_file_and_frees_what_xfs_db_says() {
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let files = dir.path().join("files");
    fs::create_dir(&files).unwrap();
    let (mut noise, mut names) = (Noise::new(4), Vec::new());
    let mut list = "/dummy\n0 0\nd--755 0 0\n".to_owned();
    for number in 0..60 {
        let path = files.join(number.to_string());
        write_noise(&path, noise.below(200_000) + 1, &mut noise);
        list += &format!("{number} ---644 0 0 {}\n", path.display());
        names.push((format!("/{number}"), path));
    }
    let proto = dir.path().join("proto");
    fs::write(&proto, list + "$\n").unwrap();
    let layouts: [&[&str]; 6] = [
        &[],
        &["-b", "size=512"],
        &["-s", "size=4096"],
        &["-l", "version=1"],
        &["-l", "lazy-count=0"],
        &["-n", "version=ci"],
    ];
    for options in layouts {
        let image = dir.path().join("image");
        let mut file = File::create(&image).unwrap();
        for _ in 0..64 {
            file.write_all(&noise.bytes(MIB as usize)).unwrap();
        }
        drop(file);
        run(Command::new("mkfs.xfs")
            .args(["-q", "-f", "-K", "--unsupported", "-m", "crc=0", "-p"])
            .arg(&proto)
            .args(options)
            .arg(&image));
        let found = free(&Xfs, &open(&image)).unwrap_or_else(|refusal| panic!("{options:?}: {refusal}"));
        assert_agrees_with_xfs_db(&image, &found);
        let copy = dir.path().join("copy");
        copy_without(&image, &found.free, &copy);
        assert_repair_is_content(&copy);
        for (path, extents) in files_by_xfs_db(&copy, &names) {
            let (expected, mut bytes) = (fs::read(path).unwrap(), Vec::new());
            for (start, len) in extents {
                let mut piece = vec![0; len as usize];
                open(&copy).read_exact_at(start, &mut piece).unwrap();
                bytes.extend(piece);
            }
            assert!(bytes.starts_with(&expected), "{options:?}: {}", path.display());
        }
    }
}

fn number_by_xfs_db(image: &Path, field: &str) -> u64 {
    let text = run(Command::new("xfs_db").args(["-r", "-c", "sb 0", "-c", &format!("p {field}")]).arg(image));
    text.trim().rsplit(' ').next().unwrap().parse().unwrap()
}

/// Where the log is, in bytes of the image.
fn log_start(image: &Path) -> u64 {
    let number = |field: &str| number_by_xfs_db(image, field);
    let (start, ag_log) = (number("logstart"), number("agblklog"));
    ((start >> ag_log) * number("agblocks") + (start & ((1 << ag_log) - 1))) * number("blocksize")
}

/// The big-endian word at an offset of the image.
fn word(image: &Path, offset: u64) -> u32 {
    let mut word = [0; 4];
    open(image).read_exact_at(offset, &mut word).unwrap();
    u32::from_be_bytes(word)
}

/// In which turn of the log its first block, which begins a record or not, was written.
fn log_cycle(image: &Path) -> u32 {
    let log = log_start(image);
    match word(image, log) {
        0xfeed_babe => word(image, log + 4),
        cycle => cycle,
    }
}

/// Where the contents of files are, in bytes of the image, by xfs_db.
fn files_by_xfs_db<'a>(image: &Path, names: &'a [(String, PathBuf)]) -> Vec<(&'a Path, Vec<(u64, u64)>)> {
    let (block, ag_blocks) = (number_by_xfs_db(image, "blocksize"), number_by_xfs_db(image, "agblocks"));
    let mut command = Command::new("xfs_db");
    command.arg("-r");
    for (name, _) in names {
        command.args(["-c", &format!("path {name}"), "-c", "bmap", "-c", "echo end"]);
    }
    let text = run(command.arg(image));
    let extents = |part: &str| {
        let lines = part.lines().filter(|line| line.starts_with("data"));
        // "data offset 0 startblock 28 (0/28) count 5 flag 0"
        let extent = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (ag, at) = words[5].trim_matches(['(', ')']).split_once('/').unwrap();
            let start = ag.parse::<u64>().unwrap() * ag_blocks + at.parse::<u64>().unwrap();
            (start * block, words[7].parse::<u64>().unwrap() * block)
        };
        lines.map(extent).collect::<Vec<_>>()
    };
    let found: Vec<_> = text.split("end\n").map(extents).collect();
    names.iter().map(|(_, path)| path.as_path()).zip(found).collect()
}

/// Copies an image as it is at one moment: again, as long as the kernel has written something meanwhile.
fn snapshot(image: &Path, to: &Path) {
    let is_the_same = || Command::new("cmp").arg("-s").args([image, to]).status().unwrap().success();
    loop {
        run(Command::new("cp").args(["--sparse=always"]).arg(image).arg(to));
        if is_the_same() {
            return;
        }
    }
}

/// Lets the kernel write all metadata where it belongs, so that nothing is in the log only.
fn settle(mounted: &Path) {
    for how in ["-f", "-u"] {
        run(Command::new("fsfreeze").arg(how).arg(mounted));
    }
}

/// Ends a filesystem as a loss of power does once the log is on the disk: nothing is written to it any more.
fn shut_down(mounted: &Path) {
    run(Command::new("xfs_io").args(["-x", "-c", "shutdown -f"]).arg(mounted));
}

fn write_synced(path: &Path, len: u64, noise: &mut Noise) {
    write_noise(path, len, noise);
    File::open(path).unwrap().sync_all().unwrap();
}

/// Makes the smart copy of a dirty image, lets the kernel replay its log, and asserts that nothing is lost: of the files, and
/// of what the kernel itself says is used when it has replayed the log of a plain copy.
fn assert_dirty_is_right(bed: &Bed, image: &Path, files: &std::collections::BTreeMap<PathBuf, (u64, u64)>) -> Findings {
    let found = free(&Xfs, &open(image)).unwrap_or_else(|refusal| panic!("{}: {refusal}", image.display()));
    let copy = image.with_extension("copy");
    copy_without(image, &found.free, &copy);
    let mounted = bed.mount_image("xfs", &copy, &[]);
    let there = digests(mounted.path());
    mounted.unmount();
    for (path, digest) in files {
        assert_eq!(there.get(path), Some(digest), "{}: {}", image.display(), path.display());
    }
    assert_repair_is_content(&copy);
    fs::remove_file(&copy).unwrap();

    bed.mount_image("xfs", image, &[]).unmount();
    let wrong = found.free.without(&free_by_xfs_db(image));
    assert!(wrong.is_empty(), "{}: used after recovery: {wrong:?}", image.display());
    found
}

#[test]
fn a_mounted_filesystem_with_files_synced_one_by_one_loses_nothing() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    let layouts: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&["-b", "size=1024", "-m", "rmapbt=1"], &["logbsize=256k"]),
        (&["-l", "su=65536", "-d", "agcount=3"], &[]),
        (&["-s", "size=4096", "-m", "reflink=0"], &["logbsize=64k"]),
    ];
    for (seed, (options, mount)) in (0..).zip(layouts) {
        let dir = temp_dir();
        let (image, live) = (make(dir.path(), SIZE, options), dir.path().join("live"));
        let mounted = bed.mount_image("xfs", &image, mount);
        live_through(mounted.path(), 16 * MIB, seed);
        let mut noise = Noise::new(seed);
        for number in 0..100 {
            let len = noise.below(60_000) + 1;
            write_synced(&mounted.path().join(format!("synced-{number}")), len, &mut noise);
        }
        let files = digests(mounted.path());
        assert!(files.len() > 100);
        // From time to time the kernel writes what is in the log where it belongs. A last file stands in the log in any case, and
        // the log stays as it is from then on.
        write_synced(&mounted.path().join("last"), 60_000, &mut noise);
        shut_down(mounted.path());
        snapshot(&image, &live);
        mounted.unmount();
        let found = assert_dirty_is_right(&bed, &live, &files);
        assert_eq!(found.evidence[0], "free on the disk and after the log is replayed");
        assert!(found.free.bytes() > SIZE / 3, "{}", found.free.bytes());
    }
}

#[test]
fn a_frozen_filesystem_is_mapped_as_its_log_touches_only_the_superblock() {
    let Some(bed) = Bed::new() else { return };
    if !tools() || !has("fsfreeze") {
        return;
    }
    let dir = temp_dir();
    let (image, frozen) = (make(dir.path(), SIZE, &[]), dir.path().join("frozen"));
    let mounted = bed.mount_image("xfs", &image, &[]);
    live_through(mounted.path(), 16 * MIB, 3);
    run(Command::new("fsfreeze").arg("-f").arg(mounted.path()));
    snapshot(&image, &frozen);
    run(Command::new("fsfreeze").arg("-u").arg(mounted.path()));
    let files = digests(mounted.path());
    mounted.unmount();
    let theirs = free_by_xfs_db(&frozen);
    let found = assert_dirty_is_right(&bed, &frozen, &files);
    assert_eq!(found.evidence[0], "the log touches only the superblock");
    assert!(found.free.bytes() * 100 >= theirs.bytes() * 99);
}

/// Everything that changes free space in another way, with the log going round its ring.
#[test]
fn a_filesystem_in_turmoil_loses_nothing_at_any_moment() {
    let Some(bed) = Bed::new() else { return };
    if !tools() || !has("fsfreeze") {
        return;
    }
    let layouts: [(&[&str], &[&str]); 2] =
        [(&[], &[]), (&["-b", "size=1024", "-m", "rmapbt=1", "-d", "agcount=6"], &["logbsize=256k"])];
    for (seed, (options, mount)) in (10..).zip(layouts) {
        let dir = temp_dir();
        let image = make(dir.path(), SIZE, options);
        let mounted = bed.mount_image("xfs", &image, mount);
        let root = mounted.path().to_owned();
        let mut noise = Noise::new(seed);
        fill_with_noise(&root, &mut noise);
        // The log comes to its end on the way.
        let (log, blocks) = (log_start(&image), number_by_xfs_db(&image, "logblocks"));
        let near_end = log + blocks * number_by_xfs_db(&image, "blocksize") - MIB;
        while word(&image, near_end) == 0 {
            for number in 0..50 {
                write_synced(&root.join(format!("burnt-{number}")), 600, &mut noise);
            }
        }
        let mut moments = Vec::new();
        let mut orphans = Vec::new();
        for round in 0..8 {
            churn(&root, round, &mut noise, &mut orphans);
            let live = dir.path().join(format!("live-{round}"));
            snapshot(&image, &live);
            moments.push((live, digests(&root)));
        }
        drop(orphans);
        // Where blocks of a group's trees are not on the disk yet, nothing of the group is free. They are there now, and what
        // comes is in the log only.
        settle(&root);
        let settled = dir.path().join("settled");
        for number in 0..3 {
            write_synced(&root.join(format!("late-{number}")), 5000, &mut noise);
        }
        snapshot(&image, &settled);
        let files = digests(&root);
        mounted.unmount();
        assert!(log_cycle(&image) > 1, "the log has not gone round");
        for (live, files) in moments {
            assert_dirty_is_right(&bed, &live, &files);
            fs::remove_file(&live).unwrap();
        }
        let theirs = free_by_xfs_db(&settled);
        let found = assert_dirty_is_right(&bed, &settled, &files);
        assert_eq!(found.evidence[0], "free on the disk and after the log is replayed");
        assert!(found.free.bytes() * 100 >= theirs.bytes() * 99, "{} of {}", found.free.bytes(), theirs.bytes());
    }
}

fn churn(root: &Path, round: u32, noise: &mut Noise, orphans: &mut Vec<File>) {
    let dir = root.join(format!("round-{round}"));
    fs::create_dir(&dir).unwrap();
    for number in 0..60 {
        let path = dir.join(format!("{number}-with-a-name-that-makes-the-directory-grow"));
        write_noise(&path, noise.below(40_000) + 1, noise);
        let file = File::options().write(true).open(&path).unwrap();
        match number % 6 {
            0 => file.set_len(noise.below(10_000)).unwrap(),
            1 => drop(run(Command::new("fallocate").args(["-l", "300k", "-o", "1m"]).arg(&path))),
            2 => drop(run(Command::new("cp").arg("--reflink=auto").arg(&path).arg(dir.join(format!("twin-{number}"))))),
            3 => drop(run(Command::new("fallocate").args(["-p", "-o", "4096", "-l", "8192"]).arg(&path))),
            _ => {}
        }
        file.sync_all().unwrap();
    }
    // The oldest round goes, with one file that is open for longer.
    if let Some(gone) = round.checked_sub(2).map(|round| root.join(format!("round-{round}"))) {
        orphans.push(File::open(fs::read_dir(&gone).unwrap().next().unwrap().unwrap().path()).unwrap());
        fs::remove_dir_all(gone).unwrap();
    }
    for entry in fs::read_dir(&dir).unwrap() {
        File::open(entry.unwrap().path()).unwrap().sync_all().unwrap();
    }
    write_synced(&dir.join("last"), 5000, noise);
}

#[test]
fn a_log_that_xfs_repair_or_xfs_admin_made_anew_is_clean() {
    let Some(bed) = Bed::new() else { return };
    if !tools() || !has("xfs_admin") {
        return;
    }
    let dir = temp_dir();
    let image = make(dir.path(), SIZE, &[]);
    let mounted = bed.mount_image("xfs", &image, &[]);
    live_through(mounted.path(), 8 * MIB, 1);
    mounted.unmount();
    run(Command::new("xfs_repair").args(["-L", "-f"]).arg(&image));
    assert_agrees_with_xfs_db(&image, &free(&Xfs, &open(&image)).unwrap());
    run(Command::new("xfs_admin").args(["-U", "generate"]).arg(&image));
    assert_agrees_with_xfs_db(&image, &free(&Xfs, &open(&image)).unwrap());
    // And when the kernel has gone on with it.
    let mounted = bed.mount_image("xfs", &image, &[]);
    let live = dir.path().join("live");
    write_synced(&mounted.path().join("a"), 100_000, &mut Noise::new(1));
    snapshot(&image, &live);
    let files = digests(mounted.path());
    mounted.unmount();
    assert_dirty_is_right(&bed, &live, &files);
}

/// A structure with a checksum: where it is, how long, and where in it the checksum is.
type Sealed = (u64, usize, usize);

/// What of the metadata that the parser reads is outside the log.
fn structures(image: &dyn ReadAt) -> Vec<Sealed> {
    let session = Session::new(image, Budget::for_image(image.size()));
    haul_guest::fs::FreeMap::free(&Xfs, &session.view(), &haul_guest::fs::Options::default()).unwrap();
    let mut found = Vec::new();
    for witness in session.into_witnesses() {
        let mut magic = [0; 4];
        image.read_exact_at(witness.offset, &mut magic).unwrap();
        let at = match &magic {
            b"XFSB" => 224,
            b"XAGF" => 216,
            b"XAFL" => 32,
            b"AB3B" | b"AB3C" | b"ABTB" | b"ABTC" => 52,
            _ => continue,
        };
        found.push((witness.offset, witness.len as usize, at));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn seal(pages: &mut Pages, structures: &[Sealed]) {
    let pristine = pages.clone();
    for (offset, len, at) in structures {
        Fix::Crc32c { from: *offset, len: *len as u64, to: *offset + *at as u64 }.apply(pages, &pristine);
    }
}

/// Mutates all structures alike often, and in them what is in use more often than what is not.
fn places(structures: &[Sealed]) -> Vec<std::ops::Range<u64>> {
    let place = |(offset, len, _): &Sealed| {
        let used = (*len as u64).min(280);
        [*offset..*offset + used / 4, *offset..*offset + used, *offset..*offset + *len as u64]
    };
    structures.iter().flat_map(place).collect()
}

fn fuzz(name: &str, image: &Path, rounds: u64, seals: &[bool]) {
    let pages = Pages::read_by(&Xfs, &open(image));
    let truly = free(&Xfs, &pages).unwrap().free;
    let structures = structures(&pages);
    let places = places(&structures);
    for sealed in seals {
        let counts = assert_sound(&Xfs, &pages, &truly, &places, rounds, |mutated| {
            if *sealed {
                seal(mutated, &structures);
            }
        });
        println!("{name}, checksums repaired {sealed}: {counts:?}");
        assert!(counts.refused > rounds / 3);
    }
}

#[test]
fn no_mutation_of_a_clean_filesystem_frees_what_is_used() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = fragmented(&bed, dir.path(), &["-m", "rmapbt=1"]);
    fuzz("version 5", &image, 1500, &[true, false]);
}

#[test]
fn no_mutation_of_a_dirty_filesystem_frees_what_is_used() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = fragmented(&bed, dir.path(), &[]);
    let live = dir.path().join("live");
    let mounted = bed.mount_image("xfs", &image, &[]);
    for number in 0..40 {
        write_synced(&mounted.path().join(number.to_string()), 3000, &mut Noise::new(number));
    }
    snapshot(&image, &live);
    mounted.unmount();
    fuzz("dirty version 5", &live, 1000, &[true, false]);
}

#[test]
fn no_mutation_of_version_4_frees_what_is_used() {
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = make(dir.path(), 64 * MIB, &["-m", "crc=0", "-l", "version=1"]);
    fuzz("version 4", &image, 6000, &[false]);
}

/// Damage to any byte of the records that would be replayed is noticed.
#[test]
fn a_damaged_record_in_the_log_is_refused() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let (image, live) = (make(dir.path(), 64 * MIB, &[]), dir.path().join("live"));
    let mounted = bed.mount_image("xfs", &image, &[]);
    for number in 0..10 {
        write_synced(&mounted.path().join(number.to_string()), 9000, &mut Noise::new(number));
    }
    snapshot(&image, &live);
    mounted.unmount();
    let log = log_start(&image);
    // "    log tail: 42 head: 898 state: <DIRTY>"
    let text = run(Command::new("xfs_logprint").arg("-t").arg(&live));
    let words: Vec<&str> = text.split("log tail:").nth(1).unwrap().split_whitespace().collect();
    let (tail, head) = (log + words[0].parse::<u64>().unwrap() * 512, log + words[2].parse::<u64>().unwrap() * 512);
    assert!(head > tail + 8192);
    let pages = Pages::read_by(&Xfs, &open(&live));
    let truly = free(&Xfs, &pages).unwrap().free;
    let (mut noise, mut refused) = (Noise::new(5), 0);
    for round in 0..600 {
        let at = tail + noise.below(head - tail);
        let mut damaged = pages.clone();
        let old = damaged.read(at, 1)[0];
        damaged.write(at, &[old ^ 1 << noise.below(8)]);
        match free(&Xfs, &damaged) {
            Err(_) => refused += 1,
            // The end of a record's header means nothing.
            Ok(found) => {
                let header = pages.read(at / 512 * 512, 4) == [0xfe, 0xed, 0xba, 0xbe];
                assert!(header && at % 512 >= 324, "round {round}, byte {}", at - log);
                assert_eq!(found.free, truly);
            }
        }
    }
    println!("{refused} of 600 refused");
}

#[test]
fn forged_superblocks_are_refused_at_once() {
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = make(dir.path(), 64 * MIB, &[]);
    let pages = Pages::read_by(&Xfs, &open(&image));
    let structures = structures(&pages);
    let forge = |changes: &[(u64, &[u8])]| {
        let mut forged = pages.clone();
        for (at, bytes) in changes {
            forged.write(*at, bytes);
        }
        seal(&mut forged, &structures);
        free(&Xfs, &forged).expect_err("accepted")
    };
    let unsupported = |refusal: Refusal| matches!(refusal, Refusal::Unsupported(_));
    // More groups than the image can hold, and blocks to match.
    let corrupt = |refusal: Refusal| matches!(refusal, Refusal::Corrupt(_));
    assert!(corrupt(forge(&[(88, &u32::MAX.to_be_bytes())])));
    assert!(corrupt(forge(&[(8, &u64::MAX.to_be_bytes())])));
    assert!(corrupt(forge(&[
        (8, &(64_u64 << 32).to_be_bytes()),
        (84, &64_u32.to_be_bytes()),
        (88, &u32::MAX.to_be_bytes())
    ])));
    assert!(corrupt(forge(&[(4, &0_u32.to_be_bytes())])));
    assert!(corrupt(forge(&[(4, &(1_u32 << 30).to_be_bytes())])));
    assert!(corrupt(forge(&[(84, &0_u32.to_be_bytes())])));
    assert!(corrupt(forge(&[(102, &0_u16.to_be_bytes())])));
    // The log: outside, too long, none, external.
    assert!(corrupt(forge(&[(48, &u64::MAX.to_be_bytes())])));
    assert!(corrupt(forge(&[(96, &u32::MAX.to_be_bytes())])));
    assert!(corrupt(forge(&[(96, &0_u32.to_be_bytes())])));
    assert!(unsupported(forge(&[(48, &0_u64.to_be_bytes())])));
    // What is not understood: a realtime device, a metadata directory, zones, features to come, another version.
    assert!(unsupported(forge(&[(24, &1_u64.to_be_bytes())])));
    for bit in [0x100_u32, 0x200, 1 << 31] {
        let old = u32::from_be_bytes(pages.read(216, 4).try_into().unwrap());
        assert!(unsupported(forge(&[(216, &(old | bit).to_be_bytes())])));
    }
    assert!(unsupported(forge(&[(212, &0x1000_u32.to_be_bytes())])));
    assert!(unsupported(forge(&[(220, &2_u32.to_be_bytes())])));
    assert!(unsupported(forge(&[(208, &1_u32.to_be_bytes())])));
    // Two sets of features of version 4 that differ.
    assert!(matches!(forge(&[(204, &0x4000_0000_u32.to_be_bytes())]), Refusal::Corrupt(_)));
    assert!(unsupported(forge(&[(100, &0xb4a6_u16.to_be_bytes())])));
    assert!(matches!(forge(&[(216, &0x1b_u32.to_be_bytes())]), Refusal::Dirty(_)));
    assert!(corrupt(forge(&[(126, &[1])])));
}

#[test]
fn trees_that_loop_or_lead_outside_are_refused() {
    let Some(bed) = Bed::new() else { return };
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = fragmented(&bed, dir.path(), &[]);
    let pages = Pages::read_by(&Xfs, &open(&image));
    let structures = structures(&pages);
    let root = u32::from_be_bytes(pages.read(512 + 16, 4).try_into().unwrap());
    let block = u64::from(root) * 1024;
    assert_eq!(pages.read(block, 4), b"AB3B");
    let pointers = block + 56 + 8 * ((1024 - 56) / 12);
    for pointer in [root, 0, 1, u32::MAX, 0x7fff_ffff] {
        let mut forged = pages.clone();
        forged.write(pointers, &pointer.to_be_bytes());
        seal(&mut forged, &structures);
        assert!(matches!(free(&Xfs, &forged), Err(Refusal::Corrupt(_))), "{pointer:#x}");
    }
    for (at, value) in [(16, u32::MAX), (16, 0), (28, u32::MAX), (28, 0), (28, 9), (28, 1), (40, 5000), (48, u32::MAX)]
    {
        let mut forged = pages.clone();
        forged.write(512 + at, &value.to_be_bytes());
        seal(&mut forged, &structures);
        assert!(matches!(free(&Xfs, &forged), Err(Refusal::Corrupt(_))), "{at}: {value:#x}");
    }
}

#[test]
fn an_image_that_ends_before_its_filesystem_is_refused() {
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = make(dir.path(), 64 * MIB, &[]);
    File::options().write(true).open(&image).unwrap().set_len(64 * MIB - 4096).unwrap();
    assert!(matches!(free(&Xfs, &open(&image)), Err(Refusal::Corrupt(_))));
    let mut all = Vec::new();
    File::open(&image).unwrap().take(4096).read_to_end(&mut all).unwrap();
    assert!(free(&Xfs, &all).is_err());
}
