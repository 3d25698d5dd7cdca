//! `haul --smart`: disk images copied without what their guests do not use, end to end.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Output, Stdio};

use haul_testbed::guest::{digests, has, live_through, run as tool};
use haul_testbed::{Bed, Command, temp_dir};

const MIB: u64 = 1 << 20;

fn haul(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.current_dir(dir).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT").stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.args(arguments).output().expect("it can be run");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// Waits until no child of another test holds a descriptor of it.
fn settled(path: &Path) {
    let file = File::open(path).expect("it is there");
    while haul_sys::in_use::is_open_for_writing(file.as_fd()) == Ok(true) {
        std::thread::yield_now();
    }
}

/// An image of ext4 with files, and with the rests of others in its free space.
fn ext4(bed: &Bed, image: &Path) -> std::collections::BTreeMap<std::path::PathBuf, (u64, u64)> {
    File::create(image).expect("it can be made").set_len(96 * MIB).expect("it can be extended");
    tool(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "lazy_itable_init=0"]).arg(image));
    let mounted = bed.mount_image("ext4", image, &[]);
    live_through(mounted.path(), 20 * MIB, 3);
    let files = digests(mounted.path());
    mounted.unmount();
    settled(image);
    files
}

/// The files of an image of ext4: mounted read-only, then for writing.
fn assert_files(bed: &Bed, image: &Path, files: &std::collections::BTreeMap<std::path::PathBuf, (u64, u64)>) {
    tool(Command::new("e2fsck").args(["-fn"]).arg(image));
    for options in [&["ro"][..], &[]] {
        let mounted = bed.mount_image("ext4", image, options);
        assert_eq!(&digests(mounted.path()), files);
        mounted.unmount();
    }
}

