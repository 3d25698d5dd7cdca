//! Lists that haul writes into a source while it copies that: `--digests`, `--list-out`.

use std::fs;
use std::path::Path;

use haul_testbed::{TempDir, temp_dir};

use super::{assert_tidy, entries, haul, said, succeeds};

/// A source of several directories, many files and two names of one file.
fn source() -> TempDir {
    let dir = temp_dir();
    for sub in ["s", "s/inner", "s/inner/deeper"] {
        fs::create_dir(dir.path().join(sub)).expect("it can be made");
        for number in 0..30 {
            fs::write(dir.path().join(sub).join(format!("f{number}")), format!("{sub} {number}"))
                .expect("it can be written");
        }
    }
    fs::hard_link(dir.path().join("s/f0"), dir.path().join("s/inner/linked")).expect("it can be linked");
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let relative = |path: std::path::PathBuf| path.strip_prefix(dir).expect("below").display().to_string();
    let mut names: Vec<_> = entries(dir).into_iter().map(relative).collect();
    names.sort();
    names
}

#[test]
fn a_list_of_digests_in_the_source_is_not_copied() {
    for options in [&[][..], &["--jobs=1"], &["--jobs=4"], &["--atomic"], &["--durable=file"]] {
        for list in ["s/LIST", "s/inner/LIST", "s/inner/../LIST"] {
            let dir = source();
            let before = names(&dir.path().join("s"));
            let digests = format!("--digests={list}");
            succeeds(dir.path(), &[&["-a"], options, &[&digests, "-T", "s", "d"]].concat());
            assert_eq!(names(&dir.path().join("d")), before, "{options:?} {list}");
            let listed = fs::read_to_string(dir.path().join(list)).unwrap();
            assert_eq!(listed.lines().count(), 90, "{options:?} {list}");
            assert_tidy(dir.path());
        }
    }
}

#[test]
fn a_list_of_the_source_in_the_source_does_not_list_itself() {
    for list in ["s/LIST", "s/inner/deeper/LIST"] {
        let dir = source();
        let before = names(&dir.path().join("s"));
        succeeds(dir.path(), &["-a", &format!("--list-out={list}"), "-T", "s", "d"]);
        succeeds(dir.path(), &["-a", &format!("--list={list}"), "-T", "s", "d"]);
        assert_eq!(names(&dir.path().join("d")), before, "{list}");
    }
}

#[test]
fn a_list_never_replaces_a_file_of_the_source() {
    for (call, list) in [
        (&["-a", "s", "d"][..], "s/f1"),
        (&["-a", "s", "d"], "s/inner/deeper/f1"),
        (&["-a", "s", "d"], "way/inner/f1"),
        (&["-a", "s", "d"], "link-to-f1"),
        (&["s/f1", "d"], "s/f1"),
        (&["-a", "s/inner", "s/f1", "d"], "s/f1"),
        (&["-a", "way/", "d"], "s/inner/f1"),
    ] {
        for option in ["--digests", "--list-out"] {
            let dir = source();
            std::os::unix::fs::symlink("s", dir.path().join("way")).unwrap();
            std::os::unix::fs::symlink("s/f1", dir.path().join("link-to-f1")).unwrap();
            fs::create_dir(dir.path().join("d")).unwrap();
            let path = dir.path().join(list);
            let before = (fs::read(&path).unwrap(), names(dir.path()));
            let output = haul(dir.path(), &[&[&format!("{option}={list}")[..]], call].concat());
            assert_eq!(output.status.code(), Some(1), "{option} {list}");
            assert!(said(&output).contains("would replace"), "{option} {list}: {}", said(&output));
            assert!(said(&output).contains("--help"), "{option} {list}: {}", said(&output));
            assert_eq!((fs::read(&path).unwrap(), names(dir.path())), before, "{option} {list}");
        }
    }
}

#[test]
fn a_list_beside_the_source_replaces_the_old_one() {
    let dir = source();
    for _ in 0..2 {
        succeeds(dir.path(), &["-a", "--digests=LIST", "-T", "s", "d"]);
        succeeds(dir.path(), &["s/f1", "--digests=s/LIST", "copy"]);
    }
    assert_eq!(fs::read_to_string(dir.path().join("s/LIST")).unwrap().lines().count(), 1);
}

#[test]
fn a_shard_refuses_a_list_in_its_source() {
    let dir = source();
    let output = haul(dir.path(), &["-a", "--digests=s/LIST", "--shard=1/2", "-T", "s", "d"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("with --shard"), "{}", said(&output));
    assert!(!dir.path().join("d").exists() && !dir.path().join("s/LIST").exists());
}

#[test]
fn old_names_of_the_list_options_do_the_same() {
    let dir = source();
    let at = |name: &str| dir.path().join(name);
    for (old, new) in [("--manifest=old", "--digests=new"), ("--manifest-out=old", "--list-out=new")] {
        for option in [old, new] {
            succeeds(dir.path(), &["-a", option, "-T", "s", "d"]);
            fs::remove_dir_all(at("d")).ok();
        }
        assert_eq!(fs::read(at("old")).unwrap(), fs::read(at("new")).unwrap(), "{old}");
    }
    fs::write(at("s/late"), "is not in the list").unwrap();
    for (option, dest) in [("--from-manifest=new", "by-old"), ("--list=new", "by-new")] {
        succeeds(dir.path(), &["-a", option, "-T", "s", dest]);
    }
    assert_eq!(names(&at("by-old")), names(&at("by-new")));
    for name in names(&at("by-old")).iter().filter(|name| at("by-old").join(name).is_file()) {
        assert_eq!(fs::read(at("by-old").join(name)).unwrap(), fs::read(at("s").join(name)).unwrap(), "{name}");
    }
    assert!(at("by-old/f1").is_file() && !at("by-old/late").exists());
    let output = haul(dir.path(), &["--manifest-out=x", "--from-manifest=new", "s", "d"]);
    assert!(said(&output).contains("--list-out does not go with --list\n"), "{}", said(&output));
}

#[test]
fn a_list_has_no_digest_of_a_pseudo_file_that_reads_differently_again() {
    let dir = temp_dir();
    // The first is another one at each read, the second stays.
    let options = ["--if-changed=fail", "--digests=LIST", "/proc/sys/kernel/random/uuid", "/proc/version", "."];
    let done = succeeds(dir.path(), &options);
    assert!(said(&done).contains("changed while it was being copied"), "{}", said(&done));
    let list = fs::read_to_string(dir.path().join("LIST")).expect("it can be read");
    assert!(list.lines().count() == 1 && list.ends_with("version\n"), "{list}");
    // Of the copy, which has no second read.
    succeeds(dir.path(), &["--digests=AGAIN", "version", "copy"]);
    let digest = |list: &str| list.split(' ').next().map(str::to_owned);
    let again = fs::read_to_string(dir.path().join("AGAIN")).expect("it can be read");
    assert_eq!(digest(&list), digest(&again));
}
