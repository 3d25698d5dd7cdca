//! Sends messages.

use super::message::{Body, Kind, Message};
use super::work::Task;
use super::world::{Event, World};
use crate::clock::{nanos, seconds};
use crate::sizes::mix;

/// Bytes of a message without names.
pub(super) const SHORT: u64 = 64;

/// Counts the message and plans when it is there. `bytes` is its length, `weight` how many it stands for.
pub(super) fn send(world: &mut World<'_>, from: u32, to: u32, (bytes, weight): (u64, u64), body: Body) {
    world.totals.count(Kind::of(&body), weight);
    let second = world.now / 1_000_000_000;
    if from == 0 || to == 0 {
        world.totals.at_rank_0.add(second, weight);
    }
    let way = if world.node_of(from) == world.node_of(to) {
        world.config.local_latency
    } else {
        for rank in [from, to] {
            let node = world.node_of(rank) as usize;
            world.nodes[node].messages.add(second, weight);
        }
        let rate = world.config.network_bandwidth;
        world.config.network_latency + if rate > 0.0 { bytes as f64 / rate } else { 0.0 }
    };
    // Whoever gets it looks for messages only from time to time.
    let way = way + world.config.poll * world.chance.f64();
    let sent = world.ranks[from as usize].communication.book(world.now, weight as f64);
    let message = world.mail.insert(Message { from, to, weight, body });
    world.clock.at(sent + nanos(way), Event::Arrived(message));
}

/// A request for work.
pub(super) fn want(world: &mut World<'_>, from: u32, to: u32) {
    send(world, from, to, (SHORT, 1), Body::Want);
}

/// There is no work to give.
pub(super) fn no(world: &mut World<'_>, from: u32, to: u32) {
    send(world, from, to, (SHORT, 1), Body::No);
}

/// Work for another rank.
pub(super) fn work_unit(world: &mut World<'_>, from: u32, to: u32, task: Task) {
    let name = world.config.name_bytes;
    let bytes = match &task {
        Task::Names { dir, names, .. } => SHORT + (u64::from(dir.depth) + names.end - names.start) * name,
        Task::Chunk { .. } => SHORT * 4,
    };
    send(world, from, to, (bytes, 1), Body::WorkUnit(task));
}

/// A part of another rank's directory is done.
pub(super) fn done(world: &mut World<'_>, from: u32, above: u32) {
    let to = world.parts.get(above).rank;
    send(world, from, to, (SHORT, 1), Body::Done(above));
}

/// A chunk of another rank's file is done.
pub(super) fn chunk_done(world: &mut World<'_>, from: u32, to: u32, large: u32) {
    send(world, from, to, (SHORT, 1), Body::ChunkDone(large));
}

/// Files of several names among these are claimed at their link owner, the rank that has them in its table, and the one who
/// made a file is asked where; that goes to the link owner here, too. Gives the time that the thread waits for the answers, in
/// seconds.
pub(super) fn claim_links(world: &mut World<'_>, thread: u32, place: u64, files: f64) -> f64 {
    if world.config.links == 0.0 || world.config.ranks == 1 {
        return 0.0;
    }
    world.totals.links += files * world.config.links;
    let claims = (world.totals.links - world.totals.claimed as f64) as u64;
    let rank = world.threads[thread as usize].rank;
    let owner = (mix(place) % world.config.ranks) as u32;
    world.totals.claimed += claims;
    if claims == 0 || owner == rank {
        return 0.0;
    }
    send(world, rank, owner, (SHORT * 2 * claims, 2 * claims), Body::Claim);
    claims as f64 * 4.0 * (world.config.network_latency + world.config.poll / 2.0 + 2.0 * world.config.message_cost)
}

/// Files that could not be copied are named at rank 0.
pub(super) fn report_errors(world: &mut World<'_>, rank: u32, files: u64) {
    if world.config.errors == 0.0 {
        return;
    }
    world.totals.errors += files as f64 * world.config.errors;
    let news = (world.totals.errors - world.totals.reported as f64) as u64;
    world.totals.reported += news;
    if news > 0 && rank != 0 {
        send(world, rank, 0, (SHORT * 4 * news, news), Body::Error);
    }
}

/// The directory that is copied is finished: rank 0 says so to all, and waits for their totals.
pub(super) fn end_of_job(world: &mut World<'_>) {
    world.totals.copied_after = seconds(world.now);
    world.ranks[0].ended = true;
    world.finished = world.config.ranks == 1;
    for rank in 1..world.config.ranks {
        send(world, 0, rank as u32, (SHORT, 1), Body::End);
    }
}
