//! The superblock: which layout, and in which state.

use super::sums::crc32c;
use crate::bytes::{array, difference, is_power_in, le16, le32, le64, product, slice, u8_at};
use crate::refusal::{OrRefuse, Refusal, corrupt_if, over_budget_if, unsupported_if};

/// Where the first superblock is, in bytes, whatever the block size.
pub(super) const AT: u64 = 1024;
/// Its length in bytes.
pub(super) const LEN: usize = 1024;

/// More groups than this would need more memory than a parser may have: 32 TiB with blocks of 4 KiB.
const MOST_GROUPS: u64 = 1 << 18;

mod compat {
    pub(super) const HAS_JOURNAL: u32 = 0x4;
    pub(super) const RESIZE_INODE: u32 = 0x10;
    pub(super) const DIR_INDEX: u32 = 0x20;
    pub(super) const SPARSE_SUPER2: u32 = 0x200;
    pub(super) const ORPHAN_FILE: u32 = 0x1000;
    /// Preallocation, imagic inodes, attributes, resize inode, hashed directories, fast commits, stable inode numbers and
    /// the orphan file too. The others (lazy_bg, snapshots) change what a bitmap says.
    pub(super) const KNOWN: u32 = 0x1e3f;
}

mod incompat {
    pub(super) const RECOVER: u32 = 0x4;
    pub(super) const META_BG: u32 = 0x10;
    pub(super) const EXTENTS: u32 = 0x40;
    pub(super) const SIXTY_FOUR: u32 = 0x80;
    pub(super) const MMP: u32 = 0x100;
    pub(super) const FLEX_BG: u32 = 0x200;
    pub(super) const EA_INODE: u32 = 0x400;
    pub(super) const CSUM_SEED: u32 = 0x2000;
    pub(super) const INLINE_DATA: u32 = 0x8000;
    /// The above; file types, large directories, encryption and casefolding too: none of them touches the allocation.
    pub(super) const KNOWN: u32 = 0x3_e7d6;
}

mod ro_compat {
    pub(super) const SPARSE_SUPER: u32 = 0x1;
    pub(super) const HUGE_FILE: u32 = 0x8;
    pub(super) const GDT_CSUM: u32 = 0x10;
    pub(super) const BIGALLOC: u32 = 0x200;
    pub(super) const METADATA_CSUM: u32 = 0x400;
    pub(super) const ORPHANS_PRESENT: u32 = 0x1_0000;
    /// The above; large files, link counts, extra inode fields, quota, read-only, projects and verity too. An unknown one
    /// may change what a bitmap says, as bigalloc does.
    pub(super) const KNOWN: u32 = 0x1_b77f;
}

/// Which groups have a copy of the superblock and of the descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backups {
    /// All.
    Every,
    /// 0, 1 and the powers of 3, 5 and 7.
    Sparse,
    /// 0 and at most these two.
    Two([u32; 2]),
}

/// What is guarded by checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sums {
    None,
    /// The group descriptors, by CRC-16.
    Groups,
    /// Everything, by CRC-32C.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalAt {
    Nowhere,
    /// In inode 8.
    Inside,
    Outside,
}

/// What does not change while a filesystem is mounted, short of growing it. Counts are of blocks unless they say else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a block: 1024 to 65536.
    pub(super) block: u32,
    /// A bit of a bitmap is `1 << cluster_bits` blocks.
    pub(super) cluster_bits: u32,
    pub(super) blocks: u64,
    pub(super) first_data_block: u64,
    pub(super) blocks_per_group: u64,
    pub(super) groups: u64,
    pub(super) inodes_per_group: u64,
    /// In bytes.
    pub(super) inode_size: u64,
    /// Blocks of one group's inode table.
    pub(super) inode_table: u64,
    /// Bytes of a group descriptor.
    pub(super) descriptor: usize,
    pub(super) reserved_gdt: u64,
    /// Whether that room belongs to an inode.
    pub(super) has_resize_inode: bool,
    /// With meta_bg: from which block of descriptors on they lie in their own groups.
    pub(super) first_meta_bg: Option<u64>,
    pub(super) backups: Backups,
    /// Whether a group's bitmaps and inode table may be in another group.
    pub(super) flex_bg: bool,
    pub(super) sums: Sums,
    /// Where CRC-32C starts.
    pub(super) seed: u32,
    pub(super) uuid: [u8; 16],
    pub(super) journal: JournalAt,
    /// The block of the multiple mount protection.
    pub(super) mmp: Option<u64>,
}

impl Layout {
    pub(super) fn first_block(&self, group: u64) -> u64 {
        self.first_data_block + group * self.blocks_per_group
    }

