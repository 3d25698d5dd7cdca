//! The attacker: a thread that swaps names for as long as a copy runs.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use fastrand::Rng;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, mkdirat, openat, openat2, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// One thing that is done and undone.
pub enum Move {
    /// Two names are exchanged in one step.
    Exchange(PathBuf, PathBuf),
    /// A file goes, a link to this comes, and a file again.
    File(PathBuf, PathBuf),
    /// A directory goes, a link to this comes, and a directory again.
    Directory(PathBuf, PathBuf),
    /// A directory is moved out of the tree, and back.
    Away(PathBuf, PathBuf),
}

/// A name, and the directory that it is in right now.
struct Name<'a>(OwnedFd, &'a OsStr);

impl<'a> Name<'a> {
    /// The attacker must not follow the links that are laid for haul.
    fn find(path: &'a Path) -> Result<Name<'a>, Errno> {
        let (dir, name) = (path.parent().ok_or(Errno::INVAL)?, path.file_name().ok_or(Errno::INVAL)?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Name(openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?, name))
    }

    fn rename(&self, other: &Name<'_>, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(&self.0, self.1, &other.0, other.1, flags)
    }

    fn remove(&self, flags: AtFlags) -> Result<(), Errno> {
        unlinkat(&self.0, self.1, flags)
    }

    fn link_to(&self, target: &Path) -> Result<(), Errno> {
        symlinkat(target, &self.0, self.1)
    }

    fn make_file(&self) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, self.1, flags, Mode::from_raw_mode(0o644))?;
        rustix::io::write(file, b"harmless").map(drop)
    }
}

impl Move {
    /// Does it and undoes it; gives the number of swaps. What is in the way, or is not there yet, makes it less.
    fn play(&self) -> u64 {
        let mut swaps = 0;
        // Whatever fails, the next move may succeed.
        self.steps(&mut swaps).ok();
        swaps
    }

    fn steps(&self, swaps: &mut u64) -> Result<(), Errno> {
        let mut done = |result: Result<(), Errno>| result.map(|()| *swaps += 1);
        match self {
            Move::Exchange(one, other) => {
                let (one, other) = (Name::find(one)?, Name::find(other)?);
                done(one.rename(&other, RenameFlags::EXCHANGE))?;
                done(one.rename(&other, RenameFlags::EXCHANGE))
            }
            Move::File(path, to) => {
                let name = Name::find(path)?;
                name.remove(AtFlags::empty())?;
                done(name.link_to(to))?;
                name.remove(AtFlags::empty())?;
                done(name.make_file())
            }
            Move::Directory(path, to) => {
                let name = Name::find(path)?;
                name.remove(AtFlags::REMOVEDIR)?;
                done(name.link_to(to))?;
                name.remove(AtFlags::empty())?;
                done(mkdirat(&name.0, name.1, Mode::from_raw_mode(0o755)))
            }
            Move::Away(path, away) => {
                let (name, away) = (Name::find(path)?, Name::find(away)?);
                done(name.rename(&away, RenameFlags::NOREPLACE))?;
                done(away.rename(&name, RenameFlags::NOREPLACE))
            }
        }
    }
}

/// The attacker's state, shared with the thread that starts the copies.
pub struct Attack {
    moves: Vec<Move>,
    fifo: PathBuf,
    over: AtomicBool,
    swaps: AtomicU64,
    /// Held by whoever must not be disturbed.
    calm: Mutex<()>,
}

impl Attack {
    pub fn new(moves: Vec<Move>, fifo: PathBuf) -> Attack {
        Attack { moves, fifo, over: AtomicBool::new(false), swaps: AtomicU64::new(0), calm: Mutex::new(()) }
    }

    /// Swaps until it is over.
    pub fn run(&self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        while !self.over.load(Ordering::Relaxed) {
            let _calm = self.calm.lock().expect("nobody panics while calm");
            for _ in 0..8 {
                self.swaps.fetch_add(self.moves[rng.usize(..self.moves.len())].play(), Ordering::Relaxed);
            }
        }
    }

    /// Somebody reads from the FIFO: whoever writes to it, as to an existing destination, is not kept waiting for ever.
    /// Gives the descriptor that does it; to be called while all is calm.
    pub fn hold_fifo(&self) -> OwnedFd {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, &self.fifo, flags, Mode::empty()).expect("a FIFO")
    }

    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }

    /// Nothing is swapped until what is given is dropped.
    pub fn calm(&self) -> MutexGuard<'_, ()> {
        self.calm.lock().expect("nobody panics while calm")
    }
}
