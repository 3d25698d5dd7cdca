//! Large files: their owner keeps the front, and gives chunks from the end.

use super::observed::Observed;
use super::post;
use super::work::{Task, Then, Work};
use super::world::{Large, World};
use crate::clock::nanos;
use crate::tree::Dir;

pub(super) fn open(world: &mut World<'_>, thread: u32, dir: &Dir, name: u64) {
    // All but the close, which comes last.
    let mut work = world.operations(dir.id, (world.config.operations_per_file - 1.0).max(0.0));
    work.processor = world.config.cpu_per_file;
    world.begin(thread, work, Then::LargeOpened { name });
}

pub(super) fn is_open(world: &mut World<'_>, thread: u32, name: u64) {
    let rank = world.threads[thread as usize].rank;
    let dir = world.threads[thread as usize].stack.last().expect("a large file is in a directory").dir;
    let chunks = world.config.large_size.div_ceil(world.config.chunk);
    let large = world.large.insert(Large {
        owner: thread,
        rank,
        dir: dir.id,
        depth: dir.depth,
        name,
        left: 0..chunks,
        chunks,
        out: 0,
        waiting: false,
        made: world.now,
    });
    if chunks >= 2 {
        world.ranks[rank as usize].large.push(large);
    }
    go_on(world, large);
}

/// The owner takes the next chunk, waits for those in other hands, or closes the file.
fn go_on(world: &mut World<'_>, id: u32) {
    let large = world.large.get_mut(id);
    let owner = large.owner;
    if let Some(index) = large.left.next() {
        let work = work_of_chunk(world, index);
        return world.begin(owner, work, Then::OwnChunk(id, index));
    }
    if large.out > 0 {
        large.waiting = true;
        return;
    }
    let dir = large.dir;
    let work = world.operations(dir, world.config.operations_per_file.min(1.0));
    world.begin(owner, work, Then::LargeClosed(id));
}

fn work_of_chunk(world: &World<'_>, index: u64) -> Work {
    let bytes = world.config.chunk.min(world.config.large_size - index * world.config.chunk);
    let processor = bytes as f64 * world.config.cpu_per_byte;
    Work { bytes, processor, waits: 2.0 * world.config.data_latency, ..Work::default() }
}

fn chunk_is_copied(world: &mut World<'_>, id: u32, index: u64) {
    let large = world.large.get(id);
    let (dir, name) = (large.dir, large.name);
    world.totals.bytes += work_of_chunk(world, index).bytes;
    world.see(Observed::Chunk { dir, name, index });
}

pub(super) fn own_chunk_is_done(world: &mut World<'_>, id: u32, index: u64) {
    chunk_is_copied(world, id, index);
    go_on(world, id);
}

/// The last chunk of a large file of this rank.
pub(super) fn take_chunk(world: &mut World<'_>, rank: u32) -> Option<Task> {
    for &id in &world.ranks[rank as usize].large {
        let large = world.large.get_mut(id);
        if let Some(index) = large.left.next_back() {
            large.out += 1;
            return Some(Task::Chunk { large: id, index });
        }
    }
    None
}

/// Opens both sides if it is another rank's file, copies the chunk, and flushes it if it is another node's.
pub(super) fn copy_taken_chunk(world: &mut World<'_>, thread: u32, id: u32, index: u64) {
    let rank = world.threads[thread as usize].rank;
    let large = world.large.get(id);
    let mut work = work_of_chunk(world, index);
    if large.rank != rank {
        let elsewhere = world.node_of(large.rank) != world.node_of(rank);
        let open = world.operations(large.dir, 2.0 * f64::from(large.depth + 2) + if elsewhere { 1.0 } else { 0.0 });
        work.operations = open.operations;
        work.directory = open.directory;
        work.waits += open.waits;
        if elsewhere {
            work.not_before = large.made + nanos(world.config.visibility);
        }
    }
    world.begin(thread, work, Then::TakenChunk(id, index));
}

pub(super) fn taken_chunk_is_done(world: &mut World<'_>, thread: u32, id: u32, index: u64) {
    chunk_is_copied(world, id, index);
    let rank = world.threads[thread as usize].rank;
    let owner = world.large.get(id).rank;
    if owner == rank {
        chunk_is_back(world, id)
    } else {
        post::chunk_done(world, rank, owner, id)
    }
    world.idle(thread);
}

pub(super) fn chunk_is_back(world: &mut World<'_>, id: u32) {
    let large = world.large.get_mut(id);
    large.out -= 1;
    if large.out == 0 && std::mem::take(&mut large.waiting) {
        go_on(world, id);
    }
}

pub(super) fn is_closed(world: &mut World<'_>, id: u32) {
    let large = world.large.remove(id);
    if large.chunks >= 2 {
        world.ranks[large.rank as usize].large.retain(|&other| other != id);
    }
    world.totals.large += 1;
    world.see(Observed::Large { dir: large.dir, name: large.name });
}
