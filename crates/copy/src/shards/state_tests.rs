use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::mpsc::channel;

use haul_testbed::{TempDir, temp_dir};

use super::*;

/// The directory of a destination, in which shards of one command meet.
struct Holder {
    path: TempDir,
    dir: File,
}

/// What a shard brings along that belongs to this job.
struct Brought {
    job: Job,
    split: [u8; 16],
    roots: Vec<OsString>,
}

const COMMAND: Fingerprint = Fingerprint::from_bytes([7; 16]);

type Opened = Result<Option<(State, Earlier)>, Trouble>;

fn holder() -> Holder {
    let path = temp_dir();
    let dir = File::open(path.path()).unwrap();
    Holder { path, dir }
}

impl Holder {
    fn open(&self, number: u32, count: u32, brought: &Brought) -> Opened {
        let claim = Claim {
            command: &COMMAND,
            shard: shard(number, count),
            split: brought.split,
            job: &brought.job,
            roots: &brought.roots,
        };
        State::open(self.dir.as_fd(), &claim)
    }

    /// One of three shards that begins, and what there was of it.
    fn begin(&self, number: u32, brought: &Brought) -> (State, Earlier) {
        self.open(number, 3, brought).unwrap_or_else(|trouble| panic!("{}", word(&trouble))).expect("nobody has it")
    }

    /// One of three shards from its begin to its end.
    fn run(&self, number: u32, brought: &Brought, whole: bool) -> Vec<u32> {
        let (state, _) = self.begin(number, brought);
        state.end(shard(number, 3), &mut |_| whole).unwrap().1
    }

    fn record(&self) -> std::path::PathBuf {
        self.path.path().join(name(&COMMAND))
    }

    fn missing(&self) -> Option<Vec<u32>> {
        look(self.dir.as_fd(), &COMMAND).unwrap_or_else(|trouble| panic!("{}", word(&trouble))).map(|found| found.1)
    }

    /// Why a shard of three does not begin.
    fn trouble(&self, number: u32, brought: &Brought) -> String {
        self.open(number, 3, brought).map_or_else(|trouble| word(&trouble), |_| "none".into())
    }
}

fn shard(number: u32, count: u32) -> Shard {
    Shard::new(number, count).unwrap()
}

fn recorded() -> Brought {
    Brought { job: Job::Recorded, split: [1; 16], roots: Vec::new() }
}

fn named(id: &str) -> Brought {
    Brought { job: Job::Named(id.into()), ..recorded() }
}

fn launched(id: &str) -> Brought {
    Brought { job: Job::Launched(id.into()), ..recorded() }
}

fn word(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Kernel(errno) => format!("{errno}"),
        Trouble::Foreign => "foreign".into(),
        Trouble::Job(meaning, id) => format!("{meaning:?} '{id}'"),
        Trouble::Running(id) => format!("running '{id}'"),
        Trouble::OtherDestination => "other destination".into(),
    }
}

fn print(byte: u8) -> Fingerprint {
    Fingerprint::from_bytes([byte; 16])
}

