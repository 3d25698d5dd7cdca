//! Page files, whose contents the user may do without, and the index of a directory, by which they are known.

use super::record::{
    Attribute, BITMAP, Body, FILE_NAME, INDEX_ALLOCATION, INDEX_ROOT, Record, Reference, apply_fixups,
};
use super::volume::Volume;
use super::walk::{FileName, ROOT, Special};
use crate::bytes::{is_power_in, le16, le32, le64, slice, u8_at};
use crate::extents::ExtentSet;
use crate::fs::free_map::Findings;
use crate::refusal::{Refusal, corrupt_if, over_budget_if, refuse_if};

/// The flag of the last entry of a node.
const LAST: u16 = 2;

/// Counts the contents of the files of these records as free, where it is certain that they are page files and their
/// clusters hold nothing else.
pub(super) fn drop_contents(
    volume: &Volume<'_, '_>,
    files: impl Iterator<Item = u64>,
    findings: &mut Findings,
) -> Result<(), Refusal> {
    for number in files {
        if !is_page_file(volume, number)? {
            findings.evidence.push(format!("contents of page file in record {number} kept"));
            continue;
        }
        let contents = volume.contents(number, "a page file")?;
        let Some(runs) =
            contents.plain_runs().filter(|_| contents.sizes.allocated == contents.mapped(&volume.geometry))
        else {
            findings.evidence.push(format!("contents of page file in record {number} kept: not stored plainly"));
            continue;
        };
        let size = volume.geometry.cluster;
        let ranges = runs.iter().filter_map(|run| run.at.map(|at| at * size..(at + run.len) * size));
        let contents = ExtentSet::from_ranges(ranges);
        findings.dropped += contents.bytes();
        findings.free = findings.free.union(&contents);
        over_budget_if(findings.free.count() > volume.region.budget().extents(), "free extents")?;
    }
    Ok(())
}

/// Whether all names of a file are those of a page file in the root directory.
fn is_page_file(volume: &Volume<'_, '_>, number: u64) -> Result<bool, Refusal> {
    let root = volume.record(ROOT)?;
    let root = Record::parse(&root, ROOT)?.this;
    let bytes = volume.record(number)?;
    let record = Record::parse(&bytes, number)?;
    if record.base.is_some() || record.is_directory() {
        return Ok(false);
    }
    let mut names = 0;
    for attribute in record.attributes()?.iter().filter(|attribute| attribute.kind == FILE_NAME) {
        let Body::Resident(value) = attribute.body else { return Ok(false) };
        let name = FileName::parse(value)?;
        if name.parent != root || !(name.is_short || Special::of(name.name) == Some(Special::PageFile)) {
            return Ok(false);
        }
        names += 1;
    }
    // A link from elsewhere has its name here too, or in another record; then the count is higher.
    Ok(names > 0 && names == record.links && in_index(volume, record.this)?)
}

/// Whether the root directory leads to the file by such a name.
fn in_index(volume: &Volume<'_, '_>, file: Reference) -> Result<bool, Refusal> {
    let mut found = false;
    each_entry(volume, ROOT, |entry, name| {
        found |= entry == file && Special::of(name.name) == Some(Special::PageFile);
        Ok(())
    })?;
    Ok(found)
}

/// Visits every entry of the index of a directory: the file, and its name there. In no order: all blocks that are in
/// use are read as they come, so that no loop of them can lead astray.
fn each_entry(
    volume: &Volume<'_, '_>,
    directory: u64,
    mut visit: impl FnMut(Reference, FileName<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let wrong = || Refusal::corrupt("the index of a directory makes no sense");
    let name: Vec<u8> = "$I30".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bytes = volume.record(directory)?;
    let attributes = Record::parse(&bytes, directory)?.attributes()?;
    let is_root = |attribute: &&Attribute<'_>| attribute.kind == INDEX_ROOT && attribute.name == name;
    let Some(Body::Resident(root)) = attributes.iter().find(is_root).map(|attribute| attribute.body) else {
        return Err(wrong());
    };
    each_of_node(slice(root, 16, root.len().saturating_sub(16))?, &mut visit)?;
    let Some(blocks) = volume.stream(directory, INDEX_ALLOCATION, &name)? else { return Ok(()) };
    let in_use = volume.stream(directory, BITMAP, &name)?.ok_or_else(wrong)?;
    let size = le32(root, 8)? as usize;
    refuse_if(!is_power_in(size as u64, 512..=64 << 10) || blocks.plain_runs().is_none(), wrong)?;
    for number in 0..blocks.sizes.data / size as u64 {
        volume.region.budget().take_node()?;
        if u8_at(&volume.read(&in_use, number / 8, 1)?, 0)? >> (number % 8) & 1 == 0 {
            continue;
        }
        let mut block = volume.read(&blocks, number * size as u64, size)?;
        refuse_if(slice(&block, 0, 4)? != b"INDX", wrong)?;
        apply_fixups(&mut block)?;
        each_of_node(slice(&block, 24, size - 24)?, &mut visit)?;
    }
    Ok(())
}

/// `node` begins with the header of a node.
fn each_of_node(
    node: &[u8],
    visit: &mut impl FnMut(Reference, FileName<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut at = le32(node, 0)? as usize;
    let node = slice(node, 0, le32(node, 4)? as usize)?;
    loop {
        let (len, key) = (usize::from(le16(node, at + 8)?), usize::from(le16(node, at + 10)?));
        if le16(node, at + 12)? & LAST != 0 {
            return Ok(());
        }
        corrupt_if(len < 16 + key || !len.is_multiple_of(8), "an entry of a directory has a wrong length")?;
        visit(Reference::of(le64(node, at)?), FileName::parse(slice(node, at + 16, key)?)?)?;
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_an_end_or_a_length_are_refused() {
        for len in [0_u16, 8, 16, 24, 40, u16::MAX] {
            let mut node = vec![0; 64];
            node[0] = 16;
            node[4] = 64;
            node[24..26].copy_from_slice(&len.to_le_bytes());
            assert!(each_of_node(&node, &mut |_, _| Ok(())).is_err(), "{len}");
            node[28] = 2;
            assert!(each_of_node(&node, &mut |_, _| Ok(())).is_ok());
        }
        assert!(each_of_node(&[0xff; 64], &mut |_, _| Ok(())).is_err());
    }
}
