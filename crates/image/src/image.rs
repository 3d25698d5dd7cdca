//! A smart copy from its first look at the source to the closed destination.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_guest::report::Map;
use haul_guest::{ExtentSet, ReadAt};
use haul_io::engine::buffer::AlignedBuffer;
use haul_io::engine::calls::again;
use haul_io::engine::{FailedOn, Side};
use haul_io::ranges::{Extent, Extents};
use haul_sys::Errno;
use md5::{Digest, Md5};

use haul_fs::error::{Error, What, errno_of};

use super::changes::{Doubt, Look};
use super::dest::Dest;
use super::found::Found;
use super::in_use::InUse;
use super::io_mode::IoMode;
use super::options::{GRANULE, LARGEST_BUFFER, Mode, Smart};
use super::pieces::{Kind, Piece, PieceSource, Pieces, extents_of};
use super::pipeline;
use super::sink::Sink;
use super::source::RawImage;
use super::stats::{Counters, Stats};
use super::steps::{Reading, Rules, SECTOR, Stop};
use super::task::{Event, Task};
use super::threads;
use super::workers;

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
    /// Why the map was not relied on in the end, and what it called free was copied.
    pub doubt: Option<Doubt>,
    /// Somebody wrote to the source meanwhile.
    pub source_written: bool,
    /// The copy was large and went to the device, as far as it could.
    pub to_device: bool,
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
    let buffer_size = if task.options.smart == Smart::Off { buffer_size } else { buffer_size.next_multiple_of(SECTOR) };
    let io_mode = IoMode::new(&task.options, buffer_size);
    let mut copy = Copy { task, io_mode, counters: Counters::new(task.source.total()) };
    copy.run().map_err(|error| Failure { error, damaged: task.unfinished.remove() })
}

struct Copy<'a> {
    task: &'a Task<'a>,
    io_mode: IoMode,
    counters: Counters,
}

/// An error, or nothing if the copy is to stop.
type Ended = Option<Error>;

type Extension<'a> = Box<dyn Iterator<Item = Result<Extent, Errno>> + Send + 'a>;

