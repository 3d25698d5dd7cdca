//! What the metadata of a volume group say of one physical volume.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::label::Label;
use super::text::{Item, Section, Value};
use crate::bytes::{product, sum};
use crate::extents::{Extent, ExtentSet};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if, unsupported_if};

const SECTOR: u64 = 512;
const MOST_VOLUMES: usize = 4096;
const MOST_SEGMENTS: usize = 1 << 16;
/// The most pieces of a volume that is looked into.
const MOST_PIECES: usize = 1024;

/// The sections of a group.
const SECTIONS: &[&str] = &["physical_volumes", "logical_volumes", "historical_logical_volumes"];

/// Refuses types of segments but those of which it is known that they name every physical extent that they use as a pair of
/// the physical volume and a number. "striped" with one stripe is a linear segment.
fn check_type(kind: &[u8]) -> Result<(), Refusal> {
    match kind {
        b"striped" | b"linear" | b"mirror" | b"snapshot" | b"thin" | b"thin-pool" | b"cache" | b"cache-pool"
        | b"writecache" | b"vdo" | b"vdo-pool" | b"integrity" | b"error" | b"zero" | b"raid0" | b"raid0_meta"
        | b"raid1" | b"raid10" | b"raid10_near" | b"raid4" | b"raid5" | b"raid5_n" | b"raid5_ls" | b"raid5_la"
        | b"raid5_rs" | b"raid5_ra" | b"raid6" | b"raid6_zr" | b"raid6_nr" | b"raid6_nc" => Ok(()),
        _ => Err(Refusal::unsupported(format!("LVM segment type {:?}", String::from_utf8_lossy(kind)))),
    }
}

/// Words of which a volume may have any and still be ordinary.
const PLAIN_STATUS: &[&str] = &["READ", "WRITE", "VISIBLE", "FIXED_MINOR"];
const PLAIN_FLAGS: &[&str] = &["ACTIVATION_SKIP"];
/// Words of which a volume may have any without making its group doubtful. With others (PVMOVE, LOCKED, PARTIAL ...)
/// it is being changed, or misses something.
const KNOWN_FLAGS: &[&str] = &[
    "ACTIVATION_SKIP",
    "ERROR_WHEN_FULL",
    "METADATA_FORMAT",
    "CROP_METADATA",
    "CACHE_VOL",
    "CACHE_USES_CACHEVOL",
    "NOTSYNCED",
    "REBUILD",
    "RESHAPE",
    "WRITEMOSTLY",
    "LV_WRITEMOSTLY",
];
const KNOWN_STATUS: &[&str] = &["READ", "WRITE", "VISIBLE", "FIXED_MINOR", "NOTSYNCED", "VIRTUAL", "MIRRORED"];

/// What says nothing of other volumes, though it is a text.
const NOT_NAMES: &[&str] =
    &["id", "status", "flags", "creation_host", "tags", "allocation_policy", "type", "profile", "lock_args"];

/// What is known of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Physical {
    pub id: [u8; 32],
    pub group: String,
    pub group_id: Vec<u8>,
    /// The checksum and the number of the metadata: other physical volumes of the group must have the same.
    pub version: (u32, u64),
    /// The volumes that have a part of this physical volume.
    pub volumes: Vec<Volume>,
    /// The bytes of extents that no volume has, relative to the physical volume.
    pub free: ExtentSet,
    pub extents: Extent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub name: String,
    /// Where it is in the physical volume: of a plain volume in its own order, of others in no order.
    pub extents: Vec<Extent>,
    /// Why it cannot be looked into; `None` if it can.
    pub opaque: Option<&'static str>,
    /// Another volume is known to use it: as an origin, a store of a snapshot, checksums, a cache, a leg of a mirror.
    pub has_user: bool,
}

impl Volume {
    /// Where it is in an image in which its physical volume is `partition`.
    pub fn extents_in(&self, partition: Extent) -> Vec<Extent> {
        // Inside the partition, as the parser has checked.
        self.extents.iter().map(|piece| Extent { start: partition.start + piece.start, len: piece.len }).collect()
    }
}

