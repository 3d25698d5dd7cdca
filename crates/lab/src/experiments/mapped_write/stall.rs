//! How long a store takes while files grow and what they hold is being written back.
//!
//! Many files grow side by side, in steps. At the start of every segment a file is extended by its last byte and the segment
//! is mapped; each step is filled, and exactly that is timed; then a few bytes are read from an earlier segment. Between two
//! rounds over all files there is a pause that chance gives.
//!
//! The published run wrote more than the machine had memory, so that the kernel wrote back all the time. This one is
//! shorter: a second thread begins the write-back of each file again and again, by sync_file_range(2), which waits for
//! nothing and leaves the journal alone. It is what the kernel's own flusher does when there is too much to be written.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use haul_sys::page_cache::write_back;
use haul_sys::rustix::fs::OFlags;
use haul_sys::rustix::param::page_size;
use haul_sys::rustix::thread::gettid;
use haul_sys::rustix::time::{ClockId, clock_gettime};
use haul_sys::shared_map::SharedMap;
use serde::{Deserialize, Serialize};

use super::latency::Times;
use super::scene::{self, Failed, Scene, cannot};
use super::waits::{Spent, judge};
use super::watch::{Pending, Places, Watch, ready_time, sees_stacks};
use crate::results::Latency;

/// Bytes that are read back.
const READ: usize = 32;
/// Kept of the longest.
const WORST: usize = 5;
/// Kept of the places at which it stood still.
const MOST_PLACES: usize = 20;
/// No more stores over the threshold than this are kept one by one, for each reason.
const KEPT: usize = 10_000;
/// Maps at most, below the kernel's usual limit of 65,530 for a process.
const MAPS: u64 = 60_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Files that grow side by side; fewer if not each can have a segment.
    pub files: u32,
    /// Bytes of a step: what is filled at once.
    pub step: u64,
    /// Bytes of a segment: what is mapped at once. A multiple of the step.
    pub segment: u64,
    /// Bytes of all files together at the end.
    pub space: u64,
    /// Pauses between rounds are shorter than this, and short enough for half of the time at most.
    pub pause: Duration,
    /// Longer fills are counted and looked at.
    pub threshold: Duration,
    /// The second thread rests so long after it has been through all files. `None`: there is none, and only the kernel
    /// decides when it writes.
    pub push: Option<Duration>,
    /// No step is begun after this.
    pub time: Duration,
}

