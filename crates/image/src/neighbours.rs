//! The files of the directories in which an image lies: what they hold that goes on from an image. Each is opened once for
//! all images of a directory.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use haul_fs::offline::OfflineFiles;
use haul_fs::walk::Operand;
use haul_guest::Refusal;
use haul_guest::container::{Base, base};
use haul_guest::image::ImageFile;
use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind, Time};
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};
use haul_sys::rustix::io::pread;
use parking_lot::Mutex;

use super::memory::{Format, START, is_usual_name};
use super::system::System;

/// A file with something that goes on from a disk, or that may have it.
pub(super) struct Neighbour {
    pub name: OsString,
    pub id: Option<FileId>,
    pub contents: Contents,
}

/// What a neighbour holds.
pub(super) enum Contents {
    /// A disk that goes on from this one.
    Disk(Base),
    /// The memory of a suspended machine.
    Memory(Format),
    /// It cannot be read.
    Hidden,
}

impl Neighbour {
    fn hidden(name: &OsStr, id: Option<FileId>) -> Neighbour {
        Neighbour { name: name.to_owned(), id, contents: Contents::Hidden }
    }
}

/// What there is in a directory as it was.
struct Seen {
    directory: (FileId, Time, Time),
    found: Arc<[Neighbour]>,
    unwritten: Arc<[Unwritten]>,
}

/// A file that may become the memory of a machine though its directory stays as it is: it was made before it is written.
#[derive(PartialEq, Eq)]
struct Unwritten {
    name: OsString,
    id: FileId,
    size: u64,
    times: (Time, Time),
}

impl Unwritten {
    fn new(name: &OsStr, inode: &Inode) -> Unwritten {
        Unwritten { name: name.to_owned(), id: inode.id, size: inode.size, times: (inode.modified, inode.changed) }
    }

    fn is_as_it_was(&self, dir: &Path) -> bool {
        let now = Inode::at_following(CWD, dir.join(&self.name).as_os_str());
        now.is_ok_and(|now| Unwritten::new(&self.name, &now) == *self)
    }
}

/// Two directories for each of the two names of an image, and for some threads in other directories.
const DIRECTORIES: usize = 16;

/// In seconds. A directory that changes within so long may have the times that it had before: those of FAT are of two
/// seconds.
const TICK: i64 = 3;

/// The directories that were looked at last: the images in one are many, it is asked for each, and each is copied by a thread
/// of its own.
static SEEN: Mutex<VecDeque<Seen>> = Mutex::new(VecDeque::new());

/// All files in a directory with disks that go on from others, or with the memory of machines.
pub(super) fn neighbours(dir: &Path, system: &System) -> Arc<[Neighbour]> {
    let unseen = || Arc::new([Neighbour::hidden(OsStr::new(""), None)]);
    let inode = match Inode::at_following(CWD, dir.as_os_str()) {
        Ok(inode) => inode,
        Err(Errno::NOENT | Errno::NOTDIR) => return Arc::default(),
        Err(_) => return unseen(),
    };
    let directory = (inode.id, inode.modified, inode.changed);
    if let Some(found) = seen(dir, directory) {
        return found;
    }
    let mut search = Search::new(system);
    let found: Arc<[Neighbour]> = match fs::read_dir(dir) {
        Ok(entries) => entries.filter_map(|entry| search.look(dir, entry)).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Arc::default(),
        Err(_) => unseen(),
    };
    if search.is_lasting && search.is_old(inode.modified) {
        let mut seen = SEEN.lock();
        seen.retain(|seen| seen.directory != directory);
        seen.truncate(DIRECTORIES - 1);
        seen.push_front(Seen { directory, found: Arc::clone(&found), unwritten: search.unwritten.into() });
    }
    found
}

/// What was found when the directory was looked at last, if that would be found again.
fn seen(dir: &Path, directory: (FileId, Time, Time)) -> Option<Arc<[Neighbour]>> {
    let copied = |seen: &Seen| (Arc::clone(&seen.found), Arc::clone(&seen.unwritten));
    let seen = SEEN.lock().iter().find(|seen| seen.directory == directory).map(copied);
    let (found, unwritten) = seen?;
    unwritten.iter().all(|file| file.is_as_it_was(dir)).then_some(found)
}

/// Looks at the files of one directory.
struct Search {
    /// Of files whose holders want to be alone: device and number, as /proc/locks has them.
    leased: Vec<String>,
    offline: OfflineFiles,
    unwritten: Vec<Unwritten>,
    /// In seconds: when it began.
    now: i64,
    /// The next search would find the same.
    is_lasting: bool,
}

