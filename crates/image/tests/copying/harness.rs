//! Running a smart copy and listening to it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_guest::image::Session;
use haul_guest::report::Map;
use haul_guest::{Budget, ExtentSet, ReadAt};
use haul_image::{
    Contained, Contents, Event, Failure, Format, Found, KeepTask, Mode, Observer, Options, Report, Smart, Source,
    Stats, System, Task, Unfinished, contents, copy,
};
use haul_io::pace::Pace;
use haul_sys::kernel::{Kernel, Linux};
use haul_testbed::guest::Noise;

/// What happens to the image and the copy at an event.
pub type Attack<'a> = Box<dyn Fn(&Event<'_>, &Run<'_>) + Sync + 'a>;

/// Everything that a test may want to set. Whether the image is in use is asked
/// only where that is the question: other tests start programs, and those inherit descriptors for a moment.
pub struct Run<'a> {
    pub options: Options,
    pub free: ExtentSet,
    /// The map is read from these ranges.
    pub witnessed: Vec<(u64, usize)>,
    pub kernel: Arc<dyn Kernel>,
    pub system: System,
    pub stop: AtomicBool,
    pub attack: Attack<'a>,
    pub pace: Option<Pace>,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run {
            options: Options { smart: Smart::Snapshot, ..Options::default() },
            free: ExtentSet::new(),
            witnessed: Vec::new(),
            kernel: Arc::new(Linux),
            system: System::default(),
            stop: AtomicBool::new(false),
            attack: Box::new(|_, _| {}),
            pace: None,
        }
    }
}

struct Attacker<'a, 'b>(&'a Run<'b>);

impl Observer for Attacker<'_, '_> {
    fn event(&self, event: &Event<'_>) {
        (self.0.attack)(event, self.0);
    }
}

impl Run<'_> {
    fn map(&self, image: &dyn ReadAt) -> Map {
        let session = Session::new(image, Budget::for_image(image.size()));
        for &(offset, len) in &self.witnessed {
            session.view().read(offset, len).expect("the witnesses are in the image");
        }
        Map { size: image.size(), free: self.free.clone(), witnesses: session.into_witnesses(), ..Map::default() }
    }

    pub fn copy(&self, source: &Path, dest: &Path) -> Result<Report, Failure> {
        let opened = Source::open(&*self.kernel, source);
        let source = opened.map_err(|error| Failure { error: Some(error), damaged: None })?;
        self.copy_source(&source, dest)
    }

    pub fn copy_source(&self, source: &Source, dest: &Path) -> Result<Report, Failure> {
        self.copy_known(source, None, dest)
    }

    fn open(&self, source: &Path) -> (Source, Contained) {
        let opened = Source::open(&*self.kernel, source).unwrap();
        match contents(&self.kernel, &opened, Format::Auto) {
            Contents::Container(container) => (opened, container),
            _ => panic!("{source:?} is no container"),
        }
    }

    /// Copies the disk in a container.
    pub fn copy_disk(&self, source: &Path, dest: &Path) -> Result<Report, Failure> {
        let (opened, container) = self.open(source);
        self.copy_source(&container.into_disk(&*self.kernel, opened), dest)
    }

    /// Copies a container as what it is, into a directory.
    pub fn keep(&self, source: &Path, to: &Path) -> Vec<Report> {
        let (opened, container) = self.open(source);
        let (mut reports, attacker) = (Vec::new(), Attacker(self));
        let (options, system) = (self.options, self.system.clone());
        let task = KeepTask { options, mapper: &|image| self.map(image), system, observer: &attacker };
        container.keep(&opened).copy(&task, &mut |_, file, found| {
            let report = self.copy_known(file, found, &to.join(file.path().file_name().unwrap()));
            reports.push(report.unwrap_or_else(|failure| panic!("{}", words(&failure))));
            true
        });
        reports
    }

    fn copy_known(&self, source: &Source, found: Option<&Found>, dest: &Path) -> Result<Report, Failure> {
        let task = Task {
            source,
            dest,
            options: self.options,
            mapper: &|image| self.map(image),
            kernel: Arc::clone(&self.kernel),
            system: self.system.clone(),
            stop: &|| self.stop.load(Ordering::SeqCst),
            unfinished: Unfinished::default(),
            given: None,
            found,
            pace: self.pace.as_ref(),
            observer: &Attacker(self),
        };
        copy(&task)
    }
}

