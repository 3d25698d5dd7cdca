//! The log: where it ends, and whether the filesystem was unmounted there.
//!
//! The log is a ring of basic blocks. The first word of each is the number of the turn ("cycle") in which it was
//! written, so the head is where the number falls by one. Records are a header, further headers for long ones, and data,
//! whose first words are kept in the headers. The kernel looks for the head in the same way (xfs_log_recover.c), and repairs
//! what a crash tore; a torn log is refused here.

use crate::bytes::{array, be32, be64, slice, sum, u8_at};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if, refuse_if, unsupported_if};

use super::superblock::{BASIC_BLOCK, Geometry};

/// The first word of a record, which is never a cycle.
const RECORD: u32 = 0xfeed_babe;
const BLOCK: usize = BASIC_BLOCK as usize;
/// As many blocks as one header keeps the first words of.
const BLOCKS_OF_HEADER: usize = 64;
const LONGEST_RECORD: u32 = 256 << 10;
/// Records of the first version are shorter.
const LONGEST_RECORD_V1: u32 = 32 << 10;
/// So many records can be on their way to the disk at once: the log may be torn for so far before its head.
const IN_FLIGHT: u64 = 8;
/// mkfs makes none longer than 2 GiB.
const LONGEST_LOG: u64 = 2 << 30;

const UNMOUNTED: u8 = 0x20;

/// What the end of the log says.
pub enum State<'a> {
    /// The last record says that everything is on the disk, where nothing is newer than this log sequence number.
    Clean { head: u64 },
    /// These must be replayed first.
    Dirty(Records<'a>),
}

/// The records from the tail of the log to its head.
pub struct Records<'a> {
    ring: Ring<'a>,
    tail: u64,
}

/// A record whose checksum is right.
pub struct Record {
    /// Its log sequence number.
    pub lsn: u64,
    pub operations: u32,
    /// Its data, with the first words of the blocks back in place.
    pub data: Vec<u8>,
    tail_lsn: u64,
    blocks: u64,
    sealed: bool,
}

struct Ring<'a> {
    region: &'a View<'a>,
    geometry: &'a Geometry,
    blocks: u64,
    /// The first block that is one turn behind; the length of the log, if all of it is of one turn.
    head: u64,
    /// The turn of the blocks before the head.
    cycle: u32,
}

/// Finds the head of the log and what it says.
pub fn state<'a>(region: &'a View<'a>, geometry: &'a Geometry) -> Result<State<'a>, Refusal> {
    let blocks = geometry.log_len / BASIC_BLOCK;
    let impossible = geometry.log_len > LONGEST_LOG || blocks < 512;
    unsupported_if(impossible, format_args!("a log of {} bytes", geometry.log_len))?;
    let mut ring = Ring { region, geometry, blocks, head: 0, cycle: 0 };
    ring.find_head()?;
    let (last, gap) = ring.check_window()?;
    let record = ring.record(last)?;
    refuse_if((last + record.blocks) % blocks != ring.head % blocks, torn)?;
    let unmounted = record.operations == 1 && u8_at(&record.data, 9)? & UNMOUNTED != 0;
    if unmounted {
        return Ok(State::Clean { head: ring.head_lsn() });
    }
    refuse_if(gap, torn)?;
    let (cycle, tail) = (record.tail_lsn >> 32, record.tail_lsn & u64::from(u32::MAX));
    corrupt_if(tail >= blocks || cycle != u64::from(ring.expected(tail)), "the tail of the log is not in it")?;
    Ok(State::Dirty(Records { ring, tail }))
}

fn torn() -> Refusal {
    Refusal::dirty("the end of the log is torn")
}

impl Records<'_> {
    pub(crate) fn head_lsn(&self) -> u64 {
        self.ring.head_lsn()
    }

    /// Reads the records in order, one at a time.
    pub fn each(&self, mut visit: impl FnMut(&Record) -> Result<(), Refusal>) -> Result<(), Refusal> {
        let blocks = self.ring.blocks;
        let head = self.ring.head % blocks;
        let length = (head + blocks - self.tail) % blocks;
        corrupt_if(length == 0, "the tail of the log is its head")?;
        let mut passed = 0;
        while passed < length {
            self.ring.region.budget().take_node()?;
            let record = self.ring.record((self.tail + passed) % blocks)?;
            // mkfs and xfs_repair write a record without a checksum, but none that is replayed.
            dirty_if(!record.sealed, "a log record without a checksum")?;
            passed += record.blocks;
            refuse_if(passed > length, torn)?;
            visit(&record)?;
        }
        Ok(())
    }
}

