//! The files that are copied: of one size, and as many as there is time and space for.

use std::fs::File;
use std::path::Path;

use haul_io::profile::SizeClass;
use haul_measure::stop::Stop;
use haul_measure::words;
use haul_sys::rustix::fs::syncfs;

use crate::measure::sources;

/// Files of one directory, as far as there are enough: threads that copy wait for each other's directories.
const TOGETHER: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub each: u64,
    pub count: u64,
}

impl Shape {
    pub fn bytes(self) -> u64 {
        self.each.saturating_mul(self.count)
    }

    /// Bytes that it takes on a filesystem, about.
    pub fn room(self) -> u64 {
        self.each.next_multiple_of(4096).saturating_add(1024).saturating_mul(self.count)
    }
}

/// The size of the files that stand for a class, and the least and most of them that are copied together.
pub fn extent(class: SizeClass) -> (u64, u64, u64) {
    match class {
        SizeClass::Tiny => (8 << 10, 64, 4096),
        SizeClass::Small => (1 << 20, 4, 128),
        SizeClass::Medium => (8 << 20, 1, 16),
        SizeClass::Large => (64 << 20, 1, 4),
        SizeClass::Huge => (2 << 30, 1, 1),
    }
}

/// Makes it, of random bytes by this seed; then it is on the device and not in the page cache.
///
/// # Errors
/// A message that says what failed; also when it was stopped.
pub fn make(path: &Path, shape: Shape, seed: u64, stop: &Stop) -> Result<(), String> {
    // Large ones do not all wait for one sync, and fill the memory until then.
    let whole = shape.each >= SizeClass::Medium.least();
    sources::tree(path, std::iter::repeat_n(shape.each, shape.count as usize), (TOGETHER, whole), seed, stop)?;
    let failed = words::cannot("make", path);
    let folder = File::open(path).map_err(failed)?;
    syncfs(folder).map_err(|errno| failed(errno.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_files_of_a_class_are_of_that_class_and_two_seeds_give_other_bytes() {
        for class in SizeClass::ALL {
            let (each, least, most) = extent(class);
            assert_eq!(SizeClass::of(each), class);
            assert!(least > 0 && least <= most);
        }
        let dir = haul_testbed::temp_dir();
        let shape = Shape { each: 5000, count: 130 };
        for seed in [1, 2] {
            make(&dir.path().join(seed.to_string()), shape, seed, &Stop::default()).unwrap();
        }
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert!(read("1/d2/f129").len() == 5000 && read("1/d0/f0") != read("2/d0/f0"));
        assert_eq!(fs::read_dir(dir.path().join("1/d1")).unwrap().count(), 64);
    }
}
