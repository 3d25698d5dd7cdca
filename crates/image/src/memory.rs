//! Files that hold the memory of suspended machines, and whether such a machine has an image as a disk.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::CWD;

use super::system::{names_of, open_regular};

/// Bytes at the beginning of a file that tell what it is.
pub(super) const START: usize = 64;

/// How files begin in which libvirt saves a machine: of QEMU, whole or half (`qemu_saveimage.h`), and of Xen
/// (`libxl_conf.h`); and where the description of the machine in XML begins, which ends with a zero byte.
const LIBVIRT: [(&[u8], usize); 3] =
    [(b"LibvirtQemudSave", 92), (b"LibvirtQemudPart", 92), (b"libvirt-xml\n \0 \r", 64)];

/// How a migration stream of QEMU begins (`migration/savevm.h`): its magic, and the versions that are read today.
const QEMU: [&[u8]; 2] = [b"QEVM\0\0\0\x03", b"QEVM\0\0\0\x02"];

/// How files begin in which VirtualBox (`SSM.cpp`), and Xen by `xl` and by `xm`, save a machine.
const OTHERS: [&[u8]; 3] = [b"\x7fVirtualBox SavedState V", b"Xen saved domain, xl format\n", b"LinuxGuestRecord"];

/// How VMware's checkpoints begin: suspended machines, whole or in part, and old ones.
const VMWARE: [u32; 3] = [0xbed2_bed2, 0xbed3_bed3, 0xbed0_bed0];

/// Bytes of a file of libvirt in which the description is looked for.
const DESCRIPTION: u64 = 256 << 10;

/// What wrote the memory of a machine to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// libvirt, with a description that names the disks.
    Libvirt,
    /// QEMU alone, with no names.
    Qemu,
    /// VMware, VirtualBox or Xen: the names, if any, are not read.
    Other,
}

impl Format {
    /// That of a file with this name which begins with these bytes. The state of a snapshot of VMware (`*.vmsn`) belongs to
    /// what the disk was then, from which another disk goes on.
    pub(super) fn of(name: &OsStr, start: &[u8]) -> Option<Format> {
        let begins = |magics: &[&[u8]]| magics.iter().any(|magic| start.starts_with(magic));
        let is_vmware = || start.first_chunk().is_some_and(|magic| VMWARE.contains(&u32::from_le_bytes(*magic)));
        match extension(name).as_deref() {
            _ if LIBVIRT.iter().any(|(magic, _)| start.starts_with(magic)) => Some(Format::Libvirt),
            _ if begins(&QEMU) => Some(Format::Qemu),
            _ if begins(&OTHERS) => Some(Format::Other),
            Some(b"vmss") if !start.is_empty() => Some(Format::Other),
            Some(b"vmsn") => None,
            _ => is_vmware().then_some(Format::Other),
        }
    }
}

/// Whether the name is that of such a file.
pub(super) fn is_usual_name(name: &OsStr) -> bool {
    matches!(extension(name).as_deref(), Some(b"save" | b"sav" | b"vmss"))
}

fn extension(name: &OsStr) -> Option<Vec<u8>> {
    Path::new(name).extension().map(|extension| extension.as_bytes().to_ascii_lowercase())
}

/// Whether Proxmox gave both names, to volumes of different machines: `vm-100-state-suspend-2026-01-01.raw` and
/// `vm-101-disk-0.raw`.
pub(super) fn are_of_different_machines(memory: &OsStr, image: &OsStr) -> bool {
    let ids = owner(memory).zip(owner(image));
    ids.is_some_and(|(memory, image)| memory != image)
}

/// The number of the machine in the name of a volume of Proxmox.
fn owner(name: &OsStr) -> Option<&[u8]> {
    let name = name.as_bytes();
    let rest = name.strip_prefix(b"vm-").or_else(|| name.strip_prefix(b"base-"))?;
    let id = rest.split(|byte| *byte == b'-').next().filter(|id| rest.len() > id.len())?;
    (!id.is_empty() && id.iter().all(u8::is_ascii_digit)).then_some(id)
}

/// The first bytes of a regular file; `None` of anything else.
pub(super) fn start(file: &Path, most: u64) -> Result<Option<Vec<u8>>, Errno> {
    let Some(opened) = open_regular(file)? else { return Ok(None) };
    let mut start = Vec::new();
    opened.take(most).read_to_end(&mut start).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(Some(start))
}

