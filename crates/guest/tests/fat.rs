//! FAT12, FAT16 and FAT32: made by mkfs.vfat, filled by mtools (this needs no kernel driver), judged by fsck.vfat and by
//! a second reader of the table.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use haul_guest::fs::fat::Fat;
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, digests, has, run, write_noise};
use haul_testbed::{Command, TempDir, temp_dir};
use support::{Pages, assert_sound, copy_without, free, open, within};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn tools() -> bool {
    has("mkfs.vfat") && has("mcopy")
}

/// A volume in a file, and beside it the files that are in it.
struct Image {
    dir: TempDir,
    path: PathBuf,
}

/// Where the parts of a volume are, in bytes, as a simple reader sees it.
#[derive(Debug)]
struct Layout {
    bits: u32,
    tables: Range<u64>,
    table_len: u64,
    heap: u64,
    cluster: u64,
    clusters: u64,
    table: Vec<u8>,
}

impl Layout {
    fn of(image: &Path) -> Layout {
        let file = open(image);
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            file.read_exact_at(at, &mut bytes).unwrap();
            bytes
        };
        let boot = read(0, 512);
        let short = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        let long = |at: usize| short(at) | short(at + 2) << 16;
        let unit = short(11);
        let table_len = if short(22) == 0 { long(36) } else { short(22) } * unit;
        let start = short(14) * unit;
        let tables = start..start + u64::from(boot[16]) * table_len;
        let heap = tables.end + short(17) * 32;
        let total = if short(19) == 0 { long(32) } else { short(19) } * unit;
        let cluster = u64::from(boot[13]) * unit;
        let clusters = (total - heap) / cluster;
        let bits = if short(22) == 0 {
            32
        } else if clusters < 4085 {
            12
        } else {
            16
        };
        Layout { bits, tables, table_len, heap, cluster, clusters, table: read(start, table_len as usize) }
    }

    fn entry(&self, cluster: u64) -> u32 {
        let at = (cluster * u64::from(self.bits) / 8) as usize;
        let byte = |at: usize| u32::from(self.table.get(at).copied().unwrap_or(0));
        let word = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
        match (self.bits, cluster % 2) {
            (12, 0) => word & 0xfff,
            (12, _) => word >> 4 & 0xfff,
            (16, _) => word & 0xffff,
            _ => word & 0x0fff_ffff,
        }
    }

    fn bytes_of(&self, cluster: u64) -> Range<u64> {
        let start = self.heap + (cluster - 2) * self.cluster;
        start..start + self.cluster
    }

    fn free(&self) -> ExtentSet {
        let free = (2..self.clusters + 2).filter(|cluster| self.entry(*cluster) == 0);
        free.map(|cluster| self.bytes_of(cluster)).collect()
    }

    /// The part of the first table that says something.
    fn busy_table(&self) -> Range<u64> {
        let last = self.table.iter().rposition(|byte| *byte != 0).unwrap() as u64;
        self.tables.start..self.tables.start + last + 3
    }
}

fn mtools(program: &str, image: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(image);
    command
}

impl Image {
    /// Formats a file, with noise in all clusters but the root directory's.
    fn format(size: u64, options: &[&str]) -> Image {
        let dir = temp_dir();
        let path = dir.path().join("image");
        let file = File::create_new(&path).unwrap();
        file.set_len(size).unwrap();
        run(Command::new("mkfs.vfat").args(options).arg(&path));
        let layout = Layout::of(&path);
        let mut noise = Noise::new(size);
        for cluster in 2 + u64::from(layout.bits == 32)..layout.clusters + 2 {
            file.write_all_at(&noise.bytes(layout.cluster as usize), layout.bytes_of(cluster).start).unwrap();
        }
        Image { dir, path }
    }

