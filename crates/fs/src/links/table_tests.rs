use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use haul_sys::rustix::fs::{Mode, OFlags, open};
use haul_testbed::{Bed, Fs, TempDir, temp_dir};
use proptest::prelude::*;

use super::*;

/// A source that no file needs to be.
fn source(number: u64) -> Source {
    Source { id: file(number), born: None }
}

/// An identity that no file needs to have.
fn file(number: u64) -> FileId {
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&number.to_ne_bytes());
    FileId::from_bytes(bytes)
}

fn held(path: &Path) -> Arc<OwnedFd> {
    Arc::new(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).unwrap())
}

fn root(path: &Path) -> Arc<DestDir> {
    DestDir::root_shown_as(held(path), "shown/".into()).unwrap()
}

fn made(dir: &Arc<DestDir>, name: &str) -> Made {
    Made { dir: Arc::clone(dir), name: name.into(), id: None }
}

/// A directory of the destination that is held for its records only.
fn scene() -> (TempDir, Arc<DestDir>) {
    let dir = temp_dir();
    let root = root(dir.path());
    (dir, root)
}

fn spilled(table: &LinkTable) -> usize {
    table.state.lock().pages.spilled()
}

/// What the model knows of a source.
#[derive(Debug, Clone)]
struct Known {
    name: String,
    dir: usize,
    id: Option<u64>,
}

#[derive(Debug, Clone)]
enum Act {
    /// Claim it; if it is the first one, complete it, or give it up.
    Claim {
        source: u64,
        name: String,
        dir: usize,
        well: bool,
    },
    Remember {
        source: u64,
        name: String,
        dir: usize,
    },
    Forget {
        source: u64,
    },
    Get {
        source: u64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let source = 0..300_u64;
    // Long names fill the pages.
    let name = (prop_oneof![1..9_usize, 200..=255_usize, 700..=765_usize], 0..26_u8)
        .prop_map(|(length, letter)| char::from(b'a' + letter).to_string().repeat(length));
    prop_oneof![
        6 => (source.clone(), name.clone(), 0..20_usize, prop::bool::weighted(0.9))
            .prop_map(|(source, name, dir, well)| Act::Claim { source, name, dir, well }),
        2 => (source.clone(), name, 0..20_usize).prop_map(|(source, name, dir)| Act::Remember { source, name, dir }),
        1 => source.clone().prop_map(|source| Act::Forget { source }),
        2 => source.prop_map(|source| Act::Get { source }),
    ]
}

/// Plays the acts against a table and against a map, and compares every answer.
fn play(acts: Vec<Act>, pages: usize) -> usize {
    let (_dir, top) = scene();
    let mut dirs = vec![top];
    for number in 1..20_usize {
        // Chains and siblings.
        let above = &dirs[if number % 3 == 0 { 0 } else { number - 1 }];
        dirs.push(above.known_below(OsStr::new(&format!("dir-{number}")), file(10_000 + number as u64)));
    }
    let table = LinkTable::new(pages);
    let mut model: HashMap<u64, Known> = HashMap::new();
    let same = |made: &Made, known: &Known| {
        assert_eq!((made.name.to_str().unwrap(), made.dir.id), (known.name.as_str(), dirs[known.dir].id));
        assert_eq!(made.id, known.id.map(file));
        assert_eq!(made.path(), dirs[known.dir].shown(OsStr::new(&known.name)));
    };
    for (number, act) in acts.into_iter().enumerate() {
        match act {
            Act::Claim { source, name, dir, well } => {
                let claim = table.claim(self::source(source), || made(&dirs[dir], &name)).unwrap();
                match (claim, model.get(&source)) {
                    (Claim::Made(made), Some(known)) => same(&made, known),
                    (Claim::First, None) if well => {
                        table.complete(self::source(source), file(number as u64)).unwrap();
                        model.insert(source, Known { name, dir, id: Some(number as u64) });
                    }
                    (Claim::First, None) => table.forget(self::source(source)).unwrap(),
                    (claim, known) => panic!("{claim:?}, but the model says {known:?}"),
                }
            }
            Act::Remember { source, name, dir } => {
                let earlier = table.remember(self::source(source), || made(&dirs[dir], &name)).unwrap();
                match (earlier, model.get(&source)) {
                    (Some(earlier), Some(known)) => same(&earlier, known),
                    (None, None) => drop(model.insert(source, Known { name, dir, id: None })),
                    (earlier, known) => panic!("{earlier:?}, but the model says {known:?}"),
                }
            }
            Act::Forget { source } => {
                table.forget(self::source(source)).unwrap();
                model.remove(&source);
            }
            Act::Get { source } => match (table.get(self::source(source)).unwrap(), model.get(&source)) {
                (Some(made), Some(known)) => same(&made, known),
                (None, None) => {}
                (made, known) => panic!("{made:?}, but the model says {known:?}"),
            },
        }
    }
    for (source, known) in &model {
        same(&table.get(self::source(*source)).unwrap().unwrap(), known);
    }
    spilled(&table)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_gives_the_same_as_a_map(acts in prop::collection::vec(act(), 0..800)) {
        play(acts, 1000);
    }

    #[test]
    fn any_sequence_gives_the_same_as_a_map_when_all_but_a_page_is_in_the_file(
        acts in prop::collection::vec(act(), 0..800),
    ) {
        play(acts, 1);
    }
}

#[test]
fn a_hundred_thousand_files_with_little_memory_are_all_found_again() {
    let (dir, top) = scene();
    let table = LinkTable::new(8);
    let mut below = Arc::clone(&top);
    for number in 0..100_000 {
        if number % 100 == 0 {
            let id = file(1_000_000 + number);
            below = if number % 1000 == 0 {
                top.known_below(OsStr::new("again"), id)
            } else {
                below.known_below(OsStr::new("d"), id)
            };
        }
        let name = format!("file-{number}");
        assert!(matches!(table.claim(source(number), || made(&below, &name)).unwrap(), Claim::First));
        table.complete(source(number), file(number + 500_000)).unwrap();
    }
    assert!(spilled(&table) > 1000);
    assert_eq!(table.state.lock().pages.in_memory(), 8);
    // The file has no name.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    for number in (0..100_000).rev() {
        let Claim::Made(found) = table.claim(source(number), || unreachable!()).unwrap() else {
            panic!("{number} is lost");
        };
        assert_eq!(found.name.to_str(), Some(format!("file-{number}").as_str()));
        assert_eq!(found.id, Some(file(number + 500_000)));
        assert_eq!(found.dir.id, file(1_000_000 + number / 100 * 100));
        let depth = 1 + number % 1000 / 100;
        assert_eq!(found.path().components().count() as u64, 1 + depth + 1);
    }
}

