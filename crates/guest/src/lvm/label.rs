//! The label of a physical volume and its metadata areas.
//!
//! Layout after the documentation of libvslvm (libyal), checked against what `pvcreate` writes.

use crate::budget::LARGEST_PIECE;
use crate::bytes::{array, le32, le64, slice, sum};
use crate::crc32;
use crate::extents::{Extent, ExtentSet};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, dirty_if, over_budget_if, unsupported_if};

const SECTOR: u64 = 512;
/// The label is in one of the first four sectors.
const PLACES: u64 = 4;
/// Where LVM2 starts its checksums.
const START: u32 = 0xf597_a6cf;
/// The most areas of a kind; LVM2 writes one or two.
const MOST_AREAS: usize = 8;

const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
const AREA_HEADER: u64 = 512;
const IGNORED: u32 = 1;

/// LVM2's checksum.
fn checksum(bytes: &[u8]) -> u32 {
    crc32::update(START, bytes)
}

pub struct Label {
    /// The identifier of the physical volume, without dashes.
    pub id: [u8; 32],
    /// How long the physical volume thinks it is, in bytes.
    pub size: u64,
    /// Where its extents begin, in bytes.
    pub data: u64,
    areas: Vec<Extent>,
    /// The bytes of the label, the metadata areas and the boot loader areas: no extent may lie there.
    pub outside: ExtentSet,
}

/// Whether the region has the label of a physical volume.
pub(crate) fn is_member(region: &View<'_>) -> Result<bool, Refusal> {
    Ok(places(region)?.iter().any(|(_, sector)| sector.starts_with(b"LABELONE")))
}

fn places(region: &View<'_>) -> Result<Vec<(u64, Vec<u8>)>, Refusal> {
    let there = PLACES.min(region.size() / SECTOR);
    (0..there).map(|number| Ok((number, region.read(number * SECTOR, SECTOR as usize)?))).collect()
}

/// Reads the label, of which there must be exactly one.
pub fn read(region: &View<'_>) -> Result<Label, Refusal> {
    let mut labels = places(region)?.into_iter().filter(|(_, sector)| sector.starts_with(b"LABELONE"));
    let (Some((number, sector)), None) = (labels.next(), labels.next()) else {
        return Err(Refusal::corrupt("not one LVM label"));
    };
    let wrong = le64(&sector, 8)? != number || le32(&sector, 16)? != checksum(slice(&sector, 20, 492)?);
    corrupt_if(wrong, "the checksum or the place of the LVM label")?;
    unsupported_if(slice(&sector, 24, 8)? != b"LVM2 001", "a label of LVM that is not LVM2's")?;
    let mut at = le32(&sector, 20)? as usize;
    let (id, size) = (array(&sector, at)?, le64(&sector, at.saturating_add(32))?);
    at = at.saturating_add(40);
    let data = areas(&sector, &mut at)?;
    let areas_of_metadata = areas(&sector, &mut at)?;
    let boot = extension(&sector, at)?;
    let [Extent { start: data, .. }] = data[..] else {
        return Err(Refusal::unsupported("an LVM physical volume with several data areas"));
    };
    corrupt_if(size > region.size(), "the LVM physical volume is larger than its region")?;
    let mut outside = ExtentSet::of(0..PLACES * SECTOR);
    for area in areas_of_metadata.iter().chain(&boot) {
        let end = sum(area.start, area.len)?;
        corrupt_if(end > region.size(), "an LVM metadata area lies outside")?;
        outside.insert(area.start..end);
    }
    Ok(Label { id, size, data, areas: areas_of_metadata, outside })
}

/// A list of areas, ended by one that is all zero.
fn areas(sector: &[u8], at: &mut usize) -> Result<Vec<Extent>, Refusal> {
    let mut found = Vec::new();
    loop {
        let (start, len) = (le64(sector, *at)?, le64(sector, at.saturating_add(8))?);
        *at = at.saturating_add(16);
        if start == 0 && len == 0 {
            return Ok(found);
        }
        corrupt_if(found.len() == MOST_AREAS, "too many LVM areas")?;
        found.push(Extent { start, len });
    }
}

/// The boot loader areas, of which later versions of the header tell.
fn extension(sector: &[u8], at: usize) -> Result<Vec<Extent>, Refusal> {
    match le32(sector, at)? {
        0 => Ok(Vec::new()),
        1 | 2 => areas(sector, &mut at.saturating_add(8)),
        version => Err(Refusal::unsupported(format!("LVM physical volume extension {version}"))),
    }
}

impl Label {
    /// The metadata in force, and their checksum. All copies must say the same, and no change may be under way.
    pub fn text(&self, region: &View<'_>) -> Result<(Vec<u8>, u32), Refusal> {
        let mut current: Option<(Vec<u8>, u32)> = None;
        for area in &self.areas {
            let copy = read_area(region, *area)?;
            let differ = current.as_ref().is_some_and(|first| first.0 != copy.0);
            corrupt_if(differ, "the copies of the LVM metadata differ")?;
            current.get_or_insert(copy);
        }
        current.ok_or_else(|| Refusal::unsupported("an LVM physical volume without metadata of its own"))
    }
}

/// The text in a metadata area, which is a ring: what does not fit at the end goes on behind the header.
fn read_area(region: &View<'_>, area: Extent) -> Result<(Vec<u8>, u32), Refusal> {
    let header = region.read(area.start, AREA_HEADER as usize)?;
    let wrong = le32(&header, 0)? != checksum(slice(&header, 4, 508)?) || slice(&header, 4, 16)? != AREA_MAGIC;
    corrupt_if(wrong, "the checksum of an LVM metadata area")?;
    let misplaced = le32(&header, 20)? != 1 || le64(&header, 24)? != area.start || le64(&header, 32)? != area.len;
    corrupt_if(misplaced, "an LVM metadata area that does not know its place")?;
    // Two slots: the metadata in force, and those of a change that was prepared and not committed.
    let slot = |at: usize| Ok::<_, Refusal>((le64(&header, at)?, le64(&header, at + 8)?, le32(&header, at + 20)?));
    let ((offset, len, flags), (prepared, prepared_len, _)) = (slot(40)?, slot(64)?);
    dirty_if(prepared != 0 || prepared_len != 0, "a change of the LVM metadata is under way")?;
    unsupported_if(flags & IGNORED != 0, "an LVM metadata area that is not kept")?;
    unsupported_if(flags != 0, "unknown flags of LVM metadata")?;
    let misplaced = offset < AREA_HEADER || offset >= area.len || len == 0 || len > area.len - AREA_HEADER;
    corrupt_if(misplaced, "LVM metadata outside their area")?;
    over_budget_if(len > LARGEST_PIECE as u64, "bytes of LVM metadata")?;
    let first = len.min(area.len - offset);
    let mut text = region.read(sum(area.start, offset)?, first as usize)?;
    text.extend(region.read(sum(area.start, AREA_HEADER)?, (len - first) as usize)?);
    let checksum = checksum(&text);
    corrupt_if(checksum != le32(&header, 56)?, "the checksum of the LVM metadata")?;
    Ok((text, checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_lvm_starts_elsewhere() {
        assert_eq!(checksum(b""), START);
        assert_ne!(checksum(b"a"), crc32::crc32(b"a"));
    }
}
