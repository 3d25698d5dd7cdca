//! Extended attributes of a directory that is held by a descriptor opened with `O_PATH`, and of what is in it, since Linux 6.13.
//!
//! The calls refuse such a descriptor with an empty path, but they take a name that is looked up in it, and `.` is the
//! directory itself, whatever happens to its own name meanwhile. Only [`has_xattrs`] uses
//! /proc, before that.

use std::ffi::{CStr, OsStr, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs;
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use crate::syscall::{number, outcome};

const SETXATTRAT: c_long = number(463);
const GETXATTRAT: c_long = number(464);
const LISTXATTRAT: c_long = number(465);
const REMOVEXATTRAT: c_long = number(466);

/// The kernel's `struct xattr_args`.
#[repr(C, align(8))]
struct Arguments {
    value: u64,
    size: u32,
    flags: u32,
}

/// The kernel has no such calls: it is asked once.
static MISSING: AtomicBool = AtomicBool::new(false);

/// The kernel lacks the calls, a filter forbids them, the inode is no directory, or we may not search it: then there
/// must be another way to it.
pub(crate) fn is_no_way(errno: Errno) -> bool {
    matches!(errno, Errno::NOSYS | Errno::NOTDIR | Errno::ACCESS | Errno::PERM)
}

/// The names of all attributes, into the capacity of the buffer. Returns how long they are.
pub(crate) fn list(directory: BorrowedFd<'_>, names: &mut Vec<u8>) -> Result<usize, Errno> {
    let spare = names.spare_capacity_mut();
    let (start, size) = (spare.as_mut_ptr(), spare.len());
    // SAFETY: a descriptor that lives, a string with an end, and memory of this size that the kernel writes to.
    let length = call(|| unsafe {
        libc::syscall(LISTXATTRAT, directory.as_raw_fd(), c".".as_ptr(), 0_usize, start.cast::<c_void>(), size)
    })?;
    // SAFETY: the kernel has filled that many bytes, at most `size`.
    unsafe { names.set_len(names.len() + length) };
    Ok(length)
}

/// Whether the entry of this name in a directory has extended attributes that the caller may see; that of a symbolic link is the
/// link. Opens nothing.
///
/// # Errors
/// As listxattr(2); ENOENT also where the kernel lacks listxattrat(2) and /proc is not there.
pub fn has_xattrs(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Errno> {
    let found = name.into_with_c_str(|name| {
        // SAFETY: a descriptor that lives and a string with an end; of no memory, the kernel gives the size that it would take.
        let list = || unsafe {
            let no_follow = libc::AT_SYMLINK_NOFOLLOW as libc::c_uint;
            libc::syscall(
                LISTXATTRAT,
                directory.as_raw_fd(),
                name.as_ptr(),
                no_follow,
                ptr::null_mut::<c_void>(),
                0_usize,
            )
        };
        call(list)
    });
    let found = if found == Err(Errno::NOSYS) { list_by_proc(directory, name) } else { found };
    match found {
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(Errno::RANGE) => Ok(true),
        found => found.map(|length| length > 0),
    }
}

/// How long the names of all attributes of an entry are, as before Linux 6.13.
fn list_by_proc(directory: BorrowedFd<'_>, name: &OsStr) -> Result<usize, Errno> {
    let path = Path::new("/proc/thread-self/fd").join(directory.as_raw_fd().to_string()).join(name);
    retry_on_intr(|| fs::llistxattr(&path, &mut [0_u8; 256]))
}

/// The value of an attribute, into the capacity of the buffer. Returns how long it is.
pub(crate) fn get(directory: BorrowedFd<'_>, name: &CStr, value: &mut Vec<u8>) -> Result<usize, Errno> {
    let spare = value.spare_capacity_mut();
    // The kernel's limit for a value is 64 KiB.
    let size = u32::try_from(spare.len()).unwrap_or(u32::MAX);
    let arguments = Arguments { value: spare.as_mut_ptr().expose_provenance() as u64, size, flags: 0 };
    // SAFETY: a descriptor that lives, two strings with an end, and a struct whose size is passed along and that
    // names memory of our own, of the size that it says; the kernel writes there.
    let length = call(|| unsafe { with_arguments(GETXATTRAT, directory, name, &arguments) })?;
    // SAFETY: the kernel has filled that many bytes, at most `size`.
    unsafe { value.set_len(value.len() + length) };
    Ok(length)
}

/// Sets an attribute, new or not.
pub(crate) fn set(directory: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    let size = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
    let arguments = Arguments { value: value.as_ptr().expose_provenance() as u64, size, flags: 0 };
    // SAFETY: as for reading; the kernel only reads from there.
    call(|| unsafe { with_arguments(SETXATTRAT, directory, name, &arguments) }).map(drop)
}

/// Removes an attribute.
pub(crate) fn remove(directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    // SAFETY: a descriptor that lives and two strings with an end; the kernel writes nothing.
    call(|| unsafe { libc::syscall(REMOVEXATTRAT, directory.as_raw_fd(), c".".as_ptr(), 0_usize, name.as_ptr()) })
        .map(drop)
}

/// # Safety
/// The arguments must name memory that may be read or written as the call does it.
unsafe fn with_arguments(number: c_long, directory: BorrowedFd<'_>, name: &CStr, arguments: &Arguments) -> c_long {
    // SAFETY: as the caller says.
    unsafe {
        libc::syscall(
            number,
            directory.as_raw_fd(),
            c".".as_ptr(),
            0_usize,
            name.as_ptr(),
            &raw const *arguments,
            size_of::<Arguments>(),
        )
    }
}

/// Makes the call unless the kernel is known not to have it; gives its count.
fn call(make: impl FnOnce() -> c_long) -> Result<usize, Errno> {
    if MISSING.load(Ordering::Relaxed) {
        return Err(Errno::NOSYS);
    }
    let result = make();
    match outcome(result) {
        Ok(()) => usize::try_from(result).map_err(|_| Errno::IO),
        Err(Errno::NOSYS) => {
            MISSING.store(true, Ordering::Relaxed);
            Err(Errno::NOSYS)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{Mode, OFlags, open};

    use super::*;

    #[test]
    fn what_is_in_a_directory_is_asked_without_opening_it() {
        let path = std::env::temp_dir().join(format!("haul-xattr-in-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let held = open(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        std::fs::write(path.join("plain"), "").unwrap();
        std::fs::write(path.join("marked"), "").unwrap();
        std::os::unix::fs::symlink("marked", path.join("link")).unwrap();
        let marked = fs::setxattr(path.join("marked"), "user.haul", b"value", fs::XattrFlags::empty());
        let names = ["plain", "marked", "link"].map(AsRef::as_ref);
        let found = names.map(|name| has_xattrs(held.as_fd(), name));
        let by_proc = names.map(|name| list_by_proc(held.as_fd(), name).map(|length| length > 0));
        let gone = has_xattrs(held.as_fd(), "gone".as_ref());
        std::fs::remove_dir_all(&path).unwrap();
        if marked == Err(Errno::OPNOTSUPP) {
            assert!(std::env::var_os("CI").is_none(), "the filesystem has no user attributes");
            eprintln!("skipped: the filesystem has no user attributes");
            return;
        }
        // A security module may have marked the others.
        assert_eq!((found, found[1], gone), (by_proc, Ok(true), Err(Errno::NOENT)));
    }

    #[test]
    fn a_directory_is_reached_under_its_own_name_in_itself() {
        let path = std::env::temp_dir().join(format!("haul-xattr-at-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let held = open(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        // Whatever becomes of its name.
        let moved = path.with_extension("moved");
        std::fs::rename(&path, &moved).unwrap();
        let result = set(held.as_fd(), c"user.haul", b"value");
        let (mut names, mut value) = (Vec::with_capacity(256), Vec::with_capacity(256));
        let listed = list(held.as_fd(), &mut names);
        let read = get(held.as_fd(), c"user.haul", &mut value);
        let small = get(held.as_fd(), c"user.haul", &mut Vec::with_capacity(3));
        let removed = remove(held.as_fd(), c"user.haul");
        let again = remove(held.as_fd(), c"user.haul");
        std::fs::remove_dir(&moved).unwrap();
        if result == Err(Errno::NOSYS) {
            assert!(std::env::var_os("CI").is_none(), "the kernel has no setxattrat");
            eprintln!("skipped: the kernel has no setxattrat (6.13)");
            return;
        }
        assert_eq!((result, listed, read), (Ok(()), Ok(names.len()), Ok(5)));
        assert_eq!(value, b"value");
        assert!(names.split(|byte| *byte == 0).any(|name| name == b"user.haul"));
        assert_eq!((small, removed, again), (Err(Errno::RANGE), Ok(()), Err(Errno::NODATA)));
    }

    #[test]
    fn what_is_no_directory_must_be_reached_otherwise() {
        let held = open(std::env::current_exe().unwrap(), OFlags::PATH, Mode::empty()).unwrap();
        let errno = list(held.as_fd(), &mut Vec::with_capacity(16)).unwrap_err();
        assert!(is_no_way(errno), "{errno}");
    }
}