    /// The block behind the last one of a group.
    pub(super) fn end_block(&self, group: u64) -> u64 {
        (self.first_block(group) + self.blocks_per_group).min(self.blocks)
    }

    /// Bits of a full group's bitmap.
    pub(super) fn clusters_per_group(&self) -> u64 {
        self.blocks_per_group >> self.cluster_bits
    }

    pub(super) fn descriptors_per_block(&self) -> u64 {
        u64::from(self.block) / self.descriptor as u64
    }

    pub(super) fn descriptor_blocks(&self) -> u64 {
        self.groups.div_ceil(self.descriptors_per_block())
    }

    /// The block that holds the first superblock, and its offset there.
    pub(super) fn superblock(&self) -> (u64, usize) {
        let block = AT / u64::from(self.block);
        (block, (AT - block * u64::from(self.block)) as usize)
    }

    pub(super) fn has_superblock(&self, group: u64) -> bool {
        let power_of = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        group == 0
            || match self.backups {
                Backups::Every => true,
                Backups::Sparse => group == 1 || power_of(3) || power_of(5) || power_of(7),
                Backups::Two(groups) => groups.iter().any(|with| u64::from(*with) == group),
            }
    }
}

/// A superblock that was checked as far as it can be alone.
#[derive(Debug)]
pub(super) struct Superblock {
    pub(super) layout: Layout,
    /// The journal must be replayed.
    pub(super) needs_recovery: bool,
    /// Blocks that are free. What is written lazily while mounted.
    pub(super) free_blocks: u64,
    /// "ext2", "ext3" or "ext4", as far as its features tell.
    pub(super) kind: &'static str,
    pub(super) has_extents: bool,
    pub(super) has_inline_data: bool,
    /// Whether extended attributes may be in inodes of their own.
    pub(super) has_attribute_inodes: bool,
    pub(super) has_hashed_directories: bool,
    /// Whether the count of an inode's sectors may have 48 bits, or be one of blocks.
    pub(super) has_huge_files: bool,
    /// Whether inodes may be in use that have no name any more.
    pub(super) has_orphans: bool,
    /// The file with the list of those.
    pub(super) orphan_file: Option<u32>,
    /// The first inode that is not reserved.
    pub(super) first_inode: u32,
    state: u16,
    errors: bool,
}

impl Superblock {
    /// Where the filesystem ends, in bytes, by the fields of a superblock alone.
    pub(super) fn end(from: &[u8]) -> Result<u64, Refusal> {
        let high = if le32(from, 0x60)? & incompat::SIXTY_FOUR != 0 { le32(from, 0x150)? } else { 0 };
        let blocks = u64::from(high) << 32 | u64::from(le32(from, 4)?);
        Ok(blocks.saturating_mul(1024 << le32(from, 0x18)?.min(6)))
    }

    /// Reads the [`LEN`] bytes of a superblock of a region of `size` bytes.
    pub(super) fn parse(from: &[u8], size: u64) -> Result<Superblock, Refusal> {
        corrupt_if(le16(from, 0x38)? != 0xef53, "no superblock")?;
        let features = Features::parse(from)?;
        let sums = sums(from, &features)?;
        let layout = layout(from, &features, sums)?;
        corrupt_if(product(layout.blocks, u64::from(layout.block))? > size, "longer than its region")?;
        let free_blocks = wide(from, 0x0c, 0x158, &features)?;
        corrupt_if(free_blocks > layout.blocks, "more free blocks than blocks")?;
        let revision_has_fields = le32(from, 0x4c)? != 0;
        let has_orphan_file = features.compat & compat::ORPHAN_FILE != 0;
        // How many errors there were, and when the first and the last one.
        let errors = [0x194, 0x198, 0x1cc].into_iter().map(|at| le32(from, at)).collect::<Result<Vec<_>, _>>()?;
        Ok(Superblock {
            layout,
            needs_recovery: features.incompat & incompat::RECOVER != 0,
            has_extents: features.incompat & incompat::EXTENTS != 0,
            has_inline_data: features.incompat & incompat::INLINE_DATA != 0,
            has_attribute_inodes: features.incompat & incompat::EA_INODE != 0,
            free_blocks,
            kind: features.kind(),
            state: le16(from, 0x3a)?,
            has_hashed_directories: features.compat & compat::DIR_INDEX != 0,
            has_huge_files: features.ro_compat & ro_compat::HUGE_FILE != 0,
            has_orphans: le32(from, 0xe8)? != 0 || features.ro_compat & ro_compat::ORPHANS_PRESENT != 0,
            orphan_file: if has_orphan_file { Some(le32(from, 0x280)?) } else { None },
            first_inode: if revision_has_fields { le32(from, 0x54)? } else { 11 },
            errors: errors.iter().any(|field| *field != 0),
        })
    }

