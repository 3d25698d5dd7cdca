//! Page files, whose contents the user may do without.

use super::index;
use super::record::{Body, FILE_NAME, Record, Reference};
use super::volume::Volume;
use super::walk::{FileName, ROOT, Special};
use crate::extents::ExtentSet;
use crate::fs::free_map::Findings;
use crate::refusal::{Refusal, over_budget_if};

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
    index::each_entry(volume, ROOT, |entry, name| {
        found |= entry == file && Special::of(name.name) == Some(Special::PageFile);
        Ok(())
    })?;
    Ok(found)
}
