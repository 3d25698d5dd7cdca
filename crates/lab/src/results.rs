//! What was measured, as it is saved: `results.json`, versioned, written anew after each case.
//!
//! Only what was seen is in it. Medians, intervals, drawings and words are made of it by `crate::report`, so that an old file
//! can be shown anew.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

pub use haul_measure::cache::State as Cache;
pub use haul_measure::device::Device;
use haul_measure::machine::Machine;
use haul_measure::process::Cost;
pub use haul_measure::storage::Storage as Place;
use haul_measure::words::{self, quoted};
use serde::{Deserialize, Serialize};

/// What [`Results::format`] says.
pub(crate) const FORMAT: &str = "haul-lab-results";
/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 1;

/// Everything of one run of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// `FORMAT`.
    pub format: String,
    /// `VERSION`.
    pub version: u32,
    /// The version of haul-lab.
    pub program: String,
    /// The command with its operands and options, but for those that say where results go.
    pub command: Vec<String>,
    /// Seconds since 1970 when it began.
    pub started: u64,
    /// What it was measured on.
    pub environment: Environment,
    /// One for each experiment, in the order in which they are run.
    pub sections: Vec<Section>,
    /// Nothing is left to be measured.
    pub complete: bool,
}

/// The machine, the place and the competitors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// The hypervisor's name if there is one: a virtual machine's memory and device are shared.
    pub virtual_machine: Option<String>,
    /// Places that were measured: by the name that sections use for them.
    pub places: BTreeMap<String, Place>,
    /// First line of what each competitor says of its version.
    pub competitors: BTreeMap<String, String>,
    /// How the memory is kept warm and the cache cold, in words.
    #[serde(rename = "manners")]
    pub methods: Vec<String>,
}

/// One experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The command that makes it: `mapped-copy`, `in-kernel` ...
    pub name: String,
    /// Which of [`Environment::places`].
    pub place: String,
    /// Sizes and numbers that it was run with.
    pub settings: BTreeMap<String, String>,
    /// What is timed as a copy, in the order of the plan.
    pub cases: Vec<Case>,
    /// What is measured in another way: histograms, grids, facts.
    pub details: Vec<Detail>,
    /// Parts of the plan that were not run, and why.
    #[serde(rename = "left_out")]
    pub skipped: Vec<String>,
    /// All of the plan is there, or in `skipped`.
    pub complete: bool,
}

/// One competitor under one set of conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What is compared with each other has the same group: `1024 MB, cold`.
    pub group: String,
    /// Who: `cp`, `read-write 8 MiB`.
    pub competitor: String,
    /// The others of the group are compared with this one.
    pub base: bool,
    /// Conditions by name, for tables with an axis: `size` 1048576000, `files` 32, `variant` readahead.
    pub parameters: BTreeMap<String, String>,
    /// Whether the source was in the page cache.
    pub cache: Cache,
    /// Bytes that a right copy has.
    pub bytes: u64,
    /// Each timed run.
    pub runs: Vec<Run>,
    /// How it ended.
    pub outcome: Outcome,
    /// What a reader should know.
    pub warnings: Vec<Warning>,
}

/// How a case ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what", content = "why")]
pub enum Outcome {
    /// Every run was timed, and every copy is right.
    Right,
    /// A copy was looked at and is not: it has no times, and no rank.
    Wrong(String),
    /// It did not go as it should have: a setting took no effect, so its times are those of something else.
    NotAsNamed(String),
    /// It said that it cannot (no such engine here, no such program).
    Refused(String),
    /// It failed, or a signal killed it.
    Failed(String),
    /// It was ended after its time.
    TooLong(String),
    /// Measured, but nobody has compared the copies.
    #[default]
    Unverified,
}

/// Types of doubt about a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warning {
    /// The runs differ by more than a quarter of their median.
    Noisy,
    /// Under 50 ms: the clock's and the kernel's grain shows.
    TooShort,
    /// Fewer runs than asked for.
    FewRuns,
    /// Nobody knows whether the source was cached.
    CacheUnknown,
    /// The copies were not compared.
    NotVerified,
    /// Other programs in user mode, or other virtual machines, used more than 5 % of a core during a run.
    OtherLoad,
}

