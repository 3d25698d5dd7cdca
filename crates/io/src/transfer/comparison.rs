//! Whether two open files have the same bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{SeekFrom, seek};

use crate::engine::calls::again;
use crate::options::CacheUse;
use crate::pace::{Pace, Work};
use crate::probe;
use crate::ranges::BLIND;
use crate::strategy::leaves_the_cache;

use super::drop_behind::DropBehind;

/// Bytes that are read of each side at a time: two of these stay in the second-level cache.
const WINDOW: usize = 256 << 10;

/// Memory for the bytes of two files.
pub struct Buffers([Vec<u8>; 2]);

impl Buffers {
    /// For files of any size.
    #[must_use]
    pub fn new() -> Buffers {
        Buffers::for_size(WINDOW as u64)
    }

    /// For files of this size: no more than they need.
    #[must_use]
    pub fn for_size(size: u64) -> Buffers {
        let mut buffers = Buffers([Vec::new(), Vec::new()]);
        buffers.fit(size);
        buffers
    }

    /// Makes them those for files of this size. The memory of larger ones is kept.
    pub fn fit(&mut self, size: u64) {
        // One more, so that one read tells where they end.
        let size = usize::try_from(size.saturating_add(1)).unwrap_or(WINDOW).min(WINDOW);
        self.0.iter_mut().for_each(|buffer| buffer.resize(size, 0));
    }
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers::new()
    }
}

/// Two open files to compare.
pub struct Comparison<'a> {
    /// Both, open for reading.
    pub files: [&'a Arc<OwnedFd>; 2],
    /// Their attributes.
    pub inodes: [&'a Inode; 2],
    /// How fast it may go, if there is a limit.
    pub pace: Option<&'a Pace>,
    /// Whether pages that only this has brought into the page cache stay there.
    pub cache: CacheUse,
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

impl Comparison<'_> {
    /// The first byte that differs, counted from 0; the end of the shorter one counts. None also if it was stopped.
    ///
    /// # Errors
    /// Which of the two could not be read, and why.
    pub fn first_difference(&self, buffers: &mut Buffers) -> Result<Option<u64>, (usize, Errno)> {
        let sparse = self.inodes.iter().all(|inode| inode.allocated < inode.size);
        let behind = [self.drop_behind(0), self.drop_behind(1)];
        let tidy = |to, all| {
            for behind in behind.iter().flatten() {
                behind.copied(to);
                // Nothing is written, so nothing fails.
                behind.tidy(all).ok();
            }
        };
        let mut at = 0;
        while !(self.stop)() {
            if sparse {
                // What is a hole of both is the same.
                let [one, other] = self.files.map(|file| next_data(file.as_fd(), at));
                at = one.min(other).max(at);
            }
            let Some([one, other]) = self.read(at, buffers)? else { break };
            let both = one.len().min(other.len());
            if let Some(first) = first_other(&one[..both], &other[..both]) {
                return Ok(Some(at + first as u64));
            }
            if one.len() != other.len() {
                return Ok(Some(at + both as u64));
            }
            at += both as u64;
            if both < buffers.0[0].len() {
                break;
            }
            tidy(at, false);
        }
        tidy(at, true);
        // A hole at the end has no bytes to be met by a read.
        let [one, other] = self.inodes.map(|inode| inode.size);
        Ok((sparse && one != other && !(self.stop)()).then_some(one.min(other)))
    }

    /// The next bytes of both. None if the run was stopped while it waited for its turn.
    fn read<'b>(&self, at: u64, buffers: &'b mut Buffers) -> Result<Option<[&'b [u8]; 2]>, (usize, Errno)> {
        let [one, other] = &mut buffers.0;
        let expected = Work { bytes: one.len() as u64, operations: 2 };
        let turn = match self.pace.map(|pace| (pace, pace.turn(expected, self.stop))) {
            Some((_, None)) => return Ok(None),
            Some((pace, Some(turn))) => Some((pace, turn)),
            None => None,
        };
        let read = |side: usize, buffer| {
            let (file, size) = (self.files[side].as_fd(), self.inodes[side].size);
            read_full(file, at, size, buffer).map_err(|errno| (side, errno))
        };
        let counts = read(0, one).and_then(|first| Ok([first, read(1, other)?]));
        if let Some((pace, turn)) = turn {
            let bytes = counts.map_or(0, |[one, _]| one as u64);
            pace.settle(turn, Work { bytes, operations: 2 });
        }
        let counts = counts?;
        Ok(Some([&one[..counts[0]], &other[..counts[1]]]))
    }

    fn drop_behind(&self, side: usize) -> Option<DropBehind> {
        let (file, size) = (self.files[side], self.inodes[side].size);
        if !leaves_the_cache(size, self.cache) {
            return None;
        }
        DropBehind::new(Some((file, size, probe::cached_bytes(file.as_fd(), size))), None)
    }
}

/// Where data begins from here on, or where it may begin if nothing but a hole follows. Where nobody can tell, here.
fn next_data(file: BorrowedFd<'_>, at: u64) -> u64 {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => at.max(BLIND),
        Err(_) => at,
    }
}

/// Reads until the buffer is full or the file ends: that it does where its `size` says so and no more comes.
fn read_full(file: BorrowedFd<'_>, at: u64, size: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        // The kernel refuses a read that could go beyond the largest offset, and a file may end just there.
        let at = at.saturating_add(filled as u64);
        let room = usize::try_from((i64::MAX as u64).saturating_sub(at)).unwrap_or(usize::MAX);
        let end = buffer.len().min(filled.saturating_add(room));
        if end == filled {
            break;
        }
        match again(|| Linux.pread(file, &mut buffer[filled..end], at))? {
            0 => break,
            count => {
                filled += count;
                if filled < end && at + count as u64 == size {
                    break;
                }
            }
        }
    }
    Ok(filled)
}

