//! Puts the transactions in the log together again, as recovery does: only those count that both begin and are committed
//! between the tail and the head.

use std::collections::HashMap;

use crate::bytes::{be32, le16, le32, slice, u8_at};
use crate::refusal::{Refusal, over_budget_if, refuse_if};

use super::items::{Item, Raw};
use super::log::{Record, Records};
use super::superblock::Geometry;

/// "TRAN", in the order of the machine.
const HEADER: u32 = 0x5452_414e;
const HEADER_LEN: usize = 16;
const OPERATION_LEN: usize = 12;
/// The longest part of a description that is looked at: longer ones are lists of extents, which are not.
const DESCRIPTION: usize = 1024;
/// How much of the log is held at once, in bytes.
const MOST_HELD: usize = 24 << 20;
/// What an item or a region costs besides its bytes.
const OVERHEAD: usize = 128;

const CLIENTS: [u8; 2] = [0x69, 0xaa];

mod flag {
    pub const START: u8 = 0x01;
    pub const COMMIT: u8 = 0x02;
    pub const CONTINUES: u8 = 0x04;
    pub const CONTINUED: u8 = 0x08;
    pub const END: u8 = 0x10;
    pub const UNMOUNT: u8 = 0x20;
}

#[derive(Default)]
struct Transaction {
    lsn: u64,
    header: Vec<u8>,
    items: Vec<Raw>,
    held: usize,
}

struct Reader<'a> {
    geometry: &'a Geometry,
    open: HashMap<u32, Transaction>,
    done: Vec<Item>,
    held: usize,
}

/// Reads what the committed transactions do, in the order in which they are replayed.
pub fn read(geometry: &Geometry, records: &Records<'_>) -> Result<Vec<Item>, Refusal> {
    let mut reader = Reader { geometry, open: HashMap::new(), done: Vec::new(), held: 0 };
    records.each(|record| reader.record(record))?;
    Ok(reader.done)
}

fn damaged() -> Refusal {
    Refusal::corrupt("a transaction in the log is damaged")
}

impl Reader<'_> {
    fn record(&mut self, record: &Record) -> Result<(), Refusal> {
        let mut at = 0;
        for _ in 0..record.operations {
            let head = slice(&record.data, at, OPERATION_LEN)?;
            let (id, len) = (be32(head, 0)?, be32(head, 4)? as usize);
            refuse_if(!CLIENTS.contains(&u8_at(head, 8)?), damaged)?;
            at += OPERATION_LEN;
            let bytes = slice(&record.data, at, len)?;
            at += len;
            self.operation(record.lsn, id, u8_at(head, 9)?, bytes)?;
        }
        Ok(())
    }

    fn operation(&mut self, lsn: u64, id: u32, flags: u8, bytes: &[u8]) -> Result<(), Refusal> {
        if flags & flag::START != 0 {
            let new = Transaction { lsn, held: OVERHEAD, ..Transaction::default() };
            refuse_if(!bytes.is_empty() || self.open.insert(id, new).is_some(), damaged)?;
            return self.hold(OVERHEAD);
        }
        let mut flags = flags & !flag::END;
        if flags & flag::CONTINUED != 0 {
            flags &= !flag::CONTINUES;
        }
        // One that began before the tail is on the disk already.
        let Some(transaction) = self.open.get_mut(&id) else { return Ok(()) };
        let before = transaction.held;
        match flags {
            0 | flag::CONTINUES => transaction.add(bytes)?,
            flag::CONTINUED => transaction.extend(bytes)?,
            flag::COMMIT => return self.commit(id),
            flag::UNMOUNT => {
                self.open.remove(&id);
                return Ok(());
            }
            _ => return Err(damaged()),
        }
        let more = transaction.held - before;
        self.hold(more)
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.held += bytes;
        over_budget_if(self.held > MOST_HELD, "changes in the log")
    }

    fn commit(&mut self, id: u32) -> Result<(), Refusal> {
        let Some(transaction) = self.open.remove(&id) else { return Err(damaged()) };
        self.held = self.held.saturating_sub(transaction.held);
        let mut items = Vec::new();
        for raw in transaction.items {
            items.extend(raw.understand(self.geometry, transaction.lsn)?);
        }
        items.sort_by_key(Item::rank);
        for item in &items {
            let pieces = match item {
                Item::Buffer { pieces: Some(pieces), .. } => pieces.as_slice(),
                _ => &[],
            };
            self.hold(OVERHEAD + pieces.iter().map(|piece| piece.bytes.len() + OVERHEAD).sum::<usize>())?;
        }
        self.done.append(&mut items);
        Ok(())
    }
}

