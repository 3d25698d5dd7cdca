//! Sources that change while they are copied: the copy must end, and must not crash.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_agree::stage::wait;
use haul_io::engine::{EngineName, Role};
use haul_testbed::Command;

use crate::support::{LIMIT, sealed};

/// Bytes that a writer adds at most: a copier that never ends is distinguished from one that ends late.
const MOST: u64 = 160 << 20;

/// Copies a file again and again while `change` works on it, which gets the number of its call.
fn copy_while(name: &str, options: &[&str], size: u64, change: fn(&File, u64)) {
    sealed(name, |place| {
        for filesystem in ["memory", "disk"] {
            let directory = place.room.join(filesystem).join("changing");
            std::fs::create_dir(&directory).expect("a directory");
            let source = File::options().create(true).write(true).truncate(true).open(directory.join("source"));
            let source = source.expect("a file");
            source.set_len(size).expect("room");
            source.write_all_at(&vec![1; 1 << 16], 0).expect("room");
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        change(&source, count);
                        count += 1;
                    }
                });
                let runs = copy(&directory, &place.cp, options);
                done.store(true, Ordering::Relaxed);
                for run in runs {
                    assert!(run == "exit 0" || run == "exit 1", "{options:?} on {filesystem}: {run}");
                }
            });
            std::fs::remove_dir_all(&directory).expect("can be removed");
        }
    });
}

fn copy(directory: &Path, program: &Path, options: &[&str]) -> Vec<String> {
    let run = |_| {
        let mut command = Command::new(program);
        command.arg0("cp").args(options).args(["source", "copy"]).current_dir(directory);
        // What it says about a file that shrank is its own affair.
        let child = command.stderr(std::process::Stdio::null()).spawn().expect("starts");
        let (status, timed_out) = wait(child, LIMIT).expect("can be waited for");
        if timed_out { "hang".to_owned() } else { haul_agree::stage::describe(status) }
    };
    (0..10).map(run).collect()
}

fn grow(file: &File, count: u64) {
    let at = count << 16;
    if at < MOST {
        file.write_all_at(&[2; 1 << 16], at).expect("room");
    } else {
        std::thread::yield_now();
    }
}

fn grow_with_holes(file: &File, count: u64) {
    if count << 17 < MOST {
        file.write_all_at(&[2; 4096], count << 17).expect("room");
    } else {
        std::thread::yield_now();
    }
}

fn shrink_and_grow(file: &File, count: u64) {
    file.set_len([0, 16 << 20, 5, 1 << 20][count as usize % 4]).expect("room");
    if count % 4 == 1 {
        file.write_all_at(&[3; 1 << 16], 8 << 20).expect("room");
    }
}

#[test]
fn a_growing_file_is_copied_and_the_copy_ends() {
    copy_while("growing file", &[], 1 << 20, grow);
}

#[test]
fn a_growing_sparse_file_is_copied_and_the_copy_ends() {
    copy_while("growing sparse file", &["--sparse=always"], 1 << 20, grow_with_holes);
}

#[test]
fn a_file_that_shrinks_and_grows_neither_hangs_nor_kills_the_copier() {
    copy_while("shrinking file", &[], 16 << 20, shrink_and_grow);
}

#[test]
fn a_sparse_file_that_shrinks_and_grows_neither_hangs_nor_kills_the_copier() {
    copy_while("shrinking sparse file", &["--sparse=always"], 16 << 20, shrink_and_grow);
}

#[test]
fn every_engine_survives_a_file_that_shrinks_and_grows() {
    for engine in EngineName::ALL.into_iter().filter(|engine| engine.caps().role != Role::Dummy) {
        sealed(&format!("engine {engine}"), |place| {
            let directory = place.room.join("disk");
            std::fs::write(directory.join("source"), vec![1; 1 << 20]).expect("room");
            let mut command = Command::new(&place.cp);
            command.arg(format!("--engine={engine}")).args(["source", "copy"]).current_dir(&directory);
            // A filesystem without shared extents refuses to clone; an unknown engine is reported in other words.
            let said = String::from_utf8_lossy(&command.output().expect("starts").stderr).into_owned();
            assert!(said.is_empty() || engine == EngineName::Clone && !said.contains("invalid"), "{engine}: {said}");
        });
        copy_while(&format!("shrinking file, {engine}"), &[&format!("--engine={engine}")], 16 << 20, shrink_and_grow);
    }
}
