//! All that can be seen of a tree.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

/// A time, or that it was set during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamp {
    /// Seconds and nanoseconds since 1970.
    Then(i64, i64),
    /// Not before the run.
    Now,
}

/// One file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// `f d l p s c b`, as in `find -printf %y`.
    pub kind: char,
    /// Permission bits.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node.
    pub device: u64,
    /// Size in bytes of a regular file.
    pub size: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Digest of the contents, or the target of a symbolic link.
    pub contents: Vec<u8>,
    /// Extended attributes and ACLs.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Last modification.
    pub mtime: Stamp,
    /// Last access, seen before the contents were read.
    pub atime: Stamp,
    /// Names of this file; 1 for a directory.
    pub links: u64,
    /// The first name in order of bytes, the same for all names of one file.
    pub first_name: Vec<u8>,
}

/// A tree by path.
pub type Snapshot = BTreeMap<Vec<u8>, Item>;

/// Looks at everything below `root`. Times from `start` on become [`Stamp::Now`].
///
/// Errors are unexpected: the caller must be able to read everything.
pub fn take(root: &Path, start: SystemTime) -> io::Result<Snapshot> {
    let start = start.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs() as i64);
    let mut snapshot = Snapshot::new();
    let mut names: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    walk(root, b"", start, &mut snapshot, &mut names)?;
    Ok(snapshot)
}

/// All paths below `root`, sorted by inode number.
pub(crate) fn in_inode_order(root: &Path) -> io::Result<Vec<Vec<u8>>> {
    let (mut found, mut waiting) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                waiting.push(path.clone());
            }
            let below = path.strip_prefix(root).unwrap_or(&path);
            found.push((entry.ino(), below.as_os_str().as_bytes().to_vec()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn walk(
    directory: &Path,
    prefix: &[u8],
    start: i64,
    snapshot: &mut Snapshot,
    names: &mut BTreeMap<(u64, u64), Vec<u8>>,
) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = [prefix, entry.file_name().as_bytes()].concat();
        let metadata = fs::symlink_metadata(&path)?;
        let mut item = look(&path, &metadata, start)?;
        if item.kind != 'd' {
            let first = names.entry((metadata.dev(), metadata.ino())).or_insert_with(|| name.clone());
            item.first_name.clone_from(first);
        }
        let below = (item.kind == 'd').then(|| [&name[..], b"/"].concat());
        snapshot.insert(name, item);
        if let Some(prefix) = below {
            walk(&path, &prefix, start, snapshot, names)?;
        }
    }
    Ok(())
}

fn look(path: &Path, metadata: &fs::Metadata, start: i64) -> io::Result<Item> {
    // The coarse clock of a filesystem may lag behind; no scene has times in the hour after its start.
    let stamp = |seconds, nanoseconds| {
        if (start - 1..start + 3600).contains(&seconds) { Stamp::Now } else { Stamp::Then(seconds, nanoseconds) }
    };
    let kind = metadata.file_type();
    let (kind, contents) = match () {
        () if kind.is_file() => ('f', digest(path)?),
        () if kind.is_dir() => ('d', vec![]),
        () if kind.is_symlink() => ('l', fs::read_link(path)?.into_os_string().into_vec()),
        () if kind.is_fifo() => ('p', vec![]),
        () if kind.is_socket() => ('s', vec![]),
        () if kind.is_char_device() => ('c', vec![]),
        () => ('b', vec![]),
    };
    Ok(Item {
        kind,
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        device: if matches!(kind, 'c' | 'b') { metadata.rdev() } else { 0 },
        size: if kind == 'f' { metadata.size() } else { 0 },
        blocks: if kind == 'f' { metadata.blocks() } else { 0 },
        contents,
        xattrs: attributes(path)?,
        mtime: stamp(metadata.mtime(), metadata.mtime_nsec()),
        atime: stamp(metadata.atime(), metadata.atime_nsec()),
        links: if kind == 'd' { 1 } else { metadata.nlink() },
        first_name: Vec::new(),
    })
}

fn digest(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish().to_le_bytes().to_vec());
        }
        hasher.write(&buffer[..count]);
    }
}

/// All extended attributes of a file, of a symbolic link itself too.
pub fn attributes(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut list = vec![0; 1 << 16];
    let count = match rustix::fs::llistxattr(path, &mut list[..]) {
        Ok(count) => count,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut attributes = BTreeMap::new();
    for name in list[..count].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 1 << 16];
        let size = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..])?;
        value.truncate(size);
        attributes.insert(name.to_vec(), value);
    }
    Ok(attributes)
}