impl Default for Settings {
    /// The published ones, but for the sum of the sizes (2 GiB for 16 GiB) and the time: 25 s.
    fn default() -> Settings {
        Settings {
            files: 50,
            step: 512 << 10,
            segment: 4 << 20,
            space: 2 << 30,
            pause: Duration::from_secs(2),
            threshold: Duration::from_millis(1),
            push: Some(Duration::from_millis(20)),
            time: Duration::from_secs(25),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub files: u32,
    pub step: u64,
    pub bytes: u64,
    pub fills: Latency,
    /// Each write of the last byte of a segment.
    pub extensions: Latency,
    /// The longest fills in seconds, falling.
    pub worst: Vec<f64>,
    /// Seconds of the fills over the threshold, by what they waited for ([`super::waits::Wait::name`]).
    pub waits: BTreeMap<String, Vec<f64>>,
    /// Where the filling thread was seen to stand still: what for ([`super::waits::Wait::name`]), the innermost functions of
    /// the kernel, and how often; the most frequent first.
    pub places: Vec<(String, String, u64)>,
    pub pending: Pending,
    pub counters: Counters,
    pub stacks: bool,
    /// How long all of it took, in seconds.
    pub seconds: f64,
}

/// What the machine counts, by name: `minor faults` (that needed no reading) and `major faults` of the calling thread, bytes
/// that anybody made `dirty` or that were `written` back, seconds in which `some` or all (`full`) waited for storage (PSI), and
/// seconds that other virtual machines have `stolen` from all processors. What the kernel does not count is missing.
pub type Counters = BTreeMap<String, f64>;

/// A file and what is mapped of it.
struct Growing {
    file: File,
    path: std::path::PathBuf,
    segments: Vec<SharedMap>,
}

struct Gathered {
    fills: Times,
    extensions: Times,
    worst: Vec<f64>,
    waits: BTreeMap<String, Vec<f64>>,
    bytes: u64,
}

pub fn run(settings: &Settings, place: &Path, scene: &Scene) -> Result<Measured, Failed> {
    let settings = fitting(settings)?;
    let mut files = Vec::new();
    for number in 0..settings.files {
        let path = scene::file(place, &format!("stall.{number}"));
        files.push(Growing { file: scene::open(&path, OFlags::empty())?, path, segments: Vec::new() });
    }
    let pushed = files.iter().map(|growing| growing.file.try_clone()).collect::<Result<Vec<_>, _>>();
    let pushed = pushed.map_err(cannot("open again what is below", place))?;
    let watch = Watch::new(settings.threshold);
    let over = AtomicBool::new(false);
    let (begin, before) = (Instant::now(), counters());
    let thread = gettid().as_raw_nonzero().get();
    let (grown, pending) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| watch.look(thread));
        if let Some(rest) = settings.push {
            let (pushed, over) = (&pushed, &over);
            scope.spawn(move || push(pushed, rest, over));
        }
        let grown = grow(&settings, &mut files, place, scene, &watch);
        watch.close();
        over.store(true, Ordering::Relaxed);
        // It only panics if this program is wrong; then there is nothing to report of it.
        (grown, looks.join().unwrap_or_default())
    });
    let Gathered { fills, extensions, worst, waits, bytes } = grown?;
    Ok(Measured {
        files: settings.files,
        step: settings.step,
        bytes,
        fills: fills.summary(),
        extensions: extensions.summary(),
        worst,
        waits,
        places: places(watch.places()),
        pending,
        counters: since(counters(), &before),
        stacks: sees_stacks(),
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// The most frequent first.
fn places(seen: Places) -> Vec<(String, String, u64)> {
    let mut places: Vec<_> =
        seen.into_iter().map(|((wait, place), times)| (wait.name().to_owned(), place, times)).collect();
    places.sort_by_key(|(.., times)| std::cmp::Reverse(*times));
    places.truncate(MOST_PLACES);
    places
}

/// The settings as they can be carried out: whole pages, whole steps, room for a segment of each file.
fn fitting(settings: &Settings) -> Result<Settings, Failed> {
    let page = page_size() as u64;
    let step = settings.step.next_multiple_of(page).max(page);
    let segment = settings.segment.next_multiple_of(step).max(step);
    let space = settings.space.min(segment.saturating_mul(MAPS));
    let files = u32::try_from((space / segment).min(u64::from(settings.files))).unwrap_or(u32::MAX);
    if files == 0 {
        let least = haul_measure::words::bytes(segment);
        return Err(Failed::Why(format!("too little space for files that grow by segments of {least}")));
    }
    Ok(Settings { files, step, segment, space, ..settings.clone() })
}

/// Begins the write-back of all files again and again.
fn push(files: &[File], rest: Duration, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for file in files {
            // An error of the data meets the stores as well, or it does not matter; where it cannot be asked for, the
            // kernel's own pace is all there is.
            write_back(file.as_fd(), 0, 0, false).unwrap_or_default();
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
        std::thread::sleep(rest);
    }
}

fn grow(
    settings: &Settings,
    files: &mut [Growing],
    place: &Path,
    scene: &Scene,
    watch: &Watch,
) -> Result<Gathered, Failed> {
    let threshold = settings.threshold;
    let (fills, extensions) = (Times::new(threshold), Times::new(threshold));
    let mut gathered = Gathered { fills, extensions, worst: Vec::new(), waits: BTreeMap::new(), bytes: 0 };
    let mut chance = Rng::with_seed(settings.space);
    let (begin, count) = (Instant::now(), files.len() as u64);
    let rounds = (settings.space / count / settings.segment * settings.segment / settings.step).max(1);
    let pause = settings.pause.min(settings.time / u32::try_from(rounds).unwrap_or(u32::MAX));
    for round in 0..rounds {
        let at = round * settings.step;
        if at.is_multiple_of(settings.segment) {
            scene.room_for(place, count * settings.segment)?;
        }
        for growing in &mut *files {
            scene.go_on()?;
            let spent = begin.elapsed();
            if spent >= settings.time {
                return Ok(gathered);
            }
            scene.report((spent.as_secs_f64() / settings.time.as_secs_f64()).max(round as f64 / rounds as f64));
            growing.step(at, settings, &mut gathered, watch)?;
            growing.read_back(&mut chance, settings.segment)?;
        }
        let most = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        scene.rest(Duration::from_micros(chance.u64(..most.max(1))))?;
    }
    Ok(gathered)
}

impl Growing {
    fn step(&mut self, at: u64, settings: &Settings, to: &mut Gathered, watch: &Watch) -> Result<(), Failed> {
        let inside = at % settings.segment;
        if inside == 0 {
            let begin = Instant::now();
            let extended = self.file.write_all_at(&[0], at + settings.segment - 1);
            to.extensions.add(begin.elapsed());
            extended.map_err(cannot("extend", &self.path))?;
            // A segment fits into memory.
            let mapped = SharedMap::new(self.file.as_fd(), at, settings.segment as usize);
            self.segments.push(mapped.map_err(cannot("map", &self.path))?);
        }
        let Some(map) = self.segments.last_mut() else { return Ok(()) };
        let (running, ready) = (running_time(), ready_time());
        let store = watch.begin();
        let begin = Instant::now();
        // Any byte but zero: it must differ from what a hole reads as.
        let filled = map.fill(inside as usize, settings.step as usize, 0xa5);
        let took = begin.elapsed();
        watch.end();
        filled.map_err(cannot("fill", &self.path))?;
        to.fills.add(took);
        to.bytes += settings.step;
        to.remember(took.as_secs_f64());
        if took > settings.threshold {
            let ready = ready_time().zip(ready).map_or(0, |(after, before)| after.saturating_sub(before));
            let running = running_time().saturating_sub(running).as_secs_f64();
            let spent = Spent { whole: took.as_secs_f64(), running, ready: ready as f64 / 1e9 };
            let wait = judge(spent, &watch.seen(store));
            let waits = to.waits.entry(wait.name().to_owned()).or_default();
            if waits.len() < KEPT {
                waits.push(spent.whole);
            }
        }
        Ok(())
    }

    /// From a segment before the last one, if there is one.
    fn read_back(&self, chance: &mut Rng, segment: u64) -> Result<(), Failed> {
        let earlier = self.segments.len().saturating_sub(1) as u64;
        if earlier > 0 {
            // Below the number of segments.
            let map = &self.segments[chance.u64(..earlier) as usize];
            let at = chance.u64(..=segment - READ as u64) as usize;
            let mut bytes = [0; READ];
            map.get(at, &mut bytes).map_err(cannot("read", &self.path))?;
            std::hint::black_box(&bytes);
        }
        Ok(())
    }
}

impl Gathered {
    /// Keeps it if it is one of the longest.
    fn remember(&mut self, seconds: f64) {
        let at = self.worst.partition_point(|worse| *worse >= seconds);
        if at < WORST {
            self.worst.insert(at, seconds);
            self.worst.truncate(WORST);
        }
    }
}

/// Time of the calling thread on a processor.
fn running_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Never negative.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// All of them since the machine or the thread was started.
fn counters() -> Counters {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let own = text("/proc/thread-self/stat");
    // The name in the second field may have spaces; the state behind it is the third of proc(5).
    let own: Vec<&str> = own.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
    let own = |field: usize| own.get(field - 3)?.parse::<f64>().ok();
    let (vmstat, pressure, cpu) = (text("/proc/vmstat"), text("/proc/pressure/io"), text("/proc/stat"));
    let bytes = |name: &str| named(&vmstat, name).map(|pages| (pages * page_size() as u64) as f64);
    let stolen = cpu.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
    let found = [
        ("minor faults", own(10)),
        ("major faults", own(12)),
        ("dirty", bytes("nr_dirtied")),
        ("written", bytes("nr_written")),
        ("some", waited(&pressure, "some")),
        ("full", waited(&pressure, "full")),
        // In hundredths of a second, on every architecture that Rust has.
        ("stolen", stolen.map(|ticks| ticks / 100.0)),
    ];
    found.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?))).collect()
}

