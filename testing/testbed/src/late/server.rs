//! Answers the kernel for one view.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    self as sys, AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, getrlimit, setrlimit, umask};

use super::inodes::{Answer, Inodes, ROOT, kind, link};
use super::lateness::Lateness;

const GENERATION: Generation = Generation(0);
/// Most bytes of one request.
const MOST: u32 = 1 << 20;

/// Mounts a view, says `ready` on standard output, and serves it until standard input ends.
///
/// # Errors
/// When the backing directory cannot be opened, or the view not be mounted.
pub fn serve(backing: &Path, at: &Path, lateness: Lateness) -> io::Result<()> {
    // Each inode that the kernel knows costs a descriptor.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let inodes = Arc::new(Mutex::new(State { inodes: Inodes::new(backing, lateness.believed)?, open: HashMap::new() }));
    let notifier = Arc::new(OnceLock::new());
    let server = Server { state: Arc::clone(&inodes), lateness, notifier: Arc::clone(&notifier) };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("late-view".to_owned()), MountOption::Dev, MountOption::Suid];
    config.acl = SessionACL::All;
    // One: the umask of a request is that of the process for a moment.
    config.n_threads = Some(1);
    let session = fuser::spawn_mount(server, at, &config)?;
    // It is set once.
    drop(notifier.set(session.notifier()));
    println!("ready");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    // Somebody may still be in it, after a failure of a test.
    rustix::mount::unmount(at, UnmountFlags::DETACH)?;
    Ok(lock(&inodes).inodes.write_all_back()?)
}

struct State {
    inodes: Inodes,
    open: HashMap<u64, Handle>,
}

/// An open file, or a listing that goes on where it was.
enum Handle {
    File(File),
    List(Vec<(OsString, u64, FileType)>),
}

struct Server {
    state: Arc<Mutex<State>>,
    lateness: Lateness,
    notifier: Arc<OnceLock<Notifier>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fuse(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
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

/// The kernel packs the number of a device so.
fn device(rdev: u32) -> u64 {
    sys::makedev((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00))
}

/// A time as it was sent. Before 1970, fuser takes the nanoseconds for a part of the way back.
fn spec(given: Option<TimeOrNow>) -> Timespec {
    let at = |tv_sec: u64, sign: i64, nanoseconds: u32| Timespec {
        tv_sec: sign * i64::try_from(tv_sec).unwrap_or(i64::MAX),
        tv_nsec: nanoseconds.into(),
    };
    match given {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => at(after.as_secs(), 1, after.subsec_nanos()),
            Err(before) => at(before.duration().as_secs(), -1, before.duration().subsec_nanos()),
        },
    }
}

impl State {
    fn keep(&mut self, handle: Handle) -> FileHandle {
        let number = (1..).find(|number| !self.open.contains_key(number)).unwrap_or(0);
        self.open.insert(number, handle);
        FileHandle(number)
    }

    fn file(&self, handle: FileHandle) -> Answer<&File> {
        match self.open.get(&handle.0) {
            Some(Handle::File(file)) => Ok(file),
            _ => Err(Errno::BADF),
        }
    }

