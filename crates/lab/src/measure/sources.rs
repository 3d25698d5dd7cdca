//! What is copied: data that no device, hypervisor or filesystem can make smaller.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use fastrand::Rng;
use haul_measure::stop::Stop;
use haul_measure::words;
use haul_sys::page_cache;

const BUFFER: usize = 1 << 20;

/// Writes `size` bytes to a new file, and lets the page cache forget them: what is warm is to be read from the device first, in
/// the large folios of the kernel's read-ahead, as a user's files are.
///
/// # Errors
/// A message that says what failed; also when it was stopped.
pub fn file(path: &Path, size: u64, seed: u64, stop: &Stop) -> Result<(), String> {
    let failed = words::cannot("write", path);
    let mut file = File::create_new(path).map_err(failed)?;
    write(&mut file, size, &mut Rng::with_seed(seed), stop, failed)?;
    file.sync_all().map_err(failed)?;
    page_cache::forget(file.as_fd(), 0, size).map_err(|errno| failed(errno.into()))
}

/// Writes `size` random bytes.
///
/// # Errors
/// What `failed` says of an error; also when it was stopped.
fn write(
    file: &mut File,
    size: u64,
    random: &mut Rng,
    stop: &Stop,
    failed: impl Fn(io::Error) -> String,
) -> Result<(), String> {
    let mut buffer = vec![0; BUFFER];
    let mut left = size;
    while left > 0 {
        if stop.is_stopped() {
            return Err("interrupted".to_owned());
        }
        let part = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
        random.fill(&mut buffer[..part]);
        file.write_all(&buffer[..part]).map_err(&failed)?;
        left -= part as u64;
    }
    Ok(())
}

/// Makes a new tree of files of these sizes, so many to a directory: `d0/f0` and so on. With `whole` each is made by [`file`];
/// else nobody has synced it.
pub fn tree(
    path: &Path,
    sizes: impl Iterator<Item = u64>,
    (together, whole): (u64, bool),
    seed: u64,
    stop: &Stop,
) -> Result<(), String> {
    let failed = words::cannot("make", path);
    fs::create_dir(path).map_err(failed)?;
    for (number, size) in (0..).zip(sizes) {
        let folder = path.join(format!("d{}", number / together));
        if number % together == 0 {
            fs::create_dir(&folder).map_err(failed)?;
        }
        let (path, seed) = (folder.join(format!("f{number}")), seed.wrapping_add(number + 1));
        match whole {
            true => file(&path, size, seed, stop)?,
            false => {
                write(&mut File::create_new(&path).map_err(failed)?, size, &mut Rng::with_seed(seed), stop, failed)?
            }
        }
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
        tree(&path, (0..70).map(|number| 100 + number), (32, true), 1, &Stop::default()).unwrap();
        let (mut files, mut bytes) = (0, 0);
        for folder in fs::read_dir(&path).unwrap() {
            for file in fs::read_dir(folder.unwrap().path()).unwrap() {
                files += 1;
                bytes += file.unwrap().metadata().unwrap().len();
            }
        }
        assert_eq!((files, bytes), (70, 7000 + 35 * 69));
    }
}
