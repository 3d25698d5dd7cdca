//! The filesystems that a run writes to, and how each is brought to its device (`--durable`).
//!
//! Every file asks here when it is closed, so nobody holds the list while the kernel is asked for something that may take its
//! time: an open, and above all a sync, which waits for the data of all programs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::rustix::fs::{OFlags, fcntl_getfl};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;
use parking_lot::Mutex;

use haul_sys::inode::DeviceNumber;

use crate::walk::reopen_directory;

/// A filesystem that was written to.
#[derive(Debug, Clone)]
pub(crate) struct Filesystem {
    pub device: DeviceNumber,
    /// Opened before anything was written: syncfs(2) tells the errors since then (Linux 5.8). `None` where nothing could be
    /// opened that it takes.
    pub fd: Option<Arc<OwnedFd>>,
    /// syncfs(2) brings everything to the device.
    pub syncs_whole: bool,
    /// It is worth while to sync it while files are still being copied to it.
    pub syncs_early: bool,
    /// A directory on it, or a file.
    pub path: PathBuf,
}

/// Filesystems whose syncfs(2) writes everything and waits for the device; the numbers are those of statfs(2). Others are
/// synced file by file: FUSE asks its server for nothing but with virtiofs, FAT does not flush the cache of the device, and overlay
/// does not tell what the filesystem below could not write.
const SYNC_WHOLE: [FilesystemType; 9] = [
    FilesystemType::EXT, // ext3, ext4; ext2 by the driver of ext4
    FilesystemType::XFS,
    FilesystemType::BTRFS,
    FilesystemType::F2FS,
    FilesystemType::TMPFS, // tmpfs, which has no device
    FilesystemType::NFS,
    FilesystemType::ZFS,
    FilesystemType::BCACHEFS,
    FilesystemType::CEPH,
];

/// Those of them that sync while others make files. On btrfs each sync commits a transaction, for which all who make files wait:
/// 100,000 small ones were durable after 7.3 s, and by one sync at the end after 5.7 (Linux 6.18). Others were not measured.
const SYNC_EARLY: [FilesystemType; 2] = [FilesystemType::EXT, FilesystemType::XFS];

#[derive(Debug, Default)]
pub(crate) struct Filesystems(Mutex<Vec<Filesystem>>);

/// What [`Filesystems::sync`] has found out: an answer for each filesystem that was synced as a whole.
pub(crate) type Synced = Vec<(DeviceNumber, Result<(), Errno>)>;

impl Filesystems {
    /// Notes that something is going to be written to this filesystem. False if another file may be of more help.
    pub fn note(&self, device: DeviceNumber, path: &Path, fd: BorrowedFd<'_>) -> bool {
        let handle = match self.get(device) {
            Some(Filesystem { fd: Some(_), .. }) => return true,
            Some(_) => {
                // A directory that cannot be read was no help; another one may be, and an open file is.
                let opened = if is_handle(fd) { reopen_directory(fd).ok() } else { fcntl_dupfd_cloexec(fd, 0).ok() };
                let mut known = self.0.lock();
                if let Some(known) = known.iter_mut().find(|known| known.device == device && known.fd.is_none()) {
                    known.fd = opened.map(Arc::new);
                }
                return false;
            }
            None => is_handle(fd),
        };
        // A handle of a directory is not enough; an open file is as it is.
        let opened = match reopen_directory(fd) {
            Ok(opened) => Some(opened),
            Err(_) if handle => None,
            Err(_) => fcntl_dupfd_cloexec(fd, 0).ok(),
        };
        let is_one_of = |kinds: &[FilesystemType]| FilesystemType::of(fd).is_ok_and(|kind| kinds.contains(&kind));
        let found = Filesystem {
            device,
            fd: opened.map(Arc::new),
            syncs_whole: is_one_of(&SYNC_WHOLE),
            syncs_early: is_one_of(&SYNC_EARLY),
            path: path.to_owned(),
        };
        let mut known = self.0.lock();
        // Another thread may have been quicker, and what it has opened has heard of more.
        if known.iter().all(|known| known.device != device) {
            known.push(found);
        }
        false
    }

