//! Files that get their names when they are complete, and lists of digests as the programs that check them read them:
//! `b3sum -c`, `sha256sum -c`, `md5sum -c`, `xxhsum -c`.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_sys::inode::{FileId, Inode};
use tempfile::{NamedTempFile, TempPath};

use crate::files::parent_of;

/// Where the list is written.
enum Target {
    /// A new file.
    New(NamedTempFile),
    /// Something that is no file and must stay what it is: /dev/stdout, a pipe.
    There(File),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::New(file) => file.write(bytes),
            Target::There(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that gets its name when it is complete.
pub struct ListFile {
    path: PathBuf,
    /// Until it has its name.
    file: Option<BufWriter<Target>>,
    /// The first thing that went wrong.
    failed: Option<io::Error>,
}

impl ListFile {
    /// Begins one in the directory where it goes, so that it is known at once if no file can be made there.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(path: &Path) -> io::Result<ListFile> {
        let path = &target_of(path)?;
        let begun = |target| ListFile { path: path.to_owned(), file: Some(BufWriter::new(target)), failed: None };
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                return Ok(begun(Target::There(File::options().write(true).open(path)?)));
            }
            _ => {}
        }
        let dir = parent_of(path);
        // Not made by the library, whose errors do not say what the system said.
        let file = loop {
            let name = dir.join(format!(".haul-{:016x}", RandomState::new().build_hasher().finish()));
            match File::options().write(true).create_new(true).open(&name) {
                Ok(file) => break NamedTempFile::from_parts(file, TempPath::try_from_path(name)?),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        Ok(begun(Target::New(file)))
    }

    /// Which file it is that is written, if it is a new one.
    pub fn id(&self) -> Option<FileId> {
        match self.file.as_ref()?.get_ref() {
            Target::New(file) => Inode::of(file.as_file().as_fd()).ok().map(|inode| inode.id),
            Target::There(_) => None,
        }
    }

    /// Adds a file.
    pub fn add(&mut self, path: &Path, digest: &str) {
        if let (None, Some(file)) = (&self.failed, &mut self.file) {
            self.failed = file.write_all(&line(path, digest)).err();
        }
    }

    /// Lets somebody else write what is in it.
    pub fn write(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) {
        if let (None, Some(file)) = (&self.failed, &mut self.file) {
            self.failed = write(file).err();
        }
    }

    /// Gives it its name; with `durable` when it is on the device.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn finish(&mut self, durable: bool) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let file = match file.into_inner().map_err(io::IntoInnerError::into_error)? {
            Target::New(file) => file,
            Target::There(_) => return Ok(()),
        };
        if durable {
            file.as_file().sync_all()?;
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        if durable {
            File::open(parent_of(&self.path))?.sync_all()?;
        }
        Ok(())
    }
}

/// Where a list of this name goes: a symbolic link stays, and the list goes to where it leads.
///
/// # Errors
/// What the system says of a link that leads nowhere.
pub fn target_of(path: &Path) -> io::Result<PathBuf> {
    if path.is_symlink() { fs::canonicalize(path) } else { Ok(path.to_owned()) }
}

/// One line. A name with a newline or a backslash in it is escaped, and a backslash before the digest says so.
pub fn line(path: &Path, digest: &str) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let mut line = Vec::with_capacity(digest.len() + name.len() + 4);
    if name.iter().any(|byte| matches!(byte, b'\\' | b'\n')) {
        line.push(b'\\');
    }
    line.extend_from_slice(digest.as_bytes());
    line.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(br"\\"),
            b'\n' => line.extend_from_slice(br"\n"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_break_the_line_is_escaped() {
        assert_eq!(line(Path::new("a b"), "12"), b"12  a b\n");
        assert_eq!(line(Path::new("a\nb\\c"), "12"), b"\\12  a\\nb\\\\c\n");
    }
}
