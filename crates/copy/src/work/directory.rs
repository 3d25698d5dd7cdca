//! A directory of the source and its copy, and a walk through its contents, or through a part of them.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId, Inode};
use haul_sys::rustix::fs::OFlags;
use parking_lot::Mutex;

use crate::attributes::{Keep, side};
use crate::error::{Error, What};
use crate::links::DestDir;
use crate::list::Index;
use crate::meta::NewEntries;
use crate::publish::Sides;
use crate::schedule::ordered::Segment;
use crate::schedule::pool::Parking;
use crate::walk::{Level, Listed, Listing, PathNode, open_above, upwards};
use crate::work::planned;

/// A directory of the source and its copy: what does not change while it is being copied.
pub(crate) struct Directory {
    /// The source as it was when it was entered.
    pub source_inode: Inode,
    /// The destination directory just after it was made, or as it was found.
    pub dest_inode: Inode,
    /// What is known of entries that we make in the destination.
    pub entries: NewEntries,
    /// The source was opened with `O_PATH`.
    pub source_path_only: bool,
    pub dir: Arc<DestDir>,
    /// We made it, in this run or (`--resume`) in an earlier one.
    pub created: bool,
    /// We made it in this run: nothing can be in it but what we put there.
    pub fresh: bool,
    pub source_path: Arc<PathNode>,
    pub dest_path: Arc<PathNode>,
    /// Its number in the list of what is to be copied, if there is one.
    pub listed: Option<Index>,
    /// Another process could not begin with names of it: it gets no others.
    pub stays: AtomicBool,
    /// Not all names of the source could be read.
    pub unread: AtomicBool,
}

/// A directory of which everything is copied, but for its attributes.
pub(crate) struct FullDirectory {
    pub place: Arc<Directory>,
    /// Both sides, if they are open.
    pub sides: Option<Arc<Sides>>,
}

impl FullDirectory {
    /// What setting its attributes needs, if both sides are open; with both paths, for messages.
    pub(crate) fn keep<'k>(&'k self, [source_path, dest_path]: [&'k Path; 2]) -> Option<Keep<'k>> {
        let sides = self.sides.as_ref()?;
        Some(Keep {
            source: side(&sides.source, self.place.source_path_only, &self.place.source_inode, source_path),
            dest: side(&sides.dest, true, &self.place.dest_inode, dest_path),
            created: self.place.created,
            entries: self.place.entries,
        })
    }
}

/// A directory whose contents are being copied, or a part of them.
pub(crate) struct Frame {
    pub place: Arc<Directory>,
    /// As long as they are held open.
    pub sides: Option<Arc<Sides>>,
    pub listing: Listing,
    /// One side was reached through a symbolic link: its `..` is not the directory that it was found in.
    pub through_link: bool,
    /// Its contents are not wanted, or cannot be read.
    pub finished: bool,
    /// It is a part of a directory that another thread has entered, and that is not finished here.
    pub is_part: bool,
    /// Parts in other hands, and directories in it that wait for such parts.
    pub tally: Option<Arc<Tally>>,
    /// Where messages go on after the parts that were given away from this batch of names.
    pub resume: Option<Segment>,
    /// Another process has given it to us, and sets its attributes.
    pub reply: Option<ReplyHandle>,
}

/// How many parts of a directory are in other hands.
#[derive(Default)]
pub(crate) struct Tally(pub Mutex<Parts>);

#[derive(Default)]
pub(crate) struct Parts {
    pub open: usize,
    parked: Option<Box<Parked>>,
}

/// A directory of which everything is done but the parts in other hands.
pub(crate) struct Parked {
    pub frame: Frame,
    pub segment: Option<Segment>,
    pub above: Option<Arc<Tally>>,
    pub _parking: Parking,
}

/// Whom to tell that a part is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyHandle {
    pub from: usize,
    pub token: u64,
}

impl Frame {
    /// Whether it made this directory of the destination.
    pub(crate) fn is_filling(&self, dest: FileId) -> bool {
        self.place.created && self.place.dest_inode.id == dest
    }

    pub(crate) fn devices(&self) -> [DeviceNumber; 2] {
        [self.place.source_inode.id.device(), self.place.dest_inode.id.device()]
    }

    /// Whether another thread can take a part of it, while this one is `busy` in a directory below it or not.
    pub(crate) fn has_names_to_share(&self, busy: bool) -> bool {
        !self.finished && self.sides.is_some() && self.listing.can_be_split(busy)
    }

