//! XFS, versions 4 and 5.
//!
//! Free space is what the by-block btree of each allocation group says, where that agrees with the by-size btree, the
//! group's own counts and, after a clean unmount, the superblock's. What the log would replay decides whether the
//! btrees on the disk are the last word: see `log`. Everything else that is in use must be whole: see `inodes`.
//!
//! Formats as in "XFS Algorithms & Data Structures" (xfs-documentation).

mod ag;
mod fork;
mod inodes;
mod items;
mod log;
mod overlay;
mod short;
mod superblock;
mod transactions;

use crate::bytes::{be32, be64};
use crate::extents::ExtentSet;
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, dirty_if};

use super::free_map::{Findings, FreeMap, Options};
use ag::Group;
use inodes::Check;
use log::State;
use overlay::{Overlay, Source};
use superblock::{Geometry, Superblock};

/// XFS.
pub struct Xfs;

impl FreeMap for Xfs {
    fn name(&self) -> &'static str {
        "xfs"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(region.size() >= 512 && be32(&region.read(0, 4)?, 0)? == superblock::MAGIC)
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        let first = region.read(0, 16)?;
        Ok(Some(be64(&first, 8)?.saturating_mul(be32(&first, 4)?.into())))
    }

    fn free(&self, region: &View<'_>, options: &Options) -> Result<Findings, Refusal> {
        let superblock = superblock::read(region)?;
        let geometry = &superblock.geometry;
        match log::state(region, geometry)? {
            State::Clean { head } => clean(region, &superblock, head),
            State::Dirty(_) if options.only_unmounted => Err(Refusal::dirty("it was not unmounted")),
            State::Dirty(records) => {
                let head = records.head_lsn();
                let items = transactions::read(geometry, &records)?;
                let overlay = Overlay::replay(region, geometry, &items)?;
                dirty(region, geometry, &overlay, head)
            }
        }
    }
}

/// The filesystem was unmounted: the disk is the last word, and everything must agree.
fn clean(region: &View<'_>, superblock: &Superblock, head: u64) -> Result<Findings, Refusal> {
    let geometry = &superblock.geometry;
    let mut free = ExtentSet::new();
    let mut counted = 0_u64;
    for number in 0..geometry.ags {
        let group = Group::read(&Source::disk(region, geometry, head, room(region, &free)), number)?;
        counted += group.counted_free();
        add(&mut free, group.free);
    }
    if counted != superblock.free_blocks {
        let says = superblock.free_blocks;
        return Err(Refusal::corrupt(format!("{counted} free blocks, and the superblock says {says}")));
    }
    Check { source: &Source::disk(region, geometry, head, 0), free: &free }.all()?;
    let mut evidence = vec!["cleanly unmounted".to_owned(), sums(geometry).to_owned()];
    evidence.push("both free space trees and all counts agree".to_owned());
    finish(geometry, free, evidence)
}

/// The log holds changes. What is free both on the disk and after the log is replayed is free.
fn dirty(region: &View<'_>, geometry: &Geometry, overlay: &Overlay<'_>, head: u64) -> Result<Findings, Refusal> {
    let mut free = ExtentSet::new();
    let mut replayed = false;
    for number in 0..geometry.ags {
        // Three sets are held at once: both views of a group, and what they have in common.
        let room = room(region, &free) / 3;
        let group = Group::read(&Source::replayed(region, overlay, head, room), number)?;
        if !group.patched {
            add(&mut free, group.free);
            continue;
        }
        replayed = true;
        // Blocks of its trees may not have reached the disk yet. Then the disk is no second witness for what is free,
        // and nothing is.
        match Group::read(&Source::disk(region, geometry, head, room), number) {
            Ok(on_disk) => add(&mut free, group.free.intersection(&on_disk.free)),
            Err(Refusal::Corrupt(_)) => {}
            Err(other) => return Err(other),
        }
    }
    dirty_if(!free.intersection(overlay.touched()).is_empty(), "the log writes to a block that is free")?;
    Check { source: &Source::replayed(region, overlay, head, 0), free: &free }.all()?;
    let log = match (overlay.only_superblock(), replayed) {
        (true, _) => "the log touches only the superblock",
        (false, false) => "the log touches no free space map",
        (false, true) => "free on the disk and after the log is replayed",
    };
    let evidence = vec![
        log.to_owned(),
        sums(geometry).to_owned(),
        "both free space trees and all counts of the groups agree".to_owned(),
    ];
    finish(geometry, free, evidence)
}

/// Which checksums were right.
fn sums(geometry: &Geometry) -> &'static str {
    match geometry.v5 {
        true => "checksums of groups, trees, inodes, directories and attributes right",
        false => "no checksums",
    }
}

/// Adds what is free of a group behind all others.
fn add(free: &mut ExtentSet, group: ExtentSet) {
    if free.is_empty() {
        *free = group;
    } else {
        group.iter().for_each(|extent| free.push(extent.range()));
    }
}

/// How many more extents there may be beside those that are `free`.
fn room(region: &View<'_>, free: &ExtentSet) -> usize {
    region.budget().extents().saturating_sub(free.count())
}

fn finish(geometry: &Geometry, free: ExtentSet, evidence: Vec<String>) -> Result<Findings, Refusal> {
    let log = geometry.log_start..geometry.log_start + geometry.log_len;
    corrupt_if(!free.clipped(log).is_empty(), "the log is free")?;
    Ok(Findings { free, dropped: 0, evidence })
}
