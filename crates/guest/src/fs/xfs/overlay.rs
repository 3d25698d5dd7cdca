//! The filesystem as it will be when the log has been replayed.
//!
//! Only what free space is read from is replayed, and in memory; of everything else only the place is noted.
//!
//! Replaying a buffer is all that changes the map: intents (to free extents, to map blocks ...) and unlinked inodes are
//! worked off afterwards, as the running filesystem would do it. That frees what is still used here, and takes new blocks
//! only from free space, whose old contents nobody reads. So what is free when all buffers are replayed may be anything,
//! as long as replaying itself neither reads nor writes it; and that is checked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::bytes::{array, be32, be64};
use crate::extents::{Extent, ExtentSet};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if};

use super::items::{Item, Piece};
use super::superblock::{self, Geometry};

/// How much of the filesystem is held replayed, in bytes.
const MOST_HELD: u64 = 16 << 20;

/// A buffer in the middle of its replay.
struct Buffer {
    bytes: Vec<u8>,
    /// When the disk got it, where that is known: older items are in it already.
    on_disk: Option<u64>,
    applied: bool,
}

/// The places that the log writes to, and what will be there.
pub struct Overlay<'a> {
    geometry: &'a Geometry,
    replayed: BTreeMap<u64, Vec<u8>>,
    /// Written to, but not as something that free space is read from: start and end.
    opaque: BTreeMap<u64, u64>,
    touched: ExtentSet,
    only_superblock: bool,
}

/// Buffers whose blocks were freed: how many of those items are still to come, by start and length.
#[derive(Default)]
struct Cancelled(BTreeMap<(u64, u64), u32>);

impl Cancelled {
    fn of(items: &[Item]) -> Cancelled {
        let mut cancelled = Cancelled::default();
        for item in items {
            if let Item::Cancel(extent) = item {
                *cancelled.0.entry((extent.start, extent.len)).or_default() += 1;
            }
        }
        cancelled
    }

    fn passed(&mut self, extent: Extent) {
        if let Entry::Occupied(mut left) = self.0.entry((extent.start, extent.len)) {
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
            }
        }
    }

    fn has(&self, extent: Extent) -> bool {
        self.0.contains_key(&(extent.start, extent.len))
    }

    fn has_any_in(&self, extent: Extent) -> bool {
        self.0.range((extent.start, 0)..(extent.end(), 0)).next().is_some()
    }
}

impl<'a> Overlay<'a> {
    pub fn replay(region: &View<'_>, geometry: &'a Geometry, items: &[Item]) -> Result<Overlay<'a>, Refusal> {
        let only_superblock = items.iter().all(|item| matches!(item, Item::Buffer { extent, .. } if extent.start == 0));
        if !geometry.v5 && !only_superblock {
            // No sequence numbers, no checksums, and no kernel of today to compare with.
            return Err(Refusal::dirty("a version 4 filesystem whose log touches more than the superblock"));
        }
        let mut cancelled = Cancelled::of(items);
        let mut buffers = BTreeMap::new();
        let (mut opaque, mut touched) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Item::Cancel(extent) => cancelled.passed(*extent),
                Item::Touch(extent) if !cancelled.has(*extent) => opaque.push(extent.range()),
                Item::Create(extent) if !cancelled.has_any_in(*extent) => opaque.push(extent.range()),
                Item::Touch(_) | Item::Create(_) => {}
                Item::Buffer { extent, .. } if cancelled.has(*extent) => {}
                Item::Buffer { extent, pieces: None, .. } => opaque.push(extent.range()),
                Item::Buffer { extent, pieces: Some(pieces), lsn, .. } => {
                    touched.push(extent.range());
                    write(region, geometry, &mut buffers, *extent, pieces, *lsn)?;
                }
            }
        }
        let opaque = ExtentSet::from_ranges(opaque);
        let overlay = Overlay {
            geometry,
            replayed: buffers.into_iter().filter(|(_, one)| one.applied).map(|(at, one)| (at, one.bytes)).collect(),
            touched: ExtentSet::from_ranges(touched).union(&opaque),
            opaque: opaque.iter().map(|extent| (extent.start, extent.end())).collect(),
            only_superblock,
        };
        overlay.check_superblock(region)?;
        Ok(overlay)
    }

    /// The filesystem must stay the one that was read, in size and kind.
    fn check_superblock(&self, region: &View<'_>) -> Result<(), Refusal> {
        let geometry = self.geometry;
        let len = geometry.sector as usize;
        let disk = region.read(0, len)?;
        let (replayed, patched) = Source::replayed(region, self, u64::MAX, 0).read(0, geometry.sector)?;
        if patched {
            superblock::check_unchanged(&disk, &replayed)?;
            dirty_if(superblock::parse(&replayed, false)?.geometry != *geometry, "the log changes the geometry")?;
        }
        Ok(())
    }

    /// Everything that replaying writes to.
    pub fn touched(&self) -> &ExtentSet {
        &self.touched
    }

    /// Whether nothing but the superblock is in the log.
    pub fn only_superblock(&self) -> bool {
        self.only_superblock
    }

    fn is_opaque(&self, start: u64, end: u64) -> bool {
        self.opaque.range(..end).next_back().is_some_and(|(_, until)| *until > start)
    }
}

