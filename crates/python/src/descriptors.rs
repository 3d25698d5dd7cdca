//! The data of one open file.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_copy::plan::Reflink;
use haul_copy::{Cancel as Flag, Pace};
use haul_io::control::Control;
use haul_io::engine::Failure;
use haul_io::moved::Moved;
use haul_io::options::DataOptions;
use haul_io::strategy::Demands;
use haul_io::transfer::{Cause, Mover, Stop, Transfer, has_storage};
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::{self, Linux};
use haul_sys::rustix::fs::{fsync, syncfs};
use haul_sys::rustix::io::retry_on_intr;
use haul_sys::{Errno, process_descriptor};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::meter::Meter;
use crate::wait::{self, Cancel};

/// Files up to this size in bytes are copied without a thread of their own: nobody waits for long.
const SHORT: u64 = 4 << 20;

/// Moves all data from one descriptor to another, which is of an empty file, or of what has no size. Returns the bytes by the way
/// that they went: shared, copied in the kernel, written, and holes.
///
/// # Errors
/// OSError with what the kernel said.
#[pyfunction]
#[pyo3(signature = (source, dest, *, reflink = "auto", sync = false, progress = None))]
pub fn copy_data(
    py: Python<'_>,
    source: i32,
    dest: i32,
    reflink: &str,
    sync: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64, u64, u64)> {
    let options = DataOptions { reflink: reflink_of(reflink)?, ..DataOptions::default() };
    let open = |fd| process_descriptor::duplicate(fd).map(Arc::new).map_err(os_error);
    let sides = [open(source)?, open(dest)?];
    let inode = |fd: &Arc<OwnedFd>| Inode::of(fd.as_fd()).map_err(os_error);
    let inodes = [inode(&sides[0])?, inode(&sides[1])?];
    let (cancel, meter) = (Cancel::default(), Meter::default());
    let flag = &cancel.0;
    let work = || move_data(sides, &inodes, &options, (&meter, flag), sync);
    // Of a device or a FIFO nobody knows when it ends.
    let regular = inodes.iter().all(|inode| inode.kind == Kind::Regular);
    let short = regular && inodes[0].size <= SHORT && progress.is_none() && has_storage(&inodes[0]);
    let moved = if short { py.detach(work) } else { wait::for_work(py, flag, &meter, progress, work)? };
    let Moved { cloned, offloaded, written, holes } = moved.map_err(os_error)?;
    Ok((cloned, offloaded, written, holes))
}

/// Asks whether two files can share extents at all, and changes no contents.
///
/// # Errors
/// OSError with what the kernel said, if they cannot.
#[pyfunction]
pub fn can_share(source: i32, dest: i32) -> PyResult<()> {
    let open = |fd| process_descriptor::duplicate(fd).map_err(os_error);
    let (source, dest) = (open(source)?, open(dest)?);
    kernel::can_share(&Linux, source.as_fd(), dest.as_fd()).map_err(os_error)
}

/// Waits until everything on the filesystem of a file is on its device.
///
/// # Errors
/// OSError with what the kernel said.
#[pyfunction]
pub fn sync_filesystem(py: Python<'_>, file: i32) -> PyResult<()> {
    let file = process_descriptor::duplicate(file).map_err(os_error)?;
    py.detach(|| retry_on_intr(|| syncfs(&file))).map_err(os_error)
}

/// When extents are shared.
///
/// # Errors
/// ValueError for any other word.
pub fn reflink_of(word: &str) -> PyResult<Reflink> {
    match word {
        "auto" => Ok(Reflink::Auto),
        "always" => Ok(Reflink::Always),
        "never" => Ok(Reflink::Never),
        _ => Err(PyValueError::new_err(format!("reflink is {word:?}: it must be 'auto', 'always' or 'never'"))),
    }
}

fn os_error(errno: Errno) -> PyErr {
    PyOSError::new_err((errno.raw_os_error(), errno.to_string()))
}

fn move_data(
    sides: [Arc<OwnedFd>; 2],
    inodes: &[Inode; 2],
    options: &DataOptions,
    (progress, cancel): (&Meter, &Flag),
    sync: bool,
) -> Result<Moved, Errno> {
    let dest = Arc::clone(&sides[1]);
    let job = Transfer::new(sides, [&inodes[0], &inodes[1]], Demands { durable: sync, ..Demands::NONE });
    let control = Control { progress, cancel, pace: &Pace::default() };
    let report = Mover::default().move_data(&job, options, control);
    match report.stopped {
        None => {}
        Some(Stop::Cancelled) => return Err(Errno::CANCELED),
        Some(Stop::Failed(cause)) => return Err(errno_of(cause)),
    }
    if sync {
        retry_on_intr(|| fsync(&dest))?;
    }
    drop(job);
    // NFS and FUSE may say only here what became of the data, and only to the first that closes the file.
    Arc::into_inner(dest).map_or(Ok(()), haul_sys::close)?;
    Ok(report.moved)
}

fn errno_of(cause: Cause) -> Errno {
    match cause {
        Cause::Moving(Failure { errno, .. })
        | Cause::Truncating(errno)
        | Cause::Extending(errno)
        | Cause::Closing(errno)
        | Cause::NotCloned(errno) => errno,
        _ => Errno::IO,
    }
}
