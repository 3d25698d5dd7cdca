//! Files that an archive has taken away: they have a name, a size and a time, and their contents come back from tape or from a
//! cloud when somebody reads them, which may take hours.
//!
//! Only what the filesystem says counts: Lustre by its HSM state, a server of SMB by the attributes of the file. That a
//! file has fewer blocks than bytes says nothing: it may have holes, or be compressed.

use std::os::fd::AsFd;

use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::object::Object;
use haul_sys::offline::{has_offline_attribute, is_released};
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::io::Errno;
use parking_lot::RwLock;

use crate::walk::Spot;

/// How filesystems say so; each is asked for its type once.
#[derive(Debug, Default)]
pub struct OfflineFiles {
    /// A run meets few filesystems.
    known: RwLock<Vec<(DeviceNumber, Saying)>>,
}

/// How a filesystem says that the contents of a file are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saying {
    /// By the HSM state of Lustre.
    HsmState,
    /// By the attributes that SMB has.
    Attributes,
    /// It does not.
    Nothing,
}

impl OfflineFiles {
    /// Whether the filesystem says that the contents of this file are elsewhere. Of what it says nothing, and of what cannot be
    /// asked, they are taken to be there. `follow`: the entry is a link to the file. Nothing comes back by the question.
    pub fn contain(&self, spot: Spot<'_>, inode: &Inode, follow: bool) -> bool {
        if inode.kind != Kind::Regular || inode.size == 0 {
            return false;
        }
        let flags = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let saying = self.saying(spot, inode.id.device(), flags);
        let said = saying.and_then(|saying| match saying {
            Saying::HsmState => is_released(spot.open(OFlags::RDONLY | OFlags::NONBLOCK | flags, 0)?.as_fd()),
            Saying::Attributes => {
                let file = spot.open(OFlags::PATH | flags, 0)?;
                has_offline_attribute(Object { fd: file.as_fd(), path_only: true })
            }
            Saying::Nothing => Ok(false),
        });
        said.unwrap_or(false)
    }

    fn saying(&self, spot: Spot<'_>, device: DeviceNumber, flags: OFlags) -> Result<Saying, Errno> {
        let known = self.known.read();
        if let Some((_, saying)) = known.iter().find(|(known, _)| *known == device) {
            return Ok(*saying);
        }
        drop(known);
        let saying = Saying::of(FilesystemType::of(spot.open(OFlags::PATH | flags, 0)?)?);
        self.known.write().push((device, saying));
        Ok(saying)
    }
}

impl Saying {
    fn of(filesystem: FilesystemType) -> Saying {
        match filesystem {
            FilesystemType::LUSTRE => Saying::HsmState,
            FilesystemType::CIFS | FilesystemType::SMB2 => Saying::Attributes,
            _ => Saying::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::path::Path;

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn a_file_with_holes_is_there() {
        let dir = temp_dir();
        File::create(dir.path().join("holes")).and_then(|file| file.set_len(1 << 20)).unwrap();
        let parent = File::open(dir.path()).unwrap();
        let spot = Spot::new(parent.as_fd(), OsStr::new("holes"), Path::new("holes"));
        let inode = spot.inode().unwrap();
        let offline = OfflineFiles::default();
        assert!(!offline.contain(spot, &inode, false) && !offline.contain(spot, &inode, false));
        assert_eq!(*offline.known.read(), [(inode.id.device(), Saying::Nothing)]);
        fs::remove_file(dir.path().join("holes")).unwrap();
        assert!(!OfflineFiles::default().contain(spot, &inode, false), "what is gone is not offline");
    }

    #[test]
    fn what_says_nothing_of_archives_is_not_asked() {
        for (filesystem, saying) in [
            (FilesystemType::LUSTRE, Saying::HsmState),
            (FilesystemType::SMB2, Saying::Attributes),
            (FilesystemType::NFS, Saying::Nothing),
            (FilesystemType::EXT, Saying::Nothing),
        ] {
            assert_eq!(Saying::of(filesystem), saying, "{filesystem:?}");
        }
    }
}
