//! Sources that a move leaves where they are, in memory of bounded size.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use haul_sys::Errno;

use crate::links::{DestDir, LinkTable, Made, Source, duplicate};

/// The sources that stay. What does not fit into memory goes to a file without a name at the destination.
#[derive(Default)]
pub(crate) struct Stays {
    table: LinkTable,
    room: Room,
    /// One could not be noted.
    broken: AtomicBool,
}

impl Stays {
    /// Notes that this one stays. `near` is a directory of the destination.
    ///
    /// # Errors
    /// Why it could not be noted: then nothing is known of any source.
    pub fn note(&self, source: Source, near: &DestDir) -> Result<(), Errno> {
        let noted = self.room.near(near).and_then(|room| {
            let nothing = || Made { dir: Arc::clone(&room), name: OsString::new(), id: None };
            self.table.remember(source, nothing).map(drop)
        });
        self.broken.fetch_or(noted.is_err(), Ordering::Relaxed);
        noted
    }

    /// There is one that cannot be noted.
    pub fn lose(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether this one stays.
    ///
    /// # Errors
    /// It is not known; ESTALE if that was lost.
    pub fn has(&self, source: Source) -> Result<bool, Errno> {
        match self.broken.load(Ordering::Relaxed) {
            true => Err(Errno::STALE),
            false => self.table.get(source).map(|noted| noted.is_some()),
        }
    }

    /// A table that goes to its file at once.
    #[cfg(test)]
    pub fn without_memory() -> Stays {
        Stays { table: LinkTable::new(1), ..Stays::default() }
    }
}

/// The directory of the file of a table. The directories that were made are known by numbers of another table.
#[derive(Default)]
pub(super) struct Room(OnceLock<Arc<DestDir>>);

impl Room {
    /// On the filesystem of the first directory that is asked for.
    pub fn near(&self, dir: &DestDir) -> Result<Arc<DestDir>, Errno> {
        if let Some(room) = self.0.get() {
            return Ok(Arc::clone(room));
        }
        let room = DestDir::root_shown_as(Arc::new(duplicate(dir.top()?)?), OsString::new())?;
        Ok(Arc::clone(self.0.get_or_init(|| room)))
    }
}

#[cfg(test)]
mod tests {
    use haul_sys::inode::FileId;

    use super::*;
    use crate::context::test_support::Bench;
    use crate::plan::Plan;

    #[test]
    fn what_was_noted_stays_wherever_it_was_to_go() {
        let bench = Bench::new(Plan::default()).source("a", "").source("b", "").source("c", "");
        let [a, b, c] = ["a", "b", "c"].map(|name| bench.from(name).inode().unwrap());
        let (links, stays, root) = (LinkTable::default(), Stays::default(), bench.root());
        let below = root.below("d".as_ref(), a.id, a.id);
        // Directories have numbers in the other table.
        links.remember((&c).into(), || Made { dir: Arc::clone(&below), name: "c".into(), id: None }).unwrap();
        stays.note((&a).into(), &below).unwrap();
        stays.note((&b).into(), &root).unwrap();
        assert_eq!([a, b, c].map(|inode| stays.has((&inode).into())), [Ok(true), Ok(true), Ok(false)]);
    }

    #[test]
    fn nothing_is_known_after_one_could_not_be_noted() {
        let bench = Bench::new(Plan::default()).source("a", "").source("b", "");
        let [a, b] = ["a", "b"].map(|name| bench.from(name).inode().unwrap());
        let stays = Stays::without_memory();
        let nowhere = Arc::new(std::fs::File::open("/proc").unwrap().into());
        let dir = DestDir::root_shown_as(nowhere, "/proc/".into()).unwrap();
        let of = |number: u64| Source { id: FileId::new(a.id.device(), 1 << 40 | number), born: None };
        assert!((0..1000).any(|number| stays.note(of(number), &dir).is_err()), "there is a place for everything");
        assert_eq!([a, b].map(|inode| stays.has((&inode).into()).is_err()), [true, true]);
    }
}
