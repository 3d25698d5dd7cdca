//! Several threads in one tree, at moments that are chosen: an observer holds one thread at a file until another thread
//! has done what matters, or clearly does not come to it.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{
    DataOptions, Dereference, Destination, EngineChoice, EngineName, Overwrite, Plan, Preserve, Update,
};
use haul_copy::run::{Cancel, Partials, Session, Summary, run};
use haul_testbed::{Bed, Fs, TempDir, temp_dir};

/// Longer than any machine needs for what is waited for; over without harm if it does not come, as it should not.
const LONG_ENOUGH: Duration = Duration::from_millis(400);

/// Nothing takes so long: it hangs.
const FOR_EVER: Duration = Duration::from_secs(300);

/// Holds whoever copies `hold` until something happens to `until`.
struct Director {
    hold: PathBuf,
    until: PathBuf,
    seen: Mutex<bool>,
    change: Condvar,
    problems: Mutex<Vec<String>>,
    questions: Mutex<Vec<bool>>,
}

impl Director {
    fn new(hold: PathBuf, until: PathBuf) -> Director {
        Director {
            hold,
            until,
            seen: Mutex::default(),
            change: Condvar::new(),
            problems: Mutex::default(),
            questions: Mutex::default(),
        }
    }

    fn saw(&self, path: &Path) {
        if *path == self.until {
            *self.seen.lock().unwrap() = true;
            self.change.notify_all();
        }
        if *path == self.hold {
            let seen = self.seen.lock().unwrap();
            drop(self.change.wait_timeout_while(seen, LONG_ENOUGH, |seen| !*seen).unwrap());
        }
    }

    fn copy(&self, plan: &Plan) -> Summary {
        let session = Session {
            observer: self,
            confirm: self,
            cancel: Cancel::default(),
            partials: Partials::default(),
            pace: haul_io::pace::Pace::default(),
            xattr_rules: XattrRules::default(),
            skip_files: Vec::new(),
            shared_reads: None,
        };
        run(plan, &session)
    }

    fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap().clone()
    }
}

impl Observer for Director {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Copying { dest, .. } => self.saw(dest),
            Event::Skipped(dest, _) => self.saw(dest),
            Event::Problem(error) => self.problems.lock().unwrap().push(error.to_string()),
            _ => {}
        }
    }

    fn in_order(&self) -> bool {
        false
    }
}

impl Confirm for Director {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        self.questions.lock().unwrap().push(self.hold.exists());
        true
    }
}

fn plan(source: &Path, dest: &Path) -> Plan {
    Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        recursive: true,
        dereference: Dereference::Never,
        preserve: Preserve { links: true, timestamps: true, ..Preserve::default() },
        jobs: Some(2),
        ..Plan::default()
    }
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// Makes `last` so that it comes after `first` in a directory: those are gone through by inode number.
fn make_after(first: &Path, last: &Path, make: impl Fn(&Path)) {
    let mut spare = Vec::new();
    make(last);
    while inode(last) < inode(first) {
        let name = last.with_extension(spare.len().to_string());
        fs::rename(last, &name).unwrap();
        spare.push(name);
        make(last);
    }
    for name in spare {
        fs::remove_dir_all(&name).or_else(|_| fs::remove_file(&name)).unwrap();
    }
}

/// Makes a directory of three files. The thread that enters it copies `w`, then it keeps `x` and gives `y` away.
fn three_files(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("w"), "w").unwrap();
    make_after(&dir.join("w"), &dir.join("x"), |path| fs::write(path, "x").unwrap());
    make_after(&dir.join("x"), &dir.join("y"), |path| fs::write(path, "y").unwrap());
}

struct Scene {
    _dir: TempDir,
    source: PathBuf,
    dest: PathBuf,
}

fn scene() -> Scene {
    let dir = temp_dir();
    Scene { source: dir.path().join("s"), dest: dir.path().join("t"), _dir: dir }
}

