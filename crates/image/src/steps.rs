//! What is done with the bytes of an image, whichever thread does it: read, looked through for zeros, written.

use std::io;
use std::sync::atomic::Ordering;

use haul_guest::ReadAt;
use haul_guest::fs::swap;

use haul_io::engine::Failure;
use haul_io::engine::hole::{self, Run};
use haul_io::pace::{self, Pace, Turn};
use haul_sys::Errno;

use super::pieces::{Kind, Piece};
use super::sink::{Done, Sink};
use super::stats::Counters;

/// A skipped range is cut into pieces of this many bytes if something is to be done to each byte of it, so that
/// progress shows and a request to stop is heard.
const STRIDE: u64 = 16 << 20;

/// Bytes of the smallest sector. Buffers of copies that look for more than zeros are whole ones.
pub(super) const SECTOR: usize = 512;

/// Bytes that are written where nothing is read.
const TEST_DATA: u8 = 0xa5;

/// Why a pass over an image ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// The source ended before its size.
    Ended,
    Reading(Errno),
    Failed(Failure),
    /// There are no threads.
    Threads(Errno),
}

impl Stop {
    /// What an error of reading the image means.
    pub(super) fn of_reading(error: &io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Stop::Ended,
            _ => Stop::Reading(Errno::from_io_error(error).unwrap_or(Errno::IO)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Zeros are not written.
    pub(super) sparse: bool,
    pub(super) zero_scan: bool,
    pub(super) buffer_size: usize,
    pub(super) align: usize,
    /// In bytes; see [`Piece`].
    pub(super) granule: u32,
    /// What is read is looked through for the memory of a hibernated system.
    pub(super) wary: bool,
    /// The ranges were skipped before, as zeros, and counted: what is read now takes that back.
    pub(super) again: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// Read from here; test data if there is nothing.
    pub(super) source: Option<&'a dyn ReadAt>,
    pub(super) rules: Rules,
    pub(super) counters: &'a Counters,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) pace: Option<&'a Pace>,
    /// Something is done to each byte that is skipped: it is hashed or written.
    pub(super) cut: bool,
    /// Zeros are written for what is skipped.
    pub(super) writes_zeros: bool,
}

impl Reading<'_> {
    /// Bytes of a piece that are dealt with at a time.
    pub(super) fn stride(&self, piece: &Piece) -> u64 {
        match piece.kind {
            // A limit wants even steps, of whole blocks.
            Kind::Data => self.even_step().min(self.rules.buffer_size as u64),
            _ if self.writes_zeros => self.even_step().min(STRIDE),
            _ if self.cut => STRIDE,
            _ => u64::MAX,
        }
    }

    fn even_step(&self) -> u64 {
        self.pace.map_or(u64::MAX, Pace::piece)
    }

    /// The parts of a piece that are dealt with one at a time: offset and length.
    pub(super) fn parts(&self, piece: &Piece) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (end, stride) = (piece.offset + piece.len, self.stride(piece));
        let starts = (piece.offset..end).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
        starts.map(move |at| (at, (end - at).min(stride)))
    }

    /// Whether the copy is to end.
    pub(super) fn check(&self) -> Result<(), Stop> {
        if (self.stop)() { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Waits for the turn to do so much work, which lasts until the result is dropped.
    fn turn(&self, bytes: u64, operations: u64) -> Result<Held<'_>, Stop> {
        let work = pace::Work { bytes, operations };
        let Some(pace) = self.pace.filter(|_| operations > 0) else { return Ok(Held { work, turn: None }) };
        let turn = pace.turn(work, &|| (self.stop)()).ok_or(Stop::Cancelled)?;
        Ok(Held { work, turn: Some((pace, turn)) })
    }

    /// Waits for the turn to copy so many bytes: a request to read them, and one to write them.
    pub(super) fn turn_to_copy(&self, len: u64) -> Result<Held<'_>, Stop> {
        self.turn(len, 2)
    }

