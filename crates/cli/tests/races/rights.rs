//! Owner and mode at every moment of a copy: nobody gets a right that the finished file does not give, and no set-user-ID
//! or set-group-ID bit stands on contents that are another user's.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_testbed::{Bed, Command, Fs, skip};

use crate::{ended, haul, number, run};

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const GROUP_AND_OTHERS: u32 = 0o077;

/// What the new contents consist of, and old ones have not.
const NEW: u8 = b'n';

/// Who may do what with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rights {
    owner: u32,
    group: u32,
    mode: u32,
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:04o}", self.owner, self.group, self.mode)
    }
}

impl Rights {
    fn of(path: &Path) -> Option<Rights> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Rights { owner: found.uid(), group: found.gid(), mode: found.mode() & 0o7777 })
    }

    fn set(self, path: &Path) {
        chown(path, Some(self.owner), Some(self.group)).expect("it can be given away");
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode)).expect("its mode can be set");
    }
}

const fn rights(owner: u32, mode: u32) -> Rights {
    Rights { owner, group: owner, mode }
}

/// What is copied.
const SOURCES: &[Rights] =
    &[rights(1001, 0o4700), rights(1001, 0o4711), rights(1001, 0o6755), rights(1001, 0o600), rights(0, 0o4750)];
/// What stands there before.
const OLD: &[Option<Rights>] = &[
    None,
    Some(rights(0, 0o644)),
    Some(rights(0, 0o4755)),
    Some(rights(1001, 0o666)),
    Some(rights(1002, 0o6777)),
    Some(rights(1002, 0o2755)),
    Some(rights(1001, 0o4755)),
];

/// A file, or a directory, that is copied over another one or to a free name.
#[derive(Debug, Clone, Copy)]
struct Case {
    source: Rights,
    old: Option<Rights>,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        SOURCES.iter().flat_map(|source| OLD.iter().map(|old| Case { source: *source, old: *old }))
    }

    fn name(self) -> String {
        let old = self.old.map_or_else(|| "nothing".to_owned(), |old| old.to_string());
        format!("{}-onto-{old}", self.source)
    }

    /// What is wrong with what is seen under its name, or under a temporary one.
    fn objection(self, seen: Rights, has_new_contents: bool) -> Option<&'static str> {
        let Case { source, old } = self;
        let is_old = |seen: &Rights| !has_new_contents && old.is_some_and(|old| old == *seen);
        let own = seen.owner == source.owner;
        if is_old(&seen) {
            return None;
        }
        // An old owner who keeps the file while nothing has been written has what he had.
        let old_mode = old.filter(|old| !has_new_contents && old.owner == seen.owner).map_or(0, |old| old.mode);
        let allowed = source.mode | old_mode;
        if own && old.is_none_or(|old| old.owner != source.owner) && seen.mode & !source.mode != 0 {
            return Some("the new owner has a mode that is wider than the final one");
        }
        if seen.mode & GROUP_AND_OTHERS & !allowed != 0 {
            return Some("others have rights that the finished file does not give");
        }
        let special = |bit: u32, by: bool| seen.mode & bit != 0 && !by && old_mode & bit == 0;
        if special(SET_USER, own && source.mode & SET_USER != 0) {
            return Some("a set-user-ID bit is another owner's");
        }
        if special(SET_GROUP, seen.group == source.group && source.mode & SET_GROUP != 0) {
            return Some("a set-group-ID bit is another group's");
        }
        None
    }
}

fn lay_empty(room: &Path) {
    for tree in ["s", "d"] {
        let path = room.join(tree);
        if path.exists() {
            fs::remove_dir_all(&path).expect("it can be removed");
        }
        fs::create_dir(path).expect("a directory");
    }
}

/// Makes both trees anew. All files of one case have a size of their own, by which they are known under other names.
fn lay(room: &Path, size: usize) {
    lay_empty(room);
    for case in Case::all() {
        let (source, dest) = (room.join("s").join(case.name()), room.join("d").join(case.name()));
        fs::write(&source, vec![NEW; size]).expect("a file");
        case.source.set(&source);
        if let Some(old) = case.old {
            fs::write(&dest, vec![b'o'; size]).expect("a file");
            old.set(&dest);
        }
    }
}

