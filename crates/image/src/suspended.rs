//! Machines that are suspended: their memory is in a file, with the maps of their filesystems in it. What is free on the
//! disk may be in use when they go on, so the maps on the disk prove nothing.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};

use super::memory::{Disk, Format, are_of_different_machines, is_usual_name};
use super::neighbours::{Contents, Neighbour, neighbours};
use super::system::{SAVED_IN_HOME, System, dir_of, names_of};

/// What was found of a machine that is suspended with an image as its disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Its memory is here.
    At(PathBuf),
    /// It may be in what cannot be read.
    Hidden(PathBuf),
}

/// The file with the memory of a machine that has this image as a disk, as far as files beside it and libvirt's own
/// directories tell; or what may be one and cannot be read.
pub(super) fn suspended(path: &Path, inode: &Inode, system: &System) -> Option<Memory> {
    let disk = Disk::new(path, inode);
    let names: Vec<PathBuf> = names_of(path).filter(|_| inode.kind != Kind::BlockDevice).collect();
    let beside = names.iter().flat_map(|name| beside(name, &disk, system));
    let managed = system.saved.iter().flat_map(|dir| saved_in(dir, &disk, false));
    let of_owner = names.iter().flat_map(|name| saved_above(name)).flat_map(|dir| saved_in(&dir, &disk, true));
    let mut hidden = None;
    for memory in beside.chain(managed).chain(of_owner) {
        match memory {
            Memory::At(_) => return Some(memory),
            Memory::Hidden(_) => hidden = hidden.or(Some(memory)),
        }
    }
    hidden
}

/// What lies beside the image, or where VirtualBox saves machines.
fn beside(image: &Path, disk: &Disk<'_>, system: &System) -> Vec<Memory> {
    let dir = dir_of(image);
    let in_dir = |dir: PathBuf| {
        let neighbours = neighbours(&dir, system);
        let others = neighbours.iter().filter(|neighbour| neighbour.id != Some(disk.inode.id));
        others.filter_map(|neighbour| memory_in(neighbour, &dir, image, disk)).collect::<Vec<_>>()
    };
    [dir.to_owned(), dir.join("Snapshots")].into_iter().flat_map(in_dir).collect()
}

/// What a neighbour of the image is to it: that with libvirt's description if it has the name of the image (`disk.save`
/// beside `disk.img`) or names it; any other unless it is of another machine by its name.
fn memory_in(neighbour: &Neighbour, dir: &Path, image: &Path, disk: &Disk<'_>) -> Option<Memory> {
    let (path, name) = (dir.join(&neighbour.name), image.file_name()?);
    let is_called_so = || path.file_stem() == Some(name) || path.file_stem() == image.file_stem();
    match neighbour.contents {
        Contents::Memory(Format::Libvirt) if !is_called_so() => saved_by_libvirt(path, disk),
        Contents::Memory(Format::Qemu) if are_of_different_machines(&neighbour.name, name) => None,
        Contents::Memory(_) => Some(Memory::At(path)),
        Contents::Hidden => is_usual_name(&neighbour.name).then_some(Memory::Hidden(path)),
        Contents::Disk(_) => None,
    }
}

/// The same of a file whose description decides.
fn saved_by_libvirt(path: PathBuf, disk: &Disk<'_>) -> Option<Memory> {
    match disk.is_named_in(&path) {
        Ok(true) => Some(Memory::At(path)),
        // Gone meanwhile, or a link that leads nowhere.
        Ok(false) | Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => None,
        Err(_) => Some(Memory::Hidden(path)),
    }
}

