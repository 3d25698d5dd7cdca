//! `--resume`: the same command makes the same copy, before there is one, in the middle and when it is whole.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use haul_testbed::{Command, TempDir, skip, temp_dir};

use super::{HAUL, assert_same_trees, assert_tidy, entries, haul, make_tree, said, succeeds};

/// Operands of which each says what DEST is, and where the copy of `tree` is then.
const FORMS: [(&[&str], &str); 6] = [
    (&["-T", "tree", "dest"], "dest"),
    (&["-T", "tree", "dest/"], "dest"),
    (&["-t", "into", "tree"], "into/tree"),
    (&["tree", "into/"], "into/tree"),
    (&["tree", "into/."], "into/tree"),
    (&["tree", "into/../into/"], "into/tree"),
];

/// `tree`, and an empty directory `into`.
fn place() -> TempDir {
    let dir = temp_dir();
    make_tree(&dir.path().join("tree"));
    fs::create_dir(dir.path().join("into")).expect("a directory");
    dir
}

fn names(dir: &Path) -> BTreeSet<PathBuf> {
    entries(dir).into_iter().collect()
}

/// The copy is there and like its source, and nothing else has been made.
fn assert_one_copy(dir: &Path, copy: &str, what: &str) {
    let (source, copy) = (dir.join("tree"), dir.join(copy));
    let of_source = names(&source);
    let below = of_source.iter().map(|path| copy.join(path.strip_prefix(&source).expect("it is below")));
    let mut wanted: BTreeSet<PathBuf> = below.chain(of_source.iter().cloned()).collect();
    wanted.extend([source.clone(), copy.clone(), dir.join("into")]);
    assert_eq!(names(dir), wanted, "{what}");
    assert_same_trees(&source, &copy);
}

#[test]
fn a_command_that_is_repeated_makes_no_second_copy() {
    for (operands, copy) in FORMS {
        let dir = place();
        for run in 1..=3 {
            succeeds(dir.path(), &[&["-a", "--resume"], operands].concat());
            assert_one_copy(dir.path(), copy, &format!("{operands:?}, run {run}"));
        }
    }
}

#[test]
fn a_command_that_was_killed_and_is_repeated_makes_no_second_copy() {
    if !haul_testbed::guest::has("strace") {
        return skip("strace is missing");
    }
    for (operands, copy) in FORMS {
        // The first directory, the last one, the first file, and the journal when all is done.
        for (call, when) in [("mkdirat", 1), ("mkdirat", 3), ("syncfs", 1), ("unlinkat", 1)] {
            let dir = place();
            let words = [&["-a", "--resume", "--jobs=1"], operands].concat();
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:signal=KILL:when={when}"), HAUL]).args(&words);
            let output = command.current_dir(dir.path()).output().expect("it can be run");
            let what = format!("{operands:?}, killed at {call} {when}");
            assert!(!output.status.success(), "{what}: it came to its end: {}", said(&output));
            for _ in 0..2 {
                succeeds(dir.path(), &words);
                assert_one_copy(dir.path(), copy, &what);
                assert_tidy(dir.path());
            }
        }
    }
}

#[test]
fn a_file_goes_to_the_same_name_each_time() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "text").unwrap();
    fs::create_dir(at("into")).unwrap();
    for (operands, copy) in [(&["-T", "file", "copy"], "copy"), (&["-t", "into", "file"], "into/file")] {
        for _ in 0..2 {
            succeeds(dir.path(), &[&["--resume"], &operands[..]].concat());
            assert_eq!(fs::read(at(copy)).unwrap(), b"text");
        }
    }
    assert_eq!(names(dir.path()), ["copy", "file", "into", "into/file"].map(at).into());
}

#[test]
fn a_destination_that_could_mean_two_things_is_refused_and_nothing_is_touched() {
    let dir = place();
    fs::write(dir.path().join("file"), "text").unwrap();
    let look =
        || names(dir.path()).into_iter().map(|path| (fs::symlink_metadata(&path).unwrap().modified().unwrap(), path));
    let before: Vec<_> = look().collect();
    for dest in ["new", "into", "file", "into/new", "it's"] {
        for options in [&["-a", "--resume"][..], &["--resume"], &["-a", "--resume", "--shard=1/2"]] {
            for source in ["tree", "file"] {
                let output = haul(dir.path(), &[options, &[source, dest]].concat());
                assert_eq!(output.status.code(), Some(1), "{}", said(&output));
                let [itself, into] = [dest.to_owned(), format!("{dest}/")]
                    .map(|path| if path.contains('\'') { format!("\"{path}\"") } else { format!("'{path}'") });
                let why = format!(
                    "haul: with --resume the destination must not mean two things: add -T to copy to {itself} itself, or \
                     write {into} to copy into it\nTry 'haul --help' for more information.\n"
                );
                assert_eq!(said(&output), why);
                assert!(look().eq(before.iter().cloned()), "{options:?} {source} {dest}: something was touched");
            }
        }
    }
}

#[test]
fn a_directory_to_copy_into_is_not_made() {
    let dir = place();
    let before = names(dir.path());
    for operands in [&["tree", "new/"][..], &["-t", "new/", "tree"]] {
        let output = haul(dir.path(), &[&["-a", "--resume"], operands].concat());
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(said(&output), "haul: target directory 'new/': No such file or directory\n", "{operands:?}");
        assert_eq!(names(dir.path()), before, "{operands:?}");
    }
}

#[test]
fn several_sources_go_into_a_directory_with_or_without_a_slash() {
    let dir = place();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "text").unwrap();
    for dest in ["into", "into/", "into"] {
        succeeds(dir.path(), &["-a", "--resume", "tree", "file", dest]);
        assert_same_trees(&at("tree"), &at("into/tree"));
        assert_eq!(fs::read(at("into/file")).unwrap(), b"text");
        assert_eq!(fs::read_dir(at("into")).unwrap().count(), 2);
    }
}

#[test]
fn a_path_that_is_kept_whole_goes_into_a_directory_with_or_without_a_slash() {
    let dir = place();
    for dest in ["into", "into/", "into"] {
        succeeds(dir.path(), &["-a", "--resume", "--parents", "tree/inner", dest]);
        assert_same_trees(&dir.path().join("tree/inner"), &dir.path().join("into/tree/inner"));
        assert_eq!(fs::read_dir(dir.path().join("into/tree")).unwrap().count(), 1);
    }
}
