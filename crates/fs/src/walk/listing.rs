//! The names in a directory, in batches of bounded size.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use haul_sys::Errno;
use haul_sys::memory;
use haul_sys::rustix::fs::{FileType, RawDir, SeekFrom, seek};

/// Bytes read from a directory in one system call. mpiFileUtils uses 128 KiB, cpz 32 KiB; large enough that the call
/// itself does not show, small enough for one buffer on the heap.
const BUFFER: usize = 128 * 1024;

/// Names in one batch at most. A batch is sorted by inode number, the order in which ext4 and XFS lay inodes out;
/// sorting more at once gains little and costs memory in every directory of the path.
const BATCH: usize = 32 * 1024;

/// The same where memory is limited: each name takes 200 bytes or so, and there may be a batch for each directory of the path.
const FEWEST: usize = 256;
const BYTES_FOR_A_NAME: u64 = 4096;

/// Names in one batch of this process at most.
fn batch() -> usize {
    static NAMES: OnceLock<usize> = OnceLock::new();
    let within = |left: u64| usize::try_from(left / BYTES_FOR_A_NAME).map_or(BATCH, |names| names.clamp(FEWEST, BATCH));
    *NAMES.get_or_init(|| memory::left().map_or(BATCH, within))
}

/// One name found in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: OsString,
    /// The type, where the filesystem says so.
    pub kind: Option<FileType>,
    /// Its number, if the name comes out of a list and not out of the directory.
    pub entry: Option<u32>,
    /// Its copy, a directory, was made already, with this mode, and is empty.
    pub made: Option<u32>,
}

/// Reads a directory batch by batch. Holds no descriptor, so that a walk may close and reopen the directory.
#[derive(Debug, Default)]
pub struct Listing {
    batch: VecDeque<Listed>,
    cookie: u64,
    at_end: bool,
    moved_to_new_descriptor: bool,
}

impl Listing {
    /// These names, and no others.
    pub fn of(names: Vec<Listed>) -> Listing {
        Listing { batch: names.into(), at_end: true, ..Listing::default() }
    }

    /// The next name, `.` and `..` left out; `None` at the end. Reads from `dir`, which must always be the same directory.
    ///
    /// # Errors
    /// As [`Listing::read`].
    pub fn next(&mut self, dir: BorrowedFd<'_>) -> Result<Option<Listed>, Errno> {
        self.read(dir)?;
        Ok(self.batch.pop_front())
    }

    /// Reads names if there are none left; whether it did. Reads from `dir` as [`Listing::next`].
    ///
    /// # Errors
    /// As getdents(2), or lseek(2) where the directory was closed meanwhile.
    pub fn read(&mut self, dir: BorrowedFd<'_>) -> Result<bool, Errno> {
        let read = self.batch.is_empty() && !self.at_end;
        if read {
            self.fill(dir)?;
        }
        Ok(read)
    }

    /// The names that were read and not visited.
    #[inline]
    pub fn names(&mut self) -> impl Iterator<Item = &mut Listed> {
        self.batch.iter_mut()
    }

    /// Names that come out of a list, from this place in it on.
    #[must_use]
    pub fn out_of_list(place: Option<u32>) -> Listing {
        Listing { cookie: place.unwrap_or(0).into(), at_end: place.is_none(), ..Listing::default() }
    }

    /// The next name of a list. `names` gives so many of them from a place on, and the place behind them if there are more.
    pub fn next_of_list(&mut self, names: impl Fn(u32, usize) -> (Vec<Listed>, Option<u32>)) -> Option<Listed> {
        if self.batch.is_empty() && !self.at_end {
            // It was put there by this type.
            let (found, next) = names(u32::try_from(self.cookie).unwrap_or(u32::MAX), batch());
            self.batch.extend(found);
            self.cookie = next.unwrap_or(0).into();
            self.at_end = next.is_none();
        }
        self.batch.pop_front()
    }

    /// The next name, if it need not be read from the directory.
    #[inline]
    pub fn next_of_batch(&mut self) -> Option<Listed> {
        self.batch.pop_front()
    }

    /// Whether the rest of the batch can usefully be split between two: it is two names or more, or one that holds
    /// others. The one is only for somebody who is `busy` with other names: else it would be handed from one who has
    /// nothing else to the next, and none of them would ever enter it.
    #[inline]
    pub fn can_be_split(&self, busy: bool) -> bool {
        match self.batch.len() {
            0 => false,
            1 => busy && self.batch[0].kind == Some(FileType::Directory),
            _ => true,
        }
    }

    /// Takes the second half of the rest of the batch away, as a listing of its own that ends there.
    #[must_use]
    pub fn split(&mut self) -> Listing {
        let second = self.batch.split_off(self.batch.len() / 2);
        Listing { batch: second, at_end: true, ..Listing::default() }
    }

    /// Undoes [`Listing::split`].
    pub fn join(&mut self, mut second: Listing) {
        self.batch.append(&mut second.batch);
    }

    /// Says that the directory was closed meanwhile: the next descriptor stands at the beginning.
    #[inline]
    pub fn reopened(&mut self) {
        self.moved_to_new_descriptor = true;
    }

    fn fill(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        if std::mem::take(&mut self.moved_to_new_descriptor) {
            seek(dir, SeekFrom::Start(self.cookie))?;
        }
        let mut found: Vec<(u64, Listed)> = Vec::new();
        let mut buffer = Box::new_uninit_slice(BUFFER);
        while found.len() < batch() {
            if !self.read_once(dir, &mut buffer, &mut found)? {
                self.at_end = true;
                break;
            }
        }
        found.sort_by_key(|(inode, _)| *inode);
        self.batch.extend(found.into_iter().map(|(_, listed)| listed));
        Ok(())
    }

    /// Reads one buffer full; `false` at the end of the directory.
    fn read_once(
        &mut self,
        dir: BorrowedFd<'_>,
        buffer: &mut [MaybeUninit<u8>],
        found: &mut Vec<(u64, Listed)>,
    ) -> Result<bool, Errno> {
        let mut entries = RawDir::new(dir, buffer);
        let mut any = false;
        loop {
            // The buffer is drained to its end, so that the position of the descriptor and our cookie agree.
            if any && entries.is_buffer_empty() {
                return Ok(true);
            }
            let Some(entry) = entries.next() else { return Ok(any) };
            let entry = entry?;
            any = true;
            self.cookie = entry.next_entry_cookie();
            let name: &CStr = entry.file_name();
            if name != c"." && name != c".." {
                let kind = Some(entry.file_type()).filter(|kind| *kind != FileType::Unknown);
                let name = OsStr::from_bytes(name.to_bytes()).to_owned();
                found.push((entry.ino(), Listed { name, kind, entry: None, made: None }));
            }
        }
    }
}