#[test]
fn of_two_names_of_a_file_the_first_in_serial_order_is_copied_though_the_second_stands_there_already() {
    let s = scene();
    let (dir, other) = (s.source.join("d"), s.source.join("e"));
    three_files(&dir);
    fs::remove_file(dir.join("y")).unwrap();
    let latest = if inode(&dir) > inode(&dir.join("x")) { dir.clone() } else { dir.join("x") };
    make_after(&latest, &other, |path| fs::write(path, "new contents").unwrap());
    fs::hard_link(&other, dir.join("y")).unwrap();
    fs::create_dir(&s.dest).unwrap();
    fs::write(s.dest.join("e"), "as new, but something else").unwrap();
    make_after(&other, &s.source.join("z"), |path| fs::write(path, "z").unwrap());
    let director = Director::new(s.dest.join("d/y"), s.dest.join("z"));
    let summary = director.copy(&Plan { update: Update::Older, ..plan(&s.source, &s.dest) });
    assert!(!summary.failed, "{:?}", director.problems());
    for name in ["d/y", "e"] {
        assert_eq!(fs::read_to_string(s.dest.join(name)).unwrap(), "new contents", "{name}");
    }
}

#[test]
fn a_directory_that_is_being_filled_and_is_found_again_through_a_link_is_merged_into_when_it_is_full() {
    let s = scene();
    three_files(&s.source.join("d/sub"));
    make_after(&s.source.join("d"), &s.source.join("e"), |path| fs::create_dir(path).unwrap());
    fs::create_dir(s.source.join("e/sub")).unwrap();
    fs::write(s.source.join("e/sub/y"), "from e").unwrap();
    fs::create_dir_all(s.dest.join("e")).unwrap();
    symlink("e", s.dest.join("d")).unwrap();
    let director = Director::new(s.dest.join("d/sub/y"), s.dest.join("e/sub/y"));
    let summary = director.copy(&Plan { keep_directory_symlink: true, ..plan(&s.source, &s.dest) });
    assert!(!summary.failed, "{:?}", director.problems());
    assert_eq!(fs::read_to_string(s.dest.join("e/sub/y")).unwrap(), "from e");
}

#[test]
fn a_link_to_a_file_that_is_just_being_made_is_written_through_as_if_it_were_there_already() {
    let s = scene();
    three_files(&s.source.join("d"));
    make_after(&s.source.join("d"), &s.source.join("e"), |path| fs::write(path, "last").unwrap());
    fs::create_dir(&s.dest).unwrap();
    symlink("d/y", s.dest.join("e")).unwrap();
    let director = Director::new(s.dest.join("d/y"), s.dest.join("e"));
    let summary = director.copy(&plan(&s.source, &s.dest));
    assert!(!summary.failed, "{:?}", director.problems());
    assert_eq!(fs::read_to_string(s.dest.join("d/y")).unwrap(), "last");
}

#[test]
fn a_question_is_asked_when_everything_before_it_is_done() {
    let s = scene();
    three_files(&s.source.join("d"));
    make_after(&s.source.join("d"), &s.source.join("e"), |path| fs::write(path, "last").unwrap());
    fs::create_dir(&s.dest).unwrap();
    fs::write(s.dest.join("e"), "old").unwrap();
    // When the question comes, the director looks whether the file is there that it holds.
    let director = Director::new(s.dest.join("d/y"), s.dest.join("e"));
    let summary = director.copy(&Plan { overwrite: Overwrite::Ask, ..plan(&s.source, &s.dest) });
    assert!(!summary.failed);
    assert_eq!(*director.questions.lock().unwrap(), [true]);
}

/// Panics in the thread that copies a certain file, while others wait for what it makes.
struct Bomb(PathBuf);

impl Observer for Bomb {
    fn event(&self, event: &Event<'_>) {
        if let Event::DataStarted { source, .. } = event {
            assert!(*source != self.0, "as the test wants it");
        }
    }
}