    /// Directories and files, then many of them deleted, then a file in the gaps. About `kept` bytes stay.
    fn live_through(&self, kept: u64) {
        let (keep, gone) = (self.files().join("keep"), self.files().join("gone"));
        for dir in [&keep.join("Deeper with a long name/still deeper"), &gone] {
            fs::create_dir_all(dir).unwrap();
        }
        let mut noise = Noise::new(kept);
        let mut written = 0;
        for number in 0.. {
            if written >= kept / 2 {
                break;
            }
            let len = noise.below(kept / 20) + 1;
            let dir =
                [&keep, &keep.join("Deeper with a long name"), &keep.join("Deeper with a long name/still deeper")];
            let name = format!("A small file, number {number}");
            write_noise(&dir[number % 3].join(&name), len, &mut noise);
            write_noise(&gone.join(name), len, &mut noise);
            written += len;
        }
        fs::write(keep.join("EMPTY.TXT"), []).unwrap();
        run(mtools("mmd", &self.path).arg("::keep"));
        run(mtools("mmd", &self.path).arg("::gone"));
        // One by one and in turns, so that the deleted ones leave gaps.
        let names: Vec<PathBuf> = digests(self.files().as_path()).into_keys().collect();
        for dir in ["Deeper with a long name", "Deeper with a long name/still deeper"] {
            run(mtools("mmd", &self.path).arg(format!("::keep/{dir}")));
        }
        let (kept_names, gone_names): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("keep"));
        for number in 0..kept_names.len().max(gone_names.len()) {
            for name in [kept_names.get(number), gone_names.get(number)].into_iter().flatten() {
                run(mtools("mcopy", &self.path).arg(self.files().join(name)).arg(format!("::{}", name.display())));
            }
        }
        run(mtools("mdeltree", &self.path).arg("::gone"));
        fs::remove_dir_all(&gone).unwrap();
        write_noise(&keep.join("in the gaps"), kept / 4, &mut noise);
        run(mtools("mcopy", &self.path).arg(keep.join("in the gaps")).arg("::keep"));
    }

    fn files(&self) -> PathBuf {
        let files = self.dir.path().join("files");
        fs::create_dir_all(&files).unwrap();
        files
    }

    fn change(&self, at: u64, bytes: &[u8]) {
        File::options().write(true).open(&self.path).unwrap().write_all_at(bytes, at).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }
}

/// All files of a volume.
fn contents(image: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let out = temp_dir();
    run(mtools("mcopy", image).args(["-s", "-n", "::keep"]).arg(out.path()));
    digests(out.path())
}

/// Used and all clusters, as fsck.vfat counts them. It must find no fault.
fn fsck(image: &Path) -> (u64, u64) {
    let printed = run(Command::new("fsck.vfat").args(["-n", "-v"]).arg(image));
    let counts = printed
        .lines()
        .last()
        .and_then(|line| line.split_whitespace().find(|word| word.contains('/') && !word.contains(':')));
    let (used, all) = counts.and_then(|counts| counts.split_once('/')).unwrap_or_else(|| panic!("{printed}"));
    (used.parse().unwrap(), all.parse().unwrap())
}

/// Everything that is promised of an honest volume.
fn assert_copies(image: &Image) {
    let layout = Layout::of(&image.path);
    let found = free(&Fat, &open(&image.path)).unwrap();
    let truth = layout.free();
    assert!(found.free.is_subset_of(&truth), "not free: {:?}", found.free.without(&truth));
    assert_eq!(found.free, truth, "{layout:?}");
    let (used, all) = fsck(&image.path);
    assert_eq!((all, found.free.bytes()), (layout.clusters, (all - used) * layout.cluster));
    assert!(found.free.bytes() > 0 && found.free.count() > 2);
    assert_eq!(found.dropped, 0);

    let copy = image.dir.path().join("copy");
    copy_without(&image.path, &found.free, &copy);
    let expected = digests(&image.files());
    assert!(expected.len() > 10);
    assert_eq!(contents(&copy), expected);
    assert_eq!(fsck(&copy), (used, all));
    // After writing to it, everything is still there.
    let more = image.dir.path().join("more");
    write_noise(&more, found.free.bytes() / 2, &mut Noise::new(3));
    run(mtools("mcopy", &copy).arg(&more).arg("::more"));
    assert_eq!(contents(&copy), expected);
    assert_eq!(fsck(&copy).0, used + (found.free.bytes() / 2).div_ceil(layout.cluster));
}

