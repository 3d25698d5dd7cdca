//! Disk images in a run (`Plan::smart`): which files are copied without what their guests do not use. Everything around
//! the data, from the destination's name to its times, is that of any other file.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use haul_guest::ReadAt;
use haul_guest::container;
use haul_guest::report::{Map, Verdict};
use haul_sys::kernel::{Kernel, Linux};

use super::data::{Broken, DataJob};
use super::{Run, Session};
use crate::error::{Error, What};
use crate::events::{DataReport, Event, HoleSearch};
use crate::facts::Kind;
use crate::images::{ImageReport, RegionReport};
use crate::moved::Moved;
use crate::plan::{CacheUse, Plan, SmartCopy, Sparse};
use crate::smart::{self, Found, Given, InUse, Observer, Options, OwnedImage, Smart, Source, System, Task};

/// Smaller files are not looked at with [`SmartCopy::Auto`]: no filesystem worth it is that small.
const SMALLEST: u64 = 1 << 20;

/// Reads as `whole` of a report.
const NOTHING_FREE: &str = "nothing of it is provably free";

/// A file that was looked at.
pub(super) struct Looked<'a> {
    pub(super) report: ImageReport,
    /// What it can do without.
    pub(super) found: Option<Found>,
    /// One image at a time: each takes a pool of buffers and a map. Given back when it is copied.
    _turn: MutexGuard<'a, ()>,
}

impl Run<'_> {
    /// Looks whether a file is an image of which something is free, before anything happens to the destination. Nothing if
    /// nobody wants to know.
    pub(super) fn look_for_free<'a>(
        &mut self,
        job: &DataJob<'_>,
        turns: &'a Mutex<()>,
    ) -> Result<Option<Looked<'a>>, Error> {
        let plan = self.plan;
        let required = plan.smart == SmartCopy::Require;
        let kinds = [job.source_inode.kind, job.dest_inode.kind];
        if plan.smart == SmartCopy::Off {
            return Ok(None);
        }
        let refused = |why: &str| Error::new(What::NotSmart, job.source_path).detail(why);
        if kinds.iter().any(|kind| !matches!(kind, Kind::Regular | Kind::BlockDevice)) {
            return if required { Err(refused("it is no disk image")) } else { Ok(None) };
        }
        let said = |errno| Error::new(What::CannotFstat, job.source_path).errno(errno);
        let size = Linux.size(job.source.as_fd()).map_err(said)?;
        if size < SMALLEST && !required {
            return Ok(None);
        }
        // A panic while it was held has left nothing behind.
        let turn = turns.lock().unwrap_or_else(PoisonError::into_inner);
        let user = match plan.snapshot {
            true => None,
            false => smart::in_use(job.source_path, job.source.as_fd(), job.source_inode, &System::default()),
        };
        let image = Arc::new(OwnedImage::new(Arc::new(Linux), Arc::clone(&job.source), size));
        // Its tables would go unseen, and what they place where: the offsets of a disk mean nothing here.
        let (map, whole) = match container_of(&image) {
            Some(why) => (Map { size, ..Map::default() }, Some(why)),
            None => {
                let map = haul_guest::map::map(&*image, &haul_guest::fs::Options::default());
                let whole = why_whole(&map, user.as_ref(), required);
                (map, whole)
            }
        };
        match whole {
            Some(why) if required && why != NOTHING_FREE => return Err(refused(&why)),
            // A file like any other: nobody wants to hear of it.
            Some(_) if !map.regions.is_empty() && map.regions.iter().all(|region| is_nothing(&region.verdict)) => {
                return Ok(None);
            }
            _ => {}
        }
        let report = report_of(job, &map, whole);
        let found = report.whole.is_none().then(|| Found::of_disk(map));
        Ok(Some(Looked { report, found, _turn: turn }))
    }

    /// Copies the data of an image without what is free in it, tells the observer, and counts.
    pub(super) fn move_image(&mut self, job: &DataJob<'_>, looked: &mut Looked<'_>) -> Result<(), Broken> {
        let Some(found) = &looked.found else { return Ok(()) };
        let started = Instant::now();
        let session = self.session;
        session.observer.event(&Event::DataStarted { source: job.source_path, size: found.map.size });
        let source = Source::given(Arc::clone(&job.source), *job.source_inode, job.source_path, found.map.size);
        let told = Told { session, counted: Mutex::default() };
        let task = Task {
            source: &source,
            dest: job.dest_path,
            options: options(self.plan),
            mapper: &|_| Map::default(),
            kernel: Arc::new(Linux),
            system: System::default(),
            stop: &|| session.cancel.is_cancelled(),
            unfinished: smart::Unfinished::default(),
            given: Some(Given { dest: Arc::clone(&job.dest), dest_inode: job.dest_inode, found }),
            pace: Some(&session.pace),
            observer: &told,
        };
        let done = smart::copy(&task).map_err(|failure| Broken { error: failure.error })?;
        told.count(&done.stats);
        let report = &mut looked.report;
        (report.map_changed, report.source_written) = (done.map_changed, done.source_written);
        report.skipped = done.stats.free;
        for region in &mut report.regions {
            region.skipped = if done.map_changed { 0 } else { region.free };
        }
        if done.map_changed {
            self.warning(&Error::new(What::MapChanged, job.source_path));
        } else if done.source_written {
            self.warning(&Error::new(What::SourceWritten, job.source_path));
        }
        let moved = moved(&done.stats);
        self.stats.moved += moved;
        session.observer.event(&Event::DataDone(&DataReport {
            source: job.source_path,
            dest: job.dest_path,
            reasons: &["what the guests of an image do not use is not read"],
            tried: &[],
            holes: if self.plan.sparse == Sparse::Always { HoleSearch::SeekAndZeros } else { HoleSearch::Seek },
            moved,
            workers: 1,
            time: started.elapsed(),
            image: Some(&looked.report),
        }));
        Ok(())
    }
}

