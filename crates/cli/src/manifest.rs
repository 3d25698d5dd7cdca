//! Lists of digests, as the programs that check them read them: `b3sum -c`, `sha256sum -c`, `md5sum -c`, `xxhsum -c`.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

/// A list that gets its name when it is complete.
pub struct Manifest {
    path: PathBuf,
    /// Until it has its name.
    file: Option<BufWriter<NamedTempFile>>,
    /// The first thing that went wrong.
    failed: Option<io::Error>,
}

impl Manifest {
    /// Begins one beside the place where it goes, so that a place where no file can be is known at once.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(path: &Path) -> io::Result<Manifest> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Not made by the library, whose errors do not say what the system said.
        let file = loop {
            let name = dir.join(format!(".haul-{:016x}", RandomState::new().build_hasher().finish()));
            match File::options().write(true).create_new(true).open(&name) {
                Ok(file) => break NamedTempFile::from_parts(file, TempPath::try_from_path(name)?),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        Ok(Manifest { path: path.to_owned(), file: Some(BufWriter::new(file)), failed: None })
    }

    /// Adds a file.
    pub fn add(&mut self, path: &Path, digest: &str) {
        if let (None, Some(file)) = (&self.failed, &mut self.file) {
            self.failed = file.write_all(&line(path, digest)).err();
        }
    }

    /// Gives it its name; with `durable` when it is on the device.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn finish(&mut self, durable: bool) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(file) = self.file.take() else { return Ok(()) };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if durable {
            file.as_file().sync_all()?;
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        if durable {
            let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }
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
