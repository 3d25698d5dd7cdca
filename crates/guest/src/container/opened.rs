//! The files that a container consists of, and how they are found.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

use super::disk::VirtualDisk;
use crate::image::ReadAt;

/// A container and the files that it consists of.
pub struct Opened {
    /// The virtual disk.
    pub disk: Arc<VirtualDisk>,
    /// Its files. The first is the one that was opened.
    pub parts: Vec<Part>,
}

/// One file of a container.
#[derive(Clone)]
pub struct Part {
    /// Its name, without directory. That of the first is as given to [`open`](super::open), others are beside it.
    pub name: OsString,
    /// What is in it.
    pub role: Role,
    /// The file itself, byte by byte.
    pub file: Arc<dyn ReadAt>,
}

/// What a file of a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Data of the disk, with or without tables.
    Data,
    /// A text that names the other files. Holds no data; is copied as it is.
    Descriptor,
}

/// Opens the files that a container names beside itself.
pub trait Siblings {
    /// Opens a file of this name in the container's own directory, for reading. The name is never empty, `.` or `..`, and holds
    /// neither slash nor backslash nor NUL. Who follows a symbolic link there should say so.
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>>;
}

/// No other files, for containers that must be one file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Siblings for Alone {
    fn open(&self, _: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "other files are not looked for"))
    }
}