impl Search {
    fn new(system: &System) -> Search {
        let table = fs::read_to_string(system.proc.join("locks")).unwrap_or_default();
        let leased = table.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            matches!(words.get(1..4), Some(["LEASE", _, "WRITE"]))
                .then(|| words.get(5).map(|file| (*file).to_owned()))?
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
        Search {
            leased: leased.collect(),
            offline: OfflineFiles::default(),
            unwritten: Vec::new(),
            now,
            is_lasting: true,
        }
    }

    /// Whether what is changed from now on gets another time than this.
    fn is_old(&self, time: Time) -> bool {
        self.now.saturating_sub(time.seconds) > TICK
    }

    fn look(&mut self, dir: &Path, entry: io::Result<DirEntry>) -> Option<Neighbour> {
        let Ok(entry) = entry else {
            self.is_lasting = false;
            return Some(Neighbour::hidden(OsStr::new(""), None));
        };
        let (name, path) = (entry.file_name(), dir.join(entry.file_name()));
        let inode = match Inode::at_following(CWD, path.as_os_str()) {
            Ok(inode) => inode,
            Err(errno) => return self.hidden(&name, None, errno),
        };
        // What opening means is known of a regular file only.
        if inode.kind != Kind::Regular {
            return None;
        }
        if inode.size == 0 {
            self.unwritten(&name, &inode);
            return None;
        }
        if self.is_elsewhere(&path, &inode) {
            return is_usual_name(&name).then(|| Neighbour::hidden(&name, Some(inode.id)));
        }
        match opened(&path) {
            Ok(Opened { contents: Some(contents), .. }) => Some(Neighbour { name, id: Some(inode.id), contents }),
            Ok(Opened { is_unwritten, .. }) => {
                if is_unwritten {
                    self.unwritten(&name, &inode);
                }
                None
            }
            Err(errno) => self.hidden(&name, Some(inode.id), errno),
        }
    }

    fn unwritten(&mut self, name: &OsStr, inode: &Inode) {
        self.is_lasting &= self.is_old(inode.modified);
        self.unwritten.push(Unwritten::new(name, inode));
    }

    /// Whether a file is not to be opened: its holder would have to give up its lease, or an archive to bring it back.
    fn is_elsewhere(&mut self, path: &Path, inode: &Inode) -> bool {
        let device = inode.id.device();
        let name = format!("{:02x}:{:02x}:{}", device.major, device.minor, inode.id.inode());
        // On btrfs files have another device number than in that table, and both have no driver.
        let is_it = |leased: &String| {
            let number = leased.rsplit(':').next().unwrap_or_default();
            *leased == name || (device.major == 0 && leased.starts_with("00:") && name.ends_with(&format!(":{number}")))
        };
        if self.leased.iter().any(is_it) {
            self.is_lasting = false;
            return true;
        }
        self.offline.contain(Operand::open(path.as_os_str()).spot(), inode, true)
    }

    /// What becomes of a file that cannot be looked at.
    fn hidden(&mut self, name: &OsStr, id: Option<FileId>, errno: Errno) -> Option<Neighbour> {
        match errno {
            // Gone meanwhile, or a link that leads nowhere.
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR => return None,
            Errno::ACCESS | Errno::PERM => {}
            _ => self.is_lasting = false,
        }
        // Somebody has just taken a lease, who is alone with it.
        (errno != Errno::AGAIN).then(|| Neighbour::hidden(name, id))
    }
}

/// What a regular file begins with, and what is in it.
struct Opened {
    is_unwritten: bool,
    contents: Option<Contents>,
}

/// What a regular file holds. Nothing is waited for.
fn opened(path: &Path) -> Result<Opened, Errno> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let inode = Inode::of(file.as_fd())?;
    if inode.kind != Kind::Regular {
        return Ok(Opened { is_unwritten: false, contents: None });
    }
    let mut start = [0; START];
    let len = pread(&file, &mut start, 0)?;
    let start = &start[..len];
    if let Some(format) = Format::of(path.file_name().unwrap_or_default(), start) {
        return Ok(Opened { is_unwritten: false, contents: Some(Contents::Memory(format)) });
    }
    let is_unwritten = start.iter().all(|byte| *byte == 0);
    match base(Arc::new(ImageFile::new(file.into(), inode.size))) {
        Ok(base) => Ok(Opened { is_unwritten, contents: base.map(Contents::Disk) }),
        Err(Refusal::Unreadable(_) | Refusal::Budget(_) | Refusal::Internal) => Err(Errno::IO),
        // It is no disk, or nothing can go on with it.
        Err(Refusal::Corrupt(_) | Refusal::Unsupported(_) | Refusal::Dirty(_)) => {
            Ok(Opened { is_unwritten, contents: None })
        }
    }
}
