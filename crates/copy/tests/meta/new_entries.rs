//! What is known of new entries of a directory: as much as is certain, and nothing where somebody else may decide.

use std::os::fd::AsFd;
use std::path::Path;

use haul_copy::meta::{Caller, KnownFilesystems, NewEntries, Object, creation_mode};
use haul_copy::plan::{ModeRule, Preserve};
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{Mode, OFlags, open};
use haul_testbed::{Bed, Fs};

use crate::scene::{Manner, NOBODY, Options, as_user, below, caller, describe, shell, with_haul};

/// Judges a directory by one of the two ways.
fn judge(
    directory: &Path,
    by: impl FnOnce(Object<'_>, &Inode, Caller, &KnownFilesystems) -> NewEntries,
) -> (Option<bool>, Option<(u32, u32)>) {
    let held = open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let inode = Inode::of(held.as_fd()).unwrap();
    let object = Object { fd: held.as_fd(), path_only: true };
    let known = by(object, &inode, caller(), &KnownFilesystems::new());
    (known.inherit_acl, known.owner)
}

fn made(directory: &Path) -> (Option<bool>, Option<(u32, u32)>) {
    judge(directory, |object, inode, caller, memory| NewEntries::UNKNOWN.of_made(object, inode, caller, memory))
}

fn found(directory: &Path) -> (Option<bool>, Option<(u32, u32)>) {
    judge(directory, NewEntries::of_found)
}

#[test]
fn the_owner_is_known_in_a_directory_that_we_made() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(root) = bed.mount(fs) else { continue };
        shell(
            &root,
            "mkdir -m 700 plain group; chgrp 4321 group; chmod g+s group; mkdir -m 700 other; chgrp 4321 other",
        );
        assert_eq!(made(&below(&root, "plain")), (Some(false), Some((0, 0))), "{fs:?}");
        assert_eq!(made(&below(&root, "group")), (Some(false), Some((0, 4321))), "{fs:?}");
        // Whether its group is handed on depends on how it was mounted.
        assert_eq!(made(&below(&root, "other")), (Some(false), None), "{fs:?}");
        assert_eq!(found(&below(&root, "plain")), (Some(false), None), "{fs:?}");
    }
}

#[test]
fn an_acl_that_is_handed_on_is_noticed_and_then_no_owner_is_known() {
    let Some(bed) = Bed::new() else { return };
    for fs in Fs::ALL {
        let Some(root) = bed.mount(fs) else { continue };
        shell(&root, "mkdir -m 700 handing; setfacl -m d:u:77:rwx handing");
        assert_eq!(made(&below(&root, "handing")), (Some(true), None), "{fs:?}");
        assert_eq!(found(&below(&root, "handing")), (Some(true), None), "{fs:?}");
    }
}

#[test]
fn nothing_is_known_where_somebody_else_may_decide() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(
        &root,
        "mkdir theirs; chown 65534:65534 theirs; mkdir -m 777 open; mkdir open/below; setfacl -m d:u:77:r open/below",
    );
    assert_eq!(made(&below(&root, "theirs")), (None, None));
    assert_eq!(found(&below(&root, "theirs")), (None, None));
    // In a directory that everybody may write to, what we made may have been exchanged: it is asked itself.
    let held = |path: &Path| open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let (above, below) = (held(&below(&root, "open")), held(&below(&root, "open/below")));
    let object = |fd| Object { fd, path_only: true };
    let inode = |fd| Inode::of(fd).unwrap();
    let memory = KnownFilesystems::new();
    let above = NewEntries::of_found(object(above.as_fd()), &inode(above.as_fd()), caller(), &memory);
    assert_eq!(above.inherit_acl, Some(false));
    let below = above.of_made(object(below.as_fd()), &inode(below.as_fd()), caller(), &memory);
    assert_eq!(below.inherit_acl, Some(true));
}

#[test]
fn an_unprivileged_user_knows_the_directories_of_root_and_its_own() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(&root, "mkdir own; chown 65534:65534 own; mkdir -m 1777 of-root");
    as_user(NOBODY, 0o022, || {
        assert_eq!(made(&below(&root, "own")), (Some(false), Some((NOBODY, NOBODY))));
        assert_eq!(found(&below(&root, "of-root")), (Some(false), None));
    });
}

#[test]
fn a_file_that_will_change_hands_is_made_for_its_owner_alone() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(&root, "mkdir -m 700 to; echo > own; chmod 654 own; echo > foreign; chmod 654 foreign; chgrp 4321 foreign");
    let preserve = Preserve { mode: ModeRule::Keep, ownership: true, ..Preserve::default() };
    let mode = |name: &str| {
        let held = open(below(&root, "to"), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let object = Object { fd: held.as_fd(), path_only: true };
        let to = Inode::of(held.as_fd()).unwrap();
        let entries = NewEntries::UNKNOWN.of_made(object, &to, caller(), &KnownFilesystems::new());
        let source = open(below(&root, name), OFlags::PATH, Mode::empty()).unwrap();
        let source = Inode::of(source.as_fd()).unwrap();
        creation_mode(Kind::Regular, &source, &entries, &preserve, caller()).mode
    };
    assert_eq!(mode("own"), 0o654);
    assert_eq!(mode("foreign"), 0o600);
}

/// Overlay is judged like the others; the tests against cp do not run on it.
#[test]
fn acls_are_kept_from_overlay_and_to_it() {
    let Some(bed) = Bed::new() else { return };
    let Some(root) = bed.mount(Fs::Ext4) else { return };
    shell(&root, "mkdir lower upper work merged; echo > lower/file; setfacl -m u:77:rwx lower/file");
    shell(&root, "mkdir lower/directory; setfacl -m u:77:rwx,d:u:88:r lower/directory");
    shell(&root, "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged");
    shell(&root, "mkdir -m 700 merged/to to; echo > plain; mkdir plain-directory; mkdir -m 700 merged/acl-to");
    shell(&root, "setfacl -m d:u:99:rwx merged/acl-to");
    let options = Options::of("-a");
    for (from, to) in [
        ("merged/file", "to/file"),
        ("merged/file", "merged/to/file"),
        ("merged/directory", "to/directory"),
        ("merged/directory", "merged/to/directory"),
        ("plain", "merged/to/plain"),
        ("plain", "merged/acl-to/plain"),
        ("plain-directory", "merged/acl-to/plain-directory"),
    ] {
        let (from, to) = (below(&root, from), below(&root, to));
        for judged in [false, true] {
            let done = with_haul(&from, &to, &options, Manner { path_only: false, judged });
            assert!(done.done, "{done:?}");
            assert_eq!(describe(&to, false), describe(&from, false), "{from:?} {to:?} {judged}");
            shell(&root, &format!("rm -r '{}'", to.display()));
        }
    }
    // Another test may just be starting a program, which has all open files for a moment.
    shell(&root, "umount -l merged");
}
