//! Mounted filesystems that vanish with the thread that made them, however it ends.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::Command;
use crate::fuse::FuseMount;
use crate::guest::Mounted;
use crate::skip::skip;
use crate::temporary::{temp_dir, temp_dir_in};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A kind of filesystem to test on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fs {
    /// ext4: no reflink; answers STATX_DIOALIGN.
    Ext4,
    /// XFS with reflink.
    Xfs,
    /// XFS without reflink.
    XfsNoReflink,
    /// btrfs.
    Btrfs,
    /// tmpfs: no block device below.
    Tmpfs,
}

impl Fs {
    /// The four kinds that everything is tested on.
    pub const ALL: [Fs; 4] = [Fs::Ext4, Fs::Xfs, Fs::Btrfs, Fs::Tmpfs];

    /// Its name, also as a word in file names.
    pub fn name(self) -> &'static str {
        match self {
            Fs::Ext4 => "ext4",
            Fs::Xfs => "xfs",
            Fs::XfsNoReflink => "xfs-no-reflink",
            Fs::Btrfs => "btrfs",
            Fs::Tmpfs => "tmpfs",
        }
    }

    /// Whether files can share extents there.
    pub fn reflinks(self) -> bool {
        matches!(self, Fs::Xfs | Fs::Btrfs)
    }

    /// The smallest image that its mkfs takes, in bytes.
    pub fn smallest(self) -> u64 {
        match self {
            Fs::Ext4 | Fs::Tmpfs => MIB,
            Fs::Xfs | Fs::XfsNoReflink => 300 * MIB,
            Fs::Btrfs => 114 * MIB,
        }
    }

    fn mkfs(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            // A test image lives for a moment: no background initialisation of inode tables.
            Fs::Ext4 => Some(("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=1,nodiscard"])),
            Fs::Xfs => Some(("mkfs.xfs", &["-q", "-f", "-K", "-m", "reflink=1"])),
            Fs::XfsNoReflink => Some(("mkfs.xfs", &["-q", "-f", "-K", "-m", "reflink=0"])),
            Fs::Btrfs => Some(("mkfs.btrfs", &["-q", "-f", "-K"])),
            Fs::Tmpfs => None,
        }
    }

    /// Makes an image file with an empty filesystem of this kind. `false`, after a [`skip`], where the machine lacks its
    /// mkfs.
    ///
    /// # Panics
    /// If there is a mkfs and it fails, or for a kind that has no images.
    #[must_use]
    pub fn format(self, image: &Path, size: u64) -> bool {
        let (mkfs, options) = self.mkfs().unwrap_or_else(|| panic!("there are no images of {}", self.name()));
        File::create_new(image).and_then(|file| file.set_len(size)).expect("cannot make an image file");
        match Command::new(mkfs).args(options).arg(image).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skip(format!("{mkfs} is not installed"));
                return false;
            }
            Err(error) => panic!("cannot start {mkfs}: {error}"),
            Ok(done) => assert!(done.status.success(), "{mkfs}: {}", String::from_utf8_lossy(&done.stderr)),
        }
        true
    }

    /// Its name for mount(8).
    pub fn kernel_type(self) -> &'static str {
        match self {
            Fs::XfsNoReflink => "xfs",
            other => other.name(),
        }
    }
}

/// A private mount namespace of the calling thread, with a tmpfs under [`Bed::path`] for mount points.
///
/// Threads and processes started from this thread see the mounts, nobody else does. When the last of them is gone,
/// killed or not, the mounts and their loop devices go too; the image files are unlinked as soon as they are mounted.
/// The path is the same in every test, since each has a namespace of its own.
pub struct Bed {
    root: PathBuf,
    mounted: RefCell<Vec<(Fs, PathBuf)>>,
    images: Cell<u32>,
    // The namespace belongs to this thread.
    _not_send: PhantomData<*const ()>,
}

