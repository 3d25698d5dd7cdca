//! What a large copy leaves behind in the page cache: the pages of the source that it brought in are forgotten again, and
//! those of the destination are, where asked for, sent to the device and forgotten.
//!
//! Pages that were there before stay: before the first byte is read, the source is looked at in pieces, and a piece of which
//! a single page is in memory is left alone.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::page_cache;
use parking_lot::Mutex;

use crate::probe;

/// Looked at, and let go of, at once.
const PIECE: u64 = 8 << 20;
/// At most so many pieces are distinguished, to bound the memory and the questions: those of larger files are larger.
const PIECES: u64 = 1 << 20;
/// Files up to this size in bytes are looked at where that takes a mapping of each part of them (before Linux 6.5): 3 s.
const MOST_MAPPED: u64 = 64 << 30;
/// So much of the destination may be on its way to the device before somebody waits for it.
const ON_THE_WAY: u64 = 64 << 20;

/// Goes behind a copy.
pub struct DropBehind {
    source: Option<Cold>,
    dest: Option<Arc<OwnedFd>>,
    place: Mutex<Place>,
}

/// The source, and which pieces of it were not in memory.
struct Cold {
    file: Arc<OwnedFd>,
    piece: u64,
    /// One bit for each piece.
    cold: Vec<u64>,
}

#[derive(Default)]
struct Place {
    /// The copy has come so far.
    copied: u64,
    /// Everything before was dealt with.
    tidied: u64,
    /// The destination was sent to the device, and waited for, up to here.
    written: u64,
    /// The device refused some of the destination's data.
    failed: Option<Errno>,
}

impl DropBehind {
    /// Looks at the source of `size` bytes if its pages are to go, of which `cached` bytes are in memory, if that is known;
    /// takes the destination if its pages are to go.
    pub fn new(source: Option<(&Arc<OwnedFd>, u64, Option<u64>)>, dest: Option<&Arc<OwnedFd>>) -> Option<DropBehind> {
        let source = source.and_then(|(file, size, cached)| Cold::look(file, size, cached));
        if source.is_none() && dest.is_none() {
            return None;
        }
        Some(DropBehind { source, dest: dest.cloned(), place: Mutex::default() })
    }

    /// The copy has come up to this offset. Quick.
    pub fn copied(&self, to: u64) {
        let mut place = self.place.lock();
        place.copied = place.copied.max(to);
    }

    /// Deals with whole pieces that the copy has left behind, or with all if it is at its end. What somebody else is just
    /// dealing with is left to him.
    ///
    /// # Errors
    /// What the device said about the destination's data.
    pub fn tidy(&self, all: bool) -> Result<(), Errno> {
        let piece = self.source.as_ref().map_or(PIECE, |source| source.piece);
        let (from, to) = {
            let mut place = self.place.lock();
            let to = if all { place.copied } else { place.copied - place.copied % piece };
            let from = place.tidied;
            place.tidied = place.tidied.max(to);
            (from, to)
        };
        if from < to
            && let Some(source) = &self.source
        {
            source.forget(from, to);
        }
        let done = self.send(from, to, all);
        let mut place = self.place.lock();
        place.failed = place.failed.or(done.err());
        place.failed.map_or(Ok(()), Err)
    }

    /// Sends a range of the destination on its way, and waits for what was sent some time before.
    fn send(&self, from: u64, to: u64, all: bool) -> Result<(), Errno> {
        let Some(dest) = &self.dest else { return Ok(()) };
        if from < to {
            written(page_cache::write_back(dest.as_fd(), from, to - from, false))?;
        }
        let (start, end) = {
            let mut place = self.place.lock();
            let end = if all { to } else { to.saturating_sub(ON_THE_WAY) };
            let start = place.written;
            place.written = place.written.max(end);
            (start, end)
        };
        if start < end {
            written(page_cache::write_back(dest.as_fd(), start, end - start, true))?;
            // Advice: pages that cannot go stay.
            page_cache::forget(dest.as_fd(), start, end - start).ok();
        }
        Ok(())
    }
}

/// Files that cannot be sent to a device on demand (tmpfs, network) are no failure.
fn written(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::SPIPE | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => Ok(()),
        other => other,
    }
}

impl Cold {
    fn look(file: &Arc<OwnedFd>, size: u64, cached: Option<u64>) -> Option<Cold> {
        let cached = cached?;
        if cached >= size {
            return None;
        }
        let piece = PIECE.max(size.div_ceil(PIECES).next_multiple_of(PIECE));
        if cached > 0 && size > MOST_MAPPED && !page_cache::is_counted_by_the_kernel(file.as_fd()) {
            return None;
        }
        // Beyond the size first seen nothing was looked at, so nothing is forgotten.
        let pieces = size.div_ceil(piece);
        let words = usize::try_from(pieces.div_ceil(64)).ok()?;
        let mut found = Cold { file: Arc::clone(file), piece, cold: vec![0; words] };
        let mut any = false;
        for number in 0..pieces {
            if cached == 0 || probe::is_cold(file, number * piece, piece) {
                any = true;
                found.cold[(number / 64) as usize] |= 1 << (number % 64);
            }
        }
        any.then_some(found)
    }

    fn is_cold(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|word| self.cold.get(word));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn forget(&self, from: u64, to: u64) {
        // A hole that ends the file may have been passed in one step.
        let to = to.min((64 * self.cold.len() as u64).saturating_mul(self.piece));
        let mut at = from;
        while at < to {
            let number = at / self.piece;
            let end = ((number + 1) * self.piece).min(to);
            if self.is_cold(number) {
                // Advice: a page that cannot go stays. Up to the end of the piece: the last page is a part of one, and
                // read-ahead has gone on.
                page_cache::forget(self.file.as_fd(), at, (number + 1) * self.piece - at).ok();
            }
            at = end;
        }
    }
}
