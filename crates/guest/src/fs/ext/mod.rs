//! ext2, ext3 and ext4: the block bitmaps of the groups.
//!
//! The format is that of Linux's Documentation/filesystems/ext4. A block is free if its group's bitmap says so and the
//! filesystem keeps no metadata of its own there. The proof: unmounted cleanly and without errors, each bitmap with as
//! many free bits as its descriptor says, all of them together as many as the superblock says, and all metadata where the
//! geometry wants them and in use. All that inodes in use refer to is read, every checksum in it is right, and each used
//! block has one owner: see `walk`.
//!
//! A filesystem that was not unmounted has a journal to replay. Its bitmaps are on their way, and those on the disk are
//! stale. Then a block is free only if it is free before *and* after the replay. The log is read as the kernel would do it, and
//! everything after it is checked as in a clean filesystem, except the superblock's free count: while mounted it is not
//! kept up to date, and the kernel counts anew when it mounts. Fast commits behind the log say what files got since then;
//! no bitmap shows it, so everything that they name is kept too: see `replayed_files`.
//!
//! Only filesystems with `metadata_csum` have checksums of their bitmaps and inodes. In all others the blocks of the inodes
//! are the only proof, and what moves no block (a name, a time, a count of links) is not looked at.
//!
//! One that was mounted and has no journal is what is on the disk, as a whole copy would have it: if all inodes and bitmaps
//! agree, nothing that could ever be found of it is free. If they do not, it is refused.
//!
//! Inodes that were deleted while open (the orphan list) only make more blocks free at the next mount.

mod bitmaps;
mod blocks;
mod directory;
mod groups;
mod inode;
mod jbd2;
mod replayed_files;
mod sums;
mod superblock;
mod tally;
mod tree;
mod walk;

use self::bitmaps::State;
use self::blocks::Blocks;
use self::groups::Metadata;
use self::jbd2::{Journal, replay};
use self::superblock::{AT, JournalAt, LEN, Layout, Sums, Superblock};
use super::free_map::{Findings, FreeMap, Options};
use crate::bytes::{le16, le32, slice};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, dirty_if};

/// The parser of ext2, ext3 and ext4.
pub struct Ext;

impl FreeMap for Ext {
    fn name(&self) -> &'static str {
        "ext4"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        Ok(region.size() >= AT + LEN as u64 && le16(&region.read(AT + 0x38, 2)?, 0)? == 0xef53)
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        Superblock::end(&region.read(AT, LEN)?).map(Some)
    }

    fn free(&self, region: &View<'_>, options: &Options) -> Result<Findings, Refusal> {
        let superblock = Superblock::parse(&region.read(AT, LEN)?, region.size())?;
        superblock.check_state()?;
        let layout = &superblock.layout;
        let disk = Blocks::on_disk(region, layout);
        check_not_in_use(&disk, layout)?;
        let journal = match layout.journal {
            JournalAt::Inside => Some(Journal::open(&disk, layout)?),
            JournalAt::Nowhere | JournalAt::Outside => None,
        };
        // With a journal that is empty it was frozen.
        let was_mounted = superblock.needs_recovery || (journal.is_none() && !superblock.was_unmounted());
        dirty_if(options.only_unmounted && was_mounted, "it was not unmounted")?;
        match (journal, superblock.needs_recovery) {
            (None, true) => Err(Refusal::dirty("its journal is on another device")),
            (Some(journal), true) => dirty(&superblock, &disk, &journal),
            (Some(journal), false) if !journal.is_empty() => Err(Refusal::dirty("its journal is not empty")),
            (journal, false) => clean(&superblock, &disk, journal.as_ref()),
        }
    }
}

