//! An attacker exchanges directories with symbolic links while haul works: nothing outside is read or written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_agree::scene::mount_tmpfs;
use haul_agree::snapshot::take;
use haul_agree::stage::{describe, wait};
use haul_testbed::Command;
use rustix::fs::{CWD, RenameFlags};

use crate::support::{LIMIT, lay, number, sealed};

const SECRET: &str = "the secret of another user";

/// Swaps two names for as long as the copies run.
struct Attack<'a> {
    first: PathBuf,
    second: PathBuf,
    over: &'a AtomicBool,
    swaps: &'a AtomicU64,
    /// Held by whoever must not be disturbed.
    calm: &'a Mutex<()>,
}

impl Attack<'_> {
    fn run(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let _calm = self.calm.lock().expect("nobody panics while calm");
            // One of the two may not be there yet; then there is nothing to exchange.
            if rustix::fs::renameat_with(CWD, &self.first, CWD, &self.second, RenameFlags::EXCHANGE).is_ok() {
                self.swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn copy(program: &Path, room: &Path, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.arg0("cp").args(arguments).current_dir(room).stdout(Stdio::null()).stderr(Stdio::null());
    let (status, timed_out) = wait(command.spawn().expect("starts"), LIMIT).expect("can be waited for");
    let ended = describe(status);
    assert!(!timed_out && (ended == "exit 0" || ended == "exit 1"), "{ended}");
}

/// Every regular file below `root`, symbolic links not followed.
fn texts(root: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    found.push((entry.path(), fs::read_to_string(entry.path()).unwrap_or_default()))
                }
                _ => {}
            }
        }
    }
    found
}

fn under_attack(
    name: &str,
    scene: impl Fn(&Path) + Sync,
    swapped: [&str; 2],
    round: impl Fn(&Path, &Path, &Mutex<()>) + Sync,
) {
    sealed(name, |place| {
        let room = place.room.join("attack");
        fs::create_dir(&room).expect("a directory");
        mount_tmpfs(&room, "256m").expect("a tmpfs");
        lay(&room, &["victim/deep/"]).expect("a victim");
        for name in ["victim/secret", "victim/deep/secret", "victim/a"] {
            fs::write(room.join(name), SECRET).expect("room");
        }
        scene(&room);
        let start = std::time::SystemTime::now() + std::time::Duration::from_secs(1 << 30);
        let before = take(&room.join("victim"), start).expect("a snapshot");
        let (over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
        let calm = Mutex::new(());
        let [first, second] = swapped.map(|name| room.join(name));
        std::thread::scope(|scope| {
            let attack = Attack { first, second, over: &over, swaps: &swaps, calm: &calm };
            scope.spawn(move || attack.run());
            let rounds = || (0..number("HAUL_AGREE_ROUNDS", 300)).for_each(|_| round(&room, &place.cp, &calm));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(rounds));
            over.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert!(swaps.load(Ordering::Relaxed) > 100, "the attacker hardly came to swap anything");
        let mut after = take(&room.join("victim"), start).expect("a snapshot");
        // Being read is checked by what arrives in the copy, not by a time of last access.
        for (path, item) in &mut after {
            item.atime = before.get(path).map_or(item.atime, |was| was.atime);
        }
        assert!(before == after, "the victim was changed: {after:?}");
    });
}

fn nothing_leaked(copy: &Path) {
    for (path, text) in texts(copy) {
        assert_ne!(text, SECRET, "{} was read from outside of the source", path.display());
    }
}

fn source(room: &Path) {
    lay(room, &["s/sub/a", "s/sub/secret", "s/sub/deep/secret", "s/sub/deep/x", "s/z"]).expect("a source");
    (0..20).for_each(|index| lay(room, &[&format!("s/sub/more{index}")]).expect("a source"));
    symlink("../victim", room.join("s/trap")).expect("a trap");
}

#[test]
fn a_source_directory_swapped_for_a_link_never_leads_out_of_the_source() {
    for options in ["-r", "-a"] {
        under_attack("source directory race", source, ["s/sub", "s/trap"], move |room, cp, _| {
            copy(cp, room, &[options, "s", "d"]);
            nothing_leaked(&room.join("d"));
            fs::remove_dir_all(room.join("d")).expect("can be removed");
        });
    }
}

#[test]
fn a_source_directory_above_the_one_being_read_can_be_swapped() {
    let scene = |room: &Path| {
        source(room);
        lay(room, &["s/top/deep/secret", "s/top/deep/er/secret", "s/top/secret"]).expect("a source");
    };
    under_attack("source parent race", scene, ["s/top", "s/trap"], |room, cp, _| {
        copy(cp, room, &["-r", "s", "d"]);
        nothing_leaked(&room.join("d"));
        fs::remove_dir_all(room.join("d")).expect("can be removed");
    });
}

#[test]
fn a_source_file_swapped_for_a_link_is_not_followed() {
    let scene = |room: &Path| {
        lay(room, &["s/file", "s/z"]).expect("a source");
        symlink("../victim/secret", room.join("s/trap")).expect("a trap");
    };
    under_attack("source file race", scene, ["s/file", "s/trap"], |room, cp, _| {
        copy(cp, room, &["-r", "s", "d"]);
        nothing_leaked(&room.join("d"));
        fs::remove_dir_all(room.join("d")).expect("can be removed");
    });
}

#[test]
fn an_existing_destination_directory_swapped_for_a_link_never_leads_out_of_the_destination() {
    for options in ["-r", "-a", "-rf", "-rb"] {
        let scene = |room: &Path| {
            lay(room, &["s/sub/a", "s/sub/deep/a", "s/sub/deep/secret", "s/sub/new", "d/s/sub/a"]).expect("a scene");
            symlink("../../victim", room.join("d/s/trap")).expect("a trap");
        };
        under_attack("destination directory race", scene, ["d/s/sub", "d/s/trap"], move |room, cp, _| {
            copy(cp, room, &[options, "s", "d"]);
        });
    }
}

#[test]
fn a_new_destination_directory_swapped_for_a_link_never_leads_out_of_the_destination() {
    for options in ["-r", "-a"] {
        let scene = |room: &Path| {
            lay(room, &["s/sub/a", "s/sub/deep/a", "s/sub/deep/secret", "s/sub/new", "d/"]).expect("a scene");
            symlink("../victim", room.join("trap")).expect("a trap");
        };
        under_attack("new destination directory race", scene, ["d/s/sub", "trap"], move |room, cp, calm| {
            copy(cp, room, &[options, "s", "d"]);
            let _calm = calm.lock().expect("nobody panics while calm");
            // Whatever the attacker made of it.
            for path in ["d/s", "trap"] {
                let path = room.join(path);
                if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                    fs::remove_dir_all(&path).expect("can be removed");
                }
            }
            if fs::symlink_metadata(room.join("trap")).is_err() {
                symlink("../victim", room.join("trap")).expect("a trap");
            }
        });
    }
}
