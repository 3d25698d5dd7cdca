//! What stands at the destination, or would stand there: old rights, FIFOs, symbolic links, the source itself.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use haul_testbed::{Bed, Fs, painted, skip, temp_dir};
use rustix::fs::OFlags;

use super::{HAUL, assert_tidy, haul, run, said, succeeds};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("its mode can be set");
}

/// haul, killed if it waits for somebody who never comes.
fn with_deadline(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", HAUL]).args(arguments).current_dir(dir).env("LC_ALL", "C");
    let output = command.output().expect("it can be run");
    assert_ne!(output.status.code(), Some(137), "{arguments:?} waits for ever");
    output
}

#[test]
fn special_bits_of_an_overwritten_file_end_as_the_sources() {
    let Some(bed) = Bed::new() else { return };
    for kind in [Fs::Ext4, Fs::Tmpfs] {
        let Some(place) = bed.mount(kind) else { continue };
        let (new, old) = (place.join("new"), place.join("old"));
        for acl in [false, true] {
            fs::write(&new, "new").unwrap();
            if acl {
                run("setfacl", &["-m", "u:1:r", new.to_str().expect("a name")]);
            }
            for wanted in [0o644, 0o755, 0o2755] {
                set_mode(&new, wanted);
                for before in [0o4755, 0o2755, 0o1644, 0o6777] {
                    for options in [&["-a"][..], &["-p"], &["-a", "--atomic"], &["-a", "--attributes-only"]] {
                        fs::write(&old, "old").unwrap();
                        set_mode(&old, before);
                        succeeds(&place, &[options, &["new", "old"]].concat());
                        assert_eq!(mode(&old), mode(&new), "{options:?} over {before:o} with an ACL: {acl}");
                        if options[options.len() - 1] != "--attributes-only" {
                            succeeds(&place, &["-a", "--compare", "-T", "new", "old"]);
                        }
                    }
                }
            }
            fs::remove_file(&new).unwrap();
            fs::remove_file(&old).unwrap();
        }
    }
}

#[test]
fn an_existing_directory_keeps_its_set_group_id_bit() {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("s")).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    set_mode(&dir.path().join("s"), 0o755);
    set_mode(&dir.path().join("d"), 0o2750);
    succeeds(dir.path(), &["-aT", "s", "d"]);
    assert_eq!(mode(&dir.path().join("d")), 0o2755);
}

fn make_fifo(path: &Path) {
    run("mkfifo", &[path.to_str().expect("a name")]);
}

#[test]
fn a_fifo_that_nobody_reads_is_an_error() {
    for options in [&["-a"][..], &["-r"], &["-a", "--jobs=4"], &["-a", "--atomic"], &["-a", "--verify"], &["--atomic"]]
    {
        let dir = temp_dir();
        let place = dir.path();
        for name in ["s", "d"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        fs::write(place.join("s/f"), "contents").unwrap();
        fs::write(place.join("s/other"), "contents").unwrap();
        make_fifo(&place.join("d/f"));
        let operands = if options == ["--atomic"] { ["s/f", "d/f"] } else { ["s", "d"] };
        let output = with_deadline(place, &[options, &["-T"], &operands[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        let words = "cannot create regular file 'd/f': No such device or address";
        assert!(said(&output).contains(words), "{options:?}: {}", said(&output));
        assert!(fs::symlink_metadata(place.join("d/f")).unwrap().file_type().is_fifo());
        if operands == ["s", "d"] {
            assert_eq!(fs::read_to_string(place.join("d/other")).unwrap(), "contents", "{options:?}");
        }
        assert_tidy(place);
    }
}

#[test]
fn a_fifo_that_somebody_reads_is_written_to() {
    let dir = temp_dir();
    let place = dir.path();
    fs::write(place.join("f"), "contents").unwrap();
    make_fifo(&place.join("fifo"));
    for options in [&["-a"][..], &["-r"], &["--atomic"], &[]] {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut reader = File::options().read(true).custom_flags(flags).open(place.join("fifo")).unwrap();
        let output = with_deadline(place, &[options, &["-T", "f", "fifo"]].concat());
        assert!(output.status.success(), "{options:?}: {}", said(&output));
        let mut bytes = String::new();
        reader.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "contents", "{options:?}");
    }
}

#[test]
fn who_names_a_fifo_waits_for_its_reader() {
    let dir = temp_dir();
    let place = dir.path();
    fs::write(place.join("f"), "contents").unwrap();
    make_fifo(&place.join("fifo"));
    // The reader opens the FIFO when haul has done so, or before: either waits for the other.
    let mut child = Command::new("timeout")
        .args(["-s", "KILL", "60", HAUL, "f", "fifo"])
        .current_dir(place)
        .spawn()
        .expect("it can be run");
    assert_eq!(fs::read_to_string(place.join("fifo")).unwrap(), "contents");
    assert!(child.wait().unwrap().success());
}

