//! Records under keys, in pages of 4 KiB: the first ones in memory, the others in a file that has no name.
//!
//! The pages are the buckets of a hash table; a record is in the page that the hash of its key says. When one page is
//! full, their number is doubled, and each is split in two. Pages in the file are read and written as needed: they count
//! as page cache, not as memory of this process.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;

use haul_sys::Errno;
use haul_sys::inode::FileId;
use haul_sys::memory;
use haul_sys::rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

use crate::error::errno_of;
use crate::temporary::{TemporaryNames, temporary_name};

const SIZE: usize = 4096;
/// The part of a limited memory that pages may take.
const SHARE: u64 = 8;
/// Bytes of a page that are in use, these two included.
const USED: usize = 2;
/// Length of the name and whether there is an identity in the lowest bit of the second byte, key, directory, identity.
const FIXED: usize = 1 + 1 + KEY + 4 + ID;
/// Length of a key: a word for what it is, the identity, and when it was made.
pub const KEY: usize = 1 + 16 + 12;
const ID: usize = 16;
/// Bytes of a name.
const LONGEST: u16 = 1024;

type Page = [u8; SIZE];

/// What a record is found by: a word for what it is, and a number or identity.
pub type Key = [u8; KEY];

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is found by.
    pub key: Key,
    /// The number of the directory that holds the entry.
    pub dir: u32,
    /// Its name there.
    pub name: OsString,
    /// Which file it is, if that is known.
    pub id: Option<FileId>,
}

/// The records.
///
/// # Errors
/// Every method gives what making, reading or writing the file said.
#[derive(Debug)]
pub struct Pages {
    /// Empty until the first page is asked for: most copies meet no file with several names.
    memory: Vec<Box<Page>>,
    /// How many pages may be in memory.
    limit: usize,
    /// How many there are: a power of two.
    count: usize,
    spill: Option<File>,
    /// The page of the file that was asked for last, as it is there, and which one it is.
    last: Option<Box<Page>>,
    last_place: Option<usize>,
    hashing: RandomState,
}

#[allow(clippy::missing_errors_doc)] // said once, above
impl Pages {
    /// None yet; at most `limit` of them will be in memory, at least one, and fewer where a limit of the process leaves little.
    pub fn new(limit: usize) -> Pages {
        let affordable = memory::left().map_or(limit, |left| usize::try_from(left / SHARE).unwrap_or(limit) / SIZE);
        Pages::within(limit.min(affordable).max(1))
    }

    /// None yet; all of them will be in memory.
    pub fn unlimited() -> Pages {
        Pages::within(usize::MAX)
    }

    fn within(limit: usize) -> Pages {
        Pages {
            memory: Vec::new(),
            limit,
            count: 1,
            spill: None,
            last: None,
            last_place: None,
            hashing: RandomState::new(),
        }
    }

    /// The record of this key.
    pub fn get(&mut self, key: &Key) -> Result<Option<Record>, Errno> {
        let page = self.load(self.place(key, self.count))?;
        Ok(find(page, key).map(|at| unpack(&page[at..])))
    }

    /// Puts a record in, in the place of one of the same key. The file, should it become necessary, is made in `room`. Records
    /// may be lost after an error.
    pub fn put(&mut self, record: &Record, room: BorrowedFd<'_>) -> Result<(), Errno> {
        let packed = pack(record).ok_or(Errno::NAMETOOLONG)?;
        loop {
            let place = self.place(&record.key, self.count);
            let page = self.load(place)?;
            if let Some(at) = find(page, &record.key) {
                cut(page, at);
            }
            if append(page, &packed) {
                return self.save(place);
            }
            // The old record goes with the page that is taken apart.
            self.double(room)?;
        }
    }

    /// Takes a record out. False if there is none.
    pub fn remove(&mut self, key: &Key) -> Result<bool, Errno> {
        let place = self.place(key, self.count);
        let page = self.load(place)?;
        let Some(at) = find(page, key) else { return Ok(false) };
        cut(page, at);
        self.save(place)?;
        Ok(true)
    }

    fn place(&self, key: &Key, count: usize) -> usize {
        // Only the lowest bits count, so nothing is lost where usize is smaller.
        self.hashing.hash_one(key) as usize & (count - 1)
    }

    /// Makes two pages of each.
    fn double(&mut self, room: BorrowedFd<'_>) -> Result<(), Errno> {
        let count = self.count.checked_mul(2).ok_or(Errno::NOMEM)?;
        if count > self.limit && self.spill.is_none() {
            self.spill = Some(nameless(room)?.into());
        }
        for old in 0..self.count {
            let page = Box::new(*self.load(old)?);
            let (mut stays, mut goes) = (empty(), empty());
            let mut at = USED;
            while at < used(&page) {
                let length = length_of(&page[at..]);
                let target = if self.place(&key_of(&page[at..]), count) == old { &mut stays } else { &mut goes };
                // Half of a page fits a page.
                append(target, &page[at..at + length]);
                at += length;
            }
            let new = old + self.count;
            if new < self.limit {
                self.memory.push(goes);
            } else {
                self.last = Some(goes);
                self.save(new)?;
            }
            match self.memory.get_mut(old) {
                Some(page) => *page = stays,
                None => {
                    self.last = Some(stays);
                    self.save(old)?;
                }
            }
        }
        self.count = count;
        Ok(())
    }

