//! Directory entries of exFAT: a primary entry and its secondary ones make a set, under a checksum.

use crate::bytes::{le16, le32, le64, u8_at};
use crate::refusal::{Refusal, corrupt_if};

/// The length of a directory entry in bytes.
pub(super) const ENTRY: usize = 32;

const IN_USE: u8 = 0x80;
const BENIGN: u8 = 0x20;
const SECONDARY: u8 = 0x40;

const BITMAP: u8 = 0x81;
const UPCASE: u8 = 0x82;
const LABEL: u8 = 0x83;
const FILE: u8 = 0x85;
const STREAM: u8 = 0xc0;
const NAME: u8 = 0xc1;
const VENDOR: u8 = 0xe0;
const VENDOR_DATA: u8 = 0xe1;

const DIRECTORY: u16 = 0x10;
const ALLOCATION_POSSIBLE: u8 = 1;
const NO_FAT_CHAIN: u8 = 2;

/// Clusters that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) first: u32,
    /// In bytes.
    pub(super) len: u64,
    /// They lie one behind the other, and the table knows nothing of them.
    pub(super) contiguous: bool,
}

/// What a complete set says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// An allocation bitmap; the second one or the first.
    Bitmap { second: bool, data: Data },
    /// The table of upper-case letters and its checksum.
    Upcase { checksum: u32, data: Data },
    /// A file or directory, and what a vendor keeps with it.
    File { directory: bool, data: Data, vendor: Vec<Data> },
}

/// Puts the sets of one directory together.
#[derive(Debug, Default)]
pub(super) struct Sets {
    set: Vec<u8>,
    missing: usize,
    ended: bool,
}

impl Sets {
    /// The next entry of the directory; what it completes. Refuses sets that are torn, and unknown ones that are not benign.
    pub(super) fn add(&mut self, entry: &[u8]) -> Result<Option<Found>, Refusal> {
        let kind = u8_at(entry, 0)?;
        if self.missing > 0 {
            corrupt_if(kind & (IN_USE | SECONDARY) != IN_USE | SECONDARY, "a set of directory entries is torn")?;
            self.set.extend_from_slice(entry);
            self.missing -= 1;
            return if self.missing == 0 { self.complete() } else { Ok(None) };
        }
        match kind {
            0 => {
                self.ended = true;
                Ok(None)
            }
            unused if unused & IN_USE == 0 => Ok(None),
            // Some readers stop at the end mark and others may not.
            _ if self.ended => Err(Refusal::corrupt("entries behind the end of a directory")),
            secondary if secondary & SECONDARY != 0 => Err(Refusal::corrupt("a secondary entry without a primary one")),
            BITMAP => {
                let second = u8_at(entry, 1)? & 1 != 0;
                Ok(Some(Found::Bitmap { second, data: data(entry, false)? }))
            }
            UPCASE => Ok(Some(Found::Upcase { checksum: le32(entry, 4)?, data: data(entry, false)? })),
            LABEL => Ok(None),
            FILE => self.begin(entry),
            // What is benign may be ignored; its clusters are in the bitmap.
            benign if benign & BENIGN != 0 => self.begin(entry),
            other => Err(Refusal::unsupported(format!("directory entries of type {other:#x}"))),
        }
    }

    /// To be called behind the last entry.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        corrupt_if(self.missing > 0, "a set of directory entries is torn")
    }

    fn begin(&mut self, entry: &[u8]) -> Result<Option<Found>, Refusal> {
        self.missing = usize::from(u8_at(entry, 1)?);
        self.set.clear();
        self.set.extend_from_slice(entry);
        corrupt_if(self.missing == 0 && u8_at(entry, 0)? == FILE, "a file without a stream")?;
        Ok(None)
    }

    fn complete(&mut self) -> Result<Option<Found>, Refusal> {
        let set = std::mem::take(&mut self.set);
        if u8_at(&set, 0)? != FILE {
            return Ok(None);
        }
        corrupt_if(checksum(&set) != le16(&set, 2)?, "the checksum of a set of directory entries")?;
        let directory = le16(&set, 4)? & DIRECTORY != 0;
        let mut stream = None;
        let mut vendor = Vec::new();
        for (number, entry) in set.chunks_exact(ENTRY).enumerate().skip(1) {
            match (u8_at(entry, 0)?, number) {
                (STREAM, 1) => stream = Some(file_data(entry)?),
                (NAME | VENDOR, 2..) => {}
                (VENDOR_DATA, 2..) => vendor.extend(optional(entry)?),
                (other, _) => {
                    return Err(Refusal::unsupported(format!("a directory entry {other:#x} in a file's set")));
                }
            }
        }
        match stream {
            Some(data) => Ok(Some(Found::File { directory, data, vendor })),
            None => Err(Refusal::corrupt("a file without a stream")),
        }
    }
}

