//! The walk through both trees, and the threads beside it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use haul_sys::Errno;
use haul_sys::rustix::fs::{FileType, Mode, OFlags, openat};

use crate::error::{Error, What};
use crate::facts::{self, FileId, Inode, Kind};
use crate::plan::{Dereference, Destination, Plan};
use crate::walk::{Listed, Listing, Operand, Spot, last_component, without_trailing_slashes};

use super::entry::{self, Buffers, Outcome};
use super::links::Links;
use super::{Found, Rules, Session, Summary, joined};

/// Names in one batch: few enough that all threads have some, many enough that handing them over costs nothing.
const BATCH: usize = 32;

/// Batches under way. Each may hold a directory of its own open on both sides.
const UNDER_WAY: usize = 64;

/// Directories of the path that are held open on both sides; those above are opened again on the way back.
const OPEN_LEVELS: usize = 64;

/// Both directories, open.
struct Sides {
    source: OwnedFd,
    copy: OwnedFd,
    source_path: PathBuf,
    copy_path: PathBuf,
}

/// Names to be compared by whoever takes them.
struct Batch {
    sides: Arc<Sides>,
    names: Vec<OsString>,
    /// Names of the copy, of which only those count that the source lacks.
    of_copy: bool,
    answer: SyncSender<Vec<Compared>>,
}

/// What was found under one name.
struct Compared {
    source: PathBuf,
    copy: PathBuf,
    outcome: Outcome,
}

/// What is to be told, in order.
enum Pending {
    Answer(Receiver<Vec<Compared>>),
    Now(Error),
}

/// Compares every source with what a copy of it by this plan has made.
pub fn compare(plan: &Plan, session: &Session<'_>) -> Summary {
    let rules = Rules { plan, xattrs: session.rules, stop: session.stop };
    // Whoever waits for a batch waits with the lock, so it is never held by one who works.
    let (give, take) = sync_channel::<Batch>(UNDER_WAY);
    let take = Mutex::new(take);
    let threads = plan.jobs.unwrap_or_else(|| facts::cores().clamp(2, 8)).max(1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&rules, &take));
        }
        let mut walk = Walk {
            rules: &rules,
            session,
            give,
            pending: VecDeque::new(),
            links: Links::default(),
            summary: Summary::default(),
        };
        walk.operands();
        walk.tell(0);
        walk.summary.stopped = (session.stop)();
        // Dropping the walk ends the others.
        walk.summary
    })
}

fn work(rules: &Rules<'_>, take: &Mutex<Receiver<Batch>>) {
    let mut buffers = Buffers::new();
    loop {
        let batch = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Batch { sides, names, of_copy, answer }) = batch else { return };
        let mut found = Vec::new();
        for name in names {
            if (rules.stop)() {
                break;
            }
            let (source, copy) = (joined(&sides.source_path, &name), joined(&sides.copy_path, &name));
            let spots = (Spot::new(sides.source.as_fd(), &name, &source), Spot::new(sides.copy.as_fd(), &name, &copy));
            if of_copy && !matches!(spots.0.inode(), Err(Errno::NOENT)) {
                continue;
            }
            let outcome = entry::compare(rules, spots.0, spots.1, &mut buffers);
            found.push(Compared { source, copy, outcome });
        }
        drop(sides);
        // Nobody listens if the walk has panicked.
        answer.send(found).ok();
    }
}

struct Walk<'a> {
    rules: &'a Rules<'a>,
    session: &'a Session<'a>,
    give: SyncSender<Batch>,
    pending: VecDeque<Pending>,
    links: Links,
    summary: Summary,
}