/// What is wrong with a failure, in words.
pub fn words(failure: &Failure) -> String {
    failure.error.as_ref().map_or("stopped".to_owned(), ToString::to_string)
}

/// An image of noise, zeros and holes, as it was made.
pub struct Image {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl Image {
    /// An image of `size` bytes, in pieces of up to `longest`.
    pub fn new(path: PathBuf, size: u64, longest: u64, noise: &mut Noise) -> Image {
        let file = File::create(&path).unwrap();
        file.set_len(size).unwrap();
        let mut bytes = vec![0; size as usize];
        let mut at = 0;
        while at < size {
            let len = (noise.below(longest) + 1).min(size - at);
            let range = at as usize..(at + len) as usize;
            match noise.below(4) {
                0 => {}
                1 => file.write_all_at(&bytes[range], at).unwrap(),
                _ => {
                    bytes[range.clone()].copy_from_slice(&noise.bytes(len as usize));
                    file.write_all_at(&bytes[range], at).unwrap();
                }
            }
            at += len;
        }
        Image { path, bytes }
    }

    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What a copy must hold: every byte, but zeros in the granules that are free as a whole.
    pub fn without(&self, free: &ExtentSet) -> Vec<u8> {
        let mut expected = self.bytes.clone();
        for run in trimmed(free, self.size()).iter() {
            expected[run.start as usize..run.end() as usize].fill(0);
        }
        expected
    }
}

/// The granules of 4 KiB that lie in the set as a whole, the last one of the image cut short by its end.
pub fn trimmed(free: &ExtentSet, size: u64) -> ExtentSet {
    let rounded = size.next_multiple_of(4096);
    let reaches_end = size > 0 && free.contains(size - 1);
    let padded = if reaches_end { free.union(&ExtentSet::of(size..rounded)) } else { free.clone() };
    padded.trimmed_to(4096).clipped(0..size)
}

/// Free ranges at random.
pub fn random_set(size: u64, longest: u64, noise: &mut Noise) -> ExtentSet {
    let mut ranges = Vec::new();
    for _ in 0..noise.below(12) {
        let start = noise.below(size.max(1));
        ranges.push(start..(start + noise.below(longest) + 1).min(size));
    }
    ExtentSet::from_ranges(ranges)
}

/// What the numbers of every copy that ended well must say.
pub fn check_numbers(report: &Report, options: &Options, what: &str) {
    let stats = &report.stats;
    assert_eq!(stats.copied + stats.write_skipped, stats.total, "{what}: {stats:?}");
    assert!(stats.free <= stats.read_skipped, "{what}: {stats:?}");
    if options.mode == Mode::WriteOnly {
        assert_eq!(stats.read, 0, "{what}");
    } else {
        assert_eq!(stats.read + stats.read_skipped, stats.total, "{what}: {stats:?}");
    }
    if options.sparse {
        assert!(stats.read_skipped <= stats.write_skipped, "{what}: {stats:?}");
    } else {
        assert_eq!((stats.copied, stats.write_skipped), (stats.total, 0), "{what}");
    }
    check_times(stats, options, what);
}

/// Parallel workers cannot do more than they have time for; where there are queues there are none.
fn check_times(stats: &Stats, options: &Options, what: &str) {
    let times = &stats.times;
    if options.queued || options.md5 || options.direct || options.mode != Mode::Copy {
        assert_eq!((stats.workers, times.workers, stats.shares()), (0, Duration::ZERO, None), "{what}");
        return;
    }
    assert!(stats.workers >= 1 && times.read + times.scan + times.write <= times.workers, "{what}: {stats:?}");
    let queues = [times.read_enqueue, times.read_dequeue, times.write_enqueue, times.write_dequeue];
    assert_eq!(queues, [Duration::ZERO; 4], "{what}");
}

/// The MD5 of these bytes, all at once.
pub fn md5_of(bytes: &[u8]) -> [u8; 16] {
    use md5::Digest;
    md5::Md5::digest(bytes).into()
}

/// Nothing of a file but its contents: equal, or the first byte that differs.
#[track_caller]
pub fn assert_holds(path: &Path, expected: &[u8], what: &str) {
    let found = fs::read(path).unwrap();
    assert_eq!(found.len(), expected.len(), "{what}: the size");
    // The whole first: byte by byte takes long in a debug build.
    if found != expected
        && let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b)
    {
        panic!("{what}: byte {at} is {:#x} and should be {:#x}", found[at], expected[at]);
    }
}
