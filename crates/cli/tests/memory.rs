//! With little memory (`ulimit -v`) a copy is whole, or the command says that memory is exhausted.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Output;

use haul_testbed::{Command, create_painted, temp_dir};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// The program with so many kibibytes of address space.
fn with_memory(limit: u64, dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {limit} && exec \"$0\" \"$@\""), HAUL]).args(args);
    command.current_dir(dir).output().expect("sh can be started")
}

/// The least kibibytes, to a step, with which this works.
fn least(dir: &Path, args: &[&str], step: u64, undo: impl Fn()) -> u64 {
    let works = |steps: &u64| {
        let done = with_memory(steps * step, dir, args).status.success();
        undo();
        done
    };
    (1..).find(works).expect("it works with some amount of memory") * step
}

/// What the program needs for anything at all.
fn start(dir: &Path) -> u64 {
    least(dir, &["--version"], 256, || ())
}

fn make_tree(root: &Path) {
    for dir in 0..4 {
        let dir = root.join(dir.to_string());
        fs::create_dir_all(&dir).expect("a directory");
        for file in 0..100 {
            fs::write(dir.join(file.to_string()), format!("{file}").repeat(file)).expect("a file");
        }
        fs::hard_link(dir.join("1"), dir.join("other")).expect("a hard link");
        symlink("1", dir.join("link")).expect("a link");
    }
    create_painted(root.join("large"), 5 << 20);
}

/// Asserts that everything that stands in the copy is in the source, and is the same there; returns how many entries there are.
fn assert_all_whole(source: &Path, dest: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dest) else { return 0 };
    let mut count = 0;
    for entry in entries.map(|entry| entry.expect("it can be read")) {
        let (from, to) = (source.join(entry.file_name()), entry.path());
        let kind = entry.file_type().expect("it has one");
        assert_eq!(kind, fs::symlink_metadata(&from).expect("it is in the source").file_type(), "{to:?}");
        count += 1;
        if kind.is_dir() {
            count += assert_all_whole(&from, &to);
        } else if kind.is_file() {
            assert!(fs::read(&from).expect("a source") == fs::read(&to).expect("a copy"), "{to:?} is not whole");
        }
    }
    count
}

/// Entries of the tree.
const ENTRIES: usize = 4 * (1 + 100 + 2) + 1;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Copies with each amount of memory, from what the program needs to start up.
fn copies_with_any_memory(options: &[&str]) {
    let room = temp_dir();
    let (source, dest) = (room.path().join("source"), room.path().join("dest"));
    make_tree(&source);
    let start = start(room.path());
    let limits = (0..24).map(|step| step * 250).chain((7..10).map(|power| 1000 << power));
    let mut whole = 0;
    for limit in limits.map(|more| start + more) {
        let output = with_memory(limit, room.path(), &[options, &["source", "dest"]].concat());
        let there = assert_all_whole(&source, &dest);
        match output.status.code() {
            Some(0) => {
                assert_eq!(there, ENTRIES, "{options:?} {limit}");
                let [one, other] = ["0/1", "0/other"].map(|name| fs::metadata(dest.join(name)).expect("a copy").ino());
                assert_eq!(one, other, "{options:?} {limit}: the hard link");
                whole += 1;
            }
            Some(1) => {
                let text = said(&output);
                let reported = text.contains("memory exhausted") || text.contains("Cannot allocate memory");
                assert!(reported, "{options:?} {limit}: {text}");
                whole = 0;
            }
            status => panic!("{options:?} {limit}: {status:?} {}", said(&output)),
        }
        fs::remove_dir_all(&dest).ok();
    }
    assert!(whole >= 3, "{options:?}: with much memory it works");
}

#[test]
fn a_tree_is_copied_whole_or_memory_is_exhausted() {
    copies_with_any_memory(&["-a"]);
}

#[test]
fn threads_that_find_no_memory_leave_nothing_half_made() {
    copies_with_any_memory(&["-a", "--jobs=32"]);
}

#[test]
fn staged_files_are_whole_or_gone_without_memory() {
    copies_with_any_memory(&["-a", "--atomic", "--engine=direct", "--jobs=4"]);
}

#[test]
fn thirty_two_jobs_work_in_forty_megabytes_more_than_none() {
    let room = temp_dir();
    make_tree(&room.path().join("source"));
    let output = with_memory(start(room.path()) + 32_000, room.path(), &["-a", "--jobs=32", "source", "dest"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(assert_all_whole(&room.path().join("source"), &room.path().join("dest")), ENTRIES);
}

#[test]
fn links_to_forty_thousand_entries_take_little_more_memory_than_one() {
    let room = temp_dir();
    fs::write(room.path().join("file"), "").expect("a file");
    let one = least(room.path(), &["-al", "file", "copy"], 256, || _ = fs::remove_file(room.path().join("copy")));
    for (dir, name) in [("flat", ""), ("nested", "in/")] {
        for number in 0..20_000 {
            let file = room.path().join(format!("source/{dir}/{name}{number:031}"));
            if number == 0 {
                fs::create_dir_all(file.parent().expect("it has one")).expect("a directory");
            }
            fs::write(file, "").expect("a file");
        }
    }
    // As GNU's test link-heap has it.
    let output = with_memory(one + 4000, room.path(), &["-al", "source", "dest"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(assert_all_whole(&room.path().join("source"), &room.path().join("dest")), 40_003);
}

#[test]
fn a_buffer_without_room_is_memory_exhausted_and_no_half_file_stays() {
    let room = temp_dir();
    create_painted(room.path().join("source"), 3 << 20);
    let options = ["--engine=read-write", "--buffer-size=1G", "source", "dest"];
    let output = with_memory(start(room.path()) + 100_000, room.path(), &options);
    assert_eq!((output.status.code(), said(&output)), (Some(1), format!("{HAUL}: memory exhausted\n")));
    assert!(!room.path().join("dest").exists());
}

#[test]
fn an_overwritten_file_is_named_when_memory_is_exhausted() {
    let room = temp_dir();
    create_painted(room.path().join("source"), 3 << 20);
    fs::write(room.path().join("dest"), "old").expect("a file");
    let options = ["--engine=read-write", "--buffer-size=1G", "source", "dest"];
    let output = with_memory(start(room.path()) + 100_000, room.path(), &options);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    let old = fs::read(room.path().join("dest")).expect("it stays") == b"old";
    assert!(text.contains("memory exhausted") && (old || text.contains("'dest'")), "{text}");
}

#[test]
fn a_comparison_without_memory_says_neither_same_nor_different() {
    let room = temp_dir();
    make_tree(&room.path().join("source"));
    let copied = Command::new(HAUL).args(["-a", "source", "dest"]).current_dir(room.path()).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let start = start(room.path());
    let statuses: Vec<Option<i32>> = (0..40)
        .map(|step| with_memory(start + 500 * step, room.path(), &["-aT", "--compare", "source", "dest"]).status.code())
        .collect();
    assert!(statuses.iter().all(|status| matches!(status, Some(0 | 2))), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&Some(0)));
}
