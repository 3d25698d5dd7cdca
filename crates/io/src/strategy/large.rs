//! Whether a copy goes to the device, or into the page cache.
//!
//! Small and medium files stay in the page cache, as with cp: they are likely to be read next. A dense file of 2 GiB,
//! or one from 32 MiB on that takes an eighth of the available memory, goes to the device; `--cache` decides otherwise.
//! It goes straight from the page cache where the source is there, else past it on both sides.
//!
//! XFS fills the page cache quicker than most devices take bytes, and so does ext4 where the space was allocated first:
//! there a cached file stays, up to a fifth of the memory. Within one ext4 the device is used all the same: memory
//! would return sooner, but the device is durable sooner and takes next to no CPU time. On disks with heads a file
//! stays up to a quarter of the memory. On a block device nothing of 32 MiB and more stays, nor anywhere when the copies
//! of this run would fill more than half of the memory.

use haul_sys::inode::Kind;

use crate::facts::{Filesystem, Surroundings};

use super::facts::{DataFacts, WORTH_ASKING, is_half_cold};
use super::steps::{Ranges, Steps};
use crate::options::{CacheUse, DataOptions, Preallocate};
use crate::profile::SizeClass;

/// A dense file from here on goes to the device, whatever memory there is: what memory takes at once (2 GiB: 0.9 to 2.4 s, to
/// the device 1.4 s, and 0.06 s of CPU time instead of 1.5) has to be written in any case.
const ALWAYS_LARGE: u64 = SizeClass::Huge.least();
/// Below this a file stays in the page cache, unless the user says otherwise.
const NEVER_LARGE: u64 = SizeClass::Large.least();
/// `--cache=drop` leaves smaller files alone.
const NEVER_DROPPED: u64 = WORTH_ASKING;

/// What of a file decides whether it goes to the device.
pub struct Large<'a> {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes that are written.
    pub amount: u64,
    /// They are written in long runs. Many small direct writes wait for the device each: a sparse file went half as fast.
    pub in_long_runs: bool,
    /// Where.
    pub dest: Kind,
    /// Less than half of what is read is in the page cache.
    pub is_cold: bool,
    /// The filesystem there.
    pub dest_on: Filesystem,
    /// The space is allocated first if it goes into the page cache of ext4.
    pub allocated_first: bool,
    /// What is known of time and place.
    pub around: &'a Surroundings,
}