/// The extents of the physical volume, and who is who.
struct Grid<'t> {
    /// The name of the physical volume in the metadata.
    pv: &'t [u8],
    /// The names of all physical and logical volumes.
    names: BTreeSet<&'t [u8]>,
    start: u64,
    unit: u64,
    count: u64,
}

impl Grid<'_> {
    fn bytes(&self, extents: &Range<u64>) -> Extent {
        // Cannot overflow: `count` extents fit into the region.
        Extent { start: self.start + extents.start * self.unit, len: (extents.end - extents.start) * self.unit }
    }
}

/// Makes sense of the metadata for the physical volume with this label.
pub fn interpret(root: &Section<'_>, label: &Label, region: &View<'_>) -> Result<Physical, Refusal> {
    let other = root.text("contents")? != b"Text Format Volume Group" || root.number("version")? != 1;
    unsupported_if(other, "LVM metadata of another format")?;
    let mut groups = root.sections();
    let (Some((name, group)), None) = (groups.next(), groups.next()) else {
        return Err(Refusal::corrupt("LVM metadata of not one volume group"));
    };
    check_group(group)?;
    let mut grid = physical_volume(group, label, region)?;
    let volumes = match group.get("logical_volumes") {
        None => &Section::default(),
        Some(_) => group.section("logical_volumes")?,
    };
    grid.names.extend(volumes.sections().map(|(name, _)| name));
    let (volumes, taken) = volumes_on(volumes, &grid, region)?;
    let whole = grid.bytes(&(0..grid.count));
    Ok(Physical {
        id: label.id,
        group: proper_name(name)?,
        group_id: group.text("id")?.to_vec(),
        version: (0, group.number("seqno")?),
        volumes,
        free: taken.complement(whole.range()),
        extents: whole,
    })
}

fn check_group(group: &Section<'_>) -> Result<(), Refusal> {
    unsupported_if(group.text("format")? != b"lvm2", "a volume group of another format")?;
    only(group, "status", &["RESIZEABLE", "READ", "WRITE"])?;
    only(group, "flags", &[])?;
    // Only these are understood, and what is missed could be volumes.
    if let Some((name, _)) = group.sections().find(|(name, _)| !SECTIONS.iter().any(|known| known.as_bytes() == *name))
    {
        return Err(Refusal::unsupported(format!("LVM section {:?}", String::from_utf8_lossy(name))));
    }
    // Other machines may be changing it.
    match group.get("lock_type") {
        None => {}
        Some(Value::Item(Item::Text(b"none"))) => {}
        Some(_) => return Err(Refusal::unsupported("a volume group that machines share")),
    }
    match group.get("system_id") {
        None | Some(Value::Item(Item::Text(_))) => Ok(()),
        Some(_) => Err(Refusal::corrupt("the system of a volume group")),
    }
}

/// Refuses a list with words that are not `known`.
fn only(section: &Section<'_>, list: &str, known: &[&str]) -> Result<(), Refusal> {
    match section.words(list)?.into_iter().find(|word| !known.iter().any(|known| known.as_bytes() == *word)) {
        None => Ok(()),
        Some(word) => Err(Refusal::unsupported(format!("LVM status {:?}", String::from_utf8_lossy(word)))),
    }
}

fn has_only(section: &Section<'_>, list: &str, known: &[&str]) -> Result<bool, Refusal> {
    Ok(section.words(list)?.iter().all(|word| known.iter().any(|known| known.as_bytes() == *word)))
}

/// The labelled physical volume.
fn physical_volume<'t>(group: &Section<'t>, label: &Label, region: &View<'_>) -> Result<Grid<'t>, Refusal> {
    let unit = product(group.number("extent_size")?, SECTOR)?;
    corrupt_if(unit == 0, "LVM extents of no size")?;
    let mut found = None;
    let mut names = BTreeSet::new();
    for (name, pv) in group.section("physical_volumes")?.sections() {
        region.budget().take_node()?;
        names.insert(name);
        only(pv, "status", &["ALLOCATABLE"])?;
        only(pv, "flags", &[])?;
        corrupt_if(pv.sections().next().is_some(), "a section in an LVM physical volume")?;
        let id = pv.text("id")?.iter().filter(|byte| **byte != b'-');
        let twice = id.eq(label.id.iter()) && found.replace((name, pv)).is_some();
        corrupt_if(twice, "an LVM physical volume that is there twice")?;
    }
    let (name, pv) = found.or_corrupt("LVM metadata that do not know their physical volume")?;
    let (start, count) = (product(pv.number("pe_start")?, SECTOR)?, pv.number("pe_count")?);
    let grid = Grid { pv: name, names, start, unit, count };
    let end = sum(grid.start, product(grid.count, unit)?)?;
    let misplaced = end > region.size() || end > label.size || grid.start != label.data;
    corrupt_if(misplaced, "LVM extents outside their physical volume")?;
    Ok(grid)
}

