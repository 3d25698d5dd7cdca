use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use haul_cluster::messages::{Name, Pair, Way};
use haul_cluster::test_support::{CHUNK, End, Wires, group};

use super::*;
use crate::context::test_support::{Bench, Ran};
use crate::links::DestDir;
use crate::peers::{PeerGroup, task_of};
use crate::plan::Destination;
use crate::tree::operands::copy_operands;
use crate::tree::share::share_and_rest;
use crate::tree::test_support::{among, copy_into, entered, moving, plan, troubles, whole_tree};

/// Three files and a directory in the source, which is a thousand seconds old; directories keep their times.
fn bench() -> Bench {
    let mut bench = Bench::new(plan()).source("a", "new").source("b", "new").source("c", "new");
    bench.plan.preserve.timestamps = true;
    fs::create_dir(bench.source_path("d")).unwrap();
    fs::write(bench.source_path("d/below"), "more").unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    File::open(bench.source_path("")).unwrap().set_modified(long_ago).unwrap();
    bench
}

/// The work that this process was given, if it was.
fn work_for(peers: &PeerGroup<'_>, end: &End<'_>) -> Option<Task> {
    let (from, message) = end.arrived()?;
    task_of(peers.take(from, &message.encode()))
}

fn is_finished(bench: &Bench) -> bool {
    fs::metadata(bench.dest_path("")).unwrap().mtime() == 1000
}

/// Both directories as those of an operand that the user has named by its whole path.
fn operand(bench: &Bench) -> (Frame, Top) {
    let mut frame = entered(bench);
    let above = Arc::new(File::open(bench.path()).unwrap().into());
    let root = DestDir::root_shown_as(above, format!("{}/", bench.path().display()).into()).unwrap();
    let place = Arc::get_mut(&mut frame.place).unwrap();
    place.dir = root.below("dest".as_ref(), place.dest_inode.id, place.source_inode.id);
    let [source, dest] = ["source", "dest"].map(|name| bench.path().join(name));
    (frame, Top { source, dest, into_itself: false })
}

/// What came of names that one process has given to another.
struct Given {
    /// How many entries the first process had copied when it was through with its own.
    before: usize,
    /// And whether it had finished the directory then.
    finished: bool,
    first: Ran<()>,
    second: Ran<()>,
}

/// The first process copies a directory and gives half of its names to the second, which may find that they have changed.
fn give(bench: &Bench, change: impl FnOnce(&mut WorkUnit)) -> Given {
    let wires = Wires::new(2);
    let ends = [0, 1].map(|rank| wires.end_of(rank));
    let [first, second] = [&ends[0], &ends[1]].map(group);
    let ran = among(bench, &first, |walker| {
        let (mut frame, mut top) = operand(bench);
        frame.listing.read(frame.sides.as_ref().unwrap().both()[0]).unwrap();
        let mut stack = vec![frame];
        wires.is_idle(1);
        share_and_rest(walker, &mut stack, &top);
        walk::walk_tree(walker, stack.pop().unwrap(), &mut top);
        let (before, finished) = (bench.tree().len(), is_finished(bench));
        let Some(Task::WorkUnit(0, mut unit)) = work_for(&second, &ends[1]) else { panic!("names are given") };
        change(&mut unit);
        let other = among(bench, &second, |walker| do_task(walker, Task::WorkUnit(0, unit)));
        let answer = work_for(&first, &ends[0]).expect("the first one gets an answer");
        do_task(walker, answer);
        (before, finished, other)
    });
    let Ran { value: (before, finished, second), heard, moves, failed, damaged, stats } = ran;
    Given { before, finished, first: Ran { value: (), heard, moves, failed, damaged, stats }, second }
}

#[track_caller]
fn is_whole(bench: &Bench, given: &Given) {
    assert_eq!((troubles(&given.first), troubles(&given.second)), (vec![], vec![]));
    assert_eq!(whole_tree(&bench.dest_path("")), whole_tree(&bench.source_path("")));
    assert!(is_finished(bench));
}

#[test]
fn names_that_were_given_away_are_copied_elsewhere() {
    let bench = bench();
    let given = give(&bench, |_| ());
    assert_eq!((given.before, given.finished), (2, false));
    assert_eq!((given.first.stats.given_away, given.second.stats.work_units), (1, 1));
    is_whole(&bench, &given);
}

#[test]
fn names_that_come_back_are_copied_by_who_gave_them() {
    let bench = bench();
    if bench.from("a").inode().unwrap().born.is_none() {
        return haul_testbed::skip("a filesystem that tells when directories were made");
    }
    let given = give(&bench, |unit| unit.pair.born = [Some((1, 1)); 2]);
    assert_eq!((given.before, given.finished, given.second.stats.work_units), (2, false, 0));
    is_whole(&bench, &given);
}

