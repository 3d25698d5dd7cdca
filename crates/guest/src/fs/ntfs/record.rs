//! Records of the master file table and the attributes in them.

use crate::bytes::{le16, le32, le64, slice, u8_at};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, refuse_if};

/// The list of the attributes that are in other records.
pub(super) const ATTRIBUTE_LIST: u32 = 0x20;
/// A name of a file, and the directory it is in.
pub(super) const FILE_NAME: u32 = 0x30;
/// Version and state of the volume.
pub(super) const VOLUME_INFORMATION: u32 = 0x70;
/// The contents of a file.
pub(super) const DATA: u32 = 0x80;
/// The top of an index.
pub(super) const INDEX_ROOT: u32 = 0x90;
/// The blocks of an index.
pub(super) const INDEX_ALLOCATION: u32 = 0xa0;
/// Which records of the table, or blocks of an index, are in use.
pub(super) const BITMAP: u32 = 0xb0;

const END: u32 = u32::MAX;

/// Every 512 bytes carry a check, whatever the size of a sector.
const STRIDE: usize = 512;

/// The number of a record, and how often it has been used for another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Reference {
    pub number: u64,
    pub sequence: u16,
}

impl Reference {
    /// The reference in a field of eight bytes.
    pub fn of(field: u64) -> Reference {
        Reference { number: field & 0xffff_ffff_ffff, sequence: (field >> 48) as u16 }
    }
}

/// Checks that all sectors of a structure were written together, and puts back the bytes that the check replaced.
///
/// The last two bytes of each 512 are the same number, and what belongs there is in an array behind the header.
pub(super) fn apply_fixups(bytes: &mut [u8]) -> Result<(), Refusal> {
    let torn = || Refusal::corrupt("a structure of several sectors is torn");
    let (at, count) = (usize::from(le16(bytes, 4)?), usize::from(le16(bytes, 6)?));
    let blocks = bytes.len() / STRIDE;
    if !bytes.len().is_multiple_of(STRIDE)
        || count != blocks + 1
        || !at.is_multiple_of(2)
        || at < 8
        || at + 2 * count > STRIDE - 2
    {
        return Err(Refusal::corrupt("the update sequence of a structure is not where it can be"));
    }
    let number = le16(bytes, at)?;
    for block in 0..blocks {
        let end = (block + 1) * STRIDE - 2;
        refuse_if(le16(bytes, end)? != number, torn)?;
        let right = le16(bytes, at + 2 + 2 * block)?.to_le_bytes();
        bytes.get_mut(end..end + 2).ok_or_else(torn)?.copy_from_slice(&right);
    }
    Ok(())
}

/// A record whose sectors have their fixups applied and whose header is right.
pub(super) struct Record<'a> {
    bytes: &'a [u8],
    pub this: Reference,
    /// How many names there are.
    pub links: u16,
    pub flags: u16,
    /// The record of the file, if this one only holds attributes for which there was no place.
    pub base: Option<Reference>,
}

impl<'a> Record<'a> {
    /// A record in use.
    pub fn parse(bytes: &'a [u8], number: u64) -> Result<Record<'a>, Refusal> {
        let wrong = |what: &str| Refusal::corrupt(format!("record {number} {what}"));
        refuse_if(slice(bytes, 0, 4)? != b"FILE", || wrong("has no signature"))?;
        let flags = le16(bytes, 22)?;
        refuse_if(flags & IN_USE == 0, || wrong("is not in use"))?;
        let (first, used, allocated) = (le16(bytes, 20)?, le32(bytes, 24)? as usize, le32(bytes, 28)? as usize);
        if allocated != bytes.len()
            || used > allocated
            || usize::from(first) + 8 > used
            || !first.is_multiple_of(8)
            || first < 42
        {
            return Err(wrong("has wrong sizes"));
        }
        // Since NTFS 3.1 a record knows its number; the update sequence used to be there.
        let other = le16(bytes, 4)? >= 48 && u64::from(le32(bytes, 44)?) != number & 0xffff_ffff;
        refuse_if(other, || wrong("is another one"))?;
        let base = match le64(bytes, 32)? {
            0 => None,
            field => Some(Reference::of(field)),
        };
        let this = Reference { number, sequence: le16(bytes, 16)? };
        Ok(Record { bytes: slice(bytes, 0, used)?, this, links: le16(bytes, 18)?, flags, base })
    }

    pub fn is_directory(&self) -> bool {
        self.flags & 2 != 0
    }

    pub fn attributes(&self) -> Result<Vec<Attribute<'a>>, Refusal> {
        let mut found: Vec<Attribute<'a>> = Vec::new();
        let mut at = usize::from(le16(self.bytes, 20)?);
        loop {
            let kind = le32(self.bytes, at)?;
            if kind == END {
                return Ok(found);
            }
            // The shortest has 24 bytes, so this loop ends.
            let len = le32(self.bytes, at + 4)? as usize;
            if len < 24 || !len.is_multiple_of(8) {
                return Err(Refusal::corrupt(format!(
                    "an attribute of record {} has a wrong length",
                    self.this.number
                )));
            }
            let attribute = Attribute::parse(slice(self.bytes, at, len)?)?;
            let unsorted = found.last().is_some_and(|last| last.kind > attribute.kind);
            corrupt_if(unsorted, format_args!("the attributes of record {} are not sorted", self.this.number))?;
            found.push(attribute);
            at += len;
        }
    }

