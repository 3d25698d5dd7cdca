use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use std::num::NonZeroUsize;

use haul_sys::rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use haul_testbed::{painted, painted_at};
use parking_lot::Mutex;

use super::*;
use crate::engine::{ByteSource, FailedOn, Failure};
use crate::options::{Preallocate, Reflink, Sparse};
use crate::transfer::test_support::{Pair, Recorder, contents, disk, memory, only, with_holes};
use crate::transfer::{Chunk, Peers};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn mover() -> Mover {
    Mover::new(Arc::default())
}

/// Moves everything by a mover of its own, and nobody says stop.
fn moved(pair: &Pair<'_>, options: &DataOptions) -> Report {
    mover().move_data(&pair.transfer(), options, Recorder::default().control())
}

fn names(tried: &[Tried]) -> Vec<EngineName> {
    tried.iter().map(|tried| tried.engine).collect()
}

/// The holes that the tests copy are between these.
fn two_extents() -> File {
    with_holes(MIB as u64, &[(0, &painted(64 * KIB)), (512 * KIB as u64, &painted_at(7, 64 * KIB))])
}

fn read_write() -> DataOptions {
    only(EngineName::ReadWrite)
}

#[test]
fn the_report_adds_up_to_the_bytes_of_the_file_and_names_the_engine() {
    for size in [0, 1, 4097, 100 * KIB, 5 * MIB + 17] {
        let (pair, heard) = (Pair::on_disk(&painted(size)), Recorder::default());
        let report = mover().move_data(&pair.transfer(), &read_write(), heard.control());
        assert!(pair.copied() == painted(size), "{size} bytes");
        assert_eq!(report.stopped, None);
        assert_eq!(report.moved, Moved { written: size as u64, ..Moved::default() });
        assert_eq!((report.own, heard.total()), (report.moved, report.moved));
        assert_eq!(names(&report.tried), [EngineName::ReadWrite], "{size} bytes");
    }
}

#[test]
fn whatever_is_chosen_the_copy_is_the_file() {
    for size in [0, 1, 4097, 100 * KIB, 5 * MIB + 17] {
        for pair in [Pair::on_disk(&painted(size)), Pair::in_memory(&painted(size))] {
            let report = moved(&pair, &DataOptions::default());
            assert!(pair.copied() == painted(size), "{size} bytes");
            assert_eq!((report.stopped, report.moved.total()), (None, size as u64));
        }
    }
}

#[test]
fn a_small_file_is_reported_once_as_read_and_written() {
    let (pair, heard) = (Pair::in_memory(&painted(5000)), Recorder::default());
    let options = DataOptions { reflink: Reflink::Never, ..DataOptions::default() };
    let report = mover().move_data(&pair.transfer(), &options, heard.control());
    let all = Moved { written: 5000, ..Moved::default() };
    assert!(pair.copied() == painted(5000));
    assert_eq!(*heard.heard.lock(), [all]);
    assert_eq!(names(&report.tried), [EngineName::ReadWrite]);
    assert_eq!((report.tried[0].moved, report.workers), (all, 1));
}

#[test]
fn old_contents_that_are_not_overwritten_in_one_go_are_cut_first() {
    let (options, heard) = (read_write(), Recorder::default());
    for (size, at_once) in [(5000, true), (100 * KIB, false)] {
        let pair = Pair::of(disk(&painted(size)), disk(&vec![b'o'; 300 * KIB]));
        let mut mover = mover();
        let job = Transfer { overwrites: true, ..pair.transfer() };
        assert_eq!(mover.overwrites(&job, &options, heard.control()), at_once, "{size} bytes");
        assert_eq!(mover.move_data(&job, &options, heard.control()).stopped, None);
        assert!(pair.copied() == painted(size), "{size} bytes");
    }
    let empty = Pair::on_disk(&painted(5000));
    assert!(!mover().overwrites(&empty.transfer(), &options, heard.control()), "nothing is there to be overwritten");
}

