use std::fs::{self, File};
use std::os::fd::AsFd;

use haul_sys::inode::Time;
use haul_testbed::{TempDir, temp_dir};

use super::*;
use crate::context::test_support::{SETTLED, settled_dir};

fn plan() -> Plan {
    Plan { sources: vec!["/a".into()], resume: true, ..Plan::default() }
}

/// Begins a run of this process.
fn open_as(dir: &TempDir, rank: usize) -> Result<RecordedProgress, Error> {
    let held = File::open(dir.path()).unwrap();
    RecordedProgress::open(&plan(), held.as_fd(), OsStr::new(""), OsStr::new("dest"), rank)
}

fn open(dir: &TempDir) -> RecordedProgress {
    open_as(dir, 0).unwrap()
}

/// Any file.
fn print(number: u8) -> Fingerprint {
    Fingerprint::of_command(&[&[number]], &settled())
}

fn settled() -> Inode {
    Inode::at(settled_dir().as_fd(), OsStr::new(SETTLED)).unwrap()
}

fn partial(number: u64, prefix: u64) -> Record {
    Record::Partial { source: print(1), file: print(2), number, prefix }
}

/// The journals in the directory, by what stands behind the name of the command.
fn journals(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut ends: Vec<_> =
        names.filter_map(|name| Some(name.strip_prefix(".haul-resume-")?[16..].to_owned())).collect();
    ends.sort();
    ends
}

#[test]
fn the_next_run_knows_that_there_was_a_first() {
    let dir = temp_dir();
    assert!(!open(&dir).earlier);
    assert!(open(&dir).earlier);
}

#[test]
fn another_command_has_another_journal() {
    let dir = temp_dir();
    open(&dir);
    let held = File::open(dir.path()).unwrap();
    let other = Plan { recursive: true, ..plan() };
    let other = RecordedProgress::open(&other, held.as_fd(), OsStr::new(""), OsStr::new("dest"), 0).unwrap();
    assert!(!other.earlier);
    assert_eq!(journals(&dir).len(), 2);
}

#[test]
fn what_is_left_out_makes_no_other_journal() {
    let dir = temp_dir();
    open(&dir);
    let held = File::open(dir.path()).unwrap();
    let other = Plan { skip_offline: true, ..plan() };
    let other = RecordedProgress::open(&other, held.as_fd(), OsStr::new(""), OsStr::new("dest"), 0).unwrap();
    assert!(other.earlier);
}

#[test]
fn a_second_run_at_a_time_is_refused() {
    let dir = temp_dir();
    let first = open(&dir);
    let error = open_as(&dir, 0).map(drop).unwrap_err();
    assert_eq!((error.what, error.path), (What::JournalBusy, first.path));
}

#[test]
fn what_is_finished_is_known_with_its_digest() {
    let dir = temp_dir();
    let digest = Digest::from_hex("22af645d1859cb5ca6da0c484f1f37ea");
    let finished = [(1, None), (2, digest)].map(|(pair, digest)| Record::Finished { pair: print(pair), digest });
    open(&dir).promise(&finished, true).unwrap();
    let next = open(&dir);
    assert_eq!([1, 2, 3].map(|pair| next.finished(print(pair))), [Some(None), Some(digest), None]);
}

#[test]
fn a_directory_of_an_earlier_run_is_known() {
    let dir = temp_dir();
    // Older than the journal, so that only the record tells.
    let inode = Inode { born: Some(Time { seconds: 0, nanoseconds: 1 }), ..settled() };
    let first = open(&dir);
    first.promise(&[Record::Directory(Fingerprint::of_file(&inode))], true).unwrap();
    assert!(!first.made(&inode), "there was no earlier run then");
    drop(first);
    let next = open(&dir);
    assert!(next.made(&inode));
    assert!(!next.made(&Inode { born: Some(Time { seconds: 0, nanoseconds: 2 }), ..inode }));
}

#[test]
fn a_beginning_is_given_to_one_only() {
    let dir = temp_dir();
    open(&dir).promise(&[partial(7, 100), partial(8, 200)], true).unwrap();
    let next = open(&dir);
    let found = next.partial(print(1)).expect("it was noted");
    assert_eq!((found.number, found.prefix, found.file), (8, 200, print(2)));
    assert!(next.partial(print(1)).is_none());
}

#[test]
fn a_beginning_of_no_bytes_is_none() {
    let dir = temp_dir();
    open(&dir).promise(&[partial(7, 100), partial(7, 0)], true).unwrap();
    assert!(open(&dir).partial(print(1)).is_none());
}

