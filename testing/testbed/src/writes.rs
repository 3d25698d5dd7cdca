//! The log of all writes to a device, as dm-log-writes and QEMU's blklogwrites make it, and what the device may hold if its
//! power is cut: everything before a flush that it completed, and of what came later any part.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use crate::guest::Noise;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
/// Linux says so of writes by a filesystem for itself.
const METADATA: u64 = 16;

/// What a device writes at once or not at all. Smaller ones are sold; filesystems count on theirs, which is this.
const BLOCK: u64 = 4096;

/// What was asked of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To write; `fua` if it must be on the medium when it is done.
    Write {
        /// Forced unit access.
        fua: bool,
    },
    /// To put everything on the medium that was written before.
    Flush,
    /// To forget a range.
    Discard,
    /// Nothing: somebody wrote a remark.
    Mark,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What it asks.
    pub kind: Kind,
    /// Where on the device, in bytes.
    pub offset: u64,
    /// How many bytes of the device.
    pub len: u64,
    /// Where its data stands in the log.
    data: u64,
}

/// A log, in the order of the requests.
#[derive(Debug)]
pub struct WriteLog {
    file: File,
    entries: Vec<Entry>,
}

impl WriteLog {
    /// Reads the log as it is now, also while it grows. The number of entries in its head may be that of the last flush; what follows counts as
    /// far as it is there in full.
    ///
    /// # Errors
    /// In words, if it is not such a log.
    pub fn open(path: &Path) -> Result<WriteLog, String> {
        WriteLog::read(path, false)
    }

    /// Reads a log that nobody writes to any more, as far as its head says. It may be on a device.
    ///
    /// # Errors
    /// As [`WriteLog::open`].
    pub fn open_finished(path: &Path) -> Result<WriteLog, String> {
        WriteLog::read(path, true)
    }

    fn read(path: &Path, exact: bool) -> Result<WriteLog, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let head: [u64; 4] = words(&file, 0).ok_or("it has no head")?;
        // In this order: the log may grow meanwhile, and a head must not speak of what came after the size.
        // Sought, not asked for: the log may be on a device.
        let size = (&file).seek(SeekFrom::End(0)).map_err(|error| error.to_string())?;
        let sector = head[3] & u64::from(u32::MAX);
        if head[0] != MAGIC || head[1] != 1 || !sector.is_power_of_two() || sector < 512 {
            return Err(format!("a strange head: {head:x?}"));
        }
        let (mut entries, mut at) = (Vec::new(), sector);
        let mut read = 0;
        while let Some((flush, entry, next)) = entry(&file, at, sector).filter(|(_, _, next)| *next <= size) {
            entries.extend(flush.into_iter().chain([entry]));
            at = next;
            read += 1;
            // Behind its end a device has what was there before.
            if exact && read == head[2] {
                break;
            }
        }
        if read < head[2] {
            let next: [u64; 4] = words(&file, at).unwrap_or_default();
            return Err(format!("{read} entries can be read of {}; the next is {next:x?}", head[2]));
        }
        Ok(WriteLog { file, entries })
    }

    /// All requests.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The numbers of the flushes.
    pub fn flushes(&self) -> Vec<usize> {
        (0..self.entries.len()).filter(|number| self.entries[*number].kind == Kind::Flush).collect()
    }

    /// Does to an image what one request did to the device.
    ///
    /// # Panics
    /// If the log cannot be read or the image not be written.
    pub fn apply(&self, number: usize, image: &File) {
        let entry = self.entries[number];
        self.apply_part(entry, 0, entry.len, image);
    }

    /// What may have become of the requests in `range` that no flush followed: some are done, some are not, and some in part.
    /// How many of them, and which, is random.
    ///
    /// # Panics
    /// If the log cannot be read or the image not be written.
    pub fn apply_some(&self, range: std::ops::Range<usize>, image: &File, noise: &mut Noise) {
        // Of 16 requests: none, a few, half of them, most, all.
        let done = [0, 3, 8, 14, 16][usize::try_from(noise.below(5)).expect("it is small")];
        for entry in &self.entries[range] {
            let certain = matches!(entry.kind, Kind::Write { fua: true });
            match noise.below(16) {
                _ if certain => self.apply_part(*entry, 0, entry.len, image),
                // Neither all of it nor nothing.
                0 if done != 0 && done != 16 => {
                    for start in (0..entry.len).step_by(BLOCK as usize).filter(|_| noise.below(2) == 0) {
                        self.apply_part(*entry, start, BLOCK.min(entry.len - start), image);
                    }
                }
                chance if chance < done => self.apply_part(*entry, 0, entry.len, image),
                _ => {}
            }
        }
    }

    fn apply_part(&self, entry: Entry, start: u64, len: u64, image: &File) {
        match entry.kind {
            Kind::Write { .. } => {
                let mut data = vec![0; usize::try_from(len).expect("a request is small")];
                self.file.read_exact_at(&mut data, entry.data + start).expect("cannot read the log");
                image.write_all_at(&data, entry.offset + start).expect("cannot write an image");
            }
            // A discarded range reads as zeros, or as before, or as anything: zeros hurt most.
            Kind::Discard => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(image, flags, entry.offset + start, len).expect("cannot punch a hole");
            }
            Kind::Flush | Kind::Mark => {}
        }
    }
}

