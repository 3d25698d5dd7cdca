//! Where a path is: its filesystem, and the device below that.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_sys::rustix::fs::{major, minor};

use crate::device::{self, Device};
use crate::mounts::Mount;
use crate::space;
use crate::words;

/// The storage of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The directory's real path.
    pub directory: PathBuf,
    /// What is mounted there, if the kernel tells.
    pub mount: Option<Mount>,
    /// The disk, if it has one.
    pub device: Option<Device>,
    /// Bytes that can be written.
    pub free: u64,
}

impl Storage {
    /// That of a directory.
    ///
    /// # Errors
    /// When the directory cannot be looked at.
    pub fn of(directory: &Path) -> Result<Storage, String> {
        let failed = words::cannot("look at", directory);
        let directory = directory.canonicalize().map_err(failed)?;
        let number = fs::metadata(&directory).map_err(failed)?.dev();
        let free = space::free(&directory)?;
        let (major, minor) = (major(number), minor(number));
        let mount = Mount::of(&directory, &format!("{major}:{minor}"));
        let source = mount.as_ref().map_or("", |mount| &mount.source);
        let device = device::below(major, minor, source).map(|folder| Device::of(&folder));
        Ok(Storage { directory, mount, device, free })
    }

    /// Type of the filesystem.
    pub fn filesystem(&self) -> &str {
        self.mount.as_ref().map_or("unknown", |mount| &mount.filesystem)
    }

    /// What is mounted.
    pub fn source(&self) -> &str {
        self.mount.as_ref().map_or("unknown", |mount| &mount.source)
    }

    /// How it is mounted.
    pub fn options(&self) -> &str {
        self.mount.as_ref().map_or("unknown", |mount| &mount.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_of_a_directory_has_a_filesystem_and_space() {
        let storage = Storage::of(&std::env::temp_dir()).unwrap();
        assert!(storage.free > 0 && storage.filesystem() != "unknown", "{storage:?}");
        assert!(Storage::of(Path::new("/no/such/place")).unwrap_err().contains("No such file"));
    }
}
