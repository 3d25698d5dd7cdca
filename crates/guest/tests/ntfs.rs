//! NTFS: what is proven free is free, and everything else is refused. The images are made by mkfs.ntfs and lived in
//! through ntfs-3g.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use haul_forge::ntfs::restart_page;
use haul_guest::fs::ntfs::Ntfs;
use haul_guest::fs::{Findings, FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, has, live_through, run, write_noise};
use haul_testbed::{Bed, Command, temp_dir};
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
    let mut after = digests(mounted.path());
    after.remove(Path::new("new")).expect("what was just written");
    assert_eq!(&after, before);
    mounted.unmount();
    free_of(&copy).expect("the copy");
    fs::remove_file(&copy).unwrap();
}

fn free_of(image: &Path) -> Result<Findings, Refusal> {
    free(&Ntfs, &open(image))
}

/// The same where it must have been unmounted.
fn unmounted(image: &Path) -> Result<Findings, Refusal> {
    let image = open(image);
    let session = Session::new(&image, Budget::for_image(image.size()));
    Ntfs.free(&session.view(), &Options { only_unmounted: true, ..Options::default() })
}

/// Files of every kind: compressed, sparse, with streams.
fn furnish(dir: &Path) {
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
}

/// A file in more pieces than a record has place for, and a table in pieces. `small` bytes do not fit into a record.
///
/// Each step has a mount of its own: the driver frees what was deleted only when it knows that it is closed.
fn break_up(bed: &Bed, image: &Path, fragments: u64, small: u64) {
    let step = |work: &dyn Fn(&Path)| {
        let mounted = bed.mount_fuse("ntfs-3g", image, OPTIONS);
        work(mounted.path());
        mounted.unmount();
    };
    let many = |dir: &Path, name: &str, number: u64| dir.join("many").join(format!("{name}-{number}"));
    let fill = |path: &Path, blocks: &[usize]| {
        let (file, block) = (File::create(path).unwrap(), Noise::new(6).bytes(MIB as usize));
        let mut at = 0;
        for len in blocks {
            while file.write_all_at(&block[..*len], at).is_ok() {
                at += *len as u64;
            }
        }
    };
    // The volume is filled, and then every second small file makes place.
    step(&|dir| {
        fs::create_dir(dir.join("many")).unwrap();
        let mut noise = Noise::new(5);
        (0..fragments).for_each(|number| write_noise(&many(dir, "file", number), small, &mut noise));
        fill(&dir.join("filler"), &[MIB as usize, 4096, 512]);
    });
    step(&|dir| {
        (0..fragments).step_by(2).for_each(|number| fs::remove_file(many(dir, "file", number)).unwrap());
    });
    // The table grows into these places, and a file takes all that are left. Its list of attributes needs records.
    let empty = fragments * 3 / 4;
    step(&|dir| {
        let made = (0..empty).take_while(|number| File::create(many(dir, "empty", *number)).is_ok()).count() as u64;
        assert!(made > fragments / 2);
    });
    step(&|dir| (0..50).for_each(|number| fs::remove_file(many(dir, "empty", number)).unwrap()));
    step(&|dir| fill(&dir.join("in pieces"), &[4096]));
    step(&|dir| fs::remove_file(dir.join("filler")).unwrap());
}

