//! What is remembered from one file to the next.

use std::collections::HashSet;

use haul_sys::Errno;
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::DeviceNumber;
use haul_sys::object::Object;
use parking_lot::{Mutex, RwLock};

use crate::error::What;

/// Remembers what was reported, so that a cause is named once for each pair of filesystems and not once for each file;
/// and what kind of filesystem a device has.
#[derive(Debug, Default)]
pub struct PairMemory {
    reported: Mutex<HashSet<(Cause, DeviceNumber, DeviceNumber)>>,
    /// A run meets few filesystems.
    filesystems: RwLock<Vec<(DeviceNumber, Rules)>>,
}

/// Whose rules a filesystem keeps to for owner, mode and ACLs of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Those of the kernel; it names ACLs in the list of attributes.
    Kernel,
    /// Those of an NFS server.
    Nfs,
    Unknown,
}

/// What failed, on which attributes, and what the kernel said.
type Cause = (What, String, Errno);

/// Filesystems that keep to the kernel's rules; the numbers are those of statfs(2).
const KEEP_TO_RULES: [FilesystemType; 6] = [
    FilesystemType::EXT,
    FilesystemType::XFS,
    FilesystemType::BTRFS,
    FilesystemType::TMPFS,
    FilesystemType::F2FS,
    FilesystemType::OVERLAY,
];

impl PairMemory {
    /// An empty memory.
    pub fn new() -> PairMemory {
        PairMemory::default()
    }

    /// Whether this was not reported yet of these two filesystems, those of the source and of the destination.
    pub(super) fn is_news(
        &self,
        cause: What,
        detail: &str,
        errno: Errno,
        (source, dest): (DeviceNumber, DeviceNumber),
    ) -> bool {
        let mut seen = self.reported.lock();
        seen.insert(((cause, detail.to_owned(), errno), source, dest))
    }

    /// Whether this filesystem is one of [`KEEP_TO_RULES`].
    pub(super) fn keeps_to_rules(&self, object: Object<'_>, device: DeviceNumber) -> bool {
        self.rules(object, device) == Rules::Kernel
    }

    /// The rules of a filesystem; it is asked once.
    pub(super) fn rules(&self, object: Object<'_>, device: DeviceNumber) -> Rules {
        let known = self.filesystems.read();
        if let Some((_, rules)) = known.iter().find(|(known, _)| *known == device) {
            return *rules;
        }
        drop(known);
        let rules = match FilesystemType::of(object) {
            Ok(FilesystemType::NFS) => Rules::Nfs,
            Ok(kind) if KEEP_TO_RULES.contains(&kind) => Rules::Kernel,
            _ => Rules::Unknown,
        };
        self.filesystems.write().push((device, rules));
        rules
    }
}