/// What there is in a directory where libvirt saves machines. One that cannot be read counts if it is that of the
/// `owner` of the directory in which the image lies. That of the system is closed to all users but root, and tells nothing.
fn saved_in(dir: &Path, disk: &Disk<'_>, owner: bool) -> Vec<Memory> {
    let unseen = || Memory::Hidden(dir.to_owned());
    match fs::read_dir(dir) {
        Ok(files) => files
            .filter_map(|file| file.map_or_else(|_| Some(unseen()), |file| saved_by_libvirt(file.path(), disk)))
            .collect(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Vec::new(),
        Err(_) => owner.then(unseen).into_iter().collect(),
    }
}

/// Where libvirt saves the machines of the user in whose home directory the image lies, whoever copies it.
fn saved_above(image: &Path) -> Vec<PathBuf> {
    let image = std::path::absolute(image).unwrap_or_default();
    image.ancestors().skip(1).flat_map(|dir| SAVED_IN_HOME.map(|saved| dir.join(saved))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use haul_sys::rustix::fs::{CWD, Mode};

    use super::*;

    const SAVE: &[u8] = b"LibvirtQemudSave\x02\0\0\0";
    const SAV: &[u8] = b"\x7fVirtualBox SavedState V2.0\n\0\0\0";
    const QEVM: &[u8] = b"QEVM\0\0\0\x03memory";
    const XL: &[u8] = b"Xen saved domain, xl format\n \0 \r";

    /// What is found for an image in a directory of its own with these files.
    fn found(test: &str, image: &str, files: &[(&str, &[u8])]) -> Option<String> {
        let dir = place(test);
        for (name, contents) in files.iter().chain(&[(image, &b"image"[..])]) {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        symlink(image, dir.join("link")).unwrap();
        let found = search(&dir, &dir.join(image));
        fs::remove_dir_all(&dir).unwrap();
        found.map(|found| match found {
            Memory::At(path) => path.strip_prefix(&dir).unwrap().display().to_string(),
            Memory::Hidden(path) => panic!("{path:?}"),
        })
    }

    fn search(dir: &Path, image: &Path) -> Option<Memory> {
        let inode = Inode::of(File::open(image).unwrap().as_fd()).unwrap();
        let saved = ["libvirt", "config/libvirt"].map(|saved| dir.join(saved)).to_vec();
        suspended(image, &inode, &System { saved, ..System::default() })
    }

    fn place(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("haul-suspended-{test}-{}", std::process::id()))
    }

    /// What libvirt saves of a machine with this description.
    fn saved(magic: &[u8], header: usize, description: &str) -> Vec<u8> {
        let mut bytes = magic.to_vec();
        bytes.resize(header, 0);
        [&bytes, description.as_bytes(), b"\0QEVM\0\0\0\x03"].concat()
    }

    #[test]
    fn the_memory_of_a_suspended_machine_is_found_beside_its_disk() {
        for (image, name, contents) in [
            ("m/disk-flat.vmdk", "m/machine-1a2b.vmss", &b"memory"[..]),
            ("m/disk.vmdk", "m/checkpoint", b"\xd2\xbe\xd2\xbe\x08\0\0\0"),
            ("m/disk.img", "m/disk.save", SAVE),
            ("m/disk.img", "m/disk.state", SAVE),
            ("m/disk.img", "m/disk.img.save", b"LibvirtQemudPart"),
            ("m/disk.vdi", "m/Snapshots/2026-01-01T00-00-00-1Z.sav", SAV),
            ("m/Snapshots/disk.vdi", "m/Snapshots/x.sav", SAV),
            ("m/disk.vdi", "m/state", SAV),
            ("m/disk.img", "m/state", QEVM),
            ("m/disk.img", "m/vm-1-state-suspend.raw", QEVM),
            ("m/vm-1-disk-0.raw", "m/vm-1-state-suspend.raw", QEVM),
            ("m/disk.img", "m/state", XL),
        ] {
            assert_eq!(found("beside", image, &[(name, contents)]).as_deref(), Some(name), "{image} {name}");
        }
        for (name, contents) in [
            ("m/other.save", SAVE),
            ("m/disk.save", b"a copy of the disk"),
            ("m/data.sav", b"statistics"),
            ("m/disk.sav", b""),
            ("m/disk.vmss", b""),
            ("m/disk.vmsn", b"memory of a snapshot"),
            ("m/disk.vmsn", b"\xd2\xbe\xd2\xbe\x08\0\0\0"),
            ("m/disk.save.txt", SAVE),
            ("m/state", b"QEVM\0\0\0\x01"),
            ("Snapshots/x.sav", SAV),
            ("state", QEVM),
        ] {
            assert_eq!(found("beside", "m/disk.img", &[(name, contents)]), None, "{name}");
        }
    }

    #[test]
    fn the_memory_of_another_machine_beside_a_disk_is_not_its_own() {
        let other = saved(SAVE, 92, "<domain type='kvm'><devices><disk device='disk'><source file='/vm/other.img'/>");
        for (image, name, contents) in [
            ("vm-1-disk-0.raw", "vm-10-state-suspend-2026-01-01.raw", QEVM),
            ("base-1-disk-0.raw", "vm-10-state-suspend-2026-01-01.raw", QEVM),
            ("disk", "x.state", &other),
            ("er.img", "x.state", &other),
        ] {
            assert_eq!(found("another", image, &[(name, contents)]), None, "{image}");
        }
    }

    #[test]
    fn what_libvirt_saved_is_known_by_the_disk_that_it_names() {
        let at = |name: &str| place("libvirt").join(name).display().to_string();
        let file =
            |path: &str| format!("<domain type='kvm'><disk type='file'><source file='{path}' index='1'/></disk>");
        for name in ["libvirt/vm.save", "config/libvirt/vm.save", "machine.save", "x.state"] {
            let save = |contents: &[u8]| found("libvirt", "a&b.img", &[(name, contents)]);
            for named in [
                file(&at("a&amp;b.img")),
                file("/of/a/pool/a&amp;b.img"),
                file(&at("link")),
                "<domain type='kvm'><source pool='default' volume='a&amp;b.img'/>".to_owned(),
                "<domain type=\"kvm\"><qemu:arg value=\"if=none,file=/vm/a&amp;b.img,id=0\"/>".to_owned(),
                format!("<domain><qemu:arg value='file={},id=0'/>", at("link")),
                format!("<domain><title>it's</title>{}", file(&at("link"))),
            ] {
                for (magic, header) in [(SAVE, 92), (b"LibvirtQemudPart", 92), (b"libvirt-xml\n \0 \r", 64)] {
                    let contents = saved(magic, header, &named);
                    assert_eq!(save(&contents).as_deref(), Some(name), "{named}");
                    assert_eq!(save(&contents[1..]), None);
                }
            }
            for other in [at("other.img"), at("a&amp;b.img.old"), at("aa&amp;b.img"), at("a&amp;b.img/disk")] {
                assert_eq!(save(&saved(SAVE, 92, &file(&other))), None, "{other}");
            }
            // What cannot be read to its end may name it.
            let long = saved(SAVE, 92, &" ".repeat(300 << 10));
            assert_eq!(save(&long).as_deref(), Some(name));
        }
    }

    #[test]
    fn machines_of_the_owner_of_a_home_directory_are_found_from_images_in_it() {
        let named = saved(SAVE, 92, "<domain><source file='/home/me/images/disk.img'/>");
        for name in [
            "home/me/.config/libvirt/qemu/save/vm.save",
            "home/me/.var/app/org.gnome.Boxes/config/libvirt/qemu/save/vm.save",
        ] {
            let found = |image: &str| found("home", image, &[(name, &named)]);
            assert_eq!(found("home/me/images/disk.img").as_deref(), Some(name));
            assert_eq!(found("home/you/images/disk.img"), None);
        }
    }

    #[test]
    fn a_file_made_before_it_is_written_is_looked_at_again() {
        for before in [&b""[..], &[0; 4096]] {
            let dir = place("again");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("disk.img"), "image").unwrap();
            fs::write(dir.join("state"), before).unwrap();
            let long_ago = std::time::SystemTime::UNIX_EPOCH;
            for path in [dir.join("state"), dir.clone()] {
                File::open(path).unwrap().set_modified(long_ago).unwrap();
            }
            assert_eq!(search(&dir, &dir.join("disk.img")), None);
            fs::write(dir.join("state"), QEVM).unwrap();
            let found = search(&dir, &dir.join("disk.img"));
            fs::remove_dir_all(&dir).unwrap();
            assert_eq!(found, Some(Memory::At(dir.join("state"))));
        }
    }

    #[test]
    fn nobody_waits_for_what_is_no_file() {
        let dir = place("fifo");
        fs::create_dir_all(dir.join("libvirt")).unwrap();
        fs::write(dir.join("disk.img"), "image").unwrap();
        let mode = Mode::from_raw_mode(0o600);
        for name in ["disk.save", "disk.sav", "disk.vmss", "x.state", "libvirt/vm.save"] {
            haul_sys::rustix::fs::mkfifoat(CWD, dir.join(name), mode).unwrap();
        }
        let found = search(&dir, &dir.join("disk.img"));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, None);
    }
}
