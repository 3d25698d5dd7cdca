//! Filesystems whose power is cut, again and again from the same beginning.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Command;
use crate::bed::{Bed, Fs};
use crate::files::data_extents;
use crate::guest::{Mounted, copy_range, run};
use crate::temporary::temp_dir_in;

/// Cuts the power of a mounted ext4 or XFS: what its journal has not committed, and all data that was not written back, is
/// lost. To see what is left, unmount it and mount it again. What the kernel has handed to the device counts as written:
/// a device that loses its own cache is another matter (`writes`).
///
/// # Panics
/// If the filesystem has no such switch.
pub fn cut(mount_point: &Path) {
    let root = File::open(mount_point).expect("cannot open a mount point");
    haul_sys::for_tests::cut_power(&root).expect("cannot cut the power of a filesystem");
}

/// An image of a filesystem with files on it, to be copied for each cut.
pub struct Template {
    kind: Fs,
    /// In memory: a cut wants no disk, and many of them would wait for one.
    dir: TempDir,
}

impl Template {
    /// Makes a filesystem of at least `size` bytes, lets `fill` put files on it, and unmounts it cleanly. `None`, after a
    /// skip, where the machine lacks its mkfs.
    ///
    /// # Panics
    /// If it cannot be mounted.
    #[must_use]
    pub fn new(bed: &Bed, kind: Fs, size: u64, fill: impl FnOnce(&Path)) -> Option<Template> {
        let dir = temp_dir_in(&bed.mount(Fs::Tmpfs)?);
        let image = dir.path().join("template");
        if !kind.format(&image, size.max(kind.smallest())) {
            return None;
        }
        let mounted = bed.mount_image(kind.kernel_type(), &image, &[]);
        fill(mounted.path());
        mounted.unmount();
        // mkfs.xfs writes its log full of zeros where it cannot ask for them.
        run(Command::new("fallocate").arg("--dig-holes").arg(&image));
        Some(Template { kind, dir })
    }

    /// A new image like the template, by a name that is used for nothing else at the moment.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn image(&self, name: &str) -> Image {
        let path = self.dir.path().join(name);
        copy(&self.dir.path().join("template"), &path);
        Image { kind: self.kind, path }
    }
}

/// An image file of a filesystem, removed when dropped.
pub struct Image {
    kind: Fs,
    path: PathBuf,
}

impl Image {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Another image of the same contents, in the same directory.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn copy(&self, name: &str) -> Image {
        let path = self.path.with_file_name(name);
        copy(&self.path, &path);
        Image { kind: self.kind, path }
    }

    /// Mounts it, which replays its journal.
    ///
    /// # Panics
    /// If it cannot be mounted.
    pub fn mount(&self, bed: &Bed) -> Mounted {
        bed.mount_image(self.kind.kernel_type(), &self.path, &[])
    }

    /// What the filesystem's own checker finds in it, which must have been mounted and unmounted after the last cut: an empty
    /// journal is part of being clean.
    ///
    /// # Errors
    /// What the checker says, if it is not content.
    ///
    /// # Panics
    /// If there is no checker.
    pub fn check(&self) -> Result<(), String> {
        let (checker, options): (_, &[&str]) = match self.kind {
            Fs::Ext4 => ("e2fsck", &["-f", "-n"]),
            Fs::Xfs | Fs::XfsNoReflink => ("xfs_repair", &["-n"]),
            Fs::Btrfs => ("btrfs", &["check", "--readonly"]),
            Fs::Tmpfs => panic!("there are no images of tmpfs"),
        };
        let done = Command::new(checker).args(options).arg(&self.path).output().expect("cannot start a checker");
        if done.status.success() {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(format!("{checker}: {}\n{}{}", done.status, text(&done.stdout), text(&done.stderr)))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Best effort: it is in a temporary directory.
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// Copies a file with its holes.
fn copy(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).expect("cannot open an image"), File::create(to).expect("cannot make an image"));
    to.set_len(from.metadata().expect("cannot look at an image").len()).expect("cannot set the size of an image");
    for (start, len) in data_extents(&from) {
        copy_range(&from, &to, start, start + len);
    }
}