impl Confirm for Bomb {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

#[test]
fn a_panic_in_any_thread_ends_the_run() {
    let s = scene();
    fs::create_dir(&s.source).unwrap();
    for dir in 0..6 {
        let dir = s.source.join(dir.to_string());
        fs::create_dir(&dir).unwrap();
        for file in 0..6 {
            fs::write(dir.join(file.to_string()), "x").unwrap();
        }
    }
    // All other names of it are waited for.
    for dir in 1..6 {
        fs::hard_link(s.source.join("0/0"), s.source.join(dir.to_string()).join("again")).unwrap();
    }
    for (number, file) in ["0/0", "0/3", "1/2", "3/5", "5/1", "1/again"].iter().cycle().take(60).enumerate() {
        let (source, dest) = (s.source.clone(), s.dest.with_extension(number.to_string()));
        let bomb = Bomb(s.source.join(file));
        let (say, end) = channel();
        std::thread::spawn(move || {
            let session = Session {
                observer: &bomb,
                confirm: &bomb,
                cancel: Cancel::default(),
                partials: Partials::default(),
                pace: haul_io::pace::Pace::default(),
                xattr_rules: XattrRules::default(),
                skip_files: Vec::new(),
                shared_reads: None,
            };
            let plan = Plan { jobs: Some(4), ..plan(&source, &dest) };
            let ended = catch_unwind(AssertUnwindSafe(|| run(&plan, &session)));
            say.send(ended.map(|summary| summary.failed)).unwrap();
        });
        let ended = end.recv_timeout(FOR_EVER).expect("the run hangs");
        // Which of the names is copied is not certain; if none of those that burst, all is well.
        assert!(ended.is_err() || *file == "0/0" || *file == "1/again", "{file}: {ended:?}");
    }
}

#[test]
fn a_directory_that_is_all_there_is_to_do_is_entered_however_many_threads_wait_for_work() {
    let s = scene();
    // Beside each directory of a chain an empty one: where that comes first, the next of the chain is all that is left.
    let chain: PathBuf = std::iter::repeat_n("d", 100).collect();
    fs::create_dir_all(s.source.join(&chain)).unwrap();
    for level in chain.ancestors().skip(1) {
        fs::create_dir(s.source.join(level).join("e")).unwrap();
    }
    fs::write(s.source.join(&chain).join("f"), "x").unwrap();
    for round in 0..10 {
        let (source, dest) = (s.source.clone(), s.dest.with_extension(round.to_string()));
        let copied = dest.join(&chain).join("f");
        let (say, end) = channel();
        std::thread::spawn(move || {
            let plan = Plan { jobs: Some(16), ..plan(&source, &dest) };
            let (summary, problems) = support::copy(&plan, &Cancel::default(), |_| {});
            say.send((summary.failed, problems)).unwrap();
        });
        let (failed, problems) = end.recv_timeout(FOR_EVER).expect("the run hangs");
        assert!(!failed && problems.is_empty(), "{problems:?}");
        assert_eq!(fs::read(copied).unwrap(), b"x");
    }
}

#[test]
fn a_directory_that_is_mounted_in_itself_is_refused_by_every_thread() {
    let Some(bed) = Bed::new() else { return };
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    let source = room.join("s");
    let (dir, loops) = (source.join("a/b/c"), source.join("a/b/c/loop"));
    // So many that threads share the directory: one that was given a part of it begins there.
    for number in 0..60 {
        let side = dir.join(format!("side-{number}"));
        fs::create_dir_all(&side).unwrap();
        fs::write(side.join("file"), "x").unwrap();
    }
    fs::create_dir(&loops).unwrap();
    let status = haul_testbed::Command::new("mount").arg("--bind").arg(source.join("a/b")).arg(&loops).status();
    assert!(status.unwrap().success());
    for number in 0..20 {
        let dest = room.join(format!("t{number}"));
        let (summary, problems) =
            support::copy(&Plan { jobs: Some(4), ..plan(&source, &dest) }, &Cancel::default(), |_| {});
        assert!(summary.failed && problems.len() == 1, "{problems:?}");
        assert!(!dest.join("a/b/c/loop").exists());
    }
}

#[test]
fn two_names_of_one_file_at_the_destination_are_written_in_the_order_of_one_thread() {
    let s = scene();
    for name in ["a", "b"] {
        three_files(&s.source.join(name).join("sub"));
        fs::write(s.source.join(name).join("f"), format!("from {name}, {}", name.repeat(5000))).unwrap();
    }
    let copied = |jobs: usize, number: usize| {
        let dest = s.dest.with_extension(format!("{jobs}-{number}"));
        fs::create_dir_all(dest.join("a")).unwrap();
        fs::create_dir(dest.join("b")).unwrap();
        fs::write(dest.join("a/f"), "old").unwrap();
        fs::hard_link(dest.join("a/f"), dest.join("b/f")).unwrap();
        let plan = Plan { preserve: Preserve::default(), jobs: Some(jobs), ..plan(&s.source, &dest) };
        let (summary, problems) = support::copy(&plan, &Cancel::default(), |_| {});
        assert!(!summary.failed, "{problems:?}");
        assert_eq!(inode(&dest.join("a/f")), inode(&dest.join("b/f")));
        fs::read_to_string(dest.join("a/f")).unwrap()
    };
    let serial = copied(1, 0);
    for number in 0..30 {
        assert!(serial == copied(8, number), "not as with one thread");
    }
}

#[test]
fn a_run_of_many_threads_that_is_cancelled_ends_at_once_and_leaves_no_half_file() {
    const LEN: u64 = 1 << 20;
    let s = scene();
    for dir in 0..8 {
        let dir = s.source.join(dir.to_string());
        fs::create_dir_all(&dir).unwrap();
        for file in 0..8 {
            haul_testbed::create_painted(dir.join(file.to_string()), LEN);
        }
    }
    for round in 0..20 {
        let dest = s.dest.with_extension(round.to_string());
        let cancel = Cancel::default();
        let plan = Plan {
            jobs: Some(8),
            data: DataOptions {
                engine: EngineChoice::Only(EngineName::ReadWrite),
                buffer_size: Some(4096),
                ..plan(&s.source, &dest).data
            },
            ..plan(&s.source, &dest)
        };
        let mut left = 3 * round;
        let (summary, problems) = support::copy(&plan, &cancel, |event| {
            if let Event::Copying { .. } = event {
                match left {
                    0 => cancel.cancel(),
                    _ => left -= 1,
                }
            }
        });
        assert!(summary.cancelled && problems.is_empty(), "{problems:?}");
        let mut files = 0;
        for dir in fs::read_dir(&dest).into_iter().flatten().map(Result::unwrap) {
            for file in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
                assert_eq!(file.metadata().unwrap().len(), LEN, "{:?}", file.path());
                files += 1;
            }
        }
        // Later events may wait for their turn until everything is copied; the first one comes at once.
        assert!(round > 0 || files == 0, "it went on: {files} files");
    }
}

