//! Removes what the source does not have when everything is copied (`--delete` with `--atomic`, `--durable=file` and others that
//! leave names as they are for long): a run that ends early has removed nothing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{FileType, OFlags};

use crate::context::RunContext;
use crate::error::{Error, What};
use crate::finish::{deletion, directories};
use crate::meta::NewEntries;
use crate::plan::Plan;
use crate::publish::Sides;
use crate::tree::walker::Walker;
use crate::walk::{
    self, Descent, Listed, Listing, NotAbove, PathNode, Spot, open_above, reopen_directory, set_noatime, tagged_cache,
};
use crate::work::directory::{Directory, FullDirectory};

/// A directory of the source and its copy.
struct Pair {
    place: Arc<Directory>,
    /// Open to be read, both.
    sides: Option<Arc<Sides>>,
    /// The names in the copy.
    listing: Listing,
}

/// Goes through an operand's copy, unless something was not copied as wished.
pub(super) fn delete_at_last(walker: &mut Walker<'_>, root: FullDirectory) {
    let worker = &mut walker.worker;
    let cx = worker.cx;
    if cx.services.deletions.is_over() {
        return;
    }
    let opened = root.sides.as_ref().map_or(Err(Errno::STALE), |sides| to_be_read(sides, cx.plan));
    let opened = worker.report.check(opened, What::CannotAccess, root.place.dest_path.path());
    let Ok(sides) = opened else { return };
    let root = Pair { place: root.place, sides: Some(sides), listing: Listing::default() };
    tidy(walker, &root);
    let mut descent = Descent::new(walker.open_levels);
    descent.enter(root);
    while let Some(pair) = descent.innermost() {
        if cx.cancelled() {
            return;
        }
        let next = match &pair.sides {
            Some(sides) => pair.listing.next(sides.dest.as_fd()),
            None => Ok(None),
        };
        if let Err(errno) = next {
            let path = pair.place.dest_path.path();
            walker.worker.report.problem(Error::new(What::CannotAccess, path).errno(errno));
        }
        match next {
            Ok(Some(listed)) => {
                let below = pair.below(cx, &listed);
                let below = below.unwrap_or_else(|error| {
                    walker.worker.report.problem(error);
                    None
                });
                if let Some(below) = below {
                    tidy(walker, &below);
                    descent.enter(below);
                }
            }
            _ => {
                if let Some((_, Err(error))) = descent.leave() {
                    walker.worker.report.problem(error);
                }
            }
        }
    }
}

/// Removes from one directory what its source does not have, and gives it its times again.
fn tidy(walker: &mut Walker<'_>, pair: &Pair) {
    let directory = FullDirectory { place: Arc::clone(&pair.place), sides: pair.sides.clone() };
    let deleted = deletion::delete_extra(&mut walker.worker, &directory);
    if !deleted || walker.worker.cx.plan.dry_run {
        return;
    }
    let [source_path, dest_path] = [pair.place.source_path.path(), pair.place.dest_path.path()];
    if let Some(keep) = directory.keep([&source_path, &dest_path]) {
        directories::set_attributes(&mut walker.worker, &keep);
    }
}

/// The same two directories, both open to be read.
fn to_be_read(sides: &Sides, plan: &Plan) -> Result<Arc<Sides>, Errno> {
    let [source, dest] = sides.both().map(reopen_directory);
    let source = source?;
    if plan.open_noatime {
        set_noatime(&source);
    }
    Ok(Arc::new(Sides::new(source, dest?, &sides.dest_path)))
}

impl Pair {
    /// The two directories of this name in it, if they belong together.
    ///
    /// # Errors
    /// One of them cannot be read.
    fn below(&self, cx: RunContext<'_>, listed: &Listed) -> Result<Option<Pair>, Error> {
        let Some(sides) = self.sides.as_deref() else { return Ok(None) };
        if !matches!(listed.kind, Some(FileType::Directory) | None) {
            return Ok(None);
        }
        let (place, name) = (&self.place, &*listed.name);
        let [source_path, dest_path] = [&place.source_path, &place.dest_path].map(|path| path.below(name));
        let error = |errno, path: &PathNode| Error::new(What::CannotAccess, path.path()).errno(errno);
        let (source, source_inode) = match open(sides.source.as_fd(), name) {
            Ok(opened) => opened,
            // What may not be read is excluded, or an error of the copy, after which nothing goes.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(error(errno, &source_path)),
        };
        if cx.plan.open_noatime {
            set_noatime(&source);
        }
        let above = place.source_inode.id.device();
        let (wanted, path) = (cx.wanted(), || place.source_path.joined_below_root(name));
        let is_copied = wanted.entry(&source_inode) && !wanted.below(&source_inode, name, path).excluded;
        // Of a cache nothing but the tag was copied, and no directory in it.
        let is_in_cache = wanted.excludes_caches() && tagged_cache(sides.source.as_fd()).is_some();
        if !is_copied || is_in_cache || !wanted.contents(&source_inode, Some(above)) {
            return Ok(None);
        }
        let (dest, dest_inode) = match open(sides.dest.as_fd(), name) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(error(errno, &dest_path)),
        };
        let dir = place.dir.below(name, dest_inode.id, source_inode.id);
        let opened = Sides::new(source, dest, &dest_path);
        let place = Directory {
            source_inode,
            dest_inode,
            entries: NewEntries::UNKNOWN,
            source_path_only: false,
            dir,
            created: false,
            fresh: false,
            source_path,
            dest_path,
            listed: None,
            stays: AtomicBool::new(false),
            unread: AtomicBool::new(false),
        };
        Ok(Some(Pair { place: Arc::new(place), sides: Some(Arc::new(opened)), listing: Listing::default() }))
    }
}

fn open(dir: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, Inode), Errno> {
    // Nobody sees its path.
    let spot = Spot::new(dir, name, name.as_ref());
    let fd = spot.open(OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, 0)?;
    let inode = Inode::of(fd.as_fd())?;
    Ok((fd, inode))
}

impl walk::Level for Pair {
    type Handles = Arc<Sides>;
    type Error = Error;

    fn handles(&mut self) -> &mut Option<Arc<Sides>> {
        &mut self.sides
    }

    fn listing(&mut self) -> &mut Listing {
        &mut self.listing
    }

    fn is_through_link(&self) -> bool {
        false
    }

    fn open_from(&self, inner: &Arc<Sides>) -> Result<Arc<Sides>, Error> {
        let place = &self.place;
        let up = |fd: BorrowedFd<'_>, was: &Inode, path: &PathNode| {
            let opened = open_above(fd, OFlags::RDONLY, |now| now.is_same_file_as(was));
            opened.map(|(fd, _)| fd).map_err(|why: NotAbove| why.error(path))
        };
        let source = up(inner.source.as_fd(), &place.source_inode, &place.source_path)?;
        let dest = up(inner.dest.as_fd(), &place.dest_inode, &place.dest_path)?;
        Ok(Arc::new(Sides::new(source, dest, &place.dest_path)))
    }
}
