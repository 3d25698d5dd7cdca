//! `--compare` by several ranks says what `haul --compare` says, and all ranks do it.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use haul_testbed::{Bed, Command, Fs};
use rustix::fs::{Mode, OFlags, XattrFlags, lsetxattr, mkdirat, openat};

use crate::support::tree::{MIXED, SMALL, grow, place};
use crate::support::{Job, Mpi, Part, RANKS, chance, haul, haul_copies};

/// Root, but not above permissions.
const HUMBLE: [&str; 3] = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"];

/// What haul says, started by another command if there is one.
fn haul_says(starter: &[&str], dir: &Path, words: &[&str]) -> Output {
    let program = haul();
    let mut line: Vec<&std::ffi::OsStr> = starter.iter().map(|word| word.as_ref()).collect();
    line.push(program.as_os_str());
    Command::new(line[0])
        .args(&line[1..])
        .args(words)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .expect("it can be run")
}

/// Wants a job to say the same, byte for byte but for the name of the program, and to end in the same way.
#[track_caller]
fn says_the_same(job: &Job, reference: &Output, context: &str) {
    let done = job.run();
    assert!(!done.timed_out && done.left.is_empty(), "{context}: {done}");
    assert_eq!(done.code, reference.status.code(), "{context}: {done}");
    same_lines(&done.stdout, &String::from_utf8_lossy(&reference.stdout), context);
    let errors = String::from_utf8_lossy(&reference.stderr).replace(&format!("{}: ", haul().display()), "haul-mpi: ");
    // Where it has to wait, an MPI may have something to say itself.
    let ours = |line: &&str| line.starts_with("haul-mpi: ") || errors.lines().any(|wanted| wanted == *line);
    let reported: String = done.stderr.lines().filter(ours).map(|line| line.to_owned() + "\n").collect();
    same_lines(&reported, &errors, context);
}

/// Wants two texts to be the same; shows the first line that is not.
#[track_caller]
fn same_lines(text: &str, wanted: &str, context: &str) {
    let (ours, theirs) = (text.lines().map(Some).chain([None]), wanted.lines().map(Some).chain([None]));
    if let Some((at, (ours, theirs))) = ours.zip(theirs).enumerate().find(|(_, (ours, theirs))| ours != theirs) {
        panic!("{context}: line {} is {ours:?} and should be {theirs:?}", at + 1);
    }
    assert_eq!(text.len(), wanted.len(), "{context}: only the ends of lines differ");
}

/// All that is below a directory, in one order for all filesystems.
fn all_below(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir).expect("it is there").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let is_dir = path.symlink_metadata().expect("it is there").is_dir();
        found.push(path.clone());
        if is_dir {
            all_below(&path, found);
        }
    }
}

/// Makes a file of its own of a name, the same in all else.
fn split(path: &Path) -> std::io::Result<()> {
    let copy = path.with_file_name("a-copy-of-it");
    let done = Command::new("cp").args(["-a", "--no-preserve=links"]).args([path, &copy]).status()?;
    assert!(done.success(), "cp -a {}", path.display());
    fs::rename(copy, path)
}

/// Changes one thing of what is at a path. What is none of these kinds of file stays as it is.
fn spoil(rng: &mut Rng, path: &Path, files: &[PathBuf]) -> std::io::Result<()> {
    // Its directory may be gone.
    let Ok(now) = path.symlink_metadata() else { return Ok(()) };
    if now.is_symlink() {
        fs::remove_file(path)?;
        return symlink(format!("elsewhere-{}", rng.u8(..)), path);
    }
    let at = now.modified()?;
    match rng.u8(..9) {
        0 => return lchown(path, Some(now.uid() + 1), Some(now.gid() + 1)),
        1 => return fs::set_permissions(path, PermissionsExt::from_mode((now.mode() & 0o7777) ^ 0o010)),
        2 if now.is_file() || now.is_dir() => return Ok(lsetxattr(path, c"user.spoilt", b"x", XattrFlags::empty())?),
        3 if now.is_file() || now.is_dir() => return File::open(path)?.set_modified(at + Duration::new(1, 1)),
        _ => {}
    }
    if now.is_dir() {
        return fs::write(path.join("only-in-copy"), "x");
    }
    if !now.is_file() {
        return fs::remove_file(path);
    }
    match rng.u8(..6) {
        0 => fs::remove_file(path),
        1 => {
            fs::remove_file(path)?;
            fs::create_dir(path)
        }
        2 => {
            fs::remove_file(path)?;
            let other = &files[rng.usize(..files.len())];
            if other.is_file() { fs::hard_link(other, path) } else { Ok(()) }
        }
        3 => split(path),
        4 => {
            let mut bytes = fs::read(path)?;
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            fs::write(path, bytes)?;
            File::open(path)?.set_modified(at)
        }
        _ => File::options().write(true).open(path)?.set_len(now.len() + 1),
    }
}