/// What is wrong at this moment.
fn objections(room: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(room.join("d")).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let seen = Rights::of(&path).expect("nobody is at work");
        let has_new = fs::read(&path).expect("root reads all").contains(&NEW);
        // Backups have the name of the old file with something behind it. Under a temporary name it may be any file:
        // then one case at least must allow it.
        let of_name = Case::all().find(|case| name == case.name());
        let is_backup = Case::all().any(|case| name.starts_with(&case.name())) && of_name.is_none();
        let objection = match of_name {
            Some(case) => case.objection(seen, has_new).map(|why| format!("{name}: {why}")),
            None if is_backup && !has_new => None,
            None => {
                let cases = Case::all().map(|case| case.objection(seen, has_new));
                let why = cases.reduce(|one, other| one.and(other)).flatten();
                why.map(|why| format!("{name}: {why}"))
            }
        };
        found.extend(objection.map(|words| format!("{words}: {seen}, new contents: {has_new}")));
    }
    found
}

/// The calls that change a file, its attributes or its name, or write its data.
const CALLS: &[&str] = &[
    "copy_file_range",
    "fallocate",
    "fchmod",
    "fchown",
    "fchownat",
    "fremovexattr",
    "fsetxattr",
    "ftruncate",
    "ioctl",
    "linkat",
    "pwrite64",
    "removexattr",
    "renameat",
    "renameat2",
    "setxattr",
    "unlinkat",
    "utimensat",
    "write",
];

/// Who is let in by an ACL or by the group of a file, and by nothing else: a user, and a member of a group.
const READERS: [[&str; 2]; 2] = [["65534", "65534"], ["65533", "4242"]];

