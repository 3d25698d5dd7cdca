//! What is copied: data that no device, hypervisor or filesystem can make smaller.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use haul_measure::stop::Stop;
use haul_measure::words::{self, quoted};
use haul_sys::page_cache;

const BUFFER: usize = 1 << 20;
/// Files of a tree in one directory.
const TOGETHER: u64 = 32;

/// A stream of bytes that do not repeat (xorshift64*).
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// Another stream for each seed.
    pub fn new(seed: u64) -> Noise {
        // Zero would give nothing but zeros.
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.number().to_ne_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

/// Writes `size` bytes to a new file, and lets the page cache forget them: what is warm is to be read from the device first, in
/// the large folios of the kernel's read-ahead, as a user's files are.
///
/// # Errors
/// A message that says what failed; also when it was stopped.
pub fn file(path: &Path, size: u64, seed: u64, stop: &Stop) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {}", quoted(path), words::of(&error));
    let mut file = File::create_new(path).map_err(failed)?;
    let mut noise = Noise::new(seed);
    let mut buffer = vec![0; BUFFER];
    let mut left = size;
    while left > 0 {
        if stop.is_stopped() {
            return Err("interrupted".to_owned());
        }
        let part = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
        noise.fill(&mut buffer[..part]);
        file.write_all(&buffer[..part]).map_err(failed)?;
        left -= part as u64;
    }
    file.sync_all().map_err(failed)?;
    page_cache::forget(file.as_fd(), 0, size).map_err(|errno| failed(errno.into()))
}

/// Makes a new tree of `files` files with `total` bytes together, 32 to a directory.
///
/// # Errors
/// As [`file()`].
pub fn tree(path: &Path, total: u64, files: u64, seed: u64, stop: &Stop) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot make {}: {}", quoted(path), words::of(&error));
    fs::create_dir(path).map_err(failed)?;
    let (each, rest) = (total / files.max(1), total % files.max(1));
    for number in 0..files {
        let folder = path.join(format!("d{:03}", number / TOGETHER));
        if number % TOGETHER == 0 {
            fs::create_dir(&folder).map_err(failed)?;
        }
        let size = each + u64::from(number < rest);
        file(&folder.join(format!("f{number:04}")), size, seed.wrapping_add(number + 1), stop)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_as_many_files_and_bytes_as_it_should() {
        let dir = haul_testbed::temp_dir();
        let path = dir.path().join("tree");
        tree(&path, 1_000_003, 70, 1, &Stop::default()).unwrap();
        let (mut files, mut bytes) = (0, 0);
        for folder in fs::read_dir(&path).unwrap() {
            for file in fs::read_dir(folder.unwrap().path()).unwrap() {
                files += 1;
                bytes += file.unwrap().metadata().unwrap().len();
            }
        }
        assert_eq!((files, bytes), (70, 1_000_003));
    }

    #[test]
    fn noise_neither_repeats_nor_is_the_same_for_two_seeds() {
        let bytes = |seed| {
            let mut bytes = vec![0; 1 << 16];
            Noise::new(seed).fill(&mut bytes);
            bytes
        };
        let (one, two) = (bytes(1), bytes(2));
        assert_ne!(one, two);
        let pages: std::collections::HashSet<&[u8]> = one.chunks(64).chain(two.chunks(64)).collect();
        assert_eq!(pages.len(), 2 << 10);
    }
}
