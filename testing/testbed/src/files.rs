//! Files with contents that show every mistake, and the comparison of two files.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

const CYCLE: usize = 251;
const SECTOR: usize = 512;
const CHUNK: usize = 1 << 20;

/// `len` bytes of test data, as they stand at the beginning of a painted file.
pub fn painted(len: usize) -> Vec<u8> {
    painted_at(0, len)
}

/// The test data that stands at `offset`: a cycle of 251 bytes, a prime, so that no shift by a power of two goes
/// unseen, and in the first 8 bytes of each 512-byte sector its number, so that swapped sectors show.
pub fn painted_at(offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, offset);
    bytes
}

fn fill(bytes: &mut [u8], offset: u64) {
    let mut cycle = [0u8; CYCLE + SECTOR];
    for (at, byte) in cycle.iter_mut().enumerate() {
        *byte = (at % CYCLE) as u8 + 1;
    }
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let (sector, inside) = (at / SECTOR as u64, (at % SECTOR as u64) as usize);
        let piece = (SECTOR - inside).min(bytes.len() - done);
        let phase = (at % CYCLE as u64) as usize;
        bytes[done..done + piece].copy_from_slice(&cycle[phase..phase + piece]);
        // Odd multiplier: distinct sectors get distinct marks.
        let mark = (sector + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        for place in inside..mark.len().min(inside + piece) {
            bytes[done + place - inside] ^= mark[place];
        }
        done += piece;
    }
}

/// Writes test data into the range of an open file.
///
/// # Panics
/// If it cannot be written.
pub fn paint(file: &File, offset: u64, len: u64) {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(len).unwrap_or(CHUNK))];
    let mut done = 0;
    while done < len {
        let piece = buffer.len().min(usize::try_from(len - done).unwrap_or(CHUNK));
        fill(&mut buffer[..piece], offset + done);
        file.write_all_at(&buffer[..piece], offset + done).expect("cannot paint");
        done += piece as u64;
    }
}

/// Makes a new file of painted bytes.
///
/// # Panics
/// If it exists or cannot be written.
pub fn create_painted(path: impl AsRef<Path>, len: u64) {
    let file = File::create_new(path.as_ref()).expect("cannot create");
    paint(&file, 0, len);
}

/// Makes a new file of `size` bytes that is one hole but for the painted ranges, each given as offset and length.
///
/// # Panics
/// If it exists or cannot be written.
pub fn sparse_file(path: impl AsRef<Path>, size: u64, data: &[(u64, u64)]) {
    let file = File::create_new(path.as_ref()).expect("cannot create");
    file.set_len(size).expect("cannot set the size");
    for &(offset, len) in data {
        paint(&file, offset, len);
    }
    assert_eq!(file.metadata().expect("cannot stat").len(), size, "a painted range goes beyond the size");
}

/// Bytes that a file occupies, metadata of the filesystem not counted.
///
/// Delayed allocation counts on some filesystems only once it is done, so the file is synced first.
///
/// # Panics
/// If it cannot be examined.
pub fn allocated(path: impl AsRef<Path>) -> u64 {
    let file = File::open(path.as_ref()).expect("cannot open");
    file.sync_all().expect("cannot sync");
    fs::metadata(path.as_ref()).expect("cannot stat").blocks() * 512
}

/// The ranges that hold data, as the kernel tells them: offset and length.
///
/// # Panics
/// If it cannot be examined.
pub fn data_extents(file: &File) -> Vec<(u64, u64)> {
    let mut extents = Vec::new();
    let mut at = 0;
    while let Some(start) = next_data(file, at) {
        let end = seek(file, SeekFrom::Hole(start)).expect("cannot look for a hole");
        extents.push((start, end - start));
        at = end;
    }
    extents
}

fn next_data(file: &File, at: u64) -> Option<u64> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => Some(start),
        Err(Errno::NXIO) => None,
        Err(errno) => panic!("cannot look for data: {errno}"),
    }
}

/// The first byte in which two files of any size differ; if one is a part of the other, its size.
///
/// Ranges that the kernel calls holes in both files are not read.
///
/// # Panics
/// If one cannot be read.
pub fn first_difference(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Option<u64> {
    let open = |path: &Path| File::open(path).unwrap_or_else(|error| panic!("cannot open {path:?}: {error}"));
    let (a, b) = (open(a.as_ref()), open(b.as_ref()));
    let size = |file: &File| file.metadata().expect("cannot stat").len();
    let (a_size, b_size) = (size(&a), size(&b));
    let common = a_size.min(b_size);
    let (mut a_bytes, mut b_bytes) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < common {
        let data = |file: &File| next_data(file, at).unwrap_or(common);
        at = data(&a).min(data(&b)).min(common);
        let piece = CHUNK.min(usize::try_from(common - at).unwrap_or(CHUNK));
        a.read_exact_at(&mut a_bytes[..piece], at).expect("cannot read");
        b.read_exact_at(&mut b_bytes[..piece], at).expect("cannot read");
        if a_bytes[..piece] != b_bytes[..piece] {
            let inside = a_bytes.iter().zip(&b_bytes).position(|(a, b)| a != b).expect("they differ");
            return Some(at + inside as u64);
        }
        at += piece as u64;
    }
    (a_size != b_size).then_some(common)
}

/// Two files have the same size and the same bytes.
///
/// # Panics
/// If not, with the first byte that differs.
#[track_caller]
pub fn assert_same_contents(a: impl AsRef<Path>, b: impl AsRef<Path>) {
    let (a, b) = (a.as_ref(), b.as_ref());
    if let Some(at) = first_difference(a, b) {
        let size = |path: &Path| fs::metadata(path).expect("cannot stat").len();
        panic!("{a:?} ({} bytes) and {b:?} ({} bytes) differ at byte {at}", size(a), size(b));
    }
}
