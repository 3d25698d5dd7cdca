//! Reading a container's tables: once when it is opened, with witnesses, and again while data is read, with a cache.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::budget::{Budget, LARGEST_PIECE};
use crate::image::{ReadAt, Session, Witness};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

/// The largest table that is held in memory as a whole (an L1 table, a grain directory, a block map), in bytes.
pub(super) const LARGEST_TABLE: u64 = 20 << 20;

/// How many pieces of tables may be read while a container is opened: each leaves a witness of 40 bytes.
const PIECES: u32 = 400_000;

/// Bytes of tables that are kept while data is read.
const CACHE: usize = 4 << 20;

/// A [`Witness`] of one of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileWitness {
    /// The index of the file in [`Opened::parts`](super::Opened::parts).
    pub file: usize,
    /// What was read there.
    pub witness: Witness,
}

/// Whoever reads a table of a container's files.
pub(super) trait Tables {
    /// The bytes of a table of at most [`LARGEST_PIECE`].
    fn table(&self, file: usize, offset: u64, len: usize) -> Result<Arc<Vec<u8>>, Refusal>;

    fn files(&self) -> &[Arc<dyn ReadAt>];

    fn file(&self, file: usize) -> Result<&dyn ReadAt, Refusal> {
        self.files().get(file).map(|file| &**file).or_corrupt("a file that is not there")
    }

    /// The size of a file in bytes; zero if it is not there.
    fn size(&self, file: usize) -> u64 {
        self.files().get(file).map_or(0, |file| file.size())
    }
}

/// Reads tables, leaves a witness of each, and sees to it that they do not get too many.
pub(super) struct Reader {
    files: Vec<Arc<dyn ReadAt>>,
    seen: RefCell<Vec<FileWitness>>,
    bytes: Cell<u64>,
    pieces: Cell<u32>,
    /// The one that was read last.
    last: Recent<(usize, u64, usize)>,
}

impl Reader {
    /// Tables may be read once, as far as sizes tell: each file's size, and 64 MiB more.
    pub fn new(files: Vec<Arc<dyn ReadAt>>) -> Reader {
        let bytes = Cell::new(files.iter().fold(64 << 20, |sum: u64, file| sum.saturating_add(file.size())));
        Reader { files, seen: RefCell::default(), bytes, pieces: Cell::new(PIECES), last: Recent::new(0) }
    }

    /// Reads at most [`LARGEST_PIECE`] bytes.
    pub fn read(&self, file: usize, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        let source = self.file(file)?;
        let bytes = self.bytes.get().checked_sub(len as u64).ok_or(Refusal::Budget("bytes of tables"))?;
        let pieces = self.pieces.get().checked_sub(1).ok_or(Refusal::Budget("tables"))?;
        let session = Session::new(source, Budget::new(len as u64, 1, 1));
        let read = session.view().read(offset, len)?;
        self.bytes.set(bytes);
        self.pieces.set(pieces);
        let witnesses = session.into_witnesses();
        self.seen.borrow_mut().extend(witnesses.into_iter().map(|witness| FileWitness { file, witness }));
        Ok(read)
    }

    /// Reads a table of at most [`LARGEST_TABLE`] bytes, in pieces.
    pub fn read_long(&self, file: usize, offset: u64, len: u64) -> Result<Vec<u8>, Refusal> {
        // Before anything is allocated: the length comes from a header.
        match offset.checked_add(len) {
            Some(end) if end <= self.size(file) => {}
            _ => return Err(Refusal::corrupt(format!("a table of {len} bytes at {offset} is not in the file"))),
        }
        over_budget_if(len > LARGEST_TABLE, "bytes of one table")?;
        let mut table = Vec::with_capacity(len as usize);
        while (table.len() as u64) < len {
            let piece = (len as usize - table.len()).min(LARGEST_PIECE);
            table.extend(self.read(file, offset + table.len() as u64, piece)?);
        }
        Ok(table)
    }

