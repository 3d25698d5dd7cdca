//! What a thread does: it reads a directory, copies its files, enters its directories, and finishes it.

use super::observed::Observed;
use super::work::{Frame, Then};
use super::world::World;
use super::{large, parts, post};
use crate::tree::{Dir, Name};

/// Names that are read from a directory before any of them is copied, as in the library's `Listing`.
const NAMES_OF_A_LISTING: u64 = 32 * 1024;

pub(super) fn make_directory(world: &mut World<'_>, thread: u32, dir: Dir) {
    let mut work = world.operations(dir.id, world.config.operations_per_directory);
    work.processor = world.config.cpu_per_directory;
    world.begin(thread, work, Then::Made(dir));
}

pub(super) fn thread_is_done(world: &mut World<'_>, thread: u32) {
    let then = std::mem::replace(&mut world.threads[thread as usize].then, Then::Nothing);
    match then {
        Then::Nothing | Then::Opened => {}
        Then::Listed => {
            let frame = world.threads[thread as usize].stack.last_mut().expect("it was listed for a frame");
            let end = frame.unread.end.min(frame.unread.start + NAMES_OF_A_LISTING);
            frame.known = frame.unread.start..end;
            frame.unread.start = end;
            world.note_memory(world.threads[thread as usize].rank);
        }
        Then::Made(dir) => directory_is_made(world, thread, dir),
        Then::Files { from, to, bytes } => files_are_copied(world, thread, from, to, bytes),
        Then::Finished(part) => parts::complete(world, part),
        Then::LargeOpened { name } => return large::is_open(world, thread, name),
        Then::OwnChunk(large, index) => return large::own_chunk_is_done(world, large, index),
        Then::TakenChunk(large, index) => return large::taken_chunk_is_done(world, thread, large, index),
        Then::LargeClosed(large) => large::is_closed(world, large),
    }
    step(world, thread);
}

/// Goes on with the innermost directory.
fn step(world: &mut World<'_>, thread: u32) {
    loop {
        let Some(frame) = world.threads[thread as usize].stack.last_mut() else { return world.idle(thread) };
        let dir = frame.dir;
        if frame.known.is_empty() {
            if !frame.unread.is_empty() {
                return list(world, thread);
            }
            if leave(world, thread) {
                return;
            }
            continue;
        }
        let name = frame.known.start;
        return match dir.name(name) {
            Name::File => {
                let to = dir.next_special(name).min(frame.known.end).min(name + world.files_of_a_step);
                frame.known.start = to;
                copy_files(world, thread, &dir, name, to);
            }
            Name::Directory(index) => {
                frame.known.start += 1;
                let child = world.tree.child(&dir, index);
                make_directory(world, thread, child);
            }
            Name::Large => {
                frame.known.start += 1;
                large::open(world, thread, &dir, name);
            }
        };
    }
}

fn list(world: &mut World<'_>, thread: u32) {
    let frame = world.threads[thread as usize].stack.last().expect("a frame is listed");
    let names = (frame.unread.end - frame.unread.start).min(NAMES_OF_A_LISTING);
    let work = world.operations(frame.dir.id, names.div_ceil(world.config.names_per_request) as f64);
    world.begin(thread, work, Then::Listed);
}

fn copy_files(world: &mut World<'_>, thread: u32, dir: &Dir, from: u64, to: u64) {
    let files = (to - from) as f64;
    let (bytes, filled) = world.tree.bytes(dir, from, to);
    let mut work = world.operations(dir.id, files * world.config.operations_per_file);
    work.processor = files * world.config.cpu_per_file + bytes as f64 * world.config.cpu_per_byte;
    work.waits += filled as f64 * 2.0 * world.config.data_latency;
    work.waits += post::claim_links(world, thread, dir.id ^ from, files);
    work.bytes = bytes;
    world.begin(thread, work, Then::Files { from, to, bytes });
}

fn files_are_copied(world: &mut World<'_>, thread: u32, from: u64, to: u64, bytes: u64) {
    let frame = world.threads[thread as usize].stack.last().expect("files are copied in a frame");
    let dir = frame.dir.id;
    world.totals.files += to - from;
    world.totals.bytes += bytes;
    world.see(Observed::Files { dir, from, to });
    post::report_errors(world, world.threads[thread as usize].rank, to - from);
}

fn directory_is_made(world: &mut World<'_>, thread: u32, dir: Dir) {
    let rank = world.threads[thread as usize].rank;
    let above = world.threads[thread as usize].stack.last().map(|frame| (frame.part, frame.dir.id));
    let part = parts::add(world, rank, above.map(|(part, _)| part), Some(dir.id));
    let made = (world.now, world.node_of(rank));
    let frame = Frame { dir, part, known: 0..0, unread: 0..dir.names(), made };
    world.threads[thread as usize].stack.push(frame);
    world.totals.directories += 1;
    world.see(Observed::Made { dir: dir.id, parent: above.map(|(_, dir)| dir) });
    world.note_memory(rank);
}

/// Leaves the innermost directory, of which everything is begun. Whether the thread is busy with finishing it.
fn leave(world: &mut World<'_>, thread: u32) -> bool {
    let frame = world.threads[thread as usize].stack.pop().expect("it was left");
    let part = world.parts.get_mut(frame.part);
    part.walked = true;
    if part.pending > 0 {
        return false;
    }
    if part.made.is_none() {
        parts::complete(world, frame.part);
        return false;
    }
    let work = world.operations(frame.dir.id, world.config.operations_per_finish);
    world.begin(thread, work, Then::Finished(frame.part));
    true
}
