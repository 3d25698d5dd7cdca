//! Whether a copy is right: names, kinds, contents and, if wanted, all metadata, by two threads.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_sys::rustix::fs::{Advice, SeekFrom, fadvise, lgetxattr, llistxattr, seek};
use haul_sys::rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::shell::{self, Result};

const THREADS: usize = 2;
const BUFFER: usize = 1 << 20;
/// Large files are compared in pieces of so many bytes, so that both threads have work.
const PIECE: u64 = 64 << 20;
/// Differences that are reported one by one.
const REPORTED: usize = 3;

/// Kinds of metadata that a copy has not kept, each with the number of entries.
pub type Lost = BTreeMap<String, u64>;

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Entries that were compared.
    pub entries: u64,
    /// Number of entries that are missing, too many, of another kind, or differ in contents.
    pub wrong: u64,
    /// The first of them, in words.
    pub reported: Vec<String>,
    pub lost: Lost,
}

struct Entry {
    name: PathBuf,
    one: Metadata,
    two: Metadata,
}

/// A piece of work: an entry, and for large files a range of it.
struct Piece {
    entry: usize,
    range: Option<(u64, u64)>,
}

impl Found {
    /// One sentence if the copy is wrong.
    pub fn sentence(&self) -> Option<String> {
        (self.wrong > 0).then(|| format!("{} of {} entries: {}", self.wrong, self.entries, self.reported.join("; ")))
    }

    fn wrong(&mut self, name: &Path, what: &str) {
        self.wrong += 1;
        if self.reported.len() < REPORTED {
            // The copied file itself has no name below itself.
            let name = if name.as_os_str().is_empty() { Path::new("it") } else { name };
            self.reported.push(format!("{} {what}", name.display()));
        }
    }

    fn lost(&mut self, what: &str) {
        *self.lost.entry(what.to_owned()).or_default() += 1;
    }

    fn add(&mut self, other: Found) {
        self.entries += other.entries;
        self.wrong += other.wrong;
        self.reported.extend(other.reported);
        self.reported.truncate(REPORTED);
        for (what, count) in other.lost {
            *self.lost.entry(what).or_default() += count;
        }
    }
}

/// [`compare`] in a process of its own, whose memory is not counted to the programs that are started later.
pub fn apart(source: &Path, dest: &Path, metadata: bool) -> Result<Found> {
    let mut command = shell::own("compare-copies")?;
    command.arg(source).arg(dest).arg(if metadata { "all" } else { "contents" });
    serde_json::from_str(&shell::output(&mut command)?).map_err(|error| error.to_string())
}

/// The process: prints what it found.
pub fn process(args: &[String]) -> Result {
    let [source, dest, what] = args else { return Err("compare-copies wants two paths and what to compare".into()) };
    let found = compare(Path::new(source), Path::new(dest), what == "all")?;
    println!("{}", serde_json::to_string(&found).map_err(|error| error.to_string())?);
    Ok(())
}