    /// Fills the buffer with what stands at `offset`.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Stop> {
        let Some(source) = self.source else {
            bytes.fill(TEST_DATA);
            return Ok(());
        };
        let (counters, len) = (self.counters, bytes.len() as u64);
        let read = counters.reading.time(|| source.read_exact_at(offset, bytes));
        read.map_err(|error| Stop::of_reading(&error))?;
        counters.read.add(len);
        if self.rules.again {
            counters.read_skipped.take_back(len);
            counters.free.take_back(len);
        }
        Ok(())
    }

    /// Waits for its turn again if the bytes were written in more than the one request that was counted. Nobody may hold a
    /// turn meanwhile.
    pub(super) fn pay_for(&self, runs: &[Run]) -> Result<(), Stop> {
        let more = runs.iter().filter(|run| !run.zero).count().saturating_sub(1) as u64;
        if more > 0 { self.turn(0, more).map(drop) } else { Ok(()) }
    }

    /// Counts what is not read, and waits for the turn to write zeros for it, where they are written.
    pub(super) fn skip(&self, len: u64, kind: Kind) -> Result<Held<'_>, Stop> {
        self.counters.read_skipped.add(len);
        if kind == Kind::Free {
            self.counters.free.add(len);
        }
        let operations = if self.writes_zeros { 1 } else { 0 };
        self.turn(len * operations, operations)
    }
}

/// A turn that lasts as long as this is there: work that is under way.
pub(super) struct Held<'a> {
    work: pace::Work,
    turn: Option<(&'a Pace, Turn)>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some((pace, turn)) = self.turn.take() {
            pace.settle(turn, self.work);
        }
    }
}

/// Cuts bytes that stand at `offset` into runs of zeros and of others.
pub(super) fn scan(rules: &Rules, counters: &Counters, offset: u64, bytes: &[u8], runs: &mut Vec<Run>) {
    runs.clear();
    if rules.wary && holds_a_sleeper(bytes) {
        counters.asleep.store(true, Ordering::Relaxed);
    }
    if rules.zero_scan {
        counters.scan.time(|| runs.extend(hole::runs(bytes, offset, rules.granule)));
        let zeros = runs.iter().filter(|run| run.zero).map(|run| run.range.len() as u64).sum();
        counters.zeros.add(zeros);
    } else {
        runs.push(Run { zero: false, range: 0..bytes.len() });
    }
}

/// Whether there is the first page of a swap file in which a system hibernates. Files begin at whole sectors of a disk, in
/// containers too, and pages end with them. `bytes` begin at a whole sector.
pub(super) fn holds_a_sleeper(bytes: &[u8]) -> bool {
    bytes.chunks_exact(SECTOR).any(|sector| swap::is_hibernated(&sector[SECTOR - swap::LEN..]))
}

pub(super) struct Writing<'a> {
    /// Written here; nowhere if there is nothing.
    pub(super) sink: Option<&'a mut Sink>,
    pub(super) rules: Rules,
    pub(super) counters: &'a Counters,
}

impl Writing<'_> {
    /// Writes bytes that were scanned.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8], runs: &[Run]) -> Result<(), Failure> {
        if !self.rules.sparse && !self.rules.again {
            self.write(offset, bytes)?;
            self.counters.copied.add(bytes.len() as u64);
            return Ok(());
        }
        for run in runs {
            let (at, size) = (offset + run.range.start as u64, run.range.len() as u64);
            if run.zero {
                // Where it is the second time, zeros are there.
                if !self.rules.again {
                    self.zeros(at, size)?;
                }
                continue;
            }
            self.write(at, &bytes[run.range.clone()])?;
            if !self.rules.again {
                self.counters.copied.add(size);
            } else if self.rules.sparse {
                self.counters.copied.add(size);
                self.counters.write_skipped.take_back(size);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.sink {
            Some(sink) => self.counters.writing.time(|| sink.write(offset, bytes)),
            None => Ok(()),
        }
    }

    /// Lets a range read as zeros.
    pub(super) fn zeros(&mut self, offset: u64, len: u64) -> Result<(), Failure> {
        let done = match (&mut self.sink, self.rules.sparse) {
            (Some(sink), true) if sink.holds_old => self.counters.writing.time(|| sink.punch(offset, len))?,
            (Some(sink), false) => {
                self.counters.writing.time(|| sink.zeros(offset, len))?;
                Done::Written
            }
            // Nothing is called, so there is nothing to be timed.
            (_, true) => Done::Skipped,
            (None, false) => Done::Written,
        };
        match done {
            Done::Skipped => self.counters.write_skipped.add(len),
            Done::Written => self.counters.copied.add(len),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_found_at_the_end_of_a_sector_and_nowhere_else() {
        let mut bytes = vec![7; 5 * SECTOR + 100];
        assert!(!holds_a_sleeper(&bytes));
        for (at, found) in [(4 * SECTOR - 10, true), (4 * SECTOR - 11, false), (5 * SECTOR + 90, false), (0, false)] {
            let before = bytes.clone();
            bytes[at..at + 9].copy_from_slice(b"S1SUSPEND");
            assert_eq!(holds_a_sleeper(&bytes), found, "{at}");
            bytes = before;
        }
    }
}