/// A logical volume, as far as it is on this physical volume.
struct Part<'t> {
    name: &'t [u8],
    /// Extents of the physical volume, in the order of the volume.
    pieces: Vec<Range<u64>>,
    opaque: Option<&'static str>,
}

/// The volumes that have extents of the physical volume `pv`, and all bytes that they have.
fn volumes_on(volumes: &Section<'_>, grid: &Grid<'_>, region: &View<'_>) -> Result<(Vec<Volume>, ExtentSet), Refusal> {
    let mut named = BTreeSet::new();
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut segments = 0;
    corrupt_if(volumes.sections().count() != volumes.entries.len(), "a logical volume that is none")?;
    for (name, volume) in volumes.sections() {
        over_budget_if(parts.len() == MOST_VOLUMES, "logical volumes")?;
        names_in(volume, &mut named, region)?;
        let part = part(name, volume, grid, region)?;
        segments += part.pieces.len();
        over_budget_if(segments > MOST_SEGMENTS, "segments of logical volumes")?;
        parts.push(part);
    }
    let all: Vec<Range<u64>> = parts.iter().flat_map(|part| part.pieces.iter().cloned()).collect();
    let expected: u64 = all.iter().map(|piece| piece.end - piece.start).fold(0, u64::saturating_add);
    let taken: ExtentSet = all.iter().map(|piece| grid.bytes(piece).range()).collect();
    corrupt_if(taken.bytes() != product(expected, grid.unit)?, "logical volumes overlap")?;
    let mut found = Vec::new();
    for part in parts.into_iter().filter(|part| !part.pieces.is_empty()) {
        let used = named.contains(part.name).then_some("other volumes are built of it");
        let extents = joined(part.pieces.iter().map(|piece| grid.bytes(piece)));
        let scattered = (extents.len() > MOST_PIECES).then_some("it has too many pieces");
        let (opaque, has_user) = (part.opaque.or(used).or(scattered), used.is_some());
        found.push(Volume { name: proper_name(part.name)?, extents, opaque, has_user });
    }
    Ok((found, taken))
}

/// One volume: where it is here, and whether that is all of it and simple.
fn part<'t>(name: &'t [u8], volume: &Section<'t>, grid: &Grid<'_>, region: &View<'_>) -> Result<Part<'t>, Refusal> {
    only(volume, "status", KNOWN_STATUS)?;
    only(volume, "flags", KNOWN_FLAGS)?;
    let mut opaque = None;
    if !volume.words("status")?.contains(&b"VISIBLE".as_slice()) {
        opaque = Some("it is a hidden part of another volume");
    } else if !has_only(volume, "status", PLAIN_STATUS)? || !has_only(volume, "flags", PLAIN_FLAGS)? {
        opaque = Some("it is no ordinary volume");
    }
    // By their starts, since their names ("segment10") are not in order.
    let mut segments = BTreeMap::new();
    for (segment_name, segment) in volume.sections() {
        unsupported_if(!segment_name.starts_with(b"segment"), "a section in a logical volume that is no segment")?;
        let overlap = segments.insert(segment.number("start_extent")?, segment).is_some();
        corrupt_if(overlap, "segments of a logical volume overlap")?;
    }
    corrupt_if(segments.len() as u64 != volume.number("segment_count")?, "the number of segments of a logical volume")?;
    let (mut pieces, mut expected) = (Vec::new(), 0);
    for (start, segment) in segments {
        let count = segment.number("extent_count")?;
        corrupt_if(start != expected || count == 0, "segments of a logical volume do not follow one another")?;
        expected = sum(start, count)?;
        let kind = segment.text("type")?;
        check_type(kind)?;
        let before = pieces.len();
        let stripes = if kind == b"striped" || kind == b"linear" { stripes(segment, count)? } else { 0 };
        // Of stripes, each has its part of the extents; what others take is not more than their length.
        let each = count / stripes.max(1);
        areas_in(segment, grid, each, &mut pieces, region)?;
        if stripes != 1 || pieces.len() != before + 1 {
            opaque = opaque.or(Some(if stripes == 1 { "it lies on several disks" } else { "it is not linear" }));
        }
    }
    corrupt_if(pieces.iter().any(|piece| piece.end > grid.count), "a logical volume lies outside its physical volume")?;
    Ok(Part { name, pieces, opaque })
}