impl<'a> Large<'a> {
    pub(super) fn of(facts: &DataFacts, around: &'a Surroundings, options: &DataOptions, steps: &Steps) -> Large<'a> {
        let amount = facts.size.min(facts.allocated);
        Large {
            size: facts.size,
            amount,
            in_long_runs: steps.ranges == Ranges::Whole,
            dest: facts.dest,
            is_cold: is_half_cold(around, amount),
            dest_on: facts.dest_on,
            allocated_first: can_be_allocated_first(facts, options, steps),
            around,
        }
    }

    /// A disk image of which so many bytes are copied. Small runs of it never go to the device by themselves.
    pub fn image(size: u64, amount: u64, (dest, dest_on): (Kind, Filesystem), around: &'a Surroundings) -> Large<'a> {
        let is_cold = is_half_cold(around, amount);
        Large { size, amount, in_long_runs: true, dest, is_cold, dest_on, allocated_first: false, around }
    }

    /// Whether the page cache takes the file quicker than devices do. Beyond a fifth of the memory (vm.dirty_ratio) the kernel would make
    /// the copy wait for the device after all.
    ///
    /// XFS needs no journal entry for each page, and takes large folios (4 GiB, warm: returned after 1.1 to 1.4 s, directly to the
    /// device after 2.3 s; durable after 2.5 to 2.7 and 2.3 s). Space of ext4 that is allocated first is written half as
    /// long as other space (4 GiB from another filesystem: 0.50 to 0.60 s, cp 0.90 to 0.99, directly to the device 0.97 to 1.06; durable after 1.27 to
    /// 1.41, 1.53 to 1.55 and 0.97 to 1.06 s). Within one ext4, where cp needs 1.3 to 1.6 s, memory
    /// returns after 0.58 s and the device after 0.96, but that is durable then, memory after 1.36 s, and takes 0.06 s of CPU time and not 0.89.
    pub(super) fn stays_on_its_way(&self) -> bool {
        let is_warm = self.around.cached.is_some() && !self.is_cold;
        is_warm
            && match self.dest_on {
                Filesystem::Xfs => true,
                Filesystem::Ext4 => self.allocated_first && !self.around.within_one,
                Filesystem::Btrfs | Filesystem::Other => false,
            }
    }

    /// Dense and too large to stay in the page cache, if that were not quicker.
    pub(super) fn would_go(&self, cache: CacheUse) -> bool {
        cache == CacheUse::Auto
            && self.in_long_runs
            && self.size >= ALWAYS_LARGE
            && self.around.rotational != Some(true)
            && self.stays_on_its_way()
    }
}

/// Whether the copy is to be on the device and not in the page cache.
pub fn goes_to_device(large: &Large<'_>, cache: CacheUse) -> bool {
    let &Large { size, amount, around, .. } = large;
    match cache {
        CacheUse::Keep => false,
        CacheUse::Drop => size >= NEVER_DROPPED,
        CacheUse::Auto if large.dest == Kind::BlockDevice => amount >= NEVER_LARGE,
        // Heads that move make a direct copy as slow as the disk, where memory would have taken it at once.
        CacheUse::Auto => {
            let memory = around.memory.unwrap_or(ALWAYS_LARGE * 4);
            let stays = large.stays_on_its_way();
            let share = match around.rotational {
                Some(true) => memory / 4,
                _ if stays => memory / 5,
                _ => memory / 8,
            };
            let quick = around.rotational == Some(true) || stays;
            let always = large.in_long_runs && !quick && amount >= ALWAYS_LARGE;
            let crowded = around.left_in_cache.saturating_add(amount) > memory / 2;
            amount >= NEVER_LARGE && (always || amount > share || crowded)
        }
    }
}

/// Whether what is only read of a file of this size need not stay in the page cache.
pub(crate) fn leaves_the_cache(size: u64, cache: CacheUse) -> bool {
    match cache {
        CacheUse::Keep => false,
        CacheUse::Drop => size >= NEVER_DROPPED,
        CacheUse::Auto => size >= NEVER_LARGE,
    }
}

/// Files of at least this size are allocated first on ext4.
pub(crate) const ALLOCATED_FIRST: u64 = 1 << 20;

/// Whether the space of a file can be allocated before the page cache is written, and gains from it.
///
/// Without that, ext4 sets each page aside by itself as it is written (delayed allocation): 4 GiB took 0.93 s instead of 0.55, files
/// of 4 MiB and more 1.4 times as long, files of 1 MiB 1.25 times. With 256 KiB it makes no difference, and with 64 KiB or less
/// it takes 1.4 times as long (Linux 6.18). XFS and btrfs have nothing to gain, and tmpfs would fill everything with zeros first.
///
/// Not where the copy replaces something: ext4 writes a truncated file back when it is closed, and one that takes the name of another when
/// it is renamed, so that a power cut soon after leaves the old or the new contents (auto_da_alloc), but only if it set the space
/// aside itself.
pub(super) fn can_be_allocated_first(facts: &DataFacts, options: &DataOptions, steps: &Steps) -> bool {
    facts.dest_on == Filesystem::Ext4
        && facts.source == Kind::Regular
        && facts.dest == Kind::Regular
        && facts.size >= ALLOCATED_FIRST
        && steps.ranges == Ranges::Whole
        && !steps.find_zeros
        && !(facts.replaces || facts.demands.renamed)
        && options.preallocate != Preallocate::Never
}
