//! One copy by haul's library, in a process of its own, so that what it used can be counted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_copy::events::{Confirm, Event, Observer, Question};
use haul_copy::meta::XattrRules;
use haul_copy::plan::{
    CacheUse, DataOptions, Dereference, Destination, EngineChoice, ModeRule, Plan, Preallocate, Preserve, Reflink,
    Sparse, Wish, Writeback,
};
use haul_copy::run::{self, Cancel, Partials, Session, Summary};
use haul_copy::stats::Stats;
use haul_guest::ReadAt;
use haul_image::{Smart, System, Task, Unfinished};
use haul_io::pace::Pace;
use haul_io::profile;
use haul_measure::words;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::priority::{IoPriority, set_io_priority, set_nice};
use serde::{Deserialize, Serialize};

use super::controlled::{self, Method};
use super::failure::Failure;

/// The name of the part of this program that does it.
pub const PART: &str = "one-copy";

/// The exit status if the wanted engine does not move bytes here.
pub const REFUSED: u8 = 75;

/// What is wanted besides haul's own choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub engine: Option<String>,
    pub buffer_size: Option<u64>,
    /// Files at the same time.
    pub jobs: Option<u64>,
    /// Bytes of the source that are asked for ahead.
    pub readahead: Option<u64>,
    /// Space is allocated before it is written.
    pub preallocate: bool,
    /// Nice value, and the I/O level that belongs to it.
    pub priority: Option<i8>,
    /// Everything that a file has is kept (`-a`); else names and contents only.
    pub archive: bool,
    /// Extents may be shared (`auto` and the engine `clone`); else data is moved.
    pub reflink: bool,
    /// A profile that haul obeys, in a file.
    pub profile: Option<String>,
    /// Exactly these calls, and nothing of the above but the priority.
    pub method: Option<Method>,
    /// A disk image, by the smart pipeline: whether free space is looked for, and whether the copy is sparse.
    pub image: Option<(bool, bool)>,
    /// An image goes from a reader by queues to a scanner and to a writer.
    pub queued: bool,
}

impl Settings {
    /// The arguments that [`parse`] reads.
    pub fn arguments(&self, source: &Path, dest: &Path) -> [OsString; 3] {
        // Settings are plain data with string keys, so they always have a form in JSON.
        let settings = serde_json::to_string(self).unwrap_or_default();
        [settings.into(), source.into(), dest.into()]
    }
}

/// Reads the arguments of the part: settings in JSON, the source and the name of the copy.
pub fn parse(arguments: Vec<OsString>) -> Result<(Settings, PathBuf, PathBuf), String> {
    let [settings, source, dest] = <[OsString; 3]>::try_from(arguments)
        .map_err(|_| "settings, a source and the name of its copy are needed".to_owned())?;
    let settings = serde_json::from_slice(settings.as_bytes()).map_err(|error| format!("the settings: {error}"))?;
    Ok((settings, source.into(), dest.into()))
}

/// Copies, and gives what the run reports of itself: seconds and bytes by name.
pub fn copy(settings: &Settings, source: &Path, dest: &Path) -> Result<BTreeMap<String, f64>, Failure> {
    if let Some(nice) = settings.priority {
        // Before there are threads, which take it over.
        let level = ((nice + 20) / 5).unsigned_abs().min(7);
        set_nice(i32::from(nice))
            .and_then(|()| set_io_priority(IoPriority::BestEffort(level)))
            .map_err(|errno| Failure::Refused(format!("no priority {nice}: {}", words::of(&errno.into()))))?;
    }
    match (&settings.method, settings.image) {
        (Some(method), _) => controlled::copy(method, source, dest),
        (None, Some((smart, sparse))) => image(smart, sparse, settings, source, dest),
        (None, None) => files(settings, source, dest),
    }
}

