//! Disk images in a run (`Plan::smart`): which files are copied without what their guests do not use. Everything around
//! the data, from the destination's name to its times, is that of any other file.

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_guest::report::{Map, Verdict};
use haul_image::{
    Contents, Doubt, Format, Found, Given, InUse, Kept, Look, Observer, Options, RawImage, Smart, Source, System, Task,
};
use haul_io::moved::Moved;
use haul_io::strategy::{HoleSearch, WORTH_ASKING};
use haul_sys::inode::Kind;
use haul_sys::kernel::{Kernel, Linux};
use parking_lot::{Mutex, MutexGuard};

use crate::context::{RunContext, SearchedDisk, Worker};
use crate::error::{Error, What};
use crate::events::{DataReport, Event};
use crate::images::{ImageReport, RegionReport};
use crate::plan::{CacheUse, IfChanged, Plan, SmartCopy, Sparse};
use crate::report::{Reporter, Session};
use crate::work::file_data::{Broken, FileData};

/// Smaller files are not looked at with [`SmartCopy::Auto`]: no filesystem worth it is that small.
const SMALLEST: u64 = 1 << 20;

/// Reads as `whole` of a report.
const NOTHING_FREE: &str = "nothing of it is provably free";

/// Words for `--explain`.
const NOT_READ: &str = "what the guests of an image do not use is not read";

const TO_DEVICE: &str = "large for the free memory: long runs go to the device and not into the page cache";

const AS_TOLD: &str = "--cache=drop: long runs go to the device and not into the page cache";

/// A file that was looked at.
pub(crate) struct Looked<'a> {
    pub(crate) report: ImageReport,
    /// What it can do without.
    pub(crate) found: Option<Found>,
    source: Source,
    /// The source before that.
    first: Look,
    /// One image at a time: each takes a pool of buffers and a map. Given back when it is copied.
    _turn: Option<MutexGuard<'a, Option<SearchedDisk>>>,
}

/// What a file turned out to be.
struct Seen {
    /// The format of the container that it is.
    container: Option<&'static str>,
    /// What can be left out; or else what is known, and why nothing can.
    free: Result<Found, (Map, String)>,
}

/// Tells the run's observer how far an image is.
struct ImageProgress<'a> {
    session: &'a Session<'a>,
    counted: Mutex<Moved>,
}

impl ImageProgress<'_> {
    fn count(&self, stats: &haul_image::Stats) {
        let now = moved(stats);
        let mut before = self.counted.lock();
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

impl Observer for ImageProgress<'_> {
    fn event(&self, event: &haul_image::Event<'_>) {
        if let haul_image::Event::Second(stats) = event {
            self.count(stats);
        }
    }
}

/// Looks whether a file is an image of which something is free, before anything happens to the destination. Nothing if
/// nobody wants to know.
pub(crate) fn look_for_free<'a>(
    cx: RunContext<'a>,
    job: &FileData<'_>,
    created: bool,
) -> Result<Option<Box<Looked<'a>>>, Error> {
    let plan = cx.plan;
    let required = plan.smart == SmartCopy::Require;
    let kinds = [job.transfer.source_inode.kind, job.transfer.dest_inode.kind];
    if plan.smart == SmartCopy::Off {
        return Ok(None);
    }
    let refused = |why: &str| Error::new(What::NotSmart, job.source_path).detail(why);
    if kinds.iter().any(|kind| !matches!(kind, Kind::Regular | Kind::BlockDevice)) {
        return if required { Err(refused("it is no disk image")) } else { Ok(None) };
    }
    let system = system(plan);
    // A new file is nobody's disk.
    let may_overwrite = || match created {
        true => Ok(()),
        false => haul_image::may_overwrite(
            (job.transfer.dest.as_fd(), job.transfer.dest_inode, job.dest_path),
            (job.transfer.source_inode, job.source_path),
            &system,
        ),
    };
    if kinds.contains(&Kind::BlockDevice) {
        may_overwrite()?;
    }
    let said = |errno| Error::new(What::CannotFstat, job.source_path).errno(errno);
    let size = Linux.size(job.transfer.source.as_fd()).map_err(said)?;
    if size < SMALLEST && !required {
        return Ok(None);
    }
    let mut turn = cx.services.images.lock();
    let first = Look::of(job.transfer.source_inode, &system);
    let source = Source::given(Arc::clone(&job.transfer.source), *job.transfer.source_inode, job.source_path, size);
    let seen = look(cx, &source, job.source_dir, &mut turn);
    match &seen.free {
        Err((_, why)) if required && why != NOTHING_FREE => return Err(refused(why)),
        // A file like any other: nobody wants to hear of it.
        Err((map, _)) if is_ordinary(map) => return Ok(None),
        _ => {}
    }
    if job.transfer.dest_inode.kind == Kind::Regular && job.transfer.source_inode.kind == Kind::Regular {
        may_overwrite()?;
    }
    let report = report_of(job, &seen);
    let found = seen.free.ok();
    let turn = found.is_some().then_some(turn);
    Ok(Some(Box::new(Looked { report, found, source, first, _turn: turn })))
}