/// A file with an ACL, or to be one without: the group and the mode of each side, and what setfacl(1) adds.
#[derive(Debug)]
struct Listed {
    source: (u32, &'static str),
    /// None: it inherits from its directory.
    old: Option<(u32, &'static str)>,
    options: &'static str,
}

const LISTED: &[Listed] = &[
    // The bits of the group are the mask of one of the two.
    Listed { source: (0o660, "u:0:rw,g::---"), old: Some((0o660, "")), options: "-p" },
    Listed { source: (0o640, ""), old: Some((0o600, "u:65534:rw")), options: "-p" },
    Listed { source: (0o640, ""), old: Some((0o600, "u:65534:rw")), options: "-p --atomic" },
    Listed { source: (0o660, "u:0:rw,g::---"), old: Some((0o660, "")), options: "--preserve=mode --engine=read-write" },
    // New entries inherit.
    Listed { source: (0o640, ""), old: None, options: "--preserve=mode" },
    Listed { source: (0o660, "u:0:rw,g::---"), old: None, options: "--preserve=mode" },
    Listed { source: (0o4750, ""), old: None, options: "-p" },
    Listed { source: (0o2770, "u:65534:rx,g::---"), old: None, options: "-a" },
    Listed { source: (0o4750, ""), old: Some((0o4755, "u:65534:rx")), options: "-p" },
];

fn lay_listed(room: &Path, case: &Listed) {
    lay_empty(room);
    let file = |path: &str, byte: u8, (mode, list): (u32, &str)| {
        let path = room.join(path);
        fs::write(&path, vec![byte; 10_000]).expect("a file");
        Rights { owner: 0, group: 4242, mode }.set(&path);
        if !list.is_empty() {
            set_list(&path, &["-m", list]);
            // The bits of the group, as the mask.
            set_list(&path, &["-m", &format!("m::{}", (mode >> 3) & 7)]);
        }
    };
    file("s/f", NEW, case.source);
    case.old.into_iter().for_each(|old| file("d/f", b'o', old));
    if case.old.is_none() {
        set_list(&room.join("d"), &["-d", "-m", "u:65534:rwx,g:4242:rwx"]);
    }
}

fn set_list(path: &Path, arguments: &[&str]) {
    let status = Command::new("setfacl").args(arguments).arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "{arguments:?} {path:?}");
}

/// Which of the readers can read new contents, under whatever name.
fn read_by(room: &Path) -> [bool; 2] {
    let names: Vec<String> = fs::read_dir(room.join("d"))
        .expect("it can be read")
        .flatten()
        .map(|entry| format!("d/{}", entry.file_name().to_string_lossy()))
        .filter(|name| fs::read(room.join(name)).is_ok_and(|bytes| bytes.contains(&NEW)))
        .collect();
    READERS.map(|[user, group]| {
        names.iter().any(|name| {
            let mut reader = Command::new("setpriv");
            reader.args(["--reuid", user, "--regid", group, "--clear-groups", "test", "-r", name]);
            // From here on: nobody may go through the directories above.
            reader.current_dir(room).status().expect("setpriv can be run").success()
        })
    })
}

#[test]
fn at_no_moment_of_a_copy_does_an_acl_let_in_whom_the_finished_file_does_not() {
    if !["setfacl", "setpriv", "strace"].iter().all(|program| haul_testbed::guest::has(program)) {
        return skip("setfacl, setpriv or strace is missing");
    }
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = bed.mount(Fs::Ext4) else { return };
    let room = disk.join("listed");
    fs::create_dir_all(&room).expect("a directory");
    let (mut moments, mut ends, mut wrong) = (0, Vec::new(), Vec::new());
    for case in LISTED {
        lay_listed(&room, case);
        let options = format!("-r {}", case.options);
        assert!(traced(&room, &options, &[]).success(), "{case:?}");
        let end = read_by(&room);
        ends.push(end);
        for (name, count) in counted(&room.join("trace")) {
            for occurrence in 1..=count {
                lay_listed(&room, case);
                stopped_before(&room, &options, &name, occurrence);
                moments += 1;
                let now = read_by(&room);
                if (0..2).any(|reader| now[reader] && !end[reader]) {
                    wrong.push(format!("{case:?}, before {name} {occurrence}: {now:?}, in the end {end:?}"));
                }
            }
        }
    }
    assert!(ends.iter().any(|end| end[0]), "somebody can read something: {ends:?}");
    assert!(wrong.is_empty(), "{} of {moments}: {}", wrong.len(), wrong.join("\n"));
}

/// Ends the copy before it makes this call for the n-th time.
fn stopped_before(room: &Path, options: &str, call: &str, occurrence: u32) {
    let status = traced(room, options, &["-e", &format!("inject={call}:signal=SIGKILL:when={occurrence}")]);
    assert_eq!(status.signal(), Some(9), "{options}, before {call} {occurrence}: {status}");
}

/// Not with --seccomp-bpf: strace 6.1 injects no signal then.
fn traced(room: &Path, options: &str, more: &[&str]) -> ExitStatus {
    let mut command = Command::new("strace");
    let calls = format!("trace={}", CALLS.join(","));
    command.args(["-qq", "-e", "signal=none", "-o", "trace", "-f", "-e", &calls]).args(more);
    command.arg(haul()).args(options.split(' ')).args(["--jobs=1", "-T", "s", "d"]);
    run(command, room, &room.join("said"))
}

/// How often each call was made.
fn counted(trace: &Path) -> BTreeMap<String, u32> {
    let mut counted = BTreeMap::new();
    for line in fs::read_to_string(trace).expect("the tracer has written").lines() {
        let name = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
        if let Some((name, _)) = name
            && CALLS.contains(&name)
        {
            *counted.entry(name.to_owned()).or_default() += 1;
        }
    }
    counted
}

const SETS: &[(&str, Fs)] = &[
    ("-a", Fs::Ext4),
    ("-p -r", Fs::Tmpfs),
    ("-a --engine=read-write --buffer-size=4K", Fs::Ext4),
    ("-a --atomic", Fs::Ext4),
    ("-a --durable=file", Fs::Ext4),
    ("-a --verify=read", Fs::Tmpfs),
    ("-a --remove-destination", Fs::Tmpfs),
    ("-a --backup=numbered", Fs::Ext4),
    ("-a --backup=simple --atomic", Fs::Ext4),
    ("-a -f", Fs::Xfs),
    ("-a --reflink=auto", Fs::Btrfs),
];

/// Stops the copy for good before a call, looks at what is there, and does so with another call.
#[test]
fn at_no_moment_of_a_copy_has_anybody_a_right_that_the_finished_file_does_not_give() {
    let Some(bed) = Bed::new() else { return };
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return skip("strace is not installed");
    }
    let all = std::env::var("HAUL_RIGHTS").is_ok_and(|value| value == "all");
    let (mut moments, mut wrong) = (0, Vec::new());
    for (index, (options, filesystem)) in SETS.iter().enumerate() {
        let Some(disk) = bed.mount(*filesystem) else { continue };
        let room = disk.join("rights");
        fs::create_dir_all(&room).expect("a directory");
        lay(&room, 10_000);
        let status = traced(&room, options, &[]);
        assert!(status.success(), "{options}: {}", fs::read_to_string(room.join("said")).unwrap_or_default());
        for (name, count) in counted(&room.join("trace")) {
            // An ordinary run takes one or two of each, others in each set of options.
            let step = if all { 1 } else { (count * 2 / 3).max(1) };
            for occurrence in (1 + (index as u32 * 5) % step..=count).step_by(step as usize) {
                lay(&room, 10_000);
                stopped_before(&room, options, &name, occurrence);
                moments += 1;
                let objections = objections(&room);
                if !objections.is_empty() {
                    wrong.push(format!("{options}, before {name} {occurrence}: {objections:#?}"));
                }
            }
        }
        fs::remove_dir_all(&room).expect("it can be removed");
    }
    println!("looked at {moments} moments of {} sets of options", SETS.len());
    assert!(wrong.is_empty(), "{} of {moments}: {}", wrong.len(), wrong[..wrong.len().min(15)].join("\n"));
}