macro_rules! layouts {
    ($($name:ident: $size:expr, $options:expr;)*) => {$(
        #[test]
        fn $name() {
            if tools() {
                let size = $size;
                let image = Image::format(size, $options);
                image.live_through(size / 8);
                assert_copies(&image);
            }
        }
    )*};
}

layouts! {
    fat12_is_copied_without_its_free_clusters: 6 * MIB, &["-F", "12"];
    fat12_on_a_floppy_is_copied_without_its_free_clusters: 1440 * KIB, &["-F", "12"];
    fat12_with_one_table_is_copied_without_its_free_clusters: 1900 * KIB, &["-F", "12", "-f", "1", "-s", "1"];
    fat16_is_copied_without_its_free_clusters: 32 * MIB, &["-F", "16"];
    fat16_with_small_clusters_is_copied_without_its_free_clusters: 16 * MIB, &["-F", "16", "-s", "1"];
    fat16_with_large_clusters_is_copied_without_its_free_clusters: 160 * MIB, &["-F", "16", "-s", "64"];
    fat16_with_large_sectors_is_copied_without_its_free_clusters: 96 * MIB, &["-F", "16", "-S", "4096"];
    fat32_is_copied_without_its_free_clusters: 64 * MIB, &["-F", "32"];
    fat32_with_4_kib_clusters_is_copied_without_its_free_clusters: 272 * MIB, &["-F", "32", "-s", "8"];
    fat32_with_one_table_is_copied_without_its_free_clusters: 40 * MIB, &["-F", "32", "-s", "1", "-f", "1"];
    fat32_with_large_sectors_is_copied_without_its_free_clusters: 272 * MIB, &["-F", "32", "-S", "4096", "-s", "1"];
}

#[test]
fn what_is_behind_the_volume_is_used() {
    if !tools() {
        return;
    }
    let image = Image::format(6 * MIB, &["-F", "12"]);
    let before = free(&Fat, &open(&image.path)).unwrap().free;
    File::options().write(true).open(&image.path).unwrap().set_len(9 * MIB).unwrap();
    assert_eq!(free(&Fat, &open(&image.path)).unwrap().free, before);
    File::options().write(true).open(&image.path).unwrap().set_len(5 * MIB).unwrap();
    assert!(matches!(free(&Fat, &open(&image.path)), Err(Refusal::Corrupt(_))));
}

#[test]
fn a_dirty_volume_is_refused() {
    if !tools() {
        return;
    }
    for (bits, size, state, flags) in [(12, 4, 0x25, None), (16, 16, 0x25, Some(3)), (32, 40, 0x41, Some(7))] {
        for dirty in [1, 2] {
            let image = Image::format(size * MIB, &["-F", &bits.to_string()]);
            image.change(state, &[dirty]);
            assert!(matches!(free(&Fat, &open(&image.path)), Err(Refusal::Dirty(_))), "FAT{bits}, state {dirty}");
        }
        let Some(flags) = flags else { continue };
        for bit in if bits == 16 { [0x80, 0x40] } else { [0x08, 0x04] } {
            let image = Image::format(size * MIB, &["-F", &bits.to_string()]);
            let layout = Layout::of(&image.path);
            for copy in 0..2 {
                let at = layout.tables.start + copy * layout.table_len + flags;
                let old = image.bytes()[at as usize];
                image.change(at, &[old & !bit]);
            }
            assert!(matches!(free(&Fat, &open(&image.path)), Err(Refusal::Dirty(_))), "FAT{bits}, flag {bit}");
        }
    }
}

