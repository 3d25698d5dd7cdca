//! Several threads in a tree that stands at the destination already: what becomes of it, and what is said, is what one thread
//! makes and says.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::hint::spin_loop;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Dereference, Destination, Durable, Overwrite, Plan, Preserve, Update};
use haul_copy::run::{Cancel, Partials, Session, run};
use haul_io::pace::Pace;
use haul_testbed::{Bed, Fs, temp_dir_in};

const SEEDS: u64 = 200;

/// What is heard, in order, with the paths below `root`; who copies takes a while.
struct Heard {
    root: PathBuf,
    lines: Mutex<Vec<String>>,
    threads: Mutex<HashSet<ThreadId>>,
}

impl Observer for Heard {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Copying { dest, .. } => format!("copy {}", dest.display()),
            Event::Skipped(dest, _) => format!("skip {}", dest.display()),
            Event::Removed(dest) => format!("remove {}", dest.display()),
            Event::Problem(error) => format!("error: {error}"),
            Event::Warning(error) => format!("warning: {error}"),
            Event::DataStarted { .. } => {
                self.threads.lock().unwrap().insert(thread::current().id());
                (0..fastrand::u32(..20_000)).for_each(|_| spin_loop());
                return;
            }
            _ => return,
        };
        let root = format!("{}/", self.root.display());
        self.lines.lock().unwrap().push(line.replace(&root, ""));
    }

    fn follows_data(&self) -> bool {
        true
    }
}

impl Confirm for Heard {
    fn overwrite(&self, _: &Question<'_>) -> bool {
        true
    }
}

fn set_age(path: &Path, rng: &mut Rng) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + rng.u64(..9));
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A source, and a destination that has much of it already, with files of several names and links from one to another.
fn make_scene(root: &Path, rng: &mut Rng) {
    let dirs: Vec<String> = (0..rng.usize(1..9)).map(|number| format!("d{number}")).collect();
    let dirs: Vec<String> = dirs.iter().map(|dir| if rng.bool() { dir.clone() } else { format!("d0/{dir}") }).collect();
    let (mut from, mut to): (Vec<PathBuf>, Vec<PathBuf>) = Default::default();
    let many_links = rng.bool();
    let rare = |rng: &mut Rng| rng.u8(..100) < if many_links { 20 } else { 1 };
    for dir in std::iter::once("").chain(dirs.iter().map(String::as_str)) {
        let [source, dest] = ["s", "d"].map(|side| root.join(side).join(dir));
        fs::create_dir_all(&source).unwrap();
        let there = dir.is_empty() || rng.u8(..10) > 0;
        if there {
            fs::create_dir_all(&dest).unwrap();
        }
        for number in 0..rng.usize(..30) {
            let (file, copy) = (source.join(format!("f{number}")), dest.join(format!("f{number}")));
            match rng.u8(..20) {
                0 => symlink("f0", &file).unwrap(),
                1..=4 if !from.is_empty() && rare(rng) => fs::hard_link(rng.choice(&from).unwrap(), &file).unwrap(),
                _ => {
                    fs::write(&file, format!("new {dir} {number} ").repeat(rng.usize(..2000))).unwrap();
                    set_age(&file, rng);
                    from.push(file.clone());
                }
            }
            if !there || rng.u8(..10) == 0 {
                continue;
            }
            if rare(rng) && !to.is_empty() {
                let other = rng.choice(&to).unwrap();
                match rng.u8(..4) {
                    0 => symlink(other, &copy).unwrap(),
                    // To what comes later.
                    1 => symlink(root.join("d").join(rng.choice(&dirs).unwrap()).join("f1"), &copy).unwrap(),
                    2 => fs::hard_link(other, &copy).unwrap(),
                    _ => fs::hard_link(rng.choice(&from).unwrap(), &copy).unwrap(),
                }
            } else if rng.u8(..30) == 0 {
                symlink("nowhere", &copy).unwrap();
            } else if rng.u8(..40) == 0 {
                fs::create_dir(&copy).unwrap();
            } else {
                fs::write(&copy, format!("old {dir} {number} ").repeat(rng.usize(..2000))).unwrap();
                set_age(&copy, rng);
                to.push(copy);
            }
        }
    }
}