/// A directory that is gone through.
struct Level {
    sides: Option<Arc<Sides>>,
    ids: (FileId, FileId),
    listing: Listing,
    /// Directories of the batch that was given away last.
    inner: VecDeque<OsString>,
    /// The names of the source are done, now come those of the copy.
    in_copy: bool,
    paths: (PathBuf, PathBuf),
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
                for source in &plan.sources {
                    let copy = if into { below(path, source) } else { PathBuf::from(path) };
                    self.operand(source, &copy);
                }
            }
            Err((what, errno)) => self.later(Error::new(what, path).errno(errno)),
        }
    }

    fn operand(&mut self, source_path: &OsStr, copy_path: &Path) {
        let (source, copy) = (Operand::open(source_path), Operand::open(copy_path.as_os_str()));
        let (source, copy) = (source.spot(), copy.spot());
        let follow = self.rules.plan.dereference != Dereference::Never;
        let inode = if follow { source.inode_following() } else { source.inode() };
        let is_dir = inode.as_ref().is_ok_and(|inode| inode.kind == Kind::Directory);
        if is_dir && !self.rules.plan.recursive {
            self.later(Error::new(What::OmittingDirectory, source.path));
            return;
        }
        let mut rules = Rules { plan: self.rules.plan, ..*self.rules };
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
        let both =
            outcome.inodes.is_some_and(|(one, other)| one.kind == Kind::Directory && other.kind == Kind::Directory);
        self.tell(0);
        self.say(Compared { source: source.path.to_owned(), copy: copy.path.to_owned(), outcome });
        if is_dir && both {
            self.tree(source, copy);
        }
    }

    /// Goes through two directories and all below them.
    fn tree(&mut self, source: Spot<'_>, copy: Spot<'_>) {
        let mut stack = Vec::new();
        stack.extend(self.enter(source, copy, true));
        while let Some(level) = stack.last_mut() {
            if (self.rules.stop)() {
                return;
            }
            if let Some(name) = level.inner.pop_front() {
                let child = self.descend(level, &name);
                self.push(&mut stack, child);
            } else if !self.go_on(level)
                && let Some(done) = stack.pop()
                && let Some(parent) = stack.last_mut()
                && let Err(error) = reopen(parent, &done)
            {
                self.later(error);
                stack.pop();
            }
        }
    }

    fn push(&mut self, stack: &mut Vec<Level>, child: Option<Level>) {
        let Some(child) = child else { return };
        // Only a link, or a mount, leads back up.
        if stack.iter().any(|level| level.ids.0 == child.ids.0) {
            self.later(Error::new(What::CyclicLink, &child.paths.0));
            return;
        }
        stack.push(child);
        close_far(stack);
    }

    /// Opens both directories; nothing if they are none, which whoever compares them tells.
    fn enter(&mut self, source: Spot<'_>, copy: Spot<'_>, follow: bool) -> Option<Level> {
        let follow = follow || self.rules.plan.dereference == Dereference::Always;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let mut open = |spot: Spot<'_>| match spot.open(flags, 0).and_then(|fd| Ok((Inode::of(fd.as_fd())?.id, fd))) {
            Ok(opened) => Some(opened),
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => None,
            Err(errno) => {
                self.later(Error::new(What::CannotAccess, spot.path).errno(errno));
                None
            }
        };
        let (source_id, source_dir) = open(source)?;
        let (copy_id, copy_dir) = open(copy)?;
        let paths = (source.path.to_owned(), copy.path.to_owned());
        let sides =
            Sides { source: source_dir, copy: copy_dir, source_path: paths.0.clone(), copy_path: paths.1.clone() };
        Some(Level {
            sides: Some(Arc::new(sides)),
            ids: (source_id, copy_id),
            listing: Listing::default(),
            inner: VecDeque::new(),
            in_copy: false,
            paths,
        })
    }

    fn descend(&mut self, level: &Level, name: &OsStr) -> Option<Level> {
        let sides = Arc::clone(level.sides.as_ref()?);
        let (source, copy) = (joined(&level.paths.0, name), joined(&level.paths.1, name));
        let spots = (Spot::new(sides.source.as_fd(), name, &source), Spot::new(sides.copy.as_fd(), name, &copy));
        let child = self.enter(spots.0, spots.1, false)?;
        let foreign = child.ids.0.device() != level.ids.0.device();
        (!(foreign && self.rules.plan.one_file_system)).then_some(child)
    }

    /// Gives the next names of a directory away; `false` if there are no more.
    fn go_on(&mut self, level: &mut Level) -> bool {
        let Some(sides) = level.sides.clone() else { return false };
        let mut names = Vec::with_capacity(BATCH);
        let (dir, path) = match level.in_copy {
            false => (sides.source.as_fd(), &level.paths.0),
            true => (sides.copy.as_fd(), &level.paths.1),
        };
        while names.len() < BATCH {
            match level.listing.next(dir) {
                Ok(Some(listed)) => {
                    if !level.in_copy && may_be_directory(&listed, self.rules.plan) {
                        level.inner.push_back(listed.name.clone());
                    }
                    names.push(listed.name);
                }
                Ok(None) => break,
                Err(errno) => {
                    let error = Error::new(What::CannotAccess, path).errno(errno);
                    self.later(error);
                    break;
                }
            }
        }
        let over = names.is_empty();
        if !over {
            self.hand_over(sides, names, level.in_copy);
        } else if !level.in_copy {
            level.in_copy = true;
            level.listing = Listing::default();
            return true;
        }
        !over
    }

    fn hand_over(&mut self, sides: Arc<Sides>, names: Vec<OsString>, of_copy: bool) {
        self.tell(UNDER_WAY - 1);
        let (answer, wait) = sync_channel(1);
        // Those who take do not end before the walk does.
        if self.give.send(Batch { sides, names, of_copy, answer }).is_ok() {
            self.pending.push_back(Pending::Answer(wait));
        }
    }

    fn later(&mut self, error: Error) {
        self.pending.push_back(Pending::Now(error));
    }

    /// Tells what was found, in order, until so much is left.
    fn tell(&mut self, left: usize) {
        while self.pending.len() > left {
            match self.pending.pop_front() {
                Some(Pending::Now(error)) => self.problem(&error),
                Some(Pending::Answer(wait)) => {
                    wait.recv().unwrap_or_default().into_iter().for_each(|one| self.say(one))
                }
                None => return,
            }
        }
    }

    fn problem(&mut self, error: &Error) {
        self.summary.errors += 1;
        self.session.observer.problem(error);
    }

    fn say(&mut self, Compared { source, copy, outcome }: Compared) {
        self.summary.entries += 1;
        let Outcome { inodes, mut differences, problems } = outcome;
        if self.rules.plan.preserve.links
            && let Some(inodes) = &inodes
        {
            differences.extend(self.links.look(inodes, &copy));
        }
        for difference in differences {
            self.summary.differences += 1;
            self.session.observer.differs(&Found { source: source.clone(), copy: copy.clone(), difference });
        }
        for error in &problems {
            self.problem(error);
        }
    }
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

