//! A smart copy from its first look at the source to the closed destination.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_guest::report::Map;
use haul_guest::{ExtentSet, ReadAt};
use haul_sys::Errno;
use haul_sys::kernel::Kernel;
use md5::{Digest, Md5};

use crate::engine::buffer::AlignedBuffer;
use crate::engine::switch::grain;
use crate::engine::transfer::again;
use crate::engine::{FailedOn, Side};
use crate::error::{Error, What};
use crate::facts::Inode;
use crate::pace::Pace;
use crate::ranges::{Extent, Extents};

use super::dest::{Demands, Dest, Unfinished};
use super::found::{Found, Given};
use super::in_use::{InUse, System, in_use};
use super::pieces::{Kind, Piece, Pieces, extents_of};
use super::pipeline::{self, Rules, Stop, Work};
use super::sink::Sink;
use super::source::{Direct, RawImage, Source};
use super::stats::{Counters, Stats};
use super::{Event, GRANULE, LARGEST_BUFFER, Mapper, Mode, Observer, Options, Smart};

/// What is to be copied, and how.
pub struct Task<'a> {
    /// The image.
    pub source: &'a Source,
    /// Where it goes: a new file, an existing one, or a block device.
    pub dest: &'a Path,
    /// What the user wants.
    pub options: Options,
    /// Finds the free bytes.
    pub mapper: &'a Mapper<'a>,
    /// The kernel, which tests replace.
    pub kernel: Arc<dyn Kernel>,
    /// Where the kernel tells who uses an image.
    pub system: System,
    /// Whether the copy is to stop. Asked by several threads, often.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The destination while it is not whole.
    pub unfinished: Unfinished,
    /// The destination and the map, if they are there already. Nobody is asked then who uses the image.
    pub given: Option<Given<'a>>,
    /// How fast it may go.
    pub pace: Option<&'a Pace>,
    /// Hears everything.
    pub observer: &'a dyn Observer,
}

/// How a copy went.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The numbers.
    pub stats: Stats,
    /// The MD5 of what the destination holds (`None` also where a copy that writes nothing would have to read it).
    pub md5: Option<[u8; 16]>,
    /// What the guests use, if it was looked for.
    pub map: Option<Map>,
    /// Who uses the image, so that it was copied whole.
    pub in_use: Option<InUse>,
    /// The map did not hold until the end, and what it called free was copied.
    pub map_changed: bool,
    /// Somebody wrote to the source meanwhile.
    pub source_written: bool,
}

/// How a copy failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong; nothing if the copy was asked to stop.
    pub error: Option<Error>,
    /// The destination, if it is now neither the old nor the new one. One that the copy made is removed.
    pub damaged: Option<PathBuf>,
}

/// Copies an image.
///
/// # Errors
/// Whatever went wrong; a new destination is removed then, an existing one named.
pub fn copy(task: &Task<'_>) -> Result<Report, Failure> {
    let buffer_size = task.options.buffer_size.clamp(1, LARGEST_BUFFER);
    let mut copy = Copy { task, buffer_size, align: grain(), counters: Counters::new(task.source.total()) };
    copy.run().map_err(|error| Failure { error, damaged: task.unfinished.remove() })
}

struct Copy<'a> {
    task: &'a Task<'a>,
    buffer_size: usize,
    /// What buffers, and with direct I/O requests, are multiples of.
    align: usize,
    counters: Counters,
}

/// An error, or nothing if the copy is to stop.
type Ended = Option<Error>;

type Extension<'a> = Box<dyn Iterator<Item = Result<Extent, Errno>> + Send + 'a>;

