//! Disk images in containers, end to end: copied as raw disks, and as what they are.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;

use haul_guest::container::{self, Opened, Siblings};
use haul_guest::image::ImageFile;
use haul_guest::{ExtentSet, ReadAt};
use haul_testbed::guest::{digests, has, live_through, run as tool};
use haul_testbed::{Bed, Command, TempDir, allocated, assert_same_contents, temp_dir};

const MIB: u64 = 1 << 20;

/// The size of the disks.
const SIZE: u64 = 64 * MIB;

type Files = BTreeMap<PathBuf, (u64, u64)>;

fn run(program: &Path, dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    command.current_dir(dir).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT").stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.args(arguments).output().expect("it can be run");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// A directory with a disk on which files were made and deleted, and with a place for copies.
struct Place {
    bed: Bed,
    dir: TempDir,
    files: Files,
    /// What is free on the disk.
    free: ExtentSet,
}

impl Place {
    /// Nothing if a program is missing.
    fn new() -> Option<Place> {
        if !has("mkfs.ext4") || !has("qemu-img") {
            return None;
        }
        let bed = Bed::new()?;
        let dir = temp_dir();
        let disk = dir.path().join("disk");
        File::create(&disk).expect("it can be made").set_len(SIZE).expect("it can be extended");
        tool(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0"]).arg(&disk));
        let mounted = bed.mount_image("ext4", &disk, &[]);
        live_through(mounted.path(), 12 * MIB, 3);
        let files = digests(mounted.path());
        mounted.unmount();
        settled(&disk);
        fs::create_dir(dir.path().join("to")).expect("it can be made");
        symlink(env!("CARGO_BIN_EXE_haul"), dir.path().join("smartcp")).expect("it can be made");
        let free = haul_guest::map(&*open(&disk).disk, &haul_guest::fs::Options::default()).free;
        assert!(free.bytes() > 30 * MIB);
        Some(Place { bed, dir, files, free })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn smartcp(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        run(&self.at("smartcp"), self.dir.path(), arguments)
    }

    fn haul(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        run(Path::new(env!("CARGO_BIN_EXE_haul")), self.dir.path(), arguments)
    }

    /// Makes a container of the disk.
    fn convert(&self, format: &str, options: &[&str], name: &str) {
        let mut convert = Command::new("qemu-img");
        convert.args(["convert", "-f", "raw", "-O", format]).args(options).arg("disk").arg(name);
        tool(convert.current_dir(self.dir.path()));
        for entry in fs::read_dir(self.dir.path()).expect("it can be read").flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                settled(&entry.path());
            }
        }
    }

    /// A disk in two flat files, with a descriptor.
    fn cut(&self) {
        self.cut_before(SIZE);
    }

    /// The same, with a last piece that is nothing.
    fn cut_before(&self, end: u64) {
        let disk = fs::read(self.at("disk")).expect("it can be read");
        let pieces = [("a-f001.vmdk", 0, 37 * MIB, 0), ("a-f002.vmdk", 37 * MIB, end, 128)];
        let mut lines = String::new();
        for (name, start, end, offset) in pieces {
            let file = File::create(self.at(name)).expect("it can be made");
            file.write_all_at(&disk[start as usize..end as usize], offset * 512).expect("it can be written");
            lines += &format!("RW {} FLAT \"{name}\" {offset}\n", (end - start) / 512);
        }
        if end < SIZE {
            assert!(ExtentSet::of(end..SIZE).is_subset_of(&self.free), "the end of the disk is in use");
            lines += &format!("RW {} ZERO\n", (SIZE - end) / 512);
        }
        descriptor(&self.at("a.vmdk"), &lines);
        for name in ["a.vmdk", "a-f001.vmdk", "a-f002.vmdk"] {
            settled(&self.at(name));
        }
    }

    /// The disk in a container, as qemu-img reads it.
    fn as_raw(&self, format: &str, name: &str) -> Vec<u8> {
        let raw = self.at("as-raw");
        let mut convert = Command::new("qemu-img");
        tool(convert.args(["convert", "-f", format, "-O", "raw"]).arg(self.at(name)).arg(&raw));
        let mut bytes = fs::read(&raw).expect("it can be read");
        // Some formats round the size up.
        assert!(bytes.len() as u64 >= SIZE, "{} bytes", bytes.len());
        assert!(bytes.drain(SIZE as usize..).all(|byte| byte == 0));
        fs::write(&raw, &bytes).expect("it can be written");
        bytes
    }

    /// The disk in a copy is the disk, but where it is free; there zeros may be. All files are in it.
    fn assert_disk(&self, format: &str, name: &str, what: &str) {
        let (copy, disk) = (self.as_raw(format, name), fs::read(self.at("disk")).expect("it can be read"));
        for used in self.free.complement(0..SIZE).iter() {
            let range = used.start as usize..used.end() as usize;
            assert!(copy[range.clone()] == disk[range], "{what}: bytes in use differ");
        }
        for free in self.free.iter() {
            for at in (free.start as usize..free.end() as usize).step_by(512) {
                let (now, then) = (&copy[at..at + 512], &disk[at..at + 512]);
                assert!(now == then || now.iter().all(|byte| *byte == 0), "{what}: other bytes in free space");
            }
        }
        self.assert_files(&self.at("as-raw"));
    }

    /// All files are in a raw image: mounted read-only, then for writing.
    fn assert_files(&self, image: &Path) {
        tool(Command::new("e2fsck").args(["-fn"]).arg(image));
        for options in [&["ro"][..], &[]] {
            let mounted = self.bed.mount_image("ext4", image, options);
            assert_eq!(digests(mounted.path()), self.files);
            mounted.unmount();
        }
    }
}

/// Waits until no child of another test holds a descriptor of it.
fn settled(path: &Path) {
    let file = File::open(path).expect("it is there");
    while haul_sys::in_use::is_open_for_writing(file.as_fd()) == Ok(true) {
        std::thread::yield_now();
    }
}

fn descriptor(path: &Path, extents: &str) {
    let head =
        "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\ncreateType=\"twoGbMaxExtentFlat\"\n";
    let tail = "ddb.adapterType = \"ide\"\nddb.geometry.cylinders = \"195\"\nddb.geometry.heads = \"16\"\n\
                ddb.geometry.sectors = \"63\"\n";
    fs::write(path, format!("{head}{extents}{tail}")).expect("it can be written");
}

struct Dir<'a>(&'a Path);