/// The test would prove little if mkfs and driver had not made what it is about.
fn assert_has_every_kind(image: &Path, name: &str) {
    let about = |what: &[&str]| run(Command::new("ntfsinfo").arg("-v").args(what).arg(image));
    let (file, table) = (about(&["-F", "in pieces"]), about(&["-i", "0"]));
    assert!(file.contains("$ATTRIBUTE_LIST") || name == "sector4k", "{name}: all runs are in one record");
    assert!(table.contains("$ATTRIBUTE_LIST") || name != "c512", "{name}: the table is in one record");
    assert!(!table.contains("Total runs: 2 "), "{name}: the table is in one piece");
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
    for (name, size, fragments, options) in [
        ("default", 96 * MIB, 4000, &[][..]),
        ("c512", 48 * MIB, 7000, &["-c", "512"]),
        ("c64k", 128 * MIB, 900, &["-c", "65536"]),
        ("sector4k", 96 * MIB, 3000, &["-s", "4096"]),
        ("sector1k", 64 * MIB, 3000, &["-s", "1024", "-c", "2048"]),
    ] {
        let image = dir.path().join(name);
        make(&image, size, options);
        let new = free_of(&image).unwrap_or_else(|refusal| panic!("{name}, new: {refusal}"));
        assert_is_what_the_tool_says(&new, &image);

        let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
        live_through(mounted.path(), size / 4, 11);
        furnish(mounted.path());
        mounted.unmount();
        break_up(&bed, &image, fragments, if name == "sector4k" { 5000 } else { 1500 });
        let mounted = bed.mount_fuse("ntfs-3g", &image, &["ro", "streams_interface=windows"]);
        let (before, streams_before) = (digests(mounted.path()), streams(mounted.path()));
        mounted.unmount();
        assert_has_every_kind(&image, name);

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

/// Where a record is; small volumes have their table in one piece.
fn place_of_record(image: &dyn ReadAt, number: u64) -> u64 {
    let boot = bytes_at(image, 0, 512);
    let cluster = number_at(&boot, 11, 2) * u64::from(boot[13]);
    number_at(&boot, 48, 8) * cluster + number * 1024
}

fn bytes_at(image: &dyn ReadAt, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    image.read_exact_at(offset, &mut bytes).unwrap();
    bytes
}

fn number_at(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// Where in a record its attribute of this type is.
fn attribute(record: &[u8], kind: u64) -> usize {
    let mut at = number_at(record, 20, 2) as usize;
    while number_at(record, at, 4) != kind {
        at += number_at(record, at + 4, 4) as usize;
    }
    at
}

/// Where the contents of a file begin that are not in its record, in bytes.
fn place_of_contents(image: &dyn ReadAt, number: u64) -> u64 {
    let record = bytes_at(image, place_of_record(image, number), 1024);
    let data = attribute(&record, 0x80);
    let runs = data + number_at(&record, data + 32, 2) as usize;
    let (count, distance) = (usize::from(record[runs] & 15), usize::from(record[runs] >> 4));
    let boot = bytes_at(image, 0, 512);
    number_at(&record, runs + 1 + count, distance) * number_at(&boot, 11, 2) * u64::from(boot[13])
}

/// The range of $Bitmap, which is in one piece here.
fn place_of_bitmap(image: &dyn ReadAt) -> std::ops::Range<u64> {
    let record = bytes_at(image, place_of_record(image, 6), 1024);
    let place = place_of_contents(image, 6);
    place..place + number_at(&record, attribute(&record, 0x80) + 48, 8)
}

fn patch(image: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(image).unwrap().write_all_at(bytes, offset).unwrap();
}

/// A volume of 32 MiB with some files.
fn small(bed: &Bed, image: &Path) {
    make(image, 32 * MIB, &[]);
    let mounted = bed.mount_fuse("ntfs-3g", image, OPTIONS);
    live_through(mounted.path(), 8 * MIB, 3);
    mounted.unmount();
}

#[test]
fn a_volume_that_was_not_unmounted_in_order_is_refused() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("log");
    small(&bed, &image);
    let place = place_of_contents(&open(&image), 2);
    let record = bytes_at(&open(&image), place_of_record(&open(&image), 2), 1024);
    let log = number_at(&record, attribute(&record, 0x80) + 48, 8);
    let pages = |pages: [Vec<u8>; 2]| patch(&image, place, &pages.concat());
    let page = |lsn, in_use, flags| restart_page(lsn, in_use, flags, [1, 1], log);
    let is_dirty = || matches!(free_of(&image), Err(Refusal::Dirty(_)));
    // What the driver itself says to a log like that: it mounts read-only.
    let mounts = || {
        let mounted = bed.mount_fuse("ntfs-3g", &image, &["norecover"]);
        let writable = fs::write(mounted.path().join("try"), "").is_ok();
        mounted.unmount();
        writable
    };

    pages([page(9, 0, 0), page(9, 0, 0)]);
    assert!(is_dirty() && !mounts(), "in use");
    pages([page(9, 0, 0), page(8, 0, 2)]);
    assert!(is_dirty() && !mounts(), "in use since");
    pages([page(8, 0xffff, 0), page(9, 0, 0)]);
    assert!(is_dirty() && !mounts(), "in use since, in the second page");
    pages([page(9, 0, 2), page(9, 0, 0)]);
    assert!(is_dirty(), "which one counts?");
    pages([page(9, 0, 2), vec![0xff; 4096]]);
    assert!(is_dirty(), "only one page");
    pages([vec![0xff; 4096], page(9, 0, 0)]);
    assert!(is_dirty(), "not empty");
    pages([page(9, 0xfffe, 0), page(9, 0xfffe, 0)]);
    assert!(is_dirty(), "a client that is not there");
    pages([restart_page(9, 0, 2, [2, 0], log), restart_page(9, 0, 2, [2, 0], log)]);
    assert!(is_dirty(), "Fast Startup");
    let mut torn = page(9, 0, 2);
    torn[1022] = 6;
    pages([torn, page(9, 0, 2)]);
    assert!(is_dirty(), "torn");
    let mut checked = page(9, 0, 2);
    checked[..4].copy_from_slice(b"CHKD");
    pages([checked.clone(), checked]);
    assert!(is_dirty(), "checked");

    for (in_use, flags) in [(0, 2), (0xffff, 0)] {
        pages([page(9, in_use, flags), page(9, in_use, flags)]);
        let found = free_of(&image).unwrap();
        assert!(found.evidence.contains(&"log closed".to_owned()));
        assert_is_what_the_tool_says(&found, &image);
        assert!(unmounted(&image).is_ok());
        assert!(mounts());
        assert!(free_of(&image).is_ok());
    }

    // The driver's own way to ask for a check.
    run(Command::new("ntfsfix").arg(&image));
    assert!(is_dirty(), "marked as dirty");
}

#[test]
fn an_empty_log_does_not_tell_whether_a_volume_was_unmounted() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("empty");
    small(&bed, &image);
    let empty = |image: &Path| {
        assert!(free_of(image).unwrap().evidence.contains(&"log empty".to_owned()));
        assert!(matches!(unmounted(image), Err(Refusal::Dirty(_))));
    };
    empty(&image);
    // As it is while the driver has it mounted.
    let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
    let frozen = dir.path().join("frozen");
    fs::copy(&image, &frozen).unwrap();
    mounted.unmount();
    empty(&frozen);
}

#[test]
fn every_flag_of_the_volume_but_the_harmless_one_is_refused() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("flags");
    small(&bed, &image);
    let pages = Pages::read_by(&Ntfs, &open(&image));
    let places = [place_of_record(&pages, 3), place_of_contents(&pages, 1) + 3 * 1024];
    let state = attribute(&pages.read(places[0], 1024), 0x70) + 24;
    for bit in 0..16 {
        let mut changed = pages.clone();
        places.iter().for_each(|place| changed.write(place + state as u64 + 10, &(1_u16 << bit).to_le_bytes()));
        match free(&Ntfs, &changed) {
            Ok(_) => assert_eq!(bit, 7),
            Err(refusal) => assert!(matches!(refusal, Refusal::Dirty(_)) && bit != 7, "{bit}: {refusal}"),
        }
        // In one of the two only, it is a contradiction.
        let mut changed = pages.clone();
        changed.write(places[0] + state as u64 + 10, &(1_u16 << bit).to_le_bytes());
        assert!(matches!(free(&Ntfs, &changed), Err(Refusal::Corrupt(_))));
    }
}