/// Compares a copy with its source. The copy's pages are dropped from memory, the source's stay.
pub fn compare(source: &Path, dest: &Path, metadata: bool) -> Result<Found> {
    let mut found = Found::default();
    let mut entries = Vec::new();
    list(source, dest, &mut entries, &mut found).map_err(|error| format!("cannot list {}: {error}", dest.display()))?;
    found.entries += entries.len() as u64;
    if metadata {
        hard_links(&entries, &mut found);
    }
    let pieces = pieces(&entries);
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Ok(found));
    let work = || {
        let mut own = Found::default();
        let mut buffers = (vec![0; BUFFER], vec![0; BUFFER]);
        let outcome = loop {
            let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) else { break Ok(()) };
            let entry = &entries[piece.entry];
            let (one, two) = (join(source, &entry.name), join(dest, &entry.name));
            if let Err(error) = examine(entry, piece, (&one, &two), metadata, &mut buffers, &mut own) {
                break Err(format!("cannot compare {}: {error}", two.display()));
            }
        };
        let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (&mut *total, outcome) {
            (Ok(found), Ok(())) => found.add(own),
            (all @ Ok(_), Err(why)) => *all = Err(why),
            (Err(_), _) => {}
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// `root` itself for an empty name: a trailing slash would follow a link.
fn join(root: &Path, name: &Path) -> PathBuf {
    if name.as_os_str().is_empty() { root.to_owned() } else { root.join(name) }
}

/// All pairs of entries, without recursion in the stack.
fn list(source: &Path, dest: &Path, entries: &mut Vec<Entry>, found: &mut Found) -> io::Result<()> {
    let mut stack = vec![PathBuf::new()];
    while let Some(name) = stack.pop() {
        let one = join(source, &name).symlink_metadata()?;
        let two = match join(dest, &name).symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.entries += 1;
                found.wrong(&name, "is missing");
                continue;
            }
            other => other?,
        };
        if one.file_type() != two.file_type() {
            found.wrong(&name, "is of another kind");
        } else if one.is_dir() {
            let (ours, theirs) = (names(&join(source, &name))?, names(&join(dest, &name))?);
            for extra in theirs.iter().filter(|extra| ours.binary_search(extra).is_err()) {
                found.wrong(&name.join(extra), "is not in the source");
            }
            stack.extend(ours.into_iter().map(|child| name.join(child)));
        }
        entries.push(Entry { name, one, two });
    }
    Ok(())
}

fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Large files in ranges; everything else whole. The first piece of each entry looks at its metadata.
fn pieces(entries: &[Entry]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (entry, both) in entries.iter().enumerate() {
        let size = both.one.len();
        if !both.one.is_file() || size <= 2 * PIECE {
            pieces.push(Piece { entry, range: None });
            continue;
        }
        let starts = (0..size).step_by(usize::try_from(PIECE).unwrap_or(usize::MAX));
        pieces.extend(starts.map(|start| Piece { entry, range: Some((start, (start + PIECE).min(size))) }));
    }
    pieces
}

fn examine(
    entry: &Entry,
    piece: &Piece,
    (one, two): (&Path, &Path),
    metadata: bool,
    buffers: &mut (Vec<u8>, Vec<u8>),
    found: &mut Found,
) -> io::Result<()> {
    let kind = entry.one.file_type();
    if kind != entry.two.file_type() {
        return Ok(()); // counted already
    }
    let (start, end) = piece.range.unwrap_or((0, entry.one.len()));
    if kind.is_file() {
        if entry.one.len() != entry.two.len() {
            if start == 0 {
                found.wrong(&entry.name, &format!("has {} bytes, not {}", entry.two.len(), entry.one.len()));
            }
        } else if end > start && !same_bytes(one, two, start, end, buffers)? {
            found.wrong(&entry.name, "differs in contents");
        }
    } else if kind.is_symlink() && fs::read_link(one)? != fs::read_link(two)? {
        found.wrong(&entry.name, "points elsewhere");
    }
    if metadata && start == 0 {
        attributes(entry, one, two, found)?;
    }
    Ok(())
}

fn attributes(entry: &Entry, source: &Path, dest: &Path, found: &mut Found) -> io::Result<()> {
    let (one, two) = (&entry.one, &entry.two);
    let kind = one.file_type();
    let what = |file: &'static str, dir: &'static str, link: &'static str| {
        if kind.is_dir() {
            dir
        } else if kind.is_symlink() {
            link
        } else {
            file
        }
    };
    if (one.uid(), one.gid()) != (two.uid(), two.gid()) {
        found.lost("owner");
    }
    if one.mode() != two.mode() {
        found.lost(what("mode", "mode of directories", "mode of links"));
    }
    if (one.mtime(), one.mtime_nsec()) != (two.mtime(), two.mtime_nsec()) {
        let rough = one.mtime() == two.mtime();
        found.lost(if rough { "nanoseconds" } else { what("mtime", "mtime of directories", "mtime of links") });
    }
    if (kind.is_block_device() || kind.is_char_device()) && one.rdev() != two.rdev() {
        found.wrong(&entry.name, "is another device");
    }
    let (ours, theirs) = (xattrs(source)?, xattrs(dest)?);
    if ours != theirs {
        let acl = |all: &BTreeMap<Vec<u8>, Vec<u8>>, only: bool| {
            all.clone()
                .into_iter()
                .filter(|(name, _)| name.starts_with(b"system.posix_acl") == only)
                .collect::<Vec<_>>()
        };
        for (only, word) in [(true, "ACL"), (false, "xattr")] {
            if acl(&ours, only) != acl(&theirs, only) {
                found.lost(word);
            }
        }
    }
    Ok(())
}