impl<'a> Copy<'a> {
    fn run(&mut self) -> Result<Report, Ended> {
        let Task { source, options, .. } = *self.task;
        let dest = self.counters.open.time(|| self.open_dest())?;
        let user = match options.smart {
            Smart::Auto if self.task.given.is_none() => {
                in_use(&source.path, source.file(), &source.inode, &self.task.system)
            }
            _ => None,
        };
        let direct = self.direct(dest.as_ref());
        let raw = RawImage::new(Arc::clone(&self.task.kernel), source.file(), source.size).with_direct(direct.0);
        let image: &dyn ReadAt = source.disk.as_ref().map_or(&raw, |disk| &*disk.image);
        let own = match &self.task.given {
            Some(_) => None,
            None => self.map(image, user.as_ref())?.map(Found::of_disk),
        };
        let found = self.task.given.as_ref().map(|given| given.found).or(own.as_ref());
        let nothing = ExtentSet::new();
        let free = found.map_or(&nothing, Found::free);
        if (self.task.stop)() {
            return Err(None);
        }
        if let Some(dest) = &dest {
            self.counters.open.time(|| dest.prepare(&*self.task.kernel, source.total()))?;
        }
        self.task.observer.event(&Event::Started(&self.counters.stats()));
        let mut sink = dest.as_ref().map(|dest| self.sink(dest, direct.1));
        let read_from = (options.mode != Mode::WriteOnly).then_some(image);
        let mut md5 = self.first_pass(read_from, free, sink.as_mut())?;
        let mut map_changed = false;
        if let (Some(found), Some(image)) = (found, read_from)
            && !self.counters.map.time(|| self.beside(|| self.still_holds(found, image)))??
        {
            map_changed = true;
            self.task.observer.event(&Event::MapChanged(self.counters.stats().free));
            self.second_pass(image, free, sink.as_mut())?;
            md5 = match &dest {
                Some(dest) if options.md5 => Some(self.beside(|| self.md5_of(dest))??),
                _ => None,
            };
        }
        let source_written = self.look_again()?;
        drop(sink);
        if let Some(dest) = dest {
            self.counters.close.time(|| self.beside(|| dest.finish(&*self.task.kernel, source.total())))??;
        }
        let md5 = md5.map(|md5| md5.finalize().into());
        let map = own.map(|found| found.map);
        Ok(Report { stats: self.counters.stats(), md5, map, in_use: user, map_changed, source_written })
    }

    fn open_dest(&self) -> Result<Option<Dest>, Error> {
        let Task { source, dest, options, .. } = *self.task;
        if options.mode == Mode::ReadOnly {
            return Ok(None);
        }
        let around = (&*self.task.kernel, &self.task.system);
        if let Some(given) = &self.task.given {
            return Dest::given(given, dest, source, around).map(Some);
        }
        let demands = Demands { readable: options.md5, new: options.mode == Mode::WriteOnly };
        Dest::open(around, dest, source, demands, &self.task.unfinished).map(Some)
    }

    /// The ways past the page cache on both sides, if they are wanted and there.
    fn direct(&mut self, dest: Option<&Dest>) -> (Option<Direct>, Option<Direct>) {
        let Task { source, options, .. } = *self.task;
        if !options.direct {
            return (None, None);
        }
        let dest = dest.map(|dest| (dest.file.as_fd(), &dest.inode, &*dest.path));
        let sides = [source.disk.is_none().then(|| (source.file(), &source.inode, &*source.path)), dest];
        let [from, to] = sides.map(|side| {
            let (file, inode, path) = side?;
            let needs = grain().max(inode.direct.0 as usize).max(inode.direct.1 as usize);
            match self.task.kernel.reopen_direct(file) {
                Ok(fd) => Some(Direct { fd, align: needs }),
                Err(_) => {
                    self.task.observer.event(&Event::NotDirect(path));
                    None
                }
            }
        });
        let align = [&from, &to].into_iter().flatten().map(|direct| direct.align).max().unwrap_or(1);
        self.align = self.align.max(align);
        self.buffer_size = self.buffer_size.next_multiple_of(align);
        (from, to)
    }

    fn map(&self, image: &dyn ReadAt, user: Option<&InUse>) -> Result<Option<Map>, Ended> {
        if self.task.options.smart == Smart::Off {
            return Ok(None);
        }
        if let Some(user) = user {
            self.task.observer.event(&Event::InUse(user));
            return Ok(None);
        }
        let mapper = self.task.mapper;
        let map = self.counters.map.time(|| self.beside(|| mapper(image)))?;
        self.task.observer.event(&Event::Mapped(&map));
        Ok(Some(map))
    }

