//! GUID partition tables, after chapter 5 of the UEFI specification.

use super::claims::{Claim, Tables};
use super::verity;
use crate::bytes::{array, guid, le32, le64, product, slice};
use crate::crc32::crc32;
use crate::image::View;
use crate::refusal::{Refusal, refuse_if};

const SIGNATURE: &[u8] = b"EFI PART";
const SMALLEST_HEADER: usize = 92;
const MOST_ENTRIES: u64 = 1024;
const LARGEST_ENTRY: u64 = 4096;
/// Of all entries, in bytes. Everybody writes 128 entries of 128 bytes.
const LARGEST_ARRAY: u64 = 1 << 20;

/// Types whose contents only their owners understand, as they are on disk: parts of something larger, encrypted ones.
const OPAQUE: &[([u8; 16], &str)] = &[
    // Logical disk manager: data, metadata.
    (guid(0xaf9b_60a0, 0x1431, 0x4f62, 0xbc68_3311_714a_69ad), "LDM"),
    (guid(0x5808_c8aa, 0x7e8f, 0x42e0, 0x85d2_e1e9_0434_cfb3), "LDM"),
    // Storage Spaces.
    (guid(0xe75c_af8f, 0xf680, 0x4cee, 0xafa3_b001_e56e_fc2d), "storage_spaces"),
    // Apple's Core Storage.
    (guid(0x5374_6f72, 0x6167, 0x11aa, 0xaa11_0030_6543_ecac), "core_storage"),
    // Encrypted, with the header elsewhere or nowhere: whatever lies there by chance or from before says nothing.
    (guid(0x7ffe_c5c9, 0x2d00, 0x49b7, 0x8941_3ea1_0a55_86b7), "dm_crypt"),
    (guid(0xca7d_7ccb, 0x63ed, 0x4c53, 0x861c_1742_5360_59cc), "crypto_LUKS"),
    (guid(0x8c8f_8eff, 0xac95, 0x4770, 0x814a_2199_4f2d_bc8f), "VeraCrypt"),
    // Of Ceph, encrypted by plain dm-crypt and by LUKS: OSD, journal, block, its DB and write-ahead log, disk in creation.
    (guid(0x4fbd_7e29, 0x9d25, 0x41b8, 0xafd0_5ec0_0cef_f05d), "ceph_dm_crypt"),
    (guid(0x45b0_969e, 0x9b03, 0x4f30, 0xb4c6_5ec0_0cef_f106), "ceph_dm_crypt"),
    (guid(0xcafe_cafe, 0x9b03, 0x4f30, 0xb4c6_5ec0_0cef_f106), "ceph_dm_crypt"),
    (guid(0x93b0_052d, 0x02d9, 0x4d8a, 0xa43b_33a3_ee4d_fbc3), "ceph_dm_crypt"),
    (guid(0x306e_8683, 0x4fe2, 0x4330, 0xb7c0_00a9_17c1_6966), "ceph_dm_crypt"),
    (guid(0x89c5_7f98, 0x2fe5, 0x4dc0, 0x89c1_5ec0_0cef_f2be), "ceph_dm_crypt"),
    (guid(0x4fbd_7e29, 0x9d25, 0x41b8, 0xafd0_3586_5cef_f05d), "ceph_dm_crypt"),
    (guid(0x45b0_969e, 0x9b03, 0x4f30, 0xb4c6_3586_5cef_f106), "ceph_dm_crypt"),
    (guid(0xcafe_cafe, 0x9b03, 0x4f30, 0xb4c6_3586_5cef_f106), "ceph_dm_crypt"),
    (guid(0x1664_18da, 0xc469, 0x4022, 0xadf4_b30a_fd37_f176), "ceph_dm_crypt"),
    (guid(0x86a3_2090, 0x3647, 0x40b9, 0xbbbd_38d8_c573_aa86), "ceph_dm_crypt"),
];

/// A header whose own checksum and whose entries' checksum are right.
struct Table {
    sector: u64,
    lba: u64,
    alternate: u64,
    entries_at: u64,
    entry_len: u64,
    entries: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// There is no valid one.
    None,
    /// One, or several that do not say the same.
    Some,
    /// One at each end of the disk, which name each other and say the same.
    Agree,
}

