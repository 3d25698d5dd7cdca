//! What other processes have open for writing, as far as /proc shows them to us.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_sys::rustix::fs::CWD;

use haul_sys::inode::{DeviceNumber, Inode, Kind};

use super::system::{System, entries};

/// Whether a process has one of these devices open for writing: a virtual machine in a `/dev` of its own, where its locks
/// are not those of our name for the device.
pub(super) fn write_to_device(parts: &[(DeviceNumber, PathBuf)], system: &System) -> bool {
    descriptors(system).any(|link| {
        // Files elsewhere are not asked for: a network may be gone.
        if !fs::read_link(&link).is_ok_and(|target| target.starts_with("/dev")) {
            return false;
        }
        let Ok(inode) = Inode::at_following(CWD, link.as_os_str()) else { return false };
        let ours = inode.kind == Kind::BlockDevice && parts.iter().any(|(node, _)| *node == inode.node);
        ours && Info::of(&link).is_some_and(|info| info.is_to_write())
    })
}

/// Whether a process has this file open for writing. Takes some 10 ms for each 1000 open files of the machine.
pub(super) fn write_to_file(inode: &Inode, system: &System) -> bool {
    descriptors(system).any(|link| {
        // The number is compared first, since that asks no filesystem: a network may be gone. (Before Linux 5.14 it is not
        // to be had.)
        let same_number = |info: &Info| info.is_to_write() && info.inode() == Some(inode.id.inode());
        Info::of(&link).is_some_and(|info| same_number(&info))
            && Inode::at_following(CWD, link.as_os_str()).is_ok_and(|found| found.id == inode.id)
    })
}

/// The descriptors of all processes but this one: `/proc/1/fd/3`.
fn descriptors(system: &System) -> impl Iterator<Item = PathBuf> + use<> {
    let is_number = |path: &Path| path.file_name().is_some_and(|name| name.as_bytes().iter().all(u8::is_ascii_digit));
    let own = std::process::id().to_string();
    let others = entries(&system.proc).filter(move |path| is_number(path) && !path.ends_with(&own));
    others.flat_map(|process| entries(&process.join("fd")))
}

/// How a descriptor was opened, and what.
struct Info(String);

impl Info {
    fn of(link: &Path) -> Option<Info> {
        let path = link.parent()?.with_file_name("fdinfo").join(link.file_name()?);
        fs::read_to_string(path).ok().map(Info)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }

    fn is_to_write(&self) -> bool {
        let flags = self.field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        flags.is_some_and(|flags| flags & 0o3 != 0)
    }

    fn inode(&self) -> Option<u64> {
        self.field("ino:")?.parse().ok()
    }
}
