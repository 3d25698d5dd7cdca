//! The files beside a container, which its descriptor names.
//!
//! The descriptor is not trusted: it names plain names in its own directory, regular files, none twice. A copy gets
//! such a name only if it ends in `.vmdk`. Symbolic links are followed if a user named the descriptor, and the user is
//! warned; in a run they are not followed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use haul_guest::ReadAt;
use haul_guest::container::Siblings;
use haul_sys::inode::{FileId, Kind};
use haul_sys::kernel::Kernel;

use haul_fs::walk::Spot;

use super::source::{RawImage, Source};

/// Opens files in the directory in which a source was found. Only regular files, and none twice: whoever wrote the names
/// may be no friend. Symbolic links are followed, like those that users name, and remembered.
pub struct Beside<'a> {
    kernel: &'a Arc<dyn Kernel>,
    source: &'a Source,
    files: RefCell<HashMap<OsString, Source>>,
}

impl<'a> Beside<'a> {
    /// The neighbours of this source.
    pub fn new(kernel: &'a Arc<dyn Kernel>, source: &'a Source) -> Beside<'a> {
        Beside { kernel, source, files: RefCell::default() }
    }

    /// The files that were opened, by their names.
    pub fn into_files(self) -> HashMap<OsString, Source> {
        self.files.into_inner()
    }

    fn is_known(&self, file: FileId) -> bool {
        self.source.inode.id == file || self.files.borrow().values().any(|known| known.inode.id == file)
    }
}

impl Siblings for Beside<'_> {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::Unsupported, why.to_owned());
        let Some(dir) = &self.source.dir else { return Err(refused("other files are not looked for")) };
        let path = self.source.path.with_file_name(name);
        let spot = Spot::new(dir.as_fd(), name, &path);
        let is_link = spot.inode()?.kind == Kind::SymbolicLink;
        let file = Source::open_at(&**self.kernel, spot);
        let file =
            file.map_err(|error| error.errno.map_or_else(|| refused("it is no regular file"), io::Error::from))?;
        if file.inode.kind != Kind::Regular {
            return Err(refused("it is no regular file"));
        }
        if self.is_known(file.inode.id) {
            return Err(refused("it is the same file as another one"));
        }
        let image = RawImage::of(self.kernel, &file);
        self.files.borrow_mut().insert(name.to_owned(), Source { is_link, dir: None, ..file });
        Ok(Arc::new(image))
    }
}
