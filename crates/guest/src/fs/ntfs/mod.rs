//! NTFS, versions 3.0 and 3.1 (Windows 2000 and later).
//!
//! The format is described by the Linux-NTFS project (flatcap.github.io/linux-ntfs) and in libfsntfs. There are no
//! checksums, so the proof is agreement: boot sector with its copy, the first records with theirs, every record with
//! its update sequence and the bitmap of the table, the lists of attributes with the pieces that are there, and
//! `$Bitmap` with the clusters of all files. Free is what neither `$Bitmap` nor a file says is used.

mod bitmap;
mod boot;
mod clean;
mod clusters;
mod pagefile;
mod record;
mod runs;
mod shadow;
mod volume;
mod walk;

use boot::Geometry;
use record::DATA;
use volume::Volume;
use walk::Special;

use super::free_map::{Findings, FreeMap, Options};
use crate::bytes::{le16, le64, product};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if};

/// NTFS: everything that `$Bitmap` calls free on a volume that was unmounted in order and whose files agree with it.
pub struct Ntfs;

const BOOT_FILE: u64 = 7;
const BAD_CLUSTERS: u64 = 8;

impl FreeMap for Ntfs {
    fn name(&self) -> &'static str {
        "ntfs"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(region.size() >= 512 && region.read(3, 8)? == b"NTFS    ")
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        let boot = region.read(0, 512)?;
        Ok(Some(le64(&boot, 40)?.saturating_mul(le16(&boot, 11)?.into())))
    }

    fn free(&self, region: &View<'_>, options: &Options) -> Result<Findings, Refusal> {
        let geometry = Geometry::read(region)?;
        shadow::check(region)?;
        let volume = Volume::open(region, geometry)?;
        volume.check_mirror()?;
        clean::check_flags(&volume)?;
        let log = clean::check_log(&volume, options.only_unmounted)?;
        check_extent(&volume)?;
        let walk = walk::walk(&volume)?;
        for (_, number) in walk.special.iter().filter(|(special, _)| *special == Special::Hibernation) {
            clean::check_hibernation(&volume, *number)?;
        }
        let found = bitmap::free(&volume, &walk.clusters)?;
        let mut evidence = vec!["clean".to_owned(), log.to_owned()];
        evidence.push(match found.lost {
            0 => "bitmap and files agree".to_owned(),
            lost => format!("bitmap and files agree but for {lost} clusters of no file"),
        });
        let mut findings = Findings { free: found.free, dropped: 0, evidence };
        if options.drop_page_files {
            let pages = walk.special.iter().filter(|(special, _)| *special == Special::PageFile);
            pagefile::drop_contents(&volume, pages.map(|(_, number)| *number), &mut findings)?;
        }
        Ok(findings)
    }
}

/// Two more that know the size of the volume, or where it begins.
fn check_extent(volume: &Volume<'_, '_>) -> Result<(), Refusal> {
    let boot = volume.contents(BOOT_FILE, "$Boot")?;
    let misplaced = boot.plain_runs().and_then(|runs| runs.first()).is_none_or(|run| run.at != Some(0));
    corrupt_if(misplaced, "$Boot does not begin where the volume does")?;
    // A sparse file as long as the volume, with runs where sectors are bad.
    let name: Vec<u8> = "$Bad".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bad = volume.stream(BAD_CLUSTERS, DATA, &name)?;
    let len = product(volume.geometry.clusters, volume.geometry.cluster)?;
    let differs = bad.is_none_or(|bad| bad.sizes.data != len || bad.mapped(&volume.geometry) != len);
    corrupt_if(differs, "$BadClus is not as long as the volume")
}