fn xattrs(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut list = vec![0_u8; 1 << 16]; // the kernel's limit
    let length = match llistxattr(path, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 1 << 16]; // the kernel's limit
        let length = lgetxattr(path, name, &mut value[..])?;
        value.truncate(length);
        all.insert(name.to_owned(), value);
    }
    Ok(all)
}

/// Names that are one file in the source must be one file in the copy, and no others.
fn hard_links(entries: &[Entry], found: &mut Found) {
    let mut groups: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
    let mut backwards: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
    for entry in entries.iter().filter(|entry| !entry.one.is_dir() && (entry.one.nlink() > 1 || entry.two.nlink() > 1))
    {
        let (one, two) = ((entry.one.dev(), entry.one.ino()), (entry.two.dev(), entry.two.ino()));
        if *groups.entry(one).or_insert(two) != two || *backwards.entry(two).or_insert(one) != one {
            found.lost("hard links");
        }
    }
}

/// Whether two files have the same bytes from `start` to `end`. Where both have a hole nothing needs to be read.
fn same_bytes(one: &Path, two: &Path, start: u64, end: u64, buffers: &mut (Vec<u8>, Vec<u8>)) -> io::Result<bool> {
    let (first, second) = (File::open(one)?, File::open(two)?);
    let mut at = start;
    let same = loop {
        at = data(&first, at, end)?.min(data(&second, at, end)?);
        if at >= end {
            break true;
        }
        // Up to the end of a hole or of data: more than one buffer would be read again by the next look.
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(BUFFER);
        let (left, right) = (&mut buffers.0[..length], &mut buffers.1[..length]);
        let read = |file: &File, into: &mut [u8]| match file.read_exact_at(into, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            other => other.map(|()| true),
        };
        if !read(&first, left)? || !read(&second, right)? || left != right {
            break false;
        }
        at += length as u64;
    };
    // Old copies must not fill the memory.
    let length = std::num::NonZeroU64::new(end - start);
    fadvise(&second, start, length, Advice::DontNeed)?;
    Ok(same)
}