    /// Whether it was unmounted, or has a journal that says what was going on.
    pub(super) fn was_unmounted(&self) -> bool {
        self.state == 1
    }

    /// Refuses a filesystem that has seen errors, or was left in the middle of a repair. One without a journal may have been
    /// mounted: what is on the disk is all there is of it then.
    pub(super) fn check_state(&self) -> Result<(), Refusal> {
        match self.state {
            1 if !self.errors => Ok(()),
            0 if !self.errors && self.layout.journal == JournalAt::Nowhere => Ok(()),
            1 => Err(Refusal::dirty("it has recorded errors")),
            state if state & 2 != 0 => Err(Refusal::dirty("it is marked as having errors")),
            state => Err(Refusal::dirty(format!("its state is {state:#x}"))),
        }
    }
}

struct Features {
    compat: u32,
    incompat: u32,
    ro_compat: u32,
}

impl Features {
    fn parse(from: &[u8]) -> Result<Features, Refusal> {
        let features =
            Features { compat: le32(from, 0x5c)?, incompat: le32(from, 0x60)?, ro_compat: le32(from, 0x64)? };
        match le32(from, 0x4c)? {
            // The first revision has no features, and none of the fields behind.
            0 if features.compat | features.incompat | features.ro_compat != 0 => {
                return Err(Refusal::corrupt("features in a revision that has none"));
            }
            0 | 1 => {}
            revision => return Err(Refusal::unsupported(format!("revision {revision}"))),
        }
        for (word, has, known) in [
            ("incompatible", features.incompat, incompat::KNOWN),
            ("read-only compatible", features.ro_compat, ro_compat::KNOWN),
            ("compatible", features.compat, compat::KNOWN),
        ] {
            unsupported_if(has & !known != 0, format_args!("{word} features {:#x}", has & !known))?;
        }
        Ok(features)
    }

    fn wide(&self) -> bool {
        self.incompat & incompat::SIXTY_FOUR != 0
    }

    fn kind(&self) -> &'static str {
        let fourth_ro = ro_compat::HUGE_FILE | ro_compat::GDT_CSUM | ro_compat::METADATA_CSUM | ro_compat::BIGALLOC;
        let fourth = incompat::EXTENTS | incompat::SIXTY_FOUR | incompat::FLEX_BG;
        if self.incompat & fourth != 0 || self.ro_compat & fourth_ro != 0 {
            "ext4"
        } else if self.compat & compat::HAS_JOURNAL != 0 {
            "ext3"
        } else {
            "ext2"
        }
    }
}

/// What is guarded, and the seed; checks the superblock's own sum.
fn sums(from: &[u8], features: &Features) -> Result<(Sums, u32), Refusal> {
    let seeded = features.incompat & incompat::CSUM_SEED != 0;
    if features.ro_compat & ro_compat::METADATA_CSUM == 0 {
        corrupt_if(seeded, "a seed for checksums that it does not have")?;
        let groups = features.ro_compat & ro_compat::GDT_CSUM != 0;
        return Ok((if groups { Sums::Groups } else { Sums::None }, 0));
    }
    unsupported_if(u8_at(from, 0x175)? != 1, "an unknown kind of checksum")?;
    corrupt_if(crc32c(!0, slice(from, 0, 0x3fc)?) != le32(from, 0x3fc)?, "the superblock's checksum is wrong")?;
    let seed = if seeded { le32(from, 0x270)? } else { crc32c(!0, slice(from, 0x68, 16)?) };
    Ok((Sums::All, seed))
}