#[test]
fn the_first_shard_makes_a_record_for_its_user_alone() {
    let holder = holder();
    assert_eq!(holder.missing(), None);
    let (state, earlier) = holder.begin(2, &named("4711"));
    assert_eq!((earlier, state.header.epoch, state.header.shown_id().as_str()), (Earlier::Nothing, 0, "4711"));
    assert_eq!(fs::metadata(holder.record()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(holder.missing(), Some(vec![1, 2, 3]));
}

#[test]
fn a_shard_that_joins_finds_what_the_others_have_done() {
    let holder = holder();
    assert_eq!(holder.run(3, &named("a"), true), [1, 2]);
    let (state, earlier) = holder.begin(1, &recorded());
    assert_eq!((earlier, state.header.shown_id().as_str(), state.missing()), (Earlier::Nothing, "a", Ok(vec![1, 2])));
}

#[test]
fn a_shard_that_is_being_copied_is_not_begun_by_another() {
    let holder = holder();
    let (first, _) = holder.begin(1, &recorded());
    assert!(matches!(holder.open(1, 3, &recorded()), Ok(None)));
    holder.begin(2, &recorded());
    drop(first);
    assert_eq!(holder.begin(1, &recorded()).1, Earlier::Begun);
}

#[test]
fn a_shard_that_was_killed_is_begun_again() {
    let holder = holder();
    drop(holder.begin(1, &recorded()));
    assert_eq!(holder.begin(1, &recorded()).1, Earlier::Begun);
    assert_eq!(holder.begin(2, &recorded()).1, Earlier::Nothing);
}

#[test]
fn a_shard_that_ended_badly_is_begun_again() {
    let holder = holder();
    assert_eq!(holder.run(1, &recorded(), false), [1, 2, 3]);
    assert_eq!(holder.begin(1, &recorded()).1, Earlier::Begun);
}

#[test]
fn a_shard_that_is_done_stays_done() {
    let holder = holder();
    holder.run(1, &recorded(), true);
    let (first, earlier) = holder.begin(1, &recorded());
    assert_eq!(earlier, Earlier::Done);
    let (_, again) = holder.begin(1, &recorded());
    assert_eq!((again, first.missing()), (Earlier::Done, Ok(vec![2, 3])), "it holds no lock");
}

#[test]
fn the_last_shard_finds_all_others_over_and_none_missing() {
    let holder = holder();
    let over = |number: u32, ended| {
        let (state, _) = holder.begin(number, &recorded());
        let mut over = Vec::new();
        let finish: &mut Finish<'_> = &mut |is_over| {
            over = (0..4).filter(|index| is_over(*index)).collect();
            ended
        };
        let missing = state.end(shard(number, 3), finish).unwrap();
        (over, missing)
    };
    assert_eq!(over(2, true), (vec![1], (true, vec![1, 3])));
    assert_eq!(over(1, false), (vec![0, 1], (false, vec![1, 3])), "one that failed is over");
    assert_eq!(over(3, true), (vec![0, 1, 2], (true, vec![1])));
    assert_eq!(over(1, true), (vec![0, 1, 2], (true, vec![])));
    assert_eq!(holder.missing(), Some(vec![]), "the record stays");
}

#[test]
fn shards_that_end_at_the_same_time_come_one_after_the_other() {
    let holder = holder();
    let states: Vec<State> = (1..=3).map(|number| holder.begin(number, &recorded()).0).collect();
    let (sender, seen) = channel();
    std::thread::scope(|scope| {
        for (number, state) in (1..).zip(&states) {
            let sender = sender.clone();
            let finish = move |is_over: &dyn Fn(u32) -> bool| {
                sender.send((0..3).filter(|index| is_over(*index)).count()).unwrap();
                true
            };
            scope.spawn(move || state.end(shard(number, 3), &mut { finish }).map(drop).unwrap());
        }
    });
    drop(sender);
    assert_eq!(seen.iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_shard_of_another_split_does_not_join() {
    let holder = holder();
    holder.run(1, &named("a"), true);
    let other = Brought { split: [2; 16], ..recorded() };
    assert_eq!(holder.trouble(2, &other), "OtherList 'a'");
    let more = holder.open(2, 5, &recorded()).map(drop);
    assert_eq!(more.map_err(|trouble| word(&trouble)), Err("OtherCount(3) 'a'".into()));
    assert_eq!(holder.missing(), Some(vec![2, 3]));
}

#[test]
fn another_job_takes_the_place_of_a_finished_one() {
    let holder = holder();
    for number in 1..=3 {
        holder.run(number, &named("a"), true);
    }
    let (state, earlier) = holder.begin(1, &launched("b"));
    assert_eq!((earlier, state.header.epoch, state.header.shown_id().as_str()), (Earlier::Nothing, 1, "b"));
    assert_eq!(holder.missing(), Some(vec![1, 2, 3]));
    assert_eq!(fs::read_dir(holder.path.path()).unwrap().count(), 1, "the record alone");
}

#[test]
fn an_unfinished_job_is_replaced_by_one_that_the_user_names() {
    let holder = holder();
    holder.run(1, &named("a"), true);
    assert_eq!(holder.trouble(2, &launched("b")), "Unfinished 'a'");
    let (state, earlier) = holder.begin(2, &named("b"));
    assert_eq!((earlier, state.header.epoch), (Earlier::Begun, 1), "what that job made may be there");
}

#[test]
fn what_an_unfinished_job_made_counts_as_of_the_next() {
    let holder = holder();
    let before = {
        let (state, _) = holder.begin(1, &named("a"));
        state.note(print(5)).unwrap();
        state.header.began
    };
    let (state, _) = holder.begin(1, &named("b"));
    assert!(state.header.inherited && state.is_noted(print(5)));
    assert_eq!(state.header.began, before);
}

#[test]
fn what_a_finished_job_noted_is_forgotten() {
    let holder = holder();
    for number in 1..=3 {
        let (state, _) = holder.begin(number, &named("a"));
        state.note(print(5)).unwrap();
        state.end(shard(number, 3), &mut |_| true).unwrap();
    }
    assert!(!holder.begin(1, &named("b")).0.is_noted(print(5)));
}

#[test]
fn a_job_that_was_replaced_does_not_come_back() {
    let holder = holder();
    for id in ["a", "b", "c"] {
        drop(holder.begin(1, &named(id)));
    }
    for id in ["a", "b"] {
        assert_eq!(holder.trouble(1, &named(id)), "Superseded 'c'");
        assert_eq!(holder.trouble(2, &launched(id)), "Superseded 'c'");
    }
    assert_eq!(holder.begin(1, &named("c")).0.header.epoch, 2);
}

#[test]
fn a_job_of_which_a_shard_is_being_copied_is_not_replaced() {
    let holder = holder();
    let running = holder.begin(3, &named("a"));
    assert_eq!(holder.trouble(1, &named("b")), "running 'a'");
    drop(running);
    assert_eq!(holder.trouble(1, &named("b")), "none");
}

#[test]
fn a_new_record_that_a_killed_process_left_is_no_obstacle() {
    let holder = holder();
    drop(holder.begin(1, &named("a")));
    let mut left = holder.record().into_os_string();
    left.push(".new");
    fs::write(&left, "half of a record").unwrap();
    assert_eq!(holder.begin(1, &named("b")).0.header.epoch, 1);
    assert!(!fs::exists(left).unwrap());
}

#[test]
fn a_shard_whose_record_was_replaced_does_not_end() {
    let holder = holder();
    let (state, _) = holder.begin(1, &named("a"));
    fs::remove_file(holder.record()).unwrap();
    let (other, _) = holder.begin(1, &named("b"));
    let finished = state.end(shard(1, 3), &mut |_| panic!("its job is gone"));
    assert_eq!(finished, Err(Errno::STALE));
    assert_eq!(other.missing(), Ok(vec![1, 2, 3]));
}

#[test]
fn what_one_shard_notes_all_others_know() {
    let holder = holder();
    let (one, _) = holder.begin(1, &recorded());
    let (other, _) = holder.begin(2, &recorded());
    assert!(!other.is_noted(print(1)));
    one.note(print(1)).unwrap();
    other.note(print(2)).unwrap();
    one.note(print(3)).unwrap();
    for number in 1..=3 {
        assert!(one.is_noted(print(number)) && other.is_noted(print(number)), "{number}");
    }
    assert!(!one.is_noted(print(4)));
}

#[test]
fn a_note_that_was_cut_short_is_written_over() {
    let holder = holder();
    let (state, _) = holder.begin(1, &recorded());
    state.note(print(1)).unwrap();
    let size = fs::metadata(holder.record()).unwrap().len();
    state.file.write_all_at(&[9; 5], size).unwrap();
    state.note(print(2)).unwrap();
    assert_eq!(fs::metadata(holder.record()).unwrap().len(), size + NAME as u64);
    assert!(state.is_noted(print(1)) && state.is_noted(print(2)));
}

#[test]
fn a_directory_is_of_the_job_if_it_was_made_after_its_begin() {
    let holder = holder();
    let inode = |name: &str| {
        fs::create_dir(holder.path.path().join(name)).unwrap();
        Inode::at(holder.dir.as_fd(), OsStr::new(name)).unwrap()
    };
    let before = inode("before");
    let (state, _) = holder.begin(1, &recorded());
    let after = inode("after");
    if !state.header.births {
        assert_eq!((state.is_of_job(&before), state.is_of_job(&after)), (None, None), "births do not tell here");
    } else {
        assert_eq!((state.is_of_job(&before), state.is_of_job(&after)), (Some(false), Some(true)));
        assert_eq!(state.is_of_job(&Inode { born: None, ..after }), None);
    }
}

#[test]
fn a_copy_that_was_replaced_by_another_directory_is_another_destination() {
    let holder = holder();
    let with_root = || Brought { roots: vec!["copy".into()], ..recorded() };
    let copy = holder.path.path().join("copy");
    let (state, _) = holder.begin(1, &with_root());
    fs::create_dir(&copy).unwrap();
    state.end(shard(1, 3), &mut |_| true).unwrap();
    assert_eq!(holder.trouble(2, &with_root()), "none");
    // Both are there for a moment, so they are not the same inode.
    fs::rename(&copy, holder.path.path().join("away")).unwrap();
    assert_eq!(holder.trouble(2, &with_root()), "other destination", "it is gone");
    fs::create_dir(&copy).unwrap();
    assert_eq!(holder.trouble(2, &with_root()), "other destination", "it is another one");
    fs::remove_dir(&copy).unwrap();
    fs::rename(holder.path.path().join("away"), &copy).unwrap();
    assert_eq!(holder.trouble(2, &with_root()), "none", "it is back");
}

#[test]
fn a_file_that_is_no_record_is_left_alone() {
    let holder = holder();
    let mut whole = recorded();
    whole.split = [3; 16];
    drop(holder.begin(1, &whole));
    let mut bytes = fs::read(holder.record()).unwrap();
    bytes[20] ^= 1;
    for contents in [vec![b'x'; 1000], bytes] {
        fs::write(holder.record(), &contents).unwrap();
        assert_eq!(holder.trouble(1, &recorded()), "foreign");
        assert!(matches!(look(holder.dir.as_fd(), &COMMAND), Err(Trouble::Foreign)));
        assert!(fs::read(holder.record()).unwrap() == contents);
    }
}

#[test]
fn a_link_a_second_name_or_a_directory_is_no_record() {
    let holder = holder();
    let other = holder.path.path().join("other");
    fs::write(&other, "").unwrap();
    symlink("other", holder.record()).unwrap();
    assert_eq!(holder.trouble(1, &recorded()), "foreign", "a link");
    assert!(matches!(look(holder.dir.as_fd(), &COMMAND), Err(Trouble::Foreign)));
    fs::remove_file(holder.record()).unwrap();
    fs::hard_link(&other, holder.record()).unwrap();
    assert_eq!(holder.trouble(1, &recorded()), "foreign", "a second name");
    fs::remove_file(holder.record()).unwrap();
    fs::create_dir(holder.record()).unwrap();
    assert_ne!(holder.trouble(1, &recorded()), "none", "a directory");
    assert_eq!(fs::read(other).unwrap(), [], "nothing is written through it");
}

#[test]
fn a_record_that_nobody_came_to_write_is_begun_anew() {
    let holder = holder();
    for contents in [Vec::new(), vec![0], vec![0; HEADER], vec![0; 1000]] {
        fs::write(holder.record(), &contents).unwrap();
        assert_eq!(holder.missing(), None);
        assert_eq!(holder.begin(1, &named("a")).1, Earlier::Nothing, "{} bytes", contents.len());
        assert_eq!(holder.missing(), Some(vec![1, 2, 3]));
    }
}

#[test]
fn a_record_that_was_cut_off_is_not_believed() {
    let holder = holder();
    drop(holder.begin(1, &recorded()));
    File::options().write(true).open(holder.record()).unwrap().set_len(HEADER as u64 + 2).unwrap();
    assert_eq!(holder.trouble(1, &recorded()), "foreign");
}

#[test]
fn a_record_of_a_command_with_the_same_name_is_not_touched() {
    let holder = holder();
    drop(holder.begin(1, &recorded()));
    // The name has half of the command.
    let mut bytes = COMMAND.to_bytes();
    bytes[15] ^= 1;
    let command = Fingerprint::from_bytes(bytes);
    let brought = recorded();
    let claim = Claim { command: &command, shard: shard(1, 3), split: [1; 16], job: &brought.job, roots: &[] };
    assert_eq!(name(&command), name(&COMMAND));
    assert!(matches!(State::open(holder.dir.as_fd(), &claim), Err(Trouble::Foreign)));
    assert!(matches!(look(holder.dir.as_fd(), &command), Err(Trouble::Foreign)));
}

#[test]
fn filesystems_without_locks_do_without() {
    for errno in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL] {
        assert_eq!(granted(Err(errno)), Ok(true));
    }
    assert_eq!((granted(Ok(true)), granted(Ok(false)), granted(Err(Errno::IO))), (Ok(true), Ok(false), Err(Errno::IO)));
}
