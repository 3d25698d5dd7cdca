//! A whole disk as an installer leaves it: GPT, an EFI partition, LVM with an ext4 root in two pieces and XFS data, swap.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use haul_testbed::guest::{Noise, digests, feed, has, live_through, run, write_noise};
use haul_testbed::{Bed, Command};

use crate::lvm::Lvm;

const MIB: u64 = 1 << 20;

/// Sizes of the physical volume and its two volumes.
const PHYSICAL: u64 = 560 * MIB;
const ROOT: u64 = 140 * MIB;
const DATA: u64 = 320 * MIB;

/// Files and their digests.
pub type Files = BTreeMap<PathBuf, (u64, u64)>;

/// A part of the disk: an image of it alone, where its pieces lie, and its files.
pub struct Part {
    /// The image of it alone.
    pub image: PathBuf,
    /// Where its pieces lie in the disk, in order, in bytes.
    pub places: Vec<Range<u64>>,
    /// What is in it.
    pub files: Files,
}

/// The disk.
pub struct WholeDisk {
    /// The image of it.
    pub disk: PathBuf,
    /// The EFI partition: FAT.
    pub efi: Part,
    /// A logical volume in two pieces: ext4.
    pub root: Part,
    /// A logical volume: XFS.
    pub data: Part,
    /// A partition for swap.
    pub swap: Part,
    /// Extents of no volume, in bytes.
    pub unused: Vec<Range<u64>>,
}

/// Writes an image to the places in the disk that its pieces go to.
///
/// # Panics
/// If it cannot be read or written.
pub fn place(image: &Path, disk: &File, places: &[Range<u64>]) {
    let file = File::open(image).unwrap();
    for (from, to) in pieces(places) {
        let mut buffer = vec![0; (to.end - to.start) as usize];
        file.read_exact_at(&mut buffer, from).unwrap();
        disk.write_all_at(&buffer, to.start).unwrap();
    }
}

/// Cuts an image out of the disk.
///
/// # Panics
/// If it cannot be read or written.
pub fn cut(disk: &Path, places: &[Range<u64>], image: &Path) {
    let (disk, image) = (File::open(disk).unwrap(), File::create(image).unwrap());
    for (from, to) in pieces(places) {
        let mut buffer = vec![0; (to.end - to.start) as usize];
        disk.read_exact_at(&mut buffer, to.start).unwrap();
        image.write_all_at(&buffer, from).unwrap();
    }
}

/// Where each piece begins in the image of the part alone, and where it lies in the disk.
pub fn pieces(places: &[Range<u64>]) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
    places.iter().scan(0, |from, to| {
        let start = *from;
        *from += to.end - to.start;
        Some((start, to.clone()))
    })
}

/// Fills a mounted image with a past; returns its files.
fn populated(bed: &Bed, kind: &str, image: &Path, seed: u64) -> Files {
    let mounted = bed.mount_image(kind, image, &[]);
    live_through(mounted.path(), 20 * MIB, seed);
    let files = digests(mounted.path());
    mounted.unmount();
    files
}

/// A file of noise of the given size, so that whatever a filesystem does not write is not zero.
fn noise_image(path: &Path, size: u64) {
    write_noise(path, size, &mut Noise::new(size));
}

/// Makes the disk in a directory; `None`, after a skip, where that is not possible.
///
/// # Panics
/// If a program that makes a part of it fails.
pub fn build(bed: &Bed, dir: &Path) -> Option<WholeDisk> {
    let tools = ["sfdisk", "mkfs.vfat", "mkfs.ext4", "mkfs.xfs", "mkswap"];
    if !tools.iter().all(|tool| has(tool)) {
        return None;
    }
    let at = |name: &str| dir.join(name);
    let (efi, root, data, swap, disk) = (at("efi"), at("root"), at("data"), at("swap"), at("disk"));

    let lvm = Lvm::new(&[PHYSICAL], &[])?;
    lvm.run("lvcreate", &["-L", "80M", "-n", "root", "vg0"]);
    lvm.run("lvcreate", &["-L", "320M", "-n", "data", "vg0"]);
    lvm.run("lvextend", &["-L", "140M", "vg0/root"]);
    noise_image(&efi, 40 * MIB);
    run(Command::new("mkfs.vfat").arg("-F32").arg(&efi));
    noise_image(&swap, 24 * MIB);
    run(Command::new("mkswap").args(["-q"]).arg(&swap));
    noise_image(&root, ROOT);
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&root));
    noise_image(&data, DATA);
    run(Command::new("mkfs.xfs").args(["-q", "-f", "-K"]).arg(&data));
    let root_files = populated(bed, "ext4", &root, 1);
    let data_files = populated(bed, "xfs", &data, 2);

    File::create(&disk).unwrap().set_len(640 * MIB).unwrap();
    let script =
        "label: gpt\nstart=1M,size=40M,type=uefi\nstart=41M,size=560M,type=lvm\nstart=601M,size=24M,type=swap\n";
    feed(Command::new("sfdisk").args(["-q", "--no-reread"]).arg(&disk), script);
    let file = File::options().write(true).open(&disk).unwrap();
    // The headers of LVM, then each volume at its extents, as LVM says them.
    let physical = 41 * MIB;
    place(&lvm.path(0), &file, std::slice::from_ref(&(physical..physical + PHYSICAL)));
    let segments = lvm.segments(0);
    let of = |volume: &str| -> Vec<Range<u64>> {
        let own = segments.iter().filter(|(name, _)| name == volume);
        own.map(|(_, range)| physical + range.start..physical + range.end).collect()
    };
    let (root_at, data_at, unused) = (of("root"), of("data"), of(""));
    assert_eq!(root_at.len(), 2, "{segments:?}");
    place(&root, &file, &root_at);
    place(&data, &file, &data_at);
    let one = |start: u64, len: u64| vec![Range { start: start * MIB, end: (start + len) * MIB }];
    let (efi_at, swap_at) = (one(1, 40), one(601, 24));
    place(&efi, &file, &efi_at);
    place(&swap, &file, &swap_at);
    let leftovers: Vec<u8> = Noise::new(3).bytes(MIB as usize);
    unused.iter().for_each(|range| file.write_all_at(&leftovers, range.start).unwrap());
    drop(file);
    let part = |image, places, files| Part { image, places, files };
    Some(WholeDisk {
        disk,
        efi: part(efi, efi_at, Files::new()),
        root: part(root, root_at, root_files),
        data: part(data, data_at, data_files),
        swap: part(swap, swap_at, Files::new()),
        unused,
    })
}

/// Mounts a part of a copy of the disk and compares every file.
///
/// # Panics
/// If it cannot be mounted, or a file differs.
pub fn assert_part(bed: &Bed, copy: &Path, part: &Part, kind: &str, options: &[&str], scratch: &Path) {
    cut(copy, &part.places, scratch);
    let mounted = bed.mount_image(kind, scratch, options);
    assert_eq!(digests(mounted.path()), part.files, "{kind} {options:?}");
    mounted.unmount();
}