    /// Half of the names that are left, for another thread. [`Listing::join`] undoes it.
    pub(crate) fn split(&mut self) -> Frame {
        Frame {
            through_link: self.through_link,
            is_part: true,
            tally: Some(Arc::clone(self.tally.get_or_insert_default())),
            ..Frame::new(Arc::clone(&self.place), self.sides.clone(), self.listing.split())
        }
    }

    pub(crate) fn new(place: Arc<Directory>, sides: Option<Arc<Sides>>, listing: Listing) -> Frame {
        Frame {
            place,
            sides,
            listing,
            through_link: false,
            finished: false,
            is_part: false,
            tally: None,
            resume: None,
            reply: None,
        }
    }

    /// The names that were read and not visited, and where they are, if that is open.
    pub(crate) fn names(&mut self) -> (&Directory, Option<&Sides>, impl Iterator<Item = &mut Listed>) {
        (&self.place, self.sides.as_deref(), self.listing.names())
    }

    /// It and its copy, to get its attributes.
    pub(crate) fn directory(&self) -> FullDirectory {
        FullDirectory { place: Arc::clone(&self.place), sides: self.sides.clone() }
    }
}

impl Level for Frame {
    type Handles = Arc<Sides>;
    type Error = Error;

    fn handles(&mut self) -> &mut Option<Arc<Sides>> {
        &mut self.sides
    }

    fn listing(&mut self) -> &mut Listing {
        &mut self.listing
    }

    fn is_through_link(&self) -> bool {
        self.through_link
    }

    fn open_from(&self, inner: &Arc<Sides>) -> Result<Arc<Sides>, Error> {
        let place = &self.place;
        let up = |fd: BorrowedFd<'_>, flags: OFlags, was: &Inode, path: &PathNode| {
            let opened = open_above(fd, flags, |now| now.is_same_file_as(was));
            opened.map(|(fd, _)| fd).map_err(|why| why.error(path))
        };
        let source = up(inner.source.as_fd(), OFlags::RDONLY, &place.source_inode, &place.source_path)?;
        let dest = match planned::is_planned(place.dest_inode.id) {
            true => planned::nowhere()
                .map_err(|errno| Error::new(What::CannotAccess, place.dest_path.path()).errno(errno))?,
            false => up(inner.dest.as_fd(), OFlags::PATH, &place.dest_inode, &place.dest_path)?,
        };
        Ok(Arc::new(Sides::new(source, dest, &place.dest_path)))
    }
}

impl Tally {
    pub(crate) fn add(&self) {
        self.0.lock().open += 1;
    }

    /// One part is done. If it was the last one, gives back the directory that waited for it.
    pub(crate) fn remove(&self) -> Option<Box<Parked>> {
        let mut parts = self.0.lock();
        parts.open -= 1;
        if parts.open == 0 { parts.parked.take() } else { None }
    }

    /// Leaves the directory to whoever does the last part; gives it back if there is none.
    pub(crate) fn park(&self, parked: Box<Parked>) -> Option<Box<Parked>> {
        let mut parts = self.0.lock();
        if parts.open == 0 {
            return Some(parked);
        }
        parts.parked = Some(parked);
        None
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.lock().open == 0
    }
}

/// Whether one of the two directories is in the other, as far as the ways up from them tell. Doubt counts as yes.
pub(crate) fn overlap(sides: &Frame) -> bool {
    sides.sides.as_ref().is_none_or(|sides| are_within(sides.source.as_fd(), sides.dest.as_fd()))
}

/// Whether one of two directories is the other or within it, or that is not certain.
pub(crate) fn are_within(source: BorrowedFd<'_>, dest: BorrowedFd<'_>) -> bool {
    is_within(source, dest).unwrap_or(true) || is_within(dest, source).unwrap_or(true)
}

/// The same of a new directory in `holder`.
pub(crate) fn would_be_within(source: BorrowedFd<'_>, holder: BorrowedFd<'_>) -> bool {
    upwards(source).any(|above| above.is_err()) || is_within(holder, source).unwrap_or(true)
}

fn is_within(from: BorrowedFd<'_>, what: BorrowedFd<'_>) -> Result<bool, Errno> {
    let what = Inode::of(what)?.id;
    for above in upwards(from) {
        if above?.id == what {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