/// A random tree, and a copy that has many differences of all kinds.
fn scene(rng: &mut Rng, dir: &Path) {
    grow(rng, dir, MIXED);
    let name = |tree: &str, name: String| dir.join(tree).join(name);
    fs::create_dir(dir.join("source/links")).expect("a directory");
    for file in 0..40 {
        let first = name("source", format!("links/{file:02}"));
        fs::write(&first, format!("file {file}")).expect("a file");
        fs::hard_link(first, name("source", format!("links-{file:02}"))).expect("a link");
    }
    haul_copies(dir, &["-aT", "source", "copy"]);
    for file in 0..10 {
        split(&name("copy", format!("links/{file:02}"))).expect("it is ours");
    }
    let mut files = Vec::new();
    all_below(&dir.join("copy"), &mut files);
    for _ in 0..files.len() / 4 {
        let path = &files[rng.usize(..files.len())];
        spoil(rng, path, &files).unwrap_or_else(|error| panic!("cannot change {}: {error}", path.display()));
    }
    let mut sources = Vec::new();
    all_below(&dir.join("source"), &mut sources);
    for _ in 0..sources.len() / 100 {
        let path = &sources[rng.usize(..sources.len())];
        if path.is_file() {
            fs::remove_file(path).expect("it is ours");
        }
    }
}

#[test]
fn any_number_of_ranks_says_of_a_spoilt_copy_what_one_process_says() {
    let Some(bed) = Bed::new() else { return };
    let mut rng = chance(18);
    let fs = [Fs::Ext4, Fs::Btrfs, Fs::Xfs][rng.usize(..3)];
    let Some(dir) = place(&bed, fs) else { return };
    scene(&mut rng, &dir);
    for options in [&["-a"][..], &["-aL"], &["-r"]] {
        let words = [options, &["--compare", "-T", "source", "copy"]].concat();
        let reference = haul_says(&[], &dir, &words);
        let said = String::from_utf8_lossy(&reference.stdout);
        let all = options == ["-a"];
        let kinds = [
            "only in the source",
            "only in the copy",
            "differ: regular file, directory",
            "differ: size",
            "differ: contents",
            "differ: mode",
            "differ: owner",
            "differ: time",
            "differ: attribute",
            "differ: link to",
            "differ: no hard link to",
            "differ: a hard link to",
        ];
        for kind in kinds.iter().filter(|_| all) {
            assert!(said.contains(kind), "nothing is {kind:?}: the test proves less than it should\n{said}");
        }
        for mpi in Mpi::all() {
            for ranks in RANKS {
                let jobs = format!("--jobs={}", rng.u8(1..=3));
                let job = Job::new(mpi, ranks, &dir, &[&words[..], &[&jobs]].concat());
                says_the_same(&job, &reference, &format!("{mpi:?}, {ranks} ranks, {words:?} {jobs} on {}", fs.name()));
            }
        }
    }
}

#[test]
fn a_copy_that_is_the_same_is_said_to_be_so_by_any_number_of_ranks() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(19), &dir, SMALL);
    haul_copies(&dir, &["-aT", "source", "copy"]);
    let words = ["-a", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&[], &dir, &words);
    assert_eq!((reference.status.code(), reference.stdout.len()), (Some(0), 0), "{reference:?}");
    for mpi in Mpi::all() {
        for ranks in RANKS {
            says_the_same(&Job::new(mpi, ranks, &dir, &words), &reference, &format!("{mpi:?}, {ranks} ranks"));
        }
    }
}

#[test]
fn what_cannot_be_read_is_reported_once_and_in_order_by_all_ranks_together() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    for part in 0..20 {
        fs::create_dir_all(dir.join(format!("source/{part}"))).expect("a directory");
        for file in 0..60 {
            fs::write(dir.join(format!("source/{part}/{file}")), format!("{part} {file}")).expect("a file");
        }
    }
    haul_copies(&dir, &["-aT", "source", "copy"]);
    let closed = ["source/3/7", "copy/3/8", "source/11", "copy/17", "source/19/59"];
    for path in closed {
        fs::set_permissions(dir.join(path), PermissionsExt::from_mode(0o0)).expect("it is ours");
    }
    let words = ["-a", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&HUMBLE, &dir, &words);
    let said = String::from_utf8_lossy(&reference.stderr);
    assert!(closed.iter().all(|path| said.contains(path)) && reference.status.code() == Some(2), "{reference:?}");
    for mpi in Mpi::all() {
        for ranks in RANKS {
            let job = Job::of(mpi, &dir, vec![Part::new(ranks, &words).by(&HUMBLE)]);
            says_the_same(&job, &reference, &format!("{mpi:?}, {ranks} ranks"));
        }
    }
}

