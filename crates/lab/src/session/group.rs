//! Competitors that copy the same source, in turns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use haul_measure::cache::{self, Wanted};
use haul_measure::process::{self, Job};
use haul_measure::stop::Stop;
use haul_measure::{memory, space, words, workspace};

use super::ended::Ended;
use super::progress::{OVERHEAD, in_words};
use super::{DIRECTORY, Halt, SOURCE, Session};
use crate::doubts;
use crate::measure::one_copy;
use crate::measure::verify::{Verdict, verify};
use crate::results::{Cache, Case, Outcome, Run, Warning};

/// Stands for the source in a command.
pub const PLACE_OF_SOURCE: &str = "{source}";
/// Stands for the name of the copy.
pub const PLACE_OF_DEST: &str = "{dest}";

/// A competitor that takes this many times as long as the base in its first run is not run again.
const FAR_TOO_SLOW: f64 = 20.0;
/// What a run may take beyond the session's time.
const LENIENCE: Duration = Duration::from_secs(10);
/// How the names of folders for copies begin.
const RUN: &str = "run-";
/// Seconds for each byte of a run, with making the source ready and comparing the copy, on a machine that is faster than most.
const QUICKEST: f64 = 1.0 / 3e9;
/// Room that a copy may take besides its bytes: directories, indirect blocks.
const MORE: u64 = 32 << 20;

/// The same source for all, made when it is needed.
pub struct Group<'a> {
    /// In the results: `1000 MB, cold`.
    pub name: String,
    /// The source; it is made if it is not there.
    pub source: PathBuf,
    /// Makes it; `None` if it is the user's.
    pub make: Option<&'a Making<'a>>,
    /// Bytes of it.
    pub bytes: u64,
    /// How many entries and bytes the user's source has; nobody may take any away.
    pub entries: Option<(u64, u64)>,
    /// Says why a copy is wrong; without it names, contents and link targets must be the same.
    pub judge: Option<&'a Judging<'a>>,
    /// And metadata, too.
    pub metadata: bool,
    /// Who.
    pub competitors: Vec<Competitor>,
}

/// Makes a source under a name.
pub type Making<'a> = dyn Fn(&Path, &Stop) -> Result<(), String> + 'a;

/// Looks at a source and its copy by somebody.
pub type Judging<'a> = dyn Fn(&Path, &Path, &Competitor, &Stop) -> Verdict + 'a;

/// Somebody who copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Competitor {
    /// In the results.
    pub name: String,
    /// The others are compared with this one.
    pub base: bool,
    /// Conditions for tables.
    pub parameters: BTreeMap<String, String>,
    /// Of the source.
    pub cache: Wanted,
    /// How.
    pub how: How,
}

/// How somebody copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By haul's library.
    Own(one_copy::Settings),
    /// By words, of which those for source and destination are replaced, also within others.
    Words(Vec<String>),
    /// By a line for a shell, in which they are quoted.
    Line(String),
}

impl Group<'_> {
    /// What one run of everybody is worth, in bytes that are copied.
    fn work(&self) -> f64 {
        self.competitors.len() as f64 * (self.bytes as f64 + OVERHEAD)
    }
}

impl Competitor {
    /// A competitor without conditions.
    pub fn new(name: impl Into<String>, cache: Wanted, how: How) -> Competitor {
        Competitor { name: name.into(), base: false, parameters: BTreeMap::new(), cache, how }
    }

    /// The one that the others are compared with.
    #[must_use]
    pub fn as_base(self) -> Competitor {
        Competitor { base: true, ..self }
    }

    /// With one more condition.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Competitor {
        self.parameters.insert(name.to_owned(), value.to_string());
        self
    }
}

impl How {
    /// The words as a user would write them.
    pub fn name(&self) -> String {
        match self {
            How::Own(_) => "haul".to_owned(),
            How::Words(words) => words.join(" "),
            How::Line(line) => line.clone(),
        }
    }

