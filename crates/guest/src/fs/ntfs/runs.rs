//! Runs of clusters, and values that are read through them.

use super::boot::Geometry;
use super::record::{Attribute, Body, Mapping, Sizes};
use crate::image::View;
use crate::refusal::{Refusal, corrupt_if, over_budget_if, refuse_if};

/// A value that is held in memory while others are read through it may have so many runs (24 bytes each).
const MOST_RUNS: usize = 1 << 17;

/// The flags of a value that is stored in another form than it is read, or not everywhere.
const TRANSFORMED: u16 = 0xc0ff;

/// Consecutive clusters of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The first cluster, counted in the value.
    pub from: u64,
    /// How many.
    pub len: u64,
    /// The first cluster, counted in the volume; none for a hole.
    pub at: Option<u64>,
}

/// Unpacks the runs of an attribute: all lie in the volume, and together they are what the mapping says.
///
/// Each begins with a byte that has the lengths of two numbers: how many clusters (unsigned), and how far the first is
/// from the first of the run before (signed). A run without the second number is a hole.
pub(super) fn each_run(
    mapping: &Mapping<'_>,
    geometry: &Geometry,
    mut visit: impl FnMut(Run) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let wrong = || Refusal::corrupt("the runs of an attribute make no sense");
    let mut packed = mapping.packed;
    let (mut from, mut last) = (mapping.lowest, 0_i64);
    loop {
        let (&head, rest) = packed.split_first().ok_or_else(wrong)?;
        if head == 0 {
            break;
        }
        let (count, distance) = (usize::from(head & 15), usize::from(head >> 4));
        refuse_if(count == 0 || count > 8 || distance > 8 || rest.len() < count + distance, wrong)?;
        let (len, rest) = rest.split_at(count);
        let (way, rest) = rest.split_at(distance);
        packed = rest;
        let len = number(len, false);
        let at = match distance {
            0 => None,
            _ => {
                last = last.checked_add(number(way, true)).ok_or_else(wrong)?;
                Some(u64::try_from(last).map_err(|_| wrong())?)
            }
        };
        let len = u64::try_from(len).ok().filter(|len| *len > 0).ok_or_else(wrong)?;
        let misplaced = at.is_some_and(|at| at.checked_add(len).is_none_or(|end| end > geometry.clusters));
        corrupt_if(misplaced, "a run lies outside the volume")?;
        visit(Run { from, len, at })?;
        // No value is longer than a signed number of bytes.
        from = from.checked_add(len).filter(|from| *from <= i64::MAX as u64 / geometry.cluster).ok_or_else(wrong)?;
    }
    // Where there is nothing at all the last cluster is number -1.
    corrupt_if(mapping.highest.wrapping_add(1) != from, "an attribute has not the clusters that it should have")
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8], signed: bool) -> i64 {
    let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
    let start = if negative { -1_i64 } else { 0 };
    bytes.iter().rev().fold(start, |number, byte| (number << 8) | i64::from(*byte))
}

/// A whole value.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    content: Content,
    pub sizes: Sizes,
    flags: u16,
}

#[derive(Debug, Clone)]
enum Content {
    Resident(Vec<u8>),
    Runs(Vec<Run>),
}

impl Stream {
    /// The value that begins with this attribute.
    pub fn begin(attribute: &Attribute<'_>, geometry: &Geometry) -> Result<Stream, Refusal> {
        match attribute.body {
            Body::Resident(value) => {
                let len = value.len() as u64;
                let sizes = Sizes { allocated: len, data: len, initialized: len };
                Ok(Stream { content: Content::Resident(value.to_vec()), sizes, flags: attribute.flags })
            }
            Body::Clusters(mapping) => {
                let sizes = mapping.sizes;
                let contradiction = sizes.initialized > sizes.data || sizes.data > sizes.allocated;
                corrupt_if(contradiction, "the sizes of an attribute contradict each other")?;
                let mut stream = Stream { content: Content::Runs(Vec::new()), sizes, flags: attribute.flags };
                stream.go_on(attribute, geometry)?;
                Ok(stream)
            }
        }
    }

    /// A value without anything.
    pub fn nothing() -> Stream {
        Stream { content: Content::Runs(Vec::new()), sizes: Sizes::default(), flags: 0 }
    }

    /// Adds the next piece.
    pub fn go_on(&mut self, attribute: &Attribute<'_>, geometry: &Geometry) -> Result<(), Refusal> {
        let wrong = || Refusal::corrupt("the pieces of an attribute do not fit together");
        let (Body::Clusters(mapping), Content::Runs(runs)) = (attribute.body, &mut self.content) else {
            return Err(wrong());
        };
        refuse_if(mapping.lowest != runs.last().map_or(0, |run| run.from + run.len), wrong)?;
        each_run(&mapping, geometry, |run| {
            over_budget_if(runs.len() == MOST_RUNS, "runs of one file")?;
            runs.push(run);
            Ok(())
        })
    }