#[test]
fn an_empty_file_moves_nothing_to_hear_of() {
    let (pair, heard) = (Pair::in_memory(&[]), Recorder::default());
    let report = mover().move_data(&pair.transfer(), &DataOptions::default(), heard.control());
    assert_eq!((report.stopped, report.moved, heard.heard.lock().len()), (None, Moved::default(), 0));
}

#[test]
fn a_small_file_that_grew_is_moved_to_its_end() {
    let pair = Pair::in_memory(&painted(5000));
    File::from(pair.source.try_clone().unwrap()).write_all_at(&painted_at(5000, 3000), 5000).unwrap();
    let options = DataOptions { reflink: Reflink::Never, ..DataOptions::default() };
    let report = moved(&pair, &options);
    assert!(pair.copied() == painted(8000));
    assert_eq!(report.moved.written, 8000);
}

#[test]
fn a_large_file_that_grew_is_moved_to_its_end() {
    let pair = Pair::in_memory(&painted(5 * MIB));
    File::from(pair.source.try_clone().unwrap())
        .write_all_at(&painted_at(5 * MIB as u64, 3000), 5 * MIB as u64)
        .unwrap();
    assert_eq!(moved(&pair, &read_write()).moved.written, 5 * MIB as u64 + 3000);
    assert!(pair.copied() == painted(5 * MIB + 3000));
}

#[test]
fn a_source_that_shrank_leaves_no_space_behind_its_end() {
    for size in [100 * KIB, 5 * MIB] {
        let pair = Pair::in_memory(&painted(size));
        File::from(pair.source.try_clone().unwrap()).set_len(30_000).unwrap();
        let report = moved(&pair, &DataOptions { preallocate: Preallocate::Always, ..read_write() });
        assert!(pair.copied() == painted(30_000), "{size} bytes before");
        assert_eq!((report.stopped, report.moved.total()), (None, 30_000));
    }
}

#[test]
fn a_pipe_is_read_until_it_ends() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&painted(5000)).unwrap();
    drop(writer);
    let pair = Pair::of(reader, memory(&[]));
    let report = moved(&pair, &DataOptions::default());
    assert!(pair.copied() == painted(5000));
    assert_eq!((report.stopped, report.moved.written), (None, 5000));
}

#[test]
fn a_cancelled_transfer_says_so_and_leaves_no_allocated_space() {
    for size in [100 * KIB, 5 * MIB] {
        let (pair, heard) = (Pair::in_memory(&painted(size)), Recorder::default());
        heard.cancel.cancel();
        let options = DataOptions { preallocate: Preallocate::Always, ..read_write() };
        let report = mover().move_data(&pair.transfer(), &options, heard.control());
        assert_eq!((report.stopped, report.moved), (Some(Stop::Cancelled), Moved::default()));
        assert_eq!((pair.copied().len(), pair.allocated()), (0, 0), "of {size} bytes");
    }
}

#[test]
fn a_transfer_that_is_cancelled_on_its_way_ends_with_the_last_byte_that_counts() {
    let pair = Pair::of(two_extents(), memory(&painted(MIB)));
    let heard = Recorder { cancels: true, ..Recorder::default() };
    let report = mover().move_data(&pair.transfer(), &read_write(), heard.control());
    assert_eq!(report.stopped, Some(Stop::Cancelled));
    assert!(report.moved.total() < MIB as u64, "{:?}", report.moved);
    assert_eq!(report.moved.written, 64 * KIB as u64);
    assert_eq!(pair.copied().len() as u64, report.moved.total());
    assert!(pair.copied().starts_with(&painted(64 * KIB)));
}