/// What container a file looks like, if any.
fn container_of(image: &Arc<OwnedImage>) -> Option<String> {
    match container::open(Arc::clone(image) as Arc<dyn ReadAt>, OsStr::new(""), &container::Alone) {
        Ok(opened) if opened.disk.format() == "raw" => None,
        Ok(opened) => Some(format!("it is a container of the format {}", opened.disk.format())),
        Err(refusal) => Some(format!("it looks like a container: {refusal}")),
    }
}

fn is_nothing(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Unknown | Verdict::Framework)
}

/// Why an image is copied whole, if it is.
fn why_whole(map: &Map, user: Option<&InUse>, required: bool) -> Option<String> {
    if let Some(user) = user {
        return Some(format!("it is in use: {user}"));
    }
    let refused = map.regions.iter().find(|region| matches!(region.verdict, Verdict::Refused(_)));
    if let (true, Some(region)) = (required, refused) {
        return Some(format!("{}: {}", region.place, region.verdict.reason().unwrap_or_default()));
    }
    if !map.regions.iter().any(|region| matches!(region.verdict, Verdict::Mapped { .. })) {
        return Some("no part of it could be mapped".to_owned());
    }
    map.free.is_empty().then(|| NOTHING_FREE.to_owned())
}

fn report_of(job: &DataJob<'_>, map: &Map, whole: Option<String>) -> ImageReport {
    let region = |region: &haul_guest::Region| RegionReport {
        place: region.place.clone(),
        filesystem: region.kind,
        verdict: region.verdict.word(),
        reason: region.verdict.reason(),
        used: region.used(),
        free: region.free,
        skipped: 0,
    };
    let free = map.free.bytes();
    ImageReport {
        source: job.source_path.to_owned(),
        whole,
        size: map.size,
        used: map.size.saturating_sub(free),
        free,
        skipped: 0,
        map_changed: false,
        source_written: false,
        regions: map.regions.iter().map(region).collect(),
    }
}

fn options(plan: &Plan) -> Options {
    Options {
        sparse: plan.sparse != Sparse::Never,
        smart: Smart::Snapshot,
        md5: false,
        buffer_size: plan.buffer_size.unwrap_or(smart::BUFFER).min(smart::LARGEST_BUFFER),
        direct: plan.cache == CacheUse::Drop,
        zero_scan: plan.sparse == Sparse::Always,
        mode: smart::Mode::Copy,
    }
}

fn moved(stats: &smart::Stats) -> Moved {
    Moved { written: stats.copied, holes: stats.write_skipped, ..Moved::default() }
}

/// Tells the run's observer how far an image is.
struct Told<'a> {
    session: &'a Session<'a>,
    counted: Mutex<Moved>,
}

impl Told<'_> {
    fn count(&self, stats: &smart::Stats) {
        let now = moved(stats);
        let mut before = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let more = Moved {
            written: now.written.saturating_sub(before.written),
            holes: now.holes.saturating_sub(before.holes),
            ..Moved::default()
        };
        *before = now;
        if more.total() > 0 {
            self.session.observer.event(&Event::Progress(more));
        }
    }
}

impl Observer for Told<'_> {
    fn event(&self, event: &smart::Event<'_>) {
        if let smart::Event::Second(stats) = event {
            self.count(stats);
        }
    }
}
