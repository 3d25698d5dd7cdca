//! Files that a user names for a command to read or write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use haul_sys::rustix::fs::OFlags;

/// Opens a file to read. Whatever else has this name, such as a FIFO, must not keep anybody waiting.
///
/// # Errors
/// What the system says, or that it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// The directory that has this name in it.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