#[test]
fn holes_of_the_source_stay_holes() {
    let source = two_extents();
    let pair = Pair::of(source.try_clone().unwrap(), memory(&[]));
    let (heard, data) = (Recorder::default(), 128 * KIB as u64);
    let report = mover().move_data(&pair.transfer(), &DataOptions::default(), heard.control());
    assert!(pair.copied() == contents(&source));
    assert_eq!((report.moved.written, report.moved.holes), (data, MIB as u64 - data));
    assert_eq!(heard.total(), report.moved);
    assert_eq!(pair.allocated(), data);
}

#[test]
fn a_file_that_is_one_hole_gets_its_size_and_no_space() {
    let pair = Pair::of(with_holes(MIB as u64 + 5, &[]), memory(&[]));
    assert_eq!(moved(&pair, &DataOptions::default()).moved.holes, MIB as u64 + 5);
    assert!(pair.copied() == vec![0; MIB + 5]);
    assert_eq!(pair.allocated(), 0);
}

#[test]
fn holes_are_filled_where_none_are_wanted() {
    let source = two_extents();
    let pair = Pair::of(source.try_clone().unwrap(), memory(&[]));
    let report = moved(&pair, &DataOptions { sparse: Sparse::Never, ..DataOptions::default() });
    assert!(pair.copied() == contents(&source));
    assert_eq!(report.moved, Moved { written: MIB as u64, ..Moved::default() });
    assert_eq!(pair.allocated(), MIB as u64);
}

#[test]
fn zeros_become_holes_where_they_are_wanted() {
    let bytes = [painted(256 * KIB), vec![0; 512 * KIB], painted(256 * KIB)].concat();
    let pair = Pair::in_memory(&bytes);
    let report = moved(&pair, &DataOptions { sparse: Sparse::Always, ..DataOptions::default() });
    assert!(pair.copied() == bytes);
    assert_eq!((report.moved.total(), report.moved.holes), (MIB as u64, 512 * KIB as u64));
    assert_eq!(pair.allocated(), 512 * KIB as u64);
}

#[test]
fn zeros_of_a_pipe_become_holes_and_its_end_is_the_size() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let bytes = [painted(4 * KIB), vec![0; 32 * KIB]].concat();
    writer.write_all(&bytes).unwrap();
    drop(writer);
    let pair = Pair::of(reader, memory(&[]));
    let report = moved(&pair, &DataOptions { sparse: Sparse::Always, ..DataOptions::default() });
    assert!(pair.copied() == bytes);
    assert_eq!((report.moved.holes > 0, report.moved.total()), (true, 36 * KIB as u64));
}

#[test]
fn what_must_share_extents_and_cannot_is_not_cloned() {
    for size in [0, 5000, 5 * MIB] {
        let options = DataOptions { reflink: Reflink::Always, ..DataOptions::default() };
        let within_one = Pair::in_memory(&painted(size));
        let between = Pair::of(disk(&painted(size)), memory(&[]));
        for (pair, errno) in [(within_one, Errno::OPNOTSUPP), (between, Errno::XDEV)] {
            let report = moved(&pair, &options);
            assert_eq!(report.stopped, Some(Stop::Failed(Cause::NotCloned(errno))), "{size} bytes");
            assert_eq!(names(&report.tried), [EngineName::Clone]);
            assert_eq!(pair.copied(), [], "{size} bytes");
        }
    }
}

#[test]
fn an_engine_that_refuses_is_followed_by_read_and_write() {
    for size in [5000, 5 * MIB] {
        let pair = Pair::in_memory(&painted(size));
        let report = moved(&pair, &only(EngineName::MappedDirect));
        assert!(pair.copied() == painted(size), "{size} bytes");
        assert_eq!(names(&report.tried), [EngineName::MappedDirect, EngineName::ReadWrite]);
        assert_eq!(report.tried[0].refused, Some(Refusal::NoDirectIo));
        assert_eq!(report.tried[0].moved, Moved::default());
        assert_eq!((report.tried[1].refused, report.tried[1].moved), (None, report.moved));
    }
}

