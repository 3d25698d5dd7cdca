//! From an image to its regions, and to the bytes that are free in all of them.

use crate::budget::{Budget, MOST_PIECES};
use crate::extents::{Extent, ExtentSet};
use crate::fs::{self, FreeMap, Options};
use crate::guard::guarded;
use crate::image::{ReadAt, Session, View, Witness};
use crate::lvm::{self, Physical};
use crate::partition::{self, Claim, Partition, Tables};
use crate::probe::{self, Signature};
use crate::refusal::{Refusal, corrupt_if, over_budget_if};
use crate::report::{Map, Region, Verdict};
use crate::tail::Tails;

/// Free bytes come in whole pieces of this size at multiples of it, in bytes: less is not worth a hole, and no filesystem
/// below the copy could make one.
pub const GRANULE: u64 = 4096;

/// The most regions of an image; what has more is used as a whole.
const MOST_REGIONS: usize = 4096;
/// The most physical volumes of an image that are looked into.
const MOST_PHYSICAL: usize = 32;
/// The most partitions that a partition may overlap and still be looked into. Two tables that differ make one or two.
const MOST_OVERLAPS: usize = 8;

/// Finds what of an image is provably free. Cannot fail: what cannot be read or understood is used, and the report says
/// why.
pub fn map(image: &dyn ReadAt, options: &Options) -> Map {
    map_with(image, options, fs::ALL)
}

/// [`map()`] with a choice of parsers, for tests and special tools.
pub fn map_with(image: &dyn ReadAt, options: &Options, parsers: &[&dyn FreeMap]) -> Map {
    guarded(|| Ok(find(image, options, parsers))).unwrap_or_else(|refusal| {
        let size = guarded(|| Ok(image.size())).unwrap_or(0);
        let disk = Extent { start: 0, len: size };
        let whole = Leaf::whole("whole disk".to_owned(), disk, None, Verdict::Refused(refusal)).region;
        Map { size, regions: if size > 0 { vec![whole] } else { Vec::new() }, ..Map::default() }
    })
}

fn find(image: &dyn ReadAt, options: &Options, parsers: &[&dyn FreeMap]) -> Map {
    let size = image.size();
    let (leaves, volumes, witnesses) = (Vec::new(), Vec::new(), Vec::new());
    let (asleep, needed, all_or_none) = (false, None, false);
    let (tails, bystanders) = (Tails::default(), 0);
    let mut finder =
        Finder { image, parsers, leaves, volumes, witnesses, asleep, needed, all_or_none, tails, bystanders };
    let mut tables = ExtentSet::new();
    if size > 0 {
        tables = finder.whole_disk(Extent { start: 0, len: size });
        finder.physical_volumes();
    }
    let Finder { mut leaves, mut witnesses, asleep, needed, all_or_none, .. } = finder;
    if leaves.len() > MOST_REGIONS {
        let disk = Extent { start: 0, len: size };
        let verdict = Verdict::Refused(Refusal::Budget("regions"));
        leaves = vec![Leaf::whole("whole disk".to_owned(), disk, None, verdict)];
    }
    if asleep {
        leaves.iter_mut().for_each(Leaf::leave_to_the_sleeper);
    }
    if let Some(why) = needed {
        leaves.iter_mut().for_each(|leaf| leaf.keep_free_blocks(why));
    }
    ask_parsers(image, options, &mut leaves, &mut witnesses);
    if options.only_unmounted && leaves.iter().any(Leaf::is_refused) {
        leaves.iter_mut().for_each(Leaf::leave_to_its_user);
    }
    if all_or_none && !leaves.iter().all(Leaf::is_mapped) {
        leaves.iter_mut().for_each(Leaf::doubt);
    }
    let free = agree(&mut leaves, &tables);
    let mut regions: Vec<Region> = leaves.into_iter().map(Leaf::into_region).collect();
    regions.extend(framework(size, &regions));
    regions.sort_by_key(|region| (region.start(), region.size()));
    if free.is_empty() {
        witnesses.clear(); // nothing rests on them
    }
    Map { size, free, regions, witnesses }
}