    /// Everything but the update sequence, for a comparison with a copy of the record.
    pub fn comparable(&self) -> Result<[&'a [u8]; 2], Refusal> {
        let (at, count) = (usize::from(le16(self.bytes, 4)?), usize::from(le16(self.bytes, 6)?));
        let behind = self.bytes.get(at + 2 * count..).unwrap_or_default();
        Ok([slice(self.bytes, 0, at)?, behind])
    }
}

pub(super) const IN_USE: u16 = 1;

/// One attribute, or, where it does not fit into one record, one piece of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub kind: u32,
    /// In UTF-16.
    pub name: &'a [u8],
    /// Compressed, encrypted, sparse.
    pub flags: u16,
    /// Its number, different from all others of its file.
    pub instance: u16,
    pub body: Body<'a>,
}

/// Where the value of an attribute is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    /// In the record.
    Resident(&'a [u8]),
    /// In clusters.
    Clusters(Mapping<'a>),
}

/// The clusters of an attribute, or of a piece of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping<'a> {
    /// The first and the last cluster of the value that it maps; for none at all the last is one below the first.
    pub lowest: u64,
    pub highest: u64,
    /// Bytes allocated, in the value, and ever written; only where `lowest` is zero.
    pub sizes: Sizes,
    /// The runs, packed.
    pub packed: &'a [u8],
}

/// The sizes of a value in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sizes {
    pub allocated: u64,
    pub data: u64,
    pub initialized: u64,
}

impl<'a> Attribute<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Attribute<'a>, Refusal> {
        let name = match usize::from(u8_at(bytes, 9)?) {
            0 => &[],
            len => slice(bytes, le16(bytes, 10)?.into(), 2 * len)?,
        };
        let body = match u8_at(bytes, 8)? {
            0 => Body::Resident(slice(bytes, le16(bytes, 20)?.into(), le32(bytes, 16)? as usize)?),
            1 => Body::Clusters(Mapping::parse(bytes)?),
            _ => return Err(Refusal::corrupt("an attribute is neither resident nor not")),
        };
        Ok(Attribute { kind: le32(bytes, 0)?, name, flags: le16(bytes, 12)?, instance: le16(bytes, 14)?, body })
    }

    /// The first cluster of the value that it has; zero if it has all of it.
    pub fn lowest(&self) -> u64 {
        match self.body {
            Body::Resident(_) => 0,
            Body::Clusters(mapping) => mapping.lowest,
        }
    }
}

impl<'a> Mapping<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Mapping<'a>, Refusal> {
        let at = usize::from(le16(bytes, 32)?);
        corrupt_if(at < 64, "the runs of an attribute overlap its header")?;
        let packed = bytes.get(at..).or_corrupt("an attribute has no runs")?;
        let sizes = Sizes { allocated: le64(bytes, 40)?, data: le64(bytes, 48)?, initialized: le64(bytes, 56)? };
        Ok(Mapping { lowest: le64(bytes, 16)?, highest: le64(bytes, 24)?, sizes, packed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        bytes[0..4].copy_from_slice(b"FILE");
        for (at, value) in [(4, 48_u16), (6, 3), (16, 1), (18, 1), (20, 56), (22, 1), (24, 64), (28, 1024), (44, 7)] {
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        bytes[56..60].fill(0xff);
        for at in [48, 510, 1022] {
            bytes[at..at + 2].copy_from_slice(&[9, 9]);
        }
        bytes[50..54].copy_from_slice(&[1, 2, 3, 4]);
        bytes
    }

    #[test]
    fn the_bytes_that_the_check_replaced_come_back() {
        let mut bytes = record();
        apply_fixups(&mut bytes).unwrap();
        assert_eq!((&bytes[510..512], &bytes[1022..]), (&[1, 2][..], &[3, 4][..]));
        assert!(Record::parse(&bytes, 7).unwrap().attributes().unwrap().is_empty());
        assert!(Record::parse(&bytes, 8).is_err());
    }

    #[test]
    fn a_torn_record_is_refused() {
        let mut bytes = record();
        bytes[1022] ^= 1;
        assert!(apply_fixups(&mut bytes).is_err());
        for (at, value) in [(4, 7), (4, 47), (4, 0xff), (6, 2), (6, 4)] {
            let mut bytes = record();
            bytes[at] = value;
            assert!(apply_fixups(&mut bytes).is_err());
        }
    }

    #[test]
    fn attributes_that_do_not_fit_or_have_no_length_are_refused() {
        for len in [0_u32, 8, 16, 23, 25, 1024, u32::MAX] {
            let mut bytes = record();
            bytes[24] = 200;
            bytes[56..60].copy_from_slice(&DATA.to_le_bytes());
            bytes[60..64].copy_from_slice(&len.to_le_bytes());
            let record = Record::parse(&bytes, 7).unwrap();
            assert!(record.attributes().is_err(), "{len}");
        }
        let mut bytes = record();
        bytes[24] = 60; // no place for the end
        assert!(Record::parse(&bytes, 7).is_err());
    }
}