#[test]
fn a_sleeping_system_is_refused() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("sleeping");
    let page = |start: &[u8]| [start, &vec![0; 65_536 - start.len()][..]].concat();
    let mut rest = page(b"");
    rest[4000] = 1;
    for (name, contents, refused) in [
        ("hiberfil.sys", page(b"hibr"), true),
        ("hiberfil.sys", page(b"HIBR"), true),
        ("HiberFil.SYS", page(b"hibr"), true),
        ("hiberfil.sys", page(b"RSTR"), true),
        ("hiberfil.sys", rest, true),
        ("hiberfil.sys", b"hibr".to_vec(), true),
        ("hiberfil.sys", vec![0; 4000], true),
        ("hiberfil.sys", page(b""), false),
        ("hiberfil.sys", page(b"wake"), false),
        ("somewhere/hiberfil.sys", page(b"hibr"), false),
        ("hiberfil.sys.old", page(b"hibr"), false),
    ] {
        make(&image, 16 * MIB, &[]);
        let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
        fs::create_dir(mounted.path().join("somewhere")).unwrap();
        fs::write(mounted.path().join(name), &contents).unwrap();
        mounted.unmount();
        match free_of(&image) {
            Ok(found) => assert!(!refused && found.free.is_subset_of(&tool_free(&image)), "{name}"),
            Err(refusal) => assert!(refused && matches!(refusal, Refusal::Dirty(_)), "{name}: {refusal}"),
        }
    }
}

