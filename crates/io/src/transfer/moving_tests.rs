use std::fs::File;
use std::os::unix::fs::FileExt;

use haul_testbed::{painted, painted_at};

use super::*;
use crate::options::{EngineChoice, Reflink};
use crate::strategy::choose;
use crate::transfer::mover::facts_of;
use crate::transfer::test_support::{Pair, Recorder, memory, only, with_holes};

const KIB: usize = 1 << 10;

/// Takes one file as far as the test wants, with steps that it may have changed.
fn moving<T>(
    pair: &Pair<'_>,
    options: &DataOptions,
    change: impl FnOnce(&mut Steps),
    act: impl FnOnce(&mut Moving<'_>, &mut Engines) -> T,
) -> T {
    let facts = DataFacts { around: None, ..facts_of(&pair.source, &pair.dest).unwrap() };
    let mut steps = choose(&facts, options);
    change(&mut steps);
    let (heard, transfer, steps) = (Recorder::default(), pair.transfer(), Arc::new(steps));
    let mut moving = Moving::new(&transfer, heard.control(), &facts, &steps, options, (&Arc::default(), None));
    let outcome = act(&mut moving, &mut Engines::default());
    assert_eq!(heard.total(), moving.moved, "what was heard is what was moved");
    outcome
}

fn nothing(_: &mut Steps) {}

fn read_write() -> DataOptions {
    only(EngineName::ReadWrite)
}

#[test]
fn engines_that_refuse_are_not_asked_for_the_next_extent() {
    let pair = Pair::of(with_holes(512 << 10, &[(0, &painted(4096)), (256 << 10, &painted(4096))]), memory(&[]));
    moving(&pair, &only(EngineName::MappedDirect), nothing, |moving, engines| {
        assert_eq!(moving.run(engines), Ok(()));
        assert_eq!(moving.useless, [EngineName::MappedDirect]);
        assert_eq!(moving.tried.len(), 2);
        assert_eq!(moving.tried[1].moved.written, 8192);
    });
}

#[test]
fn an_engine_that_is_useless_is_passed_over() {
    let pair = Pair::in_memory(&painted(5000));
    moving(&pair, &DataOptions::default(), nothing, |moving, engines| {
        assert_eq!(moving.steps.engines, [EngineName::Clone, EngineName::ReadWrite]);
        moving.useless.push(EngineName::Clone);
        assert_eq!(moving.run(engines), Ok(()));
        assert_eq!(moving.tried.iter().map(|tried| tried.engine).collect::<Vec<_>>(), [EngineName::ReadWrite]);
    });
    assert!(pair.copied() == painted(5000));
}

#[test]
fn a_clone_that_is_refused_leaves_the_file_to_others() {
    let pair = Pair::in_memory(&painted(5000));
    moving(&pair, &DataOptions::default(), nothing, |moving, engines| {
        assert_eq!(moving.clone_whole(engines, EngineName::Clone), Ok(None));
        assert_eq!((moving.useless.as_slice(), moving.moved.total()), ([EngineName::Clone].as_slice(), 0));
    });
    assert_eq!(pair.copied(), []);
}

#[test]
fn a_clone_that_must_be_fails_where_it_is_refused() {
    let pair = Pair::in_memory(&painted(5000));
    let options = DataOptions { reflink: Reflink::Always, ..DataOptions::default() };
    moving(&pair, &options, nothing, |moving, engines| {
        let refused = Stop::Failed(Cause::NotCloned(Errno::OPNOTSUPP));
        assert_eq!(moving.clone_whole(engines, EngineName::Clone), Err(refused));
    });
}

#[test]
fn without_another_engine_a_refusal_is_why_it_failed() {
    let pair = Pair::in_memory(&painted(5000));
    let alone = |steps: &mut Steps| steps.engines = vec![EngineName::MappedDirect];
    moving(&pair, &only(EngineName::MappedDirect), alone, |moving, engines| {
        let refused = Cause::Refused(End::Refused(Refusal::NoDirectIo));
        assert_eq!(moving.run(engines), Err(Stop::Failed(refused)));
    });
}

#[test]
fn a_cut_leaves_the_beginning_and_what_was_moved() {
    let dest = memory(&painted(10_000));
    let pair = Pair { start: 1000, ..Pair::of(memory(&painted(20_000)), dest) };
    moving(&pair, &read_write(), nothing, |moving, _| {
        moving.moved.written = 500;
        moving.cut();
        moving.moved.written = 0;
    });
    assert!(pair.copied() == painted(1500));
}

#[test]
fn space_is_allocated_but_for_the_last_byte() {
    let pair = Pair::in_memory(&painted(100 * KIB));
    moving(&pair, &read_write(), |steps| steps.preallocate = true, |moving, _| moving.allocate());
    assert_eq!(pair.copied().len(), 100 * KIB - 1);
    assert!(pair.allocated() >= 100 * KIB as u64 - 4096);
}

#[test]
fn space_that_nobody_chose_is_not_allocated() {
    for bytes in [vec![1; 1], painted(100 * KIB)] {
        let pair = Pair::in_memory(&bytes);
        let one = bytes.len() == 1;
        moving(&pair, &read_write(), |steps| steps.preallocate = one, |moving, _| moving.allocate());
        assert_eq!(pair.copied(), []);
    }
}

#[test]
fn allocated_space_behind_a_shorter_source_goes_when_all_is_there() {
    let pair = Pair::in_memory(&painted(100 * KIB));
    File::from(pair.source.try_clone().unwrap()).set_len(3000).unwrap();
    moving(
        &pair,
        &read_write(),
        |steps| steps.preallocate = true,
        |moving, engines| {
            assert_eq!(moving.run(engines), Ok(()));
        },
    );
    assert!(pair.copied() == painted(3000));
}

#[test]
fn what_a_server_has_copied_of_a_source_that_is_shorter_by_now_goes() {
    let pair = Pair::of(memory(&painted(3000)), memory(&painted(100 * KIB)));
    moving(&pair, &read_write(), nothing, |moving, engines| {
        moving.record(EngineName::CopyRange, Moved::default(), End::Refused(Refusal::NoAnswer));
        assert_eq!(moving.run(engines), Ok(()));
    });
    assert!(pair.copied() == painted(3000));
}

#[test]
fn old_contents_behind_a_last_hole_go_away() {
    let pair = Pair::of(with_holes(8192, &[(0, &painted(4096))]), memory(&[]));
    File::from(pair.dest.try_clone().unwrap()).write_all_at(&[7; 10], 20_000).unwrap();
    moving(&pair, &read_write(), nothing, |moving, engines| assert_eq!(moving.run(engines), Ok(())));
    assert!(pair.copied() == [painted(4096), vec![0; 4096]].concat());
}

#[test]
fn extents_end_where_a_source_ends_that_shrank() {
    let pair = Pair::of(with_holes(1 << 20, &[(0, &painted(8192)), (512 << 10, &painted(4096))]), memory(&[]));
    File::from(pair.source.try_clone().unwrap()).set_len(5000).unwrap();
    moving(&pair, &read_write(), nothing, |moving, engines| assert_eq!(moving.run(engines), Ok(())));
    assert!(pair.copied() == painted(5000));
}

#[test]
fn workers_that_are_many_move_what_one_does() {
    let size = 3 * 1024 * KIB + 5;
    for start in [0, 70_001] {
        let pair = Pair { start, ..Pair::of(memory(&painted(size)), memory(&vec![b'-'; start as usize])) };
        let several = |steps: &mut Steps| steps.workers = strategy::Workers { start: 3, most: 3 };
        moving(&pair, &read_write(), several, |moving, engines| {
            assert_eq!(moving.run(engines), Ok(()));
            assert_eq!(moving.moved.total(), size as u64 - start);
        });
        let start = start as usize;
        assert!(pair.copied() == [vec![b'-'; start], painted_at(start as u64, size - start)].concat());
    }
}

#[test]
fn a_part_shares_no_extents() {
    let pair = Pair::in_memory(&painted(100 * KIB));
    let options = DataOptions { engine: EngineChoice::Auto, ..DataOptions::default() };
    moving(&pair, &options, nothing, |moving, _| {
        assert_eq!(moving.steps.engines.first(), Some(&EngineName::Clone));
        assert_eq!(moving.run_part(4096, 8192), 8192);
        assert!(moving.tried.iter().all(|tried| tried.engine != EngineName::Clone));
    });
    assert!(pair.copied() == [vec![0; 4096], painted_at(4096, 8192)].concat());
}

#[test]
fn bytes_that_went_past_the_cache_are_not_left_in_it() {
    let pair = Pair::in_memory(&painted(5000));
    moving(&pair, &read_write(), nothing, |moving, _| {
        let written = |engine, written| Tried { engine, moved: Moved { written, ..Moved::default() }, refused: None };
        moving.tried = vec![written(EngineName::Direct, 100), written(EngineName::ReadWrite, 20)];
        moving.tried.push(written(EngineName::MappedDirect, 300));
        moving.tried.push(written(EngineName::Dontcache, 4000));
        assert_eq!(moving.left_in_cache(), 20);
    });
}

#[test]
fn holes_are_looked_for_in_blocks_that_make_sense() {
    assert_eq!([0, 512, 4096, 5000, 1 << 20].map(hole_block), [512, 512, 4096, 8192, 64 << 10]);
}
