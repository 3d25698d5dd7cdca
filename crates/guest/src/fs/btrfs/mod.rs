//! btrfs on one device.
//!
//! The extent tree of the last commit is the authority: whatever the superblock's trees refer to has an extent there.
//! Free is what lies in no chunk, and what of a chunk lies in no extent. Every node is checked by its checksum and against
//! its parent; superblock, chunks, device extents, block groups and the free space tree must agree with each other, and
//! nothing that a tree of files refers to may be free: see `live`. What fsync wrote since the commit is in log trees, which are walked and added.
//!
//! Trees of older commits lie in what is free by now: `mount -o rescue=usebackuproot` finds nothing in a copy.
//!
//! Format: the "On-disk Format" pages of the btrfs documentation, and `btrfs inspect-internal dump-tree`.

mod checksum;
mod chunks;
mod extents;
mod free_space;
mod key;
mod live;
mod roots;
mod superblock;
mod tree;

use extents::{ExtentTree, take_group};
use free_space::FreeSpaceTree;
use roots::Roots;
use superblock::{MIRRORS, RESERVED, Superblock};
use tree::{Forest, Root};

use crate::extents::{Extent, ExtentSet};
use crate::fs::free_map::{Findings, FreeMap, Options};
use crate::image::View;
use crate::refusal::{OrRefuse, Refusal, corrupt_if, dirty_if};

/// Boot loaders live there, and the superblock; btrfs never allocates it.
const FIRST_MIB: u64 = 1 << 20;

/// btrfs on one device, whose chunks are all stored once or twice (`single`, `dup`), mixed or not.
pub struct Btrfs;

impl FreeMap for Btrfs {
    fn name(&self) -> &'static str {
        "btrfs"
    }

    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal> {
        superblock::has_magic(region)
    }

    fn end(&self, region: &View<'_>) -> Result<Option<u64>, Refusal> {
        superblock::end(region).map(Some)
    }

    fn free(&self, region: &View<'_>, options: &Options) -> Result<Findings, Refusal> {
        let sb = Superblock::read(region)?;
        // Without a log nothing tells whether it was mounted.
        dirty_if(options.only_unmounted && sb.log_root != 0, "it was not unmounted")?;
        let forest = Forest::new(region, &sb);
        let chunks = roots::read_chunks(&forest, &sb)?;
        let roots = Roots::read(&forest, &chunks, &sb)?;
        let in_chunks = roots::read_device(&forest, &chunks, &sb, there(roots.device)?)?;
        let mut evidence = vec![format!("{} checksums of all trees right", sb.checksum.name())];

        let most = region.budget().extents();
        let mut extent_tree = ExtentTree::new(&chunks, &sb, most);
        forest.walk(&chunks, there(roots.extent)?, &mut |key, item| extent_tree.push(key, item))?;
        let mut allocation = extent_tree.finish()?;
        if sb.has_block_group_tree {
            let groups = &mut allocation.groups;
            forest.walk(&chunks, there(roots.block_group)?, &mut |key, item| take_group(&chunks, groups, key, item))?;
        }
        corrupt_if(allocation.groups != allocation.used, "block groups count other extents than there are")?;
        evidence.push("extents, block groups, chunks and device agree".to_owned());
        if sb.has_free_space_tree {
            let mut free_space = FreeSpaceTree::new(&chunks, &sb);
            forest.walk(&chunks, there(roots.free_space)?, &mut |key, item| free_space.push(key, item))?;
            let disagree = free_space.finish()?.digest() != allocation.runs.digest();
            corrupt_if(disagree, "extent tree and free space tree disagree")?;
            evidence.push("free space tree agrees".to_owned());
        }

        // One list, not two sets and their union: there may be millions.
        let mut free = allocation.free;
        let outside = ExtentSet::from_ranges(in_chunks).complement(0..sb.device.total_bytes);
        free.extend(outside.iter().map(Extent::range));
        let free = ExtentSet::from_ranges(free);
        live::check(&forest, &chunks, &sb, &roots, &free)?;

        let mut used: Vec<_> = MIRRORS.iter().map(|mirror| *mirror..mirror + RESERVED).collect();
        used.push(0..FIRST_MIB);
        if sb.log_root == 0 {
            evidence.push("no log".to_owned());
        } else {
            used.extend(live::used_by_log(&forest, &chunks, &sb, most / 4)?);
            evidence.push("what the log uses counted as used".to_owned());
        }
        let free = free.without(&ExtentSet::from_ranges(used));
        Ok(Findings { free, dropped: 0, evidence })
    }

    // Only a log does, and there is none after a commit.
    fn tells_use(&self) -> bool {
        false
    }
}

fn there(root: Option<Root>) -> Result<Root, Refusal> {
    root.or_corrupt("a tree is missing")
}