/// Writes pieces into a buffer, unless the disk has a newer version of it.
fn write(
    region: &View<'_>,
    geometry: &Geometry,
    buffers: &mut BTreeMap<u64, Buffer>,
    extent: Extent,
    pieces: &[Piece],
    lsn: u64,
) -> Result<(), Refusal> {
    let held = buffers.len() as u64 * geometry.block;
    let buffer = match buffers.entry(extent.start) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(_) if held > MOST_HELD || extent.len > 2 * geometry.block => {
            return Err(Refusal::Budget("blocks that the log changes"));
        }
        Entry::Vacant(place) => {
            let bytes = region.read(extent.start, extent.len as usize)?;
            let on_disk = sequence_number(geometry, &bytes)?;
            place.insert(Buffer { bytes, on_disk, applied: false })
        }
    };
    dirty_if(buffer.bytes.len() as u64 != extent.len, "the log has two buffers of different lengths at one place")?;
    if buffer.on_disk.is_some_and(|newer| newer >= lsn) {
        return Ok(());
    }
    for piece in pieces {
        let end = piece.offset.checked_add(piece.bytes.len());
        let place = end.and_then(|end| buffer.bytes.get_mut(piece.offset..end));
        place.or_corrupt("the log writes outside a buffer")?.copy_from_slice(&piece.bytes);
    }
    buffer.applied = true;
    Ok(())
}

/// The log sequence number of a buffer as it is on the disk, where it is of a kind that has one, and of this filesystem.
/// Anything else is of an earlier use of the block.
fn sequence_number(geometry: &Geometry, bytes: &[u8]) -> Result<Option<u64>, Refusal> {
    if !geometry.v5 {
        return Ok(None);
    }
    let (lsn, uuid) = match &be32(bytes, 0)?.to_be_bytes() {
        b"XFSB" => (240, if geometry.meta_uuid == geometry.uuid { 32 } else { 248 }),
        b"XAGF" => (208, 64),
        b"XAGI" => (320, 296),
        b"XAFL" => (24, 8),
        b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" => (24, 32),
        b"BMA3" => (32, 40),
        _ => return Ok(None),
    };
    let own = array::<16>(bytes, uuid)? == geometry.meta_uuid;
    let lsn = be64(bytes, lsn)?;
    // All ones: not written by a transaction.
    Ok(if own && lsn != u64::MAX { Some(lsn) } else { None })
}

/// Where metadata is read: the disk, or the disk with the log replayed.
pub struct Source<'a> {
    pub region: &'a View<'a>,
    pub geometry: &'a Geometry,
    /// How many free extents may be held for one group.
    pub room: usize,
    overlay: Option<&'a Overlay<'a>>,
    head: u64,
}

impl<'a> Source<'a> {
    /// What is on the disk. `head` is the log sequence number of the head of the log.
    pub fn disk(region: &'a View<'a>, geometry: &'a Geometry, head: u64, room: usize) -> Source<'a> {
        Source { region, geometry, room, overlay: None, head }
    }

    /// What will be there when the log has been replayed.
    pub fn replayed(region: &'a View<'a>, overlay: &'a Overlay<'a>, head: u64, room: usize) -> Source<'a> {
        Source { region, geometry: overlay.geometry, room, overlay: Some(overlay), head }
    }

    /// Reads one buffer; the second value says whether the log changes it. Then its checksum is still the old one.
    pub fn read(&self, offset: u64, len: u64) -> Result<(Vec<u8>, bool), Refusal> {
        let end = offset.saturating_add(len);
        if let Some(overlay) = self.overlay {
            dirty_if(overlay.is_opaque(offset, end), "the log writes something else to a block of the free space map")?;
            if let Some((start, bytes)) = overlay.replayed.range(..end).next_back()
                && start + bytes.len() as u64 > offset
            {
                if *start == offset && bytes.len() as u64 == len {
                    return Ok((bytes.clone(), true));
                }
                return Err(Refusal::dirty("the log has a buffer of another size in the free space map"));
            }
        }
        Ok((self.region.read(offset, len as usize)?, false))
    }