#[test]
fn volumes_whose_width_is_disputed_are_refused() {
    if !tools() {
        return;
    }
    // Too few clusters for what the fields say.
    let image = Image::format(16 * MIB, &["-F", "32", "-s", "1"]);
    assert!(matches!(free(&Fat, &open(&image.path)), Err(Refusal::Unsupported(_))));
    for size in (2088..2112).map(|kib| kib * KIB) {
        let image = Image::format(size, &["-F", "16", "-s", "1"]);
        let layout = Layout::of(&image.path);
        let found = free(&Fat, &open(&image.path));
        assert_eq!(found.is_err(), layout.clusters.abs_diff(4085) <= 16, "{} clusters: {found:?}", layout.clusters);
    }
}

#[test]
fn half_written_volumes_are_refused_or_right() {
    if !tools() {
        return;
    }
    for (bits, size) in [(12, 6 * MIB), (16, 16 * MIB), (32, 40 * MIB)] {
        let image = Image::format(size, &["-F", &bits.to_string()]);
        image.live_through(size / 8);
        let old = image.bytes();
        let late = image.files().join("keep/written late");
        write_noise(&late, 100_000, &mut Noise::new(9));
        run(mtools("mcopy", &image.path).arg(&late).arg("::keep"));
        run(mtools("mdel", &image.path).arg("::keep/in the gaps"));
        let new = image.bytes();
        let layout = Layout::of(&image.path);
        let tables = layout.tables.start as usize..layout.tables.end as usize;

        // The new tables did not reach the disk, or the new directories did not: a file is there that has no clusters,
        // or too many. Only where a directory has grown may its new part be out of sight, for every reader.
        let mut old_tables = new.clone();
        old_tables[tables.clone()].copy_from_slice(&old[tables.clone()]);
        let mut old_directories = old.clone();
        old_directories[tables.clone()].copy_from_slice(&new[tables.clone()]);
        for torn in [old_tables, old_directories] {
            match free(&Fat, &torn) {
                Err(refusal) => assert!(matches!(refusal, Refusal::Corrupt(_)), "FAT{bits}: {refusal}"),
                Ok(found) => {
                    assert_eq!(bits, 32);
                    let (torn_path, copy) = (image.dir.path().join("torn"), image.dir.path().join("copy"));
                    fs::write(&torn_path, &torn).unwrap();
                    copy_without(&torn_path, &found.free, &copy);
                    assert_eq!(contents(&copy), contents(&torn_path));
                }
            }
        }
        // One of two tables did.
        let mut torn = new.clone();
        let first = tables.start..tables.start + layout.table_len as usize;
        torn[first.clone()].copy_from_slice(&old[first]);
        assert_eq!(free(&Fat, &torn), Err(Refusal::corrupt("the copies of the table differ")), "FAT{bits}");
        assert!(free(&Fat, &new).is_ok());
    }
}

#[test]
fn lost_chains_are_used() {
    if !tools() {
        return;
    }
    let image = Image::format(16 * MIB, &["-F", "16"]);
    image.live_through(2 * MIB);
    let before = free(&Fat, &open(&image.path)).unwrap().free;
    // The entry of a file is deleted, and nothing else.
    let mut bytes = image.bytes();
    let name = bytes.windows(11).position(|name| name == b"EMPTY   TXT").unwrap();
    let other = (name - 32 * 64..name)
        .rev()
        .find(|at| bytes[*at..].starts_with(b"ASMALL"))
        .unwrap_or_else(|| bytes.windows(6).position(|name| name == b"ASMALL").unwrap());
    bytes[other] = 0xe5;
    assert_eq!(free(&Fat, &bytes).unwrap().free, before);
}

