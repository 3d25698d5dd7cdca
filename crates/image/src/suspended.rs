//! Machines that are suspended: their memory is in a file, with the maps of their filesystems in it. What is free on the
//! disk may be in use when they go on, so the maps on the disk prove nothing.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_sys::inode::{Inode, Kind};

use super::system::{System, dir_of, entries, names_of, open_regular};

/// How files begin in which libvirt saves a machine, whole or half. The description of the machine follows
/// (`qemu_saveimage.h`).
const LIBVIRT: [&[u8]; 2] = [b"LibvirtQemudSave", b"LibvirtQemudPart"];

/// Bytes of such a file in which the description is looked for.
const DESCRIPTION: u64 = 256 << 10;

/// How files begin in which VirtualBox saves a machine (`SSM.cpp`).
const VIRTUALBOX: &[u8] = b"\x7fVirtualBox SavedState V";

/// The file with the memory of a machine that has this image as a disk, as far as files beside it and libvirt's own
/// directory tell.
pub(super) fn suspended(path: &Path, inode: &Inode, system: &System) -> Option<PathBuf> {
    let beside = || names_of(path).find_map(|name| beside(&name));
    let beside = if inode.kind == Kind::BlockDevice { None } else { beside() };
    beside.or_else(|| entries(&system.saved).find(|file| is_saved_by_libvirt(file, path)))
}

/// One that lies beside the image: of VMware `*.vmss`, of VirtualBox `*.sav` or `Snapshots/*.sav`, of libvirt `*.save` with
/// the name of the image (`disk.save` beside `disk.img`), or which names the image.
fn beside(image: &Path) -> Option<PathBuf> {
    let (dir, name) = (dir_of(image), image.file_name()?);
    let is_named = |file: &Path| file.file_stem() == Some(name) || file.file_stem() == image.file_stem();
    let extension = |file: &Path| file.extension().map(|extension| extension.as_bytes().to_ascii_lowercase());
    let is_of_virtualbox = |file: &Path| start(file, 64).is_some_and(|start| start.starts_with(VIRTUALBOX));
    let here = entries(dir).find(|file| match extension(file).as_deref() {
        Some(b"vmss") => start(file, 1).is_some_and(|start| !start.is_empty()),
        Some(b"sav") => is_of_virtualbox(file),
        Some(b"save") if is_named(file) => start(file, 64).is_some_and(|start| has_magic_of_libvirt(&start)),
        Some(b"save") => is_saved_by_libvirt(file, image),
        _ => false,
    });
    let is_sav = |file: &Path| file.extension() == Some(OsStr::new("sav"));
    here.or_else(|| entries(&dir.join("Snapshots")).find(|file| is_sav(file) && is_of_virtualbox(file)))
}

/// Whether libvirt saved a machine in the file whose description names the image.
fn is_saved_by_libvirt(file: &Path, image: &Path) -> bool {
    let Some(start) = start(file, DESCRIPTION).filter(|start| has_magic_of_libvirt(start)) else { return false };
    let named = [std::path::absolute(image).ok(), fs::canonicalize(image).ok()];
    let quoted = named.iter().flatten().map(|path| quoted(path));
    quoted.into_iter().any(|name| start.windows(name.len()).any(|bytes| bytes == name))
}

fn has_magic_of_libvirt(start: &[u8]) -> bool {
    LIBVIRT.iter().any(|magic| start.starts_with(magic))
}

/// The first bytes of a regular file.
fn start(file: &Path, most: u64) -> Option<Vec<u8>> {
    let (opened, _) = open_regular(file)?;
    let mut start = Vec::new();
    opened.take(most).read_to_end(&mut start).ok()?;
    Some(start)
}

/// A path as an attribute in XML.
fn quoted(path: &Path) -> Vec<u8> {
    let mut quoted = b"'".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'&' => quoted.extend(b"&amp;"),
            b'<' => quoted.extend(b"&lt;"),
            b'>' => quoted.extend(b"&gt;"),
            b'\'' => quoted.extend(b"&apos;"),
            b'"' => quoted.extend(b"&quot;"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use haul_sys::rustix::fs::{CWD, Mode};

    use super::*;

    const SAVE: &[u8] = b"LibvirtQemudSave\x02\0\0\0";
    const SAV: &[u8] = b"\x7fVirtualBox SavedState V2.0\n\0\0\0";

    /// What is found for an image in a directory of its own with these files.
    fn found(test: &str, image: &str, files: &[(&str, &[u8])]) -> Option<String> {
        let dir = place(test);
        for (name, contents) in files.iter().chain(&[(image, &b"image"[..])]) {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let path = dir.join(image);
        let inode = Inode::of(File::open(&path).unwrap().as_fd()).unwrap();
        let system = System { saved: dir.join("libvirt"), ..System::default() };
        let found = suspended(&path, &inode, &system);
        fs::remove_dir_all(&dir).unwrap();
        found.map(|found| found.strip_prefix(&dir).unwrap().display().to_string())
    }

    fn place(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("haul-suspended-{test}-{}", std::process::id()))
    }

    #[test]
    fn the_memory_of_a_suspended_machine_is_found_beside_its_disk() {
        for (image, name, contents) in [
            ("m/disk-flat.vmdk", "m/machine-1a2b.vmss", &b"memory"[..]),
            ("m/disk.img", "m/disk.save", SAVE),
            ("m/disk.img", "m/disk.img.save", b"LibvirtQemudPart"),
            ("m/disk.vdi", "m/Snapshots/2026-01-01T00-00-00-1Z.sav", SAV),
            ("m/Snapshots/disk.vdi", "m/Snapshots/x.sav", SAV),
        ] {
            assert_eq!(found("beside", image, &[(name, contents)]).as_deref(), Some(name), "{image}");
        }
        for (name, contents) in [
            ("m/other.save", SAVE),
            ("m/disk.save", b"a copy of the disk"),
            ("m/data.sav", b"statistics"),
            ("m/disk.sav", b""),
            ("m/disk.vmss", b""),
            ("m/disk.vmsn", b"memory of a snapshot"),
            ("m/disk.save.txt", SAVE),
            ("Snapshots/x.sav", SAV),
        ] {
            assert_eq!(found("beside", "m/disk.img", &[(name, contents)]), None, "{name}");
        }
    }

    #[test]
    fn what_libvirt_saved_is_known_by_the_disk_that_it_names() {
        let description = |name: &str| {
            let path = place("libvirt").join(name).display().to_string();
            [SAVE, format!("<disk><source file='{path}'/>").as_bytes()].concat()
        };
        for name in ["libvirt/vm.save", "machine.save"] {
            let save = |contents: &[u8]| found("libvirt", "a&b.img", &[(name, contents)]);
            assert_eq!(save(&description("a&amp;b.img")).as_deref(), Some(name));
            assert_eq!(save(&description("other.img")), None);
            assert_eq!(save(&description("a&amp;b.img")[1..]), None);
        }
    }

    #[test]
    fn nobody_waits_for_what_is_no_file() {
        let dir = place("fifo");
        fs::create_dir_all(&dir).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        for name in ["disk.save", "disk.sav", "disk.vmss"] {
            haul_sys::rustix::fs::mkfifoat(CWD, dir.join(name), mode).unwrap();
        }
        let found = beside(&dir.join("disk.img"));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, None);
    }
}
