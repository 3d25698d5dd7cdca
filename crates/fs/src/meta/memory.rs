//! What is remembered from one file to the next.

use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::DeviceNumber;
use haul_sys::object::Object;
use parking_lot::RwLock;

/// Remembers what kind of filesystem a device has.
#[derive(Debug, Default)]
pub struct KnownFilesystems {
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

/// Filesystems that keep to the kernel's rules; the numbers are those of statfs(2).
const KEEP_TO_RULES: [FilesystemType; 6] = [
    FilesystemType::EXT,
    FilesystemType::XFS,
    FilesystemType::BTRFS,
    FilesystemType::TMPFS,
    FilesystemType::F2FS,
    FilesystemType::OVERLAY,
];

impl KnownFilesystems {
    /// An empty memory.
    pub fn new() -> KnownFilesystems {
        KnownFilesystems::default()
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
