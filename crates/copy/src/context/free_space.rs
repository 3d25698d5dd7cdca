//! The gate of free space. What one thread finds full may be full of a file of another that does not fit either, and that is
//! about to be removed. A single thread would have met free space there, so its file is tried again.

use std::os::fd::OwnedFd;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::fstatvfs;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::work::file_data::Broken;

/// Held together by all that fill a file, and by one alone that tries again.
#[derive(Debug)]
pub(crate) struct FreeSpaceGate {
    filling: RwLock<()>,
    /// Other threads may be filling the device, too.
    pub several: bool,
}

/// What a thread holds of it.
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum Held<'a> {
    Together(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

impl FreeSpaceGate {
    pub(crate) fn new(several: bool) -> FreeSpaceGate {
        FreeSpaceGate { filling: RwLock::new(()), several }
    }

    /// Makes an entry; once more if there was no space for it while others were at work.
    pub(crate) fn with_space<T>(&self, make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match make() {
            Err(errno) if is_full(errno) && self.several => {
                let _alone = self.alone();
                make()
            }
            made => made,
        }
    }

    /// A file is being filled, until this is dropped. Space that it gives back must be given back before.
    pub(crate) fn together(&self) -> RwLockReadGuard<'_, ()> {
        self.filling.read()
    }

    /// Waits until no file is being filled: what is half is gone or whole by then. Others wait until this is dropped.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.filling.write()
    }
}

/// Whether a copy failed for want of space.
pub(crate) fn ran_out<T>(result: &Result<T, Broken>) -> bool {
    matches!(result, Err(Broken { error: Some(error) }) if error.errno.is_some_and(is_full))
}

/// Whether the source would fit now, as far as the filesystem says: a large file is not written twice for nothing.
/// So many bytes at its beginning are there.
pub(crate) fn would_fit(dest: &OwnedFd, source: &Inode, there: u64) -> bool {
    let missing = source.size.min(source.allocated).saturating_sub(there);
    fstatvfs(dest).is_ok_and(|free| free.f_bfree.saturating_mul(free.f_frsize) >= missing)
}

fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::error::{Error, What};

    /// Makes something for which there is no space at first; what came of it, and how often that was tried.
    fn make(several: bool, first: Errno) -> (Result<(), Errno>, u32) {
        let tries = Cell::new(0);
        let made = FreeSpaceGate::new(several).with_space(|| {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { Err(first) } else { Ok(()) }
        });
        (made, tries.get())
    }

    #[test]
    fn what_has_no_space_is_made_again_alone() {
        for full in [Errno::NOSPC, Errno::DQUOT] {
            assert_eq!(make(true, full), (Ok(()), 2));
        }
    }

    #[test]
    fn nobody_fills_a_file_while_another_is_tried_again() {
        let (tries, gate) = (Cell::new(0), FreeSpaceGate::new(true));
        let made = gate.with_space(|| {
            tries.set(tries.get() + 1);
            let others_may_fill = gate.filling.try_read().is_some();
            assert_eq!(others_may_fill, tries.get() == 1);
            if others_may_fill { Err(Errno::NOSPC) } else { Ok(()) }
        });
        assert_eq!(made, Ok(()));
    }

    #[test]
    fn a_single_thread_does_not_try_again() {
        assert_eq!(make(false, Errno::NOSPC), (Err(Errno::NOSPC), 1));
    }

    #[test]
    fn other_errors_are_final() {
        assert_eq!(make(true, Errno::EXIST), (Err(Errno::EXIST), 1));
    }

    #[test]
    fn space_is_asked_for_only_twice() {
        let tries = Cell::new(0);
        let gate = FreeSpaceGate::new(true);
        let made: Result<(), Errno> = gate.with_space(|| {
            tries.set(tries.get() + 1);
            Err(Errno::NOSPC)
        });
        assert_eq!((made, tries.get()), (Err(Errno::NOSPC), 2));
    }

    #[test]
    fn who_is_alone_waits_for_who_is_filling() {
        let gate = FreeSpaceGate::new(true);
        let (said, heard) = channel();
        std::thread::scope(|scope| {
            let filling = gate.together();
            let also_filling = gate.together();
            let second = said.clone();
            let gate = &gate;
            scope.spawn(move || {
                let _alone = gate.alone();
                second.send("alone").unwrap();
            });
            drop(also_filling);
            said.send("still filling").unwrap();
            drop(filling);
        });
        drop(said);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["still filling", "alone"]);
    }

    #[test]
    fn only_a_lack_of_space_counts_as_such() {
        let broken = |error| ran_out::<()>(&Err(Broken { error }));
        let writing = Error::new(What::Writing, "b");
        assert!(broken(Some(writing.clone().errno(Errno::NOSPC))));
        assert!(broken(Some(writing.clone().errno(Errno::DQUOT))));
        assert!(!broken(Some(writing.clone().errno(Errno::IO))));
        assert!(!broken(Some(writing)) && !broken(None) && !ran_out(&Ok(())));
    }

    #[test]
    fn a_file_fits_by_the_smaller_of_size_and_allocation() {
        let dir = haul_testbed::temp_dir();
        let file = File::create(dir.path().join("b")).unwrap();
        let inode = Inode { size: 0, allocated: 0, ..Inode::of(file.as_fd()).unwrap() };
        let file = file.into();
        assert!(would_fit(&file, &inode, 0));
        assert!(would_fit(&file, &Inode { size: u64::MAX, ..inode }, 0), "it is one hole");
        assert!(!would_fit(&file, &Inode { size: u64::MAX, allocated: u64::MAX, ..inode }, 0));
        assert!(would_fit(&file, &Inode { size: u64::MAX, allocated: u64::MAX, ..inode }, u64::MAX));
    }
}