/// Where the next data begins, at most `end`.
fn data(file: &File, at: u64, end: u64) -> io::Result<u64> {
    if at >= end {
        return Ok(end);
    }
    match seek(file, SeekFrom::Data(at)) {
        Ok(found) => Ok(found.min(end)),
        Err(Errno::NXIO) => Ok(end),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(at), // the filesystem cannot say
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A tree and an equal copy of it, of which the test then changes something.
    fn scene(name: &str, change: impl FnOnce(&Path)) -> Found {
        let root = std::env::temp_dir().join(format!("haul-xtask-compare-{name}-{}", std::process::id()));
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
        for side in ["one", "two"] {
            let side = root.join(side);
            fs::create_dir_all(side.join("deep/er")).unwrap();
            fs::write(side.join("deep/file"), b"contents").unwrap();
            fs::write(side.join("deep/er/big"), vec![7; BUFFER + 9]).unwrap();
            fs::write(side.join("empty"), b"").unwrap();
            symlink("deep/file", side.join("link")).unwrap();
            fs::hard_link(side.join("empty"), side.join("other")).unwrap();
            let sparse = File::create(side.join("sparse")).unwrap();
            sparse.set_len(4 << 20).unwrap();
            sparse.write_all_at(b"data", 3 << 20).unwrap();
            for file in ["deep/file", "deep/er/big", "empty", "sparse", "deep/er", "deep", ""] {
                File::open(side.join(file)).unwrap().set_modified(time).unwrap();
            }
            let link = haul_sys::rustix::fs::Timespec { tv_sec: 1_600_000_000, tv_nsec: 0 };
            let times = haul_sys::rustix::fs::Timestamps { last_access: link, last_modification: link };
            let flags = haul_sys::rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            haul_sys::rustix::fs::utimensat(haul_sys::rustix::fs::CWD, side.join("link"), &times, flags).unwrap();
        }
        change(&root.join("two"));
        let found = compare(&root.join("one"), &root.join("two"), true);
        fs::remove_dir_all(&root).unwrap();
        found.unwrap()
    }

    /// Writes without moving the time of the last change.
    fn write_at(file: &Path, bytes: &[u8], at: u64) {
        let time = file.metadata().unwrap().modified().unwrap();
        let opened = File::options().write(true).open(file).unwrap();
        opened.write_all_at(bytes, at).unwrap();
        opened.set_modified(time).unwrap();
    }

    #[test]
    fn an_equal_copy_is_right() {
        let found = scene("equal", |_| ());
        assert_eq!(found, Found { entries: 9, ..Found::default() });
    }

    #[test]
    fn a_flipped_byte_is_found() {
        let found = scene("byte", |two| write_at(&two.join("deep/er/big"), b"8", BUFFER as u64 + 5));
        assert_eq!(found.sentence().as_deref(), Some("1 of 9 entries: deep/er/big differs in contents"));
        assert!(found.lost.is_empty());
    }

    #[test]
    fn data_in_a_hole_is_found() {
        let found = scene("hole", |two| write_at(&two.join("sparse"), b"x", 1 << 20));
        assert_eq!(found.wrong, 1);
    }

    #[test]
    fn a_missing_an_extra_a_short_and_a_retyped_entry_are_found() {
        let found = scene("names", |two| {
            fs::remove_file(two.join("deep/file")).unwrap();
            fs::write(two.join("extra"), b"").unwrap();
            File::options().write(true).open(two.join("deep/er/big")).unwrap().set_len(5).unwrap();
            fs::remove_file(two.join("link")).unwrap();
            fs::write(two.join("link"), b"contents").unwrap();
        });
        assert_eq!(found.wrong, 4);
    }

    #[test]
    fn a_link_that_points_elsewhere_is_wrong() {
        let found = scene("link", |two| {
            fs::remove_file(two.join("link")).unwrap();
            symlink("deep", two.join("link")).unwrap();
        });
        assert_eq!(found.reported, ["link points elsewhere"]);
    }

    #[test]
    fn lost_times_modes_and_links_are_found_by_kind() {
        let found = scene("meta", |two| {
            let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            let rough = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
            File::open(two.join("deep")).unwrap().set_modified(later).unwrap();
            File::open(two.join("deep/file")).unwrap().set_modified(later).unwrap();
            File::open(two.join("sparse")).unwrap().set_modified(rough).unwrap();
            fs::set_permissions(two.join("deep/er/big"), fs::Permissions::from_mode(0o700)).unwrap();
            let time = two.metadata().unwrap().modified().unwrap();
            fs::remove_file(two.join("other")).unwrap();
            fs::copy(two.join("empty"), two.join("other")).unwrap();
            let old = two.join("empty").metadata().unwrap().modified().unwrap();
            File::open(two.join("other")).unwrap().set_modified(old).unwrap();
            File::open(two).unwrap().set_modified(time).unwrap();
        });
        assert_eq!(found.wrong, 0, "{:?}", found.reported);
        let kinds: Vec<&str> = found.lost.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["hard links", "mode", "mtime", "mtime of directories", "nanoseconds"]);
    }
}
