//! Trees deeper than a path can be long, and trees with very many entries.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use haul_agree::scene::mount_tmpfs;
use haul_agree::skip::skip;
use haul_testbed::Command;
use rustix::fs::{CWD, Mode, OFlags};

use crate::support::{number, sealed};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open(at: impl std::os::fd::AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(at, name, DIRECTORY, Mode::empty())?)
}

/// A directory at `root` with `levels` directories inside each other, and a file in each.
fn dig(root: &Path, name: &str, levels: usize) -> io::Result<()> {
    std::fs::create_dir(root)?;
    let mut directory = rustix::fs::openat(CWD, root, DIRECTORY, Mode::empty())?;
    for level in 0..levels {
        let file = rustix::fs::openat(&directory, "f", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o640))?;
        rustix::io::write(&file, level.to_string().as_bytes())?;
        rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o750))?;
        directory = open(&directory, name)?;
    }
    Ok(())
}

/// How many levels of what [`dig`] made are there, with the right contents.
fn depth(root: &Path, name: &str) -> io::Result<usize> {
    let mut directory = rustix::fs::openat(CWD, root, DIRECTORY, Mode::empty())?;
    let mut level = 0;
    loop {
        let next = match open(&directory, name) {
            Ok(next) => next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(level),
            Err(error) => return Err(error),
        };
        let file = File::from(rustix::fs::openat(&directory, "f", OFlags::RDONLY, Mode::empty())?);
        let contents = io::read_to_string(file)?;
        assert_eq!(contents, level.to_string(), "the file at level {level}");
        assert_eq!(rustix::fs::fstat(&next)?.st_mode & 0o777, 0o750, "the directory at level {level}");
        directory = next;
        level += 1;
    }
}

fn copies_a_deep_tree(test: &str, name: &'static str, levels: usize, options: &[&str], starter: &[&str]) {
    sealed(test, |place| {
        let (from, to) = (place.room.join("memory/from"), place.room.join("memory/to"));
        dig(&from, name, levels).expect("a deep tree");
        let mut command = match starter.split_first() {
            Some((starter, rest)) => {
                let mut command = Command::new(starter);
                command.args(rest).arg(&place.cp);
                command
            }
            None => Command::new(&place.cp),
        };
        let run = command.args(options).arg(&from).arg(&to).output().expect("starts");
        let said: String = String::from_utf8_lossy(&run.stderr).chars().take(2000).collect();
        assert!(run.status.success(), "{:?}: {said}", run.status);
        assert_eq!(depth(&to, name).expect("a deep copy"), levels);
    });
}

#[test]
fn a_tree_deeper_than_path_max_is_copied_whole() {
    copies_a_deep_tree("600 levels of 11 bytes", "elevenbytes", 600, &["-r"], &[]);
}

#[test]
fn a_tree_deeper_than_path_max_is_copied_whole_with_its_attributes() {
    copies_a_deep_tree("600 levels of 11 bytes, -a", "elevenbytes", 600, &["-a"], &[]);
}

#[test]
fn three_thousand_levels_are_copied() {
    copies_a_deep_tree("3000 levels", "d", 3000, &["-a"], &[]);
}

#[test]
fn three_thousand_levels_are_copied_with_sixty_four_descriptors() {
    copies_a_deep_tree("3000 levels, 64 descriptors", "d", 3000, &["-a"], &["prlimit", "--nofile=64"]);
}

#[test]
fn three_thousand_levels_are_copied_with_a_small_stack() {
    copies_a_deep_tree("3000 levels, 1 MiB of stack", "d", 3000, &["-a"], &["prlimit", "--stack=1048576"]);
}

#[test]
fn messages_about_files_below_path_max_name_them() {
    sealed("messages from below PATH_MAX", |place| {
        let (from, to) = (place.room.join("memory/from"), place.room.join("memory/to"));
        dig(&from, "elevenbytes", 500).expect("a deep tree");
        let run = Command::new(&place.cp).arg("-rv").arg(&from).arg(&to).output().expect("starts");
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        let longest = said.lines().map(str::len).max().unwrap_or_default();
        assert_eq!(said.lines().count(), 1 + 2 * 500, "{}", String::from_utf8_lossy(&run.stderr));
        assert!(longest > 2 * 500 * 12, "the longest line has {longest} bytes");
    });
}

/// The peak of a process's resident memory so far, in KiB.
fn high_water(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

/// Copies `directories` x `files` empty files and returns the peak of resident memory in MiB.
fn peak(directories: usize, files: usize) -> Option<u64> {
    let mut peak = None;
    sealed("many entries", |place| {
        let room = place.room.join("many");
        std::fs::create_dir(&room).expect("a directory");
        mount_tmpfs(&room, "16g,nr_inodes=0").expect("a tmpfs");
        for directory in 0..directories {
            let path = room.join(format!("from/{directory}"));
            std::fs::create_dir_all(&path).expect("a directory");
            for file in 0..files {
                File::create(path.join(format!("file-{file}"))).expect("a file");
            }
        }
        let mut command = Command::new(&place.cp);
        command.arg0("cp").args(["-a", "from", "to"]).current_dir(&room);
        let mut child = command.spawn().expect("starts");
        // What wait4 reports would include this process as it was when the child was made.
        let status = format!("/proc/{}/status", child.id());
        let mut high = 0;
        let ended = loop {
            if let Some(ended) = child.try_wait().expect("can be asked") {
                break ended;
            }
            high = high_water(&status).unwrap_or(high).max(high);
            std::thread::yield_now();
        };
        assert!(ended.success());
        let mut count = 0;
        for directory in std::fs::read_dir(room.join("to")).expect("was copied") {
            count += std::fs::read_dir(directory.expect("an entry").path()).expect("a directory").count();
        }
        assert_eq!(count, directories * files);
        assert!(high > 0, "memory was never seen");
        peak = Some(high >> 10);
    });
    peak
}

#[test]
fn a_hundred_thousand_entries_take_little_memory() {
    if let Some(peak) = peak(100, 1000) {
        assert!(peak <= 48, "{peak} MiB");
    }
}

#[test]
fn a_hundred_thousand_entries_of_one_directory_take_little_memory() {
    if let Some(peak) = peak(1, 100_000) {
        assert!(peak <= 64, "{peak} MiB");
    }
}

#[test]
fn a_million_entries_take_no_more_memory_than_a_hundred_thousand() {
    if number("HAUL_AGREE_MILLION", 0) == 0 {
        // Not a lack of the machine: it is left to whoever asks for it.
        println!("set HAUL_AGREE_MILLION=1 to copy a million files");
        return;
    }
    if let Some(peak) = peak(1000, 1000) {
        assert!(peak <= 48, "{peak} MiB");
    } else {
        skip("a million entries", "could not be played");
    }
}