/// A number of blocks in two halves, the upper of which exists with 64bit only. The kernel looks at it all the same, the tools
/// do not: so it must be zero.
fn wide(from: &[u8], low: usize, high: usize, features: &Features) -> Result<u64, Refusal> {
    let (low, high) = (le32(from, low)?, le32(from, high)?);
    corrupt_if(high != 0 && !features.wide(), "64-bit counts in a 32-bit filesystem")?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

fn layout(from: &[u8], features: &Features, (sums, seed): (Sums, u32)) -> Result<Layout, Refusal> {
    let log_block = le32(from, 0x18)?;
    corrupt_if(log_block > 6, "blocks are too large")?;
    let block = 1024_u32 << log_block;
    let meta_bg = features.incompat & incompat::META_BG != 0;
    let backups = if features.compat & compat::SPARSE_SUPER2 != 0 {
        Backups::Two([le32(from, 0x24c)?, le32(from, 0x250)?])
    } else if features.ro_compat & ro_compat::SPARSE_SUPER != 0 {
        Backups::Sparse
    } else {
        Backups::Every
    };
    let blocks = wide(from, 0x04, 0x150, features)?;
    let (cluster_bits, blocks_per_group) = group_size(from, features, log_block)?;
    // It is exactly this: one that starts at block 0 with blocks of 1 KiB would shift every bit by one block.
    let first_data_block = u64::from(le32(from, 0x14)?);
    corrupt_if(first_data_block != u64::from(le32(from, 0x1c)? == 0), "the first data block is wrong")?;
    let groups = difference(blocks, first_data_block)?.div_ceil(blocks_per_group);
    corrupt_if(groups == 0, "no blocks")?;
    over_budget_if(groups > MOST_GROUPS, "block groups")?;
    let (inodes_per_group, inode_size) = inodes(from, block, groups)?;
    let layout = Layout {
        block,
        cluster_bits,
        blocks,
        first_data_block,
        blocks_per_group,
        groups,
        inodes_per_group,
        inode_size,
        inode_table: product(inodes_per_group, inode_size)?.div_ceil(u64::from(block)),
        descriptor: descriptor_size(from, features, block)?,
        reserved_gdt: if le32(from, 0x4c)? == 0 { 0 } else { u64::from(le16(from, 0xce)?) },
        has_resize_inode: features.compat & compat::RESIZE_INODE != 0,
        first_meta_bg: if meta_bg { Some(u64::from(le32(from, 0x104)?)) } else { None },
        backups,
        flex_bg: features.incompat & incompat::FLEX_BG != 0,
        sums,
        seed,
        uuid: array(from, 0x68)?,
        journal: journal_at(from, features)?,
        mmp: if features.incompat & incompat::MMP != 0 { Some(le64(from, 0x168)?) } else { None },
    };
    if let Some(first) = layout.first_meta_bg
        && (layout.reserved_gdt != 0 || first > layout.descriptor_blocks())
    {
        return Err(Refusal::corrupt("its descriptors cannot lie where it says"));
    }
    Ok(layout)
}

/// The bits of a cluster, and the blocks of a group. Each is there twice, in two units.
fn group_size(from: &[u8], features: &Features, log_block: u32) -> Result<(u32, u64), Refusal> {
    let (log_cluster, blocks_per_group, clusters_per_group) = (le32(from, 0x1c)?, le32(from, 0x20)?, le32(from, 0x24)?);
    let bigalloc = features.ro_compat & ro_compat::BIGALLOC != 0;
    // The largest cluster that mke2fs makes is 512 MiB.
    let bits = log_cluster.checked_sub(log_block).filter(|_| log_cluster <= 19);
    let bits = bits.filter(|bits| bigalloc || *bits == 0).or_corrupt("clusters do not suit the blocks")?;
    let bits_of_a_block = (8 * 1024_u64) << log_block;
    let clusters = u64::from(clusters_per_group);
    if clusters == 0
        || clusters % 8 != 0
        || clusters > bits_of_a_block
        || u64::from(blocks_per_group) != clusters << bits
    {
        return Err(Refusal::corrupt("the size of a group is wrong"));
    }
    Ok((bits, u64::from(blocks_per_group)))
}

/// Inodes of a group, and bytes of an inode.
fn inodes(from: &[u8], block: u32, groups: u64) -> Result<(u64, u64), Refusal> {
    let per_group = u64::from(le32(from, 0x28)?);
    let size = if le32(from, 0x4c)? == 0 { 128 } else { u64::from(le16(from, 0x58)?) };
    corrupt_if(!is_power_in(size, 128..=u64::from(block)), "the size of an inode is wrong")?;
    let fits = per_group >= u64::from(block) / size && per_group <= 8 * u64::from(block);
    corrupt_if(!fits || per_group * groups != u64::from(le32(from, 0)?), "the number of inodes is wrong")?;
    Ok((per_group, size))
}

fn descriptor_size(from: &[u8], features: &Features, block: u32) -> Result<usize, Refusal> {
    if !features.wide() {
        return Ok(32);
    }
    let size = le16(from, 0xfe)?;
    let possible = is_power_in(u64::from(size), 64..=u64::from(block.min(1024)));
    corrupt_if(!possible, "the size of a group descriptor is wrong")?;
    Ok(usize::from(size))
}

fn journal_at(from: &[u8], features: &Features) -> Result<JournalAt, Refusal> {
    if features.compat & compat::HAS_JOURNAL == 0 {
        return match features.incompat & incompat::RECOVER {
            0 => Ok(JournalAt::Nowhere),
            _ => Err(Refusal::corrupt("a journal to replay, but no journal")),
        };
    }
    match (le32(from, 0xe0)?, le32(from, 0xe4)?) {
        (8, 0) => Ok(JournalAt::Inside),
        (0, device) if device != 0 => Ok(JournalAt::Outside),
        _ => Err(Refusal::corrupt("it is not clear where the journal is")),
    }
}
