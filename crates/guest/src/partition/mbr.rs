//! The partition table of a master boot record, and the chain of those of logical partitions.

use super::claims::{Claim, Known, Tables};
use crate::bytes::{le16, le32, slice, u8_at};
use crate::extents::Extent;
use crate::image::View;
use crate::refusal::{Refusal, refuse_if, unsupported_if};

/// Bytes of a table, whatever the size of a sector.
const LEN: u64 = 512;
/// What a table counts in, unless something else is proven.
const SECTOR: u64 = 512;
/// The other size that sectors have.
const LARGE_SECTOR: u64 = 4096;
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

/// Reads the table if there is one. Knows of `gpt` whether there is a valid one for a protective entry to protect, and by
/// `known` whether a part of the disk has a known signature; says whether there is a protective entry.
pub fn read(disk: &View<'_>, tables: &mut Tables, gpt: bool, known: Known<'_>) -> Result<bool, Refusal> {
    let size = disk.size();
    if size < LEN {
        return Ok(false);
    }
    // Anything can end in these two bytes, above all a boot sector of a filesystem; a table that says nothing is none.
    let Some(entries) = entries(&disk.read(0, LEN as usize)?)? else { return Ok(false) };
    if entries.is_empty() {
        return Ok(false);
    }
    let sector = if gpt { SECTOR } else { sector_size(disk, &entries, known)? };
    tables.add_table(size, 0, LEN);
    if sector != SECTOR {
        // Perhaps it is not so after all, and something unknown lies there.
        for entry in &entries {
            let place = format!("MBR partition {} in sectors of 512 bytes", entry.number);
            let claim = Claim::Broken(Refusal::unsupported("its table seems to be of sectors of 4 KiB"));
            tables.add(size, SECTOR, place, entry.first, entry.sectors, claim);
        }
    }
    for entry in &entries {
        let place = format!("MBR partition {}", entry.number);
        let claim = match entry.kind {
            PROTECTIVE if gpt => continue,
            PROTECTIVE => Claim::Broken(Refusal::corrupt("a protective MBR without its GPT")),
            DYNAMIC => Claim::Opaque("LDM"),
            kind if CONTAINERS.contains(&kind) => match logical(disk, sector, tables, entry) {
                Ok(()) => continue,
                Err(Refusal::Corrupt(why)) => Claim::Broken(Refusal::Corrupt(why)),
                Err(other) => return Err(other),
            },
            _ => Claim::Look,
        };
        tables.add(size, sector, place, entry.first, entry.sectors, claim);
    }
    if !gpt || entries.iter().any(|entry| entry.kind != PROTECTIVE) {
        tables.kinds.push("dos");
    }
    Ok(entries.iter().any(|entry| entry.kind == PROTECTIVE))
}

/// Whether nothing is where a boot sector with a protective MBR is on other disks: zeros, or that MBR without its last two
/// bytes.
pub fn is_blank(disk: &View<'_>) -> Result<bool, Refusal> {
    let sector = disk.read(0, LEN as usize)?;
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let mut entries = slice(&sector, TABLE, 64)?.chunks_exact(16);
    Ok(is_zero(slice(&sector, 0, TABLE)?) && entries.all(|entry| is_zero(entry) || entry[4] == PROTECTIVE))
}

/// What the table counts in. It does not say it: on a disk with sectors of 4 KiB its numbers are of those. So it is
/// believed to be of such a disk if all of its partitions then lie in the disk and one of them starts as something that is known,
/// and none of them does in sectors of 512 bytes. (What lies there is used even so.)
fn sector_size(disk: &View<'_>, entries: &[Entry], known: Known<'_>) -> Result<u64, Refusal> {
    let inside = |entry: &Entry| (entry.first + entry.sectors) * LARGE_SECTOR <= disk.size();
    let usual = |entry: &Entry| ![PROTECTIVE, DYNAMIC].contains(&entry.kind);
    if !entries.iter().all(|entry| inside(entry) && usual(entry)) || !any_known(disk, entries, LARGE_SECTOR, known)? {
        return Ok(SECTOR);
    }
    unsupported_if(any_known(disk, entries, SECTOR, known)?, "ambiguous: an MBR of sectors of 512 bytes or of 4 KiB")?;
    Ok(LARGE_SECTOR)
}

/// Whether one of the partitions starts as something that is known, in sectors of this size.
fn any_known(disk: &View<'_>, entries: &[Entry], sector: u64, known: Known<'_>) -> Result<bool, Refusal> {
    for entry in entries {
        let partition = disk.part(entry.first * sector, entry.sectors * sector)?;
        let found = match CONTAINERS.contains(&entry.kind) {
            true => self::entries(&partition.read(0, LEN as usize)?)?.is_some(),
            false => known(&partition)?,
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
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
fn logical(disk: &View<'_>, sector: u64, tables: &mut Tables, container: &Entry) -> Result<(), Refusal> {
    let corrupt = |why: &str| Refusal::corrupt(format!("chain of logical partitions: {why}"));
    let end = container.first + container.sectors; // of numbers of 32 bits
    let already = tables.partitions.len();
    let mut link = container.first;
    for _ in 0..LONGEST_CHAIN {
        let at = Extent { start: link * sector, len: LEN };
        let entries = entries(&disk.read(at.start, at.len as usize)?)?.ok_or_else(|| corrupt("a link is no table"))?;
        tables.add_table(disk.size(), at.start, at.len);
        let mut next = None;
        for entry in &entries {
            if CONTAINERS.contains(&entry.kind) {
                let twice = next.replace(container.first + entry.first).is_some();
                refuse_if(twice, || corrupt("a link has two next ones"))?;
                continue;
            }
            let first = link + entry.first;
            let misplaced = entry.first == 0 || first + entry.sectors > end || entry.number > 2;
            refuse_if(misplaced, || corrupt("a partition is outside"))?;
            let claim = if entry.kind == DYNAMIC { Claim::Opaque("LDM") } else { Claim::Look };
            let number = 5 + tables.partitions.len() - already;
            tables.add(disk.size(), sector, format!("MBR partition {number}"), first, entry.sectors, claim);
        }
        match next {
            None => return Ok(()),
            Some(next) if next <= link || next >= end => return Err(corrupt("a link leads back or out")),
            Some(next) => link = next,
        }
    }
    Err(corrupt("it is too long"))
}
