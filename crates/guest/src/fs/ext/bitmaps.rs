//! The block bitmaps: what is free.

use std::ops::Range;

use super::blocks::Blocks;
use super::groups::{Group, Metadata};
use super::sums::crc32c;
use super::superblock::{Layout, Sums};
use super::tally::Tally;
use crate::bytes::{runs_of_ones, slice};
use crate::extents::ExtentSet;
use crate::refusal::{Refusal, corrupt_if, over_budget_if, refuse_if};

/// One state of the filesystem: blocks, and the descriptors that were read from them.
pub(super) struct State<'a> {
    pub(super) blocks: &'a Blocks<'a>,
    pub(super) groups: &'a [Group],
}

/// What the bitmaps say together.
#[derive(Default)]
pub(super) struct Free {
    /// The free bytes of the region.
    pub(super) bytes: ExtentSet,
    /// The sum of all groups' free blocks.
    pub(super) blocks: u64,
    /// The blocks that are free in the state alone, whatever the older one says.
    pub(super) tally: Tally,
}

/// Which bytes are free in `state`, and in `older` too if there is one.
///
/// `state` is checked: bitmaps against their checksums and counts, and metadata must be in use. Of `older` nothing is
/// asked but which blocks it uses.
pub(super) fn free(
    state: &State<'_>,
    older: Option<&State<'_>>,
    layout: &Layout,
    metadata: &Metadata,
) -> Result<Free, Refusal> {
    let mut free = Free::default();
    for (number, group) in (0..).zip(state.groups) {
        let mut used = bits(state, group, number, layout, metadata)?;
        free_runs(&used, number, layout).for_each(|run| free.tally.add(run));
        if let Some((older, group)) = older.and_then(|older| Some((older, older.groups.get(number as usize)?)))
            && !group.uninitialised
        {
            let bitmap = older.blocks.read(group.bitmap)?;
            used.iter_mut().zip(bitmap).for_each(|(used, older)| *used |= older);
        }
        free.blocks += u64::from(group.free) << layout.cluster_bits;
        let block = u64::from(layout.block);
        free_runs(&used, number, layout).for_each(|run| free.bytes.push(run.start * block..run.end * block));
        over_budget_if(free.bytes.count() > state.blocks.region.budget().extents(), "free extents")?;
    }
    Ok(free)
}

fn clusters(number: u64, layout: &Layout) -> u64 {
    (layout.end_block(number) - layout.first_block(number)).div_ceil(1 << layout.cluster_bits)
}

/// The bitmap of one group: a set bit is a used cluster.
fn bits(
    state: &State<'_>,
    group: &Group,
    number: u64,
    layout: &Layout,
    metadata: &Metadata,
) -> Result<Vec<u8>, Refusal> {
    let mut own = vec![0; layout.block as usize];
    let first = layout.first_block(number);
    for run in metadata.within(first..layout.end_block(number)) {
        // A cluster is used if one of its blocks is.
        let last = (run.end - 1 - first) >> layout.cluster_bits;
        set(&mut own, (run.start - first) >> layout.cluster_bits, last + 1);
    }
    let wrong = |what: &str| Refusal::corrupt(format!("{what} of group {number}"));
    let count = clusters(number, layout);
    if group.uninitialised {
        return match zeros(&own, count) == u64::from(group.free) {
            true => Ok(own),
            false => Err(wrong("the free count of the unused bitmap")),
        };
    }
    let bitmap = state.blocks.read(group.bitmap)?;
    if layout.sums == Sums::All {
        let sum = crc32c(layout.seed, slice(&bitmap, 0, (layout.clusters_per_group() / 8) as usize)?);
        let sum = if layout.descriptor >= 64 { sum } else { sum & 0xffff };
        refuse_if(sum != group.bitmap_sum, || wrong("the checksum of the bitmap"))?;
    }
    refuse_if(zeros(&bitmap, count) != u64::from(group.free), || wrong("the free count of the bitmap"))?;
    let contradiction = bitmap.iter().zip(&own).any(|(used, own)| own & !used != 0);
    corrupt_if(contradiction, format_args!("metadata in free blocks of group {number}"))?;
    Ok(bitmap)
}

/// The clear bits of a group's bitmap, as blocks of the filesystem. Some runs may be empty, or touch the next one.
fn free_runs(used: &[u8], number: u64, layout: &Layout) -> impl Iterator<Item = Range<u64>> {
    let (count, first, end) = (clusters(number, layout), layout.first_block(number), layout.end_block(number));
    let block = move |cluster: u64| (first + (cluster << layout.cluster_bits)).min(end);
    let words = used.as_chunks().0.iter().map(|word| !u64::from_le_bytes(*word));
    (0..).step_by(64).zip(words).flat_map(move |(at, free)| {
        let runs = runs_of_ones(free).map(move |run| (at + run.start).min(count)..(at + run.end).min(count));
        runs.map(move |run| block(run.start)..block(run.end))
    })
}

/// How many of the first `count` bits are clear.
pub(super) fn zeros(bits: &[u8], count: u64) -> u64 {
    let whole: u64 = bits.iter().take((count / 8) as usize).map(|byte| u64::from(byte.count_zeros())).sum();
    let rest = bits.get((count / 8) as usize).map_or(0, |byte| (!byte & ((1 << (count % 8)) - 1)).count_ones());
    whole + u64::from(rest)
}

/// Sets the bits from `from` up to, and without, `to`. Bits that are not there stay so.
fn set(bits: &mut [u8], from: u64, to: u64) {
    for at in from..to {
        if let Some(byte) = bits.get_mut((at / 8) as usize) {
            *byte |= 1 << (at % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_lowest_up() {
        let mut bits = [0; 3];
        set(&mut bits, 3, 9);
        assert_eq!(bits, [0xf8, 0x01, 0]);
        assert_eq!((zeros(&bits, 24), zeros(&bits, 10), zeros(&bits, 4)), (18, 4, 3));
        set(&mut bits, 20, 99);
        assert_eq!(bits, [0xf8, 0x01, 0xf0]);
    }
}
