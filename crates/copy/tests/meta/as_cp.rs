//! Each kind of file, with each kind of attribute, under each set of options: the same result, the same success and the
//! same words as cp.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use haul_copy::plan::ModeRule;
use haul_testbed::{Bed, Command, Fs};

use crate::scene::{
    Manner, NOBODY, Options, Outcome, as_user, below, describe, replicate, run, set_times, shell, with_cp, with_haul,
};

const OPTIONS: [&str; 19] = [
    "",
    "-p",
    "-a",
    "-a --preserve=xattr",
    "--preserve=all",
    "--preserve=xattr",
    "--preserve=mode",
    "--preserve=ownership",
    "--preserve=timestamps",
    "--preserve=mode,ownership",
    "--preserve=mode,xattr",
    "--preserve=ownership,xattr",
    "--no-preserve=mode",
    "-a --no-preserve=mode",
    "-a --no-preserve=ownership",
    "-p --no-preserve=timestamps",
    "--preserve=all --attributes-only",
    "-a --attributes-only",
    "--preserve=xattr,timestamps --no-preserve=mode",
];

/// Enough of them where only the filesystem is new.
const FEW_OPTIONS: [&str; 6] =
    ["", "-p", "-a", "--preserve=xattr", "--preserve=all --attributes-only", "--no-preserve=mode"];

/// Sources, made by root: a name and the shell line that makes it.
const SOURCES: [(&str, &str); 24] = [
    ("plain", "echo data > plain"),
    ("private", "echo data > private; chmod 600 private"),
    ("foreign", "echo data > foreign; chmod 640 foreign; chown 1234:4321 foreign"),
    ("set-id", "echo data > set-id; chown 1234:4321 set-id; chmod 6755 set-id; setfattr -n user.a -v 1 set-id"),
    ("read-only", "echo data > read-only; setfattr -n user.a -v 1 read-only; chmod 444 read-only"),
    ("own", "echo data > own; chown 65534:65534 own; chmod 4577 own; setfattr -n user.a -v 1 own"),
    ("acl", "echo data > acl; setfacl -m u:1234:rwx,g:4321:r acl; setfattr -n user.b -v 22 acl"),
    ("set-id-acl", "echo data > set-id-acl; chmod 4751 set-id-acl; setfacl -m u:1234:--x set-id-acl"),
    ("capable", "echo data > capable; chmod 755 capable; chgrp 4321 capable; setcap cap_net_raw+ep capable"),
    ("trusted", "echo data > trusted; setfattr -n trusted.t -v x trusted; setfattr -n user.Beagle.x -v y trusted"),
    ("empty-value", "echo data > empty-value; setfattr -n user.none empty-value"),
    ("directory", "mkdir directory; chmod 775 directory"),
    ("set-gid-directory", "mkdir set-gid-directory; chown 1234:4321 set-gid-directory; chmod 2755 set-gid-directory"),
    ("sticky-directory", "mkdir sticky-directory; chmod 1777 sticky-directory"),
    ("read-only-directory", "mkdir read-only-directory; chmod 555 read-only-directory"),
    ("own-directory", "mkdir own-directory; setfattr -n user.d -v 1 own-directory; chown 65534 own-directory"),
    ("acl-directory", "mkdir acl-directory; setfacl -m u:1234:rwx,d:u:1234:rx,d:g::rwx acl-directory"),
    ("default-acl-directory", "mkdir default-acl-directory; setfacl -m d:g:4321:rwx default-acl-directory"),
    ("link", "ln -s nowhere link; setfattr -h -n trusted.l -v 1 link"),
    ("foreign-link", "ln -s nowhere foreign-link; chown -h 1234:4321 foreign-link"),
    ("own-link", "ln -s nowhere own-link; chown -h 65534:4321 own-link"),
    ("fifo", "mkfifo fifo; chown 1234:4321 fifo; chmod 4664 fifo; setfattr -n trusted.f -v 1 fifo"),
    ("acl-fifo", "mkfifo acl-fifo; setfacl -m u:1234:rw acl-fifo"),
    ("socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; chmod 767 socket"),
];

/// Device nodes: only root can copy them.
const DEVICES: [(&str, &str); 2] = [
    ("character-device", "mknod character-device c 1 3; chmod 666 character-device; chown 1234 character-device"),
    ("block-device", "mknod block-device b 7 250; chmod 1640 block-device; setfattr -n trusted.b -v 1 block-device"),
];

