//! Large and odd shapes with few descriptors and little memory, and the end of a run that is stopped.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Stdio;

use std::time::{Duration, Instant};

use haul_testbed::{Bed, Child, Command, Fs, create_painted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, openat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::trees::{number, room};

/// Nothing here takes longer unless it hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// The program, with at most so many descriptors, of which it has the first three: whoever started
/// the tests may have left others open.
fn with_descriptors(limit: u32, program: &Path) -> Command {
    let close = "for fd in 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{close}; ulimit -n {limit} && exec \"$0\" \"$@\"")]).arg(program);
    command
}

fn succeeds(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn eight_threads_share_a_wide_directory_with_few_descriptors() {
    let (room, program) = room();
    let (source, dest) = (room.path().join("s"), room.path().join("d"));
    fs::create_dir(&source).expect("a directory");
    for number in 0..20_000 {
        fs::write(source.join(number.to_string()), number.to_string()).expect("a file");
    }
    for limit in [64, 24] {
        succeeds(with_descriptors(limit, &program).args(["-a", "--jobs=8"]).args([&source, &dest]));
        for number in 0..20_000 {
            let text = fs::read_to_string(dest.join(number.to_string())).expect("it was copied");
            assert_eq!(text, number.to_string());
        }
        fs::remove_dir_all(&dest).expect("the copy is removed");
    }
}

#[test]
fn a_tree_with_hard_links_is_copied_with_eight_descriptors() {
    let (room, program) = room();
    let at = |name: &str| room.path().join(name);
    for dir in ["s/a/b/c", "s/d", "into"] {
        fs::create_dir_all(at(dir)).expect("a directory");
    }
    for (name, size) in [("s/a/file", 10), ("s/a/b/c/file", 10), ("s/large", 20 << 20)] {
        create_painted(at(name), size);
    }
    fs::hard_link(at("s/a/file"), at("s/d/name")).expect("a name");
    symlink("file", at("s/a/link")).expect("a link");
    let same_file = |copy: &Path| {
        let inode = |name: &str| fs::metadata(copy.join(name)).expect("it was copied").ino();
        inode("a/file") == inode("d/name")
    };
    let (source, dest) = (at("s"), at("d"));
    let absolute = [Path::new("-aT"), &source, &dest];
    let forms = [["-aT", "s", "d"].map(Path::new), absolute, ["-a", "s", "into"].map(Path::new)];
    for (form, copy) in forms.into_iter().zip(["d", "d", "into/s"]) {
        // The second time over the first copy.
        for _ in 0..2 {
            succeeds(with_descriptors(8, &program).args(form).current_dir(room.path()));
            succeeds(Command::new("diff").arg("-r").args([&source, &at(copy)]));
            assert!(same_file(&at(copy)), "{form:?}");
        }
        fs::remove_dir_all(at(copy)).expect("the copy is removed");
    }
}

fn levels() -> u64 {
    number("HAUL_STRESS_LEVELS", 5000)
}

/// A directory with some files beside the way down, which keep other threads busy at every level.
fn make_chain(root: &Path) {
    fs::create_dir(root).expect("a directory");
    let mut dir = openat(CWD, root, OFlags::RDONLY, Mode::empty()).expect("it opens");
    for level in 0..levels() {
        for name in ["first", "down", "last", "side"] {
            if name == "down" || (name == "side" && level % 10 == 0) {
                mkdirat(&dir, name, Mode::from_raw_mode(0o755)).expect("a directory");
                continue;
            }
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let file = openat(&dir, name, flags, Mode::from_raw_mode(0o644)).expect("a file");
            rustix::io::write(&file, level.to_string().as_bytes()).expect("it is written");
        }
        dir = down(&dir);
    }
}

fn down(dir: &OwnedFd) -> OwnedFd {
    openat(dir, "down", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("the way down")
}

fn assert_chain(root: &Path) {
    let mut dir = openat(CWD, root, OFlags::RDONLY, Mode::empty()).expect("it opens");
    for level in 0..levels() {
        for name in ["first", "last"] {
            let file = openat(&dir, name, OFlags::RDONLY, Mode::empty()).expect("it was copied");
            let mut text = [0; 8];
            let count = rustix::io::read(&file, &mut text).expect("it is read");
            assert_eq!(&text[..count], level.to_string().as_bytes());
        }
        openat(&dir, "side", OFlags::RDONLY, Mode::empty()).expect("it was copied");
        dir = down(&dir);
    }
}

#[test]
fn eight_threads_go_down_a_deep_tree_with_few_descriptors() {
    let (room, program) = room();
    let (source, dest) = (room.path().join("s"), room.path().join("d"));
    make_chain(&source);
    for limit in [64, 24] {
        succeeds(with_descriptors(limit, &program).args(["-a", "--jobs=8"]).args([&source, &dest]));
        assert_chain(&dest);
        // The standard library gives up at PATH_MAX.
        succeeds(Command::new("rm").arg("-rf").arg(&dest));
    }
    succeeds(Command::new("rm").arg("-rf").arg(&source));
}

/// Waits for a child and returns the most memory that it had resident, in KiB.
fn peak(mut child: Child) -> u64 {
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("the child is there");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let begun = Instant::now();
    // The figure only rises, so that all but the last moment is seen.
    let often = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    while poll(&mut [PollFd::new(&handle.as_fd(), PollFlags::IN)], Some(&often)).expect("poll works") == 0 {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        most = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(most);
        if begun.elapsed() > LIMIT {
            child.kill().expect("the child is ours");
        }
    }
    assert!(child.wait().expect("the child is ours").success());
    most
}

fn entries(root: &Path, count: u64, in_one: u64) {
    for number in 0..count {
        let dir = root.join((number / in_one / 20).to_string()).join((number / in_one).to_string());
        if number % in_one == 0 {
            fs::create_dir_all(&dir).expect("a directory");
        }
        File::create(dir.join(format!("a-file-{number}"))).expect("a file");
    }
}

#[test]
fn memory_does_not_grow_with_the_tree() {
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = bed.mount(Fs::Tmpfs) else { return };
    let (_room, program) = room();
    let most = number("HAUL_STRESS_ENTRIES", 200_000);
    let (source, dest) = (disk.join("s"), disk.join("d"));
    let measure = |options: &str| {
        let mut command = Command::new(&program);
        command.args([options, "--jobs=4"]).args([&source, &dest]).stdout(Stdio::null());
        let peak = peak(command.spawn().expect("it starts"));
        let mut count = Command::new("sh");
        count.args(["-c", "test $(find \"$0\" | wc -l) = $(find \"$1\" | wc -l)"]).args([&source, &dest]);
        succeeds(&mut count);
        succeeds(Command::new("rm").arg("-rf").arg(&dest));
        peak
    };
    // All in one directory, and in many.
    for in_one in [u64::MAX / 40, 100] {
        let peaks = [most / 4, most].map(|count| {
            entries(&source, count, in_one);
            // Messages that wait for their turn take memory, too: how much depends on the scheduler, up to a bound.
            let peaks = (measure("-r"), measure("-rv"));
            succeeds(Command::new("rm").arg("-rf").arg(&source));
            peaks
        });
        println!("{} and {most} entries, without and with messages: {peaks:?} KiB", most / 4);
        assert!(peaks[1].0 < peaks[0].0 + (12 << 10), "{peaks:?} KiB");
        assert!(peaks.iter().all(|(quiet, verbose)| quiet.max(verbose) < &(64 << 10)), "{peaks:?} KiB");
    }
}

/// Directories in each other, each with a name as long as names may be and a file beside it.
fn make_long_chain(root: &Path, levels: usize) {
    fs::create_dir(root).expect("a directory");
    let mut dir = openat(CWD, root, OFlags::RDONLY, Mode::empty()).expect("it opens");
    for level in 0..levels {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = openat(&dir, "file", flags, Mode::from_raw_mode(0o644)).expect("a file");
        rustix::io::write(&file, level.to_string().as_bytes()).expect("it is written");
        linkat(&dir, "file", &dir, "other", AtFlags::empty()).expect("a hard link");
        let name = long_name(level);
        mkdirat(&dir, &name, Mode::from_raw_mode(0o755)).expect("a directory");
        dir = openat(&dir, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("the way down");
    }
}

fn long_name(level: usize) -> String {
    format!("{level:x>255}")
}

fn assert_long_chain(root: &Path, levels: usize) {
    let mut dir = openat(CWD, root, OFlags::RDONLY, Mode::empty()).expect("it opens");
    for level in 0..levels {
        let file = openat(&dir, "file", OFlags::RDONLY, Mode::empty()).expect("it was copied");
        let mut text = [0; 8];
        let count = rustix::io::read(&file, &mut text).expect("it is read");
        assert_eq!(&text[..count], level.to_string().as_bytes());
        dir = openat(&dir, long_name(level), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it was copied");
    }
}

/// The memory that a copy with these options takes, in KiB.
fn peak_with(program: &Path, options: &[&str], source: &Path, dest: &Path) -> u64 {
    let mut command = Command::new(program);
    command.args(options).args([source, dest]);
    peak(command.stdout(Stdio::null()).spawn().expect("it starts"))
}

/// The most that a way to walk through a tree of so many levels takes beyond what it takes for one, in KiB.
fn assert_memory_for_levels(options: &[&str], levels: usize) {
    let (room, program) = room();
    let [small, large] = ["small", "large"].map(|name| room.path().join(name));
    make_long_chain(&small, 1);
    make_long_chain(&large, levels);
    let list = format!("--list-out={}", room.path().join("list").display());
    let options: Vec<&str> = options.iter().map(|word| if *word == "--list-out" { &list } else { *word }).collect();
    let compares = options.contains(&"--compare");
    let peaks = [&small, &large].map(|source| {
        let dest = source.with_extension("copy");
        if compares {
            peak_with(&program, &["-a"], source, &dest);
        }
        let most = peak_with(&program, &options, source, &dest);
        if !options.iter().any(|word| word.starts_with("--list-out")) {
            assert_long_chain(&dest, if source == &small { 1 } else { levels });
        }
        // The standard library gives up at PATH_MAX.
        succeeds(Command::new("rm").arg("-rf").args([source, &dest]));
        most
    });
    println!("{options:?}, 1 and {levels} levels: {peaks:?} KiB");
    assert!(peaks[1] < peaks[0] + (64 << 10), "{options:?}: {peaks:?} KiB");
}

#[test]
fn a_copy_of_ten_thousand_levels_takes_little_memory() {
    assert_memory_for_levels(&["-a"], 10_000);
}

#[test]
fn every_walk_through_many_levels_takes_little_memory() {
    for options in [
        &["-av", "--jobs=4"][..],
        &["-a", "--durable=file"],
        &["-aT", "--resume"],
        &["-aT", "--shard=1/1"],
        &["-r", "--list-out"],
        &["-aT", "--compare"],
    ] {
        assert_memory_for_levels(options, 1000);
    }
}

#[test]
fn a_tree_that_is_interrupted_has_no_half_files_and_the_status_names_the_signal() {
    let (room, program) = room();
    let source = room.path().join("s");
    for dir in 0..20 {
        let dir = source.join(dir.to_string());
        fs::create_dir_all(&dir).expect("a directory");
        for file in 0..10 {
            haul_testbed::create_painted(dir.join(file.to_string()), 1 << 20);
        }
    }
    for round in 0..10 {
        let dest = room.path().join(round.to_string());
        let mut command = Command::new(&program);
        command.args(["-rv", "--jobs=8", "--engine=read-write", "--buffer-size=4K"]).args([&source, &dest]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        // When it says something, it is in the middle.
        let mut out = child.stdout.take().expect("it is piped");
        std::io::Read::read_exact(&mut out, &mut [0; 8]).expect("it says something");
        kill_process(Pid::from_child(&child), Signal::INT).expect("the process is there");
        std::io::copy(&mut out, &mut std::io::sink()).expect("it is read");
        let status = child.wait().expect("the child is ours");
        assert!(status.code() == Some(130) || status.success(), "{status}");
        for dir in fs::read_dir(&dest).expect("it is there").map(Result::unwrap) {
            for file in fs::read_dir(dir.path()).expect("it is there").map(Result::unwrap) {
                assert_eq!(file.metadata().expect("it is there").len(), 1 << 20, "{:?}", file.path());
            }
        }
        fs::remove_dir_all(&dest).expect("the copy is removed");
    }
}