#[test]
fn a_volume_with_shadow_copies_is_refused() {
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = dir.path().join("image");
    make(&image, 32 * MIB, &[]);
    // Somewhere free; where it lies is nobody's business but that of the header.
    let at = free_of(&image).unwrap().free.iter().find(|extent| extent.len >= MIB).unwrap().start;
    let signature = b"\x6b\x87\x08\x38\x76\xc1\x48\x4e\xb7\xae\x04\x04\x6e\x6c\xc7\x52";
    patch(&image, 0x1e00, signature);
    patch(&image, 0x1e00 + 48, &at.to_le_bytes());
    patch(&image, at, signature);
    patch(&image, at + 20, &2_u32.to_le_bytes());
    patch(&image, at + 32, &at.to_le_bytes());
    assert!(free_of(&image).is_ok(), "an empty catalog");
    patch(&image, at + 128, &2_u64.to_le_bytes());
    assert!(matches!(free_of(&image), Err(Refusal::Unsupported(_))));
}

#[test]
fn copies_of_a_mounted_volume_are_refused_or_right() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("mounted");
    small(&bed, &image);
    let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
    let mut noise = Noise::new(9);
    fs::remove_dir_all(mounted.path().join("keep")).unwrap();
    let (mut accepted, mut torn) = (0, 0);
    for round in 0..10 {
        for number in 0..10 {
            let path = mounted.path().join(format!("file-{round}-{number}"));
            write_noise(&path, noise.below(150_000), &mut noise);
            File::open(&path).unwrap().sync_all().unwrap();
        }
        let live = dir.path().join("live");
        fs::copy(&image, &live).unwrap();
        // A plain copy may lack what the driver has not written yet. The smart copy must not lack more.
        let plain = bed.mount_fuse("ntfs-3g", &live, &["ro"]);
        let before = match std::panic::catch_unwind(|| digests(plain.path())) {
            Ok(before) => before,
            Err(_) => {
                torn += 1;
                plain.unmount();
                continue;
            }
        };
        plain.unmount();
        if let Ok(found) = free_of(&live) {
            accepted += 1;
            assert_copy_is_right(&bed, &live, &found.free, &before);
        }
    }
    mounted.unmount();
    eprintln!("{accepted} of 10 accepted, {torn} cannot be read even as plain copies");
    assert!(torn < 5, "the test shows nothing");
}

fn free_without_page_files(image: &Path) -> Findings {
    let image = open(image);
    let session = Session::new(&image, Budget::for_image(image.size()));
    Ntfs.free(&session.view(), &Options { drop_page_files: true, ..Options::default() }).unwrap()
}

#[test]
fn only_page_files_of_the_root_directory_lose_their_contents_and_only_if_asked() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("pages");
    small(&bed, &image);
    let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
    let mut noise = Noise::new(5);
    for dir in ["Windows", "packed"] {
        fs::create_dir(mounted.path().join(dir)).unwrap();
    }
    let at = |name: &str| mounted.path().join(name);
    for (name, len) in [
        ("PageFile.sys", 3 * MIB),
        ("swapfile.sys", MIB),
        ("Windows/pagefile.sys", MIB),
        ("pagefile.sys.old", 100_000),
        ("PageFile.sys:stream", 100_000),
    ] {
        write_noise(&at(name), len, &mut noise);
    }
    let before = digests(mounted.path());
    mounted.unmount();
    let kept = free_of(&image).unwrap();
    assert_eq!(kept.dropped, 0);
    assert_is_what_the_tool_says(&kept, &image);
    let found = free_without_page_files(&image);
    assert_eq!(found.dropped, 4 * MIB, "{:?}", found.evidence);
    assert_eq!(found.free.bytes(), kept.free.bytes() + 4 * MIB);

    let copy = dir.path().join("copy");
    copy_without(&image, &found.free, &copy);
    let mounted = bed.mount_fuse("ntfs-3g", &copy, OPTIONS);
    let after = digests(mounted.path());
    for (path, digest) in &before {
        let lost = ["PageFile.sys", "swapfile.sys"].iter().any(|name| path == Path::new(name));
        assert_eq!(after[path].1, digest.1, "the size of {}", path.display());
        assert_eq!(after[path].0 == digest.0, !lost, "{}", path.display());
    }
    assert!(fs::read(mounted.path().join("PageFile.sys:stream")).unwrap().iter().all(|byte| *byte != 0));
    mounted.unmount();

    // Who has a second name is not only a page file.
    let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
    fs::hard_link(mounted.path().join("PageFile.sys"), mounted.path().join("Windows/linked")).unwrap();
    fs::remove_file(mounted.path().join("swapfile.sys")).unwrap();
    let packed = mounted.path().join("packed");
    run(Command::new("setfattr").args(["-n", "system.ntfs_attrib_be", "-v", "0x00000800"]).arg(&packed));
    fs::write(packed.join("a"), "page after page ".repeat(100_000)).unwrap();
    fs::rename(packed.join("a"), mounted.path().join("swapfile.sys")).unwrap();
    mounted.unmount();
    let found = free_without_page_files(&image);
    assert_eq!(found.dropped, 0);
    assert_eq!(found.free, free_of(&image).unwrap().free);
}

