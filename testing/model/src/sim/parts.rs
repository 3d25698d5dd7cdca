//! When a directory is finished: each part counts what of it is in other hands.

use super::observed::Observed;
use super::post;
use super::world::{Event, Part, World};
use crate::clock::nanos;

/// A part that is counted in the one above it.
pub(super) fn add(world: &mut World<'_>, rank: u32, above: Option<u32>, made: Option<u64>) -> u32 {
    if let Some(above) = above {
        world.parts.get_mut(above).pending += 1;
    }
    world.ranks[rank as usize].parts += 1;
    world.parts.insert(Part { rank, above, pending: 0, walked: false, made })
}

/// Everything of the part is done, and a directory has its attributes: says so to the part above.
pub(super) fn complete(world: &mut World<'_>, part: u32) {
    let Part { rank, above, made, .. } = world.parts.remove(part);
    world.ranks[rank as usize].parts -= 1;
    if let Some(dir) = made {
        world.see(Observed::Finished { dir });
    }
    match above {
        None => post::end_of_job(world),
        Some(above) if world.parts.get(above).rank == rank => one_part_less(world, above),
        Some(above) => post::done(world, rank, above),
    }
}

/// One of those that the part waits for is done.
pub(super) fn one_part_less(world: &mut World<'_>, id: u32) {
    let part = world.parts.get_mut(id);
    part.pending -= 1;
    if part.pending > 0 || !part.walked {
        return;
    }
    let Some(dir) = part.made else { return complete(world, id) };
    // No thread waits for this one: whoever hears of the last part sets the attributes.
    let work = world.operations(dir, world.config.operations_per_finish);
    let server = (dir % world.metadata.len() as u64) as usize;
    let served = world.metadata[server].book(world.now, work.operations);
    world.clock.at(served + nanos(work.waits), Event::Finished(id));
}
