//! Directories that are opened by a path, and what is done with all the names in one.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use haul_sys::Errno;
use haul_sys::rustix::fs::{
    AtFlags, Dir, DirEntry, Mode, OFlags, StatxAttributes, StatxFlags, fcntl_setfl, fsync, openat, statx,
};
use haul_sys::rustix::io::retry_on_intr;
use haul_sys::rustix::path::Arg;

/// Opens a directory as a handle, which cannot be read: by its name in another one, or by a path. Links are followed.
///
/// # Errors
/// As openat(2).
pub fn open_directory(from: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    openat(from, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a directory, which may be open as a handle, to be read.
///
/// # Errors
/// As openat(2).
pub fn reopen_directory(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// From now on reading an open directory does not set its time of access, where the kernel lets the caller have that: the owner
/// and root (`O_NOATIME` of open(2), by fcntl(2)).
pub fn set_noatime(dir: impl AsFd) {
    // Who may not have it reads as usual.
    _ = fcntl_setfl(dir, OFlags::NOATIME);
}

/// Everything in a directory, which may be open as a handle, as far as it can be read.
pub fn entries_of(dir: BorrowedFd<'_>) -> impl Iterator<Item = DirEntry> {
    reopen_directory(dir).and_then(Dir::new).into_iter().flatten().map_while(Result::ok)
}

/// Whether there is nothing in a directory, which may be open as a handle.
///
/// # Errors
/// As openat(2) and getdents(2).
pub fn is_empty_directory(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    for entry in Dir::new(reopen_directory(dir)?)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether something is mounted on a directory that was opened in `above`, be it a part of the same filesystem.
///
/// # Errors
/// As statx(2); ENOSYS where an old kernel does not say it.
pub fn is_mounted(dir: BorrowedFd<'_>, above: BorrowedFd<'_>) -> Result<bool, Errno> {
    let found = statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8.
    match [dir, above].map(mount_number) {
        [Some(of_dir), Some(of_above)] => Ok(of_dir != of_above),
        _ => Err(Errno::NOSYS),
    }
}

/// The mount that an open file is on: proc_pid_fdinfo(5).
fn mount_number(fd: BorrowedFd<'_>) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Brings the names in a directory, which may be open as a handle, to the device.
///
/// # Errors
/// As openat(2) and fsync(2).
pub fn sync_directory(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let opened = reopen_directory(dir)?;
    retry_on_intr(|| fsync(&opened))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn a_directory_is_empty_without_names_of_its_own() {
        let dir = temp_dir();
        let open = || File::open(dir.path()).unwrap();
        assert_eq!(is_empty_directory(open().as_fd()), Ok(true));
        fs::write(dir.path().join(".hidden"), "").unwrap();
        assert_eq!(is_empty_directory(open().as_fd()), Ok(false));
    }

    #[test]
    fn a_mount_shows_at_its_directory() {
        let [root, proc] = ["/", "/proc"].map(|path| File::open(path).unwrap());
        assert_eq!(is_mounted(proc.as_fd(), root.as_fd()), Ok(true));
        let dir = temp_dir();
        fs::create_dir(dir.path().join("plain")).unwrap();
        let [above, plain] = [dir.path().to_owned(), dir.path().join("plain")].map(|path| File::open(path).unwrap());
        assert_eq!(is_mounted(plain.as_fd(), above.as_fd()), Ok(false));
        assert_ne!(mount_number(proc.as_fd()), mount_number(root.as_fd()), "the old way says the same");
        assert_eq!(mount_number(plain.as_fd()), mount_number(above.as_fd()));
    }
}
