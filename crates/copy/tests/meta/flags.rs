//! Inode flags and project IDs, which cp does not know.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use haul_copy::meta::{KnownFilesystems, Object};
use haul_sys::Errno;
use haul_sys::inode_flags::Project;
use haul_sys::rustix::fs::{Mode, OFlags, open};
use haul_testbed::{Bed, Command, Fs, skip};

use crate::scene::{Manner, NOBODY, Options, as_user, below, copy, describe, shell, words};

fn options(flags: bool, project: bool) -> Options {
    let mut options = Options::of("-a");
    options.preserve.flags = flags;
    options.preserve.project = project;
    options
}

/// What lsattr says about an inode, without the letters that tell how it is stored (extents, inline data).
fn letters(path: &Path) -> String {
    let done = Command::new("lsattr").arg("-d").arg(path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.split(' ').next().unwrap().chars().filter(|letter| !"-eNIE".contains(*letter)).collect()
}

fn held<T>(path: &Path, path_only: bool, act: impl FnOnce(Object<'_>) -> T) -> T {
    let flags = if path_only { OFlags::PATH } else { OFlags::RDONLY | OFlags::NONBLOCK };
    let fd = open(path, flags | OFlags::NOFOLLOW, Mode::empty()).unwrap();
    act(Object { fd: fd.as_fd(), path_only })
}

/// Copies once; success and messages.
fn try_copy(source: &Path, dest: &Path, options: &Options, memory: &KnownFilesystems) -> (bool, Vec<String>) {
    let mut messages = Vec::new();
    // Directories are held with O_PATH in a run, other files are not.
    let manner = Manner { path_only: source.is_dir(), judged: true };
    let done = copy(source, dest, options, manner, memory, &mut |error| messages.push(words(&error, dest)));
    (done, messages)
}

/// For each filesystem: flags as chattr wants them, for files and for directories.
const FLAGS: [(Fs, &[&str], &[&str]); 4] = [
    (Fs::Ext4, &["d", "A", "S", "i", "a", "dAai"], &["d", "A", "D", "T", "i", "a", "dADS"]),
    (Fs::Xfs, &["d", "A", "S", "i", "a", "dAa"], &["d", "A", "S", "i", "a"]),
    (Fs::Btrfs, &["d", "A", "S", "c", "C", "m", "i", "a", "Cd"], &["d", "A", "D", "c", "C", "i", "a"]),
    (Fs::Tmpfs, &["d", "A", "i", "a", "dAai"], &["d", "A", "i", "a"]),
];

#[test]
fn inode_flags_are_kept_on_request() {
    let Some(bed) = Bed::new() else { return };
    for (fs, for_files, for_directories) in FLAGS {
        let Some(root) = bed.mount(fs) else { continue };
        let (source, dest) = (below(&root, "source"), below(&root, "copy"));
        let cases = for_files.iter().map(|flags| (*flags, "touch source"));
        for (flags, make) in cases.chain(for_directories.iter().map(|flags| (*flags, "mkdir source"))) {
            // Some flags want an empty file.
            shell(&root, make);
            shell(&root, &format!("setfattr -n user.a -v 1 source; chmod 640 source; chattr +{flags} source"));
            let (expected, attributes) = (letters(&source), describe(&source, true));
            let wanted = flags.chars().filter(|letter| expected.contains(*letter)).count();
            assert_eq!(wanted, flags.len(), "chattr +{flags} gave {expected}");
            assert_eq!(
                try_copy(&source, &dest, &options(true, false), &KnownFilesystems::new()),
                (true, vec![]),
                "{fs:?} {flags}"
            );
            assert_eq!(letters(&dest), expected, "{fs:?} {make} +{flags}");
            assert_eq!(describe(&dest, true), attributes, "{fs:?} {make} +{flags}");
            shell(&root, "chattr -R -ia source copy; rm -rf copy");
            assert!(try_copy(&source, &dest, &options(false, false), &KnownFilesystems::new()).0);
            shell(&root, "rm -rf source copy");
        }
    }
}

#[test]
fn flags_that_only_the_destination_has_are_taken_away() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Btrfs) else { return };
    shell(&root, "mkdir parent; chattr +C parent; echo data > source; chattr +d source");
    let (source, dest) = (below(&root, "source"), below(&root, "parent/copy"));
    assert_eq!(try_copy(&source, &dest, &options(false, false), &KnownFilesystems::new()), (true, vec![]));
    assert_eq!(letters(&dest), "C");
    fs::remove_file(&dest).unwrap();
    assert_eq!(try_copy(&source, &dest, &options(true, false), &KnownFilesystems::new()), (true, vec![]));
    assert_eq!(letters(&dest), "d");
}

