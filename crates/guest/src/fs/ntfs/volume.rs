//! The master file table, and the values of files that are found through it.

use super::boot::Geometry;
use super::record::{ATTRIBUTE_LIST, Attribute, Body, DATA, Record, Reference, apply_fixups};
use super::runs::Stream;
use crate::bytes::{le16, le32, le64, slice, u8_at};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if};

/// Windows makes no longer lists of attributes.
const LONGEST_LIST: u64 = 256 << 10;

/// A volume whose master file table has been found.
pub(super) struct Volume<'a, 'b> {
    pub region: &'a View<'b>,
    pub geometry: Geometry,
    pub mft: Stream,
}

/// An entry in a list of attributes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub kind: u32,
    /// In UTF-16.
    pub name: &'a [u8],
    /// The first cluster of the value that this piece has.
    pub lowest: u64,
    /// The record that has it.
    pub holder: Reference,
    pub instance: u16,
}

pub(super) fn entries(list: &[u8]) -> Result<Vec<Entry<'_>>, Refusal> {
    let mut found = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let len = usize::from(le16(rest, 4)?);
        corrupt_if(len < 26 || !len.is_multiple_of(8), "an entry in a list of attributes has a wrong length")?;
        let entry = slice(rest, 0, len)?;
        let name = match usize::from(u8_at(entry, 6)?) {
            0 => &[],
            chars => slice(entry, u8_at(entry, 7)?.into(), 2 * chars)?,
        };
        found.push(Entry {
            kind: le32(entry, 0)?,
            name,
            lowest: le64(entry, 8)?,
            holder: Reference::of(le64(entry, 16)?),
            instance: le16(entry, 24)?,
        });
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(found)
}

impl<'a, 'b> Volume<'a, 'b> {
    /// Finds the whole master file table, which may be in many pieces that it says itself.
    pub fn open(region: &'a View<'b>, geometry: Geometry) -> Result<Volume<'a, 'b>, Refusal> {
        let volume = Volume { region, geometry, mft: Stream::nothing() };
        let mut first = region.read(geometry.mft * geometry.cluster, geometry.record as usize)?;
        apply_fixups(&mut first)?;
        let mft = volume.gather(&first, 0, DATA, &[], |so_far, number| {
            let mapped = so_far.mapped(&geometry);
            let outside = (number + 1).checked_mul(geometry.record).is_none_or(|end| end > mapped);
            corrupt_if(outside, "the master file table cannot be found through itself")?;
            volume.record_of(so_far, number)
        })?;
        let mft = mft.or_corrupt("the master file table has no contents")?;
        mft.require_plain(&geometry, "the master file table")?;
        let starts_there =
            mft.plain_runs().and_then(|runs| runs.first()).is_some_and(|run| run.at == Some(geometry.mft));
        corrupt_if(!starts_there, "the master file table is not where the boot sector says")?;
        Ok(Volume { mft, ..volume })
    }

    pub fn records(&self) -> u64 {
        self.mft.sizes.data / self.geometry.record
    }

    /// One record, with its fixups applied.
    pub fn record(&self, number: u64) -> Result<Vec<u8>, Refusal> {
        corrupt_if(number >= self.records(), format_args!("there is no record {number}"))?;
        self.record_of(&self.mft, number)
    }

    /// The same, by a table of which perhaps not all pieces have been found.
    fn record_of(&self, mft: &Stream, number: u64) -> Result<Vec<u8>, Refusal> {
        let mut bytes = self.read(mft, number * self.geometry.record, self.geometry.record as usize)?;
        apply_fixups(&mut bytes)?;
        Ok(bytes)
    }

    /// The value of an attribute of a file; `None` if it has no such attribute.
    pub fn stream(&self, number: u64, kind: u32, name: &[u8]) -> Result<Option<Stream>, Refusal> {
        let base = self.record(number)?;
        self.gather(&base, number, kind, name, |_, number| self.record(number))
    }

    /// The contents of a file, which must be there.
    pub fn contents(&self, number: u64, what: &str) -> Result<Stream, Refusal> {
        let stream = self.stream(number, DATA, &[])?;
        stream.or_corrupt(format_args!("{what} has no contents"))
    }

