//! Fixing checksums and copies.

use haul_guest::ReadAt;
use haul_guest::crc32::{self, crc32};

use crate::pages::Pages;

/// Something of an image that must agree with something else. All places are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// CRC-32C of `len` bytes at `from`, at `to`, which counts as zero if it lies in them.
    Crc32c {
        /// First byte.
        from: u64,
        /// Bytes.
        len: u64,
        /// The checksum.
        to: u64,
    },
    /// The same bytes twice.
    Copy {
        /// First byte.
        from: u64,
        /// Bytes.
        len: u64,
        /// First byte of the copy.
        to: u64,
    },
    /// The superblock of ext4, and with it `len` bytes of group descriptors, of which the first has number 0.
    ExtGroups {
        /// First byte of the descriptors.
        from: u64,
        /// Bytes.
        len: u64,
    },
    /// A block of a jbd2 journal with checksums, whose superblock is at `journal`.
    ExtJournal {
        /// First byte of the block.
        from: u64,
        /// Bytes of the block.
        len: u64,
        /// First byte of the journal's superblock.
        journal: u64,
    },
    /// The header of a GPT and its entries.
    Gpt {
        /// First byte of the header.
        at: u64,
        /// Bytes of a sector.
        sector: u64,
    },
    /// The header of an LVM metadata area at 4096, and its text.
    Lvm,
    /// The boot region of exFAT in sectors of 512 bytes.
    ExfatBoot,
    /// The sets of directory entries of exFAT in `len` bytes at `from`.
    ExfatSets {
        /// First byte.
        from: u64,
        /// Bytes.
        len: u64,
    },
    /// The sum of VHD of `len` bytes at `from`, `field` bytes behind `from`.
    Vhd {
        /// First byte.
        from: u64,
        /// Bytes.
        len: u64,
        /// Where in them the sum is.
        field: u64,
    },
    /// A record of the log of XFS that does not wrap around.
    XfsRecord {
        /// First byte.
        at: u64,
    },
}

impl Fix {
    /// As four numbers, for files of seeds.
    pub(crate) fn numbers(self) -> [u64; 4] {
        match self {
            Fix::Crc32c { from, len, to } => [0, from, len, to],
            Fix::Copy { from, len, to } => [1, from, len, to],
            Fix::ExtGroups { from, len } => [2, from, len, 0],
            Fix::ExtJournal { from, len, journal } => [3, from, len, journal],
            Fix::Gpt { at, sector } => [4, at, sector, 0],
            Fix::Lvm => [5, 0, 0, 0],
            Fix::ExfatBoot => [6, 0, 0, 0],
            Fix::ExfatSets { from, len } => [7, from, len, 0],
            Fix::Vhd { from, len, field } => [8, from, len, field],
            Fix::XfsRecord { at } => [9, at, 0, 0],
        }
    }

    /// What [`Fix::numbers`] made numbers of.
    pub(crate) fn of_numbers([kind, from, len, to]: [u64; 4]) -> Option<Fix> {
        Some(match kind {
            0 => Fix::Crc32c { from, len, to },
            1 => Fix::Copy { from, len, to },
            2 => Fix::ExtGroups { from, len },
            3 => Fix::ExtJournal { from, len, journal: to },
            4 => Fix::Gpt { at: from, sector: len },
            5 => Fix::Lvm,
            6 => Fix::ExfatBoot,
            7 => Fix::ExfatSets { from, len },
            8 => Fix::Vhd { from, len, field: to },
            9 => Fix::XfsRecord { at: from },
            _ => return None,
        })
    }

    /// Fixes it in `pages`, which were made of `pristine`.
    pub fn apply(self, pages: &mut Pages, pristine: &Pages) {
        match self {
            Fix::Crc32c { from, len, to } => {
                let mut bytes = pages.read(from, len as usize);
                if let Some(field) = to.checked_sub(from).and_then(|at| bytes.get_mut(at as usize..at as usize + 4)) {
                    field.fill(0);
                }
                pages.write(to, &crc32c::crc32c(&bytes).to_le_bytes());
            }
            Fix::Copy { from, len, to } => {
                let bytes = pages.read(from, len as usize);
                pages.write(to, &bytes);
            }
            Fix::ExtGroups { from, len } => ext_groups(pages, pristine, from, len),
            Fix::ExtJournal { from, len, journal } => ext_journal(pages, pristine, from, len as usize, journal),
            Fix::Gpt { at, sector } => gpt(pages, at, sector),
            Fix::Lvm => lvm(pages),
            Fix::ExfatBoot => {
                let bytes = pages.read(0, 11 * 512);
                let kept = bytes.iter().enumerate().filter(|(at, _)| ![106, 107, 112].contains(at));
                let sum = kept.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u32::from(*byte)));
                pages.write(11 * 512, &sum.to_le_bytes().repeat(128));
            }
            Fix::ExfatSets { from, len } => exfat_sets(pages, from, len as usize),
            Fix::Vhd { from, len, field } => {
                pages.write(from + field, &[0; 4]);
                let bytes = pages.read(from, len as usize);
                let sum = bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
                pages.write(from + field, &(!sum).to_be_bytes());
            }
            Fix::XfsRecord { at } => xfs_record(pages, at),
        }
    }
}