fn plan(settings: &Settings, source: &Path, dest: &Path) -> Result<Plan, Failure> {
    let engine = match &settings.engine {
        Some(name) => name.parse().map_err(|()| Failure::Failed(format!("there is no engine {name:?}")))?,
        None => EngineChoice::Auto,
    };
    let profile = settings.profile.as_ref().map(|path| {
        let text = std::fs::read_to_string(path).map_err(|error| words::of(&error));
        let profile = text.and_then(|text| profile::parse(&text, path));
        profile.map(Arc::new).map_err(|why| Failure::Failed(format!("cannot use the profile {path:?}: {why}")))
    });
    let size = |bytes: u64| usize::try_from(bytes).map_err(|_| Failure::Failed(format!("{bytes} bytes are too many")));
    let preserve = match settings.archive {
        true => Preserve {
            mode: ModeRule::Keep,
            ownership: true,
            timestamps: true,
            links: true,
            context: Wish::Try,
            xattr: Wish::Try,
            required: true,
            quiet: true,
            ..Preserve::default()
        },
        false => Preserve::default(),
    };
    Ok(Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(dest.into()),
        recursive: true,
        dereference: Dereference::Never,
        preserve,
        jobs: settings.jobs.map(size).transpose()?,
        data: DataOptions {
            engine,
            sparse: Sparse::Auto,
            reflink: if settings.reflink { Reflink::Auto } else { Reflink::Never },
            cache: CacheUse::Auto,
            writeback: Writeback::Kernel,
            preallocate: if settings.preallocate { Preallocate::Always } else { Preallocate::Auto },
            buffer_size: settings.buffer_size.map(size).transpose()?,
            readahead: settings.readahead,
            profile: profile.transpose()?,
        },
        ..Plan::default()
    })
}

fn files(settings: &Settings, source: &Path, dest: &Path) -> Result<BTreeMap<String, f64>, Failure> {
    let plan = plan(settings, source, dest)?;
    let first = FirstProblem::default();
    let session = Session {
        observer: &first,
        confirm: &first,
        cancel: Cancel::default(),
        pace: Pace::default(),
        partials: Partials::default(),
        xattr_rules: XattrRules::default(),
        skip_files: Vec::new(),
        shared_reads: None,
    };
    let Summary { failed, stats, .. } = run::run(&plan, &session);
    if failed {
        let why = first.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        return Err(Failure::Failed(why.unwrap_or_else(|| "the copy failed".to_owned())));
    }
    if let EngineChoice::Only(engine) = plan.data.engine {
        // What it leaves to others, such as an end that is not aligned, is small.
        let own = stats.engines.get(&engine).map_or(0, |own| own.moved.total() - own.moved.holes);
        let all = stats.moved.total() - stats.moved.holes;
        if own < all / 2 {
            return Err(Failure::Refused(format!("{engine} does not move bytes here")));
        }
    }
    Ok(reported(&stats))
}

fn reported(stats: &Stats) -> BTreeMap<String, f64> {
    let seconds = [
        ("walk", stats.walk_time),
        ("data", stats.data_time),
        ("metadata", stats.metadata_time),
        ("sync", stats.sync_time),
    ];
    let moved = &stats.moved;
    let bytes = [
        ("total", moved.total()),
        ("written", moved.written),
        ("holes", moved.holes),
        ("shared", moved.cloned),
        ("offloaded", moved.offloaded),
    ];
    let mut reported = named(&seconds, &bytes);
    reported.insert("files.by-profile".to_owned(), stats.by_profile as f64);
    reported
}

fn named(seconds: &[(&str, Duration)], bytes: &[(&str, u64)]) -> BTreeMap<String, f64> {
    let seconds = seconds.iter().map(|(name, time)| (format!("seconds.{name}"), time.as_secs_f64()));
    seconds.chain(bytes.iter().map(|(name, count)| (format!("bytes.{name}"), *count as f64))).collect()
}

