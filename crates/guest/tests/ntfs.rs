//! NTFS: what is proven free is free, and everything else is refused. The images are made by mkfs.ntfs and lived in
//! through ntfs-3g.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_guest::fs::ntfs::Ntfs;
use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, flush, has, live_through, run, write_noise};
use haul_testbed::{Bed, temp_dir};
use support::{Pages, allocated, assert_sound, copy_without, free, open};

const MIB: u64 = 1 << 20;

/// As Windows does it, so that streams and compression can be had by names and attributes.
const OPTIONS: &[&str] = &["streams_interface=windows", "compression"];

fn tools() -> bool {
    ["mkfs.ntfs", "ntfs-3g", "ntfscat", "ntfsinfo", "ntfsfix"].iter().all(|tool| has(tool))
}

fn make(image: &Path, size: u64, options: &[&str]) {
    File::create(image).unwrap().set_len(size).unwrap();
    run(Command::new("mkfs.ntfs").args(["-q", "-F", "-f"]).args(options).arg(image));
}

/// What ntfs-3g says is free, by its own reading of $Bitmap.
fn tool_free(image: &Path) -> ExtentSet {
    let boot = open(image);
    let mut sector = [0; 512];
    boot.read_exact_at(0, &mut sector).unwrap();
    let info = run(Command::new("ntfsinfo").arg("-m").arg(image));
    let number = |key: &str| -> u64 {
        let line = info.lines().find(|line| line.trim_start().starts_with(key)).unwrap();
        line.split(':').nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    let (cluster, clusters) = (number("Cluster Size"), number("Volume Size in Clusters"));
    let bitmap = Command::new("ntfscat").args(["-i", "6"]).arg(image).output().unwrap().stdout;
    let is_free = |at: &u64| bitmap[(*at / 8) as usize] >> (at % 8) & 1 == 0;
    let free: ExtentSet = (0..clusters).filter(is_free).map(|at| at * cluster..(at + 1) * cluster).collect();
    assert_eq!(free.bytes(), number("Free Clusters") * cluster);
    free
}

fn assert_is_what_the_tool_says(found: &Findings, image: &Path) {
    let theirs = tool_free(image);
    assert!(found.free.is_subset_of(&theirs), "not free: {:?}", found.free.without(&theirs));
    assert!(found.free.bytes() * 100 >= theirs.bytes() * 99, "{} of {}", found.free.bytes(), theirs.bytes());
}

/// All files are there in a copy without the free bytes, whether it is only read or written to.
fn assert_copy_is_right(bed: &Bed, image: &Path, free: &ExtentSet, before: &BTreeMap<PathBuf, (u64, u64)>) {
    let copy = image.with_extension("copy");
    copy_without(image, free, &copy);
    assert!(allocated(&copy) <= fs::metadata(image).unwrap().len() - free.bytes() + MIB);
    let mounted = bed.mount_fuse("ntfs-3g", &copy, &["ro"]);
    assert_eq!(&digests(mounted.path()), before);
    mounted.unmount();
    assert!(run(Command::new("ntfsfix").arg("-n").arg(&copy)).contains("was processed successfully"));
    let mounted = bed.mount_fuse("ntfs-3g", &copy, OPTIONS);
    write_noise(&mounted.path().join("new"), MIB, &mut Noise::new(77));
    fs::remove_file(mounted.path().join("new")).unwrap();
    assert_eq!(&digests(mounted.path()), before);
    mounted.unmount();
    free_of(&copy).expect("the copy");
    fs::remove_file(&copy).unwrap();
}

fn free_of(image: &Path) -> Result<Findings, Refusal> {
    free(&Ntfs, &open(image))
}

/// Files of every kind: compressed, sparse, with streams, in pieces beyond one record, and a table in pieces.
fn furnish(dir: &Path, fragments: u64) {
    let mut noise = Noise::new(4);
    let packed = dir.join("packed");
    fs::create_dir(&packed).unwrap();
    run(Command::new("setfattr").args(["-n", "system.ntfs_attrib_be", "-v", "0x00000800"]).arg(&packed));
    fs::write(packed.join("text"), "the same words again and again. ".repeat(50_000)).unwrap();
    let mut mixed = noise.bytes(300_000);
    mixed[100_000..250_000].fill(7);
    fs::write(packed.join("mixed"), mixed).unwrap();

    let sparse = File::create(dir.join("sparse")).unwrap();
    sparse.set_len(20 * MIB).unwrap();
    for at in [3, 7, 11] {
        sparse.write_all_at(&noise.bytes(100_000), at * MIB + 12_345).unwrap();
    }
    drop(sparse);
    write_noise(&dir.join("sparse:stream"), 200_000, &mut noise);
    write_noise(&dir.join("keep:of a directory"), 100_000, &mut noise);

    // The rest of the volume is filled, so that only the places of every second small file are left.
    let many = dir.join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..fragments {
        write_noise(&many.join(format!("file-{number}")), 1500, &mut noise);
    }
    let filler = File::create(dir.join("filler")).unwrap();
    let block = noise.bytes(MIB as usize);
    let mut at = 0;
    for len in [MIB as usize, 4096, 512] {
        while filler.write_all_at(&block[..len], at).is_ok() {
            at += len as u64;
        }
    }
    for number in (0..fragments).step_by(2) {
        fs::remove_file(many.join(format!("file-{number}"))).unwrap();
    }
    let broken = File::create(dir.join("in pieces")).unwrap();
    let mut at = 0;
    while at < fragments * 512 && broken.write_all_at(&block[..512], at).is_ok() {
        at += 512;
    }
    for number in 0..fragments {
        if File::create(many.join(format!("empty-{number}"))).is_err() {
            break;
        }
    }
    drop(filler);
    fs::remove_file(dir.join("filler")).unwrap();
    flush(dir);
}

fn streams(dir: &Path) -> [Vec<u8>; 2] {
    ["sparse:stream", "keep:of a directory"].map(|name| fs::read(dir.join(name)).unwrap())
}

#[test]
fn free_space_is_found_on_every_layout_and_copies_lose_nothing() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    for (name, size, options) in [
        ("default", 160 * MIB, &[][..]),
        ("c512", 48 * MIB, &["-c", "512"]),
        ("c64k", 160 * MIB, &["-c", "65536"]),
        ("sector4k", 96 * MIB, &["-s", "4096"]),
        ("sector1k", 64 * MIB, &["-s", "1024", "-c", "2048"]),
    ] {
        let image = dir.path().join(name);
        make(&image, size, options);
        let new = free_of(&image).unwrap_or_else(|refusal| panic!("{name}, new: {refusal}"));
        assert_is_what_the_tool_says(&new, &image);

        let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
        live_through(mounted.path(), size / 4, 11);
        let fragments = if name == "c64k" { 300 } else { 2000 };
        furnish(mounted.path(), fragments);
        let (before, streams_before) = (digests(mounted.path()), streams(mounted.path()));
        mounted.unmount();

        let found = free_of(&image).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        eprintln!("{name}: {} of {size} free, {:?}", found.free.bytes(), found.evidence);
        assert!(found.evidence.iter().any(|words| words == "bitmap and files agree"), "{name}: {:?}", found.evidence);
        assert_is_what_the_tool_says(&found, &image);
        assert_copy_is_right(&bed, &image, &found.free, &before);
        let copy = dir.path().join("again");
        copy_without(&image, &found.free, &copy);
        let mounted = bed.mount_fuse("ntfs-3g", &copy, OPTIONS);
        assert!(streams(mounted.path()) == streams_before, "{name}: a stream is not the same");
        mounted.unmount();
        fs::remove_file(&copy).unwrap();
        fs::remove_file(&image).unwrap();
    }
}