    /// Lets `make` make a name, gives it to who asked for it, and tells the kernel of it.
    fn make(
        &mut self,
        who: &Request,
        parent: u64,
        name: &OsStr,
        mask: u32,
        make: impl FnOnce(&Inodes) -> Answer<()>,
    ) -> Answer<FileAttr> {
        let before = umask(Mode::from_raw_mode(mask));
        let made = make(&self.inodes);
        umask(before);
        if made == Err(Errno::EXIST) {
            // Somebody else was first.
            self.inodes.doubt(parent);
        }
        made?;
        let directory = self.inodes.fd(parent)?;
        let group = match sys::fstat(directory)?.st_mode & 0o2000 {
            0 => Some(Gid::from_raw(who.gid())),
            // That of the directory.
            _ => None,
        };
        if who.uid() != 0 || who.gid() != 0 {
            sys::chownat(directory, name, Some(Uid::from_raw(who.uid())), group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.enter(parent, name)
    }

    /// A name that is there because of this mount.
    fn enter(&mut self, parent: u64, name: &OsStr) -> Answer<FileAttr> {
        let attributes = self.inodes.find(parent, name)?;
        let stat = sys::fstat(self.inodes.fd(attributes.ino.0)?)?;
        if let Some(view) = self.inodes.seen(parent) {
            view.add(name, stat.st_ino, sys::FileType::from_raw_mode(stat.st_mode));
        }
        Ok(attributes)
    }

    fn remove(&mut self, parent: u64, name: &OsStr, flags: AtFlags) -> Answer<()> {
        let removed = sys::unlinkat(self.inodes.fd(parent)?, name, flags);
        if let Some(view) = self.inodes.seen(parent).filter(|_| matches!(removed, Ok(()) | Err(Errno::NOENT))) {
            view.remove(name);
        }
        removed
    }

    fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Answer<()> {
        let flags = sys::RenameFlags::from_bits_retain(flags);
        sys::renameat_with(self.inodes.fd(from.0)?, from.1, self.inodes.fd(to.0)?, to.1, flags)?;
        if flags.contains(sys::RenameFlags::EXCHANGE) {
            self.inodes.doubt(from.0);
            self.inodes.doubt(to.0);
            return Ok(());
        }
        if let Some(view) = self.inodes.seen(from.0) {
            view.remove(from.1);
        }
        let stat = sys::statat(self.inodes.fd(to.0)?, to.1, AtFlags::SYMLINK_NOFOLLOW)?;
        if let Some(view) = self.inodes.seen(to.0) {
            view.add(to.1, stat.st_ino, sys::FileType::from_raw_mode(stat.st_mode));
        }
        Ok(())
    }

    fn read(&mut self, ino: u64, handle: FileHandle, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let mut bytes = vec![0; size as usize];
        let mut done = 0;
        while done < bytes.len() {
            match self.file(handle)?.read_at(&mut bytes[done..], offset + done as u64).map_err(errno)? {
                0 => break,
                count => done += count,
            }
        }
        bytes.truncate(done);
        Ok(self.inodes.pending(ino)?.over(offset, bytes, size as usize))
    }

    fn write(&mut self, ino: u64, offset: u64, data: &[u8]) -> Answer<u32> {
        let pending = self.inodes.pending(ino)?;
        pending.add(offset, data);
        if pending.is_too_much() {
            self.inodes.write_back(ino)?;
        }
        // At most the size of a request.
        Ok(data.len() as u32)
    }

    /// Bytes come before attributes, since writing them would change those.
    fn change(&mut self, ino: u64, changes: &Changes) -> Answer<()> {
        self.inodes.write_back(ino)?;
        let fd = self.inodes.fd(ino)?;
        if changes.owner != (None, None) {
            let (user, group) = (changes.owner.0.map(Uid::from_raw), changes.owner.1.map(Gid::from_raw));
            sys::chownat(fd, "", user, group, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = changes.mode {
            sys::chmodat(CWD, link(fd), Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?;
        }
        if let Some(size) = changes.size {
            self.inodes.open(ino, OFlags::WRONLY)?.set_len(size).map_err(errno)?;
        }
        if let Some(times) = &changes.times {
            sys::utimensat(CWD, link(self.inodes.fd(ino)?), times, AtFlags::empty())?;
        }
        Ok(())
    }

    fn search(&mut self, ino: u64, offset: i64, whence: i32) -> Answer<i64> {
        self.inodes.write_back(ino)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let from = match whence {
            3 => SeekFrom::Data(offset),
            4 => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        let found = sys::seek(self.inodes.open(ino, OFlags::RDONLY)?, from)?;
        i64::try_from(found).map_err(|_| Errno::OVERFLOW)
    }

    /// The listing of a directory, as it is believed to be.
    fn list(&mut self, ino: u64) -> Answer<Vec<(OsString, u64, FileType)>> {
        let own = self.inodes.number(ino)?;
        let mut list: Vec<_> = [".", ".."].map(|name| (name.into(), own, FileType::Directory)).into();
        list.extend(self.inodes.view(ino)?.list().into_iter().map(|(name, ino, of)| (name, ino, kind(of))));
        Ok(list)
    }
}

/// What setattr may change.
struct Changes {
    mode: Option<u32>,
    owner: (Option<u32>, Option<u32>),
    size: Option<u64>,
    times: Option<Timestamps>,
}

impl Server {
    /// One request at a time, each as late as it is to be.
    fn begin(&self) -> MutexGuard<'_, State> {
        if !self.lateness.delay.is_zero() {
            std::thread::sleep(self.lateness.delay);
        }
        lock(&self.state)
    }

    fn entered(&self, made: Answer<FileAttr>, reply: ReplyEntry) {
        answer!(reply, made, attributes => reply.entry(&self.lateness.believed, &attributes, GENERATION));
    }
}

/// An access mode, without what the kernel has done already.
fn access(flags: i32) -> OFlags {
    // The bits are what they are.
    OFlags::from_bits_retain(flags as u32) & OFlags::ACCMODE
}

fn give(value: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    answer!(reply, value, value => match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(&value),
        _ => reply.error(fuse(Errno::RANGE)),
    });
}

/// Asks twice: for the size, and for that much.
fn grown(ask: impl Fn(&mut [u8]) -> Answer<usize>) -> Answer<Vec<u8>> {
    let mut value = vec![0; 1 << 16];
    let size = ask(&mut value)?;
    value.truncate(size);
    Ok(value)
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        config.add_capabilities(wanted).map_err(|_| io::Error::other("the kernel knows no ACLs of FUSE"))?;
        config.set_max_write(MOST).map(drop).map_err(|_| io::Error::other("the kernel takes no requests of that size"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.begin();
        let seen = state.inodes.view(parent.0).map(|view| (view.has(name), view.left().unwrap_or_default()));
        match seen {
            Err(errno) => reply.error(fuse(errno)),
            Ok((true, _)) => self.entered(state.inodes.find(parent.0, name), reply),
            // The number 0 says that there is nothing, and for how long that is believed.
            Ok((false, left)) => match state.inodes.attributes(parent.0, 0) {
                Ok(nothing) => reply.entry(&left, &nothing, GENERATION),
                Err(errno) => reply.error(fuse(errno)),
            },
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        lock(&self.state).inodes.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let state = self.begin();
        let number = if ino.0 == ROOT { state.inodes.number(ino.0) } else { Ok(ino.0) };
        let attributes = number.and_then(|number| state.inodes.attributes(ino.0, number));
        answer!(reply, attributes, attributes => reply.attr(&self.lateness.believed, &attributes));
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
        let times = (accessed.is_some() || modified.is_some())
            .then(|| Timestamps { last_access: spec(accessed), last_modification: spec(modified) });
        let mut state = self.begin();
        let changed = state.change(ino.0, &Changes { mode, owner: (uid, gid), size, times });
        let attributes = changed.and_then(|()| state.inodes.attributes(ino.0, state.inodes.number(ino.0)?));
        answer!(reply, attributes, attributes => reply.attr(&self.lateness.believed, &attributes));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let state = self.begin();
        let target = state.inodes.fd(ino.0).and_then(|fd| sys::readlinkat(fd, "", Vec::new()));
        answer!(reply, target, target => reply.data(target.as_bytes()));
    }

    fn mknod(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, mask: u32, rdev: u32, reply: ReplyEntry) {
        let (kind, mode) = (sys::FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        let made = self.begin().make(who, parent.0, name, mask, |inodes| {
            sys::mknodat(inodes.fd(parent.0)?, name, kind, mode, device(rdev))
        });
        self.entered(made, reply);
    }

    fn mkdir(&self, who: &Request, parent: INodeNo, name: &OsStr, mode: u32, mask: u32, reply: ReplyEntry) {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let make = |inodes: &Inodes| sys::mkdirat(inodes.fd(parent.0)?, name, mode);
        let made = self.begin().make(who, parent.0, name, mask, make);
        self.entered(made, reply);
    }

    fn symlink(&self, who: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = |inodes: &Inodes| sys::symlinkat(target, inodes.fd(parent.0)?, name);
        let made = self.begin().make(who, parent.0, name, 0, make);
        self.entered(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.begin().remove(parent.0, name, AtFlags::empty()), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.begin().remove(parent.0, name, AtFlags::REMOVEDIR), () => reply.ok());
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
        let renamed = self.begin().rename((parent.0, name), (newparent.0, newname), flags.bits());
        answer!(reply, renamed, () => reply.ok());
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let mut state = self.begin();
        let linked =
            (|| sys::linkat(state.inodes.fd(ino.0)?, "", state.inodes.fd(newparent.0)?, newname, AtFlags::EMPTY_PATH))(
            );
        if linked == Err(Errno::EXIST) {
            state.inodes.doubt(newparent.0);
        }
        self.entered(linked.and_then(|()| state.enter(newparent.0, newname)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.begin();
        let opened = state.inodes.open(ino.0, access(flags.0)).map(|file| state.keep(Handle::File(file)));
        // Close-to-open: attributes are asked for again, and the kernel drops the pages.
        if let Some(notifier) = self.notifier.get() {
            // The kernel may have forgotten it in this moment.
            drop(notifier.inval_inode(ino, -1, 0));
        }
        answer!(reply, opened, handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn create(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mut state = self.begin();
        let mut opened = None;
        // The bits are what they are.
        let exclusive = OFlags::from_bits_retain(flags as u32) & OFlags::EXCL;
        let flags = access(flags) | exclusive | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = state.make(who, parent.0, name, mask, |inodes| {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            opened = Some(File::from(sys::openat(inodes.fd(parent.0)?, name, flags, mode)?));
            Ok(())
        });
        let made = made.and_then(|attributes| Ok((attributes, opened.ok_or(Errno::IO)?)));
        answer!(reply, made, (attributes, file) => {
            let handle = state.keep(Handle::File(file));
            reply.created(&self.lateness.believed, &attributes, GENERATION, handle, FopenFlags::empty());
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.begin().read(ino.0, handle, offset, size), bytes => reply.data(&bytes));
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
        answer!(reply, self.begin().write(ino.0, offset, data), count => reply.written(count));
    }

    fn flush(&self, _: &Request, ino: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer!(reply, self.begin().inodes.write_back(ino.0), () => reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let mut state = self.begin();
        state.open.remove(&handle.0);
        // Bytes of a mapping may come after the last flush.
        answer!(reply, state.inodes.write_back(ino.0), () => reply.ok());
    }

    fn fsync(&self, _: &Request, ino: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut state = self.begin();
        let synced = state.inodes.write_back(ino.0).and_then(|()| sys::fsync(state.file(handle)?));
        answer!(reply, synced, () => reply.ok());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.begin();
        let opened = state.list(ino.0).map(|list| state.keep(Handle::List(list)));
        answer!(reply, opened, handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut state = self.begin();
        if offset == 0 {
            // rewinddir(3) asks for the names again.
            match state.list(ino.0) {
                Ok(list) => drop(state.open.insert(handle.0, Handle::List(list))),
                Err(errno) => return reply.error(fuse(errno)),
            }
        }
        let Some(Handle::List(list)) = state.open.get(&handle.0) else { return reply.error(fuse(Errno::BADF)) };
        let rest = list.iter().zip(1..).skip(usize::try_from(offset).unwrap_or(usize::MAX));
        for ((name, inode, kind), next) in rest {
            if reply.add(INodeNo(*inode), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.begin().open.remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Names are in the backing directory as soon as they are made.
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let state = self.begin();
        let found = state.inodes.fd(ROOT).and_then(sys::fstatvfs);
        let size = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        answer!(reply, found, s => reply.statfs(
            s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, size(s.f_bsize), size(s.f_namemax), size(s.f_frsize),
        ));
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let mut state = self.begin();
        // The bits are what they are.
        let flags = XattrFlags::from_bits_retain(flags as u32);
        // Writing afterwards would take a capability away.
        let set = state.inodes.write_back(ino.0);
        let set = set.and_then(|()| sys::setxattr(link(state.inodes.fd(ino.0)?), name, value, flags));
        answer!(reply, set, () => reply.ok());
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let state = self.begin();
        let value = state.inodes.fd(ino.0).and_then(|fd| grown(|value| sys::getxattr(link(fd), name, &mut value[..])));
        give(value, size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let state = self.begin();
        let names = state.inodes.fd(ino.0).and_then(|fd| grown(|names| sys::listxattr(link(fd), &mut names[..])));
        give(names, size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let state = self.begin();
        let removed = state.inodes.fd(ino.0).and_then(|fd| sys::removexattr(link(fd), name));
        answer!(reply, removed, () => reply.ok());
    }

    fn fallocate(&self, _: &Request, ino: INodeNo, _: FileHandle, at: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        let mut state = self.begin();
        // The bits are what they are.
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let done = state.inodes.write_back(ino.0).and_then(|()| {
            let file = state.inodes.open(ino.0, OFlags::WRONLY)?;
            sys::fallocate(file, mode, at, len)
        });
        answer!(reply, done, () => reply.ok());
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        answer!(reply, self.begin().search(ino.0, offset, whence), at => reply.offset(at));
    }
}
