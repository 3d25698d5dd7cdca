//! Where a path is: its filesystem, and the device below that.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_sys::rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use crate::device::{self, Device};
use crate::mounts::Mount;
use crate::space;
use crate::words;

/// The storage of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// The directory's real path, as far as it is UTF-8.
    pub directory: String,
    /// Type of the filesystem.
    pub filesystem: String,
    /// What is mounted.
    pub source: String,
    /// How it is mounted.
    pub mount_options: String,
    /// The disk, if it has one.
    pub device: Option<Device>,
    /// Bytes that can be written.
    pub free: u64,
}

impl Storage {
    /// That of a directory.
    pub fn of(directory: &Path) -> Result<Storage, String> {
        let failed = words::cannot("look at", directory);
        let directory = directory.canonicalize().map_err(failed)?;
        let number = fs::metadata(&directory).map_err(failed)?.dev();
        let free = space::free(&directory)?;
        let (major, minor) = (major(number), minor(number));
        // The kernel may not report what is mounted there.
        let mount = Mount::of(&directory, &format!("{major}:{minor}"));
        let known =
            |of: fn(&Mount) -> &String| mount.as_ref().map_or_else(|| "unknown".to_owned(), |all| of(all).clone());
        let (filesystem, source) = (known(|mount| &mount.filesystem), known(|mount| &mount.source));
        let named = mount.as_ref().map_or("", |mount| &mount.source);
        let device = device::below(major, minor, named).map(|folder| Device::of(&folder));
        let (mount_options, directory) = (known(|mount| &mount.options), directory.to_string_lossy().into_owned());
        Ok(Storage { directory, filesystem, source, mount_options, device, free })
    }

    /// Whether two descriptions are of one directory: how it is mounted and what is free may differ.
    pub fn is_that_of(&self, other: &Storage) -> bool {
        (&self.directory, &self.filesystem, &self.source) == (&other.directory, &other.filesystem, &other.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_of_a_directory_has_a_filesystem_and_space() {
        let storage = Storage::of(&std::env::temp_dir()).unwrap();
        assert!(storage.free > 0 && storage.filesystem != "unknown", "{storage:?}");
        assert!(Storage::of(Path::new("/no/such/place")).unwrap_err().contains("No such file"));
    }
}
