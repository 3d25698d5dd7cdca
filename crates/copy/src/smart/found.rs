//! What of a file need not be copied, and what that rests on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use haul_guest::container::{Container, HostRanges};
use haul_guest::report::Map;
use haul_guest::{ExtentSet, ReadAt};

use crate::facts::Inode;

/// The free bytes of a source.
pub struct Found {
    /// The disk and its regions.
    pub map: Map,
    /// Bytes of the file to be copied that are left out, if they are not those of the map.
    in_container: Option<InContainer>,
}

/// A container that is copied as one: what is left out are bytes of its file that hold nothing but free bytes of its disk.
struct InContainer {
    disk: Arc<dyn Container>,
    host: Arc<HostRanges>,
    free: ExtentSet,
}

impl Found {
    /// The source is the disk itself.
    pub fn of_disk(map: Map) -> Found {
        Found { map, in_container: None }
    }

    /// The source is this part of a container.
    pub fn of_part(map: Map, disk: Arc<dyn Container>, host: Arc<HostRanges>, part: usize) -> Found {
        let free = host.files.get(part).cloned().unwrap_or_default();
        Found { map, in_container: Some(InContainer { disk, host, free }) }
    }

    /// What is left out, in bytes of the source.
    pub fn free(&self) -> &ExtentSet {
        self.in_container.as_ref().map_or(&self.map.free, |container| &container.free)
    }

    /// Whether everything that it rests on is as it was. `source` is what is copied.
    ///
    /// # Errors
    /// If it cannot be read any more.
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

/// A destination that is open already, and what of the source is free.
#[derive(Clone)]
pub struct Given<'a> {
    /// The destination, open for writing. Not closed; whoever has it cleans up after a failure.
    pub dest: Arc<OwnedFd>,
    /// Its attributes.
    pub dest_inode: &'a Inode,
    /// What is left out.
    pub found: &'a Found,
}
