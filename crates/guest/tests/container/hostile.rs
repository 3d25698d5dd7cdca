//! Containers that somebody forged or that are damaged: refused, or read within their own files; quickly, without memory.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_forge::fuzz::use_container;
use haul_guest::container::{self, Alone, Opened, Siblings};
use haul_guest::{ExtentSet, ReadAt, Refusal};
use haul_testbed::guest::{Noise, has};
use haul_testbed::{Command, temp_dir};

use crate::bench::{FORMATS, Format, first_difference, make_raw, open};

/// A file in memory that counts what is read of it and never gives anything else.
struct Counted {
    bytes: Vec<u8>,
    read: AtomicU64,
}

impl ReadAt for Counted {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        assert!(offset + buffer.len() as u64 <= self.size(), "a read outside the file was tried");
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(offset, buffer)
    }
}

fn counted(bytes: Vec<u8>) -> Arc<Counted> {
    Arc::new(Counted { bytes, read: AtomicU64::new(0) })
}

/// The files of a container in memory.
pub struct Files(pub Vec<(String, Vec<u8>)>);

impl Files {
    pub fn of(path: &Path) -> Files {
        let opened = open(path);
        let dir = path.parent().unwrap();
        Files(
            opened
                .parts
                .iter()
                .map(|part| part.name.to_str().unwrap().to_owned())
                .map(|name| {
                    let bytes = fs::read(dir.join(&name)).unwrap();
                    (name, bytes)
                })
                .collect(),
        )
    }

    pub fn open(&self) -> Result<Opened, Refusal> {
        container::open(counted(self.0[0].1.clone()), OsStr::new(&self.0[0].0), self)
    }
}

impl Siblings for Files {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        let found = self.0.iter().find(|(have, _)| have.as_str() == name);
        Ok(counted(found.ok_or(io::ErrorKind::NotFound)?.1.clone()))
    }
}

/// What of the files is tables: not data that is stored as it is.
pub fn tables(opened: &Opened) -> Vec<(usize, u64, u64)> {
    let witnesses = opened.disk.witnesses().iter();
    witnesses.map(|seen| (seen.file, seen.witness.offset, seen.witness.len)).collect()
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Fixes the checksums of VHDX and VHD.
pub fn repair(format: Format, bytes: &mut [u8]) {
    match format.name {
        "vhdx" => {
            for (at, len) in [(64, 4), (128, 4), (192, 64), (256, 64)] {
                let (at, len) = (at << 10, len << 10);
                put(bytes, at + 4, &[0; 4]);
                let sum = crc32c::crc32c(&bytes[at..at + len]);
                put(bytes, at + 4, &sum.to_le_bytes());
            }
        }
        "vpc" => {
            let footer = bytes.len() - 512;
            for (at, len, field) in [(0, 512, 64), (512, 1024, 36), (footer, 512, 64)] {
                if format.options.contains("fixed") && at != footer {
                    continue;
                }
                put(bytes, at + field, &[0; 4]);
                let sum = bytes[at..at + len].iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
                put(bytes, at + field, &(!sum).to_be_bytes());
            }
            if !format.options.contains("fixed") {
                let start = bytes[..512].to_vec();
                put(bytes, footer, &start);
            }
        }
        _ => {}
    }
}

/// Changes a byte of the tables, or a field of them to a number that is odd.
pub fn mutate(files: &mut Files, places: &[(usize, u64, u64)], noise: &mut Noise) {
    for _ in 0..=noise.below(3) {
        // Half of them in the first tables: the headers.
        let among = if noise.below(2) == 0 { 2.min(places.len() as u64) } else { places.len() as u64 };
        let (file, offset, len) = places[noise.below(among) as usize];
        let bytes = &mut files.0[file].1;
        let within = if noise.below(2) == 0 { len.min(128) } else { len };
        let at = (offset + noise.below(within)) as usize;
        match noise.below(5) {
            0 => bytes[at] ^= 1 << noise.below(8),
            1 => bytes[at] = noise.number() as u8,
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][noise.below(5) as usize],
            kind => {
                let width = if kind == 3 { 4 } else { 8 };
                let (at, width) = (at / width * width, width.min(bytes.len() - at / width * width));
                let number = match noise.below(4) {
                    0 => u64::MAX,
                    1 => noise.below(bytes.len() as u64),
                    2 => noise.number() >> noise.below(64),
                    _ => 1 << noise.below(64),
                };
                let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
                let field = if noise.below(2) == 0 { &little[..width] } else { &big[8 - width..] };
                put(bytes, at, field);
            }
        }
    }
}