    /// What is known of the one with this device.
    pub fn get(&self, device: DeviceNumber) -> Option<Filesystem> {
        self.0.lock().iter().find(|filesystem| filesystem.device == device).cloned()
    }

    /// Whether a file on this filesystem has to be synced by itself.
    pub fn syncs_alone(&self, device: DeviceNumber) -> bool {
        self.0.lock().iter().any(|filesystem| filesystem.device == device && !filesystem.syncs_whole)
    }

    /// Those that a sync of everything brings to their devices, and that tell its errors.
    pub fn that_sync_whole(&self) -> Vec<DeviceNumber> {
        let known = self.0.lock();
        known.iter().filter(|known| known.syncs_whole && known.fd.is_some()).map(|known| known.device).collect()
    }

    /// Syncs those of these filesystems that can be synced as a whole, one after the other, each once.
    pub fn sync(&self, devices: &[DeviceNumber], sync: &dyn Fn(BorrowedFd<'_>) -> Result<(), Errno>) -> Synced {
        let synced = |device: &DeviceNumber| {
            let fd = self.get(*device).filter(|filesystem| filesystem.syncs_whole)?.fd?;
            Some((*device, sync(fd.as_fd())))
        };
        devices.iter().filter_map(synced).collect()
    }

    /// Takes all of them, in the order in which they were met.
    pub fn take(&self) -> Vec<Filesystem> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Whatever this filesystem is, it is one that is synced as a whole, or file by file.
    #[cfg(test)]
    pub fn pretend(&self, device: DeviceNumber, syncs_whole: bool) {
        let mut known = self.0.lock();
        let known = known.iter_mut().find(|known| known.device == device).expect("it was noted");
        known.syncs_whole = syncs_whole;
        known.syncs_early &= syncs_whole;
    }
}

/// Whether it is open as a handle only, by which nothing can be synced.
fn is_handle(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    use haul_sys::inode::Inode;
    use haul_testbed::temp_dir;

    use super::*;

    /// Longer than anything here takes, unless it hangs.
    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn other_threads_close_files_while_a_sync_is_under_way() {
        let dir = temp_dir();
        let file = std::fs::File::open(dir.path()).unwrap();
        let device = Inode::of(file.as_fd()).unwrap().id.device();
        let known = Filesystems::default();
        known.note(device, dir.path(), file.as_fd());
        known.pretend(device, true);
        let (closed, heard) = channel();
        thread::scope(|scope| {
            let held = |_: BorrowedFd<'_>| {
                let (closed, known, file) = (closed.clone(), &known, &file);
                // What every thread asks at the end of every file.
                scope.spawn(move || {
                    closed.send((known.syncs_alone(device), known.note(device, "f".as_ref(), file.as_fd()))).ok();
                });
                match heard.recv_timeout(DEADLINE) {
                    Ok(answers) => {
                        assert_eq!(answers, (false, true));
                        Ok(())
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(Errno::TIMEDOUT),
                }
            };
            assert_eq!(known.sync(&[device], &held), [(device, Ok(()))]);
        });
    }

    #[test]
    fn overlay_is_synced_file_by_file() {
        assert!(!SYNC_WHOLE.contains(&FilesystemType::OVERLAY));
        assert!(SYNC_EARLY.iter().all(|early| SYNC_WHOLE.contains(early)));
    }

    #[test]
    fn a_filesystem_that_syncs_file_by_file_is_not_synced_as_a_whole() {
        let dir = temp_dir();
        let file = std::fs::File::open(dir.path()).unwrap();
        let device = Inode::of(file.as_fd()).unwrap().id.device();
        let known = Filesystems::default();
        known.note(device, dir.path(), file.as_fd());
        known.pretend(device, false);
        assert!(known.syncs_alone(device) && known.that_sync_whole().is_empty());
        assert_eq!(known.sync(&[device], &|_| panic!("nobody asks it")), []);
    }
}
