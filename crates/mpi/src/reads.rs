//! Which rank reads which part of a source (`--each`), and reading it there. Knows nothing of messages.
//!
//! The page cache of the reading machine is what keeps a part for the ranks that ask later: nothing is kept here, so nothing
//! here can be older than what the kernel would give.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_io::strategy::FROM_ELSEWHERE;
use haul_sys::inode::{Inode, Kind, Time};
use haul_sys::rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, openat};
use haul_sys::rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::exchange::lock;

/// Bytes of a part, which one rank reads: what a copy asks for at once.
pub const PART: u64 = FROM_ELSEWHERE as u64;
/// Open files that a rank keeps for the next request.
const KEPT_OPEN: usize = 64;
/// A file that was changed so short a time before the job, or later, may change again without another time to show it: each
/// rank reads it itself. The kernel's clock of files moves every 10 ms at least; the rest is for clocks of machines that differ.
const SETTLED: Duration = Duration::from_secs(2);

/// A source as the rank that copies it has opened it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    path: Vec<u8>,
    inode: u64,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl SourceFile {
    /// A file that may be read by other ranks. `None` if it was changed a moment before the job has `begun`, or later.
    pub fn of(path: &Path, inode: &Inode, begun: SystemTime) -> Option<SourceFile> {
        let path = path.as_os_str().as_bytes().to_vec();
        let file = SourceFile::known(path, inode);
        let changed = Duration::new(u64::try_from(file.changed.0).unwrap_or(0), file.changed.1);
        let age = begun.duration_since(UNIX_EPOCH).ok()?.checked_sub(changed)?;
        (age >= SETTLED).then_some(file)
    }

    fn known(path: Vec<u8>, inode: &Inode) -> SourceFile {
        let time = |time: Time| (time.seconds, time.nanoseconds);
        SourceFile {
            path,
            inode: inode.id.inode(),
            size: inode.size,
            modified: time(inode.modified),
            changed: time(inode.changed),
        }
    }

    /// Whether an open file is this one, and as it was.
    fn is(&self, file: &File) -> bool {
        let found = Inode::of(file.as_fd()).map(|inode| SourceFile::known(self.path.clone(), &inode));
        found.as_ref() == Ok(self)
    }

    /// Bytes of the file from this offset on that belong to one part.
    pub fn part_at(&self, offset: u64) -> u64 {
        (PART - offset % PART).min(self.size.saturating_sub(offset))
    }

    /// Which of so many ranks reads the part with this offset: the parts of a file go round all ranks, and each file begins
    /// with another one.
    pub fn reader_of(&self, offset: u64, ranks: usize) -> usize {
        // Multiplicative hashing (Knuth): neighbouring inodes begin at ranks that are far from each other.
        let first = self.inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let ranks = ranks.max(1) as u64;
        // Smaller than the number of ranks.
        ((first % ranks + offset / PART % ranks) % ranks) as usize
    }
}

/// The sources that this rank reads for others.
#[derive(Debug)]
pub struct OpenSources {
    /// The one that was asked for last is the last.
    open: Mutex<VecDeque<(SourceFile, Arc<File>)>>,
    /// Sources are opened without an access time, where they may be.
    noatime: bool,
}

impl OpenSources {
    /// None yet.
    pub fn new(noatime: bool) -> OpenSources {
        OpenSources { open: Mutex::default(), noatime }
    }