#[test]
fn small_files_are_worth_checkpoints_only_where_there_are_beginnings() {
    let dir = temp_dir();
    let (small, large) = (Inode { size: 2 * STEP - 1, ..settled() }, Inode { size: 2 * STEP, ..settled() });
    let first = open(&dir);
    assert!(!first.is_worth_checkpoints(&small) && first.is_worth_checkpoints(&large));
    first.promise(&[partial(7, 100)], true).unwrap();
    drop(first);
    assert!(open(&dir).is_worth_checkpoints(&small));
}

/// Makes a temporary file with this number.
fn make_temporary(dir: &TempDir, progress: &RecordedProgress, number: u64) {
    fs::write(dir.path().join(progress.names.with_number(number)), number.to_string()).unwrap();
}

/// The contents of all files in the directory but journals.
fn temporaries(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others = names.filter(|name| !name.starts_with(".haul-resume-"));
    let mut found: Vec<_> = others.map(|name| fs::read_to_string(dir.path().join(name)).unwrap()).collect();
    found.sort();
    found
}

fn tidy(dir: &TempDir, progress: &RecordedProgress, keep: bool) {
    progress.tidy(File::open(dir.path()).unwrap().as_fd(), keep);
}

#[test]
fn what_earlier_runs_left_goes_unless_it_may_be_wanted() {
    let dir = temp_dir();
    open(&dir).promise(&[partial(7, 100)], true).unwrap();
    let next = open(&dir);
    let own = next.names.number();
    for number in [6, 7, own] {
        make_temporary(&dir, &next, number);
    }
    fs::write(dir.path().join("somebody's"), "stays").unwrap();
    tidy(&dir, &next, true);
    let mut left = vec!["7".to_owned(), own.to_string(), "stays".into()];
    left.sort();
    assert_eq!(temporaries(&dir), left);
}

#[test]
fn without_use_for_beginnings_they_go_at_once() {
    let dir = temp_dir();
    open(&dir).promise(&[partial(7, 100)], true).unwrap();
    let next = open(&dir);
    make_temporary(&dir, &next, 7);
    tidy(&dir, &next, false);
    assert!(temporaries(&dir).is_empty());
}

#[test]
fn beginnings_that_nobody_wanted_go_at_the_end() {
    for (adopted, left) in [(false, &[][..]), (true, &["7"])] {
        let dir = temp_dir();
        open(&dir).promise(&[partial(7, 100)], true).unwrap();
        let next = open(&dir);
        make_temporary(&dir, &next, 7);
        // Met twice, it is kept once.
        tidy(&dir, &next, true);
        tidy(&dir, &next, true);
        if adopted {
            next.adopt(7);
        }
        next.tidy_kept();
        assert_eq!(temporaries(&dir), left);
    }
}

#[test]
fn what_this_run_goes_on_with_is_in_use() {
    let dir = temp_dir();
    let progress = open(&dir);
    make_temporary(&dir, &progress, 7);
    progress.adopt(7);
    tidy(&dir, &progress, false);
    assert_eq!(temporaries(&dir), ["7"]);
}

#[test]
fn the_first_process_takes_over_what_all_have_noted() {
    let dir = temp_dir();
    for rank in [1, 12] {
        let pair = print(u8::try_from(rank).unwrap());
        open_as(&dir, rank).unwrap().promise(&[Record::Finished { pair, digest: None }], true).unwrap();
    }
    assert_eq!(journals(&dir), [".1", ".12"]);
    let first = open(&dir);
    assert!(first.earlier);
    assert_eq!([1, 12, 2].map(|pair| first.finished(print(pair))), [Some(None), Some(None), None]);
    assert_eq!(journals(&dir), [""]);
    drop(first);
    assert_eq!(open(&dir).finished(print(12)), Some(None), "it is in the first one's journal now");
}

#[test]
fn journals_of_others_end_in_a_number() {
    let dir = temp_dir();
    for name in ["j", "j.1", "j.22", "j.", "j.x", "j.1x", "k.1", "jj.1"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    assert_eq!(journals_of_others(File::open(dir.path()).unwrap().as_fd(), OsStr::new("j")), ["j.1", "j.22"]);
}

#[test]
fn what_changed_just_now_has_not_settled() {
    let now = clock_gettime(ClockId::Realtime);
    let since = |seconds: i64, nanoseconds: u32| {
        let changed = Time { seconds: now.tv_sec - seconds, nanoseconds };
        has_settled(&Inode { changed, modified: changed, ..settled() })
    };
    assert!(!since(-3600, 1), "the clock was put back");
    assert!(!since(-3600, 0));
    assert!(since(3600, 1) && since(3600, 0));
}
