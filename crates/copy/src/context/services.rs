//! What all threads of a run share: small services, each with a module of its own.

use std::sync::{Arc, OnceLock};

use haul_io::transfer;
use parking_lot::Mutex;

use crate::context::free_space::FreeSpaceGate;
use crate::context::name_queue::NameQueue;
use crate::links::LinkTable;
use crate::meta::{Caller, PairMemory};
use crate::progress::Progress;
use crate::publish::background_sync::BackgroundSync;
use crate::publish::filesystems::Filesystems;
use crate::publish::temporary::TemporaryNames;
use crate::shards::Shards;
use crate::sources::selection::Selection;
use crate::walk::Identities;

/// What has to reach its device.
#[derive(Default)]
pub(crate) struct Durability {
    /// The filesystems that are written to.
    pub filesystems: Filesystems,
    /// Their syncs while files are still being copied.
    pub background: BackgroundSync,
    /// What waits for its name until it is on its device.
    pub names: NameQueue,
}

/// What all threads of a run share.
pub(crate) struct Services {
    /// What was made for source files that have several names, and for directories.
    pub links: LinkTable,
    /// Which attributes cannot be kept between two filesystems, and were warned about.
    pub memory: PairMemory,
    /// Which filesystems show files of others.
    pub identities: Identities,
    /// What was found out about filesystems, devices and memory.
    pub transfers: Arc<transfer::Shared>,
    pub space_gate: FreeSpaceGate,
    /// Whose turn it is to look at a disk image, and to copy it.
    pub images: Mutex<()>,
    /// What has to reach its device, where that matters.
    pub durability: Durability,
    /// The journal, with `--resume`.
    pub progress: OnceLock<Progress>,
    /// What is to be copied, if it is not everything.
    pub selection: Option<Selection>,
    /// Temporary names where no later run will look for them.
    pub names: TemporaryNames,
    /// The state of the job that this run is a shard of.
    pub shards: OnceLock<Shards>,
    /// Who runs the process.
    pub caller: Caller,
}

impl Services {
    /// `several`: more than one thread may be at work.
    pub fn new(selection: Option<Selection>, caller: Caller, several: bool) -> Services {
        Services {
            links: LinkTable::default(),
            memory: PairMemory::new(),
            identities: Identities::default(),
            transfers: Arc::default(),
            space_gate: FreeSpaceGate::new(several),
            images: Mutex::default(),
            durability: Durability::default(),
            progress: OnceLock::new(),
            selection,
            names: TemporaryNames::anybodys(),
            shards: OnceLock::new(),
            caller,
        }
    }
}
