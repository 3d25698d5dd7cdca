//! btrfs: what the parser calls free is free, by the contents of all files and by btrfs's own tools.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use haul_guest::fs::Findings;
use haul_guest::fs::btrfs::Btrfs;
use haul_guest::{ExtentSet, Refusal};
use haul_testbed::guest::{
    Mounted, Noise, copy_without, digests, fill_with_noise, flush, has, live_through, run, write_noise,
};
use haul_testbed::{Bed, Command, Fs, TempDir, temp_dir, temp_dir_in};
use support::{free, open};

const MIB: u64 = 1 << 20;

/// An image of its own, and the mounts of this thread.
struct Stage {
    bed: Bed,
    dir: TempDir,
    image: PathBuf,
}

impl Stage {
    /// `None`, after a counted skip, without root or btrfs-progs.
    fn new(size: u64, mkfs: &[&str]) -> Option<Stage> {
        Stage::on(Bed::new()?, temp_dir(), size, mkfs)
    }

    fn on(bed: Bed, dir: TempDir, size: u64, mkfs: &[&str]) -> Option<Stage> {
        if !has("mkfs.btrfs") || !has("btrfs") {
            return None;
        }
        let image = dir.path().join("image");
        File::create_new(&image).unwrap().set_len(size).unwrap();
        run(Command::new("mkfs.btrfs").args(["-q", "-f", "-K"]).args(mkfs).arg(&image));
        Some(Stage { bed, dir, image })
    }

    /// Discards would make holes where the noise of deleted files should be.
    fn mount(&self, image: &Path, options: &[&str]) -> Mounted {
        let options: Vec<&str> = ["nodiscard"].iter().chain(options).copied().collect();
        self.bed.mount_image("btrfs", image, &options)
    }

    fn findings(&self) -> Result<Findings, Refusal> {
        free(&Btrfs, &open(&self.image))
    }

    fn copy(&self, free: &ExtentSet) -> PathBuf {
        let copy = self.dir.path().join("copy");
        copy_without(&self.image, free.iter().map(|extent| (extent.start, extent.len)), &copy);
        copy
    }

    /// Copies the unmounted image without what is free, and compares everything with what was there.
    fn assert_copy_is_right(&self, free: &ExtentSet, before: &Digests) {
        let copy = self.copy(free);
        run(Command::new("btrfs").arg("check").arg(&copy));
        let mounted = self.mount(&copy, &["ro"]);
        assert_eq!(&digests(mounted.path()), before, "mounted read-only");
        mounted.unmount();
        let mounted = self.mount(&copy, &[]);
        assert_eq!(&digests(mounted.path()), before, "mounted read-write");
        run(Command::new("btrfs").args(["scrub", "start", "-B"]).arg(mounted.path()));
        write_noise(&mounted.path().join("new"), 3 * MIB, &mut Noise::new(77));
        flush(mounted.path());
        fs::remove_file(mounted.path().join("new")).unwrap();
        assert_eq!(&digests(mounted.path()), before, "after writing");
        mounted.unmount();
        run(Command::new("btrfs").arg("check").arg(&copy));
        fs::remove_file(&copy).unwrap();
    }
}

type Digests = std::collections::BTreeMap<PathBuf, (u64, u64)>;