impl Bed {
    /// Gives the calling thread its own mounts; `None`, after a [`skip`], where that is not permitted.
    ///
    /// # Panics
    /// If it is permitted and fails all the same.
    #[must_use]
    pub fn new() -> Option<Bed> {
        if let Err(errno) = haul_sys::for_tests::unshare_mounts() {
            skip(format!("no private mount namespace: {errno} (needs root)"));
            return None;
        }
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).expect("cannot make the mounts private");
        let root = std::env::temp_dir().join("haul-testbed");
        fs::create_dir_all(&root).expect("cannot make the mount point of the test bed");
        mount("tmpfs", "tmpfs", &["mode=755,size=64m"], &root).expect("cannot mount the test bed");
        Some(Bed { root, mounted: RefCell::default(), images: Cell::new(0), _not_send: PhantomData })
    }

    /// The directory below which everything is mounted; a tmpfs of 64 MiB.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The mount point of a roomy filesystem (6 GiB, taken from the disk as it fills), the same one each time.
    /// `None`, after a [`skip`], where the machine lacks its mkfs or its driver.
    #[must_use]
    pub fn mount(&self, kind: Fs) -> Option<PathBuf> {
        if let Some((_, path)) = self.mounted.borrow().iter().find(|(have, _)| *have == kind) {
            return Some(path.clone());
        }
        let path = self.make(kind, 6 * GIB, &self.root.join(kind.name()))?;
        self.mounted.borrow_mut().push((kind, path.clone()));
        Some(path)
    }

    /// The mount point of a new, small filesystem of about `size` bytes (at least [`Fs::smallest`]), to fill up.
    /// `None`, after a [`skip`], where the machine lacks its mkfs or its driver.
    #[must_use]
    pub fn small(&self, kind: Fs, size: u64) -> Option<PathBuf> {
        let number = self.images.get();
        self.images.set(number + 1);
        self.make(kind, size.max(kind.smallest()), &self.root.join(format!("{}-{number}", kind.name())))
    }

    /// Mounts an image file, through a loop device that goes with the mount. `options` as for mount(8), with `loop` first
    /// among them by itself (`["ro", "noload"]`, `["offset=1048576"]`).
    ///
    /// # Panics
    /// If it cannot be mounted: what a test builds must be mountable.
    pub fn mount_image(&self, kind: &str, image: &Path, options: &[&str]) -> Mounted {
        Mounted::mount(temp_dir_in(self.path()).keep(), kind, image, options)
    }

    /// Mounts an image file by `program IMAGE DIRECTORY -o OPTIONS`, which goes to the background by itself
    /// ("ntfs-3g").
    ///
    /// # Panics
    /// If it cannot be mounted: what a test builds must be mountable.
    pub fn mount_fuse(&self, program: &str, image: &Path, options: &[&str]) -> FuseMount {
        FuseMount::mount(temp_dir_in(self.path()).keep(), program, image, options)
    }

    fn make(&self, kind: Fs, size: u64, at: &Path) -> Option<PathBuf> {
        // It is there where this was tried before, without success.
        fs::create_dir_all(at).expect("cannot make a mount point");
        if kind == Fs::Tmpfs {
            mount("tmpfs", "tmpfs", &["mode=755", &format!("size={size}")], at).expect("cannot mount a tmpfs");
            return Some(at.to_owned());
        }
        let images = temp_dir();
        let image = images.path().join("image");
        if !kind.format(&image, size) {
            return None;
        }
        let image = image.to_str().expect("the temporary directory has an odd name");
        match mount(kind.kernel_type(), image, &["loop"], at) {
            Ok(()) => Some(at.to_owned()),
            Err(message) => {
                skip(format!("cannot mount {}: {message}", kind.name()));
                None
            }
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Best effort: the end of the thread would do the same.
        if let Err(errno) = unmount(&self.root, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {errno}", self.root.display());
        }
    }
}

fn mount(kind: &str, what: &str, options: &[&str], at: &Path) -> Result<(), String> {
    let done = Command::new("mount")
        .args(["-t", kind, "-o", &options.join(","), what])
        .arg(at)
        .output()
        .map_err(|error| error.to_string())?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()) }
}