    /// So many bytes of a source, or fewer at its end. `None` if it is another file here or has changed, if it cannot be read,
    /// or has nothing there.
    pub fn read(&self, source: &SourceFile, offset: u64, len: usize) -> Option<Vec<u8>> {
        let file = self.open(source)?;
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut bytes[filled..], offset.checked_add(filled as u64)?) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Whoever copies the file meets the error, and reports it.
                Err(_) => return None,
            }
        }
        bytes.truncate(filled);
        if !source.is(&file) {
            lock(&self.open).retain(|(known, _)| known != source);
            return None;
        }
        (filled > 0).then_some(bytes)
    }

    fn open(&self, source: &SourceFile) -> Option<Arc<File>> {
        {
            let mut open = lock(&self.open);
            if let Some(found) = open.iter().position(|(known, _)| known == source).and_then(|at| open.remove(at)) {
                let file = Arc::clone(&found.1);
                open.push_back(found);
                return Some(file);
            }
        }
        // Opening may take its time. Two threads may open the same one.
        let file = Arc::new(self.open_regular(Path::new(OsStr::from_bytes(&source.path)))?);
        if !source.is(&file) {
            return None;
        }
        let mut open = lock(&self.open);
        open.push_back((source.clone(), Arc::clone(&file)));
        if open.len() > KEPT_OPEN {
            open.pop_front();
        }
        Some(file)
    }

    /// Opens a regular file, and nothing that would wait or do something when it is opened.
    fn open_regular(&self, path: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let found = std::fs::metadata(path).ok()?;
        if !found.is_file() {
            return None;
        }
        let open = |flags| openat(CWD, path, flags, Mode::empty());
        let opened = match self.noatime {
            true => open(flags | OFlags::NOATIME).or_else(|errno| match errno {
                Errno::PERM => open(flags),
                other => Err(other),
            }),
            false => open(flags),
        };
        let file = opened.ok()?;
        // Advice: other ranks read what follows a part.
        fadvise(&file, 0, None, Advice::Random).ok();
        // It may be another one by now; who asks compares it with the one that was meant.
        let regular = Inode::of(file.as_fd()).is_ok_and(|inode| inode.kind == Kind::Regular);
        regular.then(|| File::from(file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use haul_testbed::{painted, temp_dir};

    use super::*;

    /// As it is seen when everything has been quiet for long.
    fn source_of(path: &Path) -> SourceFile {
        let file = File::open(path).unwrap();
        let later = SystemTime::now() + Duration::from_secs(3600);
        SourceFile::of(path, &Inode::of(file.as_fd()).unwrap(), later).unwrap()
    }

    #[test]
    fn every_rank_reads_its_share_of_a_file_and_no_file_begins_everywhere_alike() {
        let file = |inode| SourceFile { path: Vec::new(), inode, size: 100 * PART, modified: (0, 0), changed: (0, 0) };
        for ranks in [1, 2, 3, 7] {
            let mut shares = vec![0; ranks];
            for part in 0..ranks as u64 * 5 {
                let reader = file(11).reader_of(part * PART, ranks);
                assert_eq!(reader, file(11).reader_of(part * PART + PART - 1, ranks), "a part has one reader");
                shares[reader] += 1;
            }
            assert_eq!(shares, vec![5; ranks]);
        }
        let firsts: Vec<usize> = (0..64).map(|inode| file(inode).reader_of(0, 4)).collect();
        assert!((0..4).all(|rank| firsts.contains(&rank)), "{firsts:?}");
    }

    #[test]
    fn a_part_ends_where_the_next_one_or_the_file_does() {
        let file = SourceFile { path: Vec::new(), inode: 1, size: PART + 10, modified: (0, 0), changed: (0, 0) };
        let ends = [0, 5, PART, PART + 9, PART + 10, u64::MAX].map(|offset| file.part_at(offset));
        assert_eq!(ends, [PART, PART - 5, 10, 1, 0, 0]);
    }

    #[test]
    fn a_file_that_was_changed_just_now_is_read_by_nobody_else() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        let inode = Inode::of(File::open(&path).unwrap().as_fd()).unwrap();
        let changed = UNIX_EPOCH + Duration::new(inode.changed.seconds.unsigned_abs(), inode.changed.nanoseconds);
        let at = |after| SourceFile::of(&path, &inode, changed + after);
        assert!(at(Duration::ZERO).is_none() && at(SETTLED - Duration::from_nanos(1)).is_none());
        assert!(at(SETTLED).is_some());
        assert!(SourceFile::of(&path, &inode, changed - Duration::from_secs(5)).is_none(), "a clock that is behind");
    }

    #[test]
    fn what_is_asked_for_is_read_up_to_the_end() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, painted(5000)).unwrap();
        let (source, open) = (source_of(&path), OpenSources::new(true));
        assert_eq!(open.read(&source, 0, 100).unwrap(), painted(5000)[..100]);
        assert_eq!(open.read(&source, 4000, 4096).unwrap(), painted(5000)[4000..]);
        assert_eq!((open.read(&source, 5000, 1), open.read(&source, u64::MAX, 1)), (None, None));
    }

    #[test]
    fn a_file_that_is_another_one_or_has_changed_is_not_read() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, "first").unwrap();
        let (source, open) = (source_of(&path), OpenSources::new(false));
        assert_eq!(open.read(&source, 0, 5).unwrap(), b"first");
        // As large, and open here: only the times tell.
        fs::write(&path, "other").unwrap();
        File::open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(open.read(&source, 0, 5), None);
        assert_eq!(open.read(&source, 0, 5), None, "opened again it is another one, too");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "third").unwrap();
        assert_eq!(open.read(&source, 0, 5), None);
        assert_eq!(open.read(&source_of(&path), 0, 5).unwrap(), b"third");
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let dir = temp_dir();
        let path = dir.path().join("file");
        fs::write(&path, "bytes").unwrap();
        let source = source_of(&path);
        fs::remove_file(&path).unwrap();
        // A FIFO would let the one who opens it wait.
        haul_sys::rustix::fs::mknodat(CWD, &path, haul_sys::rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(OpenSources::new(false).read(&source, 0, 5), None);
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert_eq!(OpenSources::new(false).read(&source, 0, 5), None);
    }

    #[test]
    fn no_more_files_stay_open_than_are_useful() {
        let dir = temp_dir();
        let open = OpenSources::new(false);
        for number in 0..KEPT_OPEN + 10 {
            let path = dir.path().join(number.to_string());
            fs::write(&path, "x").unwrap();
            assert!(open.read(&source_of(&path), 0, 1).is_some());
        }
        assert_eq!(lock(&open.open).len(), KEPT_OPEN);
    }
}