/// A region of which no other is a part.
struct Leaf<'p> {
    /// How much of it is free is not known before the end.
    region: Region,
    /// The partition that it is, or lies in.
    partition: Extent,
    /// The parser that must look at it before its verdict is known.
    ask: Option<&'p dyn FreeMap>,
    /// What of it is free, in the image.
    free: ExtentSet,
}

impl Leaf<'_> {
    fn whole(place: String, partition: Extent, kind: Option<&'static str>, verdict: Verdict) -> Self {
        let region = Region { place, extents: vec![partition], kind, verdict, free: 0, dropped: 0 };
        Leaf { region, partition, ask: None, free: ExtentSet::new() }
    }

    /// A hibernated system knows better what is in use in every filesystem and swap area that it may have.
    fn leave_to_the_sleeper(&mut self) {
        if self.ask.take().is_some() {
            self.region.verdict = Verdict::Refused(Refusal::dirty("a hibernated system in this image"));
        }
    }

    /// Something else in the image needs the free blocks of what is in it.
    fn keep_free_blocks(&mut self, why: &str) {
        if self.ask.take().is_some() || self.is_mapped() {
            self.refuse(Refusal::unsupported(why));
        }
    }

    /// Whoever had another part of the image mounted may have had this in use, and nothing in it tells.
    fn leave_to_its_user(&mut self) {
        if self.is_mapped() && self.ask.is_some_and(|parser| !parser.tells_use()) {
            self.refuse(Refusal::dirty("another part of this image may have been mounted, and this in use"));
        }
    }

    fn refuse(&mut self, why: Refusal) {
        self.region.verdict = Verdict::Refused(why);
        (self.free, self.region.dropped) = (ExtentSet::new(), 0);
    }

    fn is_refused(&self) -> bool {
        matches!(self.region.verdict, Verdict::Refused(_))
    }

    fn is_mapped(&self) -> bool {
        matches!(self.region.verdict, Verdict::Mapped { .. })
    }

    /// What is in it was believed to be free for a table that is not to be believed.
    fn doubt(&mut self) {
        if self.is_mapped() {
            self.refuse(Refusal::corrupt("a GPT without its protective MBR"));
        }
    }

    fn bytes(&self) -> ExtentSet {
        self.region.extents.iter().map(|extent| extent.range()).collect()
    }

    fn into_region(self) -> Region {
        let free = self.free.bytes();
        Region { free, dropped: self.region.dropped.min(free), ..self.region }
    }
}

/// Looks at a part of an image with a budget of its own. A parser that panics found a forgery that nobody thought of.
fn look<T>(
    image: &dyn ReadAt,
    budget: Budget,
    extents: &[Extent],
    parse: impl FnOnce(&View<'_>) -> Result<T, Refusal>,
) -> Result<(T, Vec<Witness>), Refusal> {
    let session = Session::new(image, budget);
    // Nothing that the closure may leave half done is used after a panic: the session is dropped.
    let found = guarded(|| parse(&session.view().joined(extents)?))?;
    Ok((found, session.into_witnesses()))
}

/// What a look at signatures and partition tables may cost, for each partition and volume. Signatures take
/// 0.1 MiB, and eight times as much where an MBR has two meanings; tables of the usual size take 0.1 MiB, and what lies behind
/// a filesystem up to 2.2 MiB.
fn budget_for_signatures() -> Budget {
    Budget::new(8 << 20, 1 << 12, 0)
}

/// What a look at the metadata of a physical volume may cost: two copies of 4 MiB, and their words several times.
fn budget_for_volumes() -> Budget {
    Budget::new(16 << 20, 1 << 20, 0)
}

struct Finder<'i, 'p> {
    image: &'i dyn ReadAt,
    parsers: &'p [&'p dyn FreeMap],
    leaves: Vec<Leaf<'p>>,
    /// Physical volumes that were understood, and where they are.
    volumes: Vec<(String, Extent, Physical)>,
    witnesses: Vec<Witness>,
    /// Whether the memory of a hibernated system is in one of the parts.
    asleep: bool,
    /// Why something in one of the parts may need the free blocks of others.
    needed: Option<&'static str>,
    /// The partitions are believed only if each of them is mapped.
    all_or_none: bool,
    /// Looks behind filesystems.
    tails: Tails,
    /// How many parts were looked at that are used whatever they are.
    bystanders: usize,
}

