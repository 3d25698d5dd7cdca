//! `--verify`, `--checksum` and `--digests`.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use haul_io::engine::{EngineName, Role};
use haul_testbed::{Bed, Command, Fs, assert_same_contents, create_painted, sparse_file, temp_dir};
use rustix::fs::OFlags;

use super::{HAUL, assert_same_trees, assert_tidy, entries, haul, make_tree, said, succeeds};

#[test]
fn a_verified_copy_of_a_tree_is_a_copy() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(place) = bed.mount(kind) else { continue };
        make_tree(&place.join("tree"));
        for options in [["--verify", "--jobs=1"], ["--verify=read", "--jobs=4"], ["--verify=device", "--jobs=4"]] {
            // What is in memory and nowhere else cannot be verified anywhere else.
            if kind == Fs::Tmpfs && options[0] == "--verify=device" {
                continue;
            }
            succeeds(&place, &[&["-a", "-T", "tree", "copy"][..], &options].concat());
            assert_same_trees(&place.join("tree"), &place.join("copy"));
            assert_tidy(&place);
            fs::remove_dir_all(place.join("copy")).unwrap();
        }
    }
}

#[test]
fn every_engine_can_be_verified() {
    let Some(bed) = Bed::new() else { return };
    for kind in [Fs::Ext4, Fs::Xfs, Fs::Btrfs] {
        let Some(place) = bed.mount(kind) else { continue };
        create_painted(place.join("dense"), (17 << 20) + 123);
        sparse_file(place.join("sparse"), 20 << 20, &[(3 << 20, 5000), (15 << 20, 1 << 20)]);
        for engine in EngineName::ALL.into_iter().filter(|engine| engine.caps().role == Role::Mover) {
            for name in ["dense", "sparse"] {
                for how in ["--verify=read", "--verify=device"] {
                    let engine = format!("--engine={engine}");
                    succeeds(&place, &[how, &engine, "--checksum=xxh3", name, "copy"]);
                    assert_same_contents(place.join(name), place.join("copy"));
                }
            }
        }
    }
}

/// Runs haul so that one of its calls claims to have done what it has not.
fn deceived(dir: &std::path::Path, inject: &str, arguments: &[&str]) -> Option<std::process::Output> {
    let call = inject.split(':').next().unwrap();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &format!("inject={inject}"), HAUL])
        .args(arguments)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output();
    match output {
        Ok(output) => Some(output),
        Err(_) => {
            haul_testbed::skip("no strace");
            None
        }
    }
}

#[test]
fn a_copy_that_differs_is_an_error_and_is_kept_under_a_name_that_says_so() {
    for (size, engine, call) in [
        (100_000u64, "--engine=read-write", "pwrite64:retval=100000:when=1"),
        (9 << 20, "--engine=read-write", "pwrite64:retval=131072:when=3"),
        (9 << 20, "--engine=copy-range", "copy_file_range:retval=1048576:when=1"),
    ] {
        for how in ["--verify=read", "--verify=device"] {
            let dir = temp_dir();
            let at = |name: &str| dir.path().join(name);
            create_painted(at("source"), size);
            fs::write(at("dest"), "old").unwrap();
            let options = [how, engine, "--reflink=never", "--preallocate=always", "source", "dest"];
            let options = if engine.ends_with("range") { [how, engine, "-f", "-f", "source", "dest"] } else { options };
            let Some(output) = deceived(dir.path(), call, &options) else { return };
            assert_eq!(output.status.code(), Some(1), "{call} {how}: {}", said(&output));
            assert!(said(&output).contains("the copy 'dest' differs from its source from byte"), "{}", said(&output));
            assert!(said(&output).contains("it is kept as 'dest.haul-mismatch'"), "{}", said(&output));
            assert_eq!(fs::read(at("dest")).unwrap(), b"old");
            assert!(at("dest.haul-mismatch").exists());
            assert!(entries(dir.path()).len() == 3, "{:?}", entries(dir.path()));
            // Without looking, nobody would know.
            let Some(blind) = deceived(dir.path(), call, &options[1..]) else { return };
            assert!(blind.status.success() || !said(&blind).contains("differs"));
        }
    }
}