/// Lets a small file find the disk full of a large one that does not fit, before that is removed.
struct FullDisk {
    large: PathBuf,
    small: PathBuf,
    /// How often the large and the small one have failed or were copied.
    ended: Mutex<(usize, usize)>,
    change: Condvar,
    problems: Mutex<Vec<String>>,
}

impl FullDisk {
    fn wait(&self, until: impl Fn(&(usize, usize)) -> bool) {
        let ended = self.ended.lock().unwrap();
        let waited = self.change.wait_timeout_while(ended, FOR_EVER, |ended| !until(ended)).unwrap();
        assert!(!waited.1.timed_out(), "the other file is not copied at the same time");
    }
}

impl Observer for FullDisk {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::DataStarted { source, .. } if *source == self.small => self.wait(|ended| ended.0 > 0),
            Event::DataDone(report) if report.source == self.large => {
                self.ended.lock().unwrap().0 += 1;
                self.change.notify_all();
                self.wait(|ended| ended.1 > 0);
            }
            Event::DataDone(report) if report.source == self.small => {
                self.ended.lock().unwrap().1 += 1;
                self.change.notify_all();
            }
            Event::Problem(error) => self.problems.lock().unwrap().push(error.to_string()),
            _ => {}
        }
    }

    fn in_order(&self) -> bool {
        false
    }
}

impl Confirm for FullDisk {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

#[test]
fn a_file_that_found_the_disk_full_of_one_that_does_not_fit_is_copied_when_that_is_gone() {
    let Some(bed) = Bed::new() else { return };
    let Some(disk) = bed.small(Fs::Tmpfs, 1 << 20) else { return };
    let s = scene();
    three_files(&s.source);
    let (large, small) = (s.source.join("x"), s.source.join("y"));
    fs::write(&large, vec![1; 2 << 20]).unwrap();
    let (ended, change, problems) = (Mutex::default(), Condvar::new(), Mutex::default());
    let director = FullDisk { large, small, ended, change, problems };
    let session = Session {
        observer: &director,
        confirm: &director,
        cancel: Cancel::default(),
        partials: Partials::default(),
        pace: haul_io::pace::Pace::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let dest = disk.join("t");
    let summary = run(&plan(&s.source, &dest), &session);
    assert_eq!(*director.ended.lock().unwrap(), (1, 2), "the large one is not written twice, the small one is");
    let problems = director.problems.into_inner().unwrap();
    assert!(summary.failed && problems.len() == 1 && problems[0].contains("No space left"), "{problems:?}");
    assert_eq!(fs::read_to_string(dest.join("y")).unwrap(), "y");
    assert!(!dest.join("x").exists());
}
