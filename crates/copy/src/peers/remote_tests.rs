use std::fs::File;

use haul_cluster::test_support::{CHUNK, End, Wires, group};
use haul_sys::inode::Inode;

use super::*;
use crate::context::test_support::Bench;
use crate::tree::test_support::{at, entered, level_in, plan, top, top_level};

/// A source, `a`, of so many bytes, all of them holes.
fn bench(size: u64) -> Bench {
    let bench = Bench::new(plan()).source("a", "").dest("b", "");
    File::options().write(true).open(bench.source_path("a")).unwrap().set_len(size).unwrap();
    bench
}

fn inodes(bench: &Bench) -> [Inode; 2] {
    [bench.from("a"), bench.to("b")].map(|spot| spot.inode().unwrap())
}

#[test]
fn a_file_is_shared_from_two_chunks_on() {
    let wires = Wires::new(1);
    let end = wires.end_of(0);
    let peers = group(&end);
    for (size, shared) in [(2 * CHUNK, true), (2 * CHUNK - 1, false)] {
        let bench = bench(size);
        let (subject, root) = (bench.subject("a", "b"), bench.root());
        assert_eq!(RemoteSource::of(&peers, &at(&top_level(&root), subject), &top()).is_some(), shared, "{size}");
    }
}

#[test]
fn operands_are_found_by_paths_and_entries_by_names() {
    let wires = Wires::new(1);
    let end = wires.end_of(0);
    let peers = group(&end);
    let bench = bench(2 * CHUNK);
    let (subject, root, ancestors) = (|| bench.subject("a", "b"), bench.root(), [entered(&bench)]);
    let operand = RemoteSource::of(&peers, &at(&top_level(&root), subject()), &top()).unwrap();
    assert_eq!((operand.name, operand.pair.operand), (None, "a".into()));
    let entry = RemoteSource::of(&peers, &at(&level_in(&ancestors), subject()), &top()).unwrap();
    assert_eq!((entry.name, entry.pair.operand), (Some("a".into()), "source".into()));
}

/// Offers a chunk to the other process, which is idle or not. What it is known by, if it was taken, and what becomes of it.
fn offer<T>(idle: bool, then: impl FnOnce(&dyn Peers, Option<u64>, &PeerGroup<'_>, &End<'_>) -> T) -> T {
    let wires = Wires::new(2);
    let ends = [0, 1].map(|rank| wires.end_of(rank));
    let peers = group(&ends[0]);
    let bench = bench(2 * CHUNK);
    let (subject, root, [source, dest]) = (bench.subject("a", "b"), bench.root(), inodes(&bench));
    let file = RemoteSource::of(&peers, &at(&top_level(&root), subject), &top()).unwrap();
    if idle {
        wires.is_idle(1);
    }
    let handle = file.with_copy(OsStr::new("dir/.temporary"));
    assert_eq!((handle.is_asked_for_work(), handle.chunk()), (idle, CHUNK));
    let given = handle.give(&Chunk { source: &source, dest: &dest, offset: CHUNK, len: CHUNK });
    then(&*handle, given, &peers, &ends[1])
}

#[test]
fn a_chunk_says_which_file_and_which_bytes() {
    offer(true, |_, token, _, other| {
        let Some((0, Message::Chunk(chunk))) = other.arrived() else { panic!("it was sent") };
        assert_eq!((Some(chunk.token), chunk.size, chunk.offset, chunk.len), (token, 2 * CHUNK, CHUNK, CHUNK));
        assert_eq!((chunk.source_name, chunk.dest_name), (None, ".temporary".into()));
    });
}

#[test]
fn a_chunk_that_nobody_takes_is_not_known() {
    offer(false, |_, token, _, other| assert!(token.is_none() && other.arrived().is_none()));
}

#[test]
fn the_answer_to_a_chunk_is_what_was_moved() {
    offer(true, |handle, token, peers, _| {
        let token = token.expect("it was taken");
        peers.take(1, &Message::ChunkDone { token, moved: 4096 }.encode());
        assert!(!handle.has_moved_nothing(token));
        assert_eq!(handle.wait_for(token), 4096);
    });
}

#[test]
fn a_chunk_whose_answer_never_comes_has_moved_nothing() {
    offer(true, |handle, token, peers, _| {
        let token = token.expect("it was taken");
        peers.end();
        assert_eq!(handle.wait_for(token), 0);
    });
}