    /// Whether the log writes to one of these bytes.
    pub fn touches(&self, offset: u64, len: u64) -> bool {
        self.overlay.is_some_and(|overlay| overlay.touched.touches(offset..offset.saturating_add(len)))
    }

    /// Checks a structure that has a checksum, which is not renewed in the log, and the log sequence number of its last
    /// change, at these two offsets. Refuses what the disk has from a later time than the head of the log.
    pub fn check_seal(&self, bytes: &[u8], patched: bool, at: (usize, usize), what: &str) -> Result<(), Refusal> {
        if !patched {
            superblock::verify_sum(bytes, at.0, what)?;
        }
        let lsn = be64(bytes, at.1)?;
        corrupt_if(lsn > self.head && lsn != u64::MAX, "metadata are newer than the log")
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::Budget;
    use crate::image::Session;

    use super::*;

    const START: u64 = 65536;
    const AT: Extent = Extent { start: START, len: 4096 };

    fn buffer(byte: u8, lsn: u64) -> Item {
        let piece = Piece { offset: 128, bytes: vec![byte; 128] };
        Item::Buffer { extent: AT, pieces: Some(vec![piece]), of_inodes: false, lsn }
    }

    /// What byte 200 of the buffer at `START` is after the log is replayed on a btree block of sequence number 10.
    fn replayed(items: &[Item]) -> Result<(u8, bool), Refusal> {
        let geometry = Geometry::for_tests();
        let mut image = vec![0; 1 << 20];
        let block = &mut image[START as usize..];
        block[..4].copy_from_slice(b"AB3B");
        block[24..32].copy_from_slice(&10_u64.to_be_bytes());
        block[32..48].copy_from_slice(&geometry.meta_uuid);
        let session = Session::new(&image, Budget::for_image(1 << 20));
        let view = session.view();
        let overlay = Overlay::replay(&view, &geometry, items)?;
        let (bytes, patched) = Source::replayed(&view, &overlay, u64::MAX, 0).read(START, 4096)?;
        Ok((bytes[200], patched))
    }

    #[test]
    fn the_last_change_counts_and_what_the_disk_has_already_does_not() {
        assert_eq!(replayed(&[]), Ok((0, false)));
        assert_eq!(replayed(&[buffer(1, 11), buffer(2, 12)]), Ok((2, true)));
        assert_eq!(replayed(&[buffer(1, 9), buffer(2, 10)]), Ok((0, false)));
        assert_eq!(replayed(&[buffer(1, 10), buffer(2, 11)]), Ok((2, true)));
    }

    #[test]
    fn changes_before_a_buffer_was_freed_do_not_count() {
        assert_eq!(replayed(&[buffer(1, 11), Item::Cancel(AT)]), Ok((0, false)));
        assert_eq!(replayed(&[buffer(1, 11), Item::Cancel(AT), buffer(3, 12)]), Ok((3, true)));
        let twice = [buffer(1, 11), Item::Cancel(AT), buffer(3, 12), Item::Cancel(AT)];
        assert_eq!(replayed(&twice), Ok((0, false)));
        assert_eq!(replayed(&[Item::Touch(AT), Item::Create(AT), Item::Cancel(AT)]), Ok((0, false)));
    }

    #[test]
    fn a_block_that_the_log_writes_in_another_way_is_not_read() {
        let half = Extent { start: START + 2048, len: 512 };
        assert!(replayed(&[Item::Touch(half)]).is_err());
        assert!(replayed(&[Item::Create(half)]).is_err());
        assert!(replayed(&[Item::Touch(AT), Item::Cancel(half)]).is_err());
        let other = Item::Buffer { extent: AT, pieces: None, of_inodes: false, lsn: 11 };
        assert!(replayed(&[other]).is_err());
        let piece = Piece { offset: 0, bytes: vec![1; 128] };
        let small = Item::Buffer { extent: half, pieces: Some(vec![piece]), of_inodes: false, lsn: 11 };
        assert!(replayed(&[small]).is_err());
    }

    #[test]
    fn a_piece_outside_its_buffer_is_refused() {
        for offset in [4096, 4000, usize::MAX - 64] {
            let piece = Piece { offset, bytes: vec![1; 128] };
            let item = Item::Buffer { extent: AT, pieces: Some(vec![piece]), of_inodes: false, lsn: 11 };
            assert!(replayed(&[item]).is_err());
        }
    }
}