    fn command(&self, session: &Session, source: &Path, dest: &Path) -> Command {
        match self {
            How::Own(settings) => {
                let mut command = session.own.part(one_copy::PART);
                command.args(settings.arguments()).arg(source).arg(dest);
                command
            }
            How::Words(words) => {
                let word = |word: &String| {
                    let replaced =
                        replaced(word.as_bytes(), source.as_os_str().as_bytes(), dest.as_os_str().as_bytes());
                    OsString::from_vec(replaced)
                };
                let mut words = words.iter().map(word);
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words);
                command
            }
            How::Line(line) => {
                let quoted = |path: &Path| quoted_for_shell(path.as_os_str().as_bytes());
                let line = replaced(line.as_bytes(), &quoted(source), &quoted(dest));
                let mut command = Command::new("sh");
                command.arg("-c").arg(OsString::from_vec(line));
                command
            }
        }
    }

    /// The program, whose file is to be in memory when the clock starts.
    fn program(&self, session: &Session) -> Option<OsString> {
        match self {
            How::Own(_) => Some(session.own.path().into()),
            How::Words(words) => words.first().map(OsString::from),
            // The first word of most lines.
            How::Line(line) => line.split_whitespace().next().map(OsString::from),
        }
    }
}

/// Types of doubt about a case whose runs are over.
fn warnings(case: &Case, wanted: usize) -> Vec<Warning> {
    if case.runs.is_empty() {
        return Vec::new(); // its outcome says why
    }
    let mut warnings = doubts::warnings(&case.runs, wanted);
    if case.cache == Cache::Unknown {
        warnings.push(Warning::CacheUnknown);
    }
    if case.outcome == Outcome::Unverified {
        warnings.push(Warning::NotVerified);
    }
    warnings
}

fn replaced(text: &[u8], source: &[u8], dest: &[u8]) -> Vec<u8> {
    let mut left = text;
    let mut made = Vec::new();
    while let Some(first) = left.first() {
        if let Some(rest) = left.strip_prefix(PLACE_OF_SOURCE.as_bytes()) {
            made.extend_from_slice(source);
            left = rest;
        } else if let Some(rest) = left.strip_prefix(PLACE_OF_DEST.as_bytes()) {
            made.extend_from_slice(dest);
            left = rest;
        } else {
            made.push(*first);
            left = &left[1..];
        }
    }
    made
}

