//! Extended attributes of a directory that is held by a descriptor opened with `O_PATH`, since Linux 6.13.
//!
//! The calls refuse such a descriptor with an empty path, but they take a name that is looked up in it, and `.` is the
//! directory itself, whatever happens to its own name meanwhile. Nothing here needs /proc.

use std::ffi::{CStr, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

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