#[test]
fn read_and_write_go_on_at_the_byte_where_the_engine_refused() {
    // Beyond its size the destination may not be written: there, both of them are refused.
    let dest = memfd_create("haul", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let dest = File::from(dest);
    dest.set_len(96 * KIB as u64).unwrap();
    fcntl_add_seals(&dest, SealFlags::GROW).unwrap();
    let pair = Pair::of(memory(&painted(MIB)), dest);
    let report = moved(&pair, &only(EngineName::CopyRange));
    assert_eq!(names(&report.tried), [EngineName::CopyRange, EngineName::ReadWrite]);
    assert_eq!(report.tried[0].refused, Some(Refusal::Unsupported(Errno::PERM)));
    let failure = Failure { on: FailedOn::Write, errno: Errno::PERM };
    assert_eq!(report.stopped, Some(Stop::Failed(Cause::Moving(failure))));
    assert_eq!(report.moved.total(), 96 * KIB as u64);
    assert!(pair.copied() == painted(96 * KIB));
}

#[test]
fn a_failure_names_the_side_and_the_error() {
    for size in [5000, 100 * KIB, 5 * MIB] {
        let pair = Pair::of(memory(&painted(size)), File::options().write(true).open("/dev/full").unwrap());
        let report = moved(&pair, &DataOptions::default());
        let failure = Failure { on: FailedOn::Write, errno: Errno::NOSPC };
        assert_eq!(report.stopped, Some(Stop::Failed(Cause::Moving(failure))), "{size} bytes");
        assert_eq!(report.moved, Moved::default());
    }
}

#[test]
fn the_beginning_that_is_there_is_left_alone() {
    for size in [20_000, 5 * MIB] {
        for engine in [EngineName::ReadWrite, EngineName::MappedDirect] {
            let pair = Pair { start: 5001, ..Pair::of(memory(&painted(size)), memory(&[b'-'; 5001])) };
            let report = moved(&pair, &only(engine));
            assert!(pair.copied() == [vec![b'-'; 5001], painted_at(5001, size - 5001)].concat(), "{size}, {engine}");
            assert_eq!((report.stopped, report.moved.total()), (None, size as u64 - 5001));
        }
    }
}

#[test]
fn what_two_filesystems_refuse_is_asked_once_for_all_movers() {
    let shared = Arc::<Shared>::default();
    let moves = |pair: &Pair<'_>| {
        let mut mover = Mover::new(Arc::clone(&shared));
        mover.move_data(&pair.transfer(), &DataOptions::default(), Recorder::default().control())
    };
    let first = moves(&Pair::in_memory(&painted(5000)));
    assert_eq!(names(&first.tried), [EngineName::Clone, EngineName::ReadWrite]);
    assert_eq!(first.tried[0].refused, Some(Refusal::Unsupported(Errno::OPNOTSUPP)));
    let second = Pair::in_memory(&painted(6000));
    assert_eq!(names(&moves(&second).tried), [EngineName::ReadWrite]);
    assert!(second.copied() == painted(6000));
}

#[test]
fn another_pair_of_filesystems_is_asked_again() {
    let mut mover = mover();
    let mut tried = |pair: &Pair<'_>| {
        names(&mover.move_data(&pair.transfer(), &DataOptions::default(), Recorder::default().control()).tried)
    };
    tried(&Pair::in_memory(&painted(5000)));
    let between = || Pair::of(disk(&painted(5000)), memory(&[]));
    assert_eq!(tried(&between()), [EngineName::Clone, EngineName::ReadWrite]);
    assert_eq!(tried(&between()), [EngineName::ReadWrite]);
    let back = Pair::of(memory(&painted(5000)), disk(&[]));
    assert_eq!(tried(&back), [EngineName::Clone, EngineName::ReadWrite], "the other way");
}

