//! What the filesystem holds, in memory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fuser::FileType;
use rustix::io::Errno;

/// The inode of the root.
pub(super) const ROOT: u64 = 1;

/// The unit in which data and holes are distinguished, in bytes.
pub(super) const BLOCK: usize = 4096;

/// What an inode is.
#[derive(Debug)]
pub(super) enum Body {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, u64>),
    Link(PathBuf),
    Special(FileType, u32),
}

impl Body {
    pub(super) fn empty_directory() -> Body {
        Body::Directory(BTreeMap::new())
    }
}

/// An inode.
#[derive(Debug)]
pub(super) struct Node {
    pub body: Body,
    /// The lowest 12 bits.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub accessed: SystemTime,
    pub modified: SystemTime,
    pub changed: SystemTime,
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Directory and name of each link to it.
    names: Vec<(u64, OsString)>,
}

impl Node {
    pub(super) fn new(body: Body, mode: u16) -> Node {
        let now = SystemTime::now();
        let names = Vec::new();
        Node { body, mode, uid: 0, gid: 0, accessed: now, modified: now, changed: now, xattrs: BTreeMap::new(), names }
    }

    pub(super) fn kind(&self) -> FileType {
        match &self.body {
            Body::File(_) => FileType::RegularFile,
            Body::Directory(_) => FileType::Directory,
            Body::Link(_) => FileType::Symlink,
            Body::Special(kind, _) => *kind,
        }
    }

    pub(super) fn links(&self) -> u32 {
        self.names.len() as u32 + u32::from(self.kind() == FileType::Directory)
    }

    pub(super) fn size(&self) -> u64 {
        match &self.body {
            Body::File(bytes) => bytes.len() as u64,
            Body::Directory(_) | Body::Special(..) => 0,
            Body::Link(target) => target.as_os_str().len() as u64,
        }
    }

    /// Blocks of 512 bytes that are no holes.
    pub(super) fn blocks(&self) -> u64 {
        let Body::File(bytes) = &self.body else { return 0 };
        let data = bytes.chunks(BLOCK).filter(|block| !is_zero(block)).count();
        (data * BLOCK / 512) as u64
    }

