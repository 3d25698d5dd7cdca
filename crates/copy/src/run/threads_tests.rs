use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_cluster::messages::{Chunk, Pair, Way};
use haul_cluster::test_support::{CHUNK, Wires, group};
use haul_cluster::{SpareCapacity, Transport};
use parking_lot::Condvar;

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::schedule::limits::descriptors;
use crate::tree::test_support::{copy_into, plan, troubles};

/// Directories `0` to `19` in the directory `tree` of the source, with five files each.
fn bench(plan: Plan) -> Bench {
    let mut bench = Bench::new(plan);
    for dir in 0..20 {
        let dir = bench.source_path("tree").join(dir.to_string());
        fs::create_dir_all(&dir).unwrap();
        (0..5).for_each(|file| fs::write(dir.join(file.to_string()), "contents").unwrap());
    }
    copy_into(&mut bench, &["tree"]);
    bench
}

fn run_as(bench: &Bench, transport: Option<&dyn Transport>) -> Ran<Summary> {
    bench.run(|worker| {
        let part = transport.map(|transport| Part { transport, chunk: 1 << 20 });
        let outcome = run(worker.cx.plan, worker.cx.session, (None, Caller::this_thread().unwrap()), part);
        worker.report.stats += &outcome.stats;
        worker.report.failed |= outcome.failed;
        outcome
    })
}

/// How many files there are below the destination.
fn files(bench: &Bench) -> usize {
    let inside = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    inside(bench.dest_path("tree")).flat_map(inside).filter(|path| path.is_file()).count()
}

/// The way to another process, which says nothing.
struct Silent {
    rank: usize,
    /// What that says of its part in the end.
    others_are_well: bool,
    over: Mutex<bool>,
    ended: Condvar,
    gave_up: AtomicBool,
}

impl Silent {
    fn new(rank: usize, others_are_well: bool) -> Silent {
        let (over, ended, gave_up) = (Mutex::new(rank > 0), Condvar::new(), AtomicBool::new(false));
        Silent { rank, others_are_well, over, ended, gave_up }
    }

    fn end(&self) {
        *self.over.lock() = true;
        self.ended.notify_all();
    }
}

impl Transport for Silent {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        2
    }

    fn is_near(&self, _: usize) -> bool {
        true
    }

    fn begin(&self, _: SpareCapacity) {}

    fn is_asked_for_work(&self) -> bool {
        false
    }

    fn will_give(&self, _: bool) {}

    fn give(&self, work: Vec<u8>) -> Option<Vec<u8>> {
        Some(work)
    }

    fn send(&self, _: usize, _: Vec<u8>) {}

    fn receive(&self) -> Option<(usize, Vec<u8>)> {
        let mut over = self.over.lock();
        self.ended.wait_while(&mut over, |over| !*over);
        None
    }

    fn finish(&self) -> bool {
        self.end();
        self.others_are_well
    }

    fn give_up(&self) {
        self.gave_up.store(true, Ordering::Relaxed);
        self.end();
    }
}

#[test]
fn what_each_thread_did_is_in_the_outcome() {
    for jobs in [1, 4] {
        let bench = bench(Plan { jobs: Some(jobs), ..plan() });
        // In the way of one file.
        fs::create_dir_all(bench.dest_path("tree/7/3")).unwrap();
        let ran = run_as(&bench, None);
        let stats = &ran.value.stats;
        assert_eq!((stats.regular, stats.directories, stats.errors), (99, 21, 1), "{jobs} threads");
        assert_eq!((stats.moved.total(), files(&bench)), (99 * "contents".len() as u64, 99), "{jobs} threads");
        let troubles = troubles(&ran);
        assert!(ran.value.failed && troubles.len() == 1 && troubles[0].contains("dest/tree/7/3"), "{troubles:?}");
    }
}

#[test]
fn a_plan_in_which_the_order_decides_has_one_thread() {
    let ceiling = |plan: Plan| threads(&Plan { jobs: Some(2), ..plan }).ceiling();
    assert_eq!(ceiling(plan()), 2);
    assert_eq!(ceiling(Plan { recursive: false, ..plan() }), 1);
    assert_eq!(ceiling(Plan { dereference: Dereference::Always, ..plan() }), 1);
}