/// One timed run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Seconds from before the program is started until it has ended.
    pub returned: f64,
    /// And until a sync of the destination's filesystem has ended.
    pub durable: f64,
    /// Seconds of CPU time in user mode, of the program and its children.
    pub user: f64,
    /// The same in the kernel on their behalf.
    pub system: f64,
    /// Largest resident memory in bytes, with mapped files.
    pub peak_memory: u64,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Bytes that the source's device read until the copy was durable, if there is a device: of everybody.
    pub device_read: Option<u64>,
    /// Bytes that the destination's device wrote.
    pub device_written: Option<u64>,
    /// Seconds of CPU time of others in user mode, and of other virtual machines.
    pub other_load: f64,
    /// Figures that the program reports of itself: seconds of phases (`seconds.data`), bytes (`bytes.written`).
    #[serde(rename = "told")]
    pub reported: BTreeMap<String, f64>,
}

/// Something measured that is no timed copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Within the section: `msync`, `grid`, `stall` ...
    pub name: String,
    /// What.
    pub body: Body,
}

/// What a detail is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Body {
    /// Seconds or rates by name, each with all its samples.
    Samples {
        /// `s`, `KiB/s` ...
        unit: String,
        /// By what was measured.
        series: BTreeMap<String, Vec<f64>>,
    },
    /// A value by row and column.
    Grid(Grid),
    /// How long something took, many times.
    Latency(Latency),
    /// What is known.
    Facts {
        /// In the order in which they are shown.
        rows: Vec<Fact>,
    },
    /// The kinds of bytes of an image, from its beginning to its end: kind and bytes.
    Strip {
        /// Neighbours differ in kind.
        spans: Vec<(String, u64)>,
    },
    /// What the figures mean, in words: a verdict by a name that does not change, and its sentences.
    Verdict {
        /// `no-stalls`, `waits-in-write-back` ...
        name: String,
        /// For people.
        sentences: Vec<String>,
    },
}

/// Writes a file anew, which nobody else may write to: at any instant it holds the old bytes or the new, and what is left of it
/// is removed after a failure. A symbolic link stays, and what it leads to is replaced.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_not_there| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o644)).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// A name, a value, and where it is from or what it means.
pub type Fact = (String, String, String);

/// One of them.
pub fn fact(name: &str, value: impl Into<String>, meaning: impl Into<String>) -> Fact {
    (name.to_owned(), value.into(), meaning.into())
}

/// A value by row and column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Of the values.
    pub unit: String,
    /// What rows are, and their names.
    pub rows: (String, Vec<String>),
    /// What columns are, and their names.
    pub columns: (String, Vec<String>),
    /// By row, then column. `None` was not measured.
    pub values: Vec<Vec<Option<f64>>>,
}

/// How long something took, many times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// How many were over the threshold.
    pub over: u64,
    /// The threshold in seconds.
    pub threshold: f64,
    /// Percentile (0 to 100) and seconds, rising.
    pub percentiles: Vec<(f64, f64)>,
    /// The longest, in seconds.
    pub longest: f64,
}

impl Latency {
    /// Seconds at a percentile that is kept.
    pub fn at(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|(have, _)| *have == percentile).map(|(_, seconds)| *seconds)
    }
}

impl Detail {
    /// One of this name.
    pub fn new(name: impl Into<String>, body: Body) -> Detail {
        Detail { name: name.into(), body }
    }
}

impl From<Machine> for Environment {
    /// The machine, without places and competitors yet.
    fn from(machine: Machine) -> Environment {
        let unknown = || "unknown".to_owned();
        Environment {
            kernel: machine.kernel.unwrap_or_else(unknown),
            processor: machine.processor.unwrap_or_else(unknown),
            cores: machine.cores,
            memory: machine.memory,
            virtual_machine: machine.hypervisor,
            ..Environment::default()
        }
    }
}

impl From<&Cost> for Run {
    /// What the program reports of itself is not in it.
    fn from(cost: &Cost) -> Run {
        Run {
            returned: cost.returned.as_secs_f64(),
            durable: cost.durable.as_secs_f64(),
            user: cost.user.as_secs_f64(),
            system: cost.system.as_secs_f64(),
            peak_memory: cost.peak_memory,
            minor_faults: cost.minor_faults,
            major_faults: cost.major_faults,
            device_read: cost.device_read,
            device_written: cost.device_written,
            other_load: cost.others.as_secs_f64(),
            reported: BTreeMap::new(),
        }
    }
}