#[test]
fn what_another_rank_is_not_let_in_rank_0_compares() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(20), &dir, SMALL);
    haul_copies(&dir, &["-aT", "source", "copy"]);
    let mut all = Vec::new();
    all_below(&dir.join("source"), &mut all);
    // Nobody but a rank above permissions reads any of it.
    for path in all.iter().filter(|path| path.symlink_metadata().is_ok_and(|now| now.is_file() || now.is_dir())) {
        fs::set_permissions(path, PermissionsExt::from_mode(0o0)).expect("it is ours");
    }
    // That the source lacks it is nothing that they could report.
    fs::write(dir.join("copy/many/only here"), "").expect("it is ours");
    let words = ["-r", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&[], &dir, &words);
    assert_eq!(reference.status.code(), Some(1), "{reference:?}");
    for mpi in Mpi::all() {
        let job = Job::of(mpi, &dir, vec![Part::new(1, &words), Part::new(3, &words).by(&HUMBLE)]);
        says_the_same(&job, &reference, &format!("{mpi:?}"));
    }
}

#[test]
fn another_filesystem_that_a_rank_has_below_the_source_does_not_count() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(21), &dir, MIXED);
    haul_copies(&dir, &["-aT", "source", "copy"]);
    fs::create_dir(dir.join("other")).expect("a directory");
    for file in 0..200 {
        fs::write(dir.join(format!("other/{file:05}")), "other bytes").expect("a file");
    }
    let words = ["-a", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&[], &dir, &words);
    assert_eq!(reference.status.code(), Some(0), "{reference:?}");
    for mount in ["mount --bind other source/many", "mount -t tmpfs tmpfs copy/many"] {
        let line = format!("{mount} && exec \"$0\" \"$@\"");
        let starter = ["unshare", "--mount", "sh", "-c", line.as_str()];
        for mpi in Mpi::all() {
            let job = Job::of(mpi, &dir, vec![Part::new(1, &words), Part::new(2, &words).by(&starter)]);
            says_the_same(&job, &reference, &format!("{mpi:?}, {mount}"));
        }
    }
}

#[test]
fn what_differs_for_another_rank_alone_is_no_difference() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(23), &dir, MIXED);
    for file in 0..200 {
        fs::write(dir.join(format!("source/many/known {file:05}")), format!("bytes {file:05}")).expect("a file");
    }
    haul_copies(&dir, &["-aT", "source", "copy"]);
    fs::write(dir.join("older"), "older bytes").expect("a file");
    let words = ["-a", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&[], &dir, &words);
    assert_eq!(reference.status.code(), Some(0), "{reference:?}");
    // On the same filesystem, so that nothing distinguishes this view from that of the first rank.
    let line = "for copy in copy/many/known*; do mount --bind older \"$copy\" || exit; done; exec \"$0\" \"$@\"";
    let starter = ["unshare", "--mount", "sh", "-c", line];
    for mpi in Mpi::all() {
        let job = Job::of(mpi, &dir, vec![Part::new(1, &words), Part::new(2, &words).by(&starter)]);
        says_the_same(&job, &reference, &format!("{mpi:?}"));
    }
}

/// Entries that each rank has compared, as `-v` reports.
fn shares(stdout: &str) -> Vec<u64> {
    let share = |line: &str| line.strip_suffix(" of them")?.rsplit(' ').next()?.parse().ok();
    stdout.lines().filter(|line| line.starts_with("rank ")).filter_map(share).collect()
}

