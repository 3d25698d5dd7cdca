//! Answers the kernel.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, XattrFlags};
use rustix::io::Errno;

use super::manner::Manner;
use super::script::{Listed, Look, On, Stage, Whence};
use super::tree::{BLOCK, Body, Node, seek};

/// The kernel asks again each time.
const NEVER_CACHED: Duration = Duration::ZERO;
/// Most bytes of one write request, so that files of a few hundred kilobytes take several.
const MOST: u32 = 128 << 10;
/// No file is larger, so that a mistake does not take all memory.
const LARGEST: u64 = 256 << 20;
/// Nothing is remembered of an open directory.
const HANDLE: FileHandle = FileHandle(0);
const GENERATION: Generation = Generation(0);
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

type Answer<T> = Result<T, Errno>;

pub(super) struct Server {
    stage: Arc<Stage>,
    manner: Manner,
}

fn fuse(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

/// Gives the answer or the error to whoever waits for it.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $give:expr) => {
        match $result {
            Ok($value) => $give,
            Err(errno) => $reply.error(fuse(errno)),
        }
    };
}

/// The part of a file's bytes from an offset on, of a length at most.
fn part(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    let at = |offset: u64| usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
    &bytes[at(offset)..at(offset.saturating_add(len))]
}

/// Puts bytes at an offset, behind zeros if that is behind the end.
fn put(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) -> Answer<()> {
    let end = offset.saturating_add(new.len() as u64);
    if end > LARGEST {
        return Err(Errno::FBIG);
    }
    // Both fit: they are not above the limit.
    let (offset, end) = (offset as usize, end as usize);
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
    Ok(())
}

/// User attributes are byte 0, all others byte 1.
fn family(name: &OsStr) -> Range<u64> {
    if name.as_encoded_bytes().starts_with(b"user.") { 0..1 } else { 1..2 }
}

