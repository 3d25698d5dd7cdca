//! Entries that vanish while they are copied: that is reported, and everything else is copied.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use haul_testbed::{Bed, Command, Fs};

use crate::{haul, number, said};

const DIRS: usize = 12;
const FILES: usize = 25;

/// Paths of directories and files.
fn tree(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for dir in 0..DIRS {
        let dir = PathBuf::from(format!("d{dir}/below/deep"));
        fs::create_dir_all(root.join(&dir)).expect("a directory");
        for file in 0..FILES {
            for place in [dir.as_path(), dir.parent().expect("a name")] {
                let path = place.join(format!("f{file}"));
                fs::write(root.join(&path), path.as_os_str().as_encoded_bytes()).expect("a file");
                all.push(path);
            }
        }
        all.push(dir);
    }
    all
}

/// Removes some of them until it is over; gives those that it has tried to remove.
fn remove(root: &Path, paths: &[PathBuf], rng: &mut Rng, over: &AtomicBool) -> BTreeSet<PathBuf> {
    let mut removed = BTreeSet::new();
    while !over.load(Ordering::Relaxed) && removed.len() < paths.len() / 3 {
        let path = &paths[rng.usize(..paths.len())];
        removed.insert(path.clone());
        let full = root.join(path);
        // It may be gone, with the directory that it was in.
        if full.is_dir() {
            fs::remove_dir_all(full).ok()
        } else {
            fs::remove_file(full).ok()
        };
    }
    removed
}

fn round(room: &Path, options: &str, seed: u64) -> bool {
    let (source, dest) = (room.join("s"), room.join("d"));
    let paths = tree(&source);
    let (over, mut rng) = (AtomicBool::new(false), Rng::with_seed(seed));
    let (output, removed) = std::thread::scope(|scope| {
        let mut command = haul(room);
        command.args(options.split(' ')).args(["-T", "s", "d"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("it can be run");
        let remover = scope.spawn(|| remove(&source, &paths, &mut rng, &over));
        let output = child.wait_with_output().expect("it ends");
        over.store(true, Ordering::Relaxed);
        (output, remover.join().expect("the remover lives"))
    });
    let context = format!("{options}, HAUL_HOSTILE_SEED={seed}: {}", said(&output));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}: {context}", output.status);
    // A file that loses its name while it is copied has changed, which is a warning and no error.
    let is_warning = |line: &str| line.ends_with(" changed while it was being copied");
    let reported = said(&output).lines().any(|line| !is_warning(line));
    assert_eq!(output.status.success(), !reported, "the status does not go with the words: {context}");
    for path in &paths {
        let vanished = removed.iter().any(|gone| path.starts_with(gone));
        let copy = dest.join(path);
        let stays = !vanished && !copy.exists();
        assert!(!stays, "{} stayed and was not copied: {context}", path.display());
        if let Ok(text) = fs::read(&copy) {
            assert_eq!(text, path.as_os_str().as_encoded_bytes(), "{}: {context}", path.display());
        }
    }
    let tidy = Command::new("sh").args(["-c", "! find d -name '.haul-*' | grep ."]).current_dir(room).status();
    assert!(tidy.expect("sh can be run").success(), "{context}");
    fs::remove_dir_all(source).expect("it can be removed");
    fs::remove_dir_all(dest).expect("it can be removed");
    reported
}

#[test]
fn what_vanishes_is_reported_and_everything_else_is_copied() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    let first = number("HAUL_HOSTILE_SEED", 1);
    let rounds = number("HAUL_HOSTILE_ROUNDS", 8);
    for options in ["-a", "-r --jobs=4", "-a --atomic", "-a --durable=file --jobs=4", "-a --verify=read", "-rL"] {
        let reported = (first..first + rounds).filter(|seed| round(&room, options, *seed)).count();
        println!("{options}: {rounds} rounds, something was missed in {reported}");
    }
}
