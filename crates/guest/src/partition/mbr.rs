//! The partition table of a master boot record, and the chain of those of logical partitions.

use super::{Claim, Tables};
use crate::bytes::{le16, le32, slice, u8_at};
use crate::extents::Extent;
use crate::image::View;
use crate::refusal::Refusal;

const SECTOR: u64 = 512;
const TABLE: usize = 446;
/// The longest chain of logical partitions.
const LONGEST_CHAIN: usize = 128;

const PROTECTIVE: u8 = 0xee;
const CONTAINERS: [u8; 3] = [0x05, 0x0f, 0x85];
/// Volumes of the logical disk manager: the entry only covers the disk.
const DYNAMIC: u8 = 0x42;

struct Entry {
    number: u64,
    kind: u8,
    first: u64,
    sectors: u64,
}

/// Reads the table if there is one. Knows of `gpt` whether there is a valid one for a protective entry to protect; says
/// whether there is such an entry.
///
/// # Errors
/// If it cannot be read.
pub fn read(disk: &View<'_>, tables: &mut Tables, gpt: bool) -> Result<bool, Refusal> {
    let size = disk.size();
    if size < SECTOR {
        return Ok(false);
    }
    // Anything can end in these two bytes, above all a boot sector of a filesystem; a table that says nothing is none.
    let Some(entries) = entries(&disk.read(0, SECTOR as usize)?)? else { return Ok(false) };
    if entries.is_empty() {
        return Ok(false);
    }
    tables.add_table(size, 0, SECTOR);
    for entry in &entries {
        let place = format!("MBR partition {}", entry.number);
        let claim = match entry.kind {
            PROTECTIVE if gpt => continue,
            PROTECTIVE => Claim::Broken(Refusal::corrupt("a protective MBR without its GPT")),
            DYNAMIC => Claim::Opaque("LDM"),
            kind if CONTAINERS.contains(&kind) => match logical(disk, tables, entry) {
                Ok(()) => continue,
                Err(Refusal::Corrupt(why)) => Claim::Broken(Refusal::Corrupt(why)),
                Err(other) => return Err(other),
            },
            _ => Claim::Look,
        };
        tables.add(size, SECTOR, place, entry.first, entry.sectors, claim);
    }
    if !gpt || entries.iter().any(|entry| entry.kind != PROTECTIVE) {
        tables.kinds.push("dos");
    }
    Ok(entries.iter().any(|entry| entry.kind == PROTECTIVE))
}

/// The entries of a table that are in use; `None` if it is none.
fn entries(sector: &[u8]) -> Result<Option<Vec<Entry>>, Refusal> {
    if le16(sector, 510)? != 0xaa55 {
        return Ok(None);
    }
    let mut found = Vec::new();
    for number in 1..=4 {
        let entry = slice(sector, TABLE + (number - 1) * 16, 16)?;
        // Boot code of a filesystem lies here too; it rarely looks like this four times.
        if u8_at(entry, 0)? & 0x7f != 0 {
            return Ok(None);
        }
        let (kind, first, sectors) = (u8_at(entry, 4)?, u64::from(le32(entry, 8)?), u64::from(le32(entry, 12)?));
        if kind != 0 && sectors != 0 {
            found.push(Entry { number: number as u64, kind, first, sectors });
        }
    }
    Ok(Some(found))
}

/// Follows the chain of logical partitions inside a container. Each link has one partition, relative to itself, and the
/// next link, relative to the container; links must move forward.
fn logical(disk: &View<'_>, tables: &mut Tables, container: &Entry) -> Result<(), Refusal> {
    let corrupt = |why: &str| Refusal::corrupt(format!("chain of logical partitions: {why}"));
    let end = container.first + container.sectors; // of numbers of 32 bits
    let already = tables.partitions.len();
    let mut link = container.first;
    for _ in 0..LONGEST_CHAIN {
        let at = Extent { start: link * SECTOR, len: SECTOR };
        let entries = entries(&disk.read(at.start, at.len as usize)?)?.ok_or_else(|| corrupt("a link is no table"))?;
        tables.add_table(disk.size(), at.start, at.len);
        let mut next = None;
        for entry in &entries {
            if CONTAINERS.contains(&entry.kind) {
                if next.replace(container.first + entry.first).is_some() {
                    return Err(corrupt("a link has two next ones"));
                }
                continue;
            }
            let first = link + entry.first;
            if entry.first == 0 || first + entry.sectors > end || entry.number > 2 {
                return Err(corrupt("a partition is outside"));
            }
            let claim = if entry.kind == DYNAMIC { Claim::Opaque("LDM") } else { Claim::Look };
            let number = 5 + tables.partitions.len() - already;
            tables.add(disk.size(), SECTOR, format!("MBR partition {number}"), first, entry.sectors, claim);
        }
        match next {
            None => return Ok(()),
            Some(next) if next <= link || next >= end => return Err(corrupt("a link leads back or out")),
            Some(next) => link = next,
        }
    }
    Err(corrupt("it is too long"))
}
