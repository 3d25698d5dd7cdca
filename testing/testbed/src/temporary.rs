//! Directories that vanish with who made them.

use std::path::Path;

use tempfile::TempDir;

/// A new directory in `dir`, removed when dropped.
///
/// # Panics
/// If it cannot be made.
pub fn temp_dir_in(dir: &Path) -> TempDir {
    TempDir::with_prefix_in("haul-", dir).expect("cannot make a temporary directory")
}

/// A new directory on the ordinary disk, removed when dropped. Needs no privilege.
///
/// # Panics
/// If it cannot be made.
pub fn temp_dir() -> TempDir {
    TempDir::with_prefix("haul-").expect("cannot make a temporary directory")
}