#[test]
fn known_refusals_are_reported_to_who_wants_all() {
    for size in [5000, 5 * MIB] {
        let mut mover = mover();
        let mut known = |wants_all| {
            let (pair, heard) = (Pair::in_memory(&painted(size)), Recorder { wants_all, ..Recorder::default() });
            let report = mover.move_data(&pair.transfer(), &DataOptions::default(), heard.control());
            assert!(pair.copied() == painted(size));
            report.known.iter().map(|known| (known.engine, known.refused)).collect::<Vec<_>>()
        };
        assert_eq!(known(true), [], "this one has asked");
        assert_eq!(known(true), [(EngineName::Clone, Some(Refusal::Unsupported(Errno::OPNOTSUPP)))], "{size} bytes");
        assert_eq!(known(false), []);
    }
}

#[test]
fn a_refusal_that_concerns_two_files_is_not_learned() {
    let mut mover = mover();
    let sealed = memfd_create("haul", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    fcntl_add_seals(&sealed, SealFlags::GROW).unwrap();
    let pair = Pair::of(memory(&painted(100 * KIB)), sealed);
    let report = mover.move_data(&pair.transfer(), &only(EngineName::CopyRange), Recorder::default().control());
    assert_eq!(report.tried[0].refused, Some(Refusal::Unsupported(Errno::PERM)));
    let pair = Pair::in_memory(&painted(100 * KIB));
    let report = mover.move_data(&pair.transfer(), &DataOptions::default(), Recorder::default().control());
    assert!(names(&report.tried).contains(&EngineName::CopyRange), "{:?}", report.tried);
}

#[test]
fn bytes_left_in_the_cache_are_counted_until_somebody_asks() {
    let mut mover = mover();
    for size in [5000, 100 * KIB] {
        let pair = Pair::in_memory(&painted(size));
        mover.move_data(&pair.transfer(), &DataOptions::default(), Recorder::default().control());
    }
    assert_eq!(mover.take_left_in_cache(), 5000 + 100 * KIB as u64);
    assert_eq!(mover.take_left_in_cache(), 0);
}

#[test]
fn a_part_moves_its_own_range_only() {
    for engine in [EngineName::ReadWrite, EngineName::MappedDirect] {
        let pair = Pair::of(memory(&painted(MIB)), memory(&vec![b'-'; MIB]));
        let part = mover().move_part(&pair.transfer(), &only(engine), Recorder::default().control(), (12_345, 70_000));
        let whole = [vec![b'-'; 12_345], painted_at(12_345, 70_000), vec![b'-'; MIB - 82_345]].concat();
        assert!(pair.copied() == whole, "{engine}");
        assert_eq!((part.reached, part.moved.total()), (70_000, 70_000));
        assert_eq!(names(&part.tried).last(), Some(&EngineName::ReadWrite));
    }
}

#[test]
fn a_part_beyond_the_end_reaches_the_end() {
    let pair = Pair::in_memory(&painted(100_000));
    let part = mover().move_part(&pair.transfer(), &read_write(), Recorder::default().control(), (90_000, 50_000));
    assert_eq!(part.reached, 10_000);
    assert!(pair.copied() == [vec![0; 90_000], painted_at(90_000, 10_000)].concat());
}

#[test]
fn a_part_that_fails_reaches_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let pair = Pair::of(memory(&painted(100_000)), full);
    let part = mover().move_part(&pair.transfer(), &read_write(), Recorder::default().control(), (0, 50_000));
    assert_eq!((part.reached, part.moved), (0, Moved::default()));
}

/// Takes one chunk, of which so many bytes are copied at once.
struct Helper {
    source: File,
    dest: File,
    moves: usize,
    given: Mutex<Option<(u64, u64)>>,
}

impl Peers for Helper {
    fn chunk(&self) -> u64 {
        MIB as u64
    }

    fn is_asked_for_work(&self) -> bool {
        self.given.lock().is_none()
    }

