//! Containers that are copied as what they are, and change while they are copied.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use haul_fs::error::What;
use haul_guest::ExtentSet;
use haul_image::{Event, Mode, Options, Smart};
use haul_testbed::guest::Noise;
use haul_testbed::temp_dir;

use crate::harness::{Run, assert_holds, check_numbers, md5_of, random_set, trimmed};

const MIB: usize = 1 << 20;

/// Where the blocks of [`vdi`] begin in its file, and how many there are.
const DATA: u64 = 8192;
const BLOCKS: u32 = 4;

/// A VDI whose blocks lie in its file in turned order; the bytes of the file.
fn vdi(noise: &mut Noise) -> Vec<u8> {
    let mut header = vec![0; DATA as usize];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"<<< QEMU VM Virtual Disk Image >>>\n");
    for (at, number) in [
        (64, 0xbeda_107f_u32),
        (68, 0x0001_0001),
        (72, 0x190),
        (76, 1),
        (340, 4096),
        (344, DATA as u32),
        (360, 512),
        (376, MIB as u32),
        (384, BLOCKS),
        (388, BLOCKS),
    ] {
        put(at, &number.to_le_bytes());
    }
    put(368, &(u64::from(BLOCKS) << 20).to_le_bytes());
    for block in 0..BLOCKS {
        put(4096 + block as usize * 4, &(BLOCKS - 1 - block).to_le_bytes());
    }
    header.extend(noise.bytes(BLOCKS as usize * MIB));
    header
}

/// Where a range of the disk that lies in one block is in the file of [`vdi`].
fn in_vdi(at: u64) -> u64 {
    let block = at >> 20;
    DATA + ((u64::from(BLOCKS) - 1 - block) << 20) + (at & 0xf_ffff)
}