#[test]
fn no_more_threads_are_used_than_there_are_descriptors_for() {
    let most = threads(&Plan { jobs: Some(usize::MAX), ..plan() }).ceiling();
    assert!((1..=descriptors() / 16).contains(&most), "{most} of {} descriptors", descriptors());
}

#[test]
fn later_processes_only_do_what_they_are_given() {
    let bench = bench(plan());
    let ran = run_as(&bench, Some(&Silent::new(1, true)));
    ran.says(&[]);
    assert_eq!((ran.value.stats, bench.tree()), (Stats::default(), Vec::new()));
}

#[test]
fn a_run_has_failed_if_another_process_has() {
    for others_are_well in [true, false] {
        let bench = bench(plan());
        let ran = run_as(&bench, Some(&Silent::new(0, others_are_well)));
        assert_eq!((ran.value.failed, troubles(&ran)), (!others_are_well, Vec::new()));
        assert_eq!(files(&bench), 100);
    }
}

#[test]
fn what_failed_here_is_told_from_what_failed_elsewhere() {
    for (others_are_well, in_the_way, elsewhere) in
        [(true, false, false), (false, false, true), (false, true, false), (true, true, false)]
    {
        let bench = bench(plan());
        if in_the_way {
            fs::create_dir_all(bench.dest_path("tree/7/3")).unwrap();
        }
        let ran = run_as(&bench, Some(&Silent::new(0, others_are_well)));
        assert_eq!((ran.value.failed, ran.value.failed_elsewhere), (in_the_way || !others_are_well, elsewhere));
    }
}

#[test]
fn a_panic_ends_all_threads_and_the_job() {
    for jobs in [1, 4] {
        let mut bench = bench(Plan { jobs: Some(jobs), ..plan() });
        bench.before_data = Some(Box::new(|_| panic!("as if something had happened that cannot be")));
        let transport = Silent::new(0, true);
        let ended = catch_unwind(AssertUnwindSafe(|| run_as(&bench, Some(&transport))));
        assert!(ended.is_err(), "nothing is reported");
        assert!(bench.cancel.is_cancelled(), "the other threads go on");
        assert!(transport.gave_up.load(Ordering::Relaxed), "the other processes wait for this one");
    }
}

/// A chunk of some file.
fn chunk() -> Chunk {
    Chunk {
        token: 7,
        pair: Pair {
            operand: "a".into(),
            operand_dest: "b".into(),
            dest: Way { prefix: ".".into(), names: Vec::new() },
            inodes: [0; 2],
            born: [None; 2],
            device: 0,
            listed: None,
            shown: ["a".into(), "b".into()],
        },
        source_name: None,
        dest_name: "b".into(),
        inodes: [1, 2],
        size: 2 * CHUNK,
        modified: (0, 0),
        offset: CHUNK,
        len: CHUNK,
    }
}

#[test]
fn a_chunk_for_which_there_is_no_thread_is_the_owners_again() {
    let wires = Wires::new(2);
    let ends = [0, 1].map(|rank| wires.end_of(rank));
    let peers = group(&ends[1]);
    let pool: Pool<Task> = Pool::new(Tuner::fixed(4), 8);
    let Offer::ForNewThread(task) = pool.accept(Task::Chunk(0, Box::new(chunk()))) else { panic!("nobody waits") };
    do_without_thread(&pool, &peers, task);
    assert_eq!(ends[0].arrived(), Some((1, Message::ChunkDone { token: 7, moved: 0 })));
    assert!(pool.open() == 0 && !pool.wants_work(), "nor is another one asked for");
    let Offer::ForNewThread(task) = pool.accept(Task::PartDone(None)) else { panic!("nobody waits") };
    do_without_thread(&pool, &peers, task);
    assert_eq!((pool.open(), ends[0].arrived()), (1, None), "what is for this process alone waits for a thread");
}
