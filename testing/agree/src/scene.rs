//! Trees of files as data, and how they are put on a disk.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

/// A run of bytes inside a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The bytes are zeros that were written, not a hole.
    pub zeros: bool,
}

/// What a regular file contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// Size in bytes.
    pub size: u64,
    /// What is written; the rest are holes.
    pub runs: Vec<Run>,
    /// Preallocated range (offset, length) that is never written; may lie behind the end.
    pub allocated: Option<(u64, u64)>,
    /// Makes files of one layout differ.
    pub salt: u8,
}

/// A type of file with what only that type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File(Contents),
    /// A directory.
    Directory,
    /// A directory on which a fresh tmpfs is mounted before anything is put into it.
    MountPoint,
    /// A symbolic link with its target; a leading `@` byte stands for the absolute path of the scene.
    Symlink(Vec<u8>),
    /// Another name of an earlier node.
    HardLink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device (major, minor).
    Character(u32, u32),
    /// A block device (major, minor).
    Block(u32, u32),
}

/// Seconds and nanoseconds since 1970.
pub type Time = (i64, u32);

/// One file of a scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Path below the scene's root.
    pub path: Vec<u8>,
    /// Its type.
    pub kind: Kind,
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Time of last access.
    pub atime: Time,
    /// Time of last modification.
    pub mtime: Time,
    /// Extended attributes, ACLs among them.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Node {
    /// A node with quiet metadata.
    pub fn new(path: &[u8], kind: Kind) -> Node {
        let mode = if matches!(kind, Kind::Directory | Kind::MountPoint) { 0o755 } else { 0o644 };
        let time = (1_500_000_000, 0);
        Node { path: path.to_vec(), kind, mode, owner: (0, 0), atime: time, mtime: time, xattrs: Vec::new() }
    }

    /// Whether other nodes can stand below this one.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory | Kind::MountPoint)
    }
}

/// `root/path`, byte for byte.
pub fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

/// 64 KiB of noise, made once; its length is prime, so that blocks of equal content are rare.
fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut bytes = vec![0; 65_521];
        fastrand::Rng::with_seed(1).fill(&mut bytes);
        bytes
    })
}

/// Puts `nodes` below `root`, which must exist and be empty.
///
/// Whatever the filesystem refuses (an attribute, an owner, a node type) is left out, the same way each time.
pub fn build(root: &Path, nodes: &[Node]) -> io::Result<()> {
    for node in nodes {
        // A parent that was shrunk away or that is no directory: the node is left out.
        if let Err(error) = create(root, node)
            && error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error())
        {
            return Err(error);
        }
    }
    for node in nodes.iter().filter(|node| !node.is_directory()) {
        dress(root, node);
    }
    let mut directories: Vec<&Node> = nodes.iter().filter(|node| node.is_directory()).collect();
    directories.sort_by_key(|node| std::cmp::Reverse(node.path.iter().filter(|&&byte| byte == b'/').count()));
    directories.into_iter().for_each(|node| dress(root, node));
    Ok(())
}

fn create(root: &Path, node: &Node) -> io::Result<()> {
    let path = below(root, &node.path);
    let nod = |kind, device| rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), device);
    match &node.kind {
        Kind::File(contents) => write(&path, contents)?,
        Kind::Directory => fs::create_dir(&path)?,
        Kind::MountPoint => {
            fs::create_dir(&path)?;
            mount_tmpfs(&path, "64m")?;
        }
        Kind::Symlink(target) => std::os::unix::fs::symlink(OsStr::from_bytes(&absolute(root, target)), &path)?,
        Kind::HardLink(first) => fs::hard_link(below(root, first), &path)?,
        Kind::Fifo => nod(FileType::Fifo, 0)?,
        // The name stays when the listener is closed.
        Kind::Socket => bind(&path)?,
        Kind::Character(major, minor) => nod(FileType::CharacterDevice, rustix::fs::makedev(*major, *minor))?,
        Kind::Block(major, minor) => nod(FileType::BlockDevice, rustix::fs::makedev(*major, *minor))?,
    }
    Ok(())
}

/// Mounts a small tmpfs; needs a private mount namespace, or the mount outlives the test.
pub fn mount_tmpfs(path: &Path, size: &str) -> io::Result<()> {
    let options = Some(format!("mode=0755,size={size}"));
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), nix::mount::MsFlags::empty(), options.as_deref())?;
    Ok(())
}

/// Replaces the leading `@` of a link's target by the scene's own path.
pub fn absolute(root: &Path, target: &[u8]) -> Vec<u8> {
    match target.strip_prefix(b"@") {
        Some(rest) => [root.as_os_str().as_bytes(), rest].concat(),
        None => target.to_vec(),
    }
}

/// Binds a socket; names too long for `sun_path` are reached through a short one.
fn bind(path: &Path) -> io::Result<()> {
    if UnixListener::bind(path).is_ok() {
        return Ok(());
    }
    let short = path.parent().unwrap_or(Path::new("/")).join("~sock");
    UnixListener::bind(&short)?;
    fs::rename(short, path)
}

fn write(path: &Path, contents: &Contents) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).open(path)?;
    file.set_len(contents.size)?;
    if let Some((offset, length)) = contents.allocated {
        // Not every filesystem can; the file then has a hole there.
        let _unsupported = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, offset, length);
    }
    let pattern = noise();
    let zeros = vec![0; pattern.len()];
    for run in &contents.runs {
        let end = (run.offset + run.length).min(contents.size);
        let mut at = run.offset;
        while at < end {
            let start = ((at + u64::from(contents.salt) * 257) % pattern.len() as u64) as usize;
            let count = (pattern.len() - start).min((end - at) as usize);
            let bytes = if run.zeros { &zeros[..] } else { pattern };
            file.write_all_at(&bytes[start..start + count], at)?;
            at += count as u64;
        }
    }
    Ok(())
}

/// Sets owner, mode, attributes and times; what is refused is left as it is.
fn dress(root: &Path, node: &Node) {
    if matches!(node.kind, Kind::HardLink(_)) {
        return;
    }
    let path = below(root, &node.path);
    // A node whose name was taken by an earlier one of another type must not change that one.
    let Ok(found) = fs::symlink_metadata(&path) else { return };
    if found.is_symlink() != matches!(node.kind, Kind::Symlink(_)) || found.is_dir() != node.is_directory() {
        return;
    }
    let (user, group) = (Uid::from_raw(node.owner.0), Gid::from_raw(node.owner.1));
    let _unprivileged = rustix::fs::chownat(CWD, &path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
    if !found.is_symlink() {
        let _unprivileged = fs::set_permissions(&path, Permissions::from_mode(node.mode));
    }
    for (name, value) in &node.xattrs {
        // Namespaces differ by filesystem, file type and privilege.
        let _unsupported = rustix::fs::lsetxattr(&path, OsStr::from_bytes(name), value, XattrFlags::empty());
    }
    let spec = |time: Time| Timespec { tv_sec: time.0, tv_nsec: time.1.into() };
    let times = Timestamps { last_access: spec(node.atime), last_modification: spec(node.mtime) };
    let _refused = rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW);
}
