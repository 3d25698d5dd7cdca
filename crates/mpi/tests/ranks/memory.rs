//! A rank that is out of memory does without more or ends the job, which is then resumed.
//!
//! What it gets is limited when it has begun to copy, by `RLIMIT_DATA`: what a process takes for itself. A rank that has
//! too little to start MPI is for MPI to end, and both implementations may wait for it for ever. One that the kernel kills
//! for want of memory is a rank that was killed.
//!
//! `HAUL_MPI_SHORTAGES` is the number of limits with each MPI.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use haul_agree::snapshot::{Item, Snapshot};
use haul_testbed::{Bed, Fs};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::tree::{Extent, FILLED, assert_none, count, differences_but_for, grow, look, place, remove};
use crate::support::{Job, Mpi, Outcome, Part, RANKS, chance, haul_copies, number};

/// Names of all sorts, and many in one directory.
const TREE: Extent = Extent { trees: 10, many: 1000, large: 2 };
/// Files with another name in another directory.
const LINKS: usize = 500;
/// The status of a job that has not tried everything.
const INCOMPLETE: i32 = 3;
/// Further attempts to make a job fail, if none has.
const MORE: u64 = 10;
/// Copied so far, in files, when the least limit is set: a rank that has its threads to start has much to ask for.
const FIRST: usize = 1;

/// Bytes that a process has taken for itself; `None` if it has ended.
fn taken(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().expect("a number");
    Some(kib << 10)
}

/// Files of several names in several directories, so that ranks ask each other about them.
fn link_some(source: &Path) {
    fs::create_dir(source.join("links")).expect("a directory");
    let files = fs::read_dir(source.join("many")).expect("a directory").flatten();
    let files = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    for file in files.take(LINKS) {
        fs::hard_link(file.path(), source.join("links").join(file.file_name())).expect("a name");
    }
}

/// A job of which any panic would make a backtrace, which takes memory, too.
fn job(mpi: Mpi, ranks: usize, dir: &Path) -> Job {
    let words = ["-a", "--resume", "--jobs=3", "--chunk=256K", "source", "result/"];
    Job::of(mpi, dir, vec![Part::new(ranks, &words).by(&["env", "RUST_BACKTRACE=1"])])
}

/// The most bytes that a rank without a limit takes.
fn measure(mpi: Mpi, dir: &Path) -> u64 {
    fs::create_dir(dir.join("result")).expect("a directory");
    let mut running = job(mpi, 3, dir).start();
    let pid = running.rank(1).expect("it has just been started");
    let mut most = 0;
    running.until(|| {
        most = most.max(taken(pid).unwrap_or_default());
        // The ranks must not wait for a processor because of this.
        thread::sleep(Duration::from_millis(2));
        false
    });
    running.end().succeeded();
    remove(&dir.join("result"));
    assert!(most > 0, "{mpi:?}: a rank takes memory");
    most
}

/// A rank that is to be out of memory.
#[derive(Debug)]
struct Shortage {
    rank: usize,
    /// Files that are there when it gets its limit.
    files: usize,
    /// How much of what others take at most it may still take, of so many parts: none is what it has.
    share: (u64, u64),
}

/// Runs a job with a shortage; `None` if it had ended before.
fn run_short(job: &Job, result: &Path, shortage: &Shortage, most: u64) -> Option<Outcome> {
    let mut running = job.start();
    let pid = running.rank(shortage.rank)?;
    let limit = || {
        let now = taken(pid)?;
        let limit = Some(now + most.saturating_sub(now) * shortage.share.0 / shortage.share.1);
        prlimit(Some(pid), Resource::Data, Rlimit { current: limit, maximum: limit }).ok()
    };
    let limited = running.until(|| count(result) >= shortage.files) && limit().is_some();
    let done = running.end();
    limited.then_some(done)
}

/// What stands under its own name is whole, whatever became of the job.
#[track_caller]
fn assert_whole(reference: &Snapshot, result: &Snapshot, context: &str) {
    let of = |(path, found): (&Vec<u8>, &Item)| {
        let wanted = reference.get(path)?;
        let same = (found.kind, found.size, &found.contents) == (wanted.kind, wanted.size, &wanted.contents);
        (!same).then(|| format!("{}: is {found:?} and should be {wanted:?}", path.escape_ascii()))
    };
    let found: Vec<String> = result.iter().filter_map(of).collect();
    assert_none(&found, context);
}

#[test]
fn a_rank_that_is_out_of_memory_ends_the_job_which_is_resumed() {
    let Some(bed) = Bed::new() else { return };
    let Some(dir) = place(&bed, Fs::Ext4) else { return };
    let mut rng = chance(18);
    grow(&mut rng, &dir, TREE);
    link_some(&dir.join("source"));
    fs::create_dir(dir.join("reference")).expect("a directory");
    haul_copies(&dir, &["-a", "source", "reference"]);
    let (all, reference) = (count(&dir.join("reference")), look(&dir.join("reference")));
    let shortages = number("HAUL_MPI_SHORTAGES", 3);
    for mpi in Mpi::all() {
        let most = measure(mpi, &dir);
        let (mut tried, mut failed, mut said_incomplete) = (0, 0, 0);
        // From nothing more to nearly all that it would take. Who has taken all before it is limited does not fail; then others
        // get nothing more until one does.
        while tried < shortages || (failed == 0 && tried < shortages + MORE) {
            let share = if tried < shortages { (tried, shortages) } else { (0, 1) };
            let files = if share.0 == 0 { FIRST } else { rng.usize(FIRST..all / 2) };
            let ranks = rng.usize(3..=4);
            let shortage = Shortage { rank: rng.usize(..ranks), files, share };
            let then = RANKS[rng.usize(..RANKS.len())];
            let context = format!("{mpi:?}: {shortage:?}, {ranks} ranks, {all} files, {most} bytes, then {then} ranks");
            let result = dir.join("result");
            fs::create_dir(&result).expect("a directory");
            if let Some(done) = run_short(&job(mpi, ranks, &dir), &result, &shortage, most) {
                assert!(!done.timed_out && done.left.is_empty() && done.code.is_some(), "{context}: {done}");
                let found = look(&result);
                if done.code == Some(0) {
                    assert_none(&differences_but_for(FILLED, &reference, &found), &context);
                } else {
                    failed += 1;
                    // Of a rank that was ended by a signal MPICH reports there.
                    assert!(!done.stderr.is_empty() || !done.stdout.is_empty(), "{context}: not a word: {done}");
                    assert_whole(&reference, &found, &context);
                    if done.stderr.contains(" cannot go on; all processes of the job are ended") {
                        assert_eq!(done.code, Some(INCOMPLETE), "{context}: {done}");
                        said_incomplete += 1;
                    }
                }
            }
            job(mpi, then, &dir).run().succeeded();
            assert_none(&differences_but_for(FILLED, &reference, &look(&result)), &context);
            remove(&result);
            tried += 1;
        }
        println!("{mpi:?}: {failed} of {tried} jobs failed, {said_incomplete} said that a rank could not go on");
        assert!(failed > 0 || shortages == 0, "{mpi:?}: no job has failed for want of memory");
    }
}
