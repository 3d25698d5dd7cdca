//! The pieces of a file that several workers move: how large they are, and what is looked after meanwhile.

use std::os::fd::BorrowedFd;

use haul_sys::Errno;
use haul_sys::kernel::Linux;
use haul_sys::rustix::param::page_size;

use crate::engine::Tuning;
use crate::engine::parallel::Watch;
use crate::moved::Moved;
use crate::ranges::{Extent, Extents};
use crate::verify::Follower;
use parking_lot::Mutex;

use super::checkpoints::{self, Checkpoints};
use super::drop_behind::DropBehind;
use super::readahead::ReadAhead;
use super::shared_range::SharedRange;
use super::unwritten::Sending;
use crate::control::Control;
use crate::engine::EngineName;
use crate::strategy;

pub struct Monitor<'a> {
    pub control: Control<'a>,
    pub trail: Trailing<'a>,
    /// The source and its window, if it is read ahead: several workers at one open file look like random access to the
    /// kernel, which then reads little ahead by itself.
    pub read_ahead: Option<(&'a Mutex<ReadAhead>, BorrowedFd<'a>)>,
    /// Up to where it may be read ahead in any case.
    pub size: u64,
    /// What other processes may take of it.
    pub shared: Option<&'a SharedRange<'a>>,
}

impl Watch for Monitor<'_> {
    fn may_move(&self, offset: u64, len: u64) -> bool {
        if let Some((ahead, source)) = self.read_ahead {
            let mut ahead = ahead.lock();
            ahead.ask(&Linux, source, offset, self.size.max(offset + len));
        }
        self.trail.let_follow(offset);
        if let Some(shared) = self.shared {
            shared.offer();
        }
        !self.control.cancel.is_cancelled() && self.trail.behind.is_none_or(|behind| behind.tidy(false).is_ok())
    }

    fn advanced(&self, to: u64, moved: Moved) {
        self.trail.moved(moved);
        self.trail.reached(to);
        self.control.progress.moved(moved);
    }
}

/// What goes behind a copy.
#[derive(Clone, Copy)]
pub struct Trailing<'a> {
    pub follower: Option<&'a Follower>,
    pub checkpoints: Option<&'a Checkpoints<'a>>,
    pub behind: Option<&'a DropBehind>,
    pub sending: Option<&'a Sending>,
}

impl Trailing<'_> {
    /// Waits until a copy that goes on here is not too far ahead.
    pub fn let_follow(&self, at: u64) {
        if let Some(follower) = self.follower {
            follower.let_follow(at);
        }
        if let Some(checkpoints) = self.checkpoints {
            checkpoints.let_follow(at);
        }
        if let Some(sending) = self.sending {
            sending.let_follow();
        }
    }

    /// So much more was moved.
    pub fn moved(&self, more: Moved) {
        if let Some(sending) = self.sending {
            sending.moved(more);
        }
    }

    /// The copy has come so far. What goes behind it to tidy up comes last.
    pub fn reached(&self, to: u64) {
        let mut left_behind = to;
        if let Some(follower) = self.follower {
            follower.copied(to);
            left_behind = to.min(follower.checked());
        }
        if let Some(checkpoints) = self.checkpoints {
            checkpoints.copied(to);
        }
        if let Some(behind) = self.behind {
            behind.copied(left_behind);
        }
        if let Some(sending) = self.sending {
            sending.reached(to);
        }
    }

    /// The most bytes that are moved at a time, so that they can begin soon.
    pub fn piece(&self) -> u64 {
        let followed = self.follower.map_or(u64::MAX, |_| Follower::PIECE);
        let noted = self.checkpoints.map_or(u64::MAX, |_| checkpoints::STEP);
        let sent = self.sending.map_or(u64::MAX, Sending::job);
        followed.min(noted).min(sent)
    }
}

/// The ranges of a file that workers move, in order.
pub struct Ranges<'a> {
    /// What is left of the part in hand.
    now: Option<Part<'a>>,
    /// Where the next part comes from, if there can be one.
    shared: Option<&'a SharedRange<'a>>,
    source: BorrowedFd<'a>,
    by_extents: bool,
}

enum Part<'a> {
    Whole(u64, u64),
    Extents(Extents<'a>),
}

impl<'a> Ranges<'a> {
    /// All from one byte to another; by extents all that there is.
    pub fn all(from: u64, to: u64, source: BorrowedFd<'a>, ranges: strategy::Ranges) -> Ranges<'a> {
        let mut all = Ranges { now: None, shared: None, source, by_extents: is_by_extents(ranges) };
        all.now = (from < to).then(|| all.part(from, to));
        all
    }

    /// What other processes leave of it.
    pub fn shared(shared: &'a SharedRange<'a>, source: BorrowedFd<'a>, ranges: strategy::Ranges) -> Ranges<'a> {
        Ranges { now: None, shared: Some(shared), source, by_extents: is_by_extents(ranges) }
    }

    fn part(&self, from: u64, to: u64) -> Part<'a> {
        match self.by_extents {
            true => Part::Extents(Extents::new(&Linux, self.source, from, to)),
            false => Part::Whole(from, to - from),
        }
    }
}

fn is_by_extents(ranges: strategy::Ranges) -> bool {
    ranges == strategy::Ranges::Extents
}

impl Iterator for Ranges<'_> {
    type Item = Result<Extent, Errno>;

    fn next(&mut self) -> Option<Result<Extent, Errno>> {
        loop {
            match self.now.take() {
                Some(Part::Whole(offset, len)) => return Some(Ok(Extent::Data { offset, len })),
                Some(Part::Extents(mut extents)) => {
                    if let Some(extent) = extents.next() {
                        self.now = Some(Part::Extents(extents));
                        return Some(extent);
                    }
                }
                None => {
                    let (offset, len) = self.shared?.next()?;
                    self.now = Some(self.part(offset, offset + len));
                }
            }
        }
    }
}

/// Bytes that an engine wants to move in one go, since the user says so or because that is what it is: pieces of a file
/// are no smaller.
pub fn unit_of(name: EngineName, tuning: &Tuning) -> Option<u64> {
    let caps = name.caps();
    match tuning.buffer_size.map(|size| size.max(1) as u64) {
        Some(size) if caps.whole_pages => Some(size.next_multiple_of(page_size() as u64)),
        size => size.or(caps.unit),
    }
}

/// Bytes that a worker moves before it comes back for more.
pub fn piece_of(name: EngineName, tuning: &Tuning, left: u64, workers: usize) -> u64 {
    // Small files are shared as well, in pieces that are not worth less than the sharing.
    let fair = (left / (2 * workers.max(1) as u64)).next_multiple_of(1 << 20);
    let piece = name.caps().piece.min(fair.max(1 << 20));
    match unit_of(name, tuning) {
        Some(unit) => (piece / unit).max(1) * unit,
        None => piece,
    }
}
