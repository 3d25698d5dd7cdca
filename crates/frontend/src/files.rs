//! Files that a user names for a command to read or write: file lists, which several processes share that copy a part each,
//! and lists of digests as the programs that check them read them (`b3sum -c`, `sha256sum -c`, `md5sum -c`, `xxhsum -c`).

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use haul_copy::list::{self, FileList, LoadError};
use haul_copy::plan::Plan;
use haul_copy::run;
use haul_sys::inode::{FileId, Inode, Time};
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};
use tempfile::TempPath;

use crate::quote::Quoter;
use crate::words;

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

/// Reads a file list.
///
/// # Errors
/// The message, without the program's name.
pub fn load_list(path: &Path, quoter: &Quoter) -> Result<FileList, Vec<u8>> {
    let loaded = File::open(path).map_err(LoadError::Io).and_then(|mut file| list::load(&mut file));
    loaded.map_err(|error| {
        let why = match &error {
            LoadError::Io(error) => words::io_error(error),
            error => error.to_string(),
        };
        words::unusable("cannot read the file list", path, &why, quoter)
    })
}

/// What has a name: which file it is, and what shows when it was written last.
struct Standing {
    is: (FileId, Option<Time>, Time, u64),
    /// While it is open its number stays its own, also on filesystems that number files as they are looked at.
    #[expect(dead_code, reason = "it is held")]
    held: OwnedFd,
}

/// A file that gets its name when it is complete.
pub struct ListFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// Its name until then. None where the list goes to something that must stay what it is: /dev/stdout, a pipe.
    temporary: Option<TempPath>,
    /// The first thing that went wrong.
    failed: Option<io::Error>,
    /// What had the name when it was begun.
    stood: Option<Standing>,
}

impl ListFile {
    /// Begins one in the directory where it goes, so that it is known at once if no file can be made there.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(path: &Path) -> io::Result<ListFile> {
        let path = target_of(path)?;
        let stood = standing_at(&path);
        let begun =
            |path, file, temporary| ListFile { path, out: BufWriter::new(file), temporary, failed: None, stood };
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok(begun(path, file, None));
        }
        // Not made by the library, whose errors do not say what the system said.
        loop {
            let name = parent_of(&path).join(format!(".haul-{:016x}", RandomState::new().build_hasher().finish()));
            match File::options().write(true).create_new(true).open(&name) {
                Ok(file) => return Ok(begun(path, file, Some(TempPath::try_from_path(name)?))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Which file it is that is written, if it is a new one.
    pub fn id(&self) -> Option<FileId> {
        self.temporary.as_ref()?;
        Inode::of(self.out.get_ref().as_fd()).ok().map(|inode| inode.id)
    }

    /// Adds a file and its digest.
    pub fn add(&mut self, path: &Path, digest: &str) {
        self.write(&line(path, digest));
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(bytes).err();
        }
    }

    /// It cannot be what it is to be.
    pub fn fail(&mut self, why: io::Error) {
        self.failed.get_or_insert(why);
    }

    /// Makes it a file list, and gives it its name.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn save(mut self, entries: &FileList, durable: bool) -> io::Result<()> {
        list::save(entries, &mut self.out)?;
        self.finish(durable)
    }

    /// Gives it its name; with `durable` when it is on the device.
    ///
    /// # Errors
    /// The first thing that went wrong, or that something was written under that name since it was begun, as a copy.
    pub fn finish(&mut self, durable: bool) -> io::Result<()> {
        // Whatever goes wrong, a list that is not whole goes.
        let temporary = self.temporary.take();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.out.flush()?;
        let Some(temporary) = temporary else { return Ok(()) };
        if durable {
            self.out.get_ref().sync_all()?;
        }
        // NFS and FUSE may say only now what became of it.
        haul_sys::close(self.out.get_ref().try_clone()?.into())?;
        let stood = self.stood.as_ref().map(|stood| stood.is);
        if standing_at(&self.path).is_some_and(|stands| Some(stands.is) != stood) {
            return Err(io::Error::other("a file of this name was written meanwhile, and stays"));
        }
        temporary.persist(&self.path).map_err(|error| error.error)?;
        if durable {
            File::open(parent_of(&self.path))?.sync_all()?;
        }
        Ok(())
    }
}

/// What has this name.
fn standing_at(path: &Path) -> Option<Standing> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = openat(CWD, path, flags, Mode::empty()).ok()?;
    let inode = Inode::of(held.as_fd()).ok()?;
    Some(Standing { held, is: (inode.id, inode.born, inode.changed, inode.size) })
}

/// Where a list of this name goes: a symbolic link stays, and the list goes to where it leads.
///
/// # Errors
/// What the system says of a link that leads nowhere.
pub(crate) fn target_of(path: &Path) -> io::Result<PathBuf> {
    if path.is_symlink() { fs::canonicalize(path) } else { Ok(path.to_owned()) }
}

/// Why a list cannot be written here, if it would replace a file of a source. Where this process is not `alone`, or copies a
/// shard, another one would take the list for a file to copy.
pub fn replaces_source(plan: &Plan, path: &Path, alone: bool, quoter: &Quoter) -> Option<Vec<u8>> {
    let target = target_of(path).ok()?;
    let source = run::source_of(plan, &target)?;
    let why: &[u8] = match fs::metadata(&target) {
        Ok(found) if found.is_file() => b"the list would replace ",
        Err(_) if plan.shard.is_some() => b"with --shard the list cannot be ",
        Err(_) if !alone => b"the list of several processes cannot be ",
        _ => return None,
    };
    Some([why, &quoter.path(path), b", which is in the source ", &quoter.path(Path::new(source))].concat())
}

/// One line of a list of digests. A name with a newline, a carriage return or a backslash in it is escaped, and a backslash before
/// the digest says so: the programs that check the list take a carriage return at its end for a part of the line.
pub fn line(path: &Path, digest: &str) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let mut line = Vec::with_capacity(digest.len() + name.len() + 4);
    if name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        line.push(b'\\');
    }
    line.extend_from_slice(digest.as_bytes());
    line.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(br"\\"),
            b'\n' => line.extend_from_slice(br"\n"),
            b'\r' => line.extend_from_slice(br"\r"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn a_list_does_not_replace_what_was_written_since_it_was_begun() {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        for name in ["kept", "written", "replaced", "removed"] {
            fs::write(at(name), "old").unwrap();
        }
        let mut lists = ["kept", "written", "replaced", "removed", "absent", "made"].map(|name| {
            let mut list = ListFile::begin(&at(name)).unwrap();
            list.write(b"list");
            (name, list)
        });
        fs::write(at("written"), "newer").unwrap();
        fs::write(at("other"), "new").and_then(|()| fs::rename(at("other"), at("replaced"))).unwrap();
        fs::remove_file(at("removed")).unwrap();
        fs::write(at("made"), "new").unwrap();
        let ended =
            lists.each_mut().map(|(name, list)| (list.finish(false).is_ok(), fs::read_to_string(at(name)).unwrap()));
        let [list, newer, new] =
            [(true, "list"), (false, "newer"), (false, "new")].map(|(ok, text)| (ok, text.to_owned()));
        assert_eq!(ended, [list.clone(), newer, new.clone(), list.clone(), list, new]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6, "nothing else stays");
    }

    #[test]
    fn a_name_that_would_break_the_line_is_escaped() {
        assert_eq!(line(Path::new("a b"), "12"), b"12  a b\n");
        assert_eq!(line(Path::new("a\nb\\c"), "12"), b"\\12  a\\nb\\\\c\n");
        assert_eq!(line(Path::new("a\r"), "12"), b"\\12  a\\r\n");
    }
}