/// An image that may be a disk of a machine.
pub(super) struct Disk<'a> {
    /// What it is called, and what the file is called that it leads to.
    pub names: Vec<OsString>,
    pub inode: &'a Inode,
}

impl Disk<'_> {
    pub(super) fn new<'a>(path: &Path, inode: &'a Inode) -> Disk<'a> {
        let names = names_of(path).filter_map(|path| path.file_name().map(OsStr::to_owned));
        Disk { names: names.collect(), inode }
    }

    /// Whether libvirt saved a machine in the file whose description names the image: by its name, in whatever directory, or
    /// by a path that leads to it.
    pub(super) fn is_named_in(&self, file: &Path) -> Result<bool, Errno> {
        let Some(start) = start(file, DESCRIPTION)? else { return Ok(false) };
        let header = LIBVIRT.iter().find(|(magic, _)| start.starts_with(magic));
        let Some(description) = header.and_then(|(_, len)| start.get(*len..)) else { return Ok(false) };
        match description.iter().position(|byte| *byte == 0) {
            Some(end) => Ok(self.is_named_by(&description[..end])),
            // What follows of a very long one may name it.
            None => Ok(start.len() as u64 == DESCRIPTION || self.is_named_by(description)),
        }
    }

    fn is_named_by(&self, description: &[u8]) -> bool {
        let values = attributes(description);
        let is_name = |(element, value): &(&[u8], Vec<u8>)| {
            let is_disk = matches!(*element, b"source" | b"qemu:arg");
            self.names.iter().any(|name| has_name(value, name.as_bytes(), is_disk))
        };
        values.iter().any(is_name) || values.iter().any(|(_, value)| paths(value).any(|path| self.is_at(path)))
    }

    fn is_at(&self, path: &[u8]) -> bool {
        Inode::at_following(CWD, OsStr::from_bytes(path)).is_ok_and(|found| match self.inode.kind {
            Kind::BlockDevice => found.kind == Kind::BlockDevice && found.node == self.inode.node,
            _ => found.id == self.inode.id,
        })
    }
}

/// What parts the values of QEMU's options, and of locations in a network: `file=/vm/disk.img,if=virtio`.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b'=' | b':' | b'"')
}

/// Whether a value has the name as the last component of a path; or, if it is that of a `disk`, as a word.
fn has_name(value: &[u8], name: &[u8], is_disk: bool) -> bool {
    value.windows(name.len().max(1)).enumerate().any(|(at, found)| {
        let before = at.checked_sub(1).map(|before| value[before]);
        let starts = before.map_or(is_disk, |byte| byte == b'/' || (is_disk && is_separator(byte)));
        found == name && starts && value.get(at + name.len()).is_none_or(|byte| is_separator(*byte))
    })
}

/// The absolute paths that a value may have.
fn paths(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = value.split(|byte| is_separator(*byte)).filter(|part| part.len() < value.len());
    std::iter::once(value).chain(parts).filter(|path| path.starts_with(b"/"))
}

/// The values of all attributes in XML, with the names of their elements.
fn attributes(xml: &[u8]) -> Vec<(&[u8], Vec<u8>)> {
    let mut found = Vec::new();
    for element in xml.split(|byte| *byte == b'<').skip(1) {
        let name = element.split(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/')).next();
        let mut rest = element;
        while let Some(start) = rest.iter().position(|byte| matches!(byte, b'\'' | b'"')) {
            let (quote, value) = (rest[start], &rest[start + 1..]);
            let Some(end) = value.iter().position(|byte| *byte == quote) else { break };
            found.push((name.unwrap_or_default(), unescaped(&value[..end])));
            rest = &value[end + 1..];
        }
    }
    found
}

fn unescaped(value: &[u8]) -> Vec<u8> {
    const ENTITIES: [(&[u8], u8); 5] =
        [(b"&lt;", b'<'), (b"&gt;", b'>'), (b"&apos;", b'\''), (b"&quot;", b'"'), (b"&amp;", b'&')];
    let mut found = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, others)) = rest.split_first() {
        let entity = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        found.push(entity.map_or(*first, |(_, byte)| *byte));
        rest = entity.map_or(others, |(entity, _)| &rest[entity.len()..]);
    }
    found
}