/// Copies while a watcher looks at names again and again; gives what the watcher objected to.
fn watched(room: &Path, arguments: &[&str], looks: &AtomicU64, look: impl Fn() -> Vec<String> + Sync) -> Vec<String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut wrong = Vec::new();
            while !over.load(Ordering::Relaxed) {
                wrong.extend(look());
                looks.fetch_add(1, Ordering::Relaxed);
            }
            wrong
        });
        let mut command = Command::new(haul());
        command.args(arguments);
        let status = run(command, room, &room.join("said"));
        over.store(true, Ordering::Relaxed);
        assert!(ended(status), "{arguments:?}: {status}");
        watcher.join().expect("the watcher lives")
    })
}

#[test]
fn whoever_looks_at_a_file_again_and_again_while_it_is_copied_sees_no_right_too_many() {
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = bed.mount(Fs::Tmpfs) else { return };
    let room = disk.join("watched");
    fs::create_dir(&room).expect("a directory");
    let paths: Vec<_> = Case::all().map(|case| (case, room.join("d").join(case.name()))).collect();
    // Which contents it has cannot be known at the same moment.
    let objection = |case: &Case, path: &PathBuf| {
        let seen = Rights::of(path)?;
        case.objection(seen, false).map(|why| format!("{}: {why}: {seen}", case.name()))
    };
    for options in ["-a", "-a --atomic", "-a --jobs=4", "-a --remove-destination", "-a --verify=read"] {
        let (looks, mut runs) = (AtomicU64::new(0), 0);
        while runs < 5 || looks.load(Ordering::Relaxed) < number("HAUL_SWAPS", 1500) / 3 {
            lay(&room, 100_000);
            let arguments: Vec<&str> = options.split(' ').chain(["-T", "s", "d"]).collect();
            let wrong = watched(&room, &arguments, &looks, || {
                paths.iter().filter_map(|(case, path)| objection(case, path)).collect()
            });
            assert!(wrong.is_empty(), "{options}: {:#?}", &wrong[..wrong.len().min(10)]);
            runs += 1;
        }
        println!("{options}: {} looks at {} names in {runs} runs", looks.load(Ordering::Relaxed), paths.len());
    }
}

#[test]
fn an_old_directory_of_parents_does_not_have_its_old_mode_under_its_new_owner() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    fs::create_dir_all(room.join("p/inner")).expect("directories");
    fs::write(room.join("p/inner/file"), "contents").expect("a file");
    rights(1001, 0o700).set(&room.join("p"));
    let (dest, looks) = (room.join("d/p"), AtomicU64::new(0));
    for _ in 0..30 {
        fs::create_dir_all(&dest).expect("directories");
        rights(0, 0o777).set(&dest);
        let wrong = watched(&room, &["-a", "--parents", "p/inner/file", "d"], &looks, || {
            let seen = Rights::of(&dest).filter(|seen| seen.owner == 1001 && seen.mode & GROUP_AND_OTHERS != 0);
            seen.map(|seen| seen.to_string()).into_iter().collect()
        });
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(Rights::of(&dest), Some(rights(1001, 0o700)));
        fs::remove_dir_all(room.join("d")).expect("it can be removed");
    }
}