#[test]
fn names_that_came_back_are_not_given_again() {
    let bench = bench();
    let wires = Wires::new(2);
    let ends = [0, 1].map(|rank| wires.end_of(rank));
    let first = group(&ends[0]);
    let ran = among(&bench, &first, |walker| {
        let (mut frame, top) = operand(&bench);
        frame.listing.read(frame.sides.as_ref().unwrap().both()[0]).unwrap();
        let mut stack = vec![frame];
        wires.is_idle(1);
        share_and_rest(walker, &mut stack, &top);
        let Some((0, Message::Names(unit))) = ends[1].arrived() else { panic!("names are given") };
        let back = Message::NamesDone { token: unit.token, given_back: true };
        let Some(Task::Names { mut frame, .. }) = task_of(first.take(1, &back.encode())) else {
            panic!("they are back")
        };
        assert_eq!(frame.listing.names().map(|listed| Name::from(&*listed)).collect::<Vec<_>>(), unit.names);
        wires.is_idle(1);
        share_and_rest(walker, &mut stack, &top);
        ends[1].arrived()
    });
    assert_eq!(ran.value, None);
}

#[test]
fn a_process_that_gets_work_keeps_its_own_journal() {
    let mut bench = bench();
    bench.plan.resume = true;
    bench.plan.sources = vec![bench.source_path("").into()];
    bench.plan.destination = Destination::Directory(bench.dest_path("").into());
    give(&bench, |_| ());
    let journals: Vec<_> = bench.tree().into_iter().filter(|line| line.starts_with(".haul-resume-")).collect();
    assert_eq!(journals.len(), 1, "{journals:?}");
    let (name, _) = journals[0].split_once(':').unwrap();
    assert!(name.ends_with(".1"), "{name}");
}

/// The second half of a file of two chunks, for another process to copy.
fn chunk(bench: &Bench) -> Chunk {
    let bytes: Vec<u8> = (0..2 * CHUNK).map(|at| (at / 1000) as u8).collect();
    fs::write(bench.source_path("a"), bytes).unwrap();
    File::create(bench.dest_path("t")).unwrap().set_len(2 * CHUNK).unwrap();
    let [source, dest] = [bench.from("a"), bench.to("t")].map(|spot| spot.inode().unwrap());
    let [operand, operand_dest] = [bench.source_path("a"), bench.dest_path("b")].map(OsString::from);
    Chunk {
        token: 7,
        pair: Pair {
            operand,
            operand_dest,
            dest: Way { prefix: bench.dest_path("").into(), names: Vec::new() },
            inodes: [0; 2],
            born: [None; 2],
            device: 0,
            listed: None,
            shown: [OsString::new(), OsString::new()],
        },
        source_name: None,
        dest_name: "t".into(),
        inodes: [source.id.inode(), dest.id.inode()],
        size: source.size,
        modified: (source.modified.seconds, source.modified.nanoseconds),
        offset: CHUNK,
        len: CHUNK,
    }
}

/// Lets the second process do a chunk. The bytes that it says to have moved.
fn moved(bench: &Bench, chunk: Chunk) -> u64 {
    let wires = Wires::new(2);
    let ends = [0, 1].map(|rank| wires.end_of(rank));
    let second = group(&ends[1]);
    among(bench, &second, |walker| do_task(walker, Task::Chunk(0, Box::new(chunk)))).says(&[]);
    match ends[0].arrived() {
        Some((1, Message::ChunkDone { token: 7, moved })) => moved,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_chunk_is_copied_and_nothing_beside_it() {
    let bench = Bench::new(plan());
    let chunk = chunk(&bench);
    assert_eq!(moved(&bench, chunk), CHUNK);
    let [source, dest] = [bench.source_path("a"), bench.dest_path("t")].map(|path| fs::read(path).unwrap());
    let half = CHUNK as usize;
    assert!(dest[half..] == source[half..] && dest[..half].iter().all(|byte| *byte == 0));
}

#[test]
fn nothing_of_a_chunk_is_moved_after_a_cancellation() {
    let bench = Bench::new(plan());
    let chunk = chunk(&bench);
    bench.cancel.cancel();
    assert_eq!(moved(&bench, chunk), 0);
    assert!(fs::read(bench.dest_path("t")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_chunk_of_what_cannot_be_opened_moves_nothing() {
    let bench = Bench::new(plan());
    let mut chunk = chunk(&bench);
    chunk.pair.operand.push("/below");
    assert_eq!(moved(&bench, chunk), 0);
}

#[test]
fn several_processes_move_nothing() {
    let mut bench = Bench::new(moving()).source("a", "text");
    copy_into(&mut bench, &["a"]);
    let wires = Wires::new(2);
    let end = wires.end_of(0);
    let ran = among(&bench, &group(&end), copy_operands);
    assert_eq!(troubles(&ran), ["error: moving does not go with copies by several processes; nothing was moved"]);
    assert!(bench.tree().is_empty() && bench.source_path("a").exists());
}
