//! Which sources of a smart copy are containers, and are copied as the disks that they hold.
//!
//! A guest owns every byte of a raw image and can make it look like a container. So a file is taken for one only if its
//! name says so too, or the user. What looks like one under another name is copied byte for byte: what its bytes mean as
//! a raw disk is just as doubtful.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_guest::ReadAt;
use haul_guest::container::{self, Alone};
use haul_sys::kernel::Kernel;

use crate::facts::Kind;

use super::source::{Disk, OwnedImage, Source};

/// What a source is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A container if both its name and its contents say so, raw if neither does.
    Auto,
    /// A raw disk, whatever it looks like.
    Raw,
    /// What its contents say, whatever its name.
    Container,
}

/// What a source turned out to be.
pub enum Contents {
    /// A raw disk.
    Raw,
    /// A container of this format, and its disk.
    Container(&'static str, Disk),
    /// A file of which nothing can be known as a disk, and why.
    Bytes(String),
}

/// Finds out what a source is.
pub fn contents(kernel: &Arc<dyn Kernel>, source: &Source, format: Format) -> Contents {
    if format == Format::Raw || source.inode.kind != Kind::Regular {
        return Contents::Raw;
    }
    let image = OwnedImage::new(Arc::clone(kernel), Arc::clone(&source.file), source.size);
    let image: Arc<dyn ReadAt> = Arc::new(image);
    let name = source.path.file_name().unwrap_or_default();
    let opened = match container::open(image, name, &Alone) {
        Ok(opened) => opened,
        Err(refusal) => return Contents::Bytes(format!("it looks like a container: {refusal}")),
    };
    let found = opened.disk.format();
    if found == "raw" {
        return Contents::Raw;
    }
    if format == Format::Auto && format_of_name(&source.path) != Some(found) {
        return Contents::Bytes(format!("it looks like a container of the format {found}, and has no such name"));
    }
    let zeros = opened.disk.unallocated().clone();
    let disk = Arc::clone(&opened.disk);
    let holds = Box::new(move || disk.still_holds());
    Contents::Container(found, Disk { image: opened.disk, zeros, holds })
}

/// The format that a name promises.
fn format_of_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.as_bytes().to_ascii_lowercase();
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let (stem, extension) = name.split_at(dot);
    match extension {
        b".qcow2" | b".qcow" => Some("qcow2"),
        // The raw parts of a VMDK in several files.
        b".vmdk" if is_flat(stem) => None,
        b".vmdk" => Some("vmdk"),
        b".vhdx" => Some("vhdx"),
        b".vdi" => Some("vdi"),
        b".vhd" | b".vpc" => Some("vhd"),
        _ => None,
    }
}

/// `disk-flat`, `disk-f001`, and what maps a device (`disk-rdmp`).
fn is_flat(stem: &[u8]) -> bool {
    let Some(dash) = stem.iter().rposition(|byte| *byte == b'-') else { return false };
    match stem.get(dash + 1..).unwrap_or_default() {
        b"flat" | b"rdm" | b"rdmp" => true,
        [b'f', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_part_of_a_vmdk_is_no_container_by_name() {
        let formats =
            ["a.qcow2", "A.VMDK", "a-flat.vmdk", "a-f001.vmdk", "a-s001.vmdk", "a-front.vmdk", "a.img", "vdi"];
        let found = formats.map(|name| format_of_name(Path::new(name)));
        let vmdk = Some("vmdk");
        assert_eq!(found, [Some("qcow2"), vmdk, None, None, vmdk, vmdk, None, None]);
    }
}