fn quoted_for_shell(path: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in path {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}

impl Session {
    /// Runs the groups of a section one after another, after which it is complete.
    ///
    /// # Errors
    /// When the machinery fails, or the user wants no more.
    pub fn compete_all(&mut self, section: &str, groups: &[Group<'_>]) -> Result<(), Halt> {
        if self.section_mut(section)?.complete {
            return Ok(()); // what there was no time for stays skipped
        }
        self.check_time(groups)?;
        for group in groups {
            self.progress.expect(self.settings.runs * group.competitors.len(), group.bytes);
        }
        let end = self.deadline;
        for (number, group) in groups.iter().enumerate() {
            // Each group may take its part of the time that is left, so that all are measured, with fewer runs if need be.
            let share = group.work() / groups[number..].iter().map(Group::work).sum::<f64>();
            let turn = end.map(|end| Instant::now() + end.saturating_duration_since(Instant::now()).mul_f64(share));
            self.compete(section, group, turn)?;
        }
        Ok(self.section_done(section)?)
    }

    /// Whether there is time for each competitor to run once, even on a fast machine.
    ///
    /// # Errors
    /// If not.
    pub fn check_time(&self, groups: &[Group<'_>]) -> Result<(), String> {
        let Some(left) = self.time_left().filter(|_| self.settings.time_is_the_users) else { return Ok(()) };
        let least: f64 = groups.iter().map(Group::work).sum::<f64>() * QUICKEST;
        if least <= left.as_secs_f64() {
            return Ok(());
        }
        let needed = in_words(Duration::from_secs_f64(least));
        Err(format!(
            "there is no time to run everybody once: that takes {needed} at least; choose smaller sizes or more time"
        ))
    }

    /// Runs all competitors of a group as often as they have not been yet. Saves after each run. After `until` no further round
    /// begins, and after the session's deadline no run.
    fn compete(&mut self, section: &str, group: &Group<'_>, until: Option<Instant>) -> Result<(), Halt> {
        for competitor in &group.competitors {
            self.begin_case(section, group, competitor)?;
        }
        self.warm_up(section, group)?;
        let count = group.competitors.len();
        for round in 0..self.settings.runs {
            for turn in 0..count {
                // Who goes first pays for the others, so that is somebody else each time.
                let competitor = &group.competitors[(turn + round) % count];
                let case = self.case(section, group, competitor)?;
                let wanted = case.runs.len() <= round && matches!(case.outcome, Outcome::Unverified | Outcome::Right);
                if !wanted || (round > 0 && self.is_hopeless(section, group, competitor)?) {
                    self.progress.run_over(group.bytes, false);
                    continue;
                }
                if self.is_late() || (round > 0 && until.is_some_and(|until| Instant::now() >= until)) {
                    self.progress.run_over(group.bytes, false);
                    continue;
                }
                let words = format!("{}, run {} of {}", competitor.name, round + 1, self.settings.runs);
                self.progress.say(&format!("{section}, {}", group.name), &words);
                self.one_run(section, group, competitor)?;
                self.progress.run_over(group.bytes, true);
            }
        }
        self.end_group(section, group)?;
        Ok(())
    }

    /// A run of the base that does not count: the first pays for much that later ones find done.
    fn warm_up(&mut self, section: &str, group: &Group<'_>) -> Result<(), Halt> {
        let cases = &self.section_mut(section)?.cases;
        let begun = cases.iter().any(|case| case.group == group.name && !case.runs.is_empty());
        let Some(base) = group.competitors.iter().find(|one| one.base).filter(|_| !begun && !self.is_late()) else {
            return Ok(());
        };
        self.progress.say(&format!("{section}, {}", group.name), "warming up");
        let (folder, ended, _) = self.timed(group, base)?;
        self.halt_if_stopped()?;
        drop(ended);
        Ok(workspace::remove(&folder).map_err(|error| format!("cannot remove a copy: {}", words::of(&error)))?)
    }

    fn begin_case(&mut self, section: &str, group: &Group<'_>, competitor: &Competitor) -> Result<(), Halt> {
        if !self.results.environment.competitors.contains_key(&competitor.name)
            && let Some(version) = self.version_of(&competitor.how)
        {
            self.results.environment.competitors.insert(competitor.name.clone(), version);
        }
        let known = self.results.section(section).is_some_and(|section| {
            section.cases.iter().any(|case| case.group == group.name && case.competitor == competitor.name)
        });
        if !known {
            let case = Case {
                group: group.name.clone(),
                competitor: competitor.name.clone(),
                base: competitor.base,
                parameters: competitor.parameters.clone(),
                cache: Cache::Unknown,
                bytes: group.bytes,
                runs: Vec::new(),
                outcome: Outcome::Unverified,
                warnings: Vec::new(),
            };
            self.section_mut(section)?.cases.push(case);
        }
        Ok(())
    }

    fn case(&mut self, section: &str, group: &Group<'_>, competitor: &Competitor) -> Result<&mut Case, String> {
        let cases = &mut self.section_mut(section)?.cases;
        let found = cases.iter_mut().find(|case| case.group == group.name && case.competitor == competitor.name);
        found.ok_or_else(|| format!("the case of {} was not begun", competitor.name))
    }

    /// Whether its first run took so long that others are not worth it.
    fn is_hopeless(&mut self, section: &str, group: &Group<'_>, competitor: &Competitor) -> Result<bool, String> {
        let first = |case: &Case| case.runs.first().map(|run| run.durable);
        let own = first(self.case(section, group, competitor)?);
        let cases = &self.section_mut(section)?.cases;
        let base = cases.iter().find(|case| case.group == group.name && case.base).and_then(first);
        Ok(own.zip(base).is_some_and(|(own, base)| own > 1.0 && own > base * FAR_TOO_SLOW))
    }

    /// One timed run: the folder with the copy, how it ended, and in which state the source was.
    fn timed(&mut self, group: &Group<'_>, competitor: &Competitor) -> Result<(PathBuf, Ended, Cache), Halt> {
        if let Some(make) = group.make
            && !group.source.exists()
        {
            let made = make(&group.source, &self.stop);
            self.halt_if_stopped()?;
            made?;
        }
        if let Some((entries, bytes)) = group.entries {
            // Before anybody can take something away: whatever ends this process then, that is not removed.
            self.workspace.guard_source(&group.source, entries, bytes)?;
        }
        self.make_room(group)?;
        self.copies += 1;
        // In a folder of its own: who knows what else a competitor leaves beside its copy.
        let folder = self.workspace.path().join(format!("{RUN}{}", self.copies));
        fs::create_dir(&folder).map_err(|error| format!("cannot make a folder: {}", words::of(&error)))?;
        let place = self.opened_workspace()?;
        haul_sys::rustix::fs::syncfs(&place)
            .map_err(|errno| format!("cannot sync the destination: {}", words::of(&errno.into())))?;
        let touched = memory::warm(&self.own, group.bytes.saturating_mul(2));
        self.halt_if_stopped()?;
        touched?;
        let state = Cache::from(cache::prepare(&group.source, competitor.cache)?);
        self.load_program(&competitor.how);
        self.halt_if_stopped()?;
        let device = |name: &str| self.devices.get(name).map(PathBuf::as_path);
        let from = if self.results.environment.places.contains_key(SOURCE) { SOURCE } else { DIRECTORY };
        // Some seconds more than there are, so that a run can still end.
        let left = self.time_left().map_or(self.settings.timeout, |left| left + LENIENCE);
        let timeout = self.settings.timeout.min(left);
        let job = Job {
            commands: vec![competitor.how.command(self, &group.source, &folder.join("copy"))],
            place: &place,
            devices: (device(from), device(DIRECTORY)),
            timeout,
            output: true,
        };
        let ended = Ended::of(process::run(job, &self.workspace, &self.stop)?, timeout);
        self.source_is_there(group)?;
        Ok((folder, ended, state))
    }

    /// A competitor that moves, and does not copy, has the user's only copy.
    fn source_is_there(&self, group: &Group<'_>) -> Result<(), Halt> {
        if group.entries.is_none() || self.workspace.source_is_whole() {
            return Ok(());
        }
        self.workspace.keep()?;
        Err(Halt::Failed(format!(
            "{} is not what it was before the last run; whatever is missing is in {}, which is not removed",
            words::quoted(&group.source),
            words::quoted(self.workspace.path())
        )))
    }

    /// One timed run and its judgement.
    fn one_run(&mut self, section: &str, group: &Group<'_>, competitor: &Competitor) -> Result<(), Halt> {
        let (folder, ended, state) = self.timed(group, competitor)?;
        let outcome = match ended {
            Ended::Stopped => return Err(Halt::Stopped),
            Ended::Well(run, said) => return self.judge(section, group, competitor, &folder, (*run, said, state)),
            // It was the session's time that was over.
            Ended::TooLong(_) if self.is_late() => {
                return Ok(workspace::remove(&folder)
                    .map_err(|error| format!("cannot remove a copy: {}", words::of(&error)))?);
            }
            Ended::TooLong(why) => Outcome::TooLong(why),
            Ended::Badly(code, why) => match &competitor.how {
                How::Own(_) if code == Some(i32::from(one_copy::REFUSED)) => {
                    let why = why.split_once(": ").map_or(why.as_str(), |(_, rest)| rest);
                    Outcome::Refused(why.trim_start_matches("75: ").trim_start_matches("haul-lab: ").to_owned())
                }
                How::Words(_) | How::Line(_) if code.is_none() && why.starts_with("cannot run") => {
                    Outcome::Refused(why)
                }
                _ => Outcome::Failed(why),
            },
        };
        let case = self.case(section, group, competitor)?;
        case.outcome = outcome;
        // One that failed once has no times to be compared with.
        case.runs.clear();
        workspace::remove(&folder).map_err(|error| format!("cannot remove a copy: {}", words::of(&error)))?;
        Ok(self.save()?)
    }

    fn judge(
        &mut self,
        section: &str,
        group: &Group<'_>,
        competitor: &Competitor,
        folder: &Path,
        (mut run, said, state): (Run, String, Cache),
    ) -> Result<(), Halt> {
        if let How::Own(_) = competitor.how {
            run.reported =
                serde_json::from_str(&said).map_err(|error| format!("a copy reported no figures: {error}"))?;
        }
        let dest = folder.join("copy");
        let verdict = match group.judge {
            Some(judge) => judge(&group.source, &dest, competitor, &self.stop),
            None => verify(&group.source, &dest, group.metadata, &self.stop),
        };
        self.halt_if_stopped()?;
        if verdict.wrong.is_some() {
            // It may have filled the disk that the results go to.
            workspace::remove(folder).map_err(|error| format!("cannot remove a copy: {}", words::of(&error)))?;
        } else {
            cache::forget(&dest);
        }
        let wanted = self.settings.runs;
        let case = self.case(section, group, competitor)?;
        // Runs in two states are in none.
        case.cache = if case.runs.is_empty() || case.cache == state { state } else { Cache::Unknown };
        if let Some(why) = verdict.wrong {
            case.outcome = Outcome::Wrong(why);
            case.runs.clear();
        } else {
            case.outcome = Outcome::Right;
            case.runs.push(run);
        }
        case.warnings = warnings(case, wanted);
        Ok(self.save()?)
    }

    /// Removes older copies if there is no room for another one. They stay as long as they can: ext4 is slow in reusing what
    /// was just removed.
    fn make_room(&mut self, group: &Group<'_>) -> Result<(), Halt> {
        let needed = group.bytes.saturating_add(MORE);
        let old = self.copies_there().saturating_mul(group.bytes);
        let full = old.saturating_add(needed) > self.settings.space;
        if full || space::free(self.workspace.path())? < needed.saturating_mul(2) {
            self.remove_copies()?;
        }
        Ok(space::check(self.workspace.path(), needed, &group.name)?)
    }

    /// Copies that were not removed yet.
    fn copies_there(&self) -> u64 {
        let entries = fs::read_dir(self.workspace.path()).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().as_bytes().starts_with(RUN.as_bytes())).count() as u64
    }

    fn remove_copies(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot remove a copy: {}", words::of(&error));
        for entry in fs::read_dir(self.workspace.path()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().as_bytes().starts_with(RUN.as_bytes()) {
                workspace::remove(&entry.path()).map_err(failed)?;
            }
        }
        let place = self.opened_workspace()?;
        haul_sys::rustix::fs::syncfs(&place)
            .map_err(|errno| format!("cannot sync the destination: {}", words::of(&errno.into())))
    }

    /// Warnings, what was skipped, and the end of source and copies.
    fn end_group(&mut self, section: &str, group: &Group<'_>) -> Result<(), Halt> {
        let wanted = self.settings.runs;
        let mut late = Vec::new();
        for competitor in &group.competitors {
            let case = self.case(section, group, competitor)?;
            case.warnings = warnings(case, wanted);
            if case.runs.is_empty() && case.outcome == Outcome::Unverified {
                late.push(competitor.name.clone());
            }
        }
        if !late.is_empty() {
            let cases = &mut self.section_mut(section)?.cases;
            cases.retain(|case| !(case.group == group.name && late.contains(&case.competitor)));
            let who =
                if late.len() == group.competitors.len() { String::new() } else { format!(": {}", words::list(&late)) };
            self.skip(section, format!("the time was over for {}{who}", group.name))?;
        }
        self.save()?;
        self.remove_copies()?;
        if group.make.is_some() {
            workspace::remove(&group.source)
                .map_err(|error| format!("cannot remove a source: {}", words::of(&error)))?;
        }
        Ok(())
    }

    /// Brings a program into memory. Where nobody knows what it would do if it were started, that is only its file.
    fn load_program(&self, how: &How) {
        if self.version_of(how).is_some() {
            return;
        }
        let shell = matches!(how, How::Line(_)).then(|| OsString::from("sh"));
        for name in how.program(self).into_iter().chain(shell) {
            if let Some(path) = found_in_path(&name).and_then(|path| path.canonicalize().ok()) {
                cache::prepare(&path, Wanted::Warm).ok(); // it is no worse than any other cold program then
            }
        }
    }

    /// The first line of what a program says of its version, for programs that are known to do so and nothing else.
    fn version_of(&self, how: &How) -> Option<String> {
        let program = how.program(self)?;
        let name = Path::new(&program).file_name()?.to_str()?.to_owned();
        if !matches!(how, How::Own(_)) && !SAY_THEIR_VERSION.contains(&name.as_str()) {
            return None;
        }
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    }
}

/// Programs that print their version when asked for it with `--version`.
const SAY_THEIR_VERSION: &[&str] =
    &["cp", "dd", "tar", "rsync", "cpz", "xcp", "fcp", "qemu-img", "haul", "rclone", "install", "cat", "pv"];

/// Where a shell would find it.
fn found_in_path(name: &OsString) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_where_their_places_are_and_are_never_read_again() {
        let made = replaced(b"a {source}b{dest} {other}", b"{dest}", b"D");
        assert_eq!(String::from_utf8(made).unwrap(), "a {dest}bD {other}");
    }

    #[test]
    fn a_shell_gets_a_name_as_it_is() {
        let name = b"it's; rm -rf \"$HOME\" `x`\n";
        let line = [b"printf %s ".as_slice(), &quoted_for_shell(name)].concat();
        let output = haul_testbed::Command::new("sh").arg("-c").arg(OsString::from_vec(line)).output().unwrap();
        assert_eq!(output.stdout, name);
    }
}
