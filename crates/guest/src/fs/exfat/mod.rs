//! exFAT: free is what the allocation bitmap says is free, once the checksums, the flags and all directories agree.
//!
//! Format: Microsoft's "exFAT file system specification", revision 1.00.

mod boot;
mod sets;
mod walk;

use crate::bytes::{le64, u8_at};
use crate::fs::clusters::Heap;
use crate::fs::free_map::{Findings, FreeMap, Options};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if};
use boot::Boot;

/// exFAT.
#[derive(Debug)]
pub struct ExFat;

impl FreeMap for ExFat {
    fn name(&self) -> &'static str {
        "exfat"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(region.size() >= 512 && boot::is_one(&region.read(0, 512)?)?)
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        let boot = region.read(0, 512)?;
        Ok(Some(le64(&boot, 72)?.saturating_mul(1 << u8_at(&boot, 108)?.min(12))))
    }

    fn free(&self, region: &View<'_>, _options: &Options) -> Result<Findings, Refusal> {
        let boot = Boot::read(region)?;
        let used = walk::check(region, &boot)?;
        let free = boot.heap.free(&used, region.budget().extents())?;
        let mut evidence = vec!["clean".to_owned(), "checksums right".to_owned()];
        if let Some(percent) = boot.percent {
            check_percent(percent, boot.heap, free.bytes())?;
            evidence.push("the percentage in use agrees".to_owned());
        }
        evidence.push("every file is in the bitmap".to_owned());
        Ok(Findings { free, dropped: 0, evidence })
    }
}

/// Whether the percentage in the boot sector is that of the bitmap. Some round down, others to the nearest.
fn check_percent(stored: u8, heap: Heap, free: u64) -> Result<(), Refusal> {
    let total = u64::from(heap.count);
    let used = total.saturating_sub(free / heap.cluster);
    let down = used * 100 / total;
    let differs = u64::from(stored) != down && u64::from(stored) != down + 1;
    corrupt_if(differs, format_args!("{stored} % in use, but the bitmap says {down} %"))
}