/// Copies the data of an image without what is free in it, tells the observer, and counts.
pub(crate) fn move_image(worker: &mut Worker<'_>, job: &FileData<'_>, looked: &mut Looked<'_>) -> Result<(), Broken> {
    let cx = worker.cx;
    let Some(found) = &looked.found else { return Ok(()) };
    let started = Instant::now();
    let session = cx.session;
    let source = &looked.source;
    session.tell_of_data(|| Event::DataStarted { source: job.source_path.into(), size: source.file_size() });
    let progress = ImageProgress { session, counted: Mutex::default() };
    let probe = &cx.services.transfers.probe;
    probe.begin();
    let data = &job.transfer;
    let sides = ((data.source.as_fd(), data.source_inode), (data.dest.as_fd(), data.dest_inode));
    let around = (source.total() >= WORTH_ASKING).then(|| probe.look(sides.0, sides.1));
    let used = source.total().saturating_sub(found.free().bytes());
    let dest = (&data.dest, data.dest_inode);
    let unwritten = cx.services.transfers.scattered(dest, used, &cx.plan.data, &session.cancel);
    let task = Task {
        source,
        dest: job.dest_path,
        options: options(cx.plan),
        mapper: &|_| Map::default(),
        kernel: Arc::new(Linux),
        system: system(cx.plan),
        stop: &|| session.cancel.is_cancelled(),
        unfinished: haul_image::Unfinished::default(),
        given: Some(Given {
            dest: Arc::clone(&data.dest),
            dest_inode: data.dest_inode,
            first: looked.first,
            around,
            unwritten: unwritten.clone(),
        }),
        found: Some(found),
        pace: Some(&session.pace),
        observer: &progress,
    };
    let done = haul_image::copy(&task);
    if let (Err(_), Some(unwritten)) = (&done, unwritten) {
        unwritten.abandon();
    }
    let written = done.as_ref().map_or(0, |done| done.stats.copied);
    probe.end(written, if done.as_ref().is_ok_and(|done| done.to_device) { 0 } else { written });
    let done = done.map_err(|failure| Broken { error: failure.error })?;
    progress.count(&done.stats);
    let changed = done.source_written || done.doubt.is_some();
    if changed && matches!(cx.plan.if_changed, IfChanged::Fail | IfChanged::Retry) {
        // Neither was what had been free at the first look free at the second, nor is all the rest of one moment.
        return Err(Broken::by(Error::new(What::ChangedWhileCopied, job.source_path)));
    }
    conclude(&mut worker.report, job, &mut looked.report, &done);
    session.tell_of_data(|| {
        Event::DataDone(DataReport {
            source: job.source_path.into(),
            dest: job.dest_path.into(),
            reasons: Cow::Borrowed(match cx.plan.data.cache {
                _ if !done.to_device => &[NOT_READ],
                CacheUse::Drop => &[NOT_READ, AS_TOLD],
                _ => &[NOT_READ, TO_DEVICE],
            }),
            profile: None,
            tried: Cow::Borrowed(&[]),
            holes: if cx.plan.data.sparse == Sparse::Always { HoleSearch::SeekAndZeros } else { HoleSearch::Seek },
            moved: moved(&done.stats),
            workers: usize::try_from(done.stats.workers).unwrap_or(usize::MAX),
            time: started.elapsed(),
            image: Some(Arc::new(looked.report.clone())),
        })
    });
    Ok(())
}

