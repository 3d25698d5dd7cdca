//! One run of a command: where it works, where its results go, and how far it is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_measure::own::Own;
use haul_measure::stats::FEWEST;
use haul_measure::stop::Stop;
use haul_measure::words::{self, quoted};
use haul_measure::workspace::Workspace;
use haul_sys::rustix::fs::syncfs;

use super::progress::Progress;
use crate::measure::FOLDER;
use crate::results::{Detail, Place, Results, Section};

/// The name of the results in the folder that they go to.
pub const RESULTS: &str = "results.json";

/// The names of what is made of them in that folder.
pub const REPORTS: [&str; 3] = ["report.html", "report.md", "report.csv"];

/// Why a session ends before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// The user wants no more; what was measured is saved.
    Stopped,
    Failed(String),
}

impl From<String> for Halt {
    fn from(why: String) -> Halt {
        Halt::Failed(why)
    }
}

/// What every measuring command takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where results go; a new folder in the current directory if the user does not say.
    pub output: Option<PathBuf>,
    /// Timed runs of each competitor.
    pub runs: usize,
    /// After so long a competitor is killed.
    pub timeout: Duration,
    /// Bytes that copies may take together before the old ones are removed.
    pub space: u64,
    /// The time that the user has set, of which too little is an error; else what is to be run was made to fit.
    pub time: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { output: None, runs: FEWEST, timeout: Duration::from_secs(600), space: 8 << 30, time: None }
    }
}

/// A command that measures.
pub struct Session {
    pub own: Own,
    pub stop: Stop,
    pub workspace: Workspace,
    /// The folder in the place where it does not work now, if the user has named two.
    other: Option<Workspace>,
    /// Where it works now, by the name that results have for it.
    pub at: &'static str,
    pub results: Results,
    pub output: PathBuf,
    pub settings: Settings,
    pub progress: Progress,
    /// Folders in /sys of the devices below the places, by the places' names.
    pub devices: BTreeMap<String, PathBuf>,
    /// No run begins afterwards.
    pub deadline: Option<Instant>,
    pub copies: u64,
}

impl Session {
    /// Prepares to measure in `directory`. `command` says what is measured, without where results go: a folder with results of
    /// the same command is gone on with.
    ///
    /// # Errors
    /// When the directory cannot be written to, or the output folder holds something else.
    pub(crate) fn begin(
        own: Own,
        stop: Stop,
        command: Vec<String>,
        directories: (&Path, Option<&Path>),
        settings: Settings,
    ) -> Result<Session, String> {
        // The cheap questions first: nothing is made if one of them has the wrong answer.
        let mut places = vec![(DIRECTORY, Place::of(directories.0)?)];
        if let Some(second) = directories.1 {
            places.push((SECOND, Place::of(second)?));
        }
        let fresh = Results::begun(command);
        let earlier = settings.output.as_deref().map(|output| earlier(output, &fresh, &places)).transpose()?.flatten();
        let workspace = Workspace::make(&own, directories.0, FOLDER)?;
        let other = directories.1.map(|second| Workspace::make(&own, second, FOLDER)).transpose()?;
        let output = match &settings.output {
            Some(output) => {
                let failed = words::cannot("make the folder", output);
                fs::create_dir_all(output).map_err(failed)?;
                output.clone()
            }
            None => new_output(&fresh.command)?,
        };
        let mut results = earlier.unwrap_or(fresh);
        if results.environment.methods.is_empty() {
            results.environment.methods = methods();
        }
        let mut session = Session {
            own,
            stop,
            workspace,
            other,
            at: DIRECTORY,
            results,
            output,
            settings,
            progress: Progress::on_terminal(),
            devices: BTreeMap::new(),
            deadline: None,
            copies: 0,
        };
        places.into_iter().for_each(|(name, place)| session.add_place(name, place));
        session.save()?;
        Ok(session)
    }

    fn add_place(&mut self, name: &str, place: Place) {
        self.devices.extend(place.device.as_ref().map(|device| (name.to_owned(), device.folder.clone())));
        self.results.environment.places.insert(name.to_owned(), place);
    }

    /// How many directories the user has named.
    pub(crate) fn places(&self) -> u32 {
        1 + u32::from(self.other.is_some())
    }

    /// Does it in the directory, and in the second one if there is one: each in its half of the time that is left.
    pub(crate) fn in_each_place(&mut self, mut run: impl FnMut(&mut Session) -> Result<(), Halt>) -> Result<(), Halt> {
        let end = self.deadline;
        self.deadline = self.time_left().map(|left| Instant::now() + left / self.places());
        run(self)?;
        self.deadline = end;
        self.change_place();
        let ran = if self.at == SECOND { run(self) } else { Ok(()) };
        self.change_place();
        ran
    }

