//! One round of fuzzing: an image is changed, a parser looks at it, and what must hold is asserted.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use haul_guest::container::{self, Opened, Siblings};
use haul_guest::fs::{FreeMap, Options, btrfs, exfat, ext, fat, ntfs, swap, xfs};
use haul_guest::image::Session;
use haul_guest::{Budget, ExtentSet, Map, ReadAt, Refusal, Region, Verdict};
use haul_testbed::guest::Noise;

use crate::edits;
use crate::pages::Pages;
use crate::seed::{Seed, Target};

/// The environment variable with the directory of the seeds: a directory for each target, with files that end in `.seed`.
pub const SEEDS: &str = "HAUL_SEEDS";

/// The longest edit that a checksum of 32 bits notices in any case, in bytes.
const NOTICED: usize = 4;

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The input says nothing.
    Empty,
    /// Nothing is free, or the container is refused.
    Refused,
    /// Something is free, or the container is open.
    Accepted,
}

/// Reads the seeds of a target, in the order of their names.
///
/// # Errors
/// If they cannot be read, or are none.
pub fn load(dir: &Path, target: Target) -> io::Result<Vec<Seed>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir.join(target.name()))? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seed"));
    paths.sort();
    let seeds = paths.iter().map(|path| Seed::from_bytes(&std::fs::read(path)?)).collect::<io::Result<Vec<_>>>()?;
    if seeds.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(seeds) }
}

/// Runs one input.
///
/// # Panics
/// If something does not hold: then there is a bug.
pub fn run(target: Target, seeds: &[Seed], input: &[u8]) -> Ended {
    let Some((head, rest)) = edits::head(input) else { return Ended::Empty };
    let Some(seed) = head.seed.checked_rem(seeds.len()).and_then(|number| seeds.get(number)) else {
        return Ended::Empty;
    };
    let mut pages = seed.pages.clone();
    let done = edits::apply(rest, seed, &mut pages);
    if head.fix_checksums {
        seed.fixes.iter().for_each(|fix| fix.apply(&mut pages, &seed.pages));
    }
    // A right checksum vouches for what the damage says. Of several changes one may be the checksum.
    let proven = seed.guarded && !head.fix_checksums && done.edits <= 1 && done.longest <= NOTICED;
    let free = match target {
        Target::Qcow2 | Target::Vmdk | Target::Vhdx | Target::Vdi | Target::Vhd => return open(pages, input),
        Target::Gpt | Target::Mbr | Target::Lvm => {
            let map = haul_guest::map(&pages, &Options::default());
            assert_sane(&map);
            let failed = |region: &Region| region.verdict == Verdict::Refused(Refusal::Internal);
            assert!(!map.regions.iter().any(failed), "a parser panics");
            map.free
        }
        Target::Ext | Target::ExtJournal => parse(&ext::Ext, &pages),
        Target::Xfs | Target::XfsLog => parse(&xfs::Xfs, &pages),
        Target::Btrfs => parse(&btrfs::Btrfs, &pages),
        Target::Ntfs => parse(&ntfs::Ntfs, &pages),
        Target::Fat => parse(&fat::Fat, &pages),
        Target::Exfat => parse(&exfat::ExFat, &pages),
        Target::Swap => parse(&swap::Swap, &pages),
    };
    if proven {
        let wrong = free.without(&seed.free);
        assert!(wrong.is_empty(), "{wrong:?} is not free");
        let changed = done.edits == 1 && {
            let now = pages.read(done.last, done.longest);
            now != seed.pages.read(done.last, done.longest)
        };
        let damaged = changed && is_sealed(target, seed, done.last);
        assert!(!damaged || free.is_empty(), "mapped with damage at {}", done.last);
    }
    if free.is_empty() { Ended::Refused } else { Ended::Accepted }
}

/// Whether each byte that is read around this place is under a checksum of something in use: then no change of it may leave a
/// map. Not so in ext4, of which inodes that were never used and the ends of bitmaps are read with others.
fn is_sealed(target: Target, seed: &Seed, at: u64) -> bool {
    match target {
        Target::Btrfs => {
            // The field of a checksum has 32 bytes, of which a shorter one leaves the rest unused, in each node and superblock.
            let superblock = 64 << 10;
            let used = match seed.pages.read(superblock + 196, 2)[..] {
                [0, 0] => 4,
                [1, 0] => 8,
                _ => return true,
            };
            let (block, within) = (at - at % 4096, at % 4096);
            let has_checksum = seed.pages.read(block + 32, 16) == seed.pages.read(superblock + 32, 16);
            // An edit that begins in the last bytes of the checksum may have changed only what follows.
            !(has_checksum && (used - (NOTICED as u64 - 1)..32).contains(&within))
        }
        Target::Xfs => {
            // What the log holds was written back by the unmount.
            let number = |at: u64, len: usize| {
                seed.pages.read(at, len).iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
            };
            let (block, ag_blocks, ag_log) = (number(4, 4), number(84, 4), number(124, 1));
            let (start, blocks) = (number(48, 8), number(96, 4));
            let start = ((start >> ag_log) * ag_blocks + (start & ((1 << ag_log) - 1))) * block;
            !(start..start + blocks * block).contains(&at)
        }
        _ => false,
    }
}

