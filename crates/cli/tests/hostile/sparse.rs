//! Files of holes, as large as a file can be.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use haul_copy::plan::EngineName;
use haul_testbed::{Bed, Fs, allocated, data_extents};
use rustix::process::{Pid, Signal, kill_process};

use crate::{haul, said};

/// The largest size of all files, and that of a file of ext4 with blocks of 4 KiB.
const LARGEST: u64 = i64::MAX as u64;
const LARGEST_OF_EXT4: u64 = (16 << 40) - 4096;

/// Some bytes at the beginning, in the middle and at the end.
const MARKS: [&[u8]; 3] = [b"beginning", b"middle", b"end"];

fn places(size: u64) -> [u64; 3] {
    [0, size / 2, size - MARKS[2].len() as u64]
}

/// Makes such a file; gives its directory and its size.
fn make(bed: &Bed, filesystem: Fs) -> Option<(PathBuf, u64)> {
    let dir = bed.mount(filesystem)?;
    let size = if filesystem == Fs::Ext4 { LARGEST_OF_EXT4 } else { LARGEST };
    let file = File::create_new(dir.join("large")).expect("a file");
    file.set_len(size).expect("a size");
    for (mark, at) in MARKS.iter().zip(places(size)) {
        file.write_all_at(mark, at).expect("room");
    }
    Some((dir, size))
}

fn assert_is_copy(dir: &Path, size: u64, context: &str) {
    let copy = File::open(dir.join("copy")).expect("it was copied");
    assert_eq!(copy.metadata().expect("it is open").size(), size, "{context}");
    for (mark, at) in MARKS.iter().zip(places(size)) {
        let mut bytes = vec![0; mark.len()];
        copy.read_exact_at(&mut bytes, at).expect("it can be read");
        assert_eq!(&bytes, mark, "{context}");
    }
    let extents = data_extents(&copy);
    assert!(extents.len() <= 3, "{context}: {extents:?}");
    let taken = allocated(dir.join("copy"));
    assert!(taken <= 4 << 20, "{context}: {taken} bytes are allocated");
}

#[test]
fn a_file_of_the_largest_size_is_copied_by_every_engine_without_its_holes() {
    let Some(bed) = Bed::new() else { return };
    for filesystem in Fs::ALL {
        let Some((dir, size)) = make(&bed, filesystem) else { continue };
        let engines = EngineName::ALL.iter().map(|engine| engine.as_str()).filter(|name| *name != "null");
        let engines = engines.map(|name| format!("--engine={name}"));
        let others = ["-a", "-a --atomic", "--durable=file", "--sparse=always", "--reflink=never", "--jobs=4"];
        for options in engines.chain(others.map(str::to_owned)) {
            let context = format!("{} {options}", filesystem.name());
            let output = haul(&dir).args(options.split(' ')).args(["large", "copy"]).output().expect("it can be run");
            assert!(output.status.success() || options == "--engine=clone", "{context}: {}", said(&output));
            if output.status.success() {
                assert_is_copy(&dir, size, &context);
                fs::remove_file(dir.join("copy")).expect("it can be removed");
            }
        }
        fs::remove_file(dir.join("large")).expect("it can be removed");
    }
}

#[test]
fn files_of_the_largest_size_are_compared_by_what_is_in_them() {
    let Some(bed) = Bed::new() else { return };
    for filesystem in Fs::ALL {
        let Some((dir, size)) = make(&bed, filesystem) else { continue };
        let compare = || {
            let output = haul(&dir).args(["--compare", "large", "copy"]).output().expect("it can be run");
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output))
        };
        assert!(haul(&dir).args(["large", "copy"]).status().expect("it can be run").success());
        assert_eq!(compare(), (Some(0), String::new()), "{}", filesystem.name());
        let copy = File::options().write(true).open(dir.join("copy")).expect("it was copied");
        copy.write_all_at(b"D", size - 1).expect("room");
        let (status, words) = compare();
        assert!(
            status == Some(1) && words.contains(&format!("from byte {}", size - 1)),
            "{} {status:?}: {words}",
            filesystem.name()
        );
        for name in ["large", "copy"] {
            fs::remove_file(dir.join(name)).expect("it can be removed");
        }
    }
}

/// It would take centuries.
#[test]
fn that_holes_without_end_are_read_again_is_said_and_can_be_stopped() {
    let Some(bed) = Bed::new() else { return };
    let Some((dir, _)) = make(&bed, Fs::Tmpfs) else { return };
    for options in ["--verify=read", "--verify=device", "--checksum=xxh3"] {
        let mut command = haul(&dir);
        let mut child = command.args([options, "large", "copy"]).stderr(Stdio::piped()).spawn().expect("it can be run");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let line = lines.next().unwrap_or_default();
        assert_eq!(line, "haul: warning: all of 'large' is read again, 8388607 TiB of holes too", "{options}");
        kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
        let status = child.wait().expect("the child is ours");
        assert_eq!(status.code(), Some(130), "{options}");
        assert!(!dir.join("copy").exists(), "{options}");
    }
}
