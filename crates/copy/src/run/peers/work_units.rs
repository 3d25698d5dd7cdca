//! Names of a directory that another process copies.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_sys::Errno;
use haul_sys::rustix::fs::{Mode, OFlags, openat};

use super::super::Run;
use super::super::entry::Top;
use super::super::pool::Parking;
use super::super::share::{Tally, Task};
use super::super::tree::{Frame, Place};
use super::link_owner::open_way;
use super::wire::{Message, Pair, Way, WorkUnit};
use super::{PATIENCE, PeerGroup, ToDo, lock, patiently};
use crate::facts::{Inode, Time};
use crate::links::{DestDir, duplicate};
use crate::meta::NewEntries;
use crate::plan::Dereference;
use crate::publish::Sides;
use crate::walk::{Listed, Listing, Operand, PathNode};

/// Names that another process has.
pub(in crate::run) struct Away {
    /// The part as it was given, without its names.
    frame: Frame,
    top: Top,
    /// The names, in case that they come back.
    names: Vec<Listed>,
    tally: Arc<Tally>,
    _parking: Parking,
}

/// Whom to tell that a part is done.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct ReplyHandle {
    from: usize,
    token: u64,
}

/// Both directories of a pair, open.
pub(super) struct OpenPair {
    pub source: OwnedFd,
    pub dest: OwnedFd,
    pub source_inode: Inode,
    pub dest_inode: Inode,
    pub dir: Arc<DestDir>,
}

impl PeerGroup<'_> {
    /// What another process had is done, or comes back.
    pub(super) fn is_back(&self, token: u64, given_back: bool) -> ToDo {
        let Some(away) = lock(&self.away).remove(&token) else { return ToDo::Nothing };
        let Away { mut frame, top, names, tally, .. } = away;
        if given_back {
            // Nor will others be able to begin with the rest of it.
            frame.place().stays.store(true, Ordering::Relaxed);
            frame.set_names(names);
            return ToDo::AtOnce(Task::Names { frame, top, segment: None });
        }
        drop((frame, names));
        ToDo::AtOnce(Task::PartDone(tally))
    }
}

impl Place {
    /// What another process needs to open these two directories.
    fn pair(&self, top: &Top, peers: &PeerGroup<'_>) -> Pair {
        let device = self.source_inode.id.device();
        Pair {
            operand: top.source.clone().into_os_string(),
            operand_dest: top.dest.clone().into_os_string(),
            dest: Way { prefix: self.dir.prefix().to_owned(), names: self.dir.names() },
            inodes: [self.source_inode.id.inode(), self.dest_inode.id.inode()],
            born: [self.source_inode.born, self.dest_inode.born].map(born_of),
            device: peers.name_of(device, None),
            listed: self.listed,
            shown: [self.source_path.path().into_os_string(), self.dest_path.path().into_os_string()],
        }
    }
}

