//! Does what another thread, or another process, has given away.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_cluster::messages::{Chunk, Message, WorkUnit};
use haul_cluster::patience::{LITTLE_PATIENCE, PATIENCE, patiently};
use haul_io::transfer::Transfer;
use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{Mode, OFlags, fcntl_setfl, openat};
use haul_sys::rustix::io::retry_on_intr;

use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::finish::{directories, written};
use crate::peers::paths::{self, open_holder};
use crate::plan::{Dereference, Durable};
use crate::publish::Sides;
use crate::recorded_progress::RecordedProgress;
use crate::sources::operands::holder_of;
use crate::tree::walker::Walker;
use crate::tree::{look_ahead, share, walk};
use crate::walk::{Listing, Operand, PathNode, joined};
use crate::work::directory::{Directory, Frame, ReplyHandle};
use crate::work::entry::Top;
use crate::work::task::Task;

pub(crate) fn do_task(walker: &mut Walker<'_>, task: Task) {
    let (frame, mut top, segment) = match task {
        Task::Names { frame, top, segment } => (frame, top, segment),
        Task::LookAhead(sides) => {
            let cx = walker.worker.cx;
            return cx.services.order.tell(look_ahead::look(cx, &sides, 2 * walker.open_levels));
        }
        Task::WorkUnit(from, unit) => return do_work_unit(walker, from, *unit),
        Task::Chunk(from, chunk) => return do_chunk(&mut walker.worker, from, &chunk),
        Task::PartDone(tally) => return share::part_is_done(walker, tally),
    };
    let tally = frame.tally.clone();
    let before = walker.sink.enter(segment);
    walk::walk_tree(walker, frame, &mut top);
    walker.sink.switch_to(before);
    share::part_is_done(walker, tally);
}

/// The same for a process that begins with nothing, when it gets something to do.
fn begin_progress_elsewhere(worker: &mut Worker<'_>) {
    let cx = worker.cx;
    let Some(peers) = cx.peers.filter(|peers| cx.plan.resume && !peers.is_first()) else { return };
    let shared = cx.services;
    let _turn = peers.take_turn();
    if shared.progress.get().is_some() {
        return;
    }
    let destination = &cx.plan.destination;
    let holder = holder_of(destination).map_err(|errno| Error::new(What::NoJournal, destination.path()).errno(errno));
    let opened = holder.and_then(|(dir, last, shown)| {
        RecordedProgress::open(cx.plan, dir.as_fd(), &last, &shown, peers.transport.rank())
    });
    match opened {
        // Nobody else sets it.
        Ok(progress) => _ = shared.progress.set(progress),
        // The copy is as good without.
        Err(error) => worker.report.warning(&error),
    }
}

/// Copies a part of a file for another process.
fn do_chunk(worker: &mut Worker<'_>, from: usize, chunk: &Chunk) {
    let cx = worker.cx;
    let Some(peers) = cx.peers else { return };
    let attempt = || if cx.cancelled() { Err(Errno::CANCELED) } else { open_chunk(cx, chunk) };
    let opened = patiently(LITTLE_PATIENCE, || paths::ask_again_for(&chunk.pair), attempt);
    // Whatever is wrong here, who gave it meets it again and tells.
    let moved = opened.map_or(0, |open| copy_chunk(worker, from, chunk, open));
    worker.report.stats.chunks += u64::from(moved > 0);
    peers.tell(Some((from, Message::ChunkDone { token: chunk.token, moved })));
}

/// The source and the copy, and what they are.
fn open_chunk(cx: RunContext<'_>, chunk: &Chunk) -> Result<([OwnedFd; 2], [Inode; 2]), Errno> {
    let read = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let write = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let (source, dest) = match &chunk.source_name {
        Some(name) => {
            let open = paths::open_pair(cx.plan, &chunk.pair)?;
            let source = openat(&open.source, name, read, Mode::empty())?;
            (source, openat(&open.dest, &chunk.dest_name, write, Mode::empty())?)
        }
        None => {
            let follow = cx.plan.dereference != Dereference::Never;
            let read = if follow { read - OFlags::NOFOLLOW } else { read };
            let source = Operand::open(&chunk.pair.operand).spot().open(read, 0)?;
            (source, openat(open_holder(&chunk.pair)?, &chunk.dest_name, write, Mode::empty())?)
        }
    };
    // Only opening must not wait, should there be a FIFO now. Who may not have O_NOATIME does without.
    if !cx.plan.open_noatime || fcntl_setfl(&source, OFlags::NOATIME).is_err() {
        fcntl_setfl(&source, OFlags::empty())?;
    }
    fcntl_setfl(&dest, OFlags::empty())?;
    let (source_inode, dest_inode) = (Inode::of(source.as_fd())?, Inode::of(dest.as_fd())?);
    let modified = (source_inode.modified.seconds, source_inode.modified.nanoseconds);
    let meant = [source_inode.id.inode(), dest_inode.id.inode()] == chunk.inodes
        && source_inode.kind == Kind::Regular
        && dest_inode.kind == Kind::Regular
        && (source_inode.size, modified) == (chunk.size, chunk.modified);
    if meant { Ok(([source, dest], [source_inode, dest_inode])) } else { Err(Errno::STALE) }
}