#[test]
fn a_table_in_memory_needs_no_file() {
    // Where none can be made.
    let top = root(Path::new("/proc"));
    let table = LinkTable::in_memory();
    for number in 0..10_000 {
        assert!(matches!(table.claim(source(number), || made(&top, "name")).unwrap(), Claim::First));
        table.complete(source(number), file(1)).unwrap();
    }
    assert_eq!(spilled(&table), 0);
    assert!(matches!(table.claim(source(0), || unreachable!()).unwrap(), Claim::Made(_)));
}

#[test]
fn a_full_filesystem_is_an_error_and_no_file_is_taken_for_a_new_one() {
    let Some(bed) = Bed::new() else { return };
    let Some(small) = bed.small(Fs::Tmpfs, 1 << 20) else { return };
    let top = root(&small);
    let table = LinkTable::new(1);
    let mut failed = None;
    let mut claimed = 0;
    while failed.is_none() && claimed < 1_000_000 {
        let claim = table.claim(source(claimed), || made(&top, "some name of a file"));
        failed = match claim {
            Ok(Claim::First) => table.complete(source(claimed), file(1)).err(),
            Ok(Claim::Made(_)) => panic!("{claimed} was never made"),
            Err(errno) => Some(errno),
        };
        claimed += 1;
    }
    assert_eq!(failed, Some(Errno::NOSPC));
    for number in 0..claimed + 10 {
        let claim = table.claim(source(number), || made(&top, "name"));
        assert_eq!(claim.map(drop), Err(Errno::NOSPC), "{number}");
        assert_eq!(table.get(source(number)).map(drop), Err(Errno::NOSPC));
    }
}