/// What btrfs-progs calls free: what its dumps of the chunk tree and the extent tree leave over.
fn free_by_tool(image: &Path) -> ExtentSet {
    let dump = |tree: &str| {
        let mut command = Command::new("btrfs");
        run(command.args(["inspect-internal", "dump-tree", "-t", tree]).arg(image))
    };
    let numbers = |line: &str| -> Vec<u64> {
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let (mut total, mut node, mut chunks) = (0, 0, Vec::<(u64, u64, Vec<u64>)>::new());
    for line in dump("chunk").lines().map(str::trim) {
        if line.contains(" CHUNK_ITEM ") {
            chunks.push((numbers(line)[1], 0, Vec::new()));
        } else if line.starts_with("devid ") {
            total = numbers(line)[1];
        } else if line.starts_with("length ") {
            chunks.last_mut().unwrap().1 = numbers(line)[0];
        } else if line.starts_with("stripe ") && line.contains("offset") {
            chunks.last_mut().unwrap().2.push(numbers(line)[2]);
        }
    }
    let superblock = run(Command::new("btrfs").args(["inspect-internal", "dump-super"]).arg(image));
    for line in superblock.lines().filter(|line| line.starts_with("nodesize")) {
        node = numbers(line)[0];
    }
    let mut used = vec![0..MIB, 64 * MIB..64 * MIB + (64 << 10)];
    let extents = dump("extent");
    let items = extents.lines().map(str::trim).filter(|line| line.starts_with("item "));
    for line in items.filter(|line| line.contains(" EXTENT_ITEM ") || line.contains(" METADATA_ITEM ")) {
        let key = numbers(line);
        let (start, len) = (key[1], if line.contains("METADATA") { node } else { key[2] });
        let (chunk, _, stripes) = chunks.iter().find(|chunk| (chunk.0..chunk.0 + chunk.1).contains(&start)).unwrap();
        used.extend(stripes.iter().map(|stripe| stripe + (start - chunk)..stripe + (start - chunk) + len));
    }
    assert!(total > 0 && node > 0 && used.len() > 3, "the dump is not understood");
    ExtentSet::from_ranges(used).complement(0..total)
}

/// A hard failure if something is free that the tool does not call free, and if less than 99 % of that is found.
fn assert_agrees_with_tool(image: &Path, found: &ExtentSet) {
    let tool = free_by_tool(image);
    let wrong = found.without(&tool);
    assert!(wrong.is_empty(), "not free: {wrong:?}");
    assert!(found.bytes() * 100 >= tool.bytes() * 99, "{} of {}", found.bytes(), tool.bytes());
}

/// Many small files, whose contents are in the trees: there will be chunks for more metadata, and trees of some height.
fn crowd(dir: &Path) {
    let crowd = dir.join("crowd");
    fs::create_dir(&crowd).unwrap();
    let mut noise = Noise::new(3);
    for number in 0..6000 {
        write_noise(&crowd.join(format!("{number}")), 1900, &mut noise);
    }
    flush(dir);
    for number in (0..6000).filter(|number| number % 3 != 0) {
        fs::remove_file(crowd.join(format!("{number}"))).unwrap();
    }
    flush(dir);
}

/// The whole life of an image: fill, write, delete, unmount, map, copy, compare.
fn lives_and_is_copied(size: u64, mkfs: &[&str], options: &[&str], more: impl Fn(&Path)) {
    let Some(stage) = Stage::new(size, mkfs) else { return };
    let mounted = stage.mount(&stage.image, options);
    crowd(mounted.path());
    live_through(mounted.path(), 40 * MIB, 4);
    more(mounted.path());
    flush(mounted.path());
    let before = digests(mounted.path());
    assert!(before.len() > 100, "{}", before.len());
    mounted.unmount();
    let found = stage.findings().expect("refused");
    println!("{mkfs:?}: free {} of {size}, {:?}", found.free.bytes(), found.evidence);
    assert_agrees_with_tool(&stage.image, &found.free);
    stage.assert_copy_is_right(&found.free, &before);
}

fn nothing(_: &Path) {}

#[test]
fn a_default_filesystem_is_copied_without_its_free_space() {
    lives_and_is_copied(400 * MIB, &[], &[], nothing);
}

#[test]
fn mixed_block_groups_are_copied_without_their_free_space() {
    lives_and_is_copied(300 * MIB, &["--mixed"], &[], nothing);
}

#[test]
fn data_that_is_there_twice_is_copied_twice() {
    lives_and_is_copied(500 * MIB, &["-d", "dup", "-m", "dup"], &[], nothing);
}

#[test]
fn metadata_that_is_there_once_is_copied() {
    lives_and_is_copied(400 * MIB, &["-m", "single"], &[], nothing);
}

#[test]
fn small_and_large_nodes_are_understood() {
    lives_and_is_copied(300 * MIB, &["-n", "4096"], &[], nothing);
    lives_and_is_copied(300 * MIB, &["-n", "65536"], &[], nothing);
}

#[test]
fn filesystems_without_a_free_space_tree_are_understood() {
    lives_and_is_copied(300 * MIB, &["-R", "^free-space-tree"], &["space_cache=v1"], nothing);
}

#[test]
fn filesystems_of_the_old_formats_are_understood() {
    let old = ["-R", "^free-space-tree", "-O", "^skinny-metadata,^no-holes,^extref"];
    lives_and_is_copied(300 * MIB, &old, &["nospace_cache"], nothing);
}

#[test]
fn every_kind_of_checksum_is_understood() {
    for kind in ["xxhash", "sha256", "blake2"] {
        lives_and_is_copied(300 * MIB, &["--csum", kind], &[], nothing);
    }
}

#[test]
fn snapshots_that_were_made_and_deleted_are_understood() {
    lives_and_is_copied(400 * MIB, &[], &[], |dir| {
        let btrfs = |arguments: &[&str]| run(Command::new("btrfs").args(arguments).current_dir(dir));
        btrfs(&["quota", "enable", "."]);
        btrfs(&["subvolume", "create", "volume"]);
        let mut noise = Noise::new(9);
        for number in 0..100 {
            write_noise(&dir.join("volume").join(format!("{number}")), 50_000, &mut noise);
        }
        btrfs(&["subvolume", "snapshot", "volume", "kept"]);
        btrfs(&["subvolume", "snapshot", "-r", "volume", "deleted"]);
        for number in 0..50 {
            write_noise(&dir.join("volume").join(format!("{number}")), 60_000, &mut noise);
            fs::remove_file(dir.join("kept").join(format!("{}", number + 50))).unwrap();
        }
        flush(dir);
        btrfs(&["subvolume", "delete", "-c", "deleted"]);
        btrfs(&["subvolume", "sync", "."]);
        btrfs(&["subvolume", "snapshot", "kept", "half-deleted"]);
        flush(dir);
        btrfs(&["subvolume", "delete", "half-deleted"]); // its space may come free later
    });
}

#[test]
fn compressed_and_inline_and_sparse_files_are_understood() {
    for kind in ["compress-force=zstd", "compress-force=lzo"] {
        lives_and_is_copied(300 * MIB, &[], &[kind], |dir| {
            for number in 0..200_usize {
                let mut file = File::create(dir.join(format!("text-{number}"))).unwrap();
                let line = format!("line {number} of a file that says the same again and again\n");
                file.write_all(line.repeat(number * number).as_bytes()).unwrap();
                file.write_all_at(b"behind a hole", 10 * MIB).unwrap();
                fs::write(dir.join(format!("inline-{number}")), &line).unwrap();
            }
            run(Command::new("fallocate").args(["-l", "3M"]).arg(dir.join("preallocated")));
        });
    }
}

#[test]
fn a_filesystem_with_another_metadata_uuid_is_understood() {
    let Some(stage) = Stage::new(300 * MIB, &[]) else { return };
    run(Command::new("btrfstune").arg("-m").arg(&stage.image));
    let mounted = stage.mount(&stage.image, &[]);
    live_through(mounted.path(), 20 * MIB, 5);
    let before = digests(mounted.path());
    mounted.unmount();
    let found = stage.findings().expect("refused");
    assert_agrees_with_tool(&stage.image, &found.free);
    stage.assert_copy_is_right(&found.free, &before);
}

#[test]
fn a_balanced_and_shrunken_filesystem_keeps_what_lies_behind_its_end() {
    let Some(stage) = Stage::new(500 * MIB, &[]) else { return };
    let mounted = stage.mount(&stage.image, &[]);
    live_through(mounted.path(), 30 * MIB, 6);
    run(Command::new("btrfs").args(["balance", "start", "--full-balance"]).arg(mounted.path()));
    run(Command::new("btrfs").args(["filesystem", "resize", "400M"]).arg(mounted.path()));
    let before = digests(mounted.path());
    mounted.unmount();
    let found = stage.findings().expect("refused");
    assert_agrees_with_tool(&stage.image, &found.free);
    assert!(found.free.clipped(400 * MIB..500 * MIB).is_empty());
    stage.assert_copy_is_right(&found.free, &before);
}

#[test]
fn a_filesystem_that_only_mkfs_wrote_is_understood() {
    if !has("mkfs.btrfs") {
        return;
    }
    let source = temp_dir();
    crowd(source.path());
    let root = source.path().to_str().unwrap();
    let Some(stage) = Stage::new(200 * MIB, &["--rootdir", root]) else { return };
    let found = stage.findings().expect("refused");
    assert_agrees_with_tool(&stage.image, &found.free);
    stage.assert_copy_is_right(&found.free, &digests(source.path()));
}

/// Its chunks and extents lie where those of the old filesystem were.
#[test]
fn a_filesystem_that_was_converted_from_ext4_is_understood() {
    let Some(stage) = Stage::new(400 * MIB, &[]) else { return };
    if !has("mkfs.ext4") || !has("btrfs-convert") {
        return;
    }
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-E", "nodiscard"]).arg(&stage.image));
    let mounted = stage.bed.mount_image("ext4", &stage.image, &["nodiscard"]);
    live_through(mounted.path(), 40 * MIB, 12);
    fs::remove_dir(mounted.path().join("lost+found")).unwrap();
    mounted.unmount();
    run(Command::new("btrfs-convert").arg(&stage.image));
    let mounted = stage.mount(&stage.image, &["ro"]);
    let before = digests(mounted.path());
    mounted.unmount();
    let found = stage.findings().expect("refused");
    println!("converted: free {}, {:?}", found.free.bytes(), found.evidence);
    assert_agrees_with_tool(&stage.image, &found.free);
    stage.assert_copy_is_right(&found.free, &before);
}

#[test]
fn bitmaps_of_free_space_are_understood() {
    let Some(stage) = Stage::new(300 * MIB, &[]) else { return };
    let mounted = stage.mount(&stage.image, &["max_inline=0"]);
    fill_with_noise(mounted.path(), &mut Noise::new(8));
    crowd(mounted.path());
    let before = digests(mounted.path());
    mounted.unmount();
    let dump = run(Command::new("btrfs").args(["inspect-internal", "dump-tree", "-t", "10"]).arg(&stage.image));
    assert!(dump.contains("FREE_SPACE_BITMAP"), "there are no bitmaps");
    let found = stage.findings().expect("refused");
    assert!(found.evidence.iter().any(|words| words.contains("free space tree")), "{:?}", found.evidence);
    assert_agrees_with_tool(&stage.image, &found.free);
    stage.assert_copy_is_right(&found.free, &before);
}

/// As a crash or a snapshot of a running guest finds it: while files are written and flushed, and all chunks are moved
/// about. A reflink copy on XFS takes the image as it is at one moment.
#[test]
fn snapshots_of_a_busy_filesystem_are_understood() {
    let Some(bed) = Bed::new() else { return };
    let Some(below) = bed.mount(Fs::Xfs) else { return };
    let Some(stage) = Stage::on(bed, temp_dir_in(&below), 500 * MIB, &[]) else { return };
    let mounted = stage.mount(&stage.image, &[]);
    crowd(mounted.path());
    live_through(mounted.path(), 60 * MIB, 11);
    let before = digests(mounted.path());
    let mut snapshots = Vec::new();
    for round in 0..8 {
        let mut balance = Command::new("btrfs");
        let balance = balance.args(["balance", "start", "--full-balance"]).arg(mounted.path());
        let mut balance = balance.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut noise = Noise::new(round);
        for number in 0..4 * round {
            let path = mounted.path().join(format!("new-{number}"));
            write_noise(&path, noise.below(300_000), &mut noise);
            File::open(&path).unwrap().sync_all().unwrap();
        }
        let snapshot = stage.dir.path().join(format!("snapshot-{round}"));
        run(Command::new("cp").arg("--reflink=always").arg(&stage.image).arg(&snapshot));
        snapshots.push(snapshot);
        balance.wait().unwrap();
    }
    mounted.unmount();
    let (mut balanced, mut logged) = (0, 0);
    for snapshot in snapshots {
        let found = free(&Btrfs, &open(&snapshot)).expect("refused");
        let roots = run(Command::new("btrfs").args(["inspect-internal", "dump-tree", "-t", "1"]).arg(&snapshot));
        balanced += u32::from(roots.contains("(BALANCE TEMPORARY_ITEM"));
        logged += u32::from(!found.evidence.contains(&"no log".to_owned()));
        let copy = stage.dir.path().join("copy");
        copy_without(&snapshot, found.free.iter().map(|extent| (extent.start, extent.len)), &copy);
        fs::remove_file(&snapshot).unwrap();
        // Twice: the first mount replays the log and goes on with the balance.
        for _ in 0..2 {
            let mounted = stage.mount(&copy, &[]);
            let mut after = digests(mounted.path());
            after.retain(|path, _| !path.to_str().unwrap().starts_with("new-"));
            assert_eq!(after, before, "{}", snapshot.display());
            mounted.unmount();
        }
        run(Command::new("btrfs").arg("check").arg(&copy));
        fs::remove_file(&copy).unwrap();
    }
    println!("{balanced} in the middle of a balance, {logged} with a log");
    assert!(balanced + logged > 0, "it was never busy");
}

#[test]
fn as_much_is_free_as_the_kernel_would_discard() {
    let Some(stage) = Stage::new(400 * MIB, &[]) else { return };
    let mounted = stage.mount(&stage.image, &[]);
    live_through(mounted.path(), 40 * MIB, 7);
    mounted.unmount();
    let found = stage.findings().expect("refused");
    let mounted = stage.mount(&stage.image, &[]);
    let said = run(Command::new("fstrim").arg("-v").arg(mounted.path()));
    let bytes = said.split(['(', ' ']).find_map(|word| word.parse::<u64>().ok().filter(|bytes| *bytes > MIB));
    let trimmed = bytes.unwrap_or_else(|| panic!("not understood: {said}"));
    println!("free {}, trimmed {trimmed}", found.free.bytes());
    assert!(found.free.bytes() * 100 >= trimmed * 99, "free {}, trimmed {trimmed}", found.free.bytes());
    mounted.unmount();
}

/// Writes files and flushes each by fsync alone, so that they are in log trees and not in the extent tree.
fn fsync_files(dirs: &[&Path], round: u64) {
    let mut noise = Noise::new(1000 + round);
    for number in 0..100 {
        let path = dirs[number % dirs.len()].join(format!("fsynced-{number}"));
        write_noise(&path, 1000 + noise.below(200_000), &mut noise);
        File::open(&path).unwrap().sync_all().unwrap();
        // Some again, in the same transaction: in part over what the log says already.
        if number % 7 == 0 {
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&noise.bytes(30_000), 5000).unwrap();
            file.sync_all().unwrap();
        }
    }
}