/// The first place where two slices of one length are not the same.
fn first_other(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    one.iter().zip(other).position(|(one, other)| one != other)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, copy, repeat};

    use haul_sys::page_cache;
    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn the_first_byte_that_differs_is_found() {
        let mut bytes = vec![7; 1000];
        assert_eq!(first_other(&bytes, &vec![7; 1000]), None);
        for at in [0, 1, 999] {
            bytes[at] = 8;
            assert_eq!(first_other(&bytes, &vec![7; 1000]), Some(at));
            bytes[at] = 7;
        }
    }

    /// What is found of two files with these contents.
    fn compare(one: &[u8], other: &[u8], pace: Option<&Pace>, stop: bool) -> Option<u64> {
        let dir = temp_dir();
        let files = [("one", one), ("other", other)].map(|(name, bytes)| {
            fs::write(dir.path().join(name), bytes).unwrap();
            File::open(dir.path().join(name)).unwrap()
        });
        compare_files(files, pace, stop)
    }

    fn compare_files(files: [File; 2], pace: Option<&Pace>, stop: bool) -> Option<u64> {
        let files = files.map(|file| Arc::new(OwnedFd::from(file)));
        let inodes = [0, 1].map(|side: usize| Inode::of(files[side].as_fd()).unwrap());
        let comparison = Comparison {
            files: [&files[0], &files[1]],
            inodes: [&inodes[0], &inodes[1]],
            pace,
            cache: CacheUse::Auto,
            stop: &|| stop,
        };
        comparison.first_difference(&mut Buffers::for_size(inodes[0].size)).unwrap()
    }

    #[test]
    fn files_are_compared_to_their_ends() {
        let long = vec![1; 2 * WINDOW + 5];
        let mut changed = long.clone();
        changed[2 * WINDOW + 4] = 2;
        for (one, other, found) in [
            (&b""[..], &b""[..], None),
            (b"", b"a", Some(0)),
            (b"ab", b"ab", None),
            (b"ab", b"abc", Some(2)),
            (&long, &long, None),
            (&long, &changed, Some(2 * WINDOW as u64 + 4)),
            (&long, &long[..2 * WINDOW], Some(2 * WINDOW as u64)),
        ] {
            assert_eq!(compare(one, other, None, false), found, "{} and {}", one.len(), other.len());
        }
    }

    #[test]
    fn holes_of_different_lengths_at_the_end_are_a_difference() {
        let dir = temp_dir();
        for (sizes, found) in [([5 << 20, 5 << 20], None), ([5 << 20, 7 << 20], Some(5 << 20))] {
            let files = [("one", sizes[0]), ("other", sizes[1])].map(|(name, size)| {
                fs::write(dir.path().join(name), b"the same").unwrap();
                let file = File::options().read(true).write(true).open(dir.path().join(name)).unwrap();
                file.set_len(size).unwrap();
                file
            });
            assert_eq!(compare_files(files, None, false), found);
        }
    }

    #[test]
    fn a_hole_at_the_end_takes_no_time_where_the_cache_is_kept_clean() {
        const SIZE: u64 = 64 << 20;
        let dir = temp_dir();
        let files = ["one", "other"].map(|name| {
            fs::write(dir.path().join(name), vec![7; 100_000]).unwrap();
            let file = File::options().read(true).write(true).open(dir.path().join(name)).unwrap();
            file.set_len(SIZE).unwrap();
            file.sync_all().unwrap();
            page_cache::forget(file.as_fd(), 0, SIZE).unwrap();
            file
        });
        assert_eq!(compare_files(files, None, false), None);
    }

    #[test]
    fn what_is_read_counts_for_the_pace() {
        let pace = Pace::default();
        pace.set_yielded(Some(crate::pace::Limit::NONE));
        assert_eq!(compare(&[1; 1000], &[1; 1000], Some(&pace), false), None);
        assert_eq!(pace.done().bytes, 1000);
    }

    #[test]
    fn a_comparison_that_is_stopped_finds_nothing() {
        assert_eq!(compare(b"a", b"b", None, true), None);
    }

    #[test]
    fn only_pages_that_a_comparison_brought_in_leave_the_cache() {
        const SIZE: u64 = 32 << 20;
        let dir = temp_dir();
        let cached = |file: &Arc<OwnedFd>| page_cache::cached_pages(file.as_fd(), 0, SIZE);
        let files = ["one", "other"].map(|name| {
            let file = File::options().read(true).write(true).create_new(true).open(dir.path().join(name)).unwrap();
            copy(&mut repeat(7).take(SIZE), &mut &file).unwrap();
            file.sync_all().unwrap();
            Arc::new(OwnedFd::from(file))
        });
        page_cache::forget(files[0].as_fd(), 0, SIZE).unwrap();
        if cached(&files[0]) != Ok(0) {
            return haul_testbed::skip("pages of this filesystem do not leave the page cache");
        }
        let before = cached(&files[1]);
        let inodes = [0, 1].map(|side: usize| Inode::of(files[side].as_fd()).unwrap());
        let comparison = Comparison {
            files: [&files[0], &files[1]],
            inodes: [&inodes[0], &inodes[1]],
            pace: None,
            cache: CacheUse::Drop,
            stop: &|| false,
        };
        assert_eq!(comparison.first_difference(&mut Buffers::new()), Ok(None));
        assert_eq!((cached(&files[0]), cached(&files[1])), (Ok(0), before));
    }
}