    /// A page, to be looked at or changed; [`Pages::save`] follows a change.
    fn load(&mut self, place: usize) -> Result<&mut Page, Errno> {
        if self.memory.is_empty() {
            self.memory.push(empty());
        }
        if place < self.memory.len() {
            return Ok(&mut self.memory[place]);
        }
        let last = self.last.get_or_insert_with(empty);
        if self.last_place != Some(place) {
            self.last_place = None;
            let (file, start) = in_file(self.spill.as_ref(), place, self.limit)?;
            // Every page was written before it is read.
            file.read_exact_at(&mut **last, start).map_err(errno_of)?;
            self.last_place = Some(place);
        }
        Ok(last)
    }

    /// Writes the page that was loaded last, if it is one of the file.
    fn save(&mut self, place: usize) -> Result<(), Errno> {
        let Some(last) = self.last.as_ref().filter(|_| place >= self.memory.len()) else { return Ok(()) };
        self.last_place = None;
        let (file, start) = in_file(self.spill.as_ref(), place, self.limit)?;
        file.write_all_at(&**last, start).map_err(errno_of)?;
        self.last_place = Some(place);
        Ok(())
    }

    /// How many pages are in memory.
    #[cfg(test)]
    pub(crate) fn in_memory(&self) -> usize {
        self.memory.len()
    }

    /// How many pages are in the file.
    #[cfg(test)]
    pub(crate) fn spilled(&self) -> usize {
        self.count.saturating_sub(self.limit)
    }
}

/// Where a page is in the file.
fn in_file(file: Option<&File>, place: usize, in_memory: usize) -> Result<(&File, u64), Errno> {
    Ok((file.ok_or(Errno::BADF)?, (place - in_memory.min(place)) as u64 * SIZE as u64))
}

/// A file without a name in this directory.
fn nameless(room: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let owner = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match openat(room, c".", flags | OFlags::TMPFILE, owner) {
        // Not every filesystem has such files: then it gets a name for a moment.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {}
        opened => return opened,
    }
    let made = Cell::new(None);
    let name = temporary_name(&TemporaryNames::anybodys(), |name| {
        made.set(Some(openat(room, name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, owner)?));
        Ok(())
    })?;
    unlinkat(room, &name, AtFlags::empty())?;
    made.into_inner().ok_or(Errno::IO)
}

fn empty() -> Box<Page> {
    let mut page = Box::new([0; SIZE]);
    set_used(&mut page, USED);
    page
}

fn used(page: &Page) -> usize {
    // A damaged file must not lead out of the page.
    usize::from(u16::from_ne_bytes([page[0], page[1]])).clamp(USED, SIZE)
}

fn set_used(page: &mut Page, used: usize) {
    // A page has 4096 bytes.
    page[..USED].copy_from_slice(&(used as u16).to_ne_bytes());
}

fn append(page: &mut Page, packed: &[u8]) -> bool {
    let used = used(page);
    let Some(room) = page.get_mut(used..used + packed.len()) else { return false };
    room.copy_from_slice(packed);
    set_used(page, used + packed.len());
    true
}

fn cut(page: &mut Page, at: usize) {
    let (used, length) = (used(page), length_of(&page[at..]));
    page.copy_within(at + length..used, at);
    set_used(page, used - length);
}

fn find(page: &Page, key: &Key) -> Option<usize> {
    let used = used(page);
    let mut at = USED;
    while at + FIXED <= used {
        if page[at + 2..at + 2 + KEY] == *key {
            return Some(at);
        }
        at += length_of(&page[at..]);
    }
    None
}

fn length_of(packed: &[u8]) -> usize {
    FIXED + (usize::from(packed[1] >> 1) << 8) + usize::from(packed[0])
}

fn key_of(packed: &[u8]) -> Key {
    let mut key = [0; KEY];
    key.copy_from_slice(&packed[2..2 + KEY]);
    key
}

/// `None` if the name is longer than any filesystem's: on ntfs3 and SMB 255 characters of up to three bytes.
fn pack(record: &Record) -> Option<Vec<u8>> {
    let name = record.name.as_bytes();
    let mut packed = Vec::with_capacity(FIXED + name.len());
    let [low, high] = u16::try_from(name.len()).ok().filter(|len| *len <= LONGEST)?.to_le_bytes();
    packed.push(low);
    packed.push(high << 1 | u8::from(record.id.is_some()));
    packed.extend(record.key);
    packed.extend(record.dir.to_ne_bytes());
    packed.extend(record.id.map_or([0; ID], FileId::to_bytes));
    packed.extend(name);
    Some(packed)
}

fn unpack(packed: &[u8]) -> Record {
    fn array<const N: usize>(packed: &[u8], at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&packed[at..at + N]);
        array
    }
    let (dir, id) = (2 + KEY, 2 + KEY + 4);
    Record {
        key: key_of(packed),
        dir: u32::from_ne_bytes(array(packed, dir)),
        id: (packed[1] & 1 != 0).then(|| FileId::from_bytes(array(packed, id))),
        name: OsString::from_vec(packed[FIXED..length_of(packed)].to_vec()),
    }
}