fn data(entry: &[u8], contiguous: bool) -> Result<Data, Refusal> {
    Ok(Data { first: le32(entry, 20)?, len: le64(entry, 24)?, contiguous })
}

/// The clusters that a secondary entry names, if it may name any.
fn optional(entry: &[u8]) -> Result<Option<Data>, Refusal> {
    let flags = u8_at(entry, 1)?;
    if flags & ALLOCATION_POSSIBLE == 0 {
        return Ok(None);
    }
    data(entry, flags & NO_FAT_CHAIN != 0).map(Some)
}

fn file_data(entry: &[u8]) -> Result<Data, Refusal> {
    let data = match optional(entry)? {
        Some(data) => data,
        // No clusters at all.
        None if le64(entry, 24)? == 0 && le32(entry, 20)? == 0 => Data { first: 0, len: 0, contiguous: false },
        None => return Err(Refusal::corrupt("a file that may have no clusters and has some")),
    };
    corrupt_if(le64(entry, 8)? > data.len, "a file with more valid data than data")?;
    Ok(data)
}

/// The checksum of a set; its own field is left out.
fn checksum(set: &[u8]) -> u16 {
    let bytes = set.iter().enumerate().filter(|(at, _)| !matches!(at, 2 | 3));
    bytes.fold(0_u16, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u16::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut set = vec![0; 3 * ENTRY];
        (set[0], set[1]) = (FILE, 2);
        (set[32], set[33]) = (STREAM, ALLOCATION_POSSIBLE | NO_FAT_CHAIN);
        (set[52], set[56], set[40]) = (9, 100, 100);
        set[64] = NAME;
        fix_checksum(&mut set);
        set
    }

    fn fix_checksum(set: &mut [u8]) {
        let sum = checksum(set).to_le_bytes();
        set[2..4].copy_from_slice(&sum);
    }

    fn read(entries: &[u8]) -> Result<Option<Found>, Refusal> {
        let mut sets = Sets::default();
        let mut found = None;
        for entry in entries.chunks_exact(ENTRY) {
            found = sets.add(entry)?.or(found);
        }
        sets.finish()?;
        Ok(found)
    }

    #[test]
    fn a_file_is_understood() {
        let data = Data { first: 9, len: 100, contiguous: true };
        assert_eq!(read(&file()), Ok(Some(Found::File { directory: false, data, vendor: vec![] })));
    }

    #[test]
    fn torn_and_unknown_sets_are_refused() {
        let set = file();
        assert!(read(&set[..64]).is_err(), "cut off");
        assert!(read(&set[32..]).is_err(), "no primary entry");
        let changed = |change: fn(&mut Vec<u8>), sum: bool| {
            let mut set = file();
            change(&mut set);
            if sum {
                fix_checksum(&mut set);
            }
            read(&set)
        };
        assert!(changed(|set| set[50] ^= 1, false).is_err(), "a wrong checksum");
        assert!(changed(|set| set[32] = NAME, true).is_err(), "no stream");
        assert!(changed(|set| set[64] = STREAM, true).is_err(), "two streams");
        assert!(changed(|set| set[64] = 0xc2, true).is_err(), "unknown and critical");
        assert!(changed(|set| set[0] = 0x84, true).is_err(), "unknown, critical and primary");
        assert!(changed(|set| set[1] = 0, true).is_err(), "no secondary entries");
        assert!(changed(|set| set[40] = 101, true).is_err(), "more valid than there is");
        assert!(changed(|set| set[33] = 0, true).is_err(), "clusters where there may be none");
        let behind = [vec![0; ENTRY], set].concat();
        assert!(read(&behind).is_err(), "behind the end");
    }

    #[test]
    fn what_a_vendor_keeps_with_a_file_is_found() {
        let mut set = file();
        (set[64], set[65], set[84], set[88]) = (VENDOR_DATA, ALLOCATION_POSSIBLE, 7, 5);
        fix_checksum(&mut set);
        let Ok(Some(Found::File { vendor, .. })) = read(&set) else { panic!("no file") };
        assert_eq!(vendor, [Data { first: 7, len: 5, contiguous: false }]);
    }

    #[test]
    fn deleted_and_benign_entries_are_passed_over() {
        let mut deleted = file();
        deleted.iter_mut().step_by(ENTRY).for_each(|kind| *kind &= 0x7f);
        assert_eq!(read(&deleted), Ok(None));
        let mut benign = vec![0; 2 * ENTRY];
        (benign[0], benign[1], benign[32]) = (0xa2, 1, VENDOR);
        assert_eq!(read(&benign), Ok(None));
    }
}