#[test]
fn a_filesystem_without_a_device_is_an_error_for_verifying_there() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    create_painted(place.join("source"), 5 << 20);
    let output = haul(&place, &["--verify=device", "source", "dest"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot verify 'dest' on its device"), "{}", said(&output));
    assert_same_contents(place.join("source"), place.join("dest"));
}

#[test]
fn a_block_device_is_verified_in_place() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    create_painted(place.join("source"), 6 << 20);
    fs::File::create(place.join("disk")).unwrap().set_len(8 << 20).unwrap();
    let device = Attached(haul_testbed::guest::attach(&place.join("disk"), &[]));
    for how in ["--verify=read", "--verify=device"] {
        let output = haul(&place, &[how, "source", &device.0]);
        assert!(output.status.success(), "{}", said(&output));
    }
    drop(device);
    let disk = fs::read(place.join("disk")).unwrap();
    assert!(disk[..6 << 20] == fs::read(place.join("source")).unwrap()[..]);
}

/// A loop device, until this is dropped.
struct Attached(String);

impl Drop for Attached {
    fn drop(&mut self) {
        haul_testbed::guest::run(Command::new("losetup").args(["-d", &self.0]));
    }
}

#[test]
fn what_cannot_be_read_again_is_an_error() {
    let dir = temp_dir();
    super::run("mkfifo", &[dir.path().join("fifo").to_str().unwrap()]);
    fs::write(dir.path().join("source"), "text").unwrap();
    // Open before haul opens it, which does not wait for a reader.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let _reader = File::options().read(true).custom_flags(flags).open(dir.path().join("fifo")).unwrap();
    let output = haul(dir.path(), &["--verify", "source", "fifo"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot read 'fifo' a second time"), "{}", said(&output));
    let output = haul(dir.path(), &["--verify", "--smart", "source", "dest"]);
    assert!(said(&output).contains("do not go with --smart"), "{}", said(&output));
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn the_lists_are_those_that_the_checking_programs_read() {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    for name in ["new\nline", "back\\slash", "blank and 'quote'"] {
        fs::write(dir.path().join("tree").join(name), name).unwrap();
    }
    for (algorithm, program) in [("sha256", "sha256sum"), ("md5", "md5sum"), ("xxh3", "xxhsum"), ("blake3", "b3sum")] {
        for options in [["--jobs=1", "--durable=none"], ["--jobs=4", "--verify=read"], ["--jobs=4", "--durable=file"]] {
            let copy = dir.path().join("copy");
            let checksum = format!("--checksum={algorithm}");
            let arguments = ["-a", "-T", "--digests=list", &checksum, options[0], options[1], "tree", "copy"];
            succeeds(dir.path(), &arguments);
            let list = fs::read(dir.path().join("list")).unwrap();
            // One for each file that is no further name of another.
            assert_eq!(list.iter().filter(|byte| **byte == b'\n').count(), 59, "{}", String::from_utf8_lossy(&list));
            match Command::new(program).args(["-c", "--quiet", "list"]).current_dir(dir.path()).output() {
                Ok(checked) => assert!(checked.status.success(), "{program}: {checked:?}"),
                Err(_) => haul_testbed::skip(format!("no {program}")),
            }
            fs::remove_dir_all(copy).unwrap();
        }
    }
}

#[test]
fn without_a_list_digests_are_printed_and_are_those_of_the_source() {
    let dir = temp_dir();
    create_painted(dir.path().join("source"), 5 << 20);
    let output = succeeds(dir.path(), &["--checksum=sha256", "source", "dest"]);
    let expected = Command::new("sha256sum").arg("source").current_dir(dir.path()).output().unwrap();
    let expected = String::from_utf8(expected.stdout).unwrap().replace("source", "dest");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn a_list_that_cannot_be_written_stops_the_copy_before_it_begins() {
    let dir = temp_dir();
    fs::write(dir.path().join("source"), "text").unwrap();
    let output = haul(dir.path(), &["--digests=nowhere/list", "source", "dest"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "haul: cannot write the list of digests 'nowhere/list': No such file or directory\n";
    assert_eq!(said(&output), expected);
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn a_list_goes_to_where_a_link_leads_and_into_what_is_no_file() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("source"), "text").unwrap();
    fs::write(at("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", at("link")).unwrap();
    succeeds(dir.path(), &["--digests=link", "source", "dest"]);
    assert!(at("link").is_symlink());
    let list = fs::read(at("real")).unwrap();
    super::run("mkfifo", &[at("fifo").to_str().unwrap()]);
    let reader = Command::new("cat").arg("fifo").current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    succeeds(dir.path(), &["--digests=fifo", "source", "dest"]);
    assert_eq!(reader.wait_with_output().unwrap().stdout, list);
    assert!(!at("fifo").is_file());
    assert_tidy(dir.path());
}
