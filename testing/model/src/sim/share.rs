//! Who gives what to whom: within a rank for nothing, between ranks by messages.

use super::order::Wanter;
use super::work::{Frame, Task, Then, Work};
use super::world::{Event, World};
use super::{large, parts, post};
use crate::clock::nanos;

/// Gives what there is to share to those who wait: first to the rank's own threads, then to other ranks. Asks for work if
/// threads still wait.
pub(super) fn feed(world: &mut World<'_>, rank: u32) {
    let at = rank as usize;
    while !world.ranks[at].idle.is_empty() {
        let Some(task) = world.ranks[at].inbox.pop_front().or_else(|| take(world, rank, rank)) else { break };
        let thread = world.ranks[at].idle.pop().expect("one is idle");
        take_on(world, thread, task);
    }
    while let Some(wanter) = world.ranks[at].wanters.front() {
        let from = wanter.from;
        let Some(task) = take(world, rank, from) else { break };
        world.ranks[at].wanters.pop_front();
        post::work_unit(world, rank, from, task);
    }
    let slot = &world.ranks[at];
    if !slot.idle.is_empty() && !slot.asking && !slot.resting && !slot.ended && world.config.ranks > 1 {
        ask(world, rank);
    }
}

/// What `rank` has to share: half of the names in its outermost directory that can be split, or the last chunk of a
/// large file.
fn take(world: &mut World<'_>, rank: u32, taker: u32) -> Option<Task> {
    let mut best: Option<(u32, u32, usize)> = None;
    for thread in world.ranks[rank as usize].threads.clone() {
        let stack = &world.threads[thread as usize].stack;
        let innermost = stack.len().wrapping_sub(1);
        let Some(at) = stack.iter().enumerate().position(|(at, frame)| frame.can_be_split(at < innermost)) else {
            continue;
        };
        let found = (stack[at].dir.depth, thread, at);
        best = Some(best.map_or(found, |best| best.min(found)));
    }
    let Some((_, thread, at)) = best else { return large::take_chunk(world, rank) };
    let frame = &mut world.threads[thread as usize].stack[at];
    let (names, dir, made, above) = (frame.split(), frame.dir, frame.made, frame.part);
    let part = parts::add(world, taker, Some(above), None);
    Some(Task::Names { part, dir, names, made })
}

fn take_on(world: &mut World<'_>, thread: u32, task: Task) {
    match task {
        Task::Chunk { large, index } => large::copy_taken_chunk(world, thread, large, index),
        Task::Names { part, dir, names, made } => {
            let rank = world.threads[thread as usize].rank;
            let giver = world.parts.get(part).above.map(|above| world.parts.get(above).rank);
            // Within a rank the descriptors are shared. Another rank opens both sides by their paths.
            let mut work = Work::default();
            if giver != Some(rank) {
                work = world.operations(dir.id, 2.0 * f64::from(dir.depth + 1));
                if world.node_of(rank) != made.1 {
                    work.not_before = made.0 + nanos(world.config.visibility);
                }
            }
            world.threads[thread as usize].stack.push(Frame { dir, part, known: names, unread: 0..0, made });
            world.note_memory(rank);
            world.begin(thread, work, Then::Opened);
        }
    }
}

/// Asks another rank.
fn ask(world: &mut World<'_>, rank: u32) {
    let slot = &mut world.ranks[rank as usize];
    slot.asking = true;
    let other = slot.order.next();
    post::want(world, rank, other);
}

/// A rank wants work of this one.
pub(super) fn wanted(world: &mut World<'_>, rank: u32, from: u32) {
    if world.ranks[rank as usize].ended {
        return;
    }
    world.stamps += 1;
    let stamp = world.stamps;
    world.ranks[rank as usize].wanters.push_back(Wanter { from, stamp });
    feed(world, rank);
    let slot = &mut world.ranks[rank as usize];
    slot.longest_queue = slot.longest_queue.max(slot.wanters.len());
    if slot.wanters.back().is_some_and(|wanter| wanter.stamp == stamp) {
        let has_work = slot.idle.len() < slot.threads.len();
        let hold = if has_work || world.config.idle_hold == 0.0 { world.config.hold } else { world.config.idle_hold };
        world.clock.at(world.now + nanos(hold), Event::Impatient { rank, stamp });
    }
}

/// The request has waited long enough, if it still waits.
pub(super) fn impatient(world: &mut World<'_>, rank: u32, stamp: u64) {
    let wanters = &mut world.ranks[rank as usize].wanters;
    let Some(at) = wanters.iter().position(|wanter| wanter.stamp == stamp) else { return };
    let from = wanters.remove(at).expect("it was found").from;
    post::no(world, rank, from);
}

pub(super) fn refused(world: &mut World<'_>, rank: u32) {
    let slot = &mut world.ranks[rank as usize];
    slot.asking = false;
    if let Some(pause) = slot.order.refused(world.config.longest_pause) {
        slot.resting = true;
        world.clock.at(world.now + nanos(pause), Event::Rested(rank));
    }
    feed(world, rank);
}

pub(super) fn received(world: &mut World<'_>, rank: u32, task: Task) {
    let slot = &mut world.ranks[rank as usize];
    slot.asking = false;
    slot.order.given(world.config.pause);
    slot.inbox.push_back(task);
    feed(world, rank);
}