    fn change_place(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.workspace, other);
            self.at = if self.at == DIRECTORY { SECOND } else { DIRECTORY };
        }
    }

    /// The name of the place of a file that was made.
    pub(super) fn place_of(&self, path: &Path) -> &'static str {
        let elsewhere = self.other.as_ref().is_some_and(|other| path.starts_with(other.path()));
        if elsewhere == (self.at == DIRECTORY) { SECOND } else { DIRECTORY }
    }

    /// The folder below which everything is made.
    pub fn folder(&self) -> &Path {
        self.workspace.path()
    }

    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The part of the time that is left.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The section of this name and place, begun if it is not there. `settings` are what it is run with.
    pub fn section(&mut self, name: &str, settings: &[(&str, String)]) -> Result<&mut Section, String> {
        if self.section_mut(name).is_err() {
            let mut section = Section::new(name, self.at);
            section.settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            self.results.sections.push(section);
            self.save()?;
        }
        self.section_mut(name)
    }

    pub(super) fn section_mut(&mut self, name: &str) -> Result<&mut Section, String> {
        let mut sections = self.results.sections.iter_mut();
        let found = sections.find(|section| section.name == name && section.place == self.at);
        found.ok_or_else(|| format!("the section {name} was not begun"))
    }

    /// Adds details to a section, in the place of those of the same names.
    pub(crate) fn add_details(&mut self, section: &str, details: Vec<Detail>) -> Result<(), String> {
        let section = self.section_mut(section)?;
        for detail in details {
            match section.details.iter_mut().find(|old| old.name == detail.name) {
                Some(old) => *old = detail,
                None => section.details.push(detail),
            }
        }
        self.save()
    }

    /// A part of the plan is not run.
    pub(crate) fn skip(&mut self, section: &str, what: String) -> Result<(), String> {
        let section = self.section_mut(section)?;
        if !section.skipped.contains(&what) {
            section.skipped.push(what);
        }
        self.save()
    }

    /// Nothing of this section's plan is left.
    pub(crate) fn section_done(&mut self, name: &str) -> Result<(), String> {
        self.section_mut(name)?.complete = true;
        self.save()
    }

    pub(crate) fn all_done(&mut self) -> Result<(), String> {
        self.results.complete = true;
        self.save()
    }

    /// Removes what was made below the directory, and gives the results.
    pub(crate) fn finish(self) -> Result<Results, String> {
        self.progress.clear();
        let other = self.other.map_or(Ok(()), Workspace::finish);
        self.workspace.finish().and(other)?;
        Ok(self.results)
    }

    /// The source is the user's, and on another place perhaps.
    pub(crate) fn source_is(&mut self, source: &Path) -> Result<(), String> {
        let folder = if source.is_dir() { source } else { source.parent().unwrap_or(source) };
        self.add_place(SOURCE, Place::of(folder)?);
        Ok(())
    }

    /// Removes the folder of the results if nothing was measured: a refused command leaves nothing.
    pub(crate) fn forget_empty_output(&self) {
        let empty =
            |section: &Section| section.details.is_empty() && section.cases.iter().all(|case| case.runs.is_empty());
        if self.results.sections.iter().all(empty) {
            fs::remove_file(self.output.join(RESULTS)).ok();
            fs::remove_dir(&self.output).ok(); // unless there is something else in it
        }
    }

    /// Why it ends, if the user wants no more.
    pub(crate) fn halt_if_stopped(&self) -> Result<(), Halt> {
        if self.stop.is_stopped() { Err(Halt::Stopped) } else { Ok(()) }
    }

    pub(super) fn save(&self) -> Result<(), String> {
        let path = self.output.join(RESULTS);
        self.results.save(&path).map_err(words::cannot("write", &path))
    }

    /// The folder of the workspace, after its filesystem was synced.
    pub(super) fn synced_workspace(&self) -> Result<File, String> {
        let path = self.workspace.path();
        let folder = File::open(path).map_err(words::cannot("open", path))?;
        syncfs(&folder).map_err(|errno| format!("cannot sync the destination: {}", words::of(&errno.into())))?;
        Ok(folder)
    }
}

/// The name of the user's directory among the places.
pub const DIRECTORY: &str = "directory";
/// That of the second one.
pub const SECOND: &str = "second directory";
/// The name of the source's, if it is the user's own.
pub const SOURCE: &str = "source";

/// What is the same for all runs, for the reader.
fn methods() -> Vec<String> {
    [
        "competitors take turns, in an order that rotates with each round, after a run of the base that does not count",
        "before each run twice the size of the source is touched in memory, at most 60 % of what is available",
        "warm: the source was read just before; cold: all caches were dropped where that is allowed, else the files evicted; \
         the kernel was asked whether that is so",
        "durable is the time to return and then that of a sync of the destination's filesystem",
        "every copy is a new file or tree, and is compared with its source after the run",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Results of an earlier run of the same command in that folder, on the same machine and places: figures of two are not mixed.
fn earlier(output: &Path, fresh: &Results, here: &[(&str, Place)]) -> Result<Option<Results>, String> {
    let path = output.join(RESULTS);
    if !path.exists() {
        let other = REPORTS.iter().map(|name| output.join(name)).find(|path| path.symlink_metadata().is_ok());
        return other.map_or(Ok(None), |path| {
            Err(format!("{} is there without results of haul-lab; name another folder with --output", quoted(&path)))
        });
    }
    let mut results = Results::load(&path)?;
    let (then, now) = (&results.environment, &fresh.environment);
    let same_place = here.iter().all(|(name, here)| then.places.get(*name).is_some_and(|there| there.is_that_of(here)));
    let other = match () {
        () if results.command != fresh.command => format!("another command ({})", results.command.join(" ")),
        () if results.program != fresh.program => format!("haul-lab {}", results.program),
        () if (&then.kernel, &then.processor) != (&now.kernel, &now.processor) => {
            "another machine or kernel".to_owned()
        }
        () if !same_place => "another filesystem".to_owned(),
        () => {
            // What there was no time for may be run now.
            for section in results.sections.iter_mut().filter(|section| !section.complete) {
                section.skipped.clear();
            }
            return Ok(Some(results));
        }
    };
    Err(format!("{} holds the results of {other}; name another folder with --output", quoted(&path)))
}

/// A folder in the current directory that is not there yet.
fn new_output(command: &[String]) -> Result<PathBuf, String> {
    let name = command.first().map_or("results", String::as_str);
    for number in 1..10_000 {
        let path = PathBuf::from(format!("haul-lab-{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot make the folder {}: {}", quoted(&path), words::of(&error))),
        }
    }
    Err("name a folder for the results with --output".to_owned())
}
