//! exFAT: made by mkfs.exfat, filled through exfat-fuse, judged by fsck.exfat and by a second reader of the bitmap.

mod support;

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use haul_guest::fs::exfat::ExFat;
use haul_guest::fs::{FreeMap, Options};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, fill_with_noise, flush, has, live_through, run, unmount, write_noise};
use haul_testbed::{Bed, Command, TempDir, temp_dir, temp_dir_in};
use support::{Fix, Pages, assert_sound, copy_without, free, open};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The test bed, if everything is there.
fn bed() -> Option<Bed> {
    let tools = has("mkfs.exfat") && has("mount.exfat-fuse");
    Bed::new().filter(|_| tools)
}

/// A loop device, until this is dropped.
struct Loop(String);

impl Loop {
    fn new(image: &Path, sector: &str) -> Loop {
        Loop(run(Command::new("losetup").args(["-f", "--show", "-b", sector]).arg(image)).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run(Command::new("losetup").args(["-d", &self.0]));
    }
}

/// Does something with the files of an image.
fn mounted<T>(bed: &Bed, image: &Path, sector: &str, options: &str, with: impl FnOnce(&Path) -> T) -> T {
    let device = Loop::new(image, sector);
    let at = temp_dir_in(bed.path()).keep();
    run(Command::new("mount.exfat-fuse").args(["-o", options, &device.0]).arg(&at));
    let result = with(&at);
    // The driver's last words are written before this returns: it answers a request that the kernel waits for.
    unmount(&at);
    result
}

/// Where the parts of a volume are, in bytes, as a simple reader sees it.
#[derive(Debug)]
struct Layout {
    table: u64,
    heap: u64,
    cluster: u64,
    clusters: u64,
    bitmap_at: u64,
    bitmap: Vec<u8>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

impl Layout {
    fn of(image: &Path) -> Layout {
        let file = open(image);
        let read = |at: u64, len: u64| {
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(at, &mut bytes).unwrap();
            bytes
        };
        let boot = read(0, 512);
        let unit = 1_u64 << boot[108];
        let (table, heap, clusters) = (number(&boot, 80) * unit, number(&boot, 88) * unit, number(&boot, 92));
        let cluster = unit << boot[109];
        let root = read(heap + (number(&boot, 96) - 2) * cluster, cluster.min(4096));
        let entry = root.chunks(32).find(|entry| entry[0] == 0x81).unwrap();
        let bitmap_at = heap + (number(entry, 20) - 2) * cluster;
        Layout { table, heap, cluster, clusters, bitmap_at, bitmap: read(bitmap_at, clusters.div_ceil(8)) }
    }

    fn is_used(&self, cluster: u64) -> bool {
        let bit = cluster - 2;
        self.bitmap[(bit / 8) as usize] >> (bit % 8) & 1 != 0
    }

    fn bytes_of(&self, cluster: u64) -> Range<u64> {
        let start = self.heap + (cluster - 2) * self.cluster;
        start..start + self.cluster
    }

    fn free(&self) -> ExtentSet {
        let free = (2..self.clusters + 2).filter(|cluster| !self.is_used(*cluster));
        free.map(|cluster| self.bytes_of(cluster)).collect()
    }
}

struct Image {
    dir: TempDir,
    path: PathBuf,
    sector: &'static str,
}

impl Image {
    fn format(size: u64, sector: &'static str, options: &[&str]) -> Image {
        let dir = temp_dir();
        let path = dir.path().join("image");
        File::create_new(&path).and_then(|file| file.set_len(size)).unwrap();
        let device = Loop::new(&path, sector);
        run(Command::new("mkfs.exfat").args(options).arg(&device.0));
        drop(device);
        Image { dir, path, sector }
    }

