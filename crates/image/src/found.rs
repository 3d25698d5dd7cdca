//! What of a file need not be copied, and what that rests on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_guest::container::{HostRanges, VirtualDisk};
use haul_guest::report::Map;
use haul_guest::{ExtentSet, ReadAt};
use haul_sys::inode::Inode;

use haul_io::facts::Surroundings;
use haul_io::transfer::Scattered;

use super::changes::Look;

/// Finds the free bytes of an image. Never fails: what is not proven free is used.
pub type Mapper<'a> = dyn Fn(&dyn ReadAt) -> Map + Sync + 'a;

/// The free bytes of a source.
pub struct Found {
    /// The disk and its regions.
    pub map: Map,
    /// Bytes of the file to be copied that are left out, if they are not those of the map.
    in_container: Option<InContainer>,
    /// A hibernated system was found in it while it was copied.
    pub(super) asleep: AtomicBool,
}

/// A container that is copied as one: what is left out are bytes of its files that hold nothing but free bytes of its disk.
struct InContainer {
    disk: Arc<VirtualDisk>,
    host: HostRanges,
    /// Which of the files is copied.
    part: usize,
    nothing: ExtentSet,
}

impl Found {
    /// The source is the disk itself.
    pub fn of_disk(map: Map) -> Found {
        Found { map, in_container: None, asleep: AtomicBool::new(false) }
    }

    /// Nothing is left out of a source of `size` bytes but its holes.
    pub fn nothing(size: u64) -> Found {
        Found::of_disk(Map { size, ..Map::default() })
    }

    /// The source is the first file of a container with this disk, of which `host` may be left out.
    pub(crate) fn in_container(map: Map, disk: Arc<VirtualDisk>, host: HostRanges) -> Found {
        let in_container = Some(InContainer { disk, host, part: 0, nothing: ExtentSet::new() });
        Found { map, in_container, asleep: AtomicBool::new(false) }
    }

    /// From here on the source is this file of the container.
    pub fn turn_to(&mut self, file: usize) {
        if let Some(container) = &mut self.in_container {
            container.part = file;
        }
    }

    /// What is left out, in bytes of the source.
    pub fn free(&self) -> &ExtentSet {
        match &self.in_container {
            None => &self.map.free,
            Some(InContainer { host, part, nothing, .. }) => host.files.get(*part).unwrap_or(nothing),
        }
    }

    /// What is left out, in bytes of the disk: a part of what its map calls free.
    pub fn free_of_disk(&self) -> &ExtentSet {
        self.in_container.as_ref().map_or(&self.map.free, |container| &container.host.held)
    }

    /// Whether everything that it rests on is as it was. `source` is what is copied.
    ///
    /// # Errors
    /// If some of that cannot be read any more.
    pub fn still_holds(&self, source: &dyn ReadAt) -> io::Result<bool> {
        match &self.in_container {
            None => self.map.still_holds(source),
            // The tables first: the map reads the disk by them.
            Some(InContainer { disk, host, .. }) => {
                Ok(disk.still_holds()? && host.still_holds()? && self.map.still_holds(&**disk)?)
            }
        }
    }
}

/// A destination that is open already.
#[derive(Clone)]
pub struct Given<'a> {
    /// The destination, open for writing. Not closed; whoever has it cleans up after a failure.
    pub dest: Arc<OwnedFd>,
    /// Its attributes.
    pub dest_inode: &'a Inode,
    /// The source before anything was looked for in it.
    pub first: Look,
    /// Facts about both sides, if they were asked for already.
    pub around: Option<Surroundings>,
    /// How it goes to its device, if somebody has to see to that.
    pub unwritten: Option<Scattered>,
}