impl Siblings for Dir<'_> {
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn ReadAt>> {
        image(&self.0.join(name))
    }
}

fn image(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok(Arc::new(ImageFile::new(file, size)))
}

fn open(path: &Path) -> Opened {
    let dir = Dir(path.parent().expect("it is in a directory"));
    container::open(image(path).expect("it is there"), path.file_name().expect("it has a name"), &dir).expect("a disk")
}

/// Each byte of a file of a container is in the copy, but those that only free space is in: these are zeros there, in whole
/// blocks, the last one of a file cut short by its end. Returns how many bytes these are.
fn assert_kept(source: &Path, copy: &Path, free: &ExtentSet) -> u64 {
    assert_without(source, copy, free, true)
}

/// The same; `tail`: as far as the end of the file.
fn assert_without(source: &Path, copy: &Path, free: &ExtentSet, tail: bool) -> u64 {
    let opened = open(source);
    let host = opened.disk.host_ranges(free).expect("it can be known");
    let (from, to) = (source.parent().expect("a directory"), copy.parent().expect("a directory"));
    let mut left_out = 0;
    for (part, freed) in opened.parts.iter().zip(&host.files) {
        let name = if opened.parts.len() == 1 { copy.file_name().expect("a name") } else { part.name.as_os_str() };
        let mut expected = fs::read(from.join(&part.name)).expect("it can be read");
        let size = expected.len() as u64;
        let freed = match freed.iter().last() {
            Some(last) if tail && last.end() == size => {
                freed.union(&ExtentSet::of(last.start..size.next_multiple_of(4096)))
            }
            _ => freed.clone(),
        };
        for extent in freed.trimmed_to(4096).clipped(0..size).iter() {
            expected[extent.start as usize..extent.end() as usize].fill(0);
            left_out += extent.len;
        }
        assert!(fs::read(to.join(name)).expect("it can be read") == expected, "{name:?} is not the same container");
    }
    left_out
}

