//! A copy as the run does it, small enough to be obviously right.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_io::engine::EngineName;
use haul_io::engine::{
    DirectAlign, End, Engine, Job, Moved, Needs, Outcome, Refusal, Role, Shares, Side, Tuning, Zeros, hole, make,
    make_on,
};
use haul_io::ranges::{Extent, Extents};
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{AtFlags, StatxFlags, statx};

use crate::places::Place;

/// Those that move bytes: all but the one that only says so. With `HAUL_ENGINES=NAME,...` those of them that are named.
pub fn moving() -> impl Iterator<Item = EngineName> {
    let named = std::env::var("HAUL_ENGINES").ok().map(|names| {
        let named = |name| EngineName::named(name).unwrap_or_else(|| panic!("HAUL_ENGINES: {name} is no engine"));
        names.split(',').map(named).collect::<Vec<_>>()
    });
    EngineName::ALL
        .into_iter()
        .filter(move |name| name.caps().role != Role::Dummy && named.as_ref().is_none_or(|named| named.contains(name)))
}

/// Those that can move the bytes of a file of some size within this place.
pub fn suiting(place: &Place) -> impl Iterator<Item = EngineName> {
    moving().filter(move |name| suits(*name, place, place))
}

/// Those of them that move parts of a file: who shares extents shares whole blocks of empty files, or nothing.
pub fn suiting_parts(place: &Place) -> impl Iterator<Item = EngineName> {
    suiting(place).filter(|name| name.caps().shares != Shares::Always)
}

pub fn engine(name: EngineName) -> Box<dyn Engine> {
    make(name, &Tuning::default())
}

pub fn engine_on(kernel: impl Kernel + 'static, name: EngineName) -> Box<dyn Engine> {
    make_on(Arc::new(kernel), name, &Tuning::default())
}

pub fn side(file: File) -> Side {
    let stat = statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).unwrap();
    let direct = (stat.stx_dio_offset_align > 0)
        .then_some(DirectAlign { memory: stat.stx_dio_mem_align, offset: stat.stx_dio_offset_align });
    Side { direct, ..Side::new(Arc::new(OwnedFd::from(file)), true) }
}

pub fn stream(fd: impl Into<OwnedFd>) -> Side {
    Side::new(Arc::new(fd.into()), false)
}

pub fn source(path: impl AsRef<Path>) -> Side {
    side(File::open(path).unwrap())
}

pub fn dest(path: impl AsRef<Path>) -> Side {
    side(OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap())
}

pub fn job(source: &Side, dest: &Side, offset: u64, len: u64) -> Job {
    Job { source: source.clone(), dest: dest.clone(), offset, len, zeros: Zeros::Write }
}

/// Does one job.
pub fn run(engine: &mut dyn Engine, job: Job) -> Outcome {
    let len = job.len;
    let outcome = engine.run(&job);
    assert!(outcome.moved.total() <= len, "{outcome:?} of {len}");
    if outcome.end == End::Complete {
        assert_eq!(outcome.moved.total(), len, "complete means all");
    }
    if outcome.end == End::SourceEnd {
        assert!(outcome.moved.total() < len, "all was moved, so the end was not looked for");
    }
    outcome
}

/// What a copy of a whole file came to.
#[derive(Debug, Default)]
pub struct Done {
    pub moved: Moved,
    /// The first refusal; the reference went on from there.
    pub refused: Option<(u64, Refusal)>,
}

/// Copies up to the real end in jobs of `len` bytes, falling through to the reference engine where one is refused.
pub fn copy_in_jobs(engine: &mut dyn Engine, source: &Side, dest: &Side, len: u64, zeros: Zeros) -> Done {
    let mut reference = self::engine(EngineName::Reference);
    let mut done = Done::default();
    loop {
        let at = done.moved.total();
        let job = Job { zeros, ..job(source, dest, at, len) };
        let outcome = match done.refused {
            None => run(engine, job),
            Some(_) => run(&mut *reference, job),
        };
        done.moved += outcome.moved;
        match outcome.end {
            End::Complete => {}
            End::SourceEnd => break,
            End::Refused(refusal) => {
                assert!(done.refused.is_none(), "the reference refuses nothing: {refusal:?}");
                done.refused = Some((done.moved.total(), refusal));
            }
            End::Failed(failure) => panic!("at {}: {failure:?}", done.moved.total()),
        }
    }
    if dest.seekable {
        haul_sys::rustix::fs::ftruncate(&dest.fd, done.moved.total()).unwrap();
    }
    done
}

/// Copies a whole file in jobs as large as the engine likes them, up to 4 MiB more than a gigabyte.
pub fn copy(engine: &mut dyn Engine, from: &Path, to: &Path) -> Done {
    let len = engine.caps().max_job.min((1 << 30) + (4 << 20));
    copy_in_jobs(engine, &source(from), &dest(to), len, Zeros::Write)
}

/// Copies a file extent by extent, holes left out.
pub fn copy_extents(engine: &mut dyn Engine, from: &Path, to: &Path) {
    let (source, dest) = (source(from), dest(to));
    let size = Linux.size(source.as_fd()).unwrap();
    for extent in Extents::new(&Linux, source.as_fd(), 0, size) {
        match extent.unwrap() {
            Extent::Hole { offset, len } => {
                let mut moved = Moved::default();
                hole::make(&Linux, &dest, offset, len, Zeros::Skip(4096), &mut moved).unwrap();
                assert_eq!(moved, Moved { holes: len, ..Moved::default() });
            }
            Extent::Data { offset, len } => {
                let outcome = run(engine, job(&source, &dest, offset, len));
                let done = outcome.moved.total();
                match outcome.end {
                    End::Complete | End::SourceEnd => {}
                    End::Refused(_) => {
                        let rest = job(&source, &dest, offset + done, len - done);
                        let outcome = run(&mut *self::engine(EngineName::Reference), rest);
                        assert_eq!(outcome.moved.total(), len - done);
                    }
                    End::Failed(failure) => panic!("at {}: {failure:?}", offset + done),
                }
            }
        }
    }
    haul_sys::rustix::fs::ftruncate(&dest.fd, size).unwrap();
}

/// Whether the engine can move the bytes of a file of some size from one place to another, by what it needs of them.
pub fn suits(name: EngineName, from: &Place, to: &Place) -> bool {
    match name.caps().needs {
        Needs::Nothing => true,
        Needs::OneFilesystem => from.device == to.device,
        Needs::SharedExtents => from.device == to.device && from.reflinks,
        Needs::Direct => from.direct || to.direct,
        Needs::DirectDest => to.direct,
        Needs::Dontcache => from.dontcache || to.dontcache,
    }
}
