//! When a directory is finished: each part counts what of it is in other hands.

use super::{Event, Observed, World};
use crate::clock::nanos;

/// A directory in the hands of the rank that made it, or a part of its names in the hands of another.
#[derive(Debug)]
pub(super) struct Part {
    /// Who has it.
    pub rank: u32,
    /// Whose part it is. `None`: it is the directory that is copied.
    pub above: Option<u32>,
    /// Parts given away, and directories below, that are not done.
    pub pending: u64,
    /// All names are begun.
    pub walked: bool,
    /// The directory, if this is the one who made it and sets its attributes.
    pub made: Option<u64>,
}

impl World<'_> {
    /// A part that is counted in the one above it.
    pub(super) fn new_part(&mut self, rank: u32, above: Option<u32>, made: Option<u64>) -> u32 {
        if let Some(above) = above {
            self.parts.get_mut(above).pending += 1;
        }
        self.ranks[rank as usize].parts += 1;
        self.parts.insert(Part { rank, above, pending: 0, walked: false, made })
    }

    /// Everything of the part is done, and a directory has its attributes: says so to the part above.
    pub(super) fn complete(&mut self, part: u32) {
        let Part { rank, above, made, .. } = self.parts.remove(part);
        self.ranks[rank as usize].parts -= 1;
        if let Some(dir) = made {
            self.see(Observed::Finished { dir });
        }
        match above {
            None => self.end_of_job(),
            Some(above) if self.parts.get(above).rank == rank => self.one_part_less(above),
            Some(above) => self.send_done(rank, above),
        }
    }

    /// One of those that the part waits for is done.
    pub(super) fn one_part_less(&mut self, id: u32) {
        let part = self.parts.get_mut(id);
        part.pending -= 1;
        if part.pending > 0 || !part.walked {
            return;
        }
        let Some(dir) = part.made else { return self.complete(id) };
        // No thread waits for this one: whoever hears of the last part sets the attributes.
        let work = self.operations(dir, self.config.operations_per_finish);
        let server = (dir % self.metadata.len() as u64) as usize;
        let served = self.metadata[server].book(self.now, work.operations);
        self.clock.at(served + nanos(work.waits), Event::Finished(id));
    }
}