/// Directories to copy into: a name and what makes it special.
const PARENTS: [(&str, &str); 5] = [
    ("parent", "mkdir parent; chmod 777 parent"),
    ("acl-parent", "mkdir acl-parent; chmod 777 acl-parent; setfacl -m d:u:1234:rwx,d:g::rx,d:o::- acl-parent"),
    ("set-gid-parent", "mkdir set-gid-parent; chown 65534:4321 set-gid-parent; chmod 2777 set-gid-parent"),
    ("own-parent", "mkdir own-parent; chown 65534:65534 own-parent; chmod 755 own-parent"),
    (
        "root-set-gid-parent",
        "mkdir root-set-gid-parent; chown 0:4321 root-set-gid-parent; chmod 2777 root-set-gid-parent",
    ),
];

/// What stands at the destination already, with `X` for its name.
const FOUND_FILES: [&str; 6] = [
    "echo old > X; chmod 644 X",
    "echo old > X; chown 65534:65534 X; chmod 6755 X; setfattr -n user.old -v 1 X",
    "echo old > X; chmod 666 X",
    "echo old > X; chmod 2777 X; setfacl -m u:77:rwx X",
    "echo old > X; chown 65534:4321 X; setfacl -m u:77:rwx,o::rw X; setcap cap_chown+ep X",
    "echo old > X; chown 1234:4321 X; chmod 666 X",
];
const FOUND_DIRECTORIES: [&str; 4] = [
    "mkdir X; chmod 777 X",
    "mkdir X; chmod 3777 X; setfacl -m u:77:rwx,d:u:77:rwx X",
    "mkdir X; chown 65534:65534 X; chmod 2755 X; setfattr -n user.old -v 1 X",
    "mkdir X; chown 1234:4321 X; chmod 700 X",
];

/// Copies once with each of the two, and compares. The difference, if there is one.
#[must_use]
fn compare(
    source: &Path,
    parent: &Path,
    found: Option<&Path>,
    options: &Options,
    who: (u32, u32),
    manner: Manner,
) -> Option<String> {
    let (expected, actual) = (below(parent, "of-cp"), below(parent, "of-haul"));
    if let Some(found) = found {
        replicate(found, &expected);
        replicate(found, &actual);
    }
    let complete = |outcome: Outcome, dest: &Path| {
        // Times that could not be set are those of the copying.
        let refused = outcome.messages.iter().any(|message| message.starts_with("preserving times"));
        Outcome { file: describe(dest, options.preserve.timestamps && !refused), ..outcome }
    };
    let by_cp = as_user(who.0, who.1, || with_cp(source, &expected, options));
    if by_cp.done && found.is_some() && options.preserve.mode == ModeRule::Keep {
        take_special_bits(source, &expected, options.preserve.ownership);
    }
    let by_cp = complete(by_cp, &expected);
    // What cannot even be read or opened is no matter of metadata.
    let mut difference = None;
    let hopeless = ["cannot open", "cannot create", "cannot access"];
    if !by_cp.messages.iter().any(|message| hopeless.iter().any(|words| message.starts_with(words))) {
        let by_haul = as_user(who.0, who.1, || with_haul(source, &actual, options, manner));
        let by_haul = complete(by_haul, &actual);
        if by_haul != by_cp {
            let place = format!("{} in {}, found {found:?}", source.display(), parent.display());
            let how = format!("{:?}, user and umask {who:?}, {manner:?}", options.flags);
            difference = Some(format!("\n{place}, {how}\n   cp: {by_cp:?}\n haul: {by_haul:?}"));
        }
    }
    for path in [expected, actual] {
        match fs::symlink_metadata(&path) {
            Ok(stat) if stat.is_dir() => fs::remove_dir(&path).unwrap(),
            Ok(_) => fs::remove_file(&path).unwrap(),
            Err(_) => {}
        }
    }
    difference
}

/// Takes away what cp leaves to an old file, and haul does not: special bits that the source has not, or whose owner could
/// not be kept with them.
fn take_special_bits(source: &Path, copy: &Path, with_owner: bool) {
    let (from, to) = (fs::symlink_metadata(source).unwrap(), fs::symlink_metadata(copy).unwrap());
    let another = with_owner && (from.uid(), from.gid()) != (to.uid(), to.gid());
    let wanted = if another { 0 } else { from.mode() };
    let excess = to.mode() & !wanted & 0o7000;
    if excess != 0 && to.is_file() {
        fs::set_permissions(copy, fs::Permissions::from_mode(to.mode() & !excess & 0o7777)).unwrap();
    }
}

#[track_caller]
fn assert_none(differences: &[String]) {
    let first: String = differences.iter().take(10).map(String::as_str).collect();
    assert!(differences.is_empty(), "{} differences from cp:{first}", differences.len());
}