    pub(super) fn bytes(&self) -> Result<&Vec<u8>, Errno> {
        match &self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    /// The contents, to change them: times move.
    pub(super) fn bytes_mut(&mut self) -> Result<&mut Vec<u8>, Errno> {
        let now = SystemTime::now();
        (self.modified, self.changed) = (now, now);
        match &mut self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    fn entries(&self) -> Result<&BTreeMap<OsString, u64>, Errno> {
        match &self.body {
            Body::Directory(entries) => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn entries_mut(&mut self) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        let now = SystemTime::now();
        (self.modified, self.changed) = (now, now);
        match &mut self.body {
            Body::Directory(entries) => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The next data, or the next hole, at this offset or after it; every file has a hole behind its end.
pub(super) fn seek(bytes: &[u8], offset: u64, hole: bool) -> Result<u64, Errno> {
    let from = usize::try_from(offset).map_err(|_| Errno::NXIO)?;
    if from >= bytes.len() {
        return Err(Errno::NXIO);
    }
    let first = from / BLOCK;
    let wanted = bytes.chunks(BLOCK).skip(first).position(|block| is_zero(block) == hole);
    match wanted {
        Some(skipped) => Ok(offset.max(((first + skipped) * BLOCK) as u64)),
        None if hole => Ok(bytes.len() as u64),
        None => Err(Errno::NXIO),
    }
}

/// All inodes. Their numbers are never used again, and those without a name stay, since somebody may have them open.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<u64, Node>,
    next: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        let mut root = Node::new(Body::empty_directory(), 0o755);
        root.names.push((ROOT, OsString::new()));
        Tree { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1 }
    }
}

impl Tree {
    pub(super) fn node(&self, ino: u64) -> Result<&Node, Errno> {
        self.nodes.get(&ino).ok_or(Errno::STALE)
    }

    pub(super) fn node_mut(&mut self, ino: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::STALE)
    }

    pub(super) fn child(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.node(parent)?.entries()?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// The entries of a directory.
    pub(super) fn list(&self, ino: u64) -> Result<Vec<(OsString, u64, FileType)>, Errno> {
        let entries = self.node(ino)?.entries()?;
        entries.iter().map(|(name, ino)| Ok((name.clone(), *ino, self.node(*ino)?.kind()))).collect()
    }

    pub(super) fn insert(&mut self, parent: u64, name: &OsStr, node: Node) -> Result<u64, Errno> {
        let ino = self.next;
        self.nodes.insert(ino, node);
        self.link(ino, parent, name)?;
        self.next += 1;
        Ok(ino)
    }

    pub(super) fn link(&mut self, ino: u64, parent: u64, name: &OsStr) -> Result<(), Errno> {
        if self.child(parent, name).is_ok() {
            return Err(Errno::EXIST);
        }
        self.node_mut(parent)?.entries_mut()?.insert(name.to_owned(), ino);
        let node = self.node_mut(ino)?;
        node.names.push((parent, name.to_owned()));
        node.changed = SystemTime::now();
        Ok(())
    }

    pub(super) fn remove(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let ino = self.child(parent, name)?;
        if self.node(ino)?.entries().is_ok_and(|entries| !entries.is_empty()) {
            return Err(Errno::NOTEMPTY);
        }
        self.unlink(ino, parent, name)
    }

    fn unlink(&mut self, ino: u64, parent: u64, name: &OsStr) -> Result<(), Errno> {
        self.node_mut(parent)?.entries_mut()?.remove(name);
        let node = self.node_mut(ino)?;
        node.names.retain(|(dir, known)| (*dir, known.as_os_str()) != (parent, name));
        node.changed = SystemTime::now();
        Ok(())
    }

    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), replace: bool) -> Result<(), Errno> {
        let ino = self.child(from.0, from.1)?;
        match self.child(to.0, to.1) {
            Ok(_) if !replace => return Err(Errno::EXIST),
            // Two names of one file: nothing happens.
            Ok(old) if old == ino => return Ok(()),
            Ok(_) => self.remove(to.0, to.1)?,
            Err(_) => {}
        }
        self.unlink(ino, from.0, from.1)?;
        self.link(ino, to.0, to.1)
    }

    pub(super) fn exchange(&mut self, a: (u64, &OsStr), b: (u64, &OsStr)) -> Result<(), Errno> {
        let (first, second) = (self.child(a.0, a.1)?, self.child(b.0, b.1)?);
        self.unlink(first, a.0, a.1)?;
        self.unlink(second, b.0, b.1)?;
        self.link(first, b.0, b.1)?;
        self.link(second, a.0, a.1)
    }

    /// Changes the contents of a regular file; others stay as they are.
    pub(super) fn change(&mut self, ino: Option<u64>, change: fn(&mut Vec<u8>)) {
        let node = ino.and_then(|ino| self.nodes.get_mut(&ino));
        if let Some(bytes) = node.and_then(|node| node.bytes_mut().ok()) {
            change(bytes);
        }
    }

    pub(super) fn find(&self, path: &str) -> Option<u64> {
        Path::new(path).iter().try_fold(ROOT, |parent, name| self.child(parent, name).ok())
    }

    /// The path of an inode by its first name; of the root, and of one without a name, nothing.
    pub(super) fn path_of(&self, ino: u64) -> String {
        match self.nodes.get(&ino).and_then(|node| node.names.first()) {
            Some((parent, name)) if ino != ROOT => self.path_in(*parent, name),
            _ => String::new(),
        }
    }

    pub(super) fn path_in(&self, parent: u64, name: &OsStr) -> String {
        let above = self.path_of(parent);
        let name = name.to_string_lossy();
        if above.is_empty() { name.into_owned() } else { format!("{above}/{name}") }
    }

    /// The paths of all names.
    pub(super) fn paths(&self) -> Vec<String> {
        let named =
            |node: &Node| node.names.iter().map(|(parent, name)| self.path_in(*parent, name)).collect::<Vec<_>>();
        self.nodes.iter().filter(|(ino, _)| **ino != ROOT).flat_map(|(_, node)| named(node)).collect()
    }
}
