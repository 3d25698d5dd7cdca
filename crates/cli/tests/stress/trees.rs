//! Random trees, engines, jobs and options: the same result as cp's.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use haul_agree::case::Place;
use haul_agree::compare::{Difference, compare};
use haul_agree::grow::{Flavor, Grower, join};
use haul_agree::scene::{Contents, Kind, Node, Run, build};
use haul_agree::skip::skip;
use haul_agree::stage::{Call, Outcome, Stage};
use haul_copy::plan::EngineName;
use haul_testbed::Command;
use tempfile::TempDir;

/// The copier that is right by definition.
pub const REFERENCE: &str = "/bin/cp";

/// Nothing here takes longer unless it hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// A directory that every user can reach, with the program under test in it.
pub fn room() -> (TempDir, PathBuf) {
    let permissions = fs::Permissions::from_mode(0o755);
    let room = tempfile::Builder::new().prefix("haul-stress-").permissions(permissions).tempdir().expect("a directory");
    let program = room.path().join("haul");
    // By another process: a descriptor open for writing, inherited by a child, would keep it from being started.
    let copied = Command::new("cp").args([Path::new(env!("CARGO_BIN_EXE_haul")), &program]).status();
    assert!(copied.is_ok_and(|status| status.success()), "the program can be copied");
    (room, program)
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Whether a test has to be skipped, which is then said.
pub fn lacks_root(name: &str) -> bool {
    let lacks = !rustix::process::geteuid().is_root();
    if lacks {
        skip(name, "needs root for mounts, owners and devices");
    }
    lacks
}

struct Case {
    seed: u64,
    nodes: Vec<Node>,
    place: Place,
    /// Something stands at the destination. Then the order in which a directory is gone through decides what becomes of
    /// files of several names; the reference is haul with one thread, and cp is left to the other tests.
    exists: bool,
    /// What both programs understand.
    options: Vec<String>,
    /// What only haul does.
    own: Vec<String>,
}

impl Case {
    fn random(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed ^ seed.rotate_left(40) ^ 0x5eed);
        let exists = rng.bool();
        // Whoever writes into an existing FIFO waits for a reader.
        let flavor = Flavor { fifos: !exists, devices: true, mounts: true, unprivileged: false };
        let mut grower = Grower { rng: &mut rng, flavor, nodes: Vec::new() };
        grower.add(Node::new(b"s", Kind::Directory));
        grower.tree(b"s/odd", 3, 30);
        for number in 0..grower.rng.usize(1..4) {
            bulk(&mut grower, format!("s/bulk{number}").as_bytes());
        }
        chain(&mut grower);
        other_names(&mut grower);
        grower.add(Node::new(b"d", Kind::Directory));
        if exists {
            grower.obstacle(b"s", b"d/s");
        }
        let nodes = grower.nodes;
        let mut place = [Place::Memory, Place::Memory, Place::Disk, Place::Xfs, Place::Btrfs][rng.usize(..5)];
        if exists {
            // Numbers its inodes one after the other, so that a second scene is gone through in the same order.
            place = Place::Memory;
        }
        let (options, own) = (options(&mut rng), own_options(&mut rng));
        Case { seed, nodes, place, exists, options, own }
    }

    fn call(&self, own: &[String]) -> Call {
        let words: Vec<&str> = self.options.iter().chain(own).map(String::as_str).chain(["s", "d"]).collect();
        Call::new(&words)
    }
}

fn pick<'a, T: ?Sized>(rng: &mut Rng, list: &[&'a T]) -> &'a T {
    list[rng.usize(..list.len())]
}

fn options(rng: &mut Rng) -> Vec<String> {
    let mut words = vec![pick(rng, &["-a", "-a", "-r", "-rp", "-R", "-dr", "-rH", "-rL"]).to_owned()];
    for (percent, list) in [
        (50, &["--sparse=auto", "--sparse=always", "--sparse=never"][..]),
        (40, &["--reflink=auto", "--reflink=never"]),
        (20, &["-u", "-n", "--remove-destination", "-f", "--backup=numbered", "-l", "-s", "--attributes-only"]),
        (10, &["-x"]),
        (20, &["--preserve=links", "--preserve=all", "--no-preserve=links", "--preserve=mode,timestamps"]),
    ] {
        if rng.u8(..100) < percent {
            words.push(pick(rng, list).to_owned());
        }
    }
    words
}

fn own_options(rng: &mut Rng) -> Vec<String> {
    let engine = EngineName::ALL.iter().map(|engine| engine.as_str()).filter(|name| *name != "null");
    let engines: Vec<&str> = engine.chain(["auto", "auto"]).collect();
    let mut words = vec![format!("--engine={}", pick(rng, &engines)), format!("--jobs={}", rng.u8(1..=8))];
    if rng.bool() {
        let size = [1, 511, 4096, 4097, 65_536, 1 << 20, 8 << 20][rng.usize(..7)];
        // Byte by byte only where it ends.
        words.push(format!("--buffer-size={}", if size == 1 { 512 } else { size }));
    }
    words
}