/// Makes the sources, then gives them odd times.
fn make_sources(directory: &Path, what: &[(&str, &str)]) -> Vec<PathBuf> {
    what.iter()
        .zip(1..)
        .map(|((name, line), number)| {
            shell(directory, line);
            let path = below(directory, name);
            set_times(&path, (1_000_000_000 + number, 123_456_789), (900_000_000 + number, 987_654_321));
            path
        })
        .collect()
}

fn make_parents(directory: &Path) -> Vec<PathBuf> {
    PARENTS
        .iter()
        .map(|(name, line)| {
            shell(directory, line);
            below(directory, name)
        })
        .collect()
}

/// Makes what may stand at the destination.
fn make_found(directory: &Path) -> Vec<PathBuf> {
    let lines = FOUND_FILES.iter().chain(&FOUND_DIRECTORIES);
    lines
        .zip(0..)
        .map(|(line, number)| {
            let name = format!("found-{number}");
            shell(directory, &line.replace('X', &name));
            below(directory, &name)
        })
        .collect()
}

/// Everything on one filesystem for one user.
fn compare_all(fs: Fs, who: (u32, u32), options: &[&'static str]) {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(fs) else { return };
    let devices: &[_] = if who.0 == 0 { &DEVICES } else { &[] };
    let sources = make_sources(&root, &[&SOURCES[..], devices].concat());
    let parents = make_parents(&root);
    let found = make_found(&root);
    let mut differences = Vec::new();
    for options in options.iter().copied().map(Options::of) {
        for source in &sources {
            let is_directory = source.is_dir();
            for parent in &parents {
                for judged in [false, true] {
                    for path_only in [false, true].into_iter().take(1 + usize::from(is_directory)) {
                        let manner = Manner { path_only, judged };
                        differences.extend(compare(source, parent, None, &options, who, manner));
                    }
                }
            }
            let kind = fs::symlink_metadata(source).unwrap().file_type();
            for found in
                found.iter().filter(|found| kind.is_file() && found.is_file() || kind.is_dir() && found.is_dir())
            {
                differences.extend(compare(source, &parents[0], Some(found), &options, who, Manner::default()));
            }
        }
    }
    assert_none(&differences);
}

#[test]
fn root_on_ext4_is_as_cp() {
    compare_all(Fs::Ext4, (0, 0o022), &OPTIONS);
}

#[test]
fn root_on_xfs_is_as_cp() {
    compare_all(Fs::Xfs, (0, 0o022), &FEW_OPTIONS);
}

#[test]
fn root_on_btrfs_is_as_cp() {
    compare_all(Fs::Btrfs, (0, 0o022), &FEW_OPTIONS);
}

#[test]
fn root_on_tmpfs_is_as_cp() {
    compare_all(Fs::Tmpfs, (0, 0o022), &FEW_OPTIONS);
}

#[test]
fn root_with_a_strict_umask_is_as_cp() {
    compare_all(Fs::Tmpfs, (0, 0o077), &OPTIONS);
}

#[test]
fn root_without_a_umask_is_as_cp() {
    compare_all(Fs::Tmpfs, (0, 0), &FEW_OPTIONS);
}

#[test]
fn an_unprivileged_user_on_ext4_is_as_cp() {
    compare_all(Fs::Ext4, (NOBODY, 0o022), &OPTIONS);
}

#[test]
fn an_unprivileged_user_on_xfs_is_as_cp() {
    compare_all(Fs::Xfs, (NOBODY, 0o002), &FEW_OPTIONS);
}

#[test]
fn an_unprivileged_user_on_btrfs_is_as_cp() {
    compare_all(Fs::Btrfs, (NOBODY, 0o022), &FEW_OPTIONS);
}

#[test]
fn an_unprivileged_user_on_tmpfs_is_as_cp() {
    compare_all(Fs::Tmpfs, (NOBODY, 0o277), &OPTIONS);
}

/// From a filesystem with everything to one without extended attributes and ACLs, and back.
#[test]
fn a_filesystem_without_attributes_is_as_with_cp() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    let poor = below(bed.path(), "ramfs");
    fs::create_dir(&poor).unwrap();
    run("mount", &["-t".as_ref(), "ramfs".as_ref(), "none".as_ref(), poor.as_os_str()]);
    let sources = make_sources(&root, &[&SOURCES[..], &DEVICES].concat());
    let plain: Vec<_> = SOURCES.into_iter().filter(|(_, line)| !line.contains("set")).collect();
    let poor_sources = make_sources(&poor, &plain);
    shell(&poor, "mkdir parent; chmod 777 parent");
    let parents = make_parents(&root);
    let mut differences = Vec::new();
    for user in [0, NOBODY] {
        for options in OPTIONS.map(Options::of) {
            for source in &sources {
                if user == 0 || !source.ends_with("character-device") && !source.ends_with("block-device") {
                    differences.extend(compare(
                        source,
                        &below(&poor, "parent"),
                        None,
                        &options,
                        (user, 0o022),
                        Manner::default(),
                    ));
                }
            }
            for source in &poor_sources {
                for parent in &parents {
                    differences.extend(compare(
                        source,
                        parent,
                        None,
                        &options,
                        (user, 0o022),
                        Manner { path_only: true, judged: false },
                    ));
                }
            }
        }
    }
    assert_none(&differences);
}