/// Whether another machine may have it mounted: multiple mount protection.
fn check_not_in_use(disk: &Blocks<'_>, layout: &Layout) -> Result<(), Refusal> {
    let Some(block) = layout.mmp else { return Ok(()) };
    let bytes = disk.read(block)?;
    corrupt_if(le32(&bytes, 0)? != 0x004d_4d50, "its multiple mount protection is damaged")?;
    let wrong = layout.sums == Sums::All && sums::crc32c(layout.seed, slice(&bytes, 0, 0x3fc)?) != le32(&bytes, 0x3fc)?;
    corrupt_if(wrong, "the checksum of its multiple mount protection is wrong")?;
    match le32(&bytes, 4)? {
        0xff4d_4d50 => Ok(()),
        _ => Err(Refusal::dirty("its multiple mount protection says that it is in use")),
    }
}

/// One that was unmounted or frozen, or has no journal.
fn clean(superblock: &Superblock, disk: &Blocks<'_>, journal: Option<&Journal>) -> Result<Findings, Refusal> {
    let layout = &superblock.layout;
    let groups = groups::read(disk, layout)?;
    let metadata = Metadata::of(&groups, layout, &journal.map(Journal::taken).unwrap_or_default())?;
    let state = State { blocks: disk, groups: &groups };
    let found = bitmaps::free(&state, None, layout, &metadata)?;
    // While mounted its count is not kept up to date.
    let unmounted = superblock.was_unmounted();
    if unmounted && found.blocks != superblock.free_blocks {
        return Err(Refusal::corrupt(format!(
            "{} blocks are free in its groups, {} in its superblock",
            found.blocks, superblock.free_blocks
        )));
    }
    walk::check(&state, superblock, &found, &metadata)?;
    let (how, counts) = match unmounted {
        true => ("cleanly unmounted", "free counts agree"),
        false => ("not cleanly unmounted, but whole", "free counts of the groups agree"),
    };
    let evidence = evidence(superblock, how.into(), counts);
    Ok(Findings { free: found.bytes, dropped: 0, evidence })
}

/// One with a journal to replay.
fn dirty(superblock: &Superblock, disk: &Blocks<'_>, journal: &Journal) -> Result<Findings, Refusal> {
    let layout = &superblock.layout;
    let replay = replay(journal, disk, layout)?;
    let after = disk.after(&replay.blocks);
    let renewed = Superblock::parse(&after.superblock(layout)?, disk.region.size())?;
    renewed.check_state()?;
    dirty_if(renewed.layout != *layout, "its journal changes its layout")?;
    journal.check_place(&after, layout)?;
    let (groups_before, groups) = (groups::read(disk, layout)?, groups::read(&after, layout)?);
    let moved = groups_before.iter().zip(&groups).any(|(before, group)| !before.same_places(group));
    dirty_if(moved, "its journal moves bitmaps or inode tables")?;
    let metadata = Metadata::of(&groups, layout, &journal.taken())?;
    corrupt_if(journal.writes_into_itself(&replay.blocks), "its journal writes into itself")?;
    let before = State { blocks: disk, groups: &groups_before };
    let state = State { blocks: &after, groups: &groups };
    let found = bitmaps::free(&state, Some(&before), layout, &metadata)?;
    // The bitmaps are those of the last transaction. They are checked as such, and know nothing of fast commits.
    walk::check(&state, &renewed, &found, &metadata)?;
    let free = found.bytes.without(&replayed_files::used(&replay.fast, &state, &renewed)?);
    let mut how = format!("mapped as after the replay of {} transactions", replay.transactions);
    if replay.fast.commits > 0 {
        how += &format!(" and {} fast commits", replay.fast.commits);
    }
    let evidence = evidence(superblock, how, "free counts of the groups agree");
    Ok(Findings { free, dropped: 0, evidence })
}

fn evidence(superblock: &Superblock, how: String, counts: &str) -> Vec<String> {
    let layout = &superblock.layout;
    let sums = match layout.sums {
        Sums::None => "no checksums",
        Sums::Groups => "checksums of the groups right, no others",
        Sums::All => "checksums of groups, bitmaps, inodes, extent trees, directories and attributes right",
    };
    let owners = match layout.cluster_bits {
        0 => "each used block has one owner",
        _ => "no inode uses what is free",
    };
    vec![superblock.kind.into(), how, sums.into(), owners.into(), counts.into()]
}
