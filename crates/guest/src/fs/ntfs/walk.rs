//! The walk through all files: which clusters they have, whatever the bitmap says.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::clusters::ClusterSet;
use super::record::{ATTRIBUTE_LIST, Attribute, BITMAP, Body, FILE_NAME, IN_USE, Record, Reference, apply_fixups};
use super::runs::each_run;
use super::volume::{Volume, entries};
use crate::bytes::{le16, le64, slice, u8_at};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if};

/// Bytes of the table that are read at once.
const PIECE: u64 = 256 << 10;

/// Records below this are the filesystem's own; some are set aside for ever.
const FIRST_OF_USERS: u64 = 24;

/// The record of the root directory.
pub(super) const ROOT: u64 = 5;

/// Files with special names that one root directory may have, counting those that differ in case.
const MOST_SPECIAL: usize = 16;

pub(super) struct Walk {
    pub clusters: ClusterSet,
    /// Files whose names say that they belong to the root directory and are special.
    pub special: Vec<(Special, u64)>,
    /// Pieces of files that the lists of attributes name, less those that are there: a sum of hashes, which is zero
    /// if both are the same.
    pieces: u64,
}

/// What Windows keeps in the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// The memory of a system that sleeps.
    Hibernation,
    /// Memory that is worth nothing once the system is down.
    PageFile,
}

impl Special {
    /// By a name in UTF-16; Windows does not tell small letters from large ones.
    pub fn of(name: &[u8]) -> Option<Special> {
        let is = |ascii: &[u8]| {
            name.len() == 2 * ascii.len()
                && name
                    .chunks_exact(2)
                    .zip(ascii)
                    .all(|(unit, byte)| unit[1] == 0 && unit[0].eq_ignore_ascii_case(byte))
        };
        if is(b"hiberfil.sys") {
            return Some(Special::Hibernation);
        }
        (is(b"pagefile.sys") || is(b"swapfile.sys")).then_some(Special::PageFile)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FileName<'a> {
    pub parent: Reference,
    /// In UTF-16.
    pub name: &'a [u8],
    /// Whether it is the short form of another name.
    pub is_short: bool,
}

impl<'a> FileName<'a> {
    /// The value of an attribute, or a key of the index of a directory.
    pub fn parse(value: &'a [u8]) -> Result<FileName<'a>, Refusal> {
        let name = slice(value, 66, 2 * usize::from(u8_at(value, 64)?))?;
        Ok(FileName { parent: Reference::of(le64(value, 0)?), name, is_short: u8_at(value, 65)? == 2 })
    }
}

/// Walks all records that are in use.
pub(super) fn walk(volume: &Volume<'_, '_>) -> Result<Walk, Refusal> {
    let geometry = volume.geometry;
    let mut walk = Walk { clusters: ClusterSet::new(geometry.clusters), special: Vec::new(), pieces: 0 };
    let bitmap = volume.stream(0, BITMAP, &[])?.or_corrupt("the file table has no bitmap")?;
    let total = volume.records();
    let too_short = total < FIRST_OF_USERS || bitmap.sizes.initialized < total.div_ceil(8) || !bitmap.is_readable();
    corrupt_if(too_short, "the file table is not as long as its bitmap")?;
    let at_once = PIECE / geometry.record;
    let mut first = 0;
    while first < total {
        volume.region.budget().take_node()?;
        let count = at_once.min(total - first);
        let mut records = volume.read(&volume.mft, first * geometry.record, (count * geometry.record) as usize)?;
        let in_use = volume.read(&bitmap, first / 8, count.div_ceil(8) as usize)?;
        for (number, record) in (first..).zip(records.chunks_exact_mut(geometry.record as usize)) {
            let bit = u8_at(&in_use, ((number - first) / 8) as usize)? >> (number % 8) & 1 == 1;
            walk.see(volume, number, record, bit)?;
        }
        first += count;
    }
    corrupt_if(walk.pieces != 0, "the lists of attributes do not name the pieces that are there")?;
    Ok(walk)
}

impl Walk {
    fn see(&mut self, volume: &Volume<'_, '_>, number: u64, bytes: &mut [u8], bit: bool) -> Result<(), Refusal> {
        match slice(bytes, 0, 4)? {
            b"FILE" => {}
            // The mark of a record that could once not be read whole.
            b"BAAD" => return Err(Refusal::corrupt(format!("record {number} is marked as damaged"))),
            _ if bit && number >= FIRST_OF_USERS => {
                return Err(Refusal::corrupt(format!("record {number} should be in use and is none")));
            }
            _ => return Ok(()),
        }
        if le16(bytes, 22)? & IN_USE == 0 {
            // Its bit may still be set: Windows leaves some of these behind.
            return Ok(());
        }
        corrupt_if(!bit, format_args!("record {number} is in use and its bitmap calls it free"))?;
        apply_fixups(bytes)?;
        let record = Record::parse(bytes, number)?;
        let attributes = record.attributes()?;
        for attribute in &attributes {
            self.take(volume, &record, attribute)?;
        }
        if !attributes.is_empty() {
            volume.region.budget().give_back(volume.geometry.record);
        }
        self.count_pieces(volume, &record, &attributes)
    }

    fn take(&mut self, volume: &Volume<'_, '_>, record: &Record<'_>, attribute: &Attribute<'_>) -> Result<(), Refusal> {
        match attribute.body {
            Body::Clusters(mapping) => {
                let number = record.this.number;
                each_run(&mapping, &volume.geometry, |run| match run.at {
                    Some(at) => self.clusters.add(at, run.len),
                    None => Ok(()),
                })
                .map_err(|refusal| refusal.located(|why| format!("{why} (record {number})")))
            }
            Body::Resident(value) if attribute.kind == FILE_NAME => {
                let name = FileName::parse(value)?;
                let owner = record.base.unwrap_or(record.this).number;
                match Special::of(name.name) {
                    Some(special) if name.parent.number == ROOT && !self.special.contains(&(special, owner)) => {
                        over_budget_if(self.special.len() == MOST_SPECIAL, "page files")?;
                        self.special.push((special, owner));
                    }
                    _ => {}
                }
                Ok(())
            }
            Body::Resident(_) => Ok(()),
        }
    }

    fn count_pieces(
        &mut self,
        volume: &Volume<'_, '_>,
        record: &Record<'_>,
        attributes: &[Attribute<'_>],
    ) -> Result<(), Refusal> {
        let mut lists = attributes.iter().filter(|attribute| attribute.kind == ATTRIBUTE_LIST);
        let list = lists.next();
        let too_many = lists.next().is_some() || (list.is_some() && record.base.is_some());
        corrupt_if(too_many, format_args!("record {} has a list of attributes too many", record.this.number))?;
        if list.is_none() && record.base.is_none() {
            return Ok(());
        }
        let base = record.base.unwrap_or(record.this);
        for attribute in attributes.iter().filter(|attribute| attribute.kind != ATTRIBUTE_LIST) {
            let piece = (base, record.this, attribute.kind, attribute.name, attribute.lowest(), attribute.instance);
            self.pieces = self.pieces.wrapping_sub(hash(&piece));
        }
        if let Some(list) = list {
            let list = volume.list(list)?;
            for entry in entries(&list)?.iter().filter(|entry| entry.kind != ATTRIBUTE_LIST) {
                let piece = (base, entry.holder, entry.kind, entry.name, entry.lowest, entry.instance);
                self.pieces = self.pieces.wrapping_add(hash(&piece));
            }
        }
        Ok(())
    }
}

fn hash(piece: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    piece.hash(&mut hasher);
    hasher.finish()
}