    fn give(&self, chunk: &Chunk<'_>) -> Option<u64> {
        let mut bytes = vec![0; self.moves];
        self.source.read_exact_at(&mut bytes, chunk.offset).unwrap();
        self.dest.write_all_at(&bytes, chunk.offset).unwrap();
        *self.given.lock() = Some((chunk.offset, chunk.len));
        Some(1)
    }

    fn will_give(&self, _: bool) {}

    fn has_moved_nothing(&self, _: u64) -> bool {
        self.moves == 0
    }

    fn wait_for(&self, _: u64) -> u64 {
        self.moves as u64
    }
}

#[test]
fn what_other_processes_moved_counts_for_the_file_and_not_for_this_one() {
    let size = 5 * MIB + 17;
    for moves in [0, 1000, 500_000] {
        let (source, dest) = (memory(&painted(size)), memory(&[]));
        let helper = Helper {
            source: source.try_clone().unwrap(),
            dest: dest.try_clone().unwrap(),
            moves,
            given: Mutex::default(),
        };
        let pair = Pair { peers: Some(&helper), ..Pair::of(source, dest) };
        let report = moved(&pair, &read_write());
        assert!(pair.copied() == painted(size), "{moves} bytes by another process");
        assert!(helper.given.lock().is_some());
        assert_eq!((report.moved.total(), report.own.total()), (size as u64, (size - moves) as u64));
    }
}

#[test]
fn facts_are_those_of_the_two_files() {
    let (source, dest) = (OwnedFd::from(two_extents()), OwnedFd::from(memory(&[1; 10])));
    let facts = facts_of(&source, &dest).unwrap();
    assert_eq!((facts.source, facts.size, facts.allocated), (Kind::Regular, MIB as u64, 128 * KIB as u64));
    assert!(facts.seekable && facts.replaces && !facts.pseudo_file);
    assert!(!facts.clone_is_known_to_fail && !facts.copy_range_is_known_to_fail);
    assert!(!facts_of(&source, &OwnedFd::from(memory(&[]))).unwrap().replaces);
}

/// Has other bytes than the file, and not all of them.
#[derive(Debug, Default)]
struct Elsewhere(Mutex<Vec<(u64, usize)>>);

/// Chunks of this size are there, of every second one of which a part.
const AT_HAND: u64 = 1 << 20;

impl ByteSource for Elsewhere {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Option<NonZeroUsize> {
        self.0.lock().push((offset, buffer.len()));
        let (chunk, within) = (offset / AT_HAND, offset % AT_HAND);
        let len = NonZeroUsize::new(
            buffer.len().min(usize::try_from(AT_HAND / 3 * 2 - within.min(AT_HAND / 3 * 2)).unwrap()),
        )?;
        (chunk % 2 == 1).then(|| {
            buffer[..len.get()].fill(b'e');
            len
        })
    }
}

#[test]
fn bytes_that_are_elsewhere_come_from_there_and_all_others_from_the_file() {
    let size = 9 * MIB + 17;
    let pair = Pair::in_memory(&vec![b'f'; size]);
    let elsewhere = Arc::new(Elsewhere::default());
    let job = Transfer { elsewhere: Some(Arc::clone(&elsewhere) as Arc<dyn ByteSource>), ..pair.transfer() };
    let report = mover().move_data(&job, &DataOptions::default(), Recorder::default().control());
    assert_eq!((report.stopped, report.moved.total()), (None, size as u64));
    assert_eq!(names(&report.tried), [EngineName::ReadWrite]);
    let expected = |at: u64| if at / AT_HAND % 2 == 1 && at % AT_HAND < AT_HAND / 3 * 2 { b'e' } else { b'f' };
    assert!(pair.copied().iter().zip(0..).all(|(byte, at)| *byte == expected(at)));
    let largest = elsewhere.0.lock().iter().map(|(_, len)| *len).max();
    assert_eq!(largest, Some(strategy::FROM_ELSEWHERE), "a question for each MiB");
}