/// Writes down what became of an image, warns of what the user should know, and counts.
fn conclude(report: &mut Reporter<'_>, job: &FileData<'_>, image: &mut ImageReport, done: &haul_image::Report) {
    image.source_written = done.source_written;
    image.copied_after_all = done.doubt.as_ref().map(ToString::to_string);
    image.skipped = done.stats.free;
    image.workers = done.stats.workers;
    let times = &done.stats.times;
    (image.worker_time, image.read_time, image.write_time) = (times.workers, times.read, times.write);
    if done.doubt.is_some() {
        image.regions.iter_mut().for_each(|region| region.skipped = 0);
    }
    if let Some(doubt) = &image.copied_after_all {
        report.warning(&Error::new(What::Doubted, job.source_path).detail(doubt.clone()));
    } else if done.source_written {
        report.warning(&Error::new(What::SourceWritten, job.source_path));
    }
    report.stats.moved += moved(&done.stats);
}

/// Looks at a file as a disk, or at the disk that it holds as a container, or a part of one.
fn look(cx: RunContext<'_>, source: &Source, dir: Option<BorrowedFd<'_>>, searched: &mut Option<SearchedDisk>) -> Seen {
    let plan = cx.plan;
    let kernel: Arc<dyn Kernel> = Arc::new(Linux);
    let (options, system) = (haul_guest::fs::Options::default(), system(plan));
    let judged = |map: Map, user: &dyn Fn() -> Option<InUse>| {
        // Nobody has to be asked about a file that is no image. Who used it while the map was read has changed the image
        // since the first look, if anything.
        let user = if plan.snapshot || is_ordinary(&map) { None } else { user() };
        match why_whole(&map, user.as_ref(), plan.smart == SmartCopy::Require) {
            Some(why) => Err((map, why)),
            None => Ok(map),
        }
    };
    let (kept, file) = match part_of(&kernel, source, dir) {
        Some(whole) => whole,
        None => match haul_image::contents(&kernel, source, Format::Auto) {
            Contents::Container(container) => (container.keep(source), 0),
            Contents::Bytes(why) => {
                let map = Map { size: source.file_size(), ..Map::default() };
                return Seen { container: None, free: Err((map, why)) };
            }
            Contents::Raw => {
                let map = haul_guest::map::map(&RawImage::of(&kernel, source), &options);
                return Seen { container: None, free: judged(map, &|| source.in_use(&system)).map(Found::of_disk) };
            }
        },
    };
    let map = judged(haul_guest::map::map(kept.disk(), &options), &|| kept.in_use(&system));
    // Of a single file what was free can still be copied when something is found in the rest.
    let map = map.and_then(|map| if file > 0 { check_awake(cx, &kept, map, searched) } else { Ok(map) });
    let found = map.and_then(|map| kept.found(map).map_err(|(map, why)| (map, why.to_owned())));
    let free = found.and_then(|mut found| {
        found.turn_to(file);
        // Free it may be, but nowhere in the file.
        if found.free().is_empty() { Err((found.map, NOTHING_FREE.to_owned())) } else { Ok(found) }
    });
    Seen { container: Some(kept.disk().format()), free }
}

/// Looks whether a system hibernates in a disk in several files, of which some may be copied before the one that shows it.
fn check_awake(
    cx: RunContext<'_>,
    kept: &Kept,
    map: Map,
    searched: &mut Option<SearchedDisk>,
) -> Result<Map, (Map, String)> {
    let files = kept.state(&system(cx.plan));
    let found = match searched {
        Some(before) if before.files == files => before.found,
        _ => match kept.holds_a_sleeper(&map.free, &|| cx.cancelled()) {
            Ok(found) => {
                *searched = Some(SearchedDisk { files, found });
                found
            }
            Err(error) => return Err((map, format!("not all of its disk can be read: {error}"))),
        },
    };
    if found { Err((map, Doubt::Asleep.to_string())) } else { Ok(map) }
}

/// The disk in several files of which this is one, and which.
fn part_of(kernel: &Arc<dyn Kernel>, source: &Source, dir: Option<BorrowedFd<'_>>) -> Option<(Kept, usize)> {
    let dir = dir.filter(|_| haul_image::is_one_of_several(source.path()))?;
    haul_image::whole_of(kernel, &source.bare().found_in(dir).ok()?)
}