/// Bytes of a table entry, for both copies, so that the tables agree.
fn set_entry(bytes: &mut [u8], layout: &Layout, cluster: u64, value: u16) {
    for copy in 0..2 {
        let at = (layout.tables.start + copy * layout.table_len + cluster * 2) as usize;
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
}

#[test]
fn chains_that_cannot_be_are_refused() {
    if !tools() {
        return;
    }
    let image = Image::format(16 * MIB, &["-F", "16"]);
    image.live_through(2 * MIB);
    let (layout, bytes) = (Layout::of(&image.path), image.bytes());
    // A cluster in the middle of a chain, the end of a chain, and one that is free.
    let middle = (3..layout.clusters).find(|c| layout.entry(*c) == *c as u32 + 1).unwrap();
    let end = (3..layout.clusters).find(|c| layout.entry(*c) >= 0xfff8).unwrap();
    let hole = (3..layout.clusters).find(|c| layout.entry(*c) == 0).unwrap();
    let refused = |cluster: u64, value: u64| {
        let mut bytes = bytes.clone();
        set_entry(&mut bytes, &layout, cluster, value as u16);
        assert!(matches!(free(&Fat, &bytes), Err(Refusal::Corrupt(_))), "{cluster} -> {value}");
    };
    refused(middle, middle); // a loop
    refused(end, end); // a loop at the end
    refused(middle, hole); // into a free cluster
    refused(end, hole);
    refused(middle, 0); // a hole in a chain
    refused(middle, 0xfff7); // a bad cluster in a chain
    refused(middle, 0xffff); // too short for its file
    refused(end, middle); // two chains meet
    refused(middle, 1); // no link
    refused(middle, 0xfff0); // no link
    refused(hole, layout.clusters + 2); // no cluster
    // A bad cluster, and a lost one, are used.
    for value in [0xfff7, 0xffff] {
        let mut bytes = bytes.clone();
        set_entry(&mut bytes, &layout, hole, value);
        let expected = layout.free().without(&ExtentSet::of(layout.bytes_of(hole)));
        assert_eq!(free(&Fat, &bytes).unwrap().free, expected);
    }
}

#[test]
fn directories_that_cannot_be_are_refused() {
    if !tools() {
        return;
    }
    let image = Image::format(16 * MIB, &["-F", "16"]);
    image.live_through(2 * MIB);
    let bytes = image.bytes();
    let find = |name: &[u8; 11]| bytes.windows(11).position(|found| found == name).unwrap();
    let (above, below) = (find(b"KEEP       "), find(b"DEEPER~1   "));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        free(&Fat, &bytes)
    };
    assert!(changed(&|_| ()).is_ok());
    let cluster = |at: usize| [bytes[at + 26], bytes[at + 27]];
    for (what, change) in [
        (
            "a loop",
            &(|b: &mut Vec<u8>| b[below + 26..below + 28].copy_from_slice(&cluster(above))) as &dyn Fn(&mut Vec<u8>),
        ),
        ("the root", &|b| b[below + 26..below + 28].fill(0)),
        ("no cluster", &|b| b[below + 26..below + 28].fill(0xff)),
        ("a file as a directory", &|b| b[find(b"INTHEG~1   ") + 11] = 0x10),
        ("a directory as a file", &|b| b[below + 11] = 0x20),
        ("another parent", &|b| {
            let up = b.windows(11).rposition(|name| name == b"..         ").unwrap();
            b[up + 26] ^= 1;
        }),
        ("entries behind the end", &|b| b[below - 32..below].fill(0)),
        ("a file without clusters", &|b| b[find(b"INTHEG~1   ") + 26..][..2].fill(0)),
        ("a longer file", &|b| b[find(b"INTHEG~1   ") + 30] ^= 1),
        ("an empty file with clusters", &|b| b[find(b"INTHEG~1   ") + 28..][..4].fill(0)),
    ] {
        assert!(matches!(changed(change), Err(Refusal::Corrupt(_))), "{what}");
    }
}

/// A boot sector of a FAT32 volume of `size` bytes with clusters of so many sectors, and its tables' first entries.
fn forged(size: u64, sectors: u8) -> Pages {
    let mut pages = Pages::empty(size);
    let total = (size / 512 - 32).min(u64::from(u32::MAX));
    let table = (total / u64::from(sectors) + 2).div_ceil(128) as u32;
    let mut boot = vec![0; 512];
    boot[..3].copy_from_slice(&[0xeb, 0x58, 0x90]);
    boot[11..22].copy_from_slice(&[0, 2, sectors, 32, 0, 2, 0, 0, 0, 0, 0xf8]);
    boot[32..36].copy_from_slice(&(total as u32).to_le_bytes());
    boot[36..40].copy_from_slice(&table.to_le_bytes());
    (boot[44], boot[0x42], boot[510], boot[511]) = (2, 0x29, 0x55, 0xaa);
    pages.write(0, &boot);
    for copy in 0..2 {
        let at = (32 + copy * u64::from(table)) * 512;
        pages.write(at, &[0xf8, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0x0f]);
    }
    pages
}