fn change(path: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// A disk of two flat files with a megabyte each, the second behind a page of something else.
fn flat(dir: &Path, noise: &mut Noise) -> [Vec<u8>; 2] {
    let text =
        "# Disk DescriptorFile\nparentCID=ffffffff\nRW 2048 FLAT \"d-f001.vmdk\" 0\nRW 2048 FLAT \"d-f002.vmdk\" 8\n";
    fs::write(dir.join("d.vmdk"), text).unwrap();
    let files = [noise.bytes(MIB), noise.bytes(MIB + 4096)];
    fs::write(dir.join("d-f001.vmdk"), &files[0]).unwrap();
    fs::write(dir.join("d-f002.vmdk"), &files[1]).unwrap();
    files
}

fn without(bytes: &[u8], free: &ExtentSet) -> Vec<u8> {
    let mut rest = bytes.to_vec();
    for run in trimmed(free, bytes.len() as u64).iter() {
        rest[run.start as usize..run.end() as usize].fill(0);
    }
    rest
}

#[test]
fn a_kept_container_lacks_only_whole_granules_of_what_is_free() {
    for round in 0..60 {
        let mut noise = Noise::new(round);
        let (dir, to) = (temp_dir(), temp_dir());
        let path = dir.path().join("disk.vdi");
        let bytes = vdi(&mut noise);
        fs::write(&path, &bytes).unwrap();
        let free = random_set(u64::from(BLOCKS) << 20, 1 << (9 + noise.below(12)), &mut noise);
        let options = Options { smart: Smart::Snapshot, md5: true, sparse: round % 2 == 0, ..Options::default() };
        let run = Run { free: free.clone(), options, ..Run::default() };
        let reports = run.keep(&path, to.path());
        let host = (0..u64::from(BLOCKS)).flat_map(|block| {
            let parts = free.clipped(block << 20..(block + 1) << 20);
            parts.iter().map(|part| in_vdi(part.start)..in_vdi(part.start) + part.len).collect::<Vec<_>>()
        });
        let host = ExtentSet::from_ranges(host);
        let expected = without(&bytes, &host);
        assert_holds(&to.path().join("disk.vdi"), &expected, &format!("round {round}"));
        check_numbers(&reports[0], &options, &format!("round {round}"));
        assert_eq!(reports[0].stats.free, trimmed(&host, bytes.len() as u64).bytes());
        assert_eq!(reports[0].md5, Some(md5_of(&expected)));
    }
}

#[test]
fn when_the_guest_or_the_container_changes_everything_that_was_left_out_is_copied() {
    // What a guest says of its free space; the table of blocks; a mere counter of the header.
    for place in [in_vdi(4096), 4096 + 4 * 3, 388] {
        let (dir, to) = (temp_dir(), temp_dir());
        let path = dir.path().join("disk.vdi");
        let mut bytes = vdi(&mut Noise::new(5));
        fs::write(&path, &bytes).unwrap();
        let attack = |event: &Event<'_>, _: &Run<'_>| {
            if let Event::Started(_) = event {
                change(&path, place, &[3]);
            }
        };
        bytes[place as usize] = 3;
        let free = ExtentSet::from_ranges([100_000..900_000, 1_100_000..3_000_000]);
        let run = Run { free, witnessed: vec![(4096, 4096)], attack: Box::new(attack), ..Run::default() };
        let reports = run.keep(&path, to.path());
        assert!(reports[0].doubt.is_some() && reports[0].stats.free == 0, "{place}");
        assert_holds(&to.path().join("disk.vdi"), &bytes, &format!("{place}"));
    }
}

#[test]
fn a_change_after_the_first_of_several_files_brings_back_what_it_lacks() {
    for (witness, place) in [(0, ("d-f001.vmdk", 5)), (MIB as u64, ("d-f002.vmdk", 4096 + 5))] {
        for started in 1..=3 {
            let (dir, to) = (temp_dir(), temp_dir());
            let mut files = flat(dir.path(), &mut Noise::new(6));
            let begun = Mutex::new(0);
            let attack = |event: &Event<'_>, _: &Run<'_>| {
                if let Event::Started(_) = event {
                    let mut begun = begun.lock().unwrap();
                    *begun += 1;
                    if *begun == started {
                        change(&dir.path().join(place.0), place.1, b"changed");
                    }
                }
            };
            let free = ExtentSet::from_ranges([8192..1_000_000, 1_100_000..1_900_000]);
            let run = Run { free, witnessed: vec![(witness, 4096)], attack: Box::new(attack), ..Run::default() };
            run.keep(&dir.path().join("d.vmdk"), to.path());
            let number = usize::from(place.0.contains("002"));
            files[number][place.1 as usize..][..7].copy_from_slice(b"changed");
            for (file, name) in files.iter().zip(["d-f001.vmdk", "d-f002.vmdk"]) {
                // The change itself may have come too late, as in any copy of what changes; what is free may not lack.
                let copy = fs::read(to.path().join(name)).unwrap();
                let same = copy[8192..] == file[8192..];
                assert!(same && copy.len() == file.len(), "{name} of {place:?} at {started}");
            }
        }
    }
}

#[test]
fn files_of_a_disk_lack_what_is_free_in_each_of_them() {
    let (dir, to) = (temp_dir(), temp_dir());
    let files = flat(dir.path(), &mut Noise::new(7));
    let free = ExtentSet::of(500_000..1_500_000);
    let run = Run { free, witnessed: vec![(0, 4096)], ..Run::default() };
    let reports = run.keep(&dir.path().join("d.vmdk"), to.path());
    assert_eq!(reports.len(), 3);
    let parts = [ExtentSet::of(500_000..MIB as u64), ExtentSet::of(4096..4096 + 1_500_000 - MIB as u64)];
    for ((file, free), name) in files.iter().zip(parts).zip(["d-f001.vmdk", "d-f002.vmdk"]) {
        assert_holds(&to.path().join(name), &without(file, &free), name);
    }
    let text = fs::read(dir.path().join("d.vmdk")).unwrap();
    assert_holds(&to.path().join("d.vmdk"), &text, "the descriptor");
}

#[test]
fn a_hole_of_a_flat_file_that_is_filled_meanwhile_is_copied_with_what_was_free() {
    let (dir, to) = (temp_dir(), temp_dir());
    let path = dir.path().join("d.vmdk");
    let [mut first, second] = flat(dir.path(), &mut Noise::new(9));
    // The hole of the first file is free, and so is what follows it.
    first[100_000..900_000].fill(0);
    let file = File::create(dir.path().join("d-f001.vmdk")).unwrap();
    file.write_all_at(&first[..100_000], 0).unwrap();
    file.write_all_at(&first[900_000..], 900_000).unwrap();
    drop(file);
    let attack = |event: &Event<'_>, _: &Run<'_>| {
        if let Event::Started(_) = event {
            change(&dir.path().join("d-f001.vmdk"), 5, b"new");
            change(&dir.path().join("d-f001.vmdk"), 500_000, b"data");
        }
    };
    let free = ExtentSet::of(200_000..1_000_000);
    let run = Run { free, witnessed: vec![(0, 4096)], attack: Box::new(attack), ..Run::default() };
    let report = run.copy_disk(&path, &to.path().join("raw")).unwrap();
    first[5..8].copy_from_slice(b"new");
    first[500_000..500_004].copy_from_slice(b"data");
    assert!(report.doubt.is_some() && report.source_written);
    assert_holds(&to.path().join("raw"), &[&first[..], &second[4096..]].concat(), "the disk");
}

#[test]
fn a_disk_in_flat_files_that_change_their_size_is_an_error() {
    let (dir, to) = (temp_dir(), temp_dir());
    flat(dir.path(), &mut Noise::new(9));
    let attack = |event: &Event<'_>, _: &Run<'_>| {
        if let Event::Started(_) = event {
            File::options().write(true).open(dir.path().join("d-f002.vmdk")).unwrap().set_len(2 << 20).unwrap();
        }
    };
    let run = Run { attack: Box::new(attack), ..Run::default() };
    let failure = run.copy_disk(&dir.path().join("d.vmdk"), &to.path().join("raw")).unwrap_err();
    assert_eq!(failure.error.map(|error| error.what), Some(What::SourceResized));
    assert!(!to.path().join("raw").exists());
}

#[test]
fn measuring_a_side_of_a_kept_container_makes_no_copy() {
    let (dir, to) = (temp_dir(), temp_dir());
    flat(dir.path(), &mut Noise::new(8));
    for mode in [Mode::ReadOnly, Mode::WriteOnly] {
        let options = Options { mode, smart: Smart::Snapshot, ..Options::default() };
        let run = Run { free: ExtentSet::of(500_000..1_500_000), options, ..Run::default() };
        let reports = run.keep(&dir.path().join("d.vmdk"), to.path());
        let free: u64 = reports.iter().map(|report| report.stats.free).sum();
        assert!((990_000..1_000_000).contains(&free), "{free}");
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), if mode == Mode::ReadOnly { 0 } else { 3 });
    }
}