#[test]
fn a_flag_that_the_destination_lacks_fails_each_copy_and_is_named() {
    let Some(bed) = Bed::new() else { return };
    let (Some(from), Some(to)) = (bed.mount(Fs::Btrfs), bed.mount(Fs::Tmpfs)) else { return };
    shell(&from, "touch source; chattr +Cd source");
    let source = below(&from, "source");
    let memory = KnownFilesystems::new();
    let first = try_copy(&source, &below(&to, "a"), &options(true, false), &memory);
    let message = "failed to preserve the inode flags C of DEST: Operation not supported";
    assert_eq!(first, (false, vec![message.to_owned()]));
    assert_eq!(letters(&below(&to, "a")), "d");
    let second = try_copy(&source, &below(&to, "b"), &options(true, false), &memory);
    assert_eq!(second, (false, vec![message.to_owned()]));
}

#[test]
fn a_flag_that_needs_a_capability_is_named_for_an_unprivileged_user() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(&root, "mkdir -m 777 parent; touch source; chattr +id source");
    let (source, dest) = (below(&root, "source"), below(&root, "parent/copy"));
    let result = as_user(NOBODY, 0o022, || try_copy(&source, &dest, &options(true, false), &KnownFilesystems::new()));
    let message = "failed to preserve the inode flags i of DEST: Operation not permitted";
    assert_eq!(result, (false, vec![message.to_owned()]));
    assert_eq!(letters(&dest), "d");
    shell(&root, "chattr -i source");
}

#[test]
fn project_ids_are_kept_on_request() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Xfs) else { return };
    shell(&root, "echo data > file; mkdir directory; mkfifo fifo; ln -s nowhere link");
    let kinds: &[_] = match held(&below(&root, "fifo"), true, |object| object.project()) {
        Err(Errno::NOSYS) => {
            skip("no file_getattr (Linux 6.17): project IDs of FIFOs and links are not copied");
            &[("file", false), ("directory", false)]
        }
        _ => &[("file", false), ("directory", false), ("fifo", true), ("link", true)],
    };
    for &(name, path_only) in kinds {
        let project = Project { id: 4711, inherited: name == "directory" };
        let (source, dest) = (below(&root, name), below(&root, "copy"));
        held(&source, path_only, |object| object.set_project(project)).unwrap();
        assert_eq!(try_copy(&source, &dest, &options(false, false), &KnownFilesystems::new()), (true, vec![]));
        assert_eq!(held(&dest, path_only, |object| object.project()), Ok(Project::default()), "{name}");
        shell(&root, "rm -rf copy");
        assert_eq!(try_copy(&source, &dest, &options(false, true), &KnownFilesystems::new()), (true, vec![]), "{name}");
        assert_eq!(held(&dest, path_only, |object| object.project()), Ok(project), "{name}");
        shell(&root, "rm -rf copy");
    }
}

#[test]
fn a_project_id_that_the_destination_cannot_hold_fails_each_copy_and_is_named() {
    let Some(bed) = Bed::new() else { return };
    let (Some(from), Some(to)) = (bed.mount(Fs::Xfs), bed.mount(Fs::Btrfs)) else { return };
    shell(&from, "echo data > file; echo data > none");
    let source = below(&from, "file");
    held(&source, false, |object| object.set_project(Project { id: 7, inherited: false })).unwrap();
    let memory = KnownFilesystems::new();
    let (done, messages) = try_copy(&source, &below(&to, "a"), &options(false, true), &memory);
    assert!(!done);
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with("failed to preserve the project ID of DEST: "), "{messages:?}");
    assert_eq!(try_copy(&source, &below(&to, "b"), &options(false, true), &memory), (false, messages));
    // A file without a project has nothing to lose.
    assert_eq!(try_copy(&below(&from, "none"), &below(&to, "c"), &options(false, true), &memory), (true, vec![]));
}

#[test]
fn flags_of_device_nodes_are_kept_where_the_kernel_has_them() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Xfs) else { return };
    shell(&root, "mkfifo source");
    let (source, dest) = (below(&root, "source"), below(&root, "copy"));
    // No-dump.
    let bit = 0x40;
    match held(&source, true, |object| object.set_inode_flags(bit)) {
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOTTY) => {
            return skip("no inode flags on FIFOs (Linux 6.17, XFS)");
        }
        result => result.unwrap(),
    }
    assert_eq!(try_copy(&source, &dest, &options(true, false), &KnownFilesystems::new()), (true, vec![]));
    assert_eq!(held(&dest, true, |object| object.inode_flags()), Ok(bit));
}
