//! What the tests of containers share: a raw disk, every format that qemu-img makes of it, and what qemu-img says of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_guest::container::{self, Opened, Siblings};
use haul_guest::image::ImageFile;
use haul_guest::{ExtentSet, ReadAt, Refusal};
use haul_testbed::Command;
use haul_testbed::guest::{Noise, run};

/// A format as qemu-img makes it.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// What `-O` takes.
    pub name: &'static str,
    /// What `-o` takes.
    pub options: &'static str,
    /// `-c`.
    pub packed: bool,
}

const fn format(name: &'static str, options: &'static str) -> Format {
    Format { name, options, packed: false }
}

const fn packed(name: &'static str, options: &'static str) -> Format {
    Format { name, options, packed: true }
}

/// Everything that is tested.
pub const FORMATS: &[Format] = &[
    format("raw", ""),
    format("qcow2", ""),
    format("qcow2", "compat=0.10"),
    format("qcow2", "cluster_size=512"),
    format("qcow2", "cluster_size=4k"),
    format("qcow2", "cluster_size=2M"),
    format("qcow2", "lazy_refcounts=on"),
    format("qcow2", "refcount_bits=1"),
    format("qcow2", "refcount_bits=64,cluster_size=4k"),
    format("qcow2", "preallocation=metadata"),
    format("qcow2", "preallocation=full"),
    format("qcow2", "extended_l2=on,cluster_size=16k"),
    format("qcow2", "extended_l2=on,cluster_size=128k"),
    packed("qcow2", ""),
    packed("qcow2", "compat=0.10"),
    packed("qcow2", "cluster_size=4k"),
    packed("qcow2", "cluster_size=512"),
    packed("qcow2", "cluster_size=2M"),
    packed("qcow2", "compression_type=zstd"),
    packed("qcow2", "compression_type=zstd,cluster_size=2M"),
    packed("qcow2", "compression_type=zstd,cluster_size=4k"),
    packed("qcow2", "extended_l2=on,cluster_size=64k"),
    format("vmdk", "subformat=monolithicSparse"),
    format("vmdk", "subformat=monolithicSparse,zeroed_grain=on"),
    format("vmdk", "subformat=monolithicFlat"),
    format("vmdk", "subformat=twoGbMaxExtentSparse"),
    format("vmdk", "subformat=twoGbMaxExtentFlat"),
    format("vmdk", "subformat=streamOptimized"),
    format("vhdx", "subformat=dynamic"),
    format("vhdx", "subformat=dynamic,block_size=1M"),
    format("vhdx", "subformat=fixed"),
    format("vdi", ""),
    format("vdi", "static=on"),
    format("vpc", "subformat=dynamic,force_size=on"),
    format("vpc", "subformat=dynamic"),
    format("vpc", "subformat=fixed,force_size=on"),
];

impl Format {
    /// Whether qemu-img knows the gaps of this format.
    pub fn is_mapped(self) -> bool {
        self.name != "vhdx"
    }

    /// Converts a raw image to `disk` in a directory of its own below `dir`.
    pub fn make(self, raw: &Path, dir: &Path) -> PathBuf {
        let own = format!("{}-{}-{}", self.name, self.options.replace([',', '='], "-"), self.packed);
        let own = dir.join(own);
        fs::create_dir(&own).unwrap();
        let disk = own.join(if self.name == "vmdk" { "disk.vmdk" } else { "disk" });
        let mut convert = Command::new("qemu-img");
        convert.args(["convert", "-f", "raw", "-O", self.name]);
        if !self.options.is_empty() {
            convert.args(["-o", self.options]);
        }
        if self.packed {
            convert.arg("-c");
        }
        run(convert.arg(raw).arg(&disk));
        disk
    }
}

/// The files of a directory.
pub struct Dir<'a>(pub &'a Path);

impl Siblings for Dir<'_> {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        Ok(image(&self.0.join(name)))
    }
}

/// Opens a file for reading.
pub fn image(path: &Path) -> Arc<dyn ReadAt> {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    Arc::new(ImageFile::new(file, size))
}

/// Opens a container.
pub fn try_open(path: &Path) -> Result<Opened, Refusal> {
    container::open(image(path), path.file_name().unwrap(), &Dir(path.parent().unwrap()))
}

/// Opens a container that must be right.
pub fn open(path: &Path) -> Opened {
    try_open(path).unwrap_or_else(|refusal| panic!("{}: {refusal}", path.display()))
}

/// Makes a raw disk: noise, zeros and text of odd lengths at odd places, and holes between.
pub fn make_raw(path: &Path, size: u64, seed: u64) -> Vec<u8> {
    let mut noise = Noise::new(seed);
    let mut disk = vec![0; size as usize];
    let mut at = noise.below(3 << 20);
    while at < size {
        let most = [3000, 70_000, 900_000][noise.below(3) as usize];
        let len = (noise.below(most) + 1).min(size - at) as usize;
        let bytes = match noise.below(3) {
            0 => noise.bytes(len),
            1 => vec![0; len],
            _ => b"the same again and again ".iter().copied().cycle().take(len).collect(),
        };
        disk[at as usize..at as usize + len].copy_from_slice(&bytes);
        at += len as u64 + [0, 100, 5000, 400_000, 5_000_000][noise.below(5) as usize];
    }
    // The last bytes are data, so that a short disk shows.
    let tail = noise.bytes(700);
    let start = disk.len() - tail.len();
    disk[start..].copy_from_slice(&tail);
    File::create(path).unwrap().write_all_at(&disk, 0).unwrap();
    disk
}

/// All bytes of a disk, read in pieces of an odd length.
pub fn contents(disk: &dyn ReadAt) -> Vec<u8> {
    let mut bytes = vec![0xa5; disk.size() as usize];
    for (number, piece) in bytes.chunks_mut(333_333).enumerate() {
        disk.read_exact_at(number as u64 * 333_333, piece).unwrap();
    }
    bytes
}

/// The first difference between a disk and what it should be; behind that it may have zeros.
pub fn first_difference(have: &[u8], wanted: &[u8]) -> Option<usize> {
    if have.len() < wanted.len() {
        return Some(have.len());
    }
    let (same, behind) = have.split_at(wanted.len());
    if same != wanted {
        return same.iter().zip(wanted).position(|(a, b)| a != b);
    }
    behind.iter().position(|byte| *byte != 0).map(|at| at + wanted.len())
}

/// What qemu-img reads of a container.
pub fn as_qemu_reads(format: &str, disk: &Path, to: &Path) -> Vec<u8> {
    run(Command::new("qemu-img").args(["convert", "-f", format, "-O", "raw"]).arg(disk).arg(to));
    let bytes = fs::read(to).unwrap();
    fs::remove_file(to).unwrap();
    bytes
}

/// What qemu-img calls zero in a container without looking at data.
pub fn zeros_by_qemu(format: &str, disk: &Path) -> ExtentSet {
    let map = run(Command::new("qemu-img").args(["map", "--output=json", "-f", format]).arg(disk));
    let number = |line: &str, key: &str| -> u64 {
        let (_, rest) = line.split_once(&format!("\"{key}\": ")).unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let zeros = map.lines().filter(|line| line.contains("\"zero\": true"));
    zeros.map(|line| number(line, "start")..number(line, "start") + number(line, "length")).collect()
}