/// CRC-32C from a seed, without inversions.
fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xa001 } else { sum >> 1 })
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// What checksums there are, says the superblock as it was.
fn ext_groups(pages: &mut Pages, pristine: &Pages, from: u64, len: u64) {
    let superblock = pristine.read(1024, 1024);
    let (incompat, ro_compat) = (word(&superblock, 0x60), word(&superblock, 0x64));
    let uuid = &superblock[0x68..0x78];
    let size = if incompat & 0x80 != 0 { 64 } else { 32 };
    if ro_compat & 0x400 != 0 {
        let sum = crc(!0, &pages.read(1024, 0x3fc));
        pages.write(1024 + 0x3fc, &sum.to_le_bytes());
    }
    for (number, place) in (0_u32..).zip((from..from + len).step_by(size)) {
        let bytes = pages.read(place, size);
        let number = number.to_le_bytes();
        if ro_compat & 0x400 != 0 {
            let sum = crc(crc(crc(crc(crc(!0, uuid), &number), &bytes[..0x1e]), &[0, 0]), &bytes[0x20..]);
            pages.write(place + 0x1e, &(sum as u16).to_le_bytes());
        } else if ro_compat & 0x10 != 0 {
            let sum = crc16(crc16(crc16(crc16(!0, uuid), &number), &bytes[..0x1e]), &bytes[0x20..]);
            pages.write(place + 0x1e, &sum.to_le_bytes());
        }
    }
}

fn ext_journal(pages: &mut Pages, pristine: &Pages, from: u64, len: usize, journal: u64) {
    let seed = crc(!0, &pristine.read(journal + 0x30, 16));
    let mut bytes = pages.read(from, len);
    let (at, seed, len) = match pristine.read(from + 4, 4)[3] {
        4 => (0xfc, !0, 1024),
        2 => (16, seed, len),
        _ => (len - 4, seed, len),
    };
    bytes[at..at + 4].fill(0);
    pages.write(from + at as u64, &crc(seed, &bytes[..len]).to_be_bytes());
}

/// Both checksums, if the fields of the header make sense.
fn gpt(pages: &mut Pages, at: u64, sector: u64) {
    let header = pages.read(at, 512);
    let field = |offset: usize| u64::from(word(&header, offset));
    let entries = (field(72) | field(76) << 32).checked_mul(sector);
    let len = field(80) * field(84);
    if let Some(entries) =
        entries.filter(|entries| len <= 1 << 20 && entries.checked_add(len).is_some_and(|end| end <= pages.size()))
    {
        let sum = crc32(&pages.read(entries, len as usize));
        pages.write(at + 88, &sum.to_le_bytes());
    }
    let len = field(12).min(512) as usize;
    let mut header = pages.read(at, 512);
    header[16..20].fill(0);
    pages.write(at + 16, &crc32(&header[..len]).to_le_bytes());
}

fn lvm(pages: &mut Pages) {
    const AREA: u64 = 4096;
    let checksum = |bytes: &[u8]| crc32::update(0xf597_a6cf, bytes).to_le_bytes();
    let header = pages.read(AREA, 512);
    let field = |at: usize| u64::from(word(&header, at)) | u64::from(word(&header, at + 4)) << 32;
    let (offset, len) = (field(40), field(48));
    if len <= 1 << 20 && offset.checked_add(AREA + len).is_some_and(|end| end <= pages.size()) {
        let sum = checksum(&pages.read(AREA + offset, len as usize));
        pages.write(AREA + 56, &sum);
    }
    let sum = checksum(&pages.read(AREA + 4, 508));
    pages.write(AREA, &sum);
}

/// Over the header, the further headers that are in use, and the data.
fn xfs_record(pages: &mut Pages, at: u64) {
    /// How many bytes of data one header is for.
    const OF_HEADER: u64 = 32 << 10;
    let header = pages.read(at, 328);
    let field = |offset: usize| u64::from(word(&header, offset).swap_bytes());
    let (len, headers) = (field(12), field(320).div_ceil(OF_HEADER).max(1));
    if headers > 8 || len > headers * OF_HEADER || at.saturating_add(headers * 512 + len) > pages.size() {
        return;
    }
    let mut covered = header;
    covered[32..36].fill(0);
    for further in 1..len.div_ceil(OF_HEADER) {
        covered.extend(pages.read(at + further * 512, 260));
    }
    covered.extend(pages.read(at + headers * 512, len as usize));
    pages.write(at + 32, &crc32c::crc32c(&covered).to_le_bytes());
}

fn exfat_sets(pages: &mut Pages, from: u64, len: usize) {
    let bytes = pages.read(from, len);
    for at in (0..bytes.len()).step_by(32).filter(|at| bytes[*at] == 0x85) {
        let Some(set) = bytes.get(at + 1).and_then(|more| bytes.get(at..at + 32 * (usize::from(*more) + 1))) else {
            continue;
        };
        let kept = set.iter().enumerate().filter(|(at, _)| ![2, 3].contains(at));
        let sum = kept.fold(0_u16, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u16::from(*byte)));
        pages.write(from + at as u64 + 2, &sum.to_le_bytes());
    }
}