/// Many small files, at times in directories.
fn bulk(grower: &mut Grower<'_>, path: &[u8]) {
    grower.add(Node::new(path, Kind::Directory));
    let (files, wide) = (grower.rng.usize(10..80), grower.rng.bool());
    for number in 0..files {
        let dir = if wide { path.to_vec() } else { join(path, format!("d{}", number % 7).as_bytes()) };
        grower.add(Node::new(&dir, Kind::Directory));
        let size = [0, 1, 100, 4095, 4096, 4097, 10_000, 65_536][grower.rng.usize(..8)];
        let contents = Contents {
            size,
            runs: vec![Run { offset: 0, length: size, zeros: false }],
            salt: grower.rng.u8(..),
            ..Contents::default()
        };
        let node = grower.dressed(&join(&dir, format!("f{number}").as_bytes()), Kind::File(contents));
        grower.add(node);
    }
}

/// A few levels more than are kept open.
fn chain(grower: &mut Grower<'_>) {
    let mut path = b"s/chain".to_vec();
    for level in 0..grower.rng.usize(..25) {
        grower.add(Node::new(&path, Kind::Directory));
        if level % 3 == 0 {
            let contents = haul_agree::grow::contents(grower.rng);
            grower.add(Node::new(&join(&path, b"file"), Kind::File(contents)));
        }
        path.extend(b"/c");
    }
}

/// Hard links all over the tree.
fn other_names(grower: &mut Grower<'_>) {
    for number in 0..grower.rng.usize(..40) {
        let file = grower.someone(|node| matches!(node.kind, Kind::File(_) | Kind::Symlink(_) | Kind::Fifo));
        let dir = grower.someone(|node| matches!(node.kind, Kind::Directory));
        if let (Some(file), Some(dir)) = (file, dir) {
            grower.add(Node::new(&join(&dir, format!("other{number}").as_bytes()), Kind::HardLink(file)));
        }
    }
}

/// Plays a case with both programs.
fn differences(case: &Case, stage: &Stage, program: &Path) -> Vec<Difference> {
    let play = |call: &Call, program: &Path| -> Outcome {
        stage.perform(case.place, &|work| build(work, &case.nodes), call, program, LIMIT).expect("the case is played")
    };
    let reference = match case.exists {
        true => play(&case.call(&["--jobs=1".into(), "--engine=reference".into()]), program),
        false => play(&case.call(&[]), Path::new(REFERENCE)),
    };
    assert!(!reference.timed_out, "the reference hangs: {} {:?}", case.seed, case.options);
    let call = case.call(&case.own);
    let tested = play(&call, program);
    let mut found = compare(&call, &reference, &tested);
    if case.exists && reference.stderr != tested.stderr {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (reference, tested) = (text(&reference.stderr), text(&tested.stderr));
        found.push(Difference { sort: "order of messages".into(), path: Vec::new(), reference, tested });
    }
    holes(case, &tested, &mut found);
    found
}

/// With `--sparse=always` no new file of zeros takes room.
fn holes(case: &Case, tested: &Outcome, found: &mut Vec<Difference>) {
    if !case.options.iter().any(|word| word == "--sparse=always") || case.place == Place::Btrfs {
        return;
    }
    for (path, item) in &tested.after {
        let Some(name) = path.strip_prefix(b"work/d/s/") else { continue };
        let source = case.nodes.iter().find(|node| node.path.strip_prefix(b"s/") == Some(name));
        let Some(Node { kind: Kind::File(contents), .. }) = source else { continue };
        let all_zeros = contents.runs.iter().all(|run| run.zeros);
        if item.kind == 'f' && !tested.before.contains_key(path) && all_zeros && item.blocks > 8 && item.links == 1 {
            let (sort, reference) = ("not-sparse".into(), "0 blocks".into());
            found.push(Difference { sort, path: path.clone(), reference, tested: format!("{} blocks", item.blocks) });
        }
    }
}

#[test]
fn random_trees_are_copied_as_cp_copies_them_by_any_engine_and_number_of_threads() {
    if lacks_root("random trees") {
        return;
    }
    let first = number("HAUL_STRESS_SEED", 1);
    let cases = if env::var_os("HAUL_STRESS_SEED").is_some() { 1 } else { 200 };
    let end = first + number("HAUL_STRESS_CASES", cases);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, |cores| cores.get().min(4)) {
            scope.spawn(|| {
                let (room, program) = room();
                let stage = Stage::new(room.path(), true).expect("a stage");
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let case = Case::random(seed);
                    let found = differences(&case, &stage, &program);
                    if !found.is_empty() {
                        let lines: String = found.iter().take(10).map(|difference| format!("{difference}\n")).collect();
                        let words = [&case.options[..], &case.own[..]].concat().join(" ");
                        let text = format!("HAUL_STRESS_SEED={} {:?}: {words}\n{lines}", case.seed, case.place);
                        failures.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), end - first, failures.join("\n"));
}
