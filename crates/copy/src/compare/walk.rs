//! The walk through both trees, and the threads beside it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;

use haul_io::facts;
use haul_io::transfer::Buffers;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::{FileType, OFlags};
use haul_sys::rustix::process;
use haul_sys::{Errno, memory};

use crate::decide::Wanted;
use crate::error::{Error, What};
use crate::list::{FileList, Index};
use crate::plan::{Dereference, Destination, Plan};
use crate::walk::{
    Descent, Level, Listed, Listing, Operand, PathNode, Spot, last_component, open_above, path_below, tagged_cache,
    without_trailing_slashes,
};

use super::board::{Batch, Board, Side, Sides};
use super::difference::Found;
use super::entry::{self, Outcome, Rules};
use super::links::Links;
use super::row::{Compared, Place, Row, Slot};
use super::session::{Session, Summary};

/// Names in one batch: few enough that all threads have some, and for the bits of [`Place`]; many enough that handing them over
/// costs nothing.
const BATCH: usize = 32;

/// Batches that wait or are in the hands of this process's threads. Each may hold a directory of its own open on both sides.
const UNDER_WAY: usize = 64;
/// The same with those that other processes have, however many descriptors there are.
const MOST_OPEN: usize = 16 << 10;

/// Directories of the path that are held open on both sides, at most; those above are opened again on the way back.
const OPEN_LEVELS: usize = 64;

/// Descriptors for all that is open only once: standard streams, the front end's, the operands.
const OTHERS: usize = 12;

/// What a thread may take, in bytes, where memory is limited: its stack, and what it compares.
const MEMORY_OF_A_THREAD: u64 = 8 << 20;

/// Compares every source with what a copy of it by this plan has made; of sources in the plan's list, what that names.
pub fn compare(plan: &Plan, session: &Session<'_>) -> Summary {
    let rules = Rules { plan, xattrs: session.rules, stop: session.stop, offline: Arc::default() };
    let own = Board::new();
    let board = session.board.unwrap_or(&own);
    board.open();
    let row = Row::new();
    thread::scope(|scope| {
        // However the walk ends, the others do, too.
        let _closing = Closing(board);
        for count in 0..threads(plan) {
            let (answer, rules) = (row.answer(), &rules);
            if count > 0 && !memory::has_room_for_thread(MEMORY_OF_A_THREAD) {
                break;
            }
            let started = thread::Builder::new().spawn_scoped(scope, move || board.work(rules, answer));
            match started {
                Ok(_) => {}
                // Fewer do as well; without any nobody would answer.
                Err(_) if count > 0 => break,
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    let path = plan.sources.first().map_or(Path::new(""), Path::new);
                    session.observer.problem(&Error::new(What::CannotStartThreads, path).errno(errno));
                    return Summary { errors: 1, ..Summary::default() };
                }
            }
        }
        let summary = Summary::default();
        let mut walk = Walk {
            rules: &rules,
            session,
            board,
            row,
            most_open: most_open(),
            under_way: share(UNDER_WAY),
            links: Links::default(),
            summary,
        };
        walk.operands();
        walk.report_all();
        walk.summary.stopped = (session.stop)();
        walk.summary
    })
}

/// How many threads of this process compare by this plan.
pub fn threads(plan: &Plan) -> usize {
    share(plan.jobs.unwrap_or_else(|| facts::cores().clamp(2, 8)))
}

fn descriptors() -> usize {
    let limit = process::getrlimit(process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// So many of what takes two descriptors each, or fewer where there are not enough: levels, batches and threads have a quarter
/// each, and another one is for what is about to be opened.
fn share(wanted: usize) -> usize {
    wanted.min(descriptors().saturating_sub(OTHERS) / 8).max(1)
}

/// Batches of which nothing is known yet, wherever they are: there have to be descriptors for their directories.
fn most_open() -> usize {
    (descriptors() / 4).min(MOST_OPEN).max(share(UNDER_WAY))
}

struct Closing<'a>(&'a Board);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Walk<'a> {
    rules: &'a Rules<'a>,
    session: &'a Session<'a>,
    board: &'a Board,
    row: Row,
    most_open: usize,
    /// Batches that this process's threads have, at most.
    under_way: usize,
    links: Links,
    summary: Summary,
}

/// A directory that is gone through.
struct Pair {
    sides: Option<Arc<Sides>>,
    ids: (FileId, FileId),
    listing: Listing,
    /// Directories of the batch that was given away last.
    inner: VecDeque<Inner>,
    /// Its number in the list of what is compared, if there is one, and the next entry there.
    listed: Option<(Index, Index)>,
    /// The names of the source are done, now come those of the copy.
    in_copy: bool,
    /// It is a cache that is left out: of the copy, too, nothing counts but the tag.
    is_cache: bool,
    paths: (Arc<PathNode>, Arc<PathNode>),
    /// One of them was reached through a symbolic link: its `..` is not the directory that it was found in.
    through_link: bool,
}