/// Mutates everything that the parser reads of an image, most of all what decides much.
fn fuzz(image: &Path, rounds: u64) {
    let pages = Pages::read_by(&Ntfs, &open(image));
    let truth = tool_free(image);
    assert_eq!(free(&Ntfs, &pages).unwrap().free, truth);
    let session = Session::new(&pages, Budget::for_image(pages.size()));
    Ntfs.free(&session.view(), &Options::default()).unwrap();
    let read = session.into_witnesses().into_iter().map(|piece| piece.offset..piece.offset + piece.len);
    let (boot, table) = (pages.read(0, 512), place_of_record(&pages, 0));
    let cluster = number_at(&boot, 11, 2) * u64::from(boot[13]);
    let (mirror, copy) = (number_at(&boot, 56, 8) * cluster, number_at(&boot, 40, 8) * 512);
    let record = |number: u64| table + number * 1024..table + number * 1024 + 512;
    let decisive = [0, 0, 0, 1, 2, 3, 6, 6, 6, 6, 7, 8].map(record);
    // Of the many pieces of a broken table, as many as there are others.
    let step = read.len().div_ceil(40);
    let places: Vec<_> = [3..90, 3..90, 510..512, place_of_bitmap(&pages), place_of_bitmap(&pages)]
        .into_iter()
        .chain(std::iter::once(table..table + 60 * 1024))
        .chain(decisive.iter().cloned().chain(decisive.iter().cloned()))
        .chain(read.step_by(step))
        .collect();
    let done = std::cell::Cell::new(0_u64);
    let counts = assert_sound(&Ntfs, &pages, &truth, &places, rounds, |mutated| {
        done.set(done.get() + 1);
        // In three of four rounds the copies are made to agree.
        if !done.get().is_multiple_of(4) {
            mutated.write(copy, &mutated.read(0, 512));
            mutated.write(mirror, &mutated.read(table, 4096));
        }
    });
    eprintln!("{counts:?}");
    assert!(counts.refused > rounds / 10 && counts.accepted > rounds / 50, "{counts:?}");
}

#[test]
fn mutated_metadata_never_frees_what_is_used() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("fuzzed");
    make(&image, 12 * MIB, &["-c", "1024"]);
    let mounted = bed.mount_fuse("ntfs-3g", &image, OPTIONS);
    live_through(mounted.path(), 2 * MIB, 8);
    mounted.unmount();
    fuzz(&image, 5000);
}

#[test]
fn mutated_metadata_in_pieces_never_frees_what_is_used() {
    if !tools() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let image = dir.path().join("fuzzed");
    make(&image, 12 * MIB, &["-c", "512"]);
    break_up(&bed, &image, 2500, 1500);
    fuzz(&image, 2000);
}

/// An image that is as long as its boot sector says, or very long. Behind what is there are zeros, and the copy of the
/// boot sector.
struct Longer {
    pages: Pages,
    size: u64,
    copy: u64,
}

impl Longer {
    fn new(pages: Pages) -> Longer {
        let sector = number_at(&pages.read(11, 2), 0, 2);
        let copy = number_at(&pages.read(40, 8), 0, 8).saturating_mul(sector);
        Longer { pages, size: copy.saturating_add(4096).max(16 << 40), copy }
    }
}