/// What a parser says is free; nothing if it refuses.
fn parse(parser: &dyn FreeMap, pages: &Pages) -> ExtentSet {
    let size = pages.size();
    let session = Session::new(pages, Budget::for_image(size));
    let found = parser.free(&session.view(), &Options { drop_page_files: true, ..Options::default() });
    let read: u64 = session.into_witnesses().iter().map(|witness| witness.len).sum();
    assert!(read <= (64 << 20) + size / 32 + size, "{read} bytes were read");
    let Ok(found) = found else { return ExtentSet::new() };
    assert_in_order(&found.free, size);
    assert!(found.dropped <= found.free.bytes());
    // The map refuses what has more; until then it is held.
    let strict = Session::new(pages, Budget::for_image(size));
    let again = parser.free(&strict.view(), &Options::default());
    let kept = again.map(|found| found.free).unwrap_or_default();
    assert!(kept.is_subset_of(&found.free), "more is free if less may be dropped");
    kept
}

fn assert_in_order(free: &ExtentSet, size: u64) {
    let mut last = None;
    for extent in free.iter() {
        assert!(extent.len > 0 && extent.start.checked_add(extent.len).is_some_and(|end| end <= size), "{extent:?}");
        assert!(last.is_none_or(|last| last < extent.start), "{extent:?} is out of order");
        last = Some(extent.end());
    }
}

/// What every map keeps, whatever the image says: regions cover the image and nothing else, in order; what is free is
/// in whole granules inside regions that were mapped, and in no region that was not.
///
/// # Panics
/// If that is not so.
pub fn assert_sane(map: &Map) {
    let mut owned = Vec::new();
    let mut last = 0;
    let mut used = ExtentSet::new();
    let mut counted = 0;
    for region in &map.regions {
        assert!(!region.extents.is_empty() && region.extents.iter().all(|extent| extent.len > 0), "{region:?}");
        assert!(region.start() >= last, "{region:?} is out of order");
        last = region.start();
        let bytes = ExtentSet::from_ranges(region.extents.iter().map(|extent| extent.start..extent.end()));
        assert_eq!(bytes.bytes(), region.size(), "{region:?} overlaps itself");
        assert!(region.extents.iter().all(|extent| extent.end() <= map.size), "{region:?} is outside");
        assert!(bytes.intersection(&map.free).bytes() >= region.free);
        assert_eq!(region.used() + region.free, region.size());
        if !matches!(region.verdict, Verdict::Mapped { .. }) {
            assert_eq!((region.free, region.dropped), (0, 0), "{region:?}");
            used = used.union(&bytes);
        }
        counted += region.free;
        owned.extend(region.extents.iter().map(|extent| extent.start..extent.end()));
    }
    let owned = ExtentSet::from_ranges(owned);
    assert_eq!(owned, ExtentSet::of(0..map.size), "regions do not cover the image");
    assert!(map.free.intersection(&used).is_empty(), "free in a region that is used");
    assert!(map.free.iter().all(|extent| extent.start % 4096 == 0 && extent.len % 4096 == 0));
    assert!(map.free.bytes() <= counted);
}

/// Some bytes for whatever name a descriptor has.
struct Anything;

impl Siblings for Anything {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        let name = name.as_encoded_bytes();
        assert!(!name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| b"/\\\0".contains(byte)));
        Ok(Arc::new(Pages::empty(1 << 20)))
    }
}

fn open(pages: Pages, input: &[u8]) -> Ended {
    let file: Arc<dyn ReadAt> = Arc::new(pages);
    match container::base(Arc::clone(&file)) {
        Ok(base) => _ = base.map(|base| base.may_be(b"disk", &*file)),
        Err(refusal) => assert_ne!(refusal, Refusal::Internal, "a reader panics"),
    }
    let opened = match container::open(file, OsStr::new("disk"), &Anything) {
        Ok(opened) => opened,
        Err(refusal) => {
            assert_ne!(refusal, Refusal::Internal, "a reader panics");
            return Ended::Refused;
        }
    };
    let seed = input.iter().fold(1_u64, |seed, byte| seed.rotate_left(5) ^ u64::from(*byte));
    use_container(&opened, &mut Noise::new(seed));
    Ended::Accepted
}

/// Reads a few places of a container's disk, and asks everything else. Returns how many reads failed.
///
/// # Panics
/// If an answer reaches behind the disk or its files, or gives a table away.
pub fn use_container(opened: &Opened, noise: &mut Noise) -> u64 {
    let size = opened.disk.size();
    let mut buffer = vec![0; 70_000];
    let mut wrong = 0;
    for _ in 0..12 {
        let at = noise.below(size.max(1)).min(if noise.below(2) == 0 { 9 << 20 } else { u64::MAX });
        let len = (size.saturating_sub(at)).min(buffer.len() as u64) as usize;
        if let Err(error) = opened.disk.read_exact_at(at, &mut buffer[..len]) {
            assert_ne!(error.to_string(), Refusal::Internal.to_string(), "reading panics");
            wrong += 1;
        }
    }
    let unallocated = opened.disk.unallocated();
    assert!(unallocated.iter().all(|extent| extent.end() <= size), "unallocated reaches behind the disk");
    if let Some(ranges) = opened.disk.host_ranges(&ExtentSet::of(0..size)) {
        let freed: u64 = ranges.files.iter().map(ExtentSet::bytes).sum();
        assert_eq!(freed, ranges.held.bytes());
        let inside = ranges
            .files
            .iter()
            .zip(&opened.parts)
            .all(|(free, part)| free.iter().all(|extent| extent.end() <= part.file.size()));
        assert!(inside, "host ranges reach behind a file");
        // Tables are never given away.
        for seen in opened.disk.witnesses() {
            let table = ExtentSet::of(seen.witness.offset..seen.witness.offset + seen.witness.len);
            assert!(ranges.files[seen.file].intersection(&table).is_empty(), "a table is given away");
        }
    }
    wrong
}