/// How many bytes of the chunk, from its beginning, are certainly in the copy for all to see.
fn copy_chunk(
    worker: &mut Worker<'_>,
    from: usize,
    chunk: &Chunk,
    ([source, dest], [source_inode, dest_inode]): ([OwnedFd; 2], [Inode; 2]),
) -> u64 {
    let cx = worker.cx;
    let dest_path = match &chunk.source_name {
        Some(_) => joined(&chunk.pair.shown[1], &chunk.dest_name),
        None => PathBuf::from(&chunk.pair.operand_dest),
    };
    let dest = Arc::new(dest);
    let files = [Arc::new(source), Arc::clone(&dest)];
    let job = Transfer::new(files, [&source_inode, &dest_inode], cx.plan.demands());
    written::will_write_to(worker, dest_inode.id.device(), &dest_path, dest.as_fd());
    let part = worker.mover.move_part(&job, &cx.plan.data, cx.session.control(), (chunk.offset, chunk.len));
    worker.report.stats.count_part(&part);
    drop(job);
    // The owner hears of it when it can be seen from there, and before it sets the times of the file: data that arrives at a
    // server later would change them.
    let near = cx.peers.is_some_and(|peers| peers.transport.is_near(from));
    let flushed =
        if near && cx.plan.durable == Durable::None { Ok(()) } else { retry_on_intr(|| Linux.sync(dest.as_fd())) };
    let closed = match Arc::try_unwrap(dest) {
        Ok(dest) => haul_sys::close(dest),
        Err(_still_shared) => Err(Errno::BUSY),
    };
    if flushed.and(closed).is_ok() { part.reached } else { 0 }
}

/// Copies what another process has given away.
fn do_work_unit(walker: &mut Walker<'_>, from: usize, unit: WorkUnit) {
    let cx = walker.worker.cx;
    let Some(peers) = cx.peers else { return };
    let WorkUnit { token, pair, names } = unit;
    let attempt = || if cx.cancelled() { Err(Errno::CANCELED) } else { paths::open_pair(cx.plan, &pair) };
    let opened = patiently(PATIENCE, || paths::ask_again_for(&pair), attempt);
    let Ok(open) = opened else {
        // Who gave it can see it, and tells what goes wrong.
        peers.tell(Some((from, Message::NamesDone { token, given_back: true })));
        return;
    };
    begin_progress_elsewhere(&mut walker.worker);
    peers.is_called(open.source_inode.id.device(), pair.device);
    written::will_write_to(&mut walker.worker, open.dest_inode.id.device(), pair.shown[1].as_ref(), open.dest.as_fd());
    let entries = directories::new_entries(cx, &open.dest, &open.dest_inode, None);
    let [source_path, dest_path] = pair.shown.map(|shown| PathNode::root(shown.as_ref()));
    let sides = Sides::new(open.source, open.dest, &dest_path);
    let place = Directory {
        source_inode: open.source_inode,
        dest_inode: open.dest_inode,
        entries,
        source_path_only: false,
        dir: open.dir,
        created: true,
        fresh: true,
        source_path,
        dest_path,
        listed: pair.listed,
        stays: AtomicBool::new(false),
        unread: AtomicBool::new(false),
    };
    let names = Listing::of(names.into_iter().map(Into::into).collect());
    let frame =
        Frame { reply: Some(ReplyHandle { from, token }), ..Frame::new(Arc::new(place), Some(Arc::new(sides)), names) };
    let mut top = Top { source: pair.operand.into(), dest: pair.operand_dest.into(), into_itself: false };
    walker.worker.report.stats.work_units += 1;
    if let Some(pool) = walker.pool {
        pool.start_remote_if(|| walk::is_remote(&frame));
    }
    walk::walk_tree(walker, frame, &mut top);
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