#[test]
fn forged_headers_cost_no_more_than_the_largest_honest_volume() {
    // 64 MiB clusters and more: refused before anything is read or held.
    assert_eq!(free(&Fat, &forged(2 << 40, 8)), Err(Refusal::Budget("clusters")));
    assert!(matches!(free(&Fat, &forged(40 * MIB, 1)), Ok(found) if found.free.count() == 1));
    // A volume that is longer than its region.
    let mut long = forged(40 * MIB, 1);
    long.write(35, &[0xff]);
    assert!(free(&Fat, &long).is_err());
    // A table that nothing else fits beside.
    let mut full = forged(40 * MIB, 1);
    full.write(39, &[0xff]);
    assert!(free(&Fat, &full).is_err());
    // A ring in the table, and a root directory that runs into it.
    let mut ring = forged(40 * MIB, 1);
    for copy in 0..2 {
        let tables = 32 * 512 + copy * u64::from(u32::from_le_bytes(ring.read(36, 4).try_into().unwrap())) * 512;
        ring.write(tables + 8, &[3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0]);
    }
    assert_eq!(free(&Fat, &ring), Err(Refusal::corrupt("cluster 3 is in two chains")));
    // The largest there is: its two tables are read once or twice, and little else.
    let largest = forged(2 << 40, 64);
    let found = within(&largest, 1 << 16, 2 * (2 << 40) / (64 * 512) * 4 * 2, |image| free(&Fat, image));
    assert!(found.is_ok_and(|found| found.free.bytes() > 1 << 40));
}

#[test]
fn mutated_volumes_are_refused_or_right() {
    if !tools() {
        return;
    }
    let images = [(12, MIB, 1), (12, 2 * MIB, 2), (16, 5 * MIB, 2), (32, 34 * MIB, 1)];
    for (number, (bits, size, sectors)) in images.into_iter().enumerate() {
        let image = Image::format(size, &["-F", &bits.to_string(), "-s", &sectors.to_string()]);
        image.live_through(200 * KIB);
        let layout = Layout::of(&image.path);
        let file = open(&image.path);
        let pages = Pages::read_by(&Fat, &file);
        let session = Session::new(&file, Budget::for_image(size));
        haul_guest::fs::FreeMap::free(&Fat, &session.view(), &Default::default()).unwrap();
        let read = session.into_witnesses().into_iter().map(|piece| piece.offset..piece.offset + piece.len);
        let others: Vec<Range<u64>> =
            read.filter(|piece| piece.end <= layout.tables.start || piece.start >= layout.tables.end).collect();
        let busy = layout.busy_table();
        let (boot, directories) = (
            std::iter::once(0..90).collect::<Vec<_>>(),
            others.iter().filter(|piece| piece.start > 0).cloned().collect::<Vec<_>>(),
        );
        let mirror = |pages: &mut Pages| {
            let table = pages.read(busy.start, (busy.end - busy.start) as usize);
            pages.write(busy.start + layout.table_len, &table);
            if layout.bits == 32 {
                let boot = pages.read(0, 512);
                pages.write(6 * 512, &boot);
            }
        };
        for (what, places) in [("boot", boot), ("table", vec![busy.clone()]), ("directories", directories)] {
            let plain = assert_sound(&Fat, &pages, &layout.free(), &places, 700, |_| ());
            let mirrored = assert_sound(&Fat, &pages, &layout.free(), &places, 1500, mirror);
            println!("image {number}, FAT{bits}, {what}: {plain:?}, mirrored {mirrored:?}");
        }
    }
}