/// A name that may be that of a directory.
struct Inner {
    name: OsString,
    listed: Option<Index>,
    place: Place,
}

impl Pair {
    /// The same as this entry of the list.
    fn listed_as(self, at: Option<Index>) -> Pair {
        Pair { listed: at.map(|at| (at, at + 1)), ..self }
    }
}

impl Level for Pair {
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
        let up = |inner: &Side, id: FileId, path: &Arc<PathNode>| {
            let (fd, inode) =
                open_above(inner.fd.as_fd(), OFlags::RDONLY, |now| now.id == id).map_err(|why| why.error(path))?;
            Ok(Side { fd, inode, path: Arc::clone(path), operand: Arc::clone(&inner.operand) })
        };
        let source = up(&inner.source, self.ids.0, &self.paths.0)?;
        let copy = up(&inner.copy, self.ids.1, &self.paths.1)?;
        Ok(Arc::new(Sides { source, copy }))
    }
}

impl Walk<'_> {
    fn operands(&mut self) {
        let plan = self.rules.plan;
        let directory = |path: &OsStr| match Operand::open(path).spot().inode_following() {
            Ok(inode) if inode.kind == Kind::Directory => Ok(()),
            Ok(_) => Err(Errno::NOTDIR),
            Err(errno) => Err(errno),
        };
        let (into, path) = match &plan.destination {
            Destination::Exactly(path) => (Ok(false), path),
            Destination::Directory(path) => {
                (directory(path).map(|()| true).map_err(|errno| (What::TargetDirectory, errno)), path)
            }
            Destination::Guess(path) => match directory(path) {
                Err(errno) if plan.sources.len() > 1 => (Err((What::Target, errno)), path),
                found => (Ok(found.is_ok()), path),
            },
        };
        match into {
            Ok(into) => {
                for (number, source) in plan.sources.iter().enumerate() {
                    let copy = if into { below(path, source) } else { PathBuf::from(path) };
                    self.operand(number, source, &copy);
                }
            }
            Err((what, errno)) => self.later(Error::new(what, path).errno(errno)),
        }
    }

    fn operand(&mut self, number: usize, source_path: &OsStr, copy_path: &Path) {
        let (source, copy) = (Operand::open(source_path), Operand::open(copy_path.as_os_str()));
        let (source, copy) = (source.spot(), copy.spot());
        let follow = self.rules.plan.dereference != Dereference::Never;
        let inode = if follow { source.inode_following() } else { source.inode() };
        let is_dir = inode.as_ref().is_ok_and(|inode| inode.kind == Kind::Directory);
        if is_dir && !self.rules.plan.recursive {
            self.later(Error::new(What::OmittingDirectory, source.path));
            return;
        }
        if let Some(error) =
            inode.as_ref().ok().and_then(|inode| Wanted::new(self.rules.plan, &[]).objection(inode, source_path))
        {
            self.later(error);
            return;
        }
        if inode.as_ref().is_ok_and(|inode| self.rules.leave_out(source, inode, follow)) {
            return;
        }
        let mut rules = Rules { plan: self.rules.plan, offline: Arc::clone(&self.rules.offline), ..*self.rules };
        let operand_plan =
            Plan { dereference: if follow { Dereference::Always } else { Dereference::Never }, ..rules.plan.clone() };
        rules.plan = &operand_plan;
        let outcome = match inode {
            Ok(_) => entry::compare(&rules, source, copy, &mut Buffers::new()),
            // Not even if the copy lacks it, too.
            Err(errno) => {
                self.later(Error::new(What::CannotStat, source.path).errno(errno));
                return;
            }
        };
        let both = outcome.directories;
        self.report_all();
        self.summary.entries += 1;
        self.say(Compared { source: PathNode::root(source.path), copy: PathNode::root(copy.path), outcome });
        if is_dir && both {
            let root = self.rules.plan.list.as_ref().and_then(|list| list.operands().nth(number)?.2);
            self.tree(source, copy, root);
        }
    }

    /// Goes through two directories and all below them.
    fn tree(&mut self, source: Spot<'_>, copy: Spot<'_>, root: Option<Index>) {
        let mut descent = Descent::new(share(OPEN_LEVELS));
        match self.enter(source, copy, None) {
            Ok(top) => top.into_iter().for_each(|top| descent.enter(top.listed_as(root))),
            Err(error) => self.later(error),
        }
        while let Some(pair) = descent.innermost() {
            if (self.rules.stop)() || self.row.is_broken() {
                return;
            }
            if let Some(Inner { name, listed, place }) = pair.inner.pop_front() {
                match self.descend(pair, &name) {
                    Ok(child) => self.push(&mut descent, child.map(|child| child.listed_as(listed))),
                    Err(error) => self.row.put_gone(place, error),
                }
            } else if !self.go_on(pair)
                && let Some((_, Err(error))) = descent.leave()
            {
                self.later(error);
                // Nothing more is read in it. It is closed, so those above it are not looked for.
                descent.leave();
            }
        }
    }

    fn push(&mut self, descent: &mut Descent<Pair>, child: Option<Pair>) {
        let Some(child) = child else { return };
        // Only a link, or a mount, leads back up.
        if descent.levels().iter().any(|pair| pair.ids.0 == child.ids.0) {
            self.later(Error::new(What::CyclicLink, child.paths.0.path()));
            return;
        }
        descent.enter(child);
    }

    /// Opens both directories, those of an operand or those in a level; nothing if that fails.
    ///
    /// # Errors
    /// If one is no directory, or no more: whoever compares them reports that, unless it became so since.
    fn enter(&mut self, source: Spot<'_>, copy: Spot<'_>, above: Option<&Sides>) -> Result<Option<Pair>, Error> {
        let follow = above.is_none() || self.rules.plan.dereference == Dereference::Always;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let rules = self.rules;
        let mut open = |spot: Spot<'_>, above: Option<&Side>| match rules
            .open(spot, flags)
            .and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)))
        {
            Ok((inode, fd)) => {
                let (path, operand) = match above {
                    Some(above) => (above.path.below(spot.name), Arc::clone(&above.operand)),
                    None => {
                        let operand = Arc::new((spot.path.to_owned(), inode.id.device()));
                        (PathNode::root(spot.path), operand)
                    }
                };
                Ok(Some(Side { fd, inode, path, operand }))
            }
            Err(errno) => {
                let error = Error::new(What::CannotAccess, spot.path).errno(errno);
                match errno {
                    Errno::NOTDIR | Errno::LOOP | Errno::NOENT => Err(error),
                    _ => {
                        self.later(error);
                        Ok(None)
                    }
                }
            }
        };
        let is_link = |spot: Spot<'_>| spot.inode().is_ok_and(|entry| entry.kind == Kind::SymbolicLink);
        let through_link = above.is_some() && follow && [source, copy].into_iter().any(is_link);
        let Some(source) = open(source, above.map(|above| &above.source))? else { return Ok(None) };
        let Some(copy) = open(copy, above.map(|above| &above.copy))? else { return Ok(None) };
        let excludes_caches = Wanted::new(self.rules.plan, &[]).excludes_caches();
        let tag = if excludes_caches { tagged_cache(source.fd.as_fd()) } else { None };
        Ok(Some(Pair {
            through_link,
            ids: (source.inode.id, copy.inode.id),
            paths: (Arc::clone(&source.path), Arc::clone(&copy.path)),
            sides: Some(Arc::new(Sides { source, copy })),
            is_cache: tag.is_some(),
            listing: tag.unwrap_or_default(),
            inner: VecDeque::new(),
            listed: None,
            in_copy: false,
        }))
    }

    fn descend(&mut self, pair: &Pair, name: &OsStr) -> Result<Option<Pair>, Error> {
        let Some(sides) = pair.sides.clone() else { return Ok(None) };
        let (source, copy) = (pair.paths.0.joined(name), pair.paths.1.joined(name));
        let spots = (Spot::new(sides.source.fd.as_fd(), name, &source), Spot::new(sides.copy.fd.as_fd(), name, &copy));
        let Some(child) = self.enter(spots.0, spots.1, Some(&sides))? else { return Ok(None) };
        let Some(Sides { source: side, .. }) = child.sides.as_deref() else { return Ok(None) };
        let wanted = Wanted::new(self.rules.plan, &[]);
        let excluded = wanted.below(&side.inode, name, || path_below(&side.operand.0, &source)).excluded;
        let is_wanted = !excluded && wanted.contents(&side.inode, Some(pair.ids.0.device()));
        Ok(is_wanted.then_some(child))
    }

    /// Gives the next names of a directory away; `false` if there are no more.
    fn go_on(&mut self, pair: &mut Pair) -> bool {
        let Some(sides) = pair.sides.clone() else { return false };
        let mut names = Vec::with_capacity(BATCH);
        let directories: Arc<AtomicU32> = Arc::default();
        while names.len() < BATCH {
            let next = match (&self.rules.plan.list, &mut pair.listed) {
                (Some(list), Some((dir, next))) => Ok(next_listed(list, *dir, next)),
                _ if pair.in_copy => pair.listing.next(sides.copy.fd.as_fd()),
                _ => pair.listing.next(sides.source.fd.as_fd()),
            };
            match next {
                Ok(Some(listed)) => {
                    if !pair.in_copy && may_be_directory(&listed, self.rules.plan) {
                        let place = Place { at: names.len(), directories: Arc::clone(&directories) };
                        pair.inner.push_back(Inner { name: listed.name.clone(), listed: listed.entry, place });
                    }
                    let is_dir = !pair.in_copy && listed.kind == Some(FileType::Directory);
                    names.push((listed.name, is_dir));
                }
                Ok(None) => break,
                Err(errno) => {
                    let path = if pair.in_copy { &pair.paths.1 } else { &pair.paths.0 };
                    self.later(Error::new(What::CannotAccess, path.path()).errno(errno));
                    break;
                }
            }
        }
        let over = names.is_empty();
        if !over {
            self.hand_over(sides, names, pair.in_copy, directories);
        } else if !pair.in_copy && !pair.is_cache && pair.listed.is_none() {
            pair.in_copy = true;
            pair.listing = Listing::default();
            return true;
        }
        !over
    }

    fn hand_over(
        &mut self,
        sides: Arc<Sides>,
        names: Vec<(OsString, bool)>,
        of_copy: bool,
        directories: Arc<AtomicU32>,
    ) {
        self.row.take_in();
        self.report();
        while self.is_full() && !self.row.is_broken() {
            self.row.wait();
            self.report();
        }
        let (slot, answer) = (self.row.put_batch(names.len(), directories), self.row.answer());
        let positions = names.into_iter().enumerate().map(|(at, (name, is_dir))| (is_dir, (at, name)));
        // Others have other mounts, perhaps: they do not know which directory is meant before it is entered.
        let (own, names): (Vec<_>, Vec<_>) = positions.partition(|(is_dir, _)| *is_dir && self.session.board.is_some());
        let plain = |names: Vec<(bool, (usize, OsString))>| names.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        let batch = Batch { sides, slot, of_copy, names: plain(names), answer };
        if !own.is_empty() {
            self.board.put_for_own(batch.with(plain(own)));
        }
        if !batch.names.is_empty() {
            self.board.put(batch);
        }
    }

    fn is_full(&self) -> bool {
        let open = self.row.open();
        let here = open.saturating_sub(self.board.away());
        open > 0 && (here >= self.under_way || open >= self.most_open || self.row.holds_much())
    }

    fn later(&mut self, error: Error) {
        self.row.put_error(error);
    }

    /// Tells what is known, in order.
    fn report(&mut self) {
        while let Some(next) = self.row.next() {
            match next {
                Slot::Error(error) | Slot::Gone(_, error) => self.problem(&error),
                Slot::Batch { entries, reports, .. } => {
                    self.summary.entries += entries;
                    reports.into_iter().for_each(|(_, one)| self.say(one));
                }
            }
        }
    }

    /// Waits for what is under way, and reports it.
    fn report_all(&mut self) {
        self.row.take_in();
        self.report();
        while self.row.open() > 0 && !self.row.is_broken() {
            self.row.wait();
            self.report();
        }
    }

    fn problem(&mut self, error: &Error) {
        self.summary.errors += 1;
        self.session.observer.problem(error);
    }

    fn say(&mut self, Compared { source, copy, outcome }: Compared) {
        let Outcome { links, mut differences, problems, .. } = outcome;
        differences.extend(links.and_then(|both| self.links.look(both, &copy)));
        for difference in differences {
            self.summary.differences += 1;
            self.session.observer.differs(&Found { source: source.path(), copy: copy.path(), difference });
        }
        for error in &problems {
            self.problem(error);
        }
    }
}

/// The next entry of a directory in a list. Those of a directory come behind it, and before whatever is not in it.
fn next_listed(list: &FileList, dir: Index, next: &mut Index) -> Option<Listed> {
    while (*next as usize) < list.len() {
        let parent = list.parent(*next).filter(|parent| *parent >= dir)?;
        let at = *next;
        *next += 1;
        if parent == dir {
            let is_dir = list.kind(at) == Kind::Directory;
            let kind = Some(if is_dir { FileType::Directory } else { FileType::RegularFile });
            return Some(Listed { name: list.name(at).to_owned(), kind, entry: Some(at), made: None });
        }
    }
    None
}

fn may_be_directory(listed: &Listed, plan: &Plan) -> bool {
    let follow = plan.dereference == Dereference::Always;
    match listed.kind {
        Some(FileType::Directory) | None => true,
        Some(FileType::Symlink) => follow,
        _ => false,
    }
}

/// The name that a copy of an operand has in a directory.
fn below(directory: &OsStr, operand: &OsStr) -> PathBuf {
    let base = last_component(without_trailing_slashes(operand));
    let dir = Path::new(directory);
    if base == ".." || base == "." || base.is_empty() { dir.to_owned() } else { dir.join(base) }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