fn time(given: TimeOrNow) -> SystemTime {
    match given {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

/// What setattr may change.
struct Changes {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
}

impl Changes {
    fn make(self, node: &mut Node) -> Answer<()> {
        if let Some(size) = self.size {
            if size > LARGEST {
                return Err(Errno::FBIG);
            }
            // Not above the limit.
            node.bytes_mut()?.resize(size as usize, 0);
        }
        node.mode = self.mode.map_or(node.mode, |mode| (mode & 0o7777) as u16);
        (node.uid, node.gid) = (self.uid.unwrap_or(node.uid), self.gid.unwrap_or(node.gid));
        node.accessed = self.accessed.map_or(node.accessed, time);
        node.modified = self.modified.map_or(node.modified, time);
        node.changed = SystemTime::now();
        Ok(())
    }
}

impl Server {
    pub(super) fn new(stage: Arc<Stage>, manner: Manner) -> Server {
        Server { stage, manner }
    }

    /// Whether a file was opened before or after faults were set is all that is remembered of it.
    fn handle(&self) -> FileHandle {
        FileHandle(u64::from(self.stage.lock().script.has_faults()))
    }

    fn open_flags(&self) -> FopenFlags {
        if self.manner.direct_io { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
    }

    /// The attributes of an inode, with what the script makes of them.
    fn attributes(&self, ino: u64) -> Answer<FileAttr> {
        let (state, odd) = self.stage.begin(On::Look, ino, 0..1)?;
        let node = state.tree.node(ino)?;
        let rdev = if let Body::Special(_, rdev) = node.body { rdev } else { 0 };
        let mut look = Look { inode: ino, size: node.size(), blocks: node.blocks() };
        for (change, turn) in odd.looks {
            change(&mut look, turn);
        }
        Ok(FileAttr {
            ino: INodeNo(look.inode),
            size: look.size,
            blocks: look.blocks,
            atime: node.accessed,
            mtime: node.modified,
            ctime: node.changed,
            crtime: node.changed,
            kind: node.kind(),
            perm: node.mode,
            nlink: node.links(),
            uid: node.uid,
            gid: node.gid,
            rdev,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }

    /// The same for an answer by which the kernel gets to know the inode: there the number is how it will be asked for.
    fn entry(&self, ino: u64) -> Answer<FileAttr> {
        Ok(FileAttr { ino: INodeNo(ino), ..self.attributes(ino)? })
    }

    /// A new entry of a directory.
    fn make(&self, on: On, parent: u64, name: &OsStr, body: Body, mode: u32, who: &Request) -> Answer<u64> {
        let mut state = self.stage.begin_in(on, parent, name, 0..1)?;
        let mut node = Node::new(body, (mode & 0o7777) as u16);
        (node.uid, node.gid) = (who.uid(), who.gid());
        state.tree.insert(parent, name, node)
    }

    fn enter(&self, made: Answer<u64>, reply: ReplyEntry) {
        let attr = made.and_then(|ino| self.entry(ino));
        answer!(reply, attr, attr => reply.entry(&NEVER_CACHED, &attr, GENERATION));
    }

    /// An operation that has nothing to do but to fail.
    fn nothing(&self, on: On, ino: INodeNo, reply: ReplyEmpty) {
        let begun = self.stage.begin(on, ino.0, 0..u64::MAX).map(drop);
        answer!(reply, begun, () => reply.ok());
    }

    fn read_bytes(&self, ino: u64, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let len = u64::from(size);
        let (state, odd) = self.stage.begin(On::Read, ino, offset..offset.saturating_add(len))?;
        let len = odd.most.map_or(len, |most| most.min(len));
        Ok(part(state.tree.node(ino)?.bytes()?, offset, len).to_vec())
    }

    fn write_bytes(&self, ino: u64, offset: u64, data: &[u8]) -> Answer<u32> {
        let len = data.len() as u64;
        let (mut state, odd) = self.stage.begin(On::Write, ino, offset..offset.saturating_add(len))?;
        let data = part(data, 0, odd.most.unwrap_or(len));
        put(state.tree.node_mut(ino)?.bytes_mut()?, offset, data)?;
        // At most the size of a request.
        Ok(data.len() as u32)
    }

    fn copy_bytes(&self, source: (u64, u64), dest: (u64, u64), len: u64) -> Answer<u32> {
        let range = source.1..source.1.saturating_add(len);
        let (mut state, odd) = self.stage.begin(On::CopyRange, source.0, range)?;
        let path = state.tree.path_of(dest.0);
        state.mutations.push((On::Write, path));
        if let Some(count) = odd.claim {
            return Ok(count);
        }
        let len = odd.most.map_or(len, |most| most.min(len)).min(u64::from(u32::MAX));
        let bytes = part(state.tree.node(source.0)?.bytes()?, source.1, len).to_vec();
        put(state.tree.node_mut(dest.0)?.bytes_mut()?, dest.1, &bytes)?;
        // Cut to that above.
        Ok(bytes.len() as u32)
    }

    fn allocate(&self, ino: u64, range: Range<u64>, mode: i32) -> Answer<()> {
        let (mut state, _) = self.stage.begin(On::Allocate, ino, range.clone())?;
        let bytes = state.tree.node_mut(ino)?.bytes_mut()?;
        // The bits are what they are.
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let end = if range.end > LARGEST { return Err(Errno::FBIG) } else { range.end as usize };
        if mode == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE {
            let end = end.min(bytes.len());
            // Not above the end, which fits.
            let start = (range.start as usize).min(end);
            bytes[start..end].fill(0);
            return Ok(());
        }
        if mode == FallocateFlags::empty() && bytes.len() < end {
            bytes.resize(end, 0);
        }
        let known = mode == FallocateFlags::empty() || mode == FallocateFlags::KEEP_SIZE;
        if known { Ok(()) } else { Err(Errno::OPNOTSUPP) }
    }

    fn search(&self, ino: u64, offset: i64, whence: i32) -> Answer<i64> {
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let (state, odd) = self.stage.begin(On::Seek, ino, offset..u64::MAX)?;
        let bytes = state.tree.node(ino)?.bytes()?;
        let whence = match whence {
            SEEK_DATA => Whence::Data,
            SEEK_HOLE => Whence::Hole,
            _ => return Err(Errno::INVAL),
        };
        let found = match odd.seek {
            Some(seek) => seek(whence, offset, bytes.len() as u64),
            None => seek(bytes, offset, whence == Whence::Hole),
        };
        // Whatever it says, the kernel gets to see it.
        found.map(|at| at as i64)
    }

    fn listed(&self, ino: u64, offset: u64) -> Answer<Vec<Listed>> {
        let (state, odd) = self.stage.begin(On::List, ino, offset..offset.saturating_add(1))?;
        let listed = |name: &str| Listed { inode: ino, kind: FileType::Directory, name: name.into() };
        let mut entries = vec![listed("."), listed("..")];
        let list = state.tree.list(ino)?.into_iter();
        entries.extend(list.map(|(name, inode, kind)| Listed { inode, kind, name }));
        if let Some(change) = odd.list {
            change(&mut entries);
        }
        let most = odd.most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(entries.into_iter().skip(first).take(most).collect())
    }

    fn rename_entry(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Answer<()> {
        let bits = u64::from(flags.bits());
        // What goes wrong may be reported under either name.
        drop(self.stage.begin_in(On::Rename, from.0, from.1, bits..bits + 1)?);
        let mut state = self.stage.begin_in(On::Rename, to.0, to.1, bits..bits + 1)?;
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return state.tree.exchange(from, to);
        }
        state.tree.rename(from, to, !flags.contains(RenameFlags::RENAME_NOREPLACE))
    }

    fn set_attribute(&self, ino: u64, name: &OsStr, value: &[u8], flags: i32) -> Answer<()> {
        let (mut state, _) = self.stage.begin(On::SetAttribute, ino, family(name))?;
        let node = state.tree.node_mut(ino)?;
        // The bits are what they are.
        let flags = XattrFlags::from_bits_retain(flags as u32);
        match node.xattrs.contains_key(name) {
            true if flags.contains(XattrFlags::CREATE) => return Err(Errno::EXIST),
            false if flags.contains(XattrFlags::REPLACE) => return Err(Errno::NODATA),
            _ => {}
        }
        node.xattrs.insert(name.to_owned(), value.to_vec());
        node.changed = SystemTime::now();
        Ok(())
    }

    fn attribute(&self, ino: u64, name: &OsStr) -> Answer<Vec<u8>> {
        let (state, odd) = self.stage.begin(On::GetAttribute, ino, family(name))?;
        let mut value = state.tree.node(ino)?.xattrs.get(name).cloned().ok_or(Errno::NODATA)?;
        value.resize(value.len() + odd.grow, b'+');
        Ok(value)
    }

    fn attribute_names(&self, ino: u64) -> Answer<Vec<u8>> {
        let (state, odd) = self.stage.begin(On::ListAttributes, ino, 0..1)?;
        let mut names = Vec::new();
        for name in state.tree.node(ino)?.xattrs.keys() {
            names.extend(name.as_encoded_bytes());
            names.push(0);
        }
        if odd.grow > 0 {
            names.extend(b"user.");
            names.resize(names.len() + odd.grow, b'n');
            names.push(0);
        }
        Ok(names)
    }
}

/// A value, or its size if that is what was asked for.
fn give_attribute(value: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        // Small.
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(fuse(errno)),
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A file that changes behind the kernel's back is read again.
        let caching = match self.manner.write_back {
            true => InitFlags::FUSE_WRITEBACK_CACHE,
            false => InitFlags::FUSE_AUTO_INVAL_DATA,
        };
        let agreed = config.set_max_write(MOST).is_ok() && config.add_capabilities(caching).is_ok();
        if agreed { Ok(()) } else { Err(Errno::OPNOTSUPP.into()) }
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.stage.begin_in(On::Lookup, parent.0, name, 0..1);
        self.enter(found.and_then(|state| state.tree.child(parent.0, name)), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.attributes(ino.0), attr => reply.attr(&NEVER_CACHED, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        let begun = self.stage.begin(On::SetAttributes, ino.0, 0..1);
        let made = begun.and_then(|(mut state, _)| changes.make(state.tree.node_mut(ino.0)?));
        answer!(reply, made.and_then(|()| self.attributes(ino.0)), attr => reply.attr(&NEVER_CACHED, &attr));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target =
            self.stage.begin(On::ReadLink, ino.0, 0..1).and_then(|(state, _)| match &state.tree.node(ino.0)?.body {
                Body::Link(target) => Ok(target.clone()),
                _ => Err(Errno::INVAL),
            });
        answer!(reply, target, target => reply.data(target.as_os_str().as_encoded_bytes()));
    }

    fn mknod(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let body = match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::Fifo => Body::Special(FileType::NamedPipe, 0),
            rustix::fs::FileType::Socket => Body::Special(FileType::Socket, 0),
            rustix::fs::FileType::CharacterDevice => Body::Special(FileType::CharDevice, rdev),
            rustix::fs::FileType::BlockDevice => Body::Special(FileType::BlockDevice, rdev),
            _ => Body::File(Vec::new()),
        };
        self.enter(self.make(On::Make, parent.0, name, body, mode, who), reply);
    }

    fn mkdir(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.enter(self.make(On::Make, parent.0, name, Body::empty_directory(), mode, who), reply);
    }

    fn symlink(&self, who: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.enter(self.make(On::Make, parent.0, name, Body::Link(target.to_owned()), 0o777, who), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let begun = self.stage.begin_in(On::Remove, parent.0, name, 0..1);
        answer!(reply, begun.and_then(|mut state| state.tree.remove(parent.0, name)), () => reply.ok());
    }

    fn rmdir(&self, who: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(who, parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.rename_entry((parent.0, name), (newparent.0, newname), flags);
        answer!(reply, renamed, () => reply.ok());
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let linked = self.stage.begin_in(On::Link, newparent.0, newname, 0..1).and_then(|mut state| {
            state.tree.link(ino.0, newparent.0, newname)?;
            Ok(ino.0)
        });
        self.enter(linked, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let begun = self.stage.begin(On::Open, ino.0, 0..1).map(drop);
        answer!(reply, begun, () => reply.opened(self.handle(), self.open_flags()));
    }

    fn create(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = self.make(On::Create, parent.0, name, Body::File(Vec::new()), mode, who);
        let attr = made.and_then(|ino| {
            self.entry(ino).inspect_err(|_| {
                // What failed was not made.
                self.stage.lock().tree.remove(parent.0, name).expect("it was made just now");
            })
        });
        answer!(reply, attr, attr => reply.created(&NEVER_CACHED, &attr, GENERATION, self.handle(), self.open_flags()));
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.read_bytes(ino.0, offset, size), bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer!(reply, self.write_bytes(ino.0, offset, data), count => reply.written(count));
    }

    fn flush(&self, _: &Request, ino: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if handle == FileHandle(0) {
            // Opened to build the scene. A process that another test was starting just then has a copy of the descriptor
            // until it executes its program, and closes it when the faults are set: that is nobody's close.
            return reply.ok();
        }
        self.nothing(On::Flush, ino, reply);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.nothing(On::Sync, ino, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let begun = self.stage.begin(On::OpenDirectory, ino.0, 0..1).map(drop);
        answer!(reply, begun, () => reply.opened(HANDLE, FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        answer!(reply, self.listed(ino.0, offset), entries => {
            for (entry, next) in entries.iter().zip(offset + 1..) {
                if reply.add(INodeNo(entry.inode), next, entry.kind, &entry.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.nothing(On::SyncDirectory, ino, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = LARGEST * 4 / BLOCK as u64;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, BLOCK as u32, 255, BLOCK as u32);
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        answer!(reply, self.set_attribute(ino.0, name, value, flags), () => reply.ok());
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        give_attribute(self.attribute(ino.0, name), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        give_attribute(self.attribute_names(ino.0), size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self
            .stage
            .begin(On::SetAttribute, ino.0, family(name))
            .and_then(|(mut state, _)| state.tree.node_mut(ino.0)?.xattrs.remove(name).map(drop).ok_or(Errno::NODATA));
        answer!(reply, removed, () => reply.ok());
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = self.allocate(ino.0, offset..offset.saturating_add(length), mode);
        answer!(reply, allocated, () => reply.ok());
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        answer!(reply, self.search(ino.0, offset, whence), at => reply.offset(at));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        ino_in: INodeNo,
        _: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copied = self.copy_bytes((ino_in.0, offset_in), (ino_out.0, offset_out), len);
        answer!(reply, copied, count => reply.written(count));
    }
}