fn image(
    with_map: bool,
    sparse: bool,
    settings: &Settings,
    source: &Path,
    dest: &Path,
) -> Result<BTreeMap<String, f64>, Failure> {
    let failed = |error: haul_copy::error::Error| Failure::Failed(error.to_string());
    let kernel: Arc<dyn Kernel> = Arc::new(Linux);
    let source = haul_image::Source::open(&*kernel, source).map_err(failed)?;
    let mapper = |image: &dyn ReadAt| haul_guest::map(image, &haul_guest::fs::Options::default());
    let mut options = haul_image::Options {
        sparse,
        queued: settings.queued,
        // Nobody else has an image that was made for this; where it is the user's, it is asked who has it.
        smart: if with_map { Smart::Auto } else { Smart::Off },
        ..haul_image::Options::default()
    };
    if let Some(size) = settings.buffer_size.and_then(|size| usize::try_from(size).ok()) {
        options.buffer_size = size;
    }
    // Without the one there is nothing that the other could leave out.
    options.zero_scan = sparse;
    let task = Task {
        source: &source,
        dest,
        options,
        mapper: &mapper,
        kernel: Arc::clone(&kernel),
        system: System::default(),
        stop: &|| false,
        unfinished: Unfinished::default(),
        given: None,
        found: None,
        pace: None,
        observer: &Silent,
    };
    let started = Instant::now();
    let report = haul_image::copy(&task)
        .map_err(|failure| failure.error.map_or_else(|| Failure::Failed("the copy failed".to_owned()), failed))?;
    if let Some(user) = report.in_use {
        return Err(Failure::Refused(format!("the image is in use: {user}")));
    }
    let (stats, times) = (&report.stats, &report.stats.times);
    let seconds = [
        ("all", started.elapsed()),
        ("open", times.open),
        ("map", times.map),
        ("data", times.copy),
        ("read", times.read),
        ("write", times.write),
        ("scan", times.scan),
        ("read-enqueue", times.read_enqueue),
        ("read-dequeue", times.read_dequeue),
        ("write-enqueue", times.write_enqueue),
        ("write-dequeue", times.write_dequeue),
        ("workers", times.workers),
    ];
    let bytes = [
        ("total", stats.total),
        ("copied", stats.copied),
        ("read-skipped", stats.read_skipped),
        ("write-skipped", stats.write_skipped),
        ("zeros", stats.zeros),
        ("free", stats.free),
        ("read", stats.read),
    ];
    let mut reported = named(&seconds, &bytes);
    reported.insert("workers".to_owned(), stats.workers as f64);
    Ok(reported)
}

struct Silent;

impl haul_image::Observer for Silent {
    fn event(&self, _event: &haul_image::Event<'_>) {}
}

#[derive(Default)]
struct FirstProblem(Mutex<Option<String>>);

impl Observer for FirstProblem {
    fn event(&self, event: &Event<'_>) {
        if let Event::Problem(error) = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.to_string());
        }
    }

    fn in_order(&self) -> bool {
        false
    }
}

impl Confirm for FirstProblem {
    fn overwrite(&self, _question: &Question<'_>) -> bool {
        false // every copy has a new name
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::measure::controlled::By;

    #[test]
    fn settings_are_read_as_they_were_given() {
        let settings = Settings {
            engine: Some("read-write".to_owned()),
            buffer_size: Some(8 << 20),
            jobs: Some(3),
            readahead: Some(1 << 20),
            preallocate: true,
            priority: Some(-15),
            archive: true,
            reflink: true,
            profile: Some("a file".to_owned()),
            method: Some(Method { preallocate: true, ..Method::new(By::LinuxAio, 1 << 20) }),
            image: Some((true, false)),
            queued: true,
        };
        let arguments = settings.arguments("from".as_ref(), "to".as_ref());
        assert_eq!(parse(arguments.to_vec()), Ok((settings, "from".into(), "to".into())));
        assert!(parse(vec!["{}".into()]).is_err());
        assert!(parse(["{\"jobs\": \"x\"}", "from", "to"].map(OsString::from).to_vec()).is_err());
    }

    #[test]
    fn a_copy_reports_its_times_and_bytes() {
        let dir = haul_testbed::temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("tree")).unwrap();
        fs::write(at("tree/file"), vec![9; 100_000]).unwrap();
        let settings = Settings { engine: Some("read-write".to_owned()), ..Settings::default() };
        let reported = copy(&settings, &at("tree"), &at("copy")).unwrap();
        assert!(reported["bytes.written"] == 100_000.0 && reported["seconds.data"] > 0.0, "{reported:?}");
        assert_eq!(fs::read(at("copy/file")).unwrap(), vec![9; 100_000]);
    }

    #[test]
    fn an_engine_that_leaves_the_work_to_another_has_refused() {
        let Some(bed) = haul_testbed::Bed::new() else { return };
        let place = bed.mount(haul_testbed::Fs::Tmpfs).expect("tmpfs is everywhere");
        fs::write(place.join("file"), vec![9; 100_000]).unwrap();
        let settings = Settings { engine: Some("clone".to_owned()), reflink: true, ..Settings::default() };
        let refused = copy(&settings, &place.join("file"), &place.join("copy"));
        assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
    }
}