/// Eight threads meet the names of 200 files, four of each, in different orders. Some fail to make what they claimed.
#[test]
fn one_thread_makes_a_file_and_all_others_wait_for_it() {
    for pages in [1, 1000] {
        let (_dir, top) = scene();
        let table = LinkTable::new(pages);
        let making: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(0)).collect();
        let complete: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(0)).collect();
        let linked: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(0)).collect();
        thread::scope(|scope| {
            for worker in 0..8_u64 {
                let (table, top, making, complete, linked) = (&table, &top, &making, &complete, &linked);
                scope.spawn(move || {
                    // Each has its own order of all the files.
                    let stride = [1, 3, 7, 9, 11, 13, 17, 19][worker as usize];
                    for step in 0..200_u64 {
                        let number = (step * stride + worker * 25) % 200;
                        let slot = number as usize;
                        let name = format!("{worker}-{number}");
                        match table.claim(source(number), || made(top, &name)).unwrap() {
                            Claim::First => {
                                assert_eq!(making[slot].fetch_add(1, Ordering::SeqCst), 0, "made by two at once");
                                assert_eq!(complete[slot].load(Ordering::SeqCst), 0, "made again");
                                thread::yield_now();
                                making[slot].fetch_sub(1, Ordering::SeqCst);
                                if worker % 3 == 0 {
                                    table.forget(source(number)).unwrap();
                                } else {
                                    complete[slot].fetch_add(1, Ordering::SeqCst);
                                    table.complete(source(number), file(worker)).unwrap();
                                }
                            }
                            Claim::Made(made) => {
                                assert_eq!(making[slot].load(Ordering::SeqCst), 0, "did not wait");
                                assert!(made.id.is_some());
                                linked[slot].fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
        });
        for slot in 0..200 {
            assert_eq!(complete[slot].load(Ordering::SeqCst), 1);
            // Three of the workers give up if they are the first.
            assert!((4..=7).contains(&linked[slot].load(Ordering::SeqCst)));
        }
    }
}

#[test]
fn who_waits_is_woken_by_both_ends_of_a_claim() {
    let (_dir, top) = scene();
    let table = LinkTable::default();
    for well in [true, false] {
        let source = source(u64::from(well));
        assert!(matches!(table.claim(source, || made(&top, "a")).unwrap(), Claim::First));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| table.claim(source, || made(&top, "b")).unwrap());
            while table.state.lock().pending[&source].waiting == 0 {
                thread::yield_now();
            }
            match well {
                true => table.complete(source, file(9)).unwrap(),
                false => table.forget(source).unwrap(),
            }
            match waiter.join().unwrap() {
                Claim::Made(found) => assert!(well && found.id == Some(file(9)) && found.name == "a"),
                Claim::First => assert!(!well),
            }
        });
    }
}

#[test]
fn nobody_waits_any_more_after_a_panic() {
    let (_dir, top) = scene();
    let table = LinkTable::default();
    assert!(matches!(table.claim(source(1), || made(&top, "a")).unwrap(), Claim::First));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| table.claim(source(1), || made(&top, "b")).unwrap());
        while table.state.lock().pending[&source(1)].waiting == 0 {
            thread::yield_now();
        }
        table.abandon();
        assert!(matches!(waiter.join().unwrap(), Claim::First));
    });
}

#[test]
fn a_thread_that_would_wait_for_itself_gets_an_error() {
    let (_dir, top) = scene();
    let table = LinkTable::default();
    assert!(matches!(table.claim(source(1), || made(&top, "a")).unwrap(), Claim::First));
    assert_eq!(table.claim(source(1), || made(&top, "b")).map(drop), Err(Errno::DEADLK));
    table.complete(source(1), file(2)).unwrap();
    assert!(matches!(table.claim(source(1), || made(&top, "b")).unwrap(), Claim::Made(_)));
}

#[test]
fn a_path_is_that_of_the_user_and_the_names_below() {
    let dir = temp_dir();
    for (prefix, path) in [("to/", "to/a/b/name"), ("/", "/a/b/name"), ("", "a/b/name"), ("./", "./a/b/name")] {
        let top = DestDir::root_shown_as(held(dir.path()), prefix.into()).unwrap();
        let below = top.known_below(OsStr::new("a"), file(1)).known_below(OsStr::new("b"), file(2));
        assert_eq!(made(&below, "name").path().as_os_str(), path);
    }
}

#[test]
fn a_file_that_got_the_inode_number_of_a_removed_one_is_another_file() {
    let (_dir, top) = scene();
    let table = LinkTable::default();
    let at = |seconds| Source { id: file(1), born: Some(Time { seconds, nanoseconds: 5 }) };
    assert!(matches!(table.claim(at(1), || made(&top, "old")).unwrap(), Claim::First));
    table.complete(at(1), file(2)).unwrap();
    assert!(matches!(table.claim(at(2), || made(&top, "new")).unwrap(), Claim::First));
    assert!(matches!(table.claim(at(1), || unreachable!()).unwrap(), Claim::Made(found) if found.name == "old"));
}