/// Closes what is far up, so that any depth does with few descriptors.
fn close_far(stack: &mut [Level]) {
    if let Some(far) = stack.len().checked_sub(OPEN_LEVELS + 1) {
        let level = &mut stack[far];
        level.sides = None;
        level.listing.reopened();
    }
}

/// Opens a directory again from the one in it, and makes sure that it is the same.
fn reopen(parent: &mut Level, child: &Level) -> Result<(), Error> {
    if parent.sides.is_some() {
        return Ok(());
    }
    let up = |dir: BorrowedFd<'_>, id: FileId, path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(dir, "..", flags, Mode::empty()).and_then(|fd| Ok((Inode::of(fd.as_fd())?.id, fd)));
        let (found, fd) = opened.map_err(|errno| Error::new(What::CannotAccess, path).errno(errno))?;
        if found == id { Ok(fd) } else { Err(Error::new(What::DirectoryMoved, path)) }
    };
    let Some(sides) = &child.sides else { return Ok(()) };
    let source = up(sides.source.as_fd(), parent.ids.0, &parent.paths.0)?;
    let copy = up(sides.copy.as_fd(), parent.ids.1, &parent.paths.1)?;
    let (source_path, copy_path) = parent.paths.clone();
    parent.sides = Some(Arc::new(Sides { source, copy, source_path, copy_path }));
    Ok(())
}