    /// Does something while reports go on.
    fn beside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Ended> {
        pipeline::beside(&self.counters, self.task.observer, work).map_err(|stop| self.ended(stop))
    }

    fn sink(&self, dest: &Dest, direct: Option<Direct>) -> Sink {
        Sink {
            kernel: Arc::clone(&self.task.kernel),
            side: Side::new(Arc::clone(&dest.file), true),
            direct,
            holds_old: dest.is_device(),
        }
    }

    fn rules(&self) -> Rules {
        let options = self.task.options;
        Rules {
            sparse: options.sparse,
            zero_scan: options.zero_scan && options.mode != Mode::WriteOnly,
            buffer_size: self.buffer_size,
            align: self.align,
            granule: u32::try_from(self.granule()).unwrap_or(u32::MAX),
            again: false,
        }
    }

    /// Direct I/O may need more than pages.
    fn granule(&self) -> u64 {
        GRANULE.max(if self.task.options.direct { self.align as u64 } else { 0 })
    }

    fn first_pass(
        &self,
        image: Option<&dyn ReadAt>,
        free: &ExtentSet,
        sink: Option<&mut Sink>,
    ) -> Result<Option<Md5>, Ended> {
        let Task { source, options, .. } = *self.task;
        let extents: Extension<'_> = match &source.disk {
            _ if options.smart == Smart::Off => Box::new(std::iter::empty()),
            Some(disk) => Box::new(extents_of(&disk.zeros)),
            None => Box::new(Extents::new(&*self.task.kernel, source.file(), 0, source.size)),
        };
        let mut pieces = Pieces::new(extents, free.iter(), source.total(), self.granule());
        self.pass(image, &mut pieces, sink, self.rules(), options.md5.then(Md5::new))
    }

    /// Copies what was skipped as free.
    fn second_pass(&self, image: &dyn ReadAt, free: &ExtentSet, sink: Option<&mut Sink>) -> Result<(), Ended> {
        let Task { source, .. } = *self.task;
        let stats = self.counters.stats();
        let whole = Pieces::new(std::iter::empty(), free.iter(), source.total(), self.granule());
        // With nothing but data and free ranges this asks no kernel, so nothing fails.
        let skipped = whole.flatten().filter(|piece| piece.kind == Kind::Free);
        let kernel = &*self.task.kernel;
        let mut pieces = skipped.flat_map(move |piece| -> Box<dyn Iterator<Item = Result<Piece, Errno>> + Send + '_> {
            match &source.disk {
                Some(disk) => {
                    let data = ExtentSet::of(piece.offset..piece.offset + piece.len).without(&disk.zeros);
                    let data: Vec<_> = data.iter().map(|run| Ok(data_piece(run.start, run.len))).collect();
                    Box::new(data.into_iter())
                }
                None => {
                    let extents = Extents::new(kernel, source.file(), piece.offset, piece.offset + piece.len);
                    Box::new(extents.filter_map(|extent| match extent {
                        Ok(Extent::Data { offset, len }) => Some(Ok(data_piece(offset, len))),
                        Ok(Extent::Hole { .. }) => None,
                        Err(errno) => Some(Err(errno)),
                    }))
                }
            }
        });
        // Where zeros had to be written, they are counted as copied already.
        let sparse = self.task.options.sparse && stats.write_skipped >= stats.read_skipped;
        let rules = Rules { again: true, sparse, ..self.rules() };
        self.pass(Some(image), &mut pieces, sink, rules, None).map(drop)
    }

    fn pass(
        &self,
        source: Option<&dyn ReadAt>,
        pieces: &mut (dyn Iterator<Item = Result<Piece, Errno>> + Send),
        sink: Option<&mut Sink>,
        rules: Rules,
        md5: Option<Md5>,
    ) -> Result<Option<Md5>, Ended> {
        let counters = &self.counters;
        let (stop, observer) = (self.task.stop, self.task.observer);
        let pace = self.task.pace;
        let work = Work { source, pieces, sink, rules, md5, counters, stop, pace, observer };
        counters.copy.time(|| pipeline::run(work)).map_err(|stop| self.ended(stop))
    }

    /// What a stop means to the user.
    fn ended(&self, stop: Stop) -> Ended {
        let Task { source, dest, .. } = self.task;
        let on_source = |what| Error::new(what, &source.path);
        Some(match stop {
            Stop::Cancelled => return None,
            Stop::Ended => on_source(What::SourceResized),
            Stop::Reading(errno) => on_source(What::Reading).errno(errno),
            Stop::Threads(errno) => on_source(What::CannotStartThreads).errno(errno),
            Stop::Failed(failure) => {
                let what = if failure.on == FailedOn::Hole { What::MakingHole } else { What::Writing };
                Error::new(what, dest).errno(failure.errno)
            }
        })
    }

    /// Whether everything that the map was read from is as it was.
    fn still_holds(&self, found: &Found, image: &dyn ReadAt) -> Result<bool, Ended> {
        found.still_holds(image).map_err(|error| self.ended(stop_of(&error)))
    }

    /// Looks at the source for the last time. A map is for one size; whether somebody wrote to it is worth knowing.
    fn look_again(&self) -> Result<bool, Ended> {
        let Task { source, observer, .. } = *self.task;
        let said = |errno| Error::new(What::CannotFstat, &source.path).errno(errno);
        if self.task.kernel.size(source.file()).map_err(said)? != source.size {
            return Err(Some(Error::new(What::SourceResized, &source.path)));
        }
        if let Some(disk) = &source.disk
            && !(disk.holds)().map_err(|error| self.ended(stop_of(&error)))?
        {
            return Err(Some(Error::new(What::SourceChanged, &source.path)));
        }
        // Files of /proc say that they are empty, and some filesystems know the size of a moment ago.
        let beyond = again(|| self.task.kernel.pread(source.file(), &mut [0], source.size));
        if beyond.map_err(|errno| self.ended(Stop::Reading(errno)))? > 0 {
            return Err(Some(Error::new(What::SourceResized, &source.path)));
        }
        let now = Inode::of(source.file()).map_err(said)?;
        let written = now.modified != source.inode.modified;
        if written {
            observer.event(&Event::SourceWritten);
        }
        Ok(written)
    }

    /// The MD5 of what the destination holds by now.
    fn md5_of(&self, dest: &Dest) -> Result<Md5, Ended> {
        let total = self.counters.total;
        // One byte is missing until the end.
        let held = if dest.is_device() { total } else { self.size_of(dest)?.min(total) };
        let image = RawImage::new(Arc::clone(&self.task.kernel), dest.file.as_fd(), held);
        let mut buffer = AlignedBuffer::new(self.buffer_size, self.align);
        let mut md5 = Md5::new();
        let mut at = 0;
        while at < held {
            if (self.task.stop)() {
                return Err(None);
            }
            let len = usize::try_from(held - at).map_or(self.buffer_size, |left| left.min(self.buffer_size));
            let bytes = &mut buffer.bytes()[..len];
            let read = image.read_exact_at(at, bytes);
            read.map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Error::new(What::Reading, &dest.path).errno(errno)
            })?;
            self.counters.md5.time(|| md5.update(&*bytes));
            at += len as u64;
        }
        if held < total {
            md5.update([0]);
        }
        Ok(md5)
    }

    fn size_of(&self, dest: &Dest) -> Result<u64, Error> {
        let size = self.task.kernel.size(dest.file.as_fd());
        size.map_err(|errno| Error::new(What::CannotFstat, &dest.path).errno(errno))
    }
}

fn data_piece(offset: u64, len: u64) -> Piece {
    Piece { kind: Kind::Data, offset, len }
}

fn stop_of(error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Stop::Ended,
        _ => Stop::Reading(Errno::from_io_error(error).unwrap_or(Errno::IO)),
    }
}