/// Reads every valid copy of a GPT and says which there are. Refuses a disk with damaged ones only.
pub fn read(disk: &View<'_>, tables: &mut Tables) -> Result<Copies, Refusal> {
    let mut found: Vec<Table> = Vec::new();
    let mut damaged = None;
    for sector in [512, 4096] {
        let sectors = disk.size() / sector;
        // The copy at the end of the disk, and the one that the primary names if the disk has grown since.
        let mut places = vec![1, sectors.saturating_sub(1)];
        let mut next = 0;
        while let Some(&lba) = places.get(next) {
            next += 1;
            if lba == 0 || lba >= sectors || places[..next - 1].contains(&lba) {
                continue;
            }
            match header(disk, sector, lba) {
                Ok(None) => {}
                Ok(Some(table)) => {
                    if lba == 1 {
                        places.push(table.alternate);
                    }
                    found.push(table);
                }
                Err(Refusal::Corrupt(why)) => damaged = Some(Refusal::Corrupt(why)),
                Err(other) => return Err(other),
            }
        }
    }
    if found.is_empty()
        && let Some(why) = damaged
    {
        return Err(why);
    }
    for table in &found {
        list(disk, table, tables)?;
    }
    if found.is_empty() {
        return Ok(Copies::None);
    }
    tables.kinds.push("gpt");
    let agree = matches!(&found[..], [first, last] if first.agrees_with(last, disk.size()));
    Ok(if agree { Copies::Agree } else { Copies::Some })
}

impl Table {
    /// Whether this is the first copy, and `last` the one at the end of the disk, and both say the same.
    fn agrees_with(&self, last: &Table, disk: u64) -> bool {
        let ends = (self.lba, last.lba) == (1, (disk / self.sector).saturating_sub(1));
        let one = (self.sector, self.alternate, last.alternate) == (last.sector, last.lba, self.lba);
        ends && one && self.entry_len == last.entry_len && self.entries == last.entries
    }
}

/// The table whose header is at `lba`; `None` if there is no signature.
fn header(disk: &View<'_>, sector: u64, lba: u64) -> Result<Option<Table>, Refusal> {
    let damaged = |why: &str| Refusal::corrupt(format!("GPT at sector {lba}: {why}"));
    let mut header = disk.read(product(lba, sector)?, sector as usize)?;
    if !header.starts_with(SIGNATURE) {
        return Ok(None);
    }
    let len = le32(&header, 12)? as usize;
    refuse_if(!(SMALLEST_HEADER..=header.len()).contains(&len), || damaged("the size of its header"))?;
    header.truncate(len);
    let checksum = le32(&header, 16)?;
    header[16..20].fill(0);
    refuse_if(crc32(&header) != checksum, || damaged("the checksum of its header"))?;
    refuse_if(le64(&header, 24)? != lba, || damaged("a header that belongs elsewhere"))?;
    let (count, entry_len) = (u64::from(le32(&header, 80)?), u64::from(le32(&header, 84)?));
    let impossible =
        count > MOST_ENTRIES || !(128..=LARGEST_ENTRY).contains(&entry_len) || !entry_len.is_multiple_of(128);
    refuse_if(impossible, || damaged("the number or size of its entries"))?;
    let entries_at = product(le64(&header, 72)?, sector)?;
    let array_len = product(count, entry_len)?;
    refuse_if(array_len > LARGEST_ARRAY, || damaged("the size of its entries together"))?;
    let entries = disk.read(entries_at, array_len as usize)?;
    refuse_if(crc32(&entries) != le32(&header, 88)?, || damaged("the checksum of its entries"))?;
    Ok(Some(Table { sector, lba, alternate: le64(&header, 32)?, entries_at, entry_len, entries }))
}

fn list(disk: &View<'_>, table: &Table, tables: &mut Tables) -> Result<(), Refusal> {
    tables.add_table(disk.size(), product(table.lba, table.sector)?, table.sector);
    tables.add_table(disk.size(), table.entries_at, table.entries.len() as u64);
    for (number, entry) in (1..).zip(table.entries.chunks_exact(table.entry_len as usize)) {
        let kind: [u8; 16] = array(entry, 0)?;
        if slice(entry, 0, 16)?.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (first, last) = (le64(entry, 32)?, le64(entry, 40)?);
        if last < first {
            continue; // holds no byte
        }
        let sectors = (last - first).saturating_add(1);
        tables.names_verity |= verity::is_verity(kind);
        let known = OPAQUE.iter().find(|(guid, _)| *guid == kind);
        let claim = known.map_or(Claim::Look, |(_, name)| Claim::Opaque(name));
        tables.add(disk.size(), table.sector, format!("GPT partition {number}"), first, sectors, claim);
    }
    Ok(())
}
