//! Containers that are copied as what they are: every file of them byte for byte, but for what holds nothing else than
//! free bytes of the disk.
//!
//! `VirtualDisk::host_ranges` names these: stored clusters that hold free bytes of the disk and nothing else, counted
//! once, away from every table. They become holes, so no table changes and these clusters read as zeros. At the end the
//! guest's maps, the container's tables and the counts are read again, and all files are looked at; of several files
//! those that were copied first are copied again if need be. The descriptor comes last.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_guest::container::VirtualDisk;
use haul_guest::report::Map;
use haul_guest::{ExtentSet, ReadAt};
use haul_sys::inode::FileId;

use haul_fs::error::{Error, What};

use super::changes::{Doubt, Look};
use super::found::{Found, Mapper};
use super::in_use::InUse;
use super::options::{Mode, Options, Smart};
use super::source::Source;
use super::steps::{SECTOR, holds_a_sleeper};
use super::system::System;
use super::task::{Event, Observer};

/// A container and its files, to be copied one by one.
pub struct Kept {
    disk: Arc<VirtualDisk>,
    /// The first is the one that was named.
    files: Arc<[Source]>,
}

/// So many bytes of a disk are read at once to find what sleeps there.
const AT_ONCE: usize = 1 << 20;

/// Why nothing can be left out.
const NOT_ONE_BY_ONE: &str = "its clusters cannot be left out one by one: they are compressed, shared by snapshots, or \
                              not counted as they should be";

impl Kept {
    /// With this disk in it; `source` is the file that was named.
    pub(super) fn new(disk: Arc<VirtualDisk>, source: &Source, others: Vec<Source>) -> Kept {
        let files: Arc<[Source]> = std::iter::once(source.bare()).chain(others).collect();
        Kept { disk, files }
    }

    /// The files, the first of which is the one that was named. They are copied to files of the same names.
    pub fn files(&self) -> &[Source] {
        &self.files
    }

    /// Whether the copies of the other files may have the names that these have. Somebody may have made up the names in
    /// the first one so that a file of another kind is overwritten by a copy.
    ///
    /// # Errors
    /// [`What::NotItsName`], of the first that may not.
    pub fn check_names(&self) -> Result<(), Error> {
        let is_usual = |name: &OsStr| name.as_bytes().to_ascii_lowercase().ends_with(b".vmdk");
        match self.files.iter().skip(1).find(|file| !is_usual(file.path.file_name().unwrap_or_default())) {
            Some(file) => Err(Error::new(What::NotItsName, &file.path)),
            None => Ok(()),
        }
    }

    /// Finds what of a container with this map can be left out of copies of its files.
    ///
    /// # Errors
    /// The map, and why nothing can be left out though something is free.
    pub fn found(&self, map: Map) -> Result<Found, (Map, &'static str)> {
        match self.disk.host_ranges(&map.free) {
            Some(host) => Ok(Found::in_container(map, Arc::clone(&self.disk), host)),
            None => Err((map, NOT_ONE_BY_ONE)),
        }
    }

    /// The disk that the container holds.
    pub fn disk(&self) -> &VirtualDisk {
        &self.disk
    }

    /// Which files it has, and how they were when they were opened.
    pub fn state(&self, system: &System) -> Vec<(FileId, Look)> {
        self.files.iter().map(|file| (file.inode.id, Look::of(&file.inode, system))).collect()
    }

    /// Who uses one of its files.
    pub fn in_use(&self, system: &System) -> Option<InUse> {
        self.files.iter().find_map(|file| file.in_use(system))
    }