/// Times before 1970, in the far future, and on the last nanosecond.
#[test]
fn times_are_kept_to_the_nanosecond() {
    let Some(bed) = Bed::new() else { return };
    let options = Options::of("-p");
    for fs in Fs::ALL {
        let Some(root) = bed.mount(fs) else { continue };
        for (name, line) in [("file", "echo > file"), ("directory", "mkdir directory"), ("link", "ln -s x link")] {
            shell(&root, line);
            for times in
                [((-1, 1), (-2_000_000_000, 999_999_999)), ((0, 0), (0, 1)), ((4_000_000_000, 5), (7, 999_999_999))]
            {
                let (source, dest) = (below(&root, name), below(&root, "copy"));
                set_times(&source, times.0, times.1);
                let expected = describe(&source, true);
                assert!(with_haul(&source, &dest, &options, Manner::default()).done);
                assert_eq!(describe(&dest, true), expected, "{fs:?} {name}");
                shell(&root, "rm -rf copy");
            }
        }
    }
}

/// The value of an attribute can have any bytes and the largest size that the filesystem takes.
#[test]
fn large_and_binary_attributes_are_kept() {
    let Some(bed) = Bed::new() else { return };
    for (fs, size) in [(Fs::Ext4, 3000), (Fs::Xfs, 65536), (Fs::Btrfs, 15000), (Fs::Tmpfs, 65536)] {
        let Some(root) = bed.mount(fs) else { continue };
        shell(
            &root,
            &format!(
                "echo > file; python3 -c 'import os; os.setxattr(\"file\", \"user.\\u00e9 =\\n\", bytes(i * 7 % 256 for i in range({size})))'"
            ),
        );
        for number in 0..if fs == Fs::Ext4 { 3 } else { 200 } {
            shell(&root, &format!("setfattr -n user.attribute-with-a-long-name-{number} -v {number} file"));
        }
        let (source, dest) = (below(&root, "file"), below(&root, "copy"));
        assert!(with_haul(&source, &dest, &Options::of("--preserve=xattr"), Manner::default()).done);
        assert_eq!(describe(&dest, false).split_once("user"), describe(&source, false).split_once("user"), "{fs:?}");
        assert!(describe(&dest, false).contains("user"));
    }
}

/// An attribute that the filesystem has no room for is named, and the others are copied.
#[test]
fn an_attribute_without_room_is_as_with_cp() {
    let Some(bed) = Bed::new() else { return };
    let (Some(from), Some(to)) = (bed.mount(Fs::Xfs), bed.mount(Fs::Ext4)) else { return };
    shell(&from, "echo > file; setfattr -n user.a -v 1 file; setfattr -n user.z -v 1 file; mkdir directory");
    shell(
        &from,
        "for i in file directory; do setfattr -n user.big -v $(head -c 50000 /dev/zero | tr '\\0' x) $i; done",
    );
    let mut differences = Vec::new();
    for options in OPTIONS.map(Options::of) {
        differences.extend(compare(&below(&from, "file"), &to, None, &options, (0, 0o022), Manner::default()));
        differences.extend(compare(&below(&from, "directory"), &to, None, &options, (0, 0o022), Manner::default()));
    }
    assert_none(&differences);
}

/// The comparison sees differences: otherwise the tests above would prove nothing.
#[test]
fn the_description_shows_each_attribute() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(&root, "echo > a");
    let mut seen = vec![describe(&below(&root, "a"), true)];
    for line in [
        "chmod 4755 a",
        "chown 5 a",
        "chgrp 5 a",
        "setfacl -m u:1:r a",
        "setfattr -n user.x -v 1 a",
        "setfattr -n trusted.x -v 1 a",
        "setcap cap_chown+p a",
        "touch -d @1.000000001 a",
    ] {
        shell(&root, line);
        let now = describe(&below(&root, "a"), true);
        assert!(!seen.contains(&now), "{line}");
        seen.push(now);
    }
    assert!(Command::new("/bin/cp").arg("--version").output().unwrap().status.success());
}