type Nature<'p> = (Vec<Signature<'p>>, Option<Tables>);

impl<'p> Finder<'_, 'p> {
    /// The signatures and partition tables of a part of the image.
    fn nature(&mut self, extents: &[Extent]) -> Result<Nature<'p>, Refusal> {
        let parsers = self.parsers;
        // What matters for other parts is known even if the tables of this one make no sense.
        let (mut asleep, mut needed, tails) = (false, None, &mut self.tails);
        let looked = look(self.image, budget_for_signatures(), extents, |view| {
            asleep = fs::swap::is_asleep(view)?;
            let signatures = probe::signatures(view, parsers)?;
            needed = signatures.iter().find_map(|signature| signature.needs_free_blocks());
            for parser in signatures.iter().filter_map(|signature| signature.parser()) {
                if let Some(end) = parser.end(view)?
                    && tails.has_verity(view, end)?
                {
                    needed = needed.or(Some(probe::VERITY));
                }
            }
            let known = |part: &View<'_>| Ok(!probe::signatures(part, parsers)?.is_empty());
            let tables = partition::tables(view, &known)?;
            if tables.as_ref().is_some_and(|tables| tables.names_verity) {
                needed = needed.or(Some(probe::VERITY));
            }
            Ok((signatures, tables))
        });
        self.asleep |= asleep;
        self.needed = self.needed.or(needed);
        let (nature, witnesses) = looked?;
        self.witnesses.extend(witnesses);
        Ok(nature)
    }

    /// Looks at a part that is used whatever it is, for what matters to others. `has_user`: what it holds may be of whoever is
    /// known to use it and no other part, unless that is a hash tree of dm-verity.
    fn bystander(&mut self, extents: &[Extent], has_user: bool) {
        // Volumes of groups that are doubted, which are no regions: there may be more of them.
        if self.bystanders == MOST_REGIONS {
            return;
        }
        self.bystanders += 1;
        let needed = self.needed.take();
        // If it cannot be looked at, nothing more is known of it.
        self.nature(extents).ok();
        let found = self.needed.filter(|why| !has_user || *why == probe::VERITY);
        self.needed = needed.or(found);
    }

    /// Finds partitions, or what is on the disk without them. Returns the bytes of partition tables.
    fn whole_disk(&mut self, disk: Extent) -> ExtentSet {
        let place = "whole disk".to_owned();
        match self.nature(&[disk]) {
            Err(refusal) => self.leaves.push(Leaf::whole(place, disk, None, Verdict::Refused(refusal))),
            Ok((signatures, Some(tables))) if signatures.is_empty() => {
                self.all_or_none = tables.unprotected;
                self.partitions(tables.partitions);
                return tables.tables;
            }
            Ok(nature) => self.judge(Leaf::whole(place, disk, None, Verdict::Unknown), nature, true),
        }
        ExtentSet::new()
    }

    fn partitions(&mut self, partitions: Vec<Partition>) {
        let extents: Vec<Extent> = partitions.iter().map(|partition| partition.extent).collect();
        for Partition { place, extent, claim } in partitions {
            let overlapping = extents.iter().filter(|other| other.start < extent.end() && extent.start < other.end());
            let crowded = overlapping.count() > MOST_OVERLAPS + 1; // one is itself
            let (kind, verdict) = match claim {
                Claim::Look if crowded => (None, Verdict::Refused(Refusal::Budget("overlapping partitions"))),
                Claim::Look => (None, Verdict::Unknown),
                Claim::Opaque(kind) => (Some(kind), Verdict::Opaque { reason: None }),
                Claim::Broken(why) => (None, Verdict::Refused(why)),
            };
            let leaf = Leaf::whole(place, extent, kind, verdict);
            match leaf.region.verdict {
                Verdict::Unknown => self.region(leaf, true),
                _ => {
                    self.bystander(&leaf.region.extents, false);
                    self.leaves.push(leaf);
                }
            }
        }
    }

    /// Finds out what a partition or a volume is.
    fn region(&mut self, mut leaf: Leaf<'p>, may_be_physical: bool) {
        match self.nature(&leaf.region.extents) {
            Ok(nature) => self.judge(leaf, nature, may_be_physical),
            Err(refusal) => {
                leaf.region.verdict = Verdict::Refused(refusal);
                self.leaves.push(leaf);
            }
        }
    }

    fn judge(&mut self, mut leaf: Leaf<'p>, nature: Nature<'p>, may_be_physical: bool) {
        let (signatures, tables) = nature;
        let inner = tables.into_iter().flat_map(|tables| tables.kinds);
        let kinds: Vec<&'static str> = signatures.iter().map(|signature| signature.kind()).chain(inner).collect();
        let opaque = |reason| Verdict::Opaque { reason };
        let region = &mut leaf.region;
        (region.kind, region.verdict) = match (&kinds[..], &signatures[..]) {
            ([], _) => (None, Verdict::Unknown),
            ([kind], []) => (Some(*kind), opaque(Some("partitions in a partition or volume are not looked for"))),
            ([kind], [Signature::Opaque(_)]) => (Some(*kind), opaque(None)),
            ([kind], [Signature::Filesystem(parser)]) => {
                leaf.ask = Some(*parser);
                (Some(*kind), Verdict::Unknown)
            }
            ([kind], _) if may_be_physical => match self.physical_volume(&region.place, leaf.partition) {
                Ok(()) => return,
                Err(refusal) => (Some(*kind), Verdict::Refused(refusal)),
            },
            ([kind], _) => (Some(*kind), opaque(Some("it lies in a logical volume"))),
            _ => {
                let why = format!("ambiguous: signatures of {}", kinds.join(" and "));
                (None, Verdict::Refused(Refusal::unsupported(why)))
            }
        };
        self.leaves.push(leaf);
    }

    /// Understands a physical volume and remembers it until all are known.
    fn physical_volume(&mut self, place: &str, partition: Extent) -> Result<(), Refusal> {
        over_budget_if(self.volumes.len() == MOST_PHYSICAL, "LVM physical volumes")?;
        let (physical, witnesses) = look(self.image, budget_for_volumes(), &[partition], lvm::read)?;
        self.witnesses.extend(witnesses);
        self.volumes.push((place.to_owned(), partition, physical));
        Ok(())
    }

    /// Looks into the physical volumes of which the others of their group in this image do not know better.
    fn physical_volumes(&mut self) {
        let volumes = std::mem::take(&mut self.volumes);
        for (number, (place, partition, physical)) in volumes.iter().enumerate() {
            let mut others = volumes.iter().enumerate().filter(|(other, _)| *other != number);
            let doubt = others.find_map(|(_, (_, _, other))| match other.group_id == physical.group_id {
                true if other.version != physical.version => Some("another disk of their group has others"),
                true if other.id == physical.id => Some("their physical volume is there twice"),
                _ => None,
            });
            let many = self.leaves.len() + physical.volumes.len() > MOST_REGIONS;
            let refusal = match doubt {
                Some(why) => Refusal::corrupt(format!("LVM metadata: {why}")),
                None if many => Refusal::Budget("logical volumes"),
                None => {
                    self.volumes_of(place, *partition, physical);
                    continue;
                }
            };
            for volume in &physical.volumes {
                self.bystander(&volume.extents_in(*partition), volume.has_user);
            }
            let verdict = Verdict::Refused(refusal);
            self.leaves.push(Leaf::whole(place.clone(), *partition, Some("LVM2_member"), verdict));
        }
    }

    fn volumes_of(&mut self, place: &str, partition: Extent, physical: &Physical) {
        // Inside the partition, as the parser has checked.
        let moved = |piece: Extent| Extent { start: partition.start + piece.start, len: piece.len };
        let part = |place: String, extents: Vec<Extent>, kind, verdict| {
            let mut leaf = Leaf::whole(place, partition, kind, verdict);
            leaf.region.extents = extents;
            leaf
        };
        let group = &physical.group;
        for volume in &physical.volumes {
            let extents = volume.extents_in(partition);
            let verdict = Verdict::Opaque { reason: volume.opaque };
            let leaf = part(format!("LVM volume {group}/{}", volume.name), extents, None, verdict);
            match volume.opaque {
                None => self.region(leaf, false),
                Some(_) => {
                    self.bystander(&leaf.region.extents, volume.has_user);
                    self.leaves.push(leaf);
                }
            }
        }
        if !physical.free.is_empty() {
            let evidence = vec!["no volume has these extents".to_owned(), "checksums right".to_owned()];
            let place = format!("LVM free extents of {group}");
            let extents = physical.free.iter().map(moved).collect();
            let mut leaf = part(place, extents, Some("LVM2_free"), Verdict::Mapped { evidence });
            leaf.free = leaf.bytes().trimmed_to(GRANULE);
            self.leaves.push(leaf);
        }
        let extents = moved(physical.extents);
        let around = ExtentSet::of(extents.range()).complement(partition.range());
        let place = format!("LVM metadata of {group} ({place})");
        self.leaves.push(part(place, around.iter().collect(), Some("LVM2_member"), Verdict::Framework));
    }
}