    pub fn list(&self, attribute: &Attribute<'_>) -> Result<Vec<u8>, Refusal> {
        let stream = Stream::begin(attribute, &self.geometry)?;
        let resident = matches!(attribute.body, Body::Resident(_));
        let odd = stream.sizes.data > LONGEST_LIST || !(resident || stream.plain_runs().is_some());
        corrupt_if(odd, "a list of attributes is not stored as it must be")?;
        self.read(&stream, 0, stream.sizes.data as usize)
    }

    pub fn read(&self, stream: &Stream, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        stream.read(self.region, &self.geometry, offset, len)
    }

    /// Compares the first records of the table with their copy, which the filesystem keeps for them alone.
    pub fn check_mirror(&self) -> Result<(), Refusal> {
        let mirror = self.contents(1, "$MFTMirr")?;
        mirror.require_plain(&self.geometry, "$MFTMirr")?;
        if mirror.plain_runs().and_then(|runs| runs.first()).is_none_or(|run| run.at != Some(self.geometry.mirror)) {
            return Err(Refusal::corrupt("$MFTMirr is not where the boot sector says"));
        }
        for number in 0..4 {
            let (one, other) = (self.record(number)?, self.record_of(&mirror, number)?);
            let (one, other) = (Record::parse(&one, number)?, Record::parse(&other, number)?);
            corrupt_if(one.comparable()? != other.comparable()?, format_args!("record {number} and its copy differ"))?;
        }
        Ok(())
    }

    /// Puts together the value of an attribute from the record `number` and those that its list of attributes names.
    /// `fetch` reads these; it gets what has been found so far, since the master file table is found through itself.
    fn gather(
        &self,
        base: &[u8],
        number: u64,
        kind: u32,
        name: &[u8],
        fetch: impl Fn(&Stream, u64) -> Result<Vec<u8>, Refusal>,
    ) -> Result<Option<Stream>, Refusal> {
        let base = Record::parse(base, number)?;
        corrupt_if(base.base.is_some(), format_args!("record {number} is only a part of a file"))?;
        let attributes = base.attributes()?;
        let same = |attribute: &&Attribute<'_>| attribute.kind == kind && attribute.name == name;
        let Some(list_attribute) = attributes.iter().find(|attribute| attribute.kind == ATTRIBUTE_LIST) else {
            let mut found = attributes.iter().filter(same);
            let stream = found.next().map(|attribute| Stream::begin(attribute, &self.geometry)).transpose()?;
            return match found.next() {
                None => Ok(stream),
                Some(_) => Err(Refusal::corrupt(format!("record {number} has an attribute twice"))),
            };
        };
        let list = self.list(list_attribute)?;
        let mut stream: Option<Stream> = None;
        for entry in entries(&list)?.iter().filter(|entry| entry.kind == kind && entry.name == name) {
            self.region.budget().take_node()?;
            if entry.holder == base.this {
                take_piece(&mut stream, &attributes, entry, &self.geometry)?;
                continue;
            }
            // The first piece of the master file table must be in its own first record.
            let empty = Stream::nothing();
            let bytes = fetch(stream.as_ref().unwrap_or(&empty), entry.holder.number)?;
            let holder = Record::parse(&bytes, entry.holder.number)?;
            let foreign = holder.this != entry.holder || holder.base != Some(base.this);
            corrupt_if(foreign, format_args!("record {} is not a part of file {number}", entry.holder.number))?;
            take_piece(&mut stream, &holder.attributes()?, entry, &self.geometry)?;
        }
        Ok(stream)
    }
}

fn take_piece(
    stream: &mut Option<Stream>,
    attributes: &[Attribute<'_>],
    entry: &Entry<'_>,
    geometry: &Geometry,
) -> Result<(), Refusal> {
    let piece = attributes.iter().find(|attribute| {
        (attribute.kind, attribute.name, attribute.lowest(), attribute.instance)
            == (entry.kind, entry.name, entry.lowest, entry.instance)
    });
    let piece = piece.or_corrupt("a list of attributes names one that is not there")?;
    match stream {
        None => *stream = Some(Stream::begin(piece, geometry)?),
        Some(stream) => stream.go_on(piece, geometry)?,
    }
    Ok(())
}