impl Run<'_> {
    /// Between two entries: gives half of the names that are left in the outermost directory that can be shared to another
    /// process that waits for work.
    pub(in crate::run) fn send_away(&mut self, stack: &mut [Frame], top: &Top) {
        let (Some(peers), Some(pool)) = (self.peers, self.pool) else { return };
        let innermost = stack.len() - 1;
        // Through links the order decides, as for threads.
        if self.cx.plan.dereference == Dereference::Always {
            return;
        }
        let shareable = |(depth, frame): (usize, &Frame)| {
            !frame.place().stays.load(Ordering::Relaxed) && frame.has_names_to_share(depth < innermost)
        };
        let Some(donor) = stack.iter().enumerate().position(shareable) else { return };
        // Where too much waits already, others will have work of their own to give.
        let Some(parking) = pool.reserve_parking() else { return };
        let frame = &mut stack[donor];
        let mut part = frame.split();
        let Some(tally) = frame.tally.clone() else { return };
        tally.add();
        let names = part.take_names();
        let token = peers.new_token();
        let message = Message::Names(WorkUnit { token, pair: part.place().pair(top, peers), names: names.clone() });
        let away = Away { frame: part, top: top.clone(), names, tally, _parking: parking };
        // Before it is sent: the answer may come at once.
        lock(&peers.away).insert(token, away);
        pool.one_more();
        if peers.transport.give(message.encode()).is_none() {
            self.worker.report.stats.given_away += 1;
            return;
        }
        // Somebody else has served who waited.
        pool.one_fewer();
        let Some(away) = lock(&peers.away).remove(&token) else { return };
        away.tally.remove();
        let mut part = away.frame;
        part.set_names(away.names);
        stack[donor].take_back(part);
    }

    /// Copies what another process has given away.
    pub(in crate::run) fn do_parcel(&mut self, from: usize, parcel: WorkUnit) {
        let Some(peers) = self.peers else { return };
        let WorkUnit { token, pair, names } = parcel;
        let opened =
            patiently(PATIENCE, || if self.cx.cancelled() { Err(Errno::CANCELED) } else { self.open_pair(&pair) });
        let Ok(open) = opened else {
            // Who gave it can see it, and tells what goes wrong.
            peers.tell(Some((from, Message::NamesDone { token, given_back: true })));
            return;
        };
        self.begin_progress_elsewhere();
        peers.is_called(open.source_inode.id.device(), pair.device);
        self.will_write_to(open.dest_inode.id.device(), pair.shown[1].as_ref(), open.dest.as_fd());
        let entries = match NewEntries::matter(&self.cx.plan.preserve) {
            true => self.entries_of_found(&open.dest, &open.dest_inode),
            false => NewEntries::UNKNOWN,
        };
        let [source_path, dest_path] = pair.shown.map(|shown| PathNode::root(shown.as_ref()));
        let sides = Sides::new(open.source, open.dest, &dest_path);
        let place = Place {
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
        };
        let frame = Frame::received(place, sides, Listing::of(names), ReplyHandle { from, token });
        let mut top = Top { source: pair.operand.into(), dest: pair.operand_dest.into(), into_itself: false };
        self.worker.report.stats.parcels += 1;
        self.walk_tree(frame, &mut top);
    }

    /// Everything of a part that another process has given us is done.
    pub(in crate::run) fn report_part(&mut self, reply: ReplyHandle) {
        // Before its directory gets its attributes elsewhere, which giving a name would change again.
        self.give_names();
        if let Some(peers) = self.peers {
            peers.tell(Some((reply.from, Message::NamesDone { token: reply.token, given_back: false })));
        }
    }

    /// Opens both directories by the names on the way, and makes sure that they are those that were meant.
    ///
    /// # Errors
    /// What the kernel says; ESTALE if others stand there.
    pub(super) fn open_pair(&self, pair: &Pair) -> Result<OpenPair, Errno> {
        let operand = Operand::open(&pair.operand);
        let no_follow = if self.cx.plan.dereference == Dereference::Never { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut source = operand.spot().open(flags | no_follow, 0)?;
        let operand_device = Inode::of(source.as_fd())?.id.device();
        let root = Way { prefix: pair.dest.prefix.clone(), names: Vec::new() };
        let (mut dest, mut dir) = open_way(&root)?;
        for (depth, name) in pair.dest.names.iter().enumerate() {
            if depth > 0 {
                // The first one is the operand.
                source = openat(&source, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
            }
            dest = openat(&dest, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let id = |fd: &OwnedFd| Inode::of(fd.as_fd()).map(|inode| inode.id);
            dir = dir.below(name, id(&dest)?, id(&source)?);
        }
        let (source_inode, dest_inode) = (Inode::of(source.as_fd())?, Inode::of(dest.as_fd())?);
        if [source_inode.id.inode(), dest_inode.id.inode()] != pair.inodes {
            return Err(Errno::STALE);
        }
        // The roots of filesystems that each machine has for itself have one number everywhere, but were not made at one time.
        let births = [(source_inode.born, pair.born[0]), (dest_inode.born, pair.born[1])];
        let differ = |(here, there): &(Option<Time>, Option<(i64, u32)>)| {
            here.is_some() && there.is_some() && born_of(*here) != *there
        };
        let told = births.iter().all(|(here, there)| here.is_some() && there.is_some());
        let mounted_below = source_inode.id.device() != operand_device || dest_inode.id.device() != dir.top_device()?;
        if births.iter().any(differ) || (mounted_below && !told) {
            return Err(Errno::XDEV);
        }
        Ok(OpenPair { source, dest, source_inode, dest_inode, dir })
    }
}

fn born_of(born: Option<Time>) -> Option<(i64, u32)> {
    born.map(|born| (born.seconds, born.nanoseconds))
}

/// The way to a directory of the destination, and that of an operand's file: what is needed to describe a file to others.
pub(super) fn pair_of(
    dir: &Arc<DestDir>,
    sides: Option<(&Frame, &Top)>,
    operand: (&std::path::Path, &std::path::Path),
    peers: &PeerGroup<'_>,
) -> Pair {
    match sides {
        Some((frame, top)) => frame.place().pair(top, peers),
        None => Pair {
            operand: operand.0.as_os_str().to_owned(),
            operand_dest: operand.1.as_os_str().to_owned(),
            dest: Way { prefix: dir.prefix().to_owned(), names: dir.names() },
            inodes: [0; 2],
            born: [None; 2],
            device: 0,
            listed: None,
            shown: [OsString::new(), OsString::new()],
        },
    }
}

/// A directory of the destination for a file that is an operand itself.
pub(super) fn open_holder(pair: &Pair) -> Result<OwnedFd, Errno> {
    let (fd, _dir) = open_way(&pair.dest)?;
    duplicate(fd.as_fd())
}