#[test]
fn an_image_arrives_with_its_files_and_attributes_and_without_its_free_space() {
    if !has("mkfs.ext4") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let files = ext4(&bed, &at("disk"));
    tool(Command::new("touch").args(["-d", "2001-02-03 04:05:06.789", "disk"]).current_dir(dir.path()));
    tool(Command::new("chmod").args(["640", "disk"]).current_dir(dir.path()));
    fs::write(at("plain"), vec![7; 3 << 20]).expect("it can be written");
    fs::create_dir(at("to")).expect("it can be made");
    settled(&at("plain"));

    let (status, out, err) = haul(dir.path(), &["--smart", "-p", "--explain", "--stats=json", "disk", "plain", "to"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("are free and were not read\n    whole disk: ext4, mapped; "), "{out}");
    let record: serde_json::Value = serde_json::from_str(err.lines().last().unwrap_or_default()).expect("a record");
    let image = record.pointer("/images/0").expect("one image");
    let skipped = image.get("skipped").and_then(serde_json::Value::as_u64).expect("a number");
    assert!(skipped > 40 * MIB && Some(skipped) == image.get("free").and_then(serde_json::Value::as_u64), "{image}");
    assert_eq!(image.pointer("/regions/0/filesystem").and_then(|kind| kind.as_str()), Some("ext4"));
    let figure = |name: &str| image.get(name).and_then(serde_json::Value::as_f64).expect("a number");
    assert!(figure("workers") >= 1.0 && figure("read_seconds") > 0.0 && figure("write_seconds") > 0.0, "{image}");
    assert!(figure("read_seconds") + figure("write_seconds") <= figure("worker_seconds"), "{image}");
    assert_eq!(record.pointer("/images/1"), None);
    assert_eq!(record.pointer("/bytes/total").and_then(serde_json::Value::as_u64), Some(99 * MIB));

    let (old, new) = (at("disk").metadata().expect("there"), at("to/disk").metadata().expect("there"));
    assert_eq!((old.len(), old.mode(), old.mtime_nsec()), (new.len(), new.mode(), new.mtime_nsec()));
    assert!(new.blocks() * 512 <= old.len() - skipped, "{} blocks", new.blocks());
    assert_eq!(fs::read(at("plain")).expect("there"), fs::read(at("to/plain")).expect("there"));
    assert_files(&bed, &at("to/disk"), &files);

    // Over an old file, with zeros in the place of what is free: none of the old bytes shine through.
    fs::write(at("old"), vec![0xee; 100 << 20]).expect("it can be written");
    let (status, _, err) = haul(dir.path(), &["--smart=require", "--sparse=never", "disk", "old"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let free_of = fs::read(at("old")).expect("there");
    assert_eq!(free_of.len() as u64, 96 * MIB);
    assert!(!free_of.chunks(4096).any(|block| block.iter().all(|byte| *byte == 0xee)));
    assert!(at("old").metadata().expect("there").blocks() * 512 >= 96 * MIB);
    assert_files(&bed, &at("old"), &files);
}

#[test]
fn an_image_in_use_is_copied_whole_or_not_at_all() {
    if !has("mkfs.ext4") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let files = ext4(&bed, &at("disk"));
    let writer = File::options().write(true).open(at("disk")).expect("it can be opened");
    let (status, out, err) = haul(dir.path(), &["--smart", "--explain", "disk", "copy"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.contains("disk image, copied whole: it is in use: another process has it open for writing"), "{out}");
    assert!(fs::read(at("disk")).expect("there") == fs::read(at("copy")).expect("there"), "not every byte is there");

    fs::write(at("old"), "kept").expect("it can be written");
    fs::write(at("fine"), "").expect("it can be written");
    for dest in ["new", "old"] {
        let (status, _, err) = haul(dir.path(), &["--smart=require", "disk", dest]);
        assert_eq!(status, Some(1));
        assert!(err.contains("will not copy 'disk' without knowing its free space: it is in use"), "{err}");
    }
    assert!(!at("new").exists());
    assert_eq!(fs::read(at("old")).expect("there"), b"kept");
    let (status, _, err) = haul(dir.path(), &["--smart=require", "fine", "new"]);
    assert_eq!((status, at("new").exists()), (Some(1), false), "{err}");
    assert!(err.contains("no part of it could be mapped"), "{err}");

    let (status, _, err) = haul(dir.path(), &["--smart=require", "--snapshot", "disk", "snapshot"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    drop(writer);
    assert_files(&bed, &at("snapshot"), &files);
}

#[test]
fn an_image_of_which_nothing_is_proven_is_every_byte_the_same() {
    if !has("mkfs.ext4") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    ext4(&bed, &at("disk"));
    // The state that e2fsck calls "not clean, with errors".
    let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
    disk.write_all_at(&[2, 0], 1024 + 58).expect("it can be written");
    drop(disk);
    settled(&at("disk"));
    let (status, out, err) = haul(dir.path(), &["--smart", "--explain", "disk", "copy"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.contains("copied whole") && out.contains("ext4, refused, "), "{out}");
    assert!(fs::read(at("disk")).expect("there") == fs::read(at("copy")).expect("there"), "not every byte is there");
    let (status, _, err) = haul(dir.path(), &["--smart=require", "disk", "copy2"]);
    assert!(status == Some(1) && err.contains("whole disk: "), "{err}");
    assert!(!at("copy2").exists());
}

#[test]
fn an_image_that_changes_while_it_is_copied_fails_where_that_is_asked_for() {
    if !has("mkfs.ext4") {
        return;
    }
    for (option, status, kept) in [("fail", 1, true), ("retry", 1, true), ("warn", 0, false)] {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("files")).expect("it can be made");
        fs::write(at("files/data"), vec![7; 6 << 20]).expect("it can be written");
        tool(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).arg(at("files")).arg(at("disk")).arg("16M"));
        settled(&at("disk"));
        fs::write(at("copy"), "old").expect("it can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.args(["--smart", "--atomic", "--limit=2M", &format!("--if-changed={option}"), "disk", "copy"]);
        command.current_dir(dir.path()).env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be run");
        let temporary = || {
            let entries = fs::read_dir(dir.path()).expect("it can be read").flatten();
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".haul-")).collect::<Vec<_>>()
        };
        let has_begun = || temporary().iter().any(|entry| entry.metadata().is_ok_and(|found| found.blocks() > 0));
        while !has_begun() {
            assert!(child.try_wait().expect("it is ours").is_none(), "it ended too soon");
            std::thread::yield_now();
        }
        let now = std::time::SystemTime::now();
        File::open(at("disk")).and_then(|disk| disk.set_modified(now)).expect("its time can be set");
        let output = child.wait_with_output().expect("it is ours");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{option}: {said}");
        assert_eq!(said.contains("changed while it was being copied"), kept, "{option}: {said}");
        assert_eq!(fs::read(at("copy")).expect("it is there") == b"old", kept, "{option}: {said}");
        assert!(!said.is_empty() && temporary().is_empty(), "{option}: {said}");
    }
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let dir = temp_dir();
    for (arguments, message) in [
        (&["--smart", "--reflink=always", "a", "b"][..], "cannot combine --reflink=always and --smart"),
        (&["--snapshot", "a", "b"], "--snapshot has a meaning only with --smart"),
    ] {
        let (status, _, err) = haul(dir.path(), arguments);
        assert!(status == Some(1) && err.contains(message), "{err}");
    }
}

#[test]
fn free_space_is_given_back_in_place_unless_somebody_has_the_image() {
    if !has("mkfs.ext4") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let files = ext4(&bed, &at("disk"));
    let whole = fs::read(at("disk")).expect("there");
    let blocks = || at("disk").metadata().expect("there").blocks() * 512;
    let before = blocks();

    // Even a reader: it may be a machine that boots from it.
    let reader = File::open(at("disk")).expect("it can be opened");
    let (status, _, err) = haul(dir.path(), &["--smart", "--punch", "disk"]);
    assert!(status == Some(1) && err.contains("will not free space in 'disk': another process has it open"), "{err}");
    drop(reader);
    let mounted = bed.mount_image("ext4", &at("disk"), &["ro"]);
    let (status, _, err) = haul(dir.path(), &["--smart", "--punch", "disk"]);
    assert!(status == Some(1) && err.contains("will not free space in 'disk': it is in use"), "{err}");
    mounted.unmount();
    for arguments in [&["--punch", "disk"][..], &["--smart", "--punch", "-r", "disk"], &["--smart", "--punch"]] {
        assert_eq!(haul(dir.path(), arguments).0, Some(1));
    }
    assert_eq!(haul(dir.path(), &["--smart", "--punch", "."]).0, Some(1));
    assert_eq!(blocks(), before);

    settled(&at("disk"));
    let (status, out, err) = haul(dir.path(), &["--smart=require", "--punch", "--explain", "disk"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let freed = before - blocks();
    assert!(freed > 40 * MIB && out.starts_with(&format!("'disk': {freed} bytes freed (")), "{freed}: {out}");
    let punched = fs::read(at("disk")).expect("there");
    assert_eq!(punched.len(), whole.len());
    let changed = punched.chunks(4096).zip(whole.chunks(4096)).filter(|(new, old)| new != old);
    assert!(changed.clone().count() > 0 && changed.map(|(new, _)| new).all(|new| new.iter().all(|byte| *byte == 0)));
    assert_files(&bed, &at("disk"), &files);
}

#[test]
fn a_dirty_image_keeps_every_byte() {
    if !has("mkfs.ext4") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    ext4(&bed, &at("disk"));
    let disk = File::options().write(true).open(at("disk")).expect("it can be opened");
    disk.write_all_at(&[2, 0], 1024 + 58).expect("it can be written");
    drop(disk);
    settled(&at("disk"));
    let whole = fs::read(at("disk")).expect("there");
    for smart in ["--smart", "--smart=require"] {
        let (status, _, err) = haul(dir.path(), &[smart, "--punch", "disk"]);
        assert!(status == Some(1) && err.contains("will not free space in 'disk': "), "{err}");
        assert!(fs::read(at("disk")).expect("there") == whole);
    }
}

#[test]
fn what_only_looks_like_a_container_is_neither_mapped_nor_punched() {
    if !has("mkfs.ext4") || !has("qemu-img") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    ext4(&bed, &at("disk"));
    for format in ["qcow2", "vmdk", "vhdx", "vdi", "vpc"] {
        tool(
            Command::new("qemu-img")
                .args(["convert", "-f", "raw", "-O", format, "disk", "image"])
                .current_dir(dir.path()),
        );
        settled(&at("image"));
        let (status, out, err) = haul(dir.path(), &["--smart", "--explain", "image", "copy"]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{format}");
        assert!(out.contains("disk image, copied whole: it looks like a container of the format "), "{out}");
        assert!(fs::read(at("image")).expect("there") == fs::read(at("copy")).expect("there"), "{format}");
        let (status, _, err) = haul(dir.path(), &["--smart", "--punch", "image"]);
        assert!(status == Some(1) && err.contains("it looks like a container of the format"), "{format}: {err}");
    }
}

#[test]
fn smartcp_copies_the_disk_in_a_container_without_its_free_space() {
    if !has("mkfs.ext4") || !has("qemu-img") {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let files = ext4(&bed, &at("disk"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haul"), at("smartcp")).expect("it can be made");
    fs::create_dir(at("to")).expect("it can be made");
    let smartcp = |arguments: &[&str]| {
        let mut command = Command::new(at("smartcp"));
        let done = command.current_dir(dir.path()).env("LC_ALL", "C").args(arguments).output().expect("it can be run");
        assert!(done.status.success(), "{done:?}");
        (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for (format, name) in [("qcow2", "d.qcow2"), ("vmdk", "d.vmdk"), ("vhdx", "d.vhdx"), ("vdi", "d.vdi")] {
        tool(
            Command::new("qemu-img").args(["convert", "-f", "raw", "-O", format, "disk", name]).current_dir(dir.path()),
        );
        settled(&at(name));
        let (out, err) = smartcp(&["-v", "-g", name, "to"]);
        assert!(err.is_empty() && out.contains(&format!("Container: {format}, copied as a raw disk\n")), "{out}{err}");
        let copy = at("to").join(format!("{name}.raw"));
        let found = copy.metadata().expect("there");
        assert!(found.len() == 96 * MIB && found.blocks() * 512 < 50 * MIB, "{format}: {found:?}");
        assert_files(&bed, &copy, &files);
        fs::remove_file(&copy).expect("it can be removed");

        // By another name it may be a raw disk whose guest is up to something.
        fs::rename(at(name), at("other")).expect("it can be renamed");
        let (_, err) = smartcp(&["other", "to"]);
        assert!(err.contains("is copied byte for byte: it looks like a container"), "{err}");
        assert!(fs::read(at("other")).expect("there") == fs::read(at("to/other")).expect("there"), "{format}");
        smartcp(&["--format=container", "other", "disk2"]);
        assert_files(&bed, &at("disk2"), &files);
        fs::remove_file(at("disk2")).expect("it can be removed");
    }
}