impl Ring<'_> {
    fn head_lsn(&self) -> u64 {
        u64::from(self.cycle) << 32 | self.head
    }

    fn longest_record(&self) -> u32 {
        if self.geometry.log_v2 { LONGEST_RECORD } else { LONGEST_RECORD_V1 }
    }

    /// The turn in which a block must have been written.
    fn expected(&self, block: u64) -> u32 {
        if block < self.head { self.cycle } else { self.cycle.wrapping_sub(1) }
    }

    /// `count` blocks from `first` on, round the end.
    fn read(&self, first: u64, count: u64) -> Result<Vec<u8>, Refusal> {
        let before_end = count.min(self.blocks.saturating_sub(first));
        let at = |block: u64| sum(self.geometry.log_start, block * BASIC_BLOCK);
        let mut bytes = self.region.read(at(first)?, before_end as usize * BLOCK)?;
        if before_end < count {
            bytes.extend(self.region.read(at(0)?, (count - before_end) as usize * BLOCK)?);
        }
        Ok(bytes)
    }

    fn cycle_at(&self, block: u64) -> Result<u32, Refusal> {
        self.region.budget().take_node()?;
        cycle(&self.read(block, 1)?)
    }

    fn find_head(&mut self) -> Result<(), Refusal> {
        self.cycle = self.cycle_at(0)?;
        corrupt_if(self.cycle == 0, "the log is empty")?;
        // The first block of another turn, if each block before it is of this one.
        let (mut same, mut other) = (0, self.blocks);
        if self.cycle_at(self.blocks - 1)? == self.cycle {
            same = self.blocks - 1;
        }
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            if self.cycle_at(middle)? == self.cycle {
                same = middle;
            } else {
                other = middle;
            }
        }
        self.head = other;
        Ok(())
    }

    /// Checks the turns of the blocks around the head, and finds the last record before it. The second value says whether
    /// there are zeros behind the head: xfs_repair leaves them when it writes a new, empty log, and nothing else does.
    fn check_window(&self) -> Result<(u64, bool), Refusal> {
        const CHUNK: u64 = 128;
        let longest = u64::from(self.longest_record()) / BASIC_BLOCK;
        let window = (IN_FLIGHT * longest).min(self.blocks / 2);
        let length = window + longest.min(self.blocks / 2);
        let from = (self.head + self.blocks - window) % self.blocks;
        let (mut last, mut passed, mut gap) = (None, 0, false);
        while passed < length {
            let count = CHUNK.min(length - passed);
            let first = (from + passed) % self.blocks;
            let bytes = self.read(first, count)?;
            for (index, block) in (0..).zip(bytes.chunks_exact(BLOCK)) {
                let number = (first + index) % self.blocks;
                let (turn, expected) = (cycle(block)?, self.expected(number));
                if turn == 0 && expected != 0 && passed + index >= window && number >= self.head {
                    gap = true;
                } else if turn != expected {
                    return Err(torn());
                }
                if passed + index < window && be32(block, 0)? == RECORD {
                    last = Some(number);
                }
            }
            passed += count;
        }
        let last = last.or_corrupt("no record at the end of the log")?;
        Ok((last, gap))
    }

    /// Reads and checks a record.
    fn record(&self, block: u64) -> Result<Record, Refusal> {
        let head = self.read(block, 1)?;
        let (version, len, size) = (be32(&head, 8)?, be32(&head, 12)?, be32(&head, 320)?);
        let lsn = u64::from(self.expected(block)) << 32 | block;
        let expected_version = if self.geometry.log_v2 { 2 } else { 1 };
        let own = be32(&head, 0)? == RECORD
            && be32(&head, 4)? == self.expected(block)
            && be64(&head, 16)? == lsn
            && slice(&head, 304, 16)? == self.geometry.uuid;
        corrupt_if(!own || version != expected_version, "a log record is not one of this log")?;
        unsupported_if(be32(&head, 300)? != 1, "a log of another kind of machine")?;
        let most = if self.geometry.log_v2 { size } else { LONGEST_RECORD_V1 };
        corrupt_if(len == 0 || len > most || most > LONGEST_RECORD, format_args!("a log record of {len} bytes"))?;
        let headers = (most as usize).div_ceil(BLOCKS_OF_HEADER * BLOCK);
        let data_blocks = (len as usize).div_ceil(BLOCK);
        let blocks = (headers + data_blocks) as u64;
        corrupt_if(blocks >= self.blocks, "a log record longer than the log")?;
        let mut bytes = self.read(block, blocks)?;
        for (index, one) in (0..).zip(bytes.chunks_exact(BLOCK)) {
            refuse_if(cycle(one)? != self.expected((block + index) % self.blocks), torn)?;
        }
        let mut data = bytes.split_off(headers * BLOCK);
        let stored = u32::from_le_bytes(array(&bytes, 32)?);
        let wrong = stored != 0 && !checksum_is_right(&bytes, slice(&data, 0, len as usize)?, stored)?;
        dirty_if(wrong, "the checksum of a log record is wrong")?;
        for (index, one) in data.chunks_exact_mut(BLOCK).enumerate() {
            one[..4].copy_from_slice(&first_word(&bytes, index)?);
        }
        data.truncate(len as usize);
        let (tail_lsn, operations) = (be64(&bytes, 24)?, be32(&bytes, 40)?);
        Ok(Record { lsn, operations, data, tail_lsn, blocks, sealed: stored != 0 })
    }
}

/// The turn in which a block was written.
fn cycle(block: &[u8]) -> Result<u32, Refusal> {
    match be32(block, 0)? {
        RECORD => be32(block, 4),
        cycle => Ok(cycle),
    }
}

/// The word that belongs to the start of a data block, from the headers.
fn first_word(headers: &[u8], block: usize) -> Result<[u8; 4], Refusal> {
    let (header, index) = (block / BLOCKS_OF_HEADER, block % BLOCKS_OF_HEADER);
    let at = if header == 0 { 44 } else { header * BLOCK + 4 };
    array(headers, at + 4 * index)
}

/// The checksum goes over the header, the further headers that are in use, and the data as it is on the disk.
fn checksum_is_right(headers: &[u8], data: &[u8], stored: u32) -> Result<bool, Refusal> {
    // The length of the structure was that of the machine's alignment: 64 or 32 bits.
    for header in [328, 324] {
        let mut crc = crc32c::crc32c(slice(headers, 0, 32)?);
        crc = crc32c::crc32c_append(crc, &[0; 4]);
        crc = crc32c::crc32c_append(crc, slice(headers, 36, header - 36)?);
        for further in 1..data.len().div_ceil(BLOCKS_OF_HEADER * BLOCK) {
            crc = crc32c::crc32c_append(crc, slice(headers, further * BLOCK, 4 + 4 * BLOCKS_OF_HEADER)?);
        }
        if crc32c::crc32c_append(crc, data) == stored {
            return Ok(true);
        }
    }
    Ok(false)
}