impl Results {
    /// Nothing measured yet, on this machine and from now on.
    pub(crate) fn begun(command: Vec<String>) -> Results {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Results::new(command, now, Machine::here().into())
    }

    /// Nothing measured yet.
    pub fn new(command: Vec<String>, started: u64, environment: Environment) -> Results {
        Results {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            started,
            environment,
            sections: Vec::new(),
            complete: false,
        }
    }

    /// Reads a file that [`Results::save`] has written.
    ///
    /// # Errors
    /// A message that names the file: it cannot be read, is of another version, or is no such file.
    pub fn load(path: &Path) -> Result<Results, String> {
        let quoted = quoted(path);
        let text = std::fs::read(path).map_err(|error| format!("cannot read {quoted}: {}", words::of(&error)))?;
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| format!("{quoted} is no results file: {error}"))?;
        if value["format"] != FORMAT {
            return Err(format!("{quoted} is no results file of haul-lab"));
        }
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return Err(format!(
                    "{quoted} has version {version} of the format, and this haul-lab reads version {VERSION}; \
                     show it with the haul-lab that wrote it, or measure again"
                ));
            }
            None => return Err(format!("{quoted} says no version")),
        }
        serde_json::from_value(value).map_err(|error| format!("{quoted} is damaged: {error}"))
    }

    /// Writes the file anew, so that it holds the old or the new results at any instant.
    ///
    /// # Errors
    /// Those of writing.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        replace(path, (serde_json::to_string_pretty(self)? + "\n").as_bytes())
    }

    /// Where a section was measured, if it is known.
    pub(crate) fn place_of(&self, section: &Section) -> Option<&Place> {
        self.environment.places.get(&section.place)
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }
}

impl Section {
    /// Nothing measured yet.
    pub fn new(name: &str, place: &str) -> Section {
        Section { name: name.to_owned(), place: place.to_owned(), ..Section::default() }
    }

    /// The detail of this name.
    pub fn detail(&self, name: &str) -> Option<&Body> {
        self.details.iter().find(|detail| detail.name == name).map(|detail| &detail.body)
    }

    /// The facts of this name; none if there are none.
    pub fn facts(&self, name: &str) -> &[Fact] {
        if let Some(Body::Facts { rows }) = self.detail(name) { rows } else { &[] }
    }

    /// Every series of the samples of this name.
    pub fn series(&self, name: &str) -> impl Iterator<Item = (&str, &[f64])> {
        let series = if let Some(Body::Samples { series, .. }) = self.detail(name) { Some(series) } else { None };
        series.into_iter().flatten().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// One of them; empty if it is missing.
    pub(crate) fn samples(&self, name: &str, series: &str) -> &[f64] {
        self.series(name).find(|(have, _)| *have == series).map_or(&[], |(_, values)| values)
    }

    /// The latency of this name.
    pub(crate) fn latency(&self, name: &str) -> Option<&Latency> {
        if let Some(Body::Latency(latency)) = self.detail(name) { Some(latency) } else { None }
    }

    /// The grid of this name.
    pub fn grid(&self, name: &str) -> Option<&Grid> {
        if let Some(Body::Grid(grid)) = self.detail(name) { Some(grid) } else { None }
    }

    /// The cases by group, in the order in which groups are first met.
    pub fn groups(&self) -> Vec<(&str, Vec<&Case>)> {
        let mut groups: Vec<(&str, Vec<&Case>)> = Vec::new();
        for case in &self.cases {
            match groups.iter_mut().find(|(name, _)| *name == case.group) {
                Some((_, cases)) => cases.push(case),
                None => groups.push((&case.group, vec![case])),
            }
        }
        groups
    }
}

impl Case {
    /// Whether it has times that mean something.
    pub(crate) fn is_ranked(&self) -> bool {
        matches!(self.outcome, Outcome::Right | Outcome::Unverified) && !self.runs.is_empty()
    }

    /// One figure of every run.
    pub(crate) fn figures(&self, of: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }
}
