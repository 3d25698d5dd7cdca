//! `--atomic`: a name stands for the old file or for the whole new one.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_testbed::{Bed, Command, Fs, copy_program, create_painted, painted, temp_dir};

use super::{HAUL, assert_same_trees, assert_tidy, haul, make_tree, run, said, succeeds};

#[test]
fn an_atomic_copy_of_a_tree_is_a_copy() {
    let Some(bed) = Bed::new() else { return };
    for kind in Fs::ALL {
        let Some(place) = bed.mount(kind) else { continue };
        make_tree(&place.join("tree"));
        for option in ["--jobs=1", "--jobs=4"] {
            succeeds(&place, &["-a", "--atomic", option, "-T", "tree", "copy"]);
            assert_same_trees(&place.join("tree"), &place.join("copy"));
            // Over itself: every file has an old one.
            succeeds(&place, &["-a", "--atomic", option, "-T", "tree", "copy"]);
            assert_same_trees(&place.join("tree"), &place.join("copy"));
            assert_tidy(&place);
            fs::remove_dir_all(place.join("copy")).unwrap();
        }
    }
}

#[test]
fn whoever_opens_the_name_gets_the_old_file_or_the_whole_new_one() {
    let dir = temp_dir();
    let (old, new) = (vec![1u8; 1 << 20], painted(3 << 20));
    fs::write(dir.path().join("old"), &old).unwrap();
    fs::write(dir.path().join("new"), &new).unwrap();
    fs::copy(dir.path().join("old"), dir.path().join("place")).unwrap();
    let over = AtomicBool::new(false);
    let (seen_old, seen_new) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen_old, mut seen_new) = (0, 0);
            while !over.load(Ordering::SeqCst) {
                let mut bytes = Vec::new();
                File::open(dir.path().join("place")).expect("it is always there").read_to_end(&mut bytes).unwrap();
                match bytes == old {
                    true => seen_old += 1,
                    false => {
                        assert!(bytes == new, "{} bytes that are neither", bytes.len());
                        seen_new += 1;
                    }
                }
            }
            (seen_old, seen_new)
        });
        for _ in 0..30 {
            for name in ["new", "old"] {
                succeeds(dir.path(), &["--atomic", "--reflink=never", name, "place"]);
            }
        }
        over.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert!(seen_old > 0 && seen_new > 0, "{seen_old} {seen_new}");
}

#[test]
fn the_new_file_has_the_owner_mode_and_attributes_of_the_old_one() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    fs::write(place.join("source"), "new").unwrap();
    for option in ["--atomic", "--durable=file", "--verify"] {
        let path = place.join("dest");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(5678)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        let name = path.to_str().unwrap();
        run("setfattr", &["-n", "user.note", "-v", "mine", name]);
        run("setfacl", &["-m", "u:42:rw", name]);
        let before = fs::metadata(&path).unwrap();
        succeeds(&place, &[option, "source", "dest"]);
        let after = fs::metadata(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_ne!(after.ino(), before.ino(), "{option}");
        assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()), "{option}");
        let printed = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).arg(&path).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(printed("getfattr", &["-n", "user.note"]).contains("mine"), "{option}");
        assert!(printed("getfacl", &["-n", "--omit-header"]).contains("user:42:rw-"), "{option}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_symbolic_link_stays_and_what_it_leads_to_is_replaced() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("source"), "new").unwrap();
    fs::write(at("elsewhere/file"), "old").unwrap();
    symlink("elsewhere/second", at("first")).unwrap();
    symlink("file", at("elsewhere/second")).unwrap();
    let before = fs::metadata(at("first")).unwrap().ino();
    succeeds(dir.path(), &["--atomic", "source", "first"]);
    assert!(at("first").is_symlink() && at("elsewhere/second").is_symlink());
    assert_eq!(fs::read(at("elsewhere/file")).unwrap(), b"new");
    assert_ne!(fs::metadata(at("first")).unwrap().ino(), before);
    assert_tidy(dir.path());
}

#[test]
fn other_names_of_the_old_file_keep_it() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("source"), "new").unwrap();
    fs::write(at("dest"), "old").unwrap();
    fs::hard_link(at("dest"), at("other")).unwrap();
    succeeds(dir.path(), &["--atomic", "source", "dest"]);
    assert_eq!(fs::read(at("dest")).unwrap(), b"new");
    assert_eq!(fs::read(at("other")).unwrap(), b"old");
}