fn plan_of(rng: &mut Rng) -> Plan {
    let preserve = match rng.bool() {
        true => Preserve { links: true, timestamps: true, ..Preserve::default() },
        false => Preserve { timestamps: true, ..Preserve::default() },
    };
    let rarely = |rng: &mut Rng| rng.u8(..6) == 0;
    Plan {
        recursive: true,
        dereference: Dereference::Never,
        preserve,
        update: *rng.choice(&[Update::All, Update::All, Update::Older, Update::Changed, Update::Content]).unwrap(),
        overwrite: if rarely(rng) { Overwrite::Skip } else { Overwrite::Replace },
        remove_destination: rarely(rng),
        force: rarely(rng),
        atomic: rarely(rng),
        durable: if rarely(rng) { Durable::File } else { Durable::None },
        ..Plan::default()
    }
}

/// Every entry below a directory: its kind, contents, time, and which of them are one file.
fn state_of(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut state = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, inode) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(root).unwrap().to_owned();
            let is = if inode.is_dir() {
                dirs.push(path);
                "directory".to_owned()
            } else if inode.is_symlink() {
                let text = fs::read_link(path).unwrap();
                format!("-> {}", text.strip_prefix(root).unwrap_or(&text).display())
            } else {
                let text = fs::read_to_string(path).unwrap();
                let time = if inode.mtime() < 5000 { inode.mtime().to_string() } else { "now".into() };
                format!("{} names, {time}: {} {}", inode.nlink(), text.len(), text.get(..30).unwrap_or(&text))
            };
            state.insert(name, is);
        }
    }
    state
}

/// What a copy of the scene of a seed says and leaves, by so many threads, and how many of them moved data.
fn copy(room: &Path, seed: u64, jobs: usize) -> (Vec<String>, BTreeMap<PathBuf, String>, bool, usize) {
    let dir = temp_dir_in(room);
    let root = dir.path();
    let mut rng = Rng::with_seed(seed);
    make_scene(root, &mut rng);
    let plan = Plan {
        sources: vec![root.join("s").into()],
        destination: Destination::Exactly(root.join("d").into()),
        jobs: Some(jobs),
        ..plan_of(&mut rng)
    };
    let heard = Heard { root: root.to_owned(), lines: Mutex::default(), threads: Mutex::default() };
    let session = Session {
        observer: &heard,
        confirm: &heard,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let failed = run(&plan, &session).failed;
    let (threads, mut lines) = (heard.threads.into_inner().unwrap().len(), heard.lines.into_inner().unwrap());
    if plan.durable == Durable::File {
        // What is found out when a file gets its name is said when many do, at a time that depends on the threads.
        lines.sort();
    }
    (lines, state_of(root), failed, threads)
}

#[test]
fn several_threads_leave_and_say_what_one_thread_does() {
    let Some(bed) = Bed::new() else { return };
    // Directories are gone through by inode number, which is here the order in which they were made.
    let Some(room) = bed.mount(Fs::Tmpfs) else { return };
    let mut shared = 0;
    for seed in 0..SEEDS {
        let (one, several) = (copy(&room, seed, 1), copy(&room, seed, 4));
        assert_eq!(several.0, one.0, "said, with seed {seed}");
        for (path, is) in &one.1 {
            assert_eq!(several.1.get(path), Some(is), "{} with seed {seed}", path.display());
        }
        assert_eq!((several.1.len(), several.2), (one.1.len(), one.2), "with seed {seed}");
        shared += usize::from(several.3 > 1);
    }
    assert!(shared as u64 > SEEDS / 4, "only {shared} of {SEEDS} copies were shared");
}
