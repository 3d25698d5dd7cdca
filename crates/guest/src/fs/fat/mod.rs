//! FAT12, FAT16 and FAT32: free is what the table says is free, once the tables, the flags and all directories agree.
//!
//! Format: Microsoft's "FAT: General Overview of On-Disk Format" (fatgen103), ECMA-107. There are no checksums, so
//! everything that is written twice is compared, and every chain of every file is followed. FSInfo is never looked at.

mod boot;
mod walk;

use crate::bytes::{le16, le32};
use crate::fs::clusters::{Table, Width};
use crate::fs::free_map::{Findings, FreeMap, Options};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if};
use boot::{Boot, looks_like_one};
use walk::Links;

/// FAT12, FAT16 and FAT32, with or without long names.
#[derive(Debug)]
pub struct Fat;

impl FreeMap for Fat {
    fn name(&self) -> &'static str {
        "vfat"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(region.size() >= 512 && looks_like_one(&region.read(0, 512)?)?)
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        let boot = region.read(0, 512)?;
        let sectors = match le16(&boot, 19)? {
            0 => le32(&boot, 32)?,
            short => short.into(),
        };
        Ok(Some(u64::from(sectors) * u64::from(le16(&boot, 11)?)))
    }

    fn free(&self, region: &View<'_>, _options: &Options) -> Result<Findings, Refusal> {
        let boot = Boot::read(region)?;
        let (first, others) = boot.tables.split_first().or_corrupt("no table")?;
        let mut table = Table::new(region, *first, boot.heap.count, boot.width);
        check_flags(&boot, &mut table)?;
        let links = Links::read(boot.width, boot.heap, table, others)?;
        let used = walk::check(region, &boot, links)?;
        let free = boot.heap.free(&used, region.budget().extents())?;
        let mut evidence = vec!["clean".to_owned()];
        if !others.is_empty() {
            evidence.push("all copies of the table agree".to_owned());
        }
        evidence.push("every chain is whole".to_owned());
        Ok(Findings { free, dropped: 0, evidence })
    }
}

/// The first two entries belong to no cluster: the media byte, and on FAT16 and FAT32 the bits "clean" and "no errors".
/// FAT12 has no such bits; there the state byte of the boot sector and the walk must do.
fn check_flags(boot: &Boot, table: &mut Table<'_>) -> Result<(), Refusal> {
    let (ones, flags) = match boot.width {
        Width::Twelve => (0xfff, 0),
        Width::Sixteen => (0xffff, 0xc000),
        Width::ThirtyTwo => (0x0fff_ffff, 0x0c00_0000),
    };
    corrupt_if(table.entry(0)? & ones != (ones & !0xff) | u32::from(boot.media), "the media byte in the table")?;
    let state = table.entry(1)? & ones;
    corrupt_if((state | flags) < ones - 7, "the second entry of the table")?;
    dirty_if(state & flags != flags, "the flags in the table")
}