    /// How many bytes its runs have, holes included.
    pub fn mapped(&self, geometry: &Geometry) -> u64 {
        match &self.content {
            Content::Resident(value) => value.len() as u64,
            // The sum was checked when the runs were unpacked.
            Content::Runs(runs) => runs.last().map_or(0, |run| (run.from + run.len) * geometry.cluster),
        }
    }

    /// Its runs, if it is stored in clusters and as it is read, with all its bytes written.
    pub fn plain_runs(&self) -> Option<&[Run]> {
        match &self.content {
            Content::Runs(runs) if self.flags & TRANSFORMED == 0 && runs.iter().all(|run| run.at.is_some()) => {
                Some(runs)
            }
            _ => None,
        }
    }

    /// Refuses a value that the filesystem itself rests on and that is not complete, written and plain.
    pub fn require_plain(&self, geometry: &Geometry, what: &str) -> Result<(), Refusal> {
        let sizes = self.sizes;
        if self.plain_runs().is_none() || sizes.data != sizes.initialized || sizes.allocated != self.mapped(geometry) {
            return Err(Refusal::corrupt(format!("{what} is not stored as it must be")));
        }
        Ok(())
    }

    /// Whether it is neither compressed nor encrypted, so that its clusters are its bytes.
    pub fn is_readable(&self) -> bool {
        self.flags & 0x40ff == 0
    }

    /// Reads a piece of it. What was never written is zero.
    pub fn read(&self, region: &View<'_>, geometry: &Geometry, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        let outside = || Refusal::corrupt("a file ends too early");
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.sizes.data).ok_or_else(outside)?;
        let runs = match &self.content {
            Content::Resident(value) => {
                let (from, to) = (usize::try_from(offset), usize::try_from(end));
                let range = from.ok().zip(to.ok()).and_then(|(from, to)| value.get(from..to));
                return Ok(range.ok_or_else(outside)?.to_vec());
            }
            Content::Runs(runs) => runs,
        };
        over_budget_if(len > crate::budget::LARGEST_PIECE, "bytes of metadata at once")?;
        let mut buffer = vec![0; len];
        let written = end.min(self.sizes.initialized);
        let mut at = offset;
        let mut next = runs.partition_point(|run| (run.from + run.len) * geometry.cluster <= offset);
        while at < written {
            region.budget().take_node()?;
            let run = runs.get(next).ok_or_else(outside)?;
            let inside = at - run.from * geometry.cluster;
            let piece = (run.len * geometry.cluster - inside).min(written - at);
            if let Some(cluster) = run.at {
                let start = (at - offset) as usize;
                let part = buffer.get_mut(start..start + piece as usize).ok_or_else(outside)?;
                region.read_into(cluster * geometry.cluster + inside, part)?;
            }
            at += piece;
            next += 1;
        }
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { cluster: 4096, clusters: 1000, record: 1024, mft: 4, mirror: 8 };

    fn unpack(packed: &[u8], lowest: u64, highest: u64) -> Result<Vec<Run>, Refusal> {
        let mut runs = Vec::new();
        let mapping = Mapping { lowest, highest, sizes: Sizes::default(), packed };
        each_run(&mapping, &GEOMETRY, |run| {
            runs.push(run);
            Ok(())
        })?;
        Ok(runs)
    }

    #[test]
    fn runs_go_forward_and_backward_and_leave_holes() {
        let packed = [0x21, 5, 0x00, 0x03, 0x01, 4, 0x11, 2, 0xff, 0];
        let runs = [(0, 5, Some(768)), (5, 4, None), (9, 2, Some(767))].map(|(from, len, at)| Run { from, len, at });
        assert_eq!(unpack(&packed, 0, 10).unwrap(), runs);
        assert_eq!(unpack(&[0], 0, u64::MAX).unwrap(), []);
    }

    #[test]
    fn forged_runs_are_refused() {
        for (packed, lowest, highest) in [
            (&[0x21, 5, 0, 3][..], 0, 4),               // no end
            (&[0x21, 5, 0][..], 0, 4),                  // cut off
            (&[0x21, 5, 0, 3, 0][..], 0, 5),            // fewer than announced
            (&[0x21, 0, 0, 3, 0][..], 0, u64::MAX),     // empty
            (&[0x11, 5, 0x80, 0][..], 0, 4),            // before the volume
            (&[0x21, 0xff, 0x00, 0x03, 0][..], 0, 254), // behind it
            (&[0x20, 0, 3, 0][..], 0, u64::MAX),        // no length
            (&[0x99, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0][..], 0, 1),
            (&[0x08, 255, 255, 255, 255, 255, 255, 255, 127, 0][..], 0, i64::MAX as u64 - 1),
            (&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 0][..], 0, u64::MAX - 1),
            (&[0x01, 1, 0][..], u64::MAX, u64::MAX), // begins where nothing is
        ] {
            assert!(unpack(packed, lowest, highest).is_err(), "{packed:x?}");
        }
    }
}