    /// As [`live_through`], and then directories that grow and files that fill gaps, so that the table is needed.
    fn live(&self, bed: &Bed, kept: u64) {
        mounted(bed, &self.path, self.sector, "rw", |dir| {
            live_through(dir, kept, kept);
            let mut noise = Noise::new(kept);
            let deep = dir.join("keep/a directory/with another one in it");
            fs::create_dir_all(&deep).unwrap();
            for number in 0..100 {
                let dir = if number % 2 == 0 { &deep } else { &dir.join("keep") };
                write_noise(&dir.join(format!("a file with a long name, number {number}")), number * 20, &mut noise);
            }
            for number in 0..3 {
                write_noise(&dir.join(format!("keep/in the gaps {number}")), kept / 8, &mut noise);
            }
            for number in (0..100).step_by(3) {
                let dir = if number % 2 == 0 { &deep } else { &dir.join("keep") };
                fs::remove_file(dir.join(format!("a file with a long name, number {number}"))).unwrap();
            }
            flush(dir);
        });
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }
}

/// The free clusters, as dump.exfat counts them.
fn dumped_free(image: &Path) -> u64 {
    let printed = run(Command::new("dump.exfat").arg(image));
    let line = printed.lines().find(|line| line.starts_with("Free Clusters")).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

fn check(image: &Path) {
    run(Command::new("fsck.exfat").arg("-n").arg(image));
}

/// Everything that is promised of an honest volume.
fn assert_copies(bed: &Bed, image: &Image) {
    let layout = Layout::of(&image.path);
    let found = free(&ExFat, &open(&image.path)).unwrap();
    let truth = layout.free();
    assert!(found.free.is_subset_of(&truth), "not free: {:?}", found.free.without(&truth));
    assert_eq!(found.free, truth);
    assert!(found.free.count() > 2 && found.dropped == 0);
    assert!(found.evidence.iter().any(|words| words == "the percentage in use agrees"));
    if image.sector == "512" {
        assert_eq!(found.free.bytes(), dumped_free(&image.path) * layout.cluster);
        check(&image.path);
    }
    let copy = image.dir.path().join("copy");
    copy_without(&image.path, &found.free, &copy);
    let expected = mounted(bed, &image.path, image.sector, "ro", digests);
    assert!(expected.len() > 50);
    assert_eq!(mounted(bed, &copy, image.sector, "ro", digests), expected);
    if image.sector == "512" {
        check(&copy);
    }
    // After writing to it, everything is still there.
    mounted(bed, &copy, image.sector, "rw", |dir| fill_with_noise(dir, &mut Noise::new(5)));
    assert_eq!(mounted(bed, &copy, image.sector, "ro", digests), expected);
}

macro_rules! layouts {
    ($($name:ident: $size:expr, $kept:expr, $sector:expr, $options:expr;)*) => {$(
        #[test]
        fn $name() {
            let Some(bed) = bed() else { return };
            let image = Image::format($size, $sector, $options);
            image.live(&bed, $kept);
            assert_copies(&bed, &image);
        }
    )*};
}

layouts! {
    exfat_is_copied_without_its_free_clusters: 64 * MIB, 8 * MIB, "512", &[];
    exfat_with_small_clusters_is_copied_without_its_free_clusters: 16 * MIB, 2 * MIB, "512", &["-c", "512"];
    exfat_with_32_kib_clusters_is_copied_without_its_free_clusters: 64 * MIB, 6 * MIB, "512", &["-c", "32K"];
    exfat_with_large_clusters_is_copied_without_its_free_clusters: 320 * MIB, 4 * MIB, "512", &["-c", "1M"];
    exfat_with_large_sectors_is_copied_without_its_free_clusters: 64 * MIB, 8 * MIB, "4096", &["-c", "8K"];
}

fn changed(image: &[u8], changes: &[(u64, u8)]) -> Result<ExtentSet, Refusal> {
    let mut image = image.to_vec();
    for (at, value) in changes {
        image[*at as usize] = *value;
    }
    free(&ExFat, &image).map(|found| found.free)
}

#[test]
fn dirty_and_contradicting_volumes_are_refused() {
    let Some(bed) = bed() else { return };
    let image = Image::format(16 * MIB, "512", &["-c", "4K"]);
    image.live(&bed, MIB);
    let (layout, bytes) = (Layout::of(&image.path), image.bytes());
    let before = layout.free();
    assert_eq!(changed(&bytes, &[]), Ok(before.clone()));
    for flag in [2, 4] {
        assert!(matches!(changed(&bytes, &[(106, flag)]), Err(Refusal::Dirty(_))));
    }
    let percent = bytes[112];
    assert_eq!(changed(&bytes, &[(112, 0xff)]), Ok(before.clone()));
    assert!(changed(&bytes, &[(112, percent + 3)]).is_err());
    assert!(changed(&bytes, &[(100, bytes[100] ^ 1)]).is_err(), "the checksum of the boot region");
    assert!(changed(&bytes, &[(11 * 512 + 77, 0x5a)]).is_err(), "the checksum's own sector");
    // Each cluster that is in use by something that can be reached must be in the bitmap.
    let mut refused = 0;
    for cluster in (2..layout.clusters + 2).filter(|cluster| layout.is_used(*cluster)) {
        let at = layout.bitmap_at + (cluster - 2) / 8;
        let found = changed(&bytes, &[(at, bytes[at as usize] & !(1 << ((cluster - 2) % 8)))]);
        assert!(matches!(found, Err(Refusal::Corrupt(_))), "cluster {cluster}");
        refused += 1;
    }
    assert!(refused > 100);
    // A lost cluster is used.
    let lost = (2..layout.clusters + 2).find(|cluster| !layout.is_used(*cluster)).unwrap();
    let at = layout.bitmap_at + (lost - 2) / 8;
    let expected = before.without(&ExtentSet::of(layout.bytes_of(lost)));
    assert_eq!(changed(&bytes, &[(at, bytes[at as usize] | 1 << ((lost - 2) % 8))]), Ok(expected));
    // Chains in the table: a file in pieces has one.
    let links: Vec<u64> = (2..layout.clusters + 2)
        .filter(|cluster| {
            let next = number(&bytes, (layout.table + cluster * 4) as usize);
            next >= 2 && next < layout.clusters + 2 && next != cluster + 1 && layout.is_used(*cluster)
        })
        .collect();
    assert!(!links.is_empty(), "no file in pieces");
    for link in links {
        for value in [0, 1, 0xf7, link as u8] {
            let at = layout.table + link * 4;
            let refused = changed(&bytes, &[(at, value), (at + 1, 0), (at + 2, 0), (at + 3, 0)]);
            assert!(refused.is_err(), "the link of cluster {link} to {value}");
        }
    }
}

/// The image with the boot region's checksum fixed, after changes.
fn forged(image: &[u8], changes: &[(usize, &[u8])]) -> Result<ExtentSet, Refusal> {
    let mut image = image.to_vec();
    for (at, bytes) in changes {
        image[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    let mut pages = Pages::of(&image, std::iter::once(0..image.len() as u64));
    fix_boot(&mut pages);
    free(&ExFat, &pages).map(|found| found.free)
}

#[test]
fn forged_headers_are_refused() {
    let Some(bed) = bed() else { return };
    let image = Image::format(16 * MIB, "512", &["-c", "4K"]);
    image.live(&bed, MIB);
    let bytes = image.bytes();
    assert!(forged(&bytes, &[]).is_ok());
    let four = |value: u32| value.to_le_bytes();
    for (what, at, value) in [
        ("a long volume", 72, u32::MAX),
        ("a table elsewhere", 80, 24),
        ("no table", 84, 0),
        ("clusters elsewhere", 88, 4097),
        ("many clusters", 92, u32::MAX - 11),
        ("no root", 96, 0),
        ("a root behind the end", 96, u32::MAX),
        ("the bitmap as root", 96, 2),
        ("the up-case table as root", 96, 3),
    ] {
        assert!(forged(&bytes, &[(at, &four(value))]).is_err(), "{what}");
    }
    for (what, at, value) in [
        ("version", 105, 2),
        ("sectors", 108, 13),
        ("clusters", 109, 26),
        ("three tables", 110, 3),
        ("two tables", 110, 2),
    ] {
        assert!(forged(&bytes, &[(at, &[value])]).is_err(), "{what}");
    }
}

#[test]
fn two_tables_and_two_bitmaps_must_agree() {
    let Some(bed) = bed() else { return };
    let image = Image::format(16 * MIB, "512", &["-c", "4K"]);
    mounted(&bed, &image.path, "512", "rw", |dir| write_noise(&dir.join("file"), 100_000, &mut Noise::new(1)));
    let (layout, mut bytes) = (Layout::of(&image.path), image.bytes());
    // A second bitmap in the last cluster, where nothing is.
    let last = layout.clusters + 1;
    let used = |bytes: &mut [u8], cluster: u64| {
        bytes[(layout.bitmap_at + (cluster - 2) / 8) as usize] |= 1 << ((cluster - 2) % 8)
    };
    used(&mut bytes, last);
    let link = (layout.table + last * 4) as usize;
    bytes[link..link + 4].fill(0xff);
    let (from, to) = (layout.bitmap_at as usize, layout.bytes_of(last).start as usize);
    bytes.copy_within(from..from + layout.bitmap.len(), to);
    let root = (layout.heap + (number(&bytes, 96) - 2) * layout.cluster) as usize;
    let first = (root..root + 4096).step_by(32).find(|at| bytes[*at] == 0x81).unwrap();
    let behind = (root..root + 4096).step_by(32).find(|at| bytes[*at] == 0).unwrap();
    bytes.copy_within(first..first + 32, behind);
    bytes[behind + 1] = 1;
    bytes[behind + 20..behind + 24].copy_from_slice(&(last as u32).to_le_bytes());
    // Two tables, half as long each.
    let table_len = (layout.clusters + 2) * 4;
    let sectors = table_len.div_ceil(512) as u32;
    bytes[84..88].copy_from_slice(&sectors.to_le_bytes());
    let (table, second) = (layout.table as usize, layout.table as usize + sectors as usize * 512);
    assert!(second + sectors as usize * 512 <= layout.heap as usize);
    bytes.copy_within(table..table + table_len as usize, second);
    bytes[110] = 2;
    let expected = layout.free().without(&ExtentSet::of(layout.bytes_of(last)));
    for active in [0, 1] {
        assert_eq!(forged(&bytes, &[(106, &[active])]), Ok(expected.clone()));
        assert!(matches!(forged(&bytes, &[(106, &[active]), (second + 400, &[1])]), Err(Refusal::Corrupt(_))));
        // What one of the bitmaps says is used is used.
        let hole = (2..layout.clusters).rev().find(|cluster| !layout.is_used(*cluster)).unwrap();
        let at = to + ((hole - 2) / 8) as usize;
        let without = expected.without(&ExtentSet::of(layout.bytes_of(hole)));
        assert_eq!(forged(&bytes, &[(106, &[active]), (at, &[bytes[at] | 1 << ((hole - 2) % 8)])]), Ok(without));
    }
    // A bitmap for each table, and no more.
    assert!(forged(&bytes, &[(110, &[1])]).is_err());
    assert!(forged(&bytes, &[(behind + 1, &[0])]).is_err());
}

#[test]
fn volumes_copied_while_mounted_are_refused_or_right() {
    let Some(bed) = bed() else { return };
    let image = Image::format(64 * MIB, "512", &[]);
    image.live(&bed, 4 * MIB);
    let live = image.dir.path().join("live");
    mounted(&bed, &image.path, "512", "rw", |dir| {
        for number in 0..100 {
            let path = dir.join(format!("new-{number}"));
            write_noise(&path, 20_000, &mut Noise::new(number));
            File::open(&path).and_then(|file| file.sync_all()).unwrap();
        }
        fs::copy(&image.path, &live).unwrap();
    });
    assert!(matches!(free(&ExFat, &open(&live)), Err(Refusal::Dirty(_))));
    // As if the driver knew no dirty flag: what is proven then must be right.
    let file = File::options().write(true).open(&live).unwrap();
    file.write_all_at(&[0, 0], 106).and_then(|()| file.write_all_at(&[0xff], 112)).unwrap();
    match free(&ExFat, &open(&live)) {
        Err(refusal) => println!("without the flag: {refusal}"),
        Ok(found) => {
            let copy = image.dir.path().join("copy");
            copy_without(&live, &found.free, &copy);
            let expected = mounted(&bed, &live, "512", "ro", digests);
            assert_eq!(mounted(&bed, &copy, "512", "ro", digests), expected);
        }
    }
}

/// Fixes the checksum of the boot region.
fn fix_boot(pages: &mut Pages) {
    let pristine = pages.clone();
    Fix::ExfatBoot.apply(pages, &pristine);
}

/// Fixes the checksums of the sets of directory entries that lie in one piece.
fn fix_sets(pages: &mut Pages, places: &[Range<u64>]) {
    let pristine = pages.clone();
    for place in places {
        Fix::ExfatSets { from: place.start, len: place.end - place.start }.apply(pages, &pristine);
    }
}

#[test]
fn mutated_volumes_are_refused_or_right() {
    let Some(bed) = bed() else { return };
    for (size, cluster) in [(8 * MIB, "512"), (8 * MIB, "4K")] {
        let image = Image::format(size, "512", &["-c", cluster]);
        image.live(&bed, 500 * KIB);
        let layout = Layout::of(&image.path);
        let file = open(&image.path);
        let pages = Pages::read_by(&ExFat, &file);
        let session = Session::new(&file, Budget::for_image(size));
        ExFat.free(&session.view(), &Options::default()).unwrap();
        let read = session.into_witnesses().into_iter().map(|piece| piece.offset..piece.offset + piece.len);
        let is_bitmap = |piece: &Range<u64>| {
            (layout.bitmap_at..layout.bitmap_at + layout.bitmap.len() as u64).contains(&piece.start)
        };
        let directories: Vec<Range<u64>> =
            read.filter(|piece| piece.start >= layout.heap && !is_bitmap(piece)).collect();
        let busy = layout.bitmap.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        let table = layout.table..layout.table + busy * 8 * 4;
        let bitmap = layout.bitmap_at..layout.bitmap_at + busy;
        let truth = layout.free();
        let sets = directories.clone();
        let fix = |pages: &mut Pages| fix_sets(pages, &sets);
        let [boot, head] = [512, 128].map(|end| std::iter::once(0..end).collect::<Vec<_>>());
        let runs = [
            ("boot", assert_sound(&ExFat, &pages, &truth, &boot, 500, |_| ())),
            ("boot, fixed", assert_sound(&ExFat, &pages, &truth, &head, 2000, fix_boot)),
            ("table", assert_sound(&ExFat, &pages, &truth, &[table], 1000, |_| ())),
            ("bitmap", assert_sound(&ExFat, &pages, &truth, &[bitmap], 1000, |_| ())),
            ("directories", assert_sound(&ExFat, &pages, &truth, &directories, 500, |_| ())),
            ("directories, fixed", assert_sound(&ExFat, &pages, &truth, &directories, 2000, fix)),
        ];
        for (what, counts) in runs {
            println!("clusters of {cluster}, {what}: {counts:?}");
        }
    }
}