#[test]
fn damaged_containers_are_refused_or_read_within_their_files() {
    if !has("qemu-img") {
        return;
    }
    let dir = temp_dir();
    let raw = dir.path().join("raw");
    make_raw(&raw, 3 << 20, 4);
    let (mut refused, mut accepted, mut wrong) = (0, 0, 0);
    for format in FORMATS.iter().filter(|format| format.name != "raw" && !format.options.contains("full")) {
        let path = format.make(&raw, dir.path());
        let whole = Files::of(&path);
        let opened = whole.open().unwrap();
        let mut places = tables(&opened);
        if format.packed {
            places.push((0, 0, whole.0[0].1.len() as u64));
        }
        // Files that hold much beside tables are dear to copy.
        let rounds = if whole.0.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 6 << 20 { 60 } else { 300 };
        for round in 0..rounds {
            let mut noise = Noise::new(round);
            let mut files = Files(whole.0.clone());
            mutate(&mut files, &places, &mut noise);
            if round % 4 != 0 {
                repair(*format, &mut files.0[0].1);
            }
            match files.open() {
                Err(_) => refused += 1,
                Ok(opened) => {
                    accepted += 1;
                    wrong += use_container(&opened, &mut noise);
                }
            }
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
    println!("{refused} refused, {accepted} accepted, {wrong} reads failed in these");
    assert!(refused > 1000 && accepted > 1000);
}

/// File, offset, old byte and new byte of every change.
fn changes(old: &Files, new: &Files) -> Vec<(usize, usize, u8, u8)> {
    let pairs = old.0.iter().zip(&new.0).enumerate();
    pairs
        .flat_map(|(file, ((_, old), (_, new)))| {
            let bytes = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
            bytes.map(move |(at, (old, new))| (file, at, *old, *new))
        })
        .collect()
}

#[test]
fn what_is_accepted_of_damaged_containers_is_read_as_qemu_reads_it() {
    if !has("qemu-img") {
        return;
    }
    let dir = temp_dir();
    let raw = dir.path().join("raw");
    make_raw(&raw, 2 << 20, 6);
    let (mut same, mut alone) = (0, 0);
    for format in FORMATS.iter().filter(|format| format.name != "raw" && !format.options.contains("full")) {
        let path = format.make(&raw, dir.path());
        let whole = Files::of(&path);
        let opened = whole.open().unwrap();
        let places = tables(&opened);
        let damaged = path.parent().unwrap().join("damaged");
        fs::create_dir(&damaged).unwrap();
        let mut compared = 0;
        for round in 0..400 {
            let mut noise = Noise::new(round);
            let mut files = Files(whole.0.clone());
            mutate(&mut files, &places, &mut noise);
            repair(*format, &mut files.0[0].1);
            // Not a giant, since it is written out.
            let Ok(ours) = files.open() else { continue };
            if files.0 == whole.0 || ours.disk.size() > 16 << 20 || ours.disk.format() != opened.disk.format() {
                continue;
            }
            // The second grain directory saves what qemu-img, which knows only the first, reads as anything.
            let directory = |file: usize| {
                let bytes = &whole.0[file].1;
                let at = u64::from_le_bytes(bytes[56..64].try_into().unwrap()) as usize;
                if bytes.starts_with(b"KDMV") { at * 512..at * 512 + 4 } else { 0..0 }
            };
            if changes(&whole, &files).into_iter().any(|(file, at, ..)| directory(file).contains(&at)) {
                continue;
            }
            for (name, bytes) in &files.0 {
                fs::write(damaged.join(name), bytes).unwrap();
            }
            let mut convert = Command::new("qemu-img");
            convert.args(["convert", "-f", format.name, "-O", "raw"]);
            let done = convert.arg(damaged.join(&files.0[0].0)).arg(dir.path().join("theirs")).output().unwrap();
            if done.status.success() {
                let theirs = fs::read(dir.path().join("theirs")).unwrap();
                let mut have = vec![0; ours.disk.size() as usize];
                if ours.disk.read_exact_at(0, &mut have).is_err() {
                    continue;
                }
                let (shorter, longer) = if have.len() < theirs.len() { (&have, &theirs) } else { (&theirs, &have) };
                // qemu-img takes the size of a VHD from its geometry, and only sometimes from its size.
                let longer = if format.name == "vpc" { &longer[..shorter.len()] } else { longer };
                let differ = first_difference(longer, shorter);
                let changed = changes(&whole, &files);
                assert!(differ.is_none(), "{format:?}, round {round}: {differ:?} of {} bytes; {changed:?}", have.len());
                same += 1;
            } else {
                alone += 1;
            }
            compared += 1;
            if compared == 8 {
                break;
            }
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
    println!("{same} the same, {alone} that qemu-img refuses");
    assert!(same > 100);
}

#[test]
fn cut_containers_are_refused_or_read_within_their_files() {
    if !has("qemu-img") {
        return;
    }
    let dir = temp_dir();
    let raw = dir.path().join("raw");
    make_raw(&raw, 2 << 20, 4);
    for format in FORMATS.iter().filter(|format| format.name != "raw" && !format.options.contains("full")) {
        let whole = Files::of(&format.make(&raw, dir.path()));
        for round in 0..40 {
            let mut noise = Noise::new(round);
            let mut files = Files(whole.0.clone());
            for (_, bytes) in &mut files.0 {
                let len = if noise.below(2) == 0 { noise.below(1024) } else { noise.below(bytes.len() as u64) };
                bytes.truncate(len as usize);
            }
            if let Ok(opened) = files.open() {
                use_container(&opened, &mut noise);
            }
        }
    }
}

/// A header, zeros behind it, and how much was read to find it forged.
fn refused(mut bytes: Vec<u8>, size: usize) -> Refusal {
    bytes.resize(size.max(bytes.len()), 0);
    let file = counted(bytes);
    let refusal =
        container::open(Arc::clone(&file) as Arc<dyn ReadAt>, OsStr::new("forged"), &Alone).err().expect("accepted");
    let read = file.read.load(Ordering::Relaxed);
    assert!(read < 100 << 20, "{read} bytes were read: {refusal}");
    refusal
}

/// The header of a qcow2 of version 3: a tebibyte, whose first table has `entries` entries at `at`.
fn qcow2(bits: u32, size: u64, entries: u32, at: u64) -> Vec<u8> {
    let mut header = vec![0; 104];
    put(&mut header, 0, b"QFI\xfb");
    put(&mut header, 4, &3_u32.to_be_bytes());
    put(&mut header, 20, &bits.to_be_bytes());
    put(&mut header, 24, &size.to_be_bytes());
    put(&mut header, 36, &entries.to_be_bytes());
    put(&mut header, 40, &at.to_be_bytes());
    put(&mut header, 48, &(64_u64 << 10).to_be_bytes());
    put(&mut header, 56, &1_u32.to_be_bytes());
    put(&mut header, 96, &4_u32.to_be_bytes());
    put(&mut header, 100, &104_u32.to_be_bytes());
    header
}

#[test]
fn forged_qcow2_headers_are_refused() {
    let mib = 1 << 20;
    refused(qcow2(16, 1 << 40, 1 << 31, 64 << 10), mib);
    refused(qcow2(16, 1 << 40, u32::MAX, u64::MAX - 65535), mib);
    refused(qcow2(16, u64::MAX, u32::MAX, 64 << 10), mib);
    refused(qcow2(16, 1 << 40, 1, 64 << 10), mib);
    for bits in [0, 8, 22, 63, 64, u32::MAX] {
        refused(qcow2(bits, 1 << 40, 2048, 64 << 10), mib);
    }
    for (at, value, why) in [
        (4, &[0, 0, 0, 1][..], "version 1"),
        (4, &[0, 0, 0, 4], "version 4"),
        (8, &[0, 0, 0, 0, 0, 0, 0, 200], "a backing file"),
        (32, &[0, 0, 0, 1], "encryption"),
        (79, &[1], "dirty"),
        (79, &[2], "corrupt"),
        (79, &[4], "a data file"),
        (79, &[8], "compression without a type"),
        (79, &[32], "something unknown"),
        (72, &[128], "something unknown"),
        (96, &[0, 0, 0, 7], "wide counts"),
        (100, &[0, 0, 0, 72], "a short header"),
        (100, &[255, 0, 0, 0], "a long header"),
    ] {
        let mut header = qcow2(16, 1 << 20, 1, 64 << 10);
        put(&mut header, at, value);
        let refusal = refused(header, mib);
        println!("{why}: {refusal}");
    }
    // Every entry of the first table names the same table of the second, or one of two.
    let mut forged = qcow2(16, 1 << 50, 1 << 21, 64 << 10);
    forged.resize(32 << 20, 0);
    for entry in forged[64 << 10..(64 << 10) + (16 << 20)].chunks_exact_mut(8) {
        entry.copy_from_slice(&(24_u64 << 20).to_be_bytes());
    }
    println!("{}", refused(forged.clone(), mib));
    forged[(64 << 10) + 8..].iter_mut().step_by(16).skip(4).take(1 << 20).for_each(|byte| *byte ^= 1);
    println!("{}", refused(forged, mib));
}

#[test]
fn forged_vmdk_headers_are_refused() {
    let header = |capacity: u64, grain: u64, per_table: u32, spare: u64, directory: u64| {
        let mut header = vec![0; 512];
        put(&mut header, 0, b"KDMV");
        put(&mut header, 4, &1_u32.to_le_bytes());
        put(&mut header, 8, &3_u32.to_le_bytes());
        put(&mut header, 12, &capacity.to_le_bytes());
        put(&mut header, 20, &grain.to_le_bytes());
        put(&mut header, 28, &1_u64.to_le_bytes());
        put(&mut header, 36, &1_u64.to_le_bytes());
        put(&mut header, 44, &per_table.to_le_bytes());
        put(&mut header, 48, &spare.to_le_bytes());
        put(&mut header, 56, &directory.to_le_bytes());
        put(&mut header, 73, b"\n \r\n");
        let text = format!("# Disk DescriptorFile\nparentCID=ffffffff\nRW {capacity} SPARSE \"forged\"\n");
        header.extend(text.as_bytes());
        header
    };
    let opens = |bytes: Vec<u8>| {
        let mut bytes = bytes;
        bytes.resize(1 << 20, 0);
        container::open(counted(bytes), OsStr::new("forged"), &Alone)
    };
    assert!(opens(header(1 << 15, 128, 512, 8, 16)).is_ok(), "the form is right");
    for bad in [
        header(1 << 40, 128, 512, 8, 16),
        header(u64::MAX, 128, 512, 8, 16),
        header(1 << 54, 128, 512, 8, 16),
        header(1 << 20, 0, 512, 8, 16),
        header(1 << 20, 3 << 5, 512, 8, 16),
        header(1 << 20, 1 << 63, 512, 8, 16),
        header(1 << 20, 128, 0, 8, 16),
        header(1 << 20, 128, u32::MAX, 8, 16),
        header(1 << 20, 128, 512, 1 << 40, 1 << 40),
        header(1 << 20, 128, 512, u64::MAX >> 1, u64::MAX >> 1),
        header(1 << 20, 128, 512, 0, u64::MAX),
    ] {
        println!("{}", refused(bad, 1 << 20));
    }
    let mut unclean = header(1 << 15, 128, 512, 8, 16);
    unclean[72] = 1;
    assert!(matches!(refused(unclean, 1 << 20), Refusal::Dirty(_)));
    let mut disagree = header(1 << 15, 128, 512, 8, 16);
    disagree.resize(1 << 20, 0);
    put(&mut disagree, 16 * 512, &100_u32.to_le_bytes());
    assert!(matches!(refused(disagree, 1 << 20), Refusal::Corrupt(_)), "the directories disagree");
    let fallback = opens(header(1 << 15, 128, 512, 8, 1 << 40)).expect("the second directory is there");
    assert!(fallback.disk.host_ranges(&ExtentSet::of(0..1 << 20)).is_none(), "it needs repair");
    assert!(matches!(refused(b"COWD".to_vec(), 4096), Refusal::Unsupported(_)));
}

/// Gives what is asked for, and remembers it.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Siblings for Asked {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        self.0.lock().unwrap().push(name.to_str().unwrap().to_owned());
        Ok(counted(vec![1; 512]))
    }
}

#[test]
fn a_descriptor_opens_only_names_beside_it_and_only_if_it_is_nothing_else() {
    let asked = Asked::default();
    let text = |extents: &str| format!("# Disk DescriptorFile\nparentCID=ffffffff\n{extents}\n").into_bytes();
    let opens = |bytes: Vec<u8>| container::open(counted(bytes), OsStr::new("disk.vmdk"), &asked);
    for name in ["../secret", "/etc/shadow", "a/../../secret", "..", "disk.vmdk"] {
        assert!(opens(text(&format!("RW 1 FLAT \"{name}\" 0"))).is_err(), "{name}");
    }
    let mut disk = text("RW 1 FLAT \"secret\" 0");
    disk.resize(2 << 20, 0);
    assert!(opens(disk).is_err(), "a disk whose guest wrote a descriptor to its start");
    let mut behind = text("RW 1 FLAT \"secret\" 0\n");
    behind.extend([0; 20]);
    behind.push(1);
    assert!(opens(behind).is_err(), "something behind the descriptor");
    assert!(asked.0.lock().unwrap().is_empty(), "{:?}", asked.0.lock().unwrap());
    assert!(opens(text("RW 2 FLAT \"short\" 0")).is_err(), "an extent that is too short");
    assert!(opens(text("RW 1 FLAT \"short\" 1")).is_err(), "an extent that is too short");
    assert!(opens(text("RW 1 FLAT \"short\" 36028797018963967")).is_err());
    assert!(opens(text("RW 1 FLAT \"a\" 0\nRW 1 ZERO\nRW 1 FLAT \"b\" 0")).is_ok());
    let twice = opens(text("RW 1 FLAT \"a\" 0\nRW 1 ZERO\nRW 1 FLAT \"a\" 0"));
    assert!(twice.is_err(), "a byte of the file for two of the disk");
}

#[test]
fn a_thousand_extents_make_no_file_longer_than_it_is() {
    let lines = "RW 1 FLAT \"a\" 0\n".repeat(4000);
    let text = format!("# Disk DescriptorFile\nparentCID=ffffffff\n{lines}").into_bytes();
    let asked = Asked::default();
    assert!(container::open(counted(text), OsStr::new("disk.vmdk"), &asked).is_err());
    assert_eq!(asked.0.lock().unwrap().len(), 1, "it is opened once");
}

#[test]
fn forged_vdi_and_vhd_headers_are_refused() {
    let vdi = |map: u32, data: u32, size: u64, block: u32, blocks: u32| {
        let mut header = vec![0; 512];
        put(&mut header, 64, &0xbeda_107f_u32.to_le_bytes());
        put(&mut header, 68, &0x0001_0001_u32.to_le_bytes());
        put(&mut header, 72, &0x190_u32.to_le_bytes());
        put(&mut header, 76, &1_u32.to_le_bytes());
        put(&mut header, 340, &map.to_le_bytes());
        put(&mut header, 344, &data.to_le_bytes());
        put(&mut header, 360, &512_u32.to_le_bytes());
        put(&mut header, 368, &size.to_le_bytes());
        put(&mut header, 376, &block.to_le_bytes());
        put(&mut header, 384, &blocks.to_le_bytes());
        header
    };
    let mib = 1 << 20;
    for bad in [
        vdi(512, 1024, 1 << 40, 1 << 20, u32::MAX),
        vdi(512, 1024, 1 << 60, 1 << 20, 1 << 20),
        vdi(512, 1024, u64::MAX, 1 << 20, u32::MAX),
        vdi(u32::MAX, u32::MAX, 1 << 20, 1 << 20, 1),
        vdi(512, 1024, 1 << 20, 0, 1),
        vdi(512, 1024, 1 << 20, 3 << 18, 2),
        vdi(512, 512, 1 << 20, 1 << 20, 1),
        vdi(0, 1024, 1 << 20, 1 << 20, 1),
        // Its only block is number 0, which is not in the file.
        vdi(512, 1024, 1 << 20, 1 << 20, 1),
    ] {
        println!("{}", refused(bad, mib));
    }
    let mut vhd = b"conectix".to_vec();
    vhd.resize(mib, 0);
    println!("{}", refused(vhd, mib));
}

#[test]
fn forged_vhdx_headers_are_refused() {
    if !has("qemu-img") {
        return;
    }
    let dir = temp_dir();
    let raw = dir.path().join("raw");
    make_raw(&raw, 1 << 20, 9);
    let format = *FORMATS.iter().find(|format| format.options == "subformat=dynamic,block_size=1M").unwrap();
    let whole = fs::read(format.make(&raw, dir.path())).unwrap();
    // Where the metadata are, by the first region table.
    let region =
        whole[192 << 10..].windows(8).position(|bytes| bytes == [0x06, 0xa2, 0x7c, 0x8b, 0x90, 0x47, 0x9a, 0x4b]);
    let entry = (192 << 10) + region.unwrap();
    let metadata = u64::from_le_bytes(whole[entry + 16..entry + 24].try_into().unwrap()) as usize;
    let both = |at: usize, field: &[u8], apart: usize| {
        let mut forged = whole.clone();
        put(&mut forged, at, field);
        put(&mut forged, at + apart, field);
        repair(format, &mut forged);
        forged
    };
    let (header, table) = (64 << 10, 192 << 10);
    for (why, forged) in [
        ("a log", both(header + 48, &[1], 64 << 10)),
        ("another version", both(header + 66, &[2], 64 << 10)),
        ("too many regions", both(table + 8, &2048_u32.to_le_bytes(), 64 << 10)),
        ("far too many regions", both(table + 8, &u32::MAX.to_le_bytes(), 64 << 10)),
        ("no regions", both(table + 8, &0_u32.to_le_bytes(), 64 << 10)),
        ("an unknown region", both(table + 16, &[9; 4], 64 << 10)),
        ("a region far away", both(table + 16 + 16, &(1_u64 << 60).to_le_bytes(), 64 << 10)),
        ("a region at the end of numbers", both(table + 16 + 16, &(!0_u64 << 20).to_le_bytes(), 64 << 10)),
        ("a region without length", both(table + 16 + 24, &0_u32.to_le_bytes(), 64 << 10)),
        ("too many metadata", both(metadata + 10, &2048_u16.to_le_bytes(), 0)),
        ("metadata far away", both(metadata + 32 + 16, &u32::MAX.to_le_bytes(), 0)),
    ] {
        println!("{why}: {}", refused(forged, 0));
    }
    assert!(container::open(counted(whole.clone()), OsStr::new("whole"), &Alone).is_ok());
    let mut torn = whole.clone();
    put(&mut torn, header + 100, &[1]);
    put(&mut torn, table + 100, &[1]);
    let opened = container::open(counted(torn), OsStr::new("torn"), &Alone);
    assert!(opened.is_ok(), "one of the two copies is enough");
}
