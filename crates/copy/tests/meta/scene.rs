//! What the tests share: one file copied with the library's metadata code, by hand and by cp, and what became of it.

use std::ffi::{CString, OsStr};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use haul_copy::error::Error;
use haul_copy::meta::{
    Caller, KnownFilesystems, NewEntries, Object, Report, Request, Side, XATTR_RULES_FILE, XattrRules, before_data,
    creation_mode, finish, open_up,
};
use haul_copy::plan::{ContextRule, ModeRule, Preserve, Wish};
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mknodat, open};
use haul_sys::rustix::process::{getegid, geteuid, umask};
use haul_sys::rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use haul_testbed::Command;

/// The user that has no rights.
pub const NOBODY: u32 = 65534;

/// Runs as another user with this umask; as root again afterwards.
pub fn as_user<T: Send>(user: u32, mask: u32, act: impl FnOnce() -> T + Send) -> T {
    // The identity belongs to the thread, so it ends with it.
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                use haul_sys::rustix::fs::{Gid, Uid};
                if user != 0 {
                    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
                    set_thread_groups(&[]).unwrap();
                    set_thread_res_gid(gid, gid, gid).unwrap();
                    set_thread_res_uid(uid, uid, uid).unwrap();
                }
                let before = umask(Mode::from_raw_mode(mask));
                let result = act();
                umask(before);
                result
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a tool of the system and returns what it said.
pub fn run(program: &str, args: &[&OsStr]) -> String {
    let done = Command::new(program).args(args).env("LC_ALL", "C").output().unwrap();
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Runs a line of shell in a directory.
pub fn shell(directory: &Path, line: &str) {
    let done = Command::new("sh").arg("-ec").arg(line).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What became of a copy: success, the messages (with `DEST` for the destination), and the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub done: bool,
    pub messages: Vec<String>,
    pub file: String,
}

/// One way to ask for a copy: options of cp and the same as data.
#[derive(Debug, Clone)]
pub struct Options {
    pub flags: Vec<&'static str>,
    pub preserve: Preserve,
    pub no_data: bool,
}

impl Options {
    /// Reads the few options of cp that matter here.
    pub fn of(flags: &'static str) -> Options {
        let flags: Vec<_> = flags.split_whitespace().collect();
        let mut preserve = Preserve::default();
        for flag in &flags {
            match *flag {
                "-p" => keep(&mut preserve, "mode,ownership,timestamps", true),
                "-a" => {
                    keep(&mut preserve, "all", true);
                    preserve.quiet = true;
                }
                "--attributes-only" => {}
                flag => match flag.split_once('=').unwrap() {
                    ("--preserve", list) => keep(&mut preserve, list, true),
                    (_, list) => keep(&mut preserve, list, false),
                },
            }
        }
        Options { no_data: flags.contains(&"--attributes-only"), flags, preserve }
    }
}

fn keep(preserve: &mut Preserve, list: &str, yes: bool) {
    preserve.required |= yes;
    for word in list.split(',') {
        match word {
            "mode" => preserve.mode = if yes { ModeRule::Keep } else { ModeRule::Discard },
            "ownership" => preserve.ownership = yes,
            "timestamps" => preserve.timestamps = yes,
            "xattr" => preserve.xattr = if yes { Wish::Require } else { Wish::No },
            "all" => {
                preserve.mode = ModeRule::Keep;
                preserve.ownership = true;
                preserve.timestamps = true;
                preserve.xattr = preserve.xattr.max(Wish::Try);
                preserve.context = Wish::Try;
            }
            other => panic!("{other}"),
        }
    }
}

/// Copies with the system's cp.
pub fn with_cp(source: &Path, dest: &Path, options: &Options) -> Outcome {
    let mut cp = Command::new("/bin/cp");
    cp.env("LC_ALL", "C").args(["-R", "-T"]).args(&options.flags).args([source, dest]);
    let done = cp.output().unwrap();
    let messages = String::from_utf8(done.stderr).unwrap();
    let name = format!("'{}'", dest.display());
    Outcome {
        done: done.status.success(),
        messages: messages.lines().map(|line| line.trim_start_matches("/bin/cp: ").replace(&name, "DEST")).collect(),
        file: String::new(),
    }
}

/// Which of the ways that lead to the same result is taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// The way over `O_PATH` for directories.
    pub path_only: bool,
    /// The directory of the destination is judged as one that we have just made.
    pub judged: bool,
}

/// Copies one file by hand, with the library's metadata code.
pub fn with_haul(source: &Path, dest: &Path, options: &Options, manner: Manner) -> Outcome {
    let mut messages = Vec::new();
    let mut report = |error: Error| messages.push(words(&error, dest));
    let done = copy(source, dest, options, manner, &KnownFilesystems::new(), &mut report);
    Outcome { done, messages, file: String::new() }
}

/// The current thread as a caller.
pub fn caller() -> Caller {
    let mask = umask(Mode::empty());
    umask(mask);
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    Caller { user, group, umask: mask.as_raw_mode(), selinux: Path::new("/sys/fs/selinux").exists() }
}

/// Copies one file by hand.
pub fn copy(
    source: &Path,
    dest: &Path,
    options: &Options,
    manner: Manner,
    memory: &KnownFilesystems,
    report: Report<'_>,
) -> bool {
    let caller = caller();
    let path_only = manner.path_only;
    let above = if manner.judged { judge(dest.parent().unwrap(), caller, memory) } else { NewEntries::UNKNOWN };
    let kind = Inode::at(CWD, source.as_os_str()).unwrap().kind;
    let source_path_only = path_only && kind != Kind::Regular || !matches!(kind, Kind::Regular | Kind::Directory);
    let (from, source_path_only) = hold(source, OFlags::RDONLY, source_path_only);
    let source_inode = Inode::of(from.as_fd()).unwrap();
    let creation = creation_mode(kind, &source_inode, &above, &options.preserve, caller);
    let created = fs::symlink_metadata(dest).is_err();
    let mut opened = None;
    if kind == Kind::Regular {
        let flags = if created {
            OFlags::CREATE | OFlags::EXCL
        } else if options.no_data {
            OFlags::empty()
        } else {
            OFlags::TRUNC
        };
        let mode = Mode::from_raw_mode(creation.mode);
        opened = Some(open(dest, OFlags::WRONLY | OFlags::NOFOLLOW | flags, mode).unwrap());
    } else if created {
        make(source, dest, kind, creation.mode, &source_inode);
    }
    let (to, dest_path_only) = match opened {
        Some(opened) => (opened, false),
        None => hold(dest, OFlags::RDONLY, kind != Kind::Directory || path_only),
    };
    let dest_inode = Inode::of(to.as_fd()).unwrap();
    let dest_object = Object { fd: to.as_fd(), path_only: dest_path_only };
    let mut entries = above;
    if kind == Kind::Directory && created {
        open_up(dest_object, &dest_inode).unwrap();
        entries = above.of_made(dest_object, &dest_inode, caller, memory);
    }
    let request = Request {
        preserve: &options.preserve,
        context: &ContextRule::Default,
        source: Side {
            object: Object { fd: from.as_fd(), path_only: source_path_only },
            inode: &source_inode,
            path: source,
        },
        dest: Side { object: dest_object, inode: &dest_inode, path: dest },
        created,
        entries,
        exact: false,
        despite_mode: false,
        no_data: options.no_data,
        moves: false,
        seal_later: false,
        caller,
        rules: &rules(),
        memory,
    };
    let begun = before_data(&request, report);
    if kind == Kind::Regular && !options.no_data {
        io::copy(&mut File::from(from.try_clone().unwrap()), &mut File::from(to.try_clone().unwrap())).unwrap();
    }
    finish(&request, report) && begun
}

/// What is known of new entries of a directory that we own, as if it were just made.
fn judge(directory: &Path, caller: Caller, memory: &KnownFilesystems) -> NewEntries {
    let held = open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let inode = Inode::of(held.as_fd()).unwrap();
    NewEntries::UNKNOWN.of_made(Object { fd: held.as_fd(), path_only: true }, &inode, caller, memory)
}

/// The rules that cp goes by here.
fn rules() -> XattrRules {
    match fs::read(XATTR_RULES_FILE) {
        Ok(text) => XattrRules::parse(&text).unwrap(),
        Err(_) => XattrRules::default(),
    }
}

/// A descriptor, and whether it is one that was opened with `O_PATH`: as asked for, or since there is no permission.
fn hold(path: &Path, flags: OFlags, path_only: bool) -> (OwnedFd, bool) {
    let open = |flags| open(path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match if path_only { Err(Errno::ACCESS) } else { open(flags) } {
        Ok(held) => (held, false),
        Err(_) => (open(OFlags::PATH).unwrap_or_else(|errno| panic!("{path:?}: {errno}")), true),
    }
}

fn make(source: &Path, dest: &Path, kind: Kind, mode: u32, inode: &Inode) {
    let mode = Mode::from_raw_mode(mode);
    let device = haul_sys::rustix::fs::makedev(inode.node.major, inode.node.minor);
    let node = |kind| mknodat(CWD, dest, kind, mode, device).unwrap();
    match kind {
        Kind::Directory => haul_sys::rustix::fs::mkdirat(CWD, dest, mode).unwrap(),
        Kind::SymbolicLink => symlink(fs::read_link(source).unwrap(), dest).unwrap(),
        Kind::Fifo => node(FileType::Fifo),
        Kind::Socket => node(FileType::Socket),
        Kind::CharacterDevice => node(FileType::CharacterDevice),
        Kind::BlockDevice => node(FileType::BlockDevice),
        Kind::Regular | Kind::Unknown => unreachable!(),
    }
}

/// A message in cp's words in the C locale, with `DEST` for the destination.
pub fn words(error: &Error, dest: &Path) -> String {
    let quote = |path: &Path| format!("'{}'", path.display());
    let plain = error.path.display().to_string();
    let mut text = error.what.fill(&quote(&error.path), &plain, &quote(&error.other), &error.detail);
    if let Some(errno) = error.errno {
        let words = io::Error::from(errno).to_string();
        write!(text, ": {}", words.split(" (os error").next().unwrap()).unwrap();
    }
    text.replace(&quote(dest), "DEST")
}

/// Everything that a copy keeps, as text. Times only where they are to be kept.
pub fn describe(path: &Path, times: bool) -> String {
    let Ok(stat) = fs::symlink_metadata(path) else { return "missing".into() };
    let kind = stat.file_type();
    let mut text = format!("{:o} {}:{} size {} ", stat.mode(), stat.uid(), stat.gid(), stat.size());
    if kind.is_char_device() || kind.is_block_device() {
        write!(text, "node {} ", stat.rdev()).unwrap();
    }
    if times {
        let all = (stat.atime(), stat.atime_nsec(), stat.mtime(), stat.mtime_nsec());
        write!(text, "atime {}.{:09} mtime {}.{:09} ", all.0, all.1, all.2, all.3).unwrap();
    }
    for (name, value) in xattrs(path) {
        write!(text, "{name}={value:?} ").unwrap();
    }
    text
}

fn xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let held = open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
    let object = Object { fd: held.as_fd(), path_only: true };
    let mut names = Vec::new();
    if object.list_xattrs(&mut names).is_err() {
        return Vec::new();
    }
    let names = names.split_inclusive(|byte| *byte == 0).map(|name| std::ffi::CStr::from_bytes_with_nul(name).unwrap());
    let mut all: Vec<_> = names
        .map(|name| {
            let mut value = Vec::new();
            object.get_xattr(name, &mut value).unwrap();
            (name.to_string_lossy().into_owned(), value)
        })
        .collect();
    all.sort();
    all
}

/// Makes another file or directory like this one, but for times.
pub fn replicate(template: &Path, path: &Path) {
    let stat = fs::metadata(template).unwrap();
    if stat.is_dir() { fs::create_dir(path) } else { fs::copy(template, path).map(drop) }.unwrap();
    chown(path, Some(stat.uid()), Some(stat.gid())).unwrap();
    // The special bits, then the ACL, which is among the attributes.
    fs::set_permissions(path, stat.permissions()).unwrap();
    let held = open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    for (name, value) in xattrs(template) {
        // XFS shows its ACLs a second time.
        if !name.starts_with("trusted.SGI_") {
            Object { fd: held.as_fd(), path_only: false }.set_xattr(&CString::new(name).unwrap(), &value).unwrap();
        }
    }
    assert_eq!(describe(path, false), describe(template, false));
}

/// Sets both times of a file, also of a symbolic link: seconds and nanoseconds.
pub fn set_times(path: &Path, accessed: (i64, u32), modified: (i64, u32)) {
    use haul_sys::rustix::fs::{Timespec, Timestamps, utimensat};
    let time = |(seconds, nanoseconds): (i64, u32)| Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A path below a directory.
pub fn below(directory: &Path, name: &str) -> PathBuf {
    directory.join(name)
}