/// Copies an image while it is mounted and was not committed after the last fsync, and looks for what was fsynced.
fn is_copied_while_dirty(round: u64, mkfs: &[&str], options: &[&str]) {
    let Some(stage) = Stage::new(300 * MIB, mkfs) else { return };
    // No commit by the clock in between.
    let options: Vec<&str> = ["commit=300"].iter().chain(options).copied().collect();
    let mounted = stage.mount(&stage.image, &options);
    live_through(mounted.path(), 20 * MIB, round);
    fill_with_noise(mounted.path(), &mut Noise::new(round));
    let volume = mounted.path().join("volume");
    run(Command::new("btrfs").args(["subvolume", "create"]).arg(&volume));
    flush(mounted.path());
    fsync_files(&[mounted.path(), &volume], round);
    let found = stage.findings().expect("refused");
    assert!(found.evidence.iter().any(|words| words.contains("log")), "{:?}", found.evidence);
    let before = digests(mounted.path());
    // Pages of the image file are shared with the loop device, so this is what is on the device now.
    let copy = stage.copy(&found.free);
    mounted.unmount();
    let mounted = stage.mount(&copy, &[]);
    let after = digests(mounted.path());
    let lost: Vec<_> = before.iter().filter(|(path, digest)| after.get(*path) != Some(digest)).collect();
    assert!(lost.is_empty(), "{} of {} files: {lost:?}", lost.len(), before.len());
    mounted.unmount();
    run(Command::new("btrfs").arg("check").arg(&copy));
}

#[test]
fn what_was_only_fsynced_is_in_the_copy() {
    for round in 0..5 {
        is_copied_while_dirty(round, &[], &[]);
    }
}

#[test]
fn what_was_only_fsynced_is_in_the_copy_of_every_layout() {
    is_copied_while_dirty(10, &["--mixed"], &[]);
    is_copied_while_dirty(11, &["-d", "dup", "-n", "4096"], &[]);
    is_copied_while_dirty(12, &["-R", "^free-space-tree"], &["compress-force=zstd"]);
    is_copied_while_dirty(13, &["--csum", "xxhash"], &["nodatacow"]);
}

#[test]
fn other_filesystems_are_not_taken_for_btrfs() {
    use haul_guest::Budget;
    use haul_guest::fs::FreeMap;
    use haul_guest::image::Session;
    for size in [0, 100, 70_000, 1 << 20] {
        let image = vec![0_u8; size];
        let session = Session::new(&image, Budget::for_image(size as u64));
        assert_eq!(Btrfs.detect(&session.view()), Ok(false));
        assert!(free(&Btrfs, &image).is_err());
    }
}