impl ReadAt for Longer {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        if offset == self.copy {
            return self.pages.read_exact_at(0, buffer);
        }
        buffer.fill(0);
        let inside = self.pages.size().saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.pages.read_exact_at(offset.min(self.pages.size()), &mut buffer[..inside])
    }
}

/// Where, and what to write there.
type Patch<'a> = (u64, &'a [u8]);

#[test]
fn forged_headers_are_refused() {
    if !tools() {
        return;
    }
    let dir = temp_dir();
    let image = dir.path().join("forged");
    make(&image, 12 * MIB, &[]);
    let pages = Pages::read_by(&Ntfs, &open(&image));
    let (table, mirror) = (place_of_record(&pages, 0), place_of_contents(&pages, 1));
    let copy = number_at(&pages.read(40, 8), 0, 8) * 512;
    let field = |record: u64, kind: u64, at: u64| {
        table + record * 1024 + attribute(&pages.read(table + record * 1024, 1024), kind) as u64 + at
    };
    let huge = (1_u64 << 60).to_le_bytes();
    let most = (i64::MAX as u64).to_le_bytes();
    let forged: Vec<(&str, Vec<Patch<'_>>)> = vec![
        ("sectors", vec![(40, &huge)]),
        ("all sectors there are", vec![(40, &[0xff; 8])]),
        ("no sectors", vec![(40, &[0; 8])]),
        ("sector size", vec![(11, &[0, 0])]),
        ("odd sector size", vec![(11, &[1, 2])]),
        ("no cluster", vec![(13, &[0])]),
        ("large clusters", vec![(13, &[0xf4])]),
        ("larger clusters", vec![(13, &[0x90])]),
        ("records", vec![(64, &[0x80])]),
        ("large records", vec![(64, &[0xe1])]),
        ("table", vec![(48, &most)]),
        ("table at zero", vec![(48, &[0; 8])]),
        ("copy of the table", vec![(56, &most)]),
        (
            "sizes of the table",
            vec![(field(0, 0x80, 40), &huge), (field(0, 0x80, 48), &huge), (field(0, 0x80, 56), &huge)],
        ),
        ("last cluster of the table", vec![(field(0, 0x80, 24), &most)]),
        ("empty table", vec![(field(0, 0x80, 48), &[0; 16])]),
        ("bitmap of the table", vec![(field(0, 0xb0, 48), &[0; 16])]),
        (
            "sizes of $Bitmap",
            vec![(field(6, 0x80, 40), &huge), (field(6, 0x80, 48), &huge), (field(6, 0x80, 56), &huge)],
        ),
        ("short $Bitmap", vec![(field(6, 0x80, 48), &[8, 0, 0, 0, 0, 0, 0, 0, 8])]),
        ("unwritten $Bitmap", vec![(field(6, 0x80, 56), &[0; 8])]),
        ("long attribute", vec![(field(6, 0x80, 4), &[0xff; 4])]),
        ("attribute of no length", vec![(field(6, 0x80, 4), &[0; 4])]),
        ("used bytes", vec![(table + 6 * 1024 + 24, &[0xff; 4])]),
        ("first attribute", vec![(table + 6 * 1024 + 20, &[0xff; 2])]),
        ("update sequence", vec![(table + 6 * 1024 + 4, &[0xff; 2])]),
        ("long update sequence", vec![(table + 6 * 1024 + 6, &[0xff; 2])]),
        ("another number", vec![(table + 6 * 1024 + 44, &[7])]),
        ("not in use", vec![(table + 6 * 1024 + 22, &[0])]),
        ("part of itself", vec![(table + 32, &[0, 0, 0, 0, 0, 0, 1, 0])]),
        ("list of attributes", vec![(field(0, 0x30, 0), &[0x20])]),
        ("log", vec![(field(2, 0x80, 48), &[0; 16])]),
        ("$Bad", vec![(field(8, 0x80, 0), &[0x90])]),
    ];
    assert!(free(&Ntfs, &pages).is_ok());
    for (what, patches) in forged {
        let mut image = pages.clone();
        patches.iter().for_each(|(at, bytes)| image.write(*at, bytes));
        // The copies agree, or it would be too easy.
        image.write(copy, &image.read(0, 512));
        image.write(mirror, &image.read(table, 4096));
        assert!(free(&Ntfs, &image).is_err(), "{what}");
        // And where a size can be as large as it says.
        let longer = Longer::new(image);
        assert!(free(&Ntfs, &longer).is_err(), "{what}, longer");
    }
}