impl Transaction {
    /// A new region: the rest of the header, the description of an item, or its contents.
    fn add(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.header.len() < HEADER_LEN {
            // The header comes first, perhaps in two pieces.
            refuse_if(!self.header.is_empty() || bytes.len() > HEADER_LEN || le32(bytes, 0)? != HEADER, damaged)?;
            self.header.extend(bytes);
            return Ok(());
        }
        self.held += OVERHEAD;
        if self.items.last().is_none_or(|last| last.count == last.total) {
            let total = usize::from(le16(bytes, 2)?);
            refuse_if(total == 0, damaged)?;
            self.items.push(Raw { total, count: 1, ..Raw::default() });
            return self.describe(bytes);
        }
        let last = self.items.last_mut().ok_or_else(damaged)?;
        let kept = if last.is_wanted()? { bytes.to_vec() } else { Vec::new() };
        self.held += kept.len();
        last.regions.push((bytes.len(), kept));
        last.count += 1;
        Ok(())
    }

    /// More of the region before, which did not fit into its record.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if self.header.len() < HEADER_LEN {
            self.header.extend(bytes);
            return if self.header.len() == HEADER_LEN && le32(&self.header, 0)? == HEADER {
                Ok(())
            } else {
                Err(damaged())
            };
        }
        let last = self.items.last_mut().ok_or_else(damaged)?;
        if last.count == 1 {
            return self.describe(bytes);
        }
        let wanted = last.is_wanted()?;
        let (len, kept) = last.regions.last_mut().ok_or_else(damaged)?;
        *len += bytes.len();
        if wanted {
            kept.extend(bytes);
            self.held += bytes.len();
        }
        Ok(())
    }

    fn describe(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let last = self.items.last_mut().ok_or_else(damaged)?;
        let room = DESCRIPTION.saturating_sub(last.description.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        last.description.extend(taken);
        self.held += taken.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u32 = 77;
    const NORMAL: u8 = 0;

    fn reader(geometry: &Geometry) -> Reader<'_> {
        Reader { geometry, open: HashMap::new(), done: Vec::new(), held: 0 }
    }

    fn feed(reader: &mut Reader<'_>, operations: &[(u8, &[u8])]) -> Result<(), Refusal> {
        operations.iter().try_for_each(|(flags, bytes)| reader.operation(5, ID, *flags, bytes))
    }

    fn header() -> Vec<u8> {
        let mut header = HEADER.to_le_bytes().to_vec();
        header.resize(HEADER_LEN, 0);
        header
    }

    /// The description of a btree buffer of 4 KiB at block 16 whose first 256 bytes are logged.
    fn description() -> Vec<u8> {
        let mut description = Vec::new();
        for field in [0x123c_u16, 2, 4 << 11, 8] {
            description.extend(field.to_le_bytes());
        }
        description.extend(128_u64.to_le_bytes());
        description.extend(1_u32.to_le_bytes());
        description.extend(3_u32.to_le_bytes());
        description
    }

    fn assert_is_the_buffer(done: &[Item]) {
        let [Item::Buffer { extent, pieces: Some(pieces), lsn: 5, .. }] = done else { panic!("not one buffer") };
        assert_eq!((extent.start, extent.len), (65536, 4096));
        assert_eq!((pieces.len(), pieces[0].offset), (1, 0));
        assert_eq!(pieces[0].bytes, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn a_transaction_is_put_together_from_any_pieces() {
        let geometry = Geometry::for_tests();
        let (header, description, contents) = (header(), description(), (0..=255).collect::<Vec<u8>>());
        for (head, text, data) in [(16, 24, 256), (3, 24, 256), (0, 5, 256), (8, 9, 100), (16, 24, 0)] {
            let mut reader = reader(&geometry);
            feed(&mut reader, &[(flag::START, &[])]).unwrap();
            for (bytes, first) in [(&header, head), (&description, text), (&contents, data)] {
                let (first, rest) = bytes.split_at(first.max(4).min(bytes.len()));
                let rest_flags = flag::CONTINUED | flag::END;
                if rest.is_empty() {
                    feed(&mut reader, &[(NORMAL, first)]).unwrap();
                } else {
                    feed(&mut reader, &[(flag::CONTINUES, first), (rest_flags, rest)]).unwrap();
                }
            }
            assert!(reader.done.is_empty());
            feed(&mut reader, &[(flag::COMMIT, &[])]).unwrap();
            assert_is_the_buffer(&reader.done);
            assert!(reader.open.is_empty());
        }
    }

    #[test]
    fn what_began_before_the_tail_or_was_not_committed_does_nothing() {
        let geometry = Geometry::for_tests();
        let (header, description) = (header(), description());
        let mut reader = reader(&geometry);
        feed(&mut reader, &[(NORMAL, &header), (NORMAL, &description), (NORMAL, &[1; 256]), (flag::COMMIT, &[])])
            .unwrap();
        feed(&mut reader, &[(flag::UNMOUNT, &[1; 8])]).unwrap();
        feed(&mut reader, &[(flag::START, &[]), (NORMAL, &header), (NORMAL, &description), (NORMAL, &[1; 256])])
            .unwrap();
        assert!(reader.done.is_empty());
    }

    #[test]
    fn a_transaction_that_is_not_whole_is_refused() {
        let geometry = Geometry::for_tests();
        let (header, description) = (header(), description());
        let refused = |operations: &[(u8, &[u8])]| {
            let mut reader = reader(&geometry);
            feed(&mut reader, &[(flag::START, &[])]).unwrap();
            feed(&mut reader, operations).is_err()
        };
        assert!(refused(&[(flag::START, &[])]), "it begins twice");
        assert!(refused(&[(NORMAL, &[0; 16])]), "no header");
        assert!(refused(&[(NORMAL, &header), (NORMAL, &description), (flag::COMMIT, &[])]), "no contents");
        assert!(refused(&[(NORMAL, &header), (NORMAL, &[0x3c, 0x12, 0, 0])]), "an item of no regions");
        assert!(refused(&[(NORMAL, &header), (flag::CONTINUED, &[0; 4])]), "nothing to continue");
        assert!(refused(&[(NORMAL, &header), (NORMAL, &[0xff, 0xff, 1, 0]), (flag::COMMIT, &[])]), "an unknown item");
        let wrong: &[(u8, &[u8])] =
            &[(NORMAL, &header), (NORMAL, &description), (NORMAL, &[0; 384]), (flag::COMMIT, &[])];
        assert!(refused(wrong), "more contents than the bitmap says");
    }

    #[test]
    fn a_log_of_nothing_but_changes_costs_bounded_memory() {
        let geometry = Geometry::for_tests();
        let mut reader = reader(&geometry);
        let contents = vec![0; 1 << 20];
        feed(&mut reader, &[(flag::START, &[]), (NORMAL, &header()), (NORMAL, &description()), (NORMAL, &contents)])
            .unwrap();
        let more = (0..100).try_for_each(|_| feed(&mut reader, &[(flag::CONTINUED, &contents)]));
        assert_eq!(more, Err(Refusal::Budget("changes in the log")));
        assert!((0_u32..1 << 20).try_for_each(|id| reader.operation(1, id | 1 << 31, flag::START, &[])).is_err());
    }
}