/// Whether a file is one like any other, without anything of a disk in it.
fn is_ordinary(map: &Map) -> bool {
    let is_nothing = |verdict: &Verdict| matches!(verdict, Verdict::Unknown | Verdict::Framework);
    !map.regions.is_empty() && map.regions.iter().all(|region| is_nothing(&region.verdict))
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

fn report_of(job: &FileData<'_>, seen: &Seen) -> ImageReport {
    let (map, left_out, whole) = match &seen.free {
        Ok(found) => (&found.map, Some(found.free_of_disk()), None),
        Err((map, why)) => (map, None, Some(why.clone())),
    };
    let skipped = |region: &haul_guest::Region| match (left_out, seen.container) {
        (None, _) => 0,
        (Some(_), None) => region.free,
        // What of it the container does not store need not be skipped.
        (Some(bytes), Some(_)) => {
            let parts = region.extents.iter().flat_map(|extent| bytes.between(extent.start..extent.end()));
            parts.map(|part| part.len).sum()
        }
    };
    let region = |region: &haul_guest::Region| RegionReport {
        place: region.place.clone(),
        filesystem: region.kind,
        verdict: region.verdict.word(),
        reason: region.verdict.reason(),
        used: region.used(),
        free: region.free,
        skipped: skipped(region),
    };
    let free = map.free.bytes();
    ImageReport {
        source: job.source_path.to_owned(),
        whole,
        container: seen.container,
        size: map.size,
        used: map.size.saturating_sub(free),
        free,
        skipped: 0,
        copied_after_all: None,
        source_written: false,
        workers: 0,
        worker_time: Duration::ZERO,
        read_time: Duration::ZERO,
        write_time: Duration::ZERO,
        regions: map.regions.iter().map(region).collect(),
    }
}

fn system(plan: &Plan) -> System {
    System::default().with_saved(plan.saved_machines.iter().cloned())
}

fn options(plan: &Plan) -> Options {
    Options {
        sparse: plan.data.sparse != Sparse::Never,
        smart: if plan.snapshot { Smart::Snapshot } else { Smart::Auto },
        md5: false,
        buffer_size: plan.data.buffer_size.unwrap_or(haul_image::BUFFER).min(haul_image::LARGEST_BUFFER),
        direct: false,
        cache: plan.data.cache,
        zero_scan: plan.data.sparse == Sparse::Always,
        queued: false,
        mode: haul_image::Mode::Copy,
        // `move_image` does what the user wants then.
        fail_if_written: false,
    }
}

fn moved(stats: &haul_image::Stats) -> Moved {
    Moved { written: stats.copied, holes: stats.write_skipped, ..Moved::default() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::file::regular::make_file;
    use crate::plan::SpecialFiles;

    /// What every copy of a swap area must have, in bytes; nothing else is in use.
    const KEPT: usize = 64 << 10;

    /// A swap area whose unused pages are full of letters, with this signature.
    fn swap(size: usize, signature: &[u8]) -> Vec<u8> {
        let pages = u32::try_from(size / 4096).unwrap();
        let mut bytes = vec![b'x'; size];
        // The version, the last page, and how many are bad.
        for (at, number) in [(1024, 1), (1028, pages - 1), (1032, 0)] {
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
        }
        bytes[4086..4086 + signature.len()].copy_from_slice(signature);
        bytes
    }

    const AWAKE: &[u8] = b"SWAPSPACE2";
    const ASLEEP: &[u8] = b"S1SUSPEND\0";
    const SIZE: usize = 2 << 20;

    /// Copies this to `b`, as of an image that nobody uses.
    fn copy(smart: SmartCopy, contents: &[u8]) -> (Bench, Ran<bool>) {
        let bench = Bench::new(Plan { smart, snapshot: true, ..Plan::default() }).source("a", contents);
        let ran = make_b(&bench);
        (bench, ran)
    }

    fn make_b(bench: &Bench) -> Ran<bool> {
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        bench.run(|worker| make_file(worker, &mut subject, &state).is_ok())
    }

    /// Whether `b` is a copy of the whole file, which it is, or of what is in use.
    #[track_caller]
    fn is_whole(bench: &Bench, contents: &[u8]) -> bool {
        let made = fs::read(bench.dest_path("b")).unwrap();
        assert!(made.len() == contents.len() && made[..KEPT] == contents[..KEPT]);
        let (rest, is_zero) = (&made[KEPT..], |byte: &u8| *byte == 0);
        assert!(rest == &contents[KEPT..] || rest.iter().all(is_zero), "some of it");
        !rest.iter().all(is_zero)
    }

    fn not_smart(why: &str) -> String {
        format!(r#"error: will not copy "a" without knowing its free space: {why}"#)
    }

    #[test]
    fn what_guests_do_not_use_is_left_out() {
        for smart in [SmartCopy::Auto, SmartCopy::Require] {
            let (contents, free) = (swap(SIZE, AWAKE), SIZE - KEPT);
            let (bench, ran) = copy(smart, &contents);
            ran.says(&[]);
            assert!(ran.value && !is_whole(&bench, &contents));
            assert_eq!(ran.stats.moved.written as usize, SIZE - free);
        }
    }

    #[test]
    fn an_image_is_copied_whole_unless_asked() {
        let contents = swap(SIZE, AWAKE);
        let (bench, ran) = copy(SmartCopy::Off, &contents);
        ran.says(&[]);
        assert!(ran.value && is_whole(&bench, &contents));
    }

    #[test]
    fn small_files_are_looked_at_only_if_required() {
        let contents = swap(SMALLEST as usize / 2, AWAKE);
        for (smart, whole) in [(SmartCopy::Auto, true), (SmartCopy::Require, false)] {
            let (bench, ran) = copy(smart, &contents);
            ran.says(&[]);
            assert_eq!(is_whole(&bench, &contents), whole);
        }
    }

    #[test]
    fn an_image_in_which_nothing_is_free_is_copied_whole() {
        let contents = swap(SIZE, ASLEEP);
        let (bench, ran) = copy(SmartCopy::Auto, &contents);
        ran.says(&[]);
        assert!(ran.value && is_whole(&bench, &contents));
    }

    #[test]
    fn a_file_that_is_no_image_is_copied_whole() {
        let contents = vec![b'x'; SIZE];
        let (bench, ran) = copy(SmartCopy::Auto, &contents);
        ran.says(&[]);
        assert!(ran.value && is_whole(&bench, &contents));
    }

    #[test]
    fn what_must_be_an_image_and_is_none_is_refused() {
        for contents in [swap(SIZE, ASLEEP), vec![b'x'; SIZE]] {
            let (bench, ran) = copy(SmartCopy::Require, &contents);
            assert!(!ran.value && ran.heard.len() == 1 && ran.moves == 0);
            assert!(ran.heard[0].starts_with(&not_smart("")), "{:?}", ran.heard);
            assert!(bench.tree().is_empty());
        }
    }

    #[test]
    fn a_refusal_leaves_the_old_contents() {
        let plan = Plan { smart: SmartCopy::Require, snapshot: true, ..Plan::default() };
        let bench = Bench::new(plan).source("a", vec![b'x'; SIZE]).dest("b", "old");
        let ran = make_b(&bench);
        assert!(!ran.value && ran.heard[0].starts_with(&not_smart("")), "{:?}", ran.heard);
        assert_eq!((bench.tree(), ran.damaged), (vec!["b: old".into()], vec![]));
    }

    #[test]
    fn a_node_is_no_image() {
        let plan = Plan { smart: SmartCopy::Require, snapshot: true, recursive: true, ..Plan::default() };
        let bench = Bench::new(Plan { special_files: SpecialFiles::Contents, ..plan });
        let dir = fs::File::open("/dev").unwrap();
        let null = crate::walk::Spot::new(dir.as_fd(), "null".as_ref(), "a".as_ref());
        let (mut subject, state) = (bench.subject_of(null, "b"), bench.state("b"));
        let ran = bench.run(|worker| make_file(worker, &mut subject, &state).is_ok());
        ran.says(&[&not_smart("it is no disk image")]);
        assert!(!ran.value && bench.tree().is_empty());
    }

    #[test]
    fn nothing_is_left_of_an_image_whose_copy_is_cancelled() {
        let plan = Plan { smart: SmartCopy::Auto, snapshot: true, ..Plan::default() };
        let mut bench = Bench::new(plan).source("a", swap(SIZE, AWAKE));
        let cancel = bench.cancel.clone();
        bench.before_data = Some(Box::new(move |_| cancel.cancel()));
        let ran = make_b(&bench);
        assert!(!ran.value && ran.failed && ran.heard.is_empty(), "{:?}", ran.heard);
        assert!(bench.tree().is_empty());
    }
}
