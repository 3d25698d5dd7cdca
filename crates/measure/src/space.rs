//! Space, which is asked for before anything is written.

use std::fs;
use std::path::Path;

use haul_sys::rustix::fs::statvfs;

use crate::stop::Stop;
use crate::words::{self, quoted};

/// Left free besides: a filesystem that is filled to the last block is slow, and others want to write, too.
const SPARE: u64 = 64 << 20;

/// Bytes that can be written in a directory.
pub fn free(directory: &Path) -> Result<u64, String> {
    let space = statvfs(directory).map_err(words::cannot("look at", directory))?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Whether so many bytes can be written in a directory, with some to spare.
///
/// # Errors
/// A message that says how many are missing.
pub fn check(directory: &Path, needed: u64, for_what: &str) -> Result<(), String> {
    let free = free(directory)?;
    let wanted = needed.saturating_add(SPARE);
    if free >= wanted {
        return Ok(());
    }
    Err(format!(
        "{for_what} needs {} in {}, and {} are free; choose smaller sizes or another directory",
        words::bytes(wanted),
        quoted(directory),
        words::bytes(free)
    ))
}

/// Entries below a path and bytes of its files.
pub fn entries_below(path: &Path, stop: &Stop) -> std::io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok((1, metadata.len()));
    }
    let mut sum = (1, 0);
    for entry in fs::read_dir(path)? {
        if stop.is_stopped() {
            break;
        }
        let below = entries_below(&entry?.path(), stop)?;
        sum = (sum.0 + below.0, sum.1 + below.1);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_reported_with_both_figures() {
        let dir = haul_testbed::temp_dir();
        assert_eq!(check(dir.path(), 0, "this"), Ok(()));
        let message = check(dir.path(), 1 << 60, "this").unwrap_err();
        assert!(message.starts_with("this needs 1 EiB in ") && message.contains(" are free"), "{message}");
    }
}