#[test]
fn all_ranks_compare_and_their_shares_add_up() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(22), &dir, SMALL);
    // Enough that no rank can be late: rank 0 has one thread, and reads gigabytes if it is alone.
    fs::create_dir(dir.join("source/long")).expect("a directory");
    let file = File::create(dir.join("source/long/000")).expect("a file");
    allocate(&file, 32 << 20);
    for name in 1..100 {
        fs::hard_link(dir.join("source/long/000"), dir.join(format!("source/long/{name:03}"))).expect("a link");
    }
    haul_copies(&dir, &["-aT", "--reflink=never", "--sparse=never", "source", "copy"]);
    let words = ["-av", "--jobs=1", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&[], &dir, &words);
    let total = String::from_utf8_lossy(&reference.stdout).into_owned();
    let entries: u64 = total.split(' ').next().and_then(|word| word.parse().ok()).expect("a total");
    for mpi in Mpi::all() {
        let done = Job::new(mpi, 3, &dir, &words).run().succeeded();
        assert!(done.stdout.starts_with(&total), "{mpi:?}: not {total:?}: {done}");
        let shares = shares(&done.stdout);
        assert_eq!((shares.len(), shares.iter().sum::<u64>()), (3, entries), "{mpi:?}: {done}");
        assert!(shares.iter().all(|share| *share > 0), "{mpi:?}: a rank did nothing: {done}");
    }
}

/// Space that reads as zeros, and is no hole.
fn allocate(file: &File, bytes: u64) {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes).expect("ext4 can");
}

#[test]
fn a_rank_that_is_killed_ends_the_comparison() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    // Days of reading, if nobody is killed: 30,000 names of one file, which is read anew for each.
    for tree in ["source", "copy"] {
        fs::create_dir(dir.join(tree)).expect("a directory");
        let first = dir.join(tree).join("0");
        allocate(&File::create(&first).expect("a file"), 128 << 20);
        File::open(&first).and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH)).expect("it is ours");
        for name in 1..30_000 {
            fs::hard_link(&first, dir.join(tree).join(name.to_string())).expect("a link");
        }
    }
    for mpi in Mpi::all() {
        for rank in 0..3 {
            let mut job = Job::new(mpi, 3, &dir, &["-r", "--compare", "-T", "source", "copy"]).start();
            let pid = job.rank(rank).expect("it does not end by itself");
            let open = PathBuf::from(format!("/proc/{}/fd", pid.as_raw_nonzero()));
            let reads = |entry: fs::DirEntry| {
                fs::read_link(entry.path()).is_ok_and(|path| path.parent() == Some(&dir.join("copy")))
            };
            let at_work = || fs::read_dir(&open).is_ok_and(|entries| entries.flatten().any(reads));
            assert!(job.until(at_work), "{mpi:?}: rank {rank} has not compared anything: {}", job.end());
            assert!(job.kill_rank(rank), "{mpi:?}: rank {rank} was gone");
            let done = job.end();
            assert!(!done.timed_out && done.left.is_empty() && done.code != Some(0), "{mpi:?}, rank {rank}: {done}");
        }
    }
}

#[test]
fn what_has_no_path_that_the_kernel_takes_is_compared_right() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    fs::create_dir(dir.join("source")).expect("a directory");
    let mut deep = File::open(dir.join("source")).expect("a directory");
    for _ in 0..30 {
        let name = "d".repeat(200);
        mkdirat(&deep, &name, Mode::from_raw_mode(0o755)).expect("a directory");
        for file in 0..40 {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            openat(&deep, file.to_string(), flags, Mode::from_raw_mode(0o644)).expect("a file");
        }
        deep = openat(&deep, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a directory").into();
    }
    haul_copies(&dir, &["-aT", "source", "copy"]);
    let flags = OFlags::CREATE | OFlags::WRONLY;
    openat(&deep, "at the end", flags, Mode::from_raw_mode(0o644)).expect("a file");
    let words = ["-a", "--compare", "-T", "source", "copy"];
    let reference = haul_says(&[], &dir, &words);
    let said = String::from_utf8_lossy(&reference.stdout);
    assert!(said.contains("at the end") && said.contains("time"), "{said}");
    for mpi in Mpi::all() {
        for ranks in [2, 4] {
            says_the_same(&Job::new(mpi, ranks, &dir, &words), &reference, &format!("{mpi:?}, {ranks} ranks"));
        }
    }
}

#[test]
fn a_copy_that_is_not_the_same_on_all_ranks_is_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    grow(&mut chance(23), &dir, SMALL);
    haul_copies(&dir, &["-aT", "source", "copy"]);
    let words = ["-a", "--compare", "-T", "source", "copy"];
    let starter = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs copy && exec \"$0\" \"$@\""];
    for mpi in Mpi::all() {
        let job = Job::of(mpi, &dir, vec![Part::new(2, &words), Part::new(1, &words).by(&starter)]);
        job.run().failed_with(2).says(&["haul-mpi: ", "rank 2", "copy", "not shared"]);
    }
}