    pub fn seen(&self) -> Ref<'_, Vec<FileWitness>> {
        self.seen.borrow()
    }

    pub fn into_parts(self) -> (Vec<Arc<dyn ReadAt>>, Vec<FileWitness>) {
        let mut seen = self.seen.into_inner();
        seen.shrink_to_fit();
        (self.files, seen)
    }
}

impl Tables for Reader {
    fn table(&self, file: usize, offset: u64, len: usize) -> Result<Arc<Vec<u8>>, Refusal> {
        self.last.get((file, offset, len), || self.read(file, offset, len))
    }

    fn files(&self) -> &[Arc<dyn ReadAt>] {
        &self.files
    }
}

/// The most recently used of some blocks, up to a number of bytes.
pub(super) struct Recent<K> {
    blocks: Mutex<VecDeque<(K, Arc<Vec<u8>>)>>,
    most: usize,
}

impl<K: PartialEq> Recent<K> {
    /// None so far, and never more than `most` bytes, but always one.
    pub fn new(most: usize) -> Recent<K> {
        Recent { blocks: Mutex::default(), most }
    }

    /// The block of this key; `make` makes it if it is not there.
    pub fn get(&self, key: K, make: impl FnOnce() -> Result<Vec<u8>, Refusal>) -> Result<Arc<Vec<u8>>, Refusal> {
        {
            // Blocks are put in whole, so one who panicked with the lock left nothing half done.
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = blocks.iter().position(|(have, _)| *have == key)
                && let Some((have, block)) = blocks.remove(at)
            {
                blocks.push_front((have, Arc::clone(&block)));
                return Ok(block);
            }
        }
        // Without the lock: several threads may read different blocks at once.
        let block = Arc::new(make()?);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.push_front((key, Arc::clone(&block)));
        while blocks.len() > 1 && blocks.iter().map(|(_, block)| block.len()).sum::<usize>() > self.most {
            blocks.pop_back();
        }
        Ok(block)
    }
}

/// Reads tables again for those who read data. What changed since is noticed by the witnesses.
pub(super) struct Cached {
    files: Vec<Arc<dyn ReadAt>>,
    tables: Recent<(usize, u64, usize)>,
}

impl Cached {
    pub fn new(files: Vec<Arc<dyn ReadAt>>) -> Cached {
        Cached { files, tables: Recent::new(CACHE) }
    }
}

impl Tables for Cached {
    fn table(&self, file: usize, offset: u64, len: usize) -> Result<Arc<Vec<u8>>, Refusal> {
        self.tables.get((file, offset, len), || {
            let source = self.file(file)?;
            let inside = offset.checked_add(len as u64).is_some_and(|end| end <= source.size());
            let outside = !inside || len > LARGEST_PIECE;
            corrupt_if(outside, format_args!("a table of {len} bytes at {offset} is not in the file"))?;
            let mut table = vec![0; len];
            source.read_exact_at(offset, &mut table)?;
            Ok(table)
        })
    }

    fn files(&self) -> &[Arc<dyn ReadAt>] {
        &self.files
    }
}

/// Whether two entries of `N` bytes are the same, apart from those that are zero. A table that is named twice would be
/// walked through once more each time.
pub(super) fn any_twice<const N: usize>(table: &[u8]) -> bool {
    let (entries, _) = table.as_chunks::<N>();
    let mut sorted: Vec<[u8; N]> = entries.iter().filter(|entry| **entry != [0; N]).copied().collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair.first() == pair.last())
}

/// Whether everything that was read is still the same.
pub(super) fn all_hold(witnesses: &[FileWitness], files: &[Arc<dyn ReadAt>]) -> io::Result<bool> {
    witnesses.iter().try_fold(true, |same, seen| {
        let file = files.get(seen.file).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(same && seen.witness.holds(&**file)?)
    })
}