#[test]
fn a_failed_copy_leaves_the_old_file_as_it_was() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.small(Fs::Ext4, Fs::Ext4.smallest()) else { return };
    let dir = temp_dir();
    create_painted(dir.path().join("large"), 400 << 20);
    fs::write(place.join("dest"), "old").unwrap();
    let source = dir.path().join("large");
    for option in ["--atomic", "--durable=file"] {
        let output = haul(&place, &[option, source.to_str().unwrap(), "dest"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert_eq!(fs::read(place.join("dest")).unwrap(), b"old");
        assert_tidy(&place);
    }
}

#[test]
fn a_backup_is_made_and_the_name_never_stands_for_nothing() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("dest"), "first").unwrap();
    fs::write(at("source"), "second").unwrap();
    succeeds(dir.path(), &["--atomic", "--backup=simple", "source", "dest"]);
    assert_eq!(
        (fs::read(at("dest")).unwrap(), fs::read(at("dest~")).unwrap()),
        (b"second".to_vec(), b"first".to_vec())
    );
    fs::write(at("source"), "third").unwrap();
    succeeds(dir.path(), &["--atomic", "--backup=simple", "source", "dest"]);
    assert_eq!(
        (fs::read(at("dest")).unwrap(), fs::read(at("dest~")).unwrap()),
        (b"third".to_vec(), b"second".to_vec())
    );
    succeeds(dir.path(), &["--atomic", "--backup=numbered", "source", "dest"]);
    assert_eq!(fs::read(at("dest.~1~")).unwrap(), b"third");
    // What a program that has the directory open sees: the name is renamed over, never away.
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=unlink,unlinkat,rename,renameat,renameat2,link,linkat", HAUL])
        .args(["--atomic", "--backup=simple", "source", "dest"])
        .current_dir(dir.path())
        .output();
    let Ok(traced) = traced else { return haul_testbed::skip("no strace") };
    assert!(traced.status.success(), "{}", said(&traced));
    let away = said(&traced).lines().any(|line| line.contains("unlink") && line.contains("\"dest\""));
    assert!(!away && !said(&traced).contains("\"dest\", AT_FDCWD, \"dest~\""), "{}", said(&traced));
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced_without_force() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Tmpfs) else { return };
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(place.join("source"), "new").unwrap();
    fs::write(place.join("dest"), "old").unwrap();
    std::os::unix::fs::chown(place.join("dest"), Some(4321), Some(4321)).unwrap();
    fs::set_permissions(place.join("dest"), fs::Permissions::from_mode(0o444)).unwrap();
    // The build directory may be closed to others.
    copy_program(HAUL, place.join("haul"));
    let run = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=4321", "--regid=4321", "--clear-groups", "./haul"]).args(arguments);
        command.current_dir(&place).env("LC_ALL", "C").output().unwrap()
    };
    let refused = run(&["--atomic", "source", "dest"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(said(&refused), "./haul: cannot create regular file 'dest': Permission denied\n");
    assert_eq!(fs::read(place.join("dest")).unwrap(), b"old");
    assert!(run(&["--atomic", "--force", "source", "dest"]).status.success());
    assert_eq!(fs::read(place.join("dest")).unwrap(), b"new");
}

#[test]
fn what_cannot_have_its_owner_gets_its_name_without() {
    let Some(bed) = Bed::new() else { return };
    let Some(place) = bed.mount(Fs::Ext4) else { return };
    if !haul_testbed::guest::has("setpriv") {
        return haul_testbed::skip("setpriv is missing");
    }
    fs::create_dir(place.join("source")).unwrap();
    fs::write(place.join("source/file"), "contents").unwrap();
    symlink("file", place.join("source/link")).unwrap();
    run("mkfifo", &[place.join("source/fifo").to_str().unwrap()]);
    run("chown", &["-hR", "4321:4321", place.join("source").to_str().unwrap()]);
    for options in ["-a", "-a --atomic", "-a --durable=file", "-a --verify", "-a --atomic --update=all"] {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-chown", "--inh-caps", "-chown", HAUL]).args(options.split(' '));
        let copied = command.args(["-T", "source", "copy"]).current_dir(&place).output().unwrap();
        assert_eq!(copied.status.code(), Some(1), "{options}: {}", said(&copied));
        let mut names: Vec<_> =
            fs::read_dir(place.join("copy")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["fifo", "file", "link"], "{options}: {}", said(&copied));
        fs::remove_dir_all(place.join("copy")).unwrap();
    }
}