    /// Whether a system hibernates in a swap file of the disk. All is read that the container stores of it, but for these free bytes,
    /// until `stop` says so.
    ///
    /// # Errors
    /// If something cannot be read.
    pub fn holds_a_sleeper(&self, free: &ExtentSet, stop: &dyn Fn() -> bool) -> io::Result<bool> {
        let left_out = free.union(self.disk.unallocated()).trimmed_to(SECTOR as u64);
        let mut buffer = vec![0; AT_ONCE];
        for extent in left_out.complement(0..self.disk.size()).iter() {
            for offset in (extent.start..extent.end()).step_by(AT_ONCE) {
                if stop() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let bytes = &mut buffer[..AT_ONCE.min((extent.end() - offset) as usize)];
                self.disk.read_exact_at(offset, bytes)?;
                if holds_a_sleeper(bytes) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Finds what can be left out, and reports it.
    fn look(&self, task: &KeepTask<'_>) -> Free {
        match task.options.smart {
            Smart::Off => return Free::Unasked,
            Smart::Snapshot => {}
            Smart::Auto => {
                if let Some(user) = self.in_use(&task.system) {
                    task.observer.event(&Event::InUse(&user));
                    return Free::Nothing;
                }
            }
        }
        let map = (task.mapper)(&*self.disk);
        task.observer.event(&Event::Mapped(&map));
        let free = map.free.bytes();
        match self.found(map) {
            Ok(found) => Free::Found(Box::new(found)),
            Err((_, why)) => {
                if free > 0 {
                    task.observer.event(&Event::KeptWhole(why));
                }
                Free::Nothing
            }
        }
    }

    /// Copies all files: each by `copy`, which gets the file with its number and what may be left out of it, and says
    /// whether it is whole. The one that was named comes last, so that a container is not whole without its others.
    ///
    /// If in the end not everything is as it was, or that cannot be found out, the files of which something was left out
    /// are copied again, whole. After a copy that failed nothing more is done.
    pub fn copy(&self, task: &KeepTask<'_>, copy: &mut dyn FnMut(usize, &Source, Option<&Found>) -> bool) {
        let mut free = self.look(task);
        let order = || (1..self.files.len()).chain([0]);
        for number in order() {
            let Some(file) = &self.file(number) else { continue };
            let whole = match &mut free {
                Free::Unasked => copy(number, file, None),
                Free::Nothing => copy(number, file, Some(&Found::nothing(file.size))),
                Free::Found(found) => {
                    found.turn_to(number);
                    copy(number, file, Some(found))
                }
            };
            if !whole {
                return;
            }
        }
        let Free::Found(mut found) = free else { return };
        // Of a single file that was asked a moment ago; of those that were copied first, long ago.
        if self.files.len() == 1 || task.options.mode == Mode::WriteOnly {
            return;
        }
        let Some(doubt) = self.doubt(&found, task) else { return };
        for number in order() {
            found.turn_to(number);
            let Some(file) = &self.file(number).filter(|_| !found.free().is_empty()) else { continue };
            task.observer.event(&Event::Doubted(&doubt, found.free().bytes()));
            if !copy(number, file, Some(&Found::nothing(file.size))) {
                return;
            }
        }
    }

    /// Why what was found is not to be relied on in the end, if it is not.
    fn doubt(&self, found: &Found, task: &KeepTask<'_>) -> Option<Doubt> {
        if found.asleep.load(Ordering::Relaxed) {
            return Some(Doubt::Asleep);
        }
        if !matches!(found.still_holds(&*self.disk), Ok(true)) {
            return Some(Doubt::Map);
        }
        if !self.files.iter().all(|file| matches!(file.is_written(&task.system), Ok(false))) {
            return Some(Doubt::Written);
        }
        let user = if task.options.smart == Smart::Auto { self.in_use(&task.system) } else { None };
        user.map(Doubt::InUse)
    }

    /// One of the files, with the others none of which its copy may overwrite.
    fn file(&self, number: usize) -> Option<Source> {
        let file = self.files.get(number)?;
        Some(Source { others: Arc::clone(&self.files), ..file.bare() })
    }
}

/// What is known of the free bytes of a container.
enum Free {
    /// They are not looked for.
    Unasked,
    /// Nothing can be left out.
    Nothing,
    Found(Box<Found>),
}

/// How a container is to be copied.
pub struct KeepTask<'a> {
    /// What the user wants.
    pub options: Options,
    /// Finds the free bytes of its disk.
    pub mapper: &'a Mapper<'a>,
    /// Where the kernel tells who uses an image.
    pub system: System,
    /// Hears what is found.
    pub observer: &'a dyn Observer,
}
