//! The simulation: what happens next.
//!
//! `world` is what there is, `work` what a thread has before it, `walk` what it does, `share` who gives what to whom, `order`
//! whom a rank asks, `parts` when a directory is finished, `large` the chunks of large files, `message` and `post` the way
//! between ranks, `totals` what is counted, `outcome` the report. Calls run one way: what comes of them later is
//! an event or a message, which this file dispatches.

mod large;
mod message;
mod observed;
mod order;
mod outcome;
mod parts;
mod post;
mod share;
mod totals;
mod walk;
mod work;
mod world;

use crate::clock::seconds;
use crate::config::Config;
use crate::report::Report;
use message::{Body, Message};
use post::SHORT;
use world::{Event, World};

pub use observed::Observed;

/// Simulates.
///
/// # Errors
/// A value of the configuration cannot be, or there were more events than it allows.
pub fn simulate(config: &Config) -> Result<Report, String> {
    simulate_observed(config, &mut |_, _| ())
}

/// Simulates, and tells `observe` what is done and when, in nanoseconds.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_observed(config: &Config, observe: &mut dyn FnMut(u64, Observed)) -> Result<Report, String> {
    config.check()?;
    let mut world = World::new(config, observe);
    let first = world.tree.root();
    walk::make_directory(&mut world, 0, first);
    for thread in 1..world.threads.len() {
        world.idle(thread as u32);
    }
    for rank in 0..world.ranks.len() {
        share::feed(&mut world, rank as u32);
    }
    while !world.finished {
        let Some((now, event)) = world.clock.next() else {
            return Err(
                "the model stands still although the copy is not done: this is a mistake in the model".to_owned()
            );
        };
        if world.clock.planned() > config.most_events {
            return Err(format!(
                "more than {} events, at {:.1} simulated seconds; a larger batch or most-events helps",
                config.most_events,
                seconds(now)
            ));
        }
        world.now = now;
        happens(&mut world, event);
    }
    Ok(outcome::report(&world))
}

fn happens(world: &mut World<'_>, event: Event) {
    match event {
        Event::Begin(thread) => world.ask_metadata_server(thread),
        Event::Served(thread) => world.work_and_move_data(thread),
        Event::Done(thread) => {
            let rank = world.threads[thread as usize].rank;
            world.ranks[rank as usize].busy += world.now - world.threads[thread as usize].began;
            walk::thread_is_done(world, thread);
            share::feed(world, rank);
        }
        Event::Finished(part) => parts::complete(world, part),
        Event::Arrived(message) => arrived(world, message),
        Event::Delivered(message) => delivered(world, message),
        Event::Impatient { rank, stamp } => share::impatient(world, rank, stamp),
        Event::Rested(rank) => {
            world.ranks[rank as usize].resting = false;
            share::feed(world, rank);
        }
    }
}

fn arrived(world: &mut World<'_>, id: u32) {
    let Message { to, weight, .. } = *world.mail.get(id);
    let seen = world.ranks[to as usize].communication.book(world.now, weight as f64);
    if seen > world.now {
        world.clock.at(seen, Event::Delivered(id));
    } else {
        delivered(world, id);
    }
}

fn delivered(world: &mut World<'_>, id: u32) {
    let Message { from, to, weight, body } = world.mail.remove(id);
    match body {
        Body::Want => share::wanted(world, to, from),
        Body::No => share::refused(world, to),
        Body::WorkUnit(task) => share::received(world, to, task),
        Body::Done(part) => parts::one_part_less(world, part),
        Body::ChunkDone(large) => large::chunk_is_back(world, large),
        Body::Claim => post::send(world, to, from, (SHORT * weight, weight), Body::Answer),
        Body::Answer | Body::Error => {}
        Body::End => {
            world.ranks[to as usize].ended = true;
            post::send(world, to, 0, (SHORT * 16, 1), Body::Summary);
        }
        Body::Summary => {
            world.summaries += 1;
            if world.summaries + 1 == world.config.ranks {
                for rank in 1..world.config.ranks {
                    post::send(world, 0, rank as u32, (SHORT, 1), Body::Status);
                }
            }
        }
        Body::Status => {
            world.heard += 1;
            world.finished = world.heard + 1 == world.config.ranks;
        }
    }
}