/// What was counted after an earlier look.
fn since(mut now: Counters, before: &Counters) -> Counters {
    for (name, count) in &mut now {
        *count = (*count - before.get(name).copied().unwrap_or(0.0)).max(0.0);
    }
    now
}

/// A line of `/proc/vmstat`.
fn named(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

/// Seconds of a line of `/proc/pressure/io`.
fn waited(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let microseconds: f64 = line.rsplit_once("total=")?.1.trim().parse().ok()?;
    Some(microseconds / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_made_to_fit() {
        let asked = Settings { files: 50, step: 1000, segment: 10_000, space: 30_000, ..Settings::default() };
        let page = page_size() as u64;
        let fitted = fitting(&asked).ok();
        let segment = 10_000_u64.next_multiple_of(page);
        let expected = Settings { files: (30_000 / segment) as u32, step: page, segment, ..asked.clone() };
        assert_eq!(fitted, (30_000 >= segment).then_some(expected));
        assert!(fitting(&Settings { space: page - 1, ..asked }).is_err());
        let published = fitting(&Settings { space: 16 << 30, ..Settings::default() }).unwrap();
        assert_eq!((published.files, published.step, published.segment), (50, 512 << 10, 4 << 20));
    }

    #[test]
    fn the_longest_are_kept_in_their_order() {
        let times = || Times::new(Duration::ZERO);
        let waits = BTreeMap::new();
        let mut to = Gathered { fills: times(), extensions: times(), worst: Vec::new(), waits, bytes: 0 };
        [3.0, 1.0, 7.0, 2.0, 9.0, 4.0, 9.0].into_iter().for_each(|seconds| to.remember(seconds));
        assert_eq!(to.worst, [9.0, 9.0, 7.0, 4.0, 3.0]);
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let vmstat = "nr_dirty 5\nnr_dirtied 70\nnr_dirtied_x 3\n";
        assert_eq!((named(vmstat, "nr_dirtied"), named(vmstat, "nr_written")), (Some(70), None));
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=2500\n";
        assert_eq!((waited(pressure, "some"), waited(pressure, "full")), (Some(1.5), Some(0.0025)));
        let (before, now) = (counters(), counters());
        assert!(now["dirty"] >= before["dirty"] && now.keys().eq(before.keys()));
        assert_eq!(since(Counters::from([("a".to_owned(), 7.0)]), &Counters::from([("a".to_owned(), 3.0)]))["a"], 4.0);
    }
}