/// The entry whose head stands here, and where the next one does; `None` if there is none. Linux makes one entry of a flush
/// that comes with data: those are written after it.
fn entry(file: &File, at: u64, sector: u64) -> Option<(Option<Entry>, Entry, u64)> {
    let [first, count, flags, _text] = words(file, at)?;
    let data = at + sector;
    let len = count.checked_mul(sector)?;
    let flags = flags & !METADATA;
    let kind = match flags & !FLUSH {
        // The flush before a write may come by itself, with the flags and the place of that.
        0 | FUA if flags & FLUSH != 0 && count == 0 => Kind::Flush,
        0 | FUA if count > 0 => Kind::Write { fua: flags & FUA != 0 },
        DISCARD if flags == DISCARD && count > 0 => Kind::Discard,
        MARK if flags == MARK && count == 0 => Kind::Mark,
        _ => return None,
    };
    let flush = (flags & FLUSH != 0 && count > 0).then_some(Entry { kind: Kind::Flush, offset: 0, len: 0, data });
    // The text of a remark stands in the same sector.
    let stored = if kind == Kind::Discard { 0 } else { len };
    Some((flush, Entry { kind, offset: first.checked_mul(sector)?, len, data }, data.checked_add(stored)?))
}

/// Numbers of 8 bytes, little end first, that stand one after the other.
fn words<const N: usize>(file: &File, at: u64) -> Option<[u64; N]> {
    let mut found = [0; N];
    for (number, word) in (0..).zip(&mut found) {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at + 8 * number).ok()?;
        *word = u64::from_le_bytes(bytes);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TempDir, temp_dir};

    /// A log with sectors of 512 bytes.
    struct Forged(Vec<u8>);

    impl Forged {
        fn new(count: u64) -> Forged {
            Forged(Vec::new()).sector(&[MAGIC, 1, count, 512])
        }

        fn sector(mut self, words: &[u64]) -> Forged {
            let end = self.0.len() + 512;
            self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            self.0.resize(end, 0);
            self
        }

        fn write(mut self, sector: u64, data: &[u8]) -> Forged {
            self = self.sector(&[sector, data.len() as u64 / 512, 0, 0]);
            self.0.extend(data);
            self
        }

        fn flush(self) -> Forged {
            self.sector(&[0, 0, FLUSH, 0])
        }

        fn open(&self) -> (TempDir, Result<WriteLog, String>) {
            let dir = temp_dir();
            std::fs::write(dir.path().join("log"), &self.0).expect("it can be written");
            let log = WriteLog::open(&dir.path().join("log"));
            (dir, log)
        }
    }

    fn image(dir: &TempDir) -> File {
        let path = dir.path().join("image");
        File::options().read(true).write(true).create(true).truncate(true).open(path).expect("it can be made")
    }

    #[test]
    fn requests_are_read_and_done_in_their_order() {
        let forged = Forged::new(6)
            .write(2, &[1; 1024])
            .sector(&[0, 0, MARK, 0])
            .flush()
            .write(3, &[2; 512])
            .sector(&[2, 1, DISCARD, 0])
            .flush();
        let (dir, log) = forged.open();
        let log = log.expect("it is a log");
        let kinds: Vec<Kind> = log.entries().iter().map(|entry| entry.kind).collect();
        let write = Kind::Write { fua: false };
        assert_eq!(kinds, [write, Kind::Mark, Kind::Flush, write, Kind::Discard, Kind::Flush]);
        assert_eq!(log.flushes(), [2, 5]);
        let image = image(&dir);
        (0..6).for_each(|number| log.apply(number, &image));
        let mut found = vec![9; 2048];
        image.read_exact_at(&mut found, 0).expect("it has this size");
        assert!(found[..1536].iter().all(|byte| *byte == 0), "never written, or discarded");
        assert!(found[1536..].iter().all(|byte| *byte == 2), "the later write wins");
    }

    #[test]
    fn a_flush_with_data_is_a_flush_and_then_a_write() {
        let mut forged = Forged::new(3).sector(&[1, 1, FLUSH | FUA | METADATA, 0]);
        forged.0.extend([7; 512]);
        let (_dir, log) = forged.sector(&[0, 0, MARK, 4]).sector(&[5, 1, DISCARD, 0]).open();
        let kinds: Vec<Kind> = log.expect("it is a log").entries().iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [Kind::Flush, Kind::Write { fua: true }, Kind::Mark, Kind::Discard]);
    }

    #[test]
    fn a_finished_log_ends_where_its_head_says() {
        let forged = Forged::new(1).flush().write(0, &[1; 512]);
        let (dir, log) = forged.open();
        assert_eq!(log.expect("it is a log").entries().len(), 2);
        let finished = WriteLog::open_finished(&dir.path().join("log")).expect("it is a log");
        assert_eq!(finished.entries().len(), 1);
    }

    #[test]
    fn what_came_after_the_last_flush_counts_as_far_as_it_is_there() {
        let mut forged = Forged::new(1).flush().write(0, &[1; 512]).write(1, &[2; 1024]);
        assert_eq!(forged.open().1.expect("it is a log").entries().len(), 3);
        forged.0.pop();
        assert_eq!(forged.open().1.expect("it is a log").entries().len(), 2, "data missing");
        forged.0.truncate(512 * 4);
        forged.0.resize(512 * 8, 0);
        assert_eq!(forged.open().1.expect("it is a log").entries().len(), 2, "nothing but zeros");
    }

    #[test]
    fn what_is_no_log_is_refused() {
        assert!(Forged(vec![]).open().1.is_err(), "empty");
        assert!(Forged(vec![7; 4096]).open().1.is_err(), "no magic number");
        assert!(Forged::new(2).flush().open().1.is_err(), "fewer entries than it says");
        assert!(Forged::new(1).sector(&[0, 1, 64, 0]).open().1.is_err(), "an unknown flag");
        assert!(Forged::new(1).sector(&[u64::MAX, 1, DISCARD, 0]).open().1.is_err(), "beyond all devices");
    }

    #[test]
    fn of_what_was_not_flushed_any_part_may_be_done_and_what_was_forced_is() {
        let forged = Forged::new(0)
            .write(0, &[1; 4096])
            .write(8, &[2; 8192])
            .sector(&[24, 1, FUA, 0])
            .sector(&[0x0303_0303_0303_0303; 64]);
        let (dir, log) = forged.open();
        let log = log.expect("it is a log");
        let mut seen = std::collections::BTreeSet::new();
        let mut noise = Noise::new(1);
        for _ in 0..2000 {
            let image = image(&dir);
            image.set_len(13 << 10).expect("it can be made longer");
            log.apply_some(0..3, &image, &mut noise);
            let mut found = vec![0; 13 << 10];
            image.read_exact_at(&mut found, 0).expect("it has this size");
            let blocks: Vec<u8> = (0..4).map(|block| found[block * 4096]).collect();
            assert!((0..3).all(|block| found[block * 4096..][..4096].iter().all(|byte| *byte == found[block * 4096])));
            assert_eq!(blocks[3], 3, "it was forced");
            seen.insert(blocks);
        }
        assert_eq!(seen.len(), 8, "each block with and without each other: {seen:?}");
    }
}
