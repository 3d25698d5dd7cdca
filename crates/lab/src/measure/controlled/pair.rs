//! A file and its copy while its bytes are moved, and what is said if that fails.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_io::engine::Refusal;
use haul_measure::words;
use haul_sys::Errno;

use crate::measure::failure::Failure;

/// The alignment that O_DIRECT is given where the kernel does not say what it needs.
pub(super) const PAGE: u32 = 4096;

/// A file and its copy, both open.
pub(super) struct Pair {
    pub(super) source: Arc<OwnedFd>,
    pub(super) dest: Arc<OwnedFd>,
    pub(super) size: u64,
    /// The path of the source, for messages.
    path: PathBuf,
}

impl Pair {
    pub(super) fn open(source: &Path, dest: &Path) -> Result<Pair, Failure> {
        let file = File::open(source).map_err(|error| Failure::Failed(words::cannot("open", source)(error)))?;
        let size = file.metadata().map_err(|error| Failure::Failed(words::cannot("read", source)(error)))?.len();
        // Opened to be read, too, as the laboratory's other copies are: some filesystems write partial pages only then.
        let copy = File::options().read(true).write(true).create_new(true).open(dest);
        let copy = copy.map_err(|error| Failure::Failed(words::cannot("make", dest)(error)))?;
        Ok(Pair { source: Arc::new(file.into()), dest: Arc::new(copy.into()), size, path: source.into() })
    }
}

/// Why an engine does not move these bytes.
pub fn why(refusal: Refusal) -> String {
    match refusal {
        Refusal::Unsupported(errno) => words::of(&errno.into()),
        Refusal::NoDirectIo => "no direct I/O".to_owned(),
        Refusal::NoProgress => "it moves nothing".to_owned(),
        _ => "it does not suit these files".to_owned(),
    }
}

pub(super) fn failed(pair: &Pair, errno: Errno) -> Failure {
    Failure::Failed(format!("cannot copy {}: {}", words::quoted(&pair.path), words::of(&errno.into())))
}

pub(super) fn refused(what: &str, errno: Errno) -> Failure {
    Failure::Refused(format!("{what}: {}", words::of(&errno.into())))
}