/// Formats in one file, as qemu-img makes them: the name, the options, and what is in the name of the file.
const IN_ONE_FILE: &[(&str, &[&str], &str)] = &[
    ("qcow2", &[], "a.qcow2"),
    ("qcow2", &["-o", "cluster_size=4k,compat=0.10"], "b.qcow2"),
    ("qcow2", &["-o", "cluster_size=2M,preallocation=metadata"], "c.qcow2"),
    ("vmdk", &["-o", "subformat=monolithicSparse"], "a.vmdk"),
    ("vhdx", &["-o", "subformat=dynamic"], "a.vhdx"),
    ("vhdx", &["-o", "subformat=fixed"], "b.vhdx"),
    ("vdi", &[], "a.vdi"),
    ("vpc", &["-o", "subformat=dynamic,force_size=on"], "a.vhd"),
    ("vpc", &["-o", "subformat=fixed,force_size=on"], "b.vhd"),
];

/// Checks what qemu-img can check.
fn check(format: &str, path: &Path) {
    if matches!(format, "qcow2" | "vdi" | "vhdx" | "vmdk") {
        tool(Command::new("qemu-img").args(["check", "-q", "-f", format]).arg(path));
    }
}

#[test]
fn a_kept_container_is_the_same_without_what_only_free_space_is_in() {
    let Some(place) = Place::new() else { return };
    for (format, options, name) in IN_ONE_FILE {
        place.convert(format, options, name);
        let (status, out, err) = place.smartcp(&["-v", "--container=keep", name, "to"]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{name}");
        assert!(out.contains(", kept as it is\n"), "{out}");
        let copy = format!("to/{name}");
        let left_out = assert_kept(&place.at(name), &place.at(&copy), &place.free);
        assert!(left_out > 15 * MIB, "{name}: only {left_out} bytes");
        let (before, after) = (allocated(place.at(name)), allocated(place.at(&copy)));
        assert!(after < before - 15 * MIB && after <= SIZE - place.free.bytes() + 2 * MIB, "{name}: {before} {after}");
        check(format, &place.at(&copy));
        place.assert_disk(format, &copy, name);
        fs::remove_file(place.at(name)).expect("it can be removed");
        fs::remove_file(place.at(&copy)).expect("it can be removed");
    }
}

#[test]
fn a_disk_in_several_files_is_kept_in_a_directory() {
    let Some(place) = Place::new() else { return };
    place.cut();
    for (format, options, name) in [
        ("vmdk", &["-o", "subformat=monolithicFlat"][..], "b.vmdk"),
        ("vmdk", &["-o", "subformat=twoGbMaxExtentFlat"], "c.vmdk"),
        ("vmdk", &["-o", "subformat=twoGbMaxExtentSparse"], "d.vmdk"),
    ] {
        place.convert(format, options, name);
    }
    for name in ["a.vmdk", "b.vmdk", "c.vmdk", "d.vmdk"] {
        let (status, out, err) = place.smartcp(&["--container=keep", "-v", name, "to"]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{name}");
        // Whoever sees the descriptor sees a disk.
        let last = out.lines().rfind(|line| line.starts_with("To:"));
        assert_eq!(last, Some(format!("To:      to/{name}").as_str()), "{out}");
        let copy = place.at("to").join(name);
        let left_out = assert_kept(&place.at(name), &copy, &place.free);
        assert!(left_out > 15 * MIB, "{name}: only {left_out} bytes");
        let files = fs::read_dir(place.at("to")).expect("it can be read").flatten();
        let after: u64 = files.map(|file| allocated(file.path())).sum();
        assert!(after <= SIZE - place.free.bytes() + 2 * MIB, "{name}: {after}");
        place.assert_disk("vmdk", &format!("to/{name}"), name);
        for file in fs::read_dir(place.at("to")).expect("it can be read").flatten() {
            fs::remove_file(file.path()).expect("it can be removed");
        }
        // One name cannot be that of several files.
        let (status, _, err) = place.smartcp(&["--container=keep", name, "one"]);
        assert!(status == Some(1) && err.contains("is a disk in several files"), "{err}");
        assert!(!place.at("one").exists());
    }
}

#[test]
fn a_disk_in_flat_files_is_copied_as_one_raw_disk() {
    let Some(place) = Place::new() else { return };
    place.cut_before(SIZE - MIB);
    place.convert("vmdk", &["-o", "subformat=monolithicFlat"], "b.vmdk");
    // What ESXi calls the same.
    let said = fs::read_to_string(place.at("b.vmdk")).expect("it can be read");
    fs::write(
        place.at("c.vmdk"),
        said.replace(" FLAT ", " VMFS ").replace("\" 0\n", "\"\n").replace("monolithicFlat", "vmfs"),
    )
    .expect("it can be written");
    settled(&place.at("c.vmdk"));
    for name in ["a.vmdk", "b.vmdk", "c.vmdk"] {
        let (status, out, err) = place.smartcp(&["-v", "-g", name, "to"]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{name}");
        assert!(out.contains("Container: vmdk, copied as a raw disk\n"), "{out}");
        let copy = format!("to/{name}.raw");
        assert!(allocated(place.at(&copy)) <= SIZE - place.free.bytes(), "{name}");
        place.assert_disk("raw", &copy, name);
        fs::remove_file(place.at(&copy)).expect("it can be removed");
    }
    // Holes of the files are not read, even where nothing is known of the disk.
    File::create(place.at("e-flat.vmdk")).expect("it can be made").set_len(SIZE).expect("it can be extended");
    descriptor(&place.at("e.vmdk"), &format!("RW {} FLAT \"e-flat.vmdk\" 0\n", SIZE / 512));
    for name in ["e.vmdk", "e-flat.vmdk"] {
        settled(&place.at(name));
    }
    let (status, out, err) = place.smartcp(&["-T", "json", "e.vmdk", "e.raw"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.contains(&format!("\"read_skipped\": \"{SIZE}\"")), "{out}");
}

#[test]
fn one_of_several_files_is_no_disk_by_itself() {
    let Some(place) = Place::new() else { return };
    // As if the disk of another machine began where the file begins, in a file of the guest.
    fs::copy(place.at("disk"), place.at("a-f002.vmdk")).expect("it can be copied");
    settled(&place.at("a-f002.vmdk"));
    let (status, _, err) = place.smartcp(&["a-f002.vmdk", "to"]);
    assert!(
        status == Some(0) && err.contains("is copied byte for byte: by its name it is one of the files of a disk"),
        "{err}"
    );
    assert_same_contents(place.at("a-f002.vmdk"), place.at("to/a-f002.vmdk"));
    let (status, out, err) = place.haul(&["--smart", "--explain", "a-f002.vmdk", "copy"]);
    assert!(
        (status, err.as_str()) == (Some(0), "") && out.contains("by its name it is one of the files of a disk"),
        "{out}{err}"
    );
    assert_same_contents(place.at("a-f002.vmdk"), place.at("copy"));
    let (status, _, err) = place.haul(&["--smart", "--punch", "a-f002.vmdk"]);
    assert!(status == Some(1) && err.contains("by its name it is one of the files of a disk"), "{err}");
}

#[test]
fn a_copy_never_overwrites_a_file_of_its_own_disk() {
    let Some(place) = Place::new() else { return };
    place.cut();
    let before = ["a.vmdk", "a-f001.vmdk", "a-f002.vmdk"].map(|name| fs::read(place.at(name)).expect("it can be read"));
    let (status, _, err) = place.smartcp(&["a.vmdk", "a-f002.vmdk"]);
    assert!(status == Some(1) && err.contains("are the same file"), "{err}");
    let (status, _, err) = place.smartcp(&["--container=keep", "a.vmdk", "."]);
    assert!(status == Some(1) && err.contains("are the same file"), "{err}");
    // The name of the first is a link to the second.
    fs::hard_link(place.at("a-f002.vmdk"), place.at("to/a-f001.vmdk")).expect("it can be linked");
    let (status, _, err) = place.smartcp(&["--container=keep", "a.vmdk", "to"]);
    assert!(status == Some(1) && err.contains("are the same file"), "{err}");
    let after = ["a.vmdk", "a-f001.vmdk", "a-f002.vmdk"].map(|name| fs::read(place.at(name)).expect("it can be read"));
    assert!(before == after);
}

#[test]
fn a_descriptor_that_means_no_good_is_a_text() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    symlink(env!("CARGO_BIN_EXE_haul"), at("smartcp")).expect("it can be made");
    let smartcp = |arguments: &[&str]| run(&at("smartcp"), dir.path(), arguments);
    fs::create_dir_all(at("images/to")).expect("it can be made");
    fs::write(at("secret"), vec![7; 4096]).expect("it can be written");
    fs::write(at("images/profile"), vec![8; 4096]).expect("it can be written");
    fs::hard_link(at("images/profile"), at("images/same")).expect("it can be linked");
    let forged = at("images/forged.vmdk");
    let absolute = at("secret").display().to_string();
    for line in [
        "RW 8 FLAT \"../secret\" 0".to_owned(),
        format!("RW 8 FLAT \"{absolute}\" 0"),
        "RW 8 FLAT \"forged.vmdk\" 0".to_owned(),
        "RW 8 FLAT \"to\" 0".to_owned(),
        "RW 8 FLAT \"missing\" 0".to_owned(),
        "RW 9 FLAT \"profile\" 0".to_owned(),
        "RW 8 FLAT \"profile\" 0\n".repeat(2),
        "RW 8 FLAT \"profile\" 0\nRW 8 FLAT \"same\" 0".to_owned(),
        "RW 36028797018963968 ZERO".to_owned(),
        "RW 8 FLAT \"profile\" 36028797018963967".to_owned(),
    ] {
        descriptor(&forged, &format!("{line}\n"));
        settled(&forged);
        for how in ["raw", "keep"] {
            let (status, _, err) = smartcp(&["--container", how, "images/forged.vmdk", "copy"]);
            assert!(status == Some(0) && err.contains("is copied byte for byte: it looks like a container"), "{err}");
            assert_same_contents(&forged, at("copy"));
        }
    }
    // A file of another kind does not get copies of its name, where they might mean something.
    descriptor(&forged, "RW 8 FLAT \"profile\" 0\n");
    settled(&forged);
    let (status, _, err) = smartcp(&["--container=keep", "images/forged.vmdk", "images/to"]);
    assert!(status == Some(1) && err.contains("it does not end in .vmdk"), "{err}");
    assert!(fs::read_dir(at("images/to")).expect("it can be read").next().is_none());
    // A link is followed, and that is said.
    symlink("../secret", at("images/link.vmdk")).expect("it can be made");
    descriptor(&forged, "RW 8 FLAT \"link.vmdk\" 0\n");
    settled(&forged);
    let (status, _, err) = smartcp(&["images/forged.vmdk", "copy"]);
    assert!(status == Some(0) && err.contains("warning: 'images/link.vmdk' is a symbolic link"), "{err}");
    assert_same_contents(at("secret"), at("copy"));
}

#[test]
fn what_cannot_be_skipped_one_by_one_is_kept_whole() {
    let Some(place) = Place::new() else { return };
    place.convert("vmdk", &["-o", "subformat=streamOptimized"], "stream.vmdk");
    place.convert("qcow2", &[], "snapshot.qcow2");
    tool(Command::new("qemu-img").args(["snapshot", "-c", "one"]).arg(place.at("snapshot.qcow2")));
    settled(&place.at("snapshot.qcow2"));
    for name in ["stream.vmdk", "snapshot.qcow2"] {
        let (status, _, err) = place.smartcp(&["--container=keep", name, "to"]);
        assert!(status == Some(0) && err.contains("is kept whole: its clusters cannot be left out"), "{err}");
        assert_same_contents(place.at(name), place.at("to").join(name));
        let (status, out, err) = place.haul(&["--smart", "--explain", name, "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert!(out.contains("copied whole: its clusters cannot be left out"), "{out}");
        assert_same_contents(place.at(name), place.at("copy"));
        let (status, _, err) = place.haul(&["--smart=require", name, "copy"]);
        assert!(status == Some(1) && err.contains("its clusters cannot be left out"), "{err}");
        let (status, _, err) = place.haul(&["--smart", "--punch", name]);
        assert!(status == Some(1) && err.contains("its clusters cannot be left out"), "{err}");
    }
}

#[test]
fn compressed_clusters_stay_and_others_go() {
    let Some(place) = Place::new() else { return };
    if !has("qemu-io") {
        return;
    }
    place.convert("qcow2", &["-c"], "packed.qcow2");
    let at = place.free.trimmed_to(64 << 10).iter().find(|free| free.len >= MIB).expect("a large one").start;
    let write = format!("write -P 7 {at} 1M");
    tool(Command::new("qemu-io").args(["-f", "qcow2", "-c", &write]).arg(place.at("packed.qcow2")));
    settled(&place.at("packed.qcow2"));
    let (status, _, err) = place.smartcp(&["--container=keep", "packed.qcow2", "to"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    // Noise is not compressed.
    let left_out = assert_kept(&place.at("packed.qcow2"), &place.at("to/packed.qcow2"), &place.free);
    assert_eq!(left_out, MIB);
    check("qcow2", &place.at("to/packed.qcow2"));
    place.assert_disk("qcow2", "to/packed.qcow2", "packed");
}

#[test]
fn a_container_that_somebody_has_open_is_kept_whole() {
    let Some(place) = Place::new() else { return };
    place.cut();
    let _writer = File::options().write(true).open(place.at("a-f002.vmdk")).expect("it can be opened");
    let (status, _, err) = place.smartcp(&["--container=keep", "a.vmdk", "to"]);
    assert!(status == Some(0) && err.contains("'a.vmdk' is in use and is copied whole"), "{err}");
    for name in ["a.vmdk", "a-f001.vmdk", "a-f002.vmdk"] {
        assert_same_contents(place.at(name), place.at("to").join(name));
    }
    let (status, _, err) = place.smartcp(&["a.vmdk", "whole"]);
    assert!(status == Some(0) && err.contains("'a.vmdk' is in use and is copied whole"), "{err}");
    assert_same_contents(place.at("disk"), place.at("whole"));
    let (status, _, err) = place.smartcp(&["--container=keep", "--snapshot", "a.vmdk", "to"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(assert_kept(&place.at("a.vmdk"), &place.at("to/a.vmdk"), &place.free) > 15 * MIB);
}

#[test]
fn without_smart_reading_a_kept_container_is_every_byte_the_same() {
    let Some(place) = Place::new() else { return };
    place.convert("qcow2", &[], "a.qcow2");
    let (status, _, err) = place.smartcp(&["--container=keep", "-S", "no", "a.qcow2", "to"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_same_contents(place.at("a.qcow2"), place.at("to/a.qcow2"));
}

#[test]
fn haul_keeps_a_container_what_it_is() {
    let Some(place) = Place::new() else { return };
    for (format, options, name) in IN_ONE_FILE {
        place.convert(format, options, name);
        let (status, out, err) = place.haul(&["--smart", "--explain", "--stats=json", name, "to"]);
        assert_eq!(status, Some(0), "{name}: {err}");
        let record: serde_json::Value = serde_json::from_str(err.lines().last().unwrap_or_default()).expect("a record");
        let number = |pointer: &str| record.pointer(pointer).and_then(serde_json::Value::as_u64).expect("a number");
        let kind = open(&place.at(name)).disk.format();
        assert_eq!(record.pointer("/images/0/container").and_then(|format| format.as_str()), Some(kind));
        assert!(out.contains(&format!("{kind} container, kept: ")), "{out}");
        let copy = format!("to/{name}");
        let left_out = assert_kept(&place.at(name), &place.at(&copy), &place.free);
        assert_eq!(number("/images/0/skipped"), left_out, "{name}");
        assert_eq!(number("/images/0/free"), place.free.bytes(), "{name}");
        assert_eq!(number("/bytes/total"), place.at(name).metadata().expect("there").len(), "{name}");
        check(format, &place.at(&copy));
        place.assert_disk(format, &copy, name);
        fs::remove_file(place.at(name)).expect("it can be removed");
        fs::remove_file(place.at(&copy)).expect("it can be removed");
    }
}

#[test]
fn haul_keeps_each_of_several_files_what_it_is() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.at("vm")).expect("it can be made");
    place.cut();
    place.convert("vmdk", &["-o", "subformat=twoGbMaxExtentSparse"], "d.vmdk");
    for name in ["a.vmdk", "a-f001.vmdk", "a-f002.vmdk", "d.vmdk", "d-s001.vmdk"] {
        fs::rename(place.at(name), place.at("vm").join(name)).expect("it can be renamed");
    }
    let (status, out, err) = place.haul(&["--smart", "-r", "--explain", "vm", "to"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(out.matches("vmdk container, kept: ").count(), 3, "{out}");
    for name in ["a.vmdk", "d.vmdk"] {
        let copy = place.at("to/vm").join(name);
        assert!(assert_kept(&place.at("vm").join(name), &copy, &place.free) > 15 * MIB, "{name}");
        place.assert_disk("vmdk", &format!("to/vm/{name}"), name);
    }
    // Somebody who has one of them has the disk.
    let writer = File::options().write(true).open(place.at("vm/a-f001.vmdk")).expect("it can be opened");
    let (status, _, err) = place.haul(&["--smart=require", "vm/a-f002.vmdk", "to"]);
    assert!(status == Some(1) && err.contains("it is in use"), "{err}");
    drop(writer);
    // Another file by the name of one of them is none of the disk.
    fs::copy(place.at("disk"), place.at("vm/a-f003.vmdk")).expect("it can be copied");
    settled(&place.at("vm/a-f003.vmdk"));
    let (status, _, err) = place.haul(&["--smart", "vm/a-f003.vmdk", "to"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_same_contents(place.at("vm/a-f003.vmdk"), place.at("to/a-f003.vmdk"));
}

#[test]
fn by_another_name_a_container_is_no_container() {
    let Some(place) = Place::new() else { return };
    place.convert("qcow2", &[], "a.qcow2");
    fs::rename(place.at("a.qcow2"), place.at("machine")).expect("it can be renamed");
    let (status, out, err) = place.haul(&["--smart", "--explain", "machine", "copy"]);
    assert!((status, err.as_str()) == (Some(0), "") && out.contains("has no such name"), "{out}{err}");
    assert_same_contents(place.at("machine"), place.at("copy"));
    let (status, _, err) = place.haul(&["--smart", "--punch", "machine"]);
    assert!(status == Some(1) && err.contains("has no such name"), "{err}");
    let (status, _, err) = place.smartcp(&["--container=keep", "--format=container", "machine", "copy"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(assert_kept(&place.at("machine"), &place.at("copy"), &place.free) > 15 * MIB);
}

#[test]
fn free_space_of_a_container_is_given_back_in_place() {
    let Some(place) = Place::new() else { return };
    for (format, options, name) in IN_ONE_FILE {
        place.convert(format, options, name);
        let (whole, before) = (place.at("whole"), allocated(place.at(name)));
        tool(Command::new("cp").arg("--sparse=never").arg(place.at(name)).arg(&whole));
        let (status, _, err) = place.haul(&["--smart=require", "--punch", name]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{name}");
        assert!(allocated(place.at(name)) < before - 15 * MIB, "{name}");
        fs::rename(&whole, place.at("to").join(name)).expect("it can be renamed");
        assert_without(&place.at("to").join(name), &place.at(name), &place.free, false);
        check(format, &place.at(name));
        place.assert_disk(format, name, name);
        fs::remove_file(place.at(name)).expect("it can be removed");
    }
    place.cut();
    let (status, _, err) = place.haul(&["--smart", "--punch", "a.vmdk"]);
    assert!(status == Some(1) && err.contains("other files are not looked for"), "{err}");
}