impl<'a> Copy<'a> {
    // Longer than other functions: each step needs what those before it have found.
    fn run(&mut self) -> Result<Report, Ended> {
        let Task { source, options, .. } = *self.task;
        self.task.observer.event(&Event::Begun(&self.counters.stats()));
        let first = match &self.task.given {
            Some(given) => given.first,
            None => Look::of(&source.inode, &self.task.system),
        };
        let dest = self.counters.open.time(|| self.open_dest())?;
        let user = match options.smart {
            Smart::Auto if self.task.found.is_none() => source.in_use(&self.task.system),
            _ => None,
        };
        let raw = RawImage::of(&self.task.kernel, source);
        let image: &dyn ReadAt = source.disk.as_ref().map_or(&raw, |disk| &*disk.image);
        let own = match self.task.found {
            Some(_) => None,
            None => self.map(image, user.as_ref())?.map(Found::of_disk),
        };
        let found = self.task.found.or(own.as_ref());
        let nothing = ExtentSet::new();
        let free = found.map_or(&nothing, Found::free);
        if (self.task.stop)() {
            return Err(None);
        }
        if let Some(dest) = &dest {
            self.counters.open.time(|| dest.prepare(&*self.task.kernel, source.total()))?;
        }
        self.io_mode = self.io_mode.clone().for_task(self.task, dest.as_ref(), free);
        if self.io_mode.large {
            self.task.observer.event(&Event::ToDevice);
        }
        self.task.observer.event(&Event::Started(&self.counters.stats()));
        let mut sink = dest.as_ref().map(|dest| self.sink(dest));
        let raw = raw.with_direct(self.io_mode.source.clone());
        let image: &dyn ReadAt = source.disk.as_ref().map_or(&raw, |disk| &*disk.image);
        let read_from = (options.mode != Mode::WriteOnly).then_some(image);
        let mut md5 = self.first_pass(read_from, free, sink.as_mut())?;
        let mut doubt = None;
        if let Some(found) = found {
            // Whoever copies the other files of a container wants to know, too.
            found.asleep.fetch_or(self.counters.asleep.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if let (Some(found), Some(image)) = (found, read_from)
            && self.counters.stats().free > 0
        {
            doubt = self.counters.map.time(|| self.beside(|| self.doubt(found, image, &first)))??;
        }
        if let (Some(doubt), Some(image)) = (&doubt, read_from) {
            self.task.observer.event(&Event::Doubted(doubt, self.counters.stats().free));
            self.second_pass(image, free, sink.as_mut())?;
            md5 = match &dest {
                Some(dest) if options.md5 => Some(self.beside(|| self.md5_of(dest))??),
                _ => None,
            };
        }
        let source_written = self.look_again(&first)?;
        drop(sink);
        drop(raw);
        self.io_mode.close();
        if let Some(dest) = dest {
            self.counters.close.time(|| self.beside(|| dest.finish(&*self.task.kernel, source.total())))??;
        }
        let md5 = md5.map(|md5| md5.finalize().into());
        let map = own.map(|found| found.map);
        Ok(Report {
            stats: self.counters.stats(),
            md5,
            map,
            in_use: user,
            doubt,
            source_written,
            to_device: self.io_mode.large,
        })
    }

    fn open_dest(&self) -> Result<Option<Dest>, Error> {
        let Task { source, dest, options, .. } = *self.task;
        if options.mode == Mode::ReadOnly {
            return Ok(None);
        }
        if let Some(given) = &self.task.given {
            return Dest::given(given, dest, source, &*self.task.kernel).map(Some);
        }
        let around = (&*self.task.kernel, &self.task.system);
        Dest::open(around, dest, source, options, &self.task.unfinished).map(Some)
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
        threads::beside(&self.counters, self.task.observer, work).map_err(|stop| self.ended(stop))
    }

    fn sink(&self, dest: &Dest) -> Sink {
        Sink {
            kernel: Arc::clone(&self.task.kernel),
            side: Side::new(Arc::clone(&dest.file), true),
            direct: self.io_mode.dest.clone(),
            holds_old: dest.is_device(),
            unwritten: self.task.given.as_ref().and_then(|given| given.unwritten.clone()),
        }
    }

    fn rules(&self) -> Rules {
        let options = self.task.options;
        Rules {
            sparse: options.sparse,
            zero_scan: options.zero_scan && options.mode != Mode::WriteOnly,
            buffer_size: self.io_mode.buffer_size,
            align: self.io_mode.align,
            granule: u32::try_from(self.granule()).unwrap_or(u32::MAX),
            // A pass that writes test data reads nothing.
            wary: options.smart != Smart::Off && options.mode != Mode::WriteOnly,
            again: false,
        }
    }

    /// Direct I/O may need more than pages.
    fn granule(&self) -> u64 {
        GRANULE.max(if self.task.options.direct { self.io_mode.align as u64 } else { 0 })
    }

    fn first_pass(
        &self,
        image: Option<&dyn ReadAt>,
        free: &ExtentSet,
        sink: Option<&mut Sink>,
    ) -> Result<Option<Md5>, Ended> {
        let Task { source, options, .. } = *self.task;
        let zeros = source.disk.as_ref().map(|disk| disk.zeros.union(&disk.holes)).unwrap_or_default();
        let extents: Extension<'_> = match &source.disk {
            _ if options.smart == Smart::Off => Box::new(std::iter::empty()),
            Some(_) => Box::new(extents_of(&zeros)),
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
        let rules = Rules { again: true, wary: false, sparse, ..self.rules() };
        self.pass(Some(image), &mut pieces, sink, rules, None).map(drop)
    }

    fn pass(
        &self,
        source: Option<&dyn ReadAt>,
        pieces: &mut PieceSource<'_>,
        sink: Option<&mut Sink>,
        rules: Rules,
        md5: Option<Md5>,
    ) -> Result<Option<Md5>, Ended> {
        let Task { stop, observer, pace, .. } = *self.task;
        let counters = &self.counters;
        let cut = !rules.sparse || md5.is_some() || sink.as_ref().is_some_and(|sink| sink.holds_old);
        let writes_zeros = !rules.sparse && sink.is_some();
        let reading = Reading { source, rules, counters, stop, pace, cut, writes_zeros };
        let file = self.task.source.disk.is_none().then(|| (&*self.task.kernel, self.task.source.file()));
        let pass = || match sink {
            Some(sink) if !self.io_mode.queued => {
                workers::run(reading, pieces, sink, &self.io_mode, file, observer).map(|()| None)
            }
            sink => pipeline::run(reading, pieces, sink, md5, observer),
        };
        counters.copy.time(pass).map_err(|stop| self.ended(stop))
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

    /// Why the map is not to be relied on, if it is not. Whoever wrote before the last of these questions is found by one of
    /// them.
    fn doubt(&self, found: &Found, image: &dyn ReadAt, first: &Look) -> Result<Option<Doubt>, Ended> {
        let Task { source, options, ref system, .. } = *self.task;
        if found.asleep.load(Ordering::Relaxed) {
            return Ok(Some(Doubt::Asleep));
        }
        if !found.still_holds(image).map_err(|error| self.ended(Stop::of_reading(&error)))? {
            return Ok(Some(Doubt::Map));
        }
        if self.look(first)? {
            return Ok(Some(Doubt::Written));
        }
        let user = match options.smart {
            Smart::Auto => source.in_use(system),
            _ => None,
        };
        Ok(user.map(Doubt::InUse))
    }

    /// Whether somebody wrote to the source since the first look.
    fn look(&self, first: &Look) -> Result<bool, Error> {
        let Task { source, ref system, .. } = *self.task;
        let now = Look::at(source.file(), system);
        let written = now.map(|now| now != *first);
        let written = written.map_err(|errno| Error::new(What::CannotFstat, &source.path).errno(errno))?;
        Ok(written || source.others.iter().try_fold(false, |any, file| Ok(any || file.is_written(system)?))?)
    }

    /// Looks at the source for the last time. A map is for one size; whether somebody wrote to it is worth knowing.
    fn look_again(&self, first: &Look) -> Result<bool, Ended> {
        let Task { source, observer, .. } = *self.task;
        for file in source.files() {
            let said = |errno| Error::new(What::CannotFstat, &file.path).errno(errno);
            if self.task.kernel.size(file.file()).map_err(said)? != file.size {
                return Err(Some(Error::new(What::SourceResized, &file.path)));
            }
        }
        if let Some(disk) = &source.disk
            && !(disk.holds)().map_err(|error| self.ended(Stop::of_reading(&error)))?
        {
            return Err(Some(Error::new(What::SourceChanged, &source.path)));
        }
        // Files of /proc say that they are empty, and some filesystems know the size of a moment ago.
        let beyond = again(|| self.task.kernel.pread(source.file(), &mut [0], source.size));
        if beyond.map_err(|errno| self.ended(Stop::Reading(errno)))? > 0 {
            return Err(Some(Error::new(What::SourceResized, &source.path)));
        }
        let written = self.look(first)?;
        if written && self.task.options.fail_if_written {
            return Err(Some(Error::new(What::SourceWritten, &source.path)));
        }
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
        let image = RawImage::new(&self.task.kernel, &dest.file, held);
        let mut buffer = AlignedBuffer::new(self.io_mode.buffer_size, self.io_mode.align);
        let mut md5 = Md5::new();
        let mut at = 0;
        while at < held {
            if (self.task.stop)() {
                return Err(None);
            }
            let len =
                usize::try_from(held - at).map_or(self.io_mode.buffer_size, |left| left.min(self.io_mode.buffer_size));
            let bytes = &mut buffer.bytes()[..len];
            let read = image.read_exact_at(at, bytes);
            read.map_err(|error| Error::new(What::Reading, &dest.path).errno(errno_of(error)))?;
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