/// Asks the parser of each region that has one, and remembers what those read that proved something.
fn ask_parsers(image: &dyn ReadAt, options: &Options, leaves: &mut [Leaf<'_>], witnesses: &mut Vec<Witness>) {
    let asked = || leaves.iter().filter(|leaf| leaf.ask.is_some());
    let (count, all) = (asked().count(), asked().map(|leaf| leaf.region.size()).fold(0, u64::saturating_add));
    for Leaf { region, ask, free: found, .. } in leaves {
        let Some(parser) = ask else { continue };
        // The map is held together by all pieces that it rests on: what one region takes is not there for the next.
        let left = MOST_PIECES.saturating_sub(witnesses.len());
        let budget = Budget::share(image.size(), region.size(), all, count).of_pieces(left);
        let most = budget.extents();
        let answer = look(image, budget, &region.extents, |view| {
            let findings = parser.free(view, options)?;
            let misplaced = findings.free.iter().last().is_some_and(|last| last.end() > view.size());
            corrupt_if(misplaced, "its parser found free bytes outside")?;
            over_budget_if(findings.free.count() > most, "free extents")?;
            let free = view.in_image(&findings.free).trimmed_to(GRANULE);
            Ok((free, findings.dropped, findings.evidence))
        });
        match answer {
            Ok(((free, dropped, evidence), read)) => {
                (*found, region.dropped) = (free, dropped);
                region.verdict = Verdict::Mapped { evidence };
                witnesses.extend(read);
            }
            Err(refusal) => region.verdict = Verdict::Refused(refusal),
        }
    }
}

/// Takes from each region what is used in another one or lies in a partition table; returns what is left of all.
fn agree(leaves: &mut [Leaf<'_>], tables: &ExtentSet) -> ExtentSet {
    let used = used_by_any(leaves, tables);
    let mut all = Vec::new();
    for leaf in leaves {
        let left = leaf.free.without(&used);
        if left != leaf.free {
            if let Verdict::Mapped { evidence } = &mut leaf.region.verdict {
                evidence.push("less what overlapping regions use".to_owned());
            }
            leaf.free = left.trimmed_to(GRANULE);
        }
        all.extend(leaf.free.iter().map(Extent::range));
    }
    ExtentSet::from_ranges(all)
}

/// What partition tables take, and what is used in any partition that has free bytes elsewhere. Regions of one partition
/// do not overlap, so that none loses anything by itself.
fn used_by_any(leaves: &[Leaf<'_>], tables: &ExtentSet) -> ExtentSet {
    let mut used: Vec<Extent> = tables.iter().collect();
    for leaf in leaves {
        used.extend(leaf.bytes().without(&leaf.free).iter());
    }
    used.into_iter().map(Extent::range).collect()
}

/// What belongs to no region: partition tables, boot areas, gaps, the end of the disk.
fn framework(size: u64, regions: &[Region]) -> Vec<Region> {
    let owned: ExtentSet = regions.iter().flat_map(|region| &region.extents).map(|extent| extent.range()).collect();
    let gaps = owned.complement(0..size);
    let named = |gap: Extent| Region {
        place: match gap {
            Extent { start: 0, .. } => "start of the disk",
            gap if gap.end() == size => "end of the disk",
            _ => "between partitions",
        }
        .to_owned(),
        extents: vec![gap],
        kind: None,
        verdict: Verdict::Framework,
        free: 0,
        dropped: 0,
    };
    gaps.iter().map(named).collect()
}

#[cfg(test)]
mod tests;