/// The number of stripes of a segment of `count` extents.
fn stripes(segment: &Section<'_>, count: u64) -> Result<u64, Refusal> {
    let stripes = segment.number("stripe_count")?;
    let pairs = match segment.get("stripes") {
        Some(Value::List(items)) if items.len().is_multiple_of(2) => items.len() as u64 / 2,
        _ => 0,
    };
    corrupt_if(stripes == 0 || pairs != stripes || !count.is_multiple_of(stripes), "the stripes of a segment")?;
    Ok(stripes)
}

/// Every pair of this physical volume and a number, wherever in the segment it stands, is `len` extents from there on.
fn areas_in(
    segment: &Section<'_>,
    grid: &Grid<'_>,
    len: u64,
    pieces: &mut Vec<Range<u64>>,
    region: &View<'_>,
) -> Result<(), Refusal> {
    let mut left = vec![segment];
    while let Some(section) = left.pop() {
        for (_, value) in &section.entries {
            region.budget().take_node()?;
            match value {
                Value::Section(inner) => left.push(inner),
                Value::Item(Item::Text(text)) if *text == grid.pv => return Err(odd_area()),
                Value::Item(_) => {}
                Value::List(items) => {
                    for (at, item) in items.iter().enumerate() {
                        let next = items.get(at + 1);
                        let (Item::Text(name), Some(Item::Number(start))) = (item, next) else {
                            if *item == Item::Text(grid.pv) {
                                return Err(odd_area());
                            }
                            continue;
                        };
                        corrupt_if(!grid.names.contains(name), "a segment of a volume that does not exist")?;
                        if *name != grid.pv {
                            continue;
                        }
                        let start = u64::try_from(*start).map_err(|_| odd_area())?;
                        pieces.push(start..sum(start, len)?);
                    }
                }
            }
        }
    }
    Ok(())
}

fn odd_area() -> Refusal {
    Refusal::unsupported("an LVM segment that names its physical volume in an unknown way")
}

/// Everything in a volume that could be the name of another one.
fn names_in<'t>(volume: &Section<'t>, named: &mut BTreeSet<&'t [u8]>, region: &View<'_>) -> Result<(), Refusal> {
    let mut left = vec![volume];
    while let Some(section) = left.pop() {
        for (name, value) in &section.entries {
            region.budget().take_node()?;
            if NOT_NAMES.iter().any(|other| other.as_bytes() == *name) {
                continue;
            }
            match value {
                Value::Section(inner) => left.push(inner),
                Value::Item(item) => named.extend(text(item)),
                Value::List(items) => named.extend(items.iter().filter_map(text)),
            }
        }
    }
    Ok(())
}

fn text<'t>(item: &Item<'t>) -> Option<&'t [u8]> {
    match item {
        Item::Text(text) => Some(text),
        Item::Number(_) => None,
    }
}

/// Pieces that follow one another on the disk too are one.
fn joined(pieces: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.end() == piece.start => last.len += piece.len,
            _ => joined.push(piece),
        }
    }
    joined
}

/// A name as LVM2 permits it.
fn proper_name(name: &[u8]) -> Result<String, Refusal> {
    let proper = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(byte);
    corrupt_if(name.is_empty() || name.len() > 128 || !name.iter().all(proper), "the name of an LVM volume")?;
    Ok(String::from_utf8_lossy(name).into_owned())
}
