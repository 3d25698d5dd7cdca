//! Competitors take turns: who runs when, what is made ready before, and what is kept of each run.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_measure::cache;
use haul_measure::stats::LOOKS;
use haul_measure::{space, turns, words, workspace};

use super::competitor::{Competitor, How};
use super::forecast::{self, Pace};
use super::group::Group;
use super::progress::in_words;
use super::state::{Halt, Session};
use super::timed::{Ended, time};
use crate::doubts;
use crate::measure::one_copy;
use crate::measure::verify::verify;
use crate::report::sections;
use crate::results::{Cache, Case, Outcome, Run, Warning};

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

struct Contest<'a> {
    session: &'a mut Session,
    section: &'a str,
    group: &'a Group<'a>,
}

/// Runs the groups of a section one after another, after which it is complete.
pub fn compete_all(session: &mut Session, section: &str, groups: &[Group<'_>]) -> Result<(), Halt> {
    if session.section_mut(section)?.complete {
        return Ok(()); // what there was no time for stays skipped
    }
    check_time(session, groups)?;
    if let Some(time) = session.settings.time {
        let runs = forecast::all(groups);
        let places = session.places();
        let short =
            |pace: &Pace, time| if pace.time(&runs) * places > time { vec![section.to_owned()] } else { Vec::new() };
        forecast::say(session, ("time", time), short)?;
    }
    for group in groups {
        session.progress.expect(session.settings.runs * group.competitors.len(), group.bytes);
    }
    let (end, begun) = (session.deadline, Instant::now());
    for (number, group) in groups.iter().enumerate() {
        // Each group may take its part of the time that is left, so that all are measured, with fewer runs if need be.
        let share = group.work() / groups[number..].iter().map(Group::work).sum::<f64>();
        let turn = end.map(|end| Instant::now() + end.saturating_duration_since(Instant::now()).mul_f64(share));
        Contest { session: &mut *session, section, group }.compete(turn)?;
    }
    decide(session, section, groups, begun.elapsed())?;
    Ok(session.section_done(section)?)
}

/// The next number of rounds after which claims are looked at; `None` if so many do not decide, which is level, or too noisy for
/// this machine.
fn next_look(rounds: usize) -> Option<usize> {
    LOOKS.into_iter().find(|look| *look > rounds)
}

/// Adds rounds of those whom published claims are about, as long as a claim is open and there is time. `took` is the time of
/// all rounds until now. Whoever looked after each round, and stopped when something stands out, would find it by chance.
fn decide(session: &mut Session, section: &str, groups: &[Group<'_>], took: Duration) -> Result<(), Halt> {
    let share = groups.iter().map(Group::asked).sum::<f64>() / groups.iter().map(Group::work).sum::<f64>().max(1.0);
    let runs = session.settings.runs;
    // The first round of all was the dearest, so this is rather too much.
    let mut round = took.mul_f64(share.min(1.0) / runs.max(1) as f64);
    let mut rounds = runs;
    while let Some(look) = next_look(rounds) {
        if share == 0.0 || sections::undecided(&session.results, (section, session.at)) == 0 {
            return Ok(());
        }
        for number in rounds..look {
            if session.time_left().is_none_or(|left| left < round) {
                return Ok(());
            }
            let begun = Instant::now();
            for group in groups.iter().filter(|group| group.asked() > 0.0) {
                Contest { session: &mut *session, section, group }.one_more_round(number)?;
            }
            round = begun.elapsed();
        }
        rounds = look;
    }
    Ok(())
}

/// Whether a competitor runs in a round, after a first one that took so long: where not all rounds of all fit into the time
/// that is left, only those run again whom published claims are about.
fn runs_again(competitor: &Competitor, first: Duration, (more, left): (usize, Option<Duration>)) -> bool {
    competitor.asked
        || competitor.base
        || left.is_none_or(|left| first * u32::try_from(more).unwrap_or(u32::MAX) <= left)
}

/// Whether there is time for each competitor to run once, even on a fast machine.
pub fn check_time(session: &Session, groups: &[Group<'_>]) -> Result<(), String> {
    let Some(left) = session.time_left().filter(|_| session.settings.time.is_some()) else { return Ok(()) };
    let least: f64 = groups.iter().map(Group::work).sum::<f64>() * QUICKEST;
    if least <= left.as_secs_f64() {
        return Ok(());
    }
    let needed = in_words(Duration::from_secs_f64(least));
    Err(format!(
        "there is no time to run everybody once: that takes {needed} at least; choose smaller sizes or more time"
    ))
}

impl Contest<'_> {
    /// Runs all competitors of a group as often as they have not been yet. Saves after each run. After `until` no further round
    /// begins, and after the session's deadline no run.
    fn compete(&mut self, until: Option<Instant>) -> Result<(), Halt> {
        for competitor in &self.group.competitors {
            self.begin_case(competitor)?;
        }
        self.warm_up()?;
        let count = self.group.competitors.len();
        let (begun, mut first) = (Instant::now(), Duration::ZERO);
        let mut left = None;
        for round in 0..self.session.settings.runs {
            if round == 1 {
                first = begun.elapsed();
                left = until.map(|until| until.saturating_duration_since(Instant::now()));
            }
            let more = (self.session.settings.runs - 1, left);
            for turn in turns::order(round, count) {
                let competitor = &self.group.competitors[turn];
                let case = self.case(competitor)?;
                let wanted = case.runs.len() <= round && matches!(case.outcome, Outcome::Unverified | Outcome::Right);
                let late = self.session.is_late() || (round > 0 && until.is_some_and(|until| Instant::now() >= until));
                let dropped = round > 0 && !runs_again(competitor, first, more);
                if !wanted || late || dropped || (round > 0 && self.is_hopeless(competitor)?) {
                    self.session.progress.run_over(self.group.bytes, false);
                    continue;
                }
                let words = format!("{}, run {} of {}", competitor.name, round + 1, self.session.settings.runs);
                self.session.progress.say(&format!("{}, {}", self.section, self.group.name), &words);
                self.one_run(competitor)?;
                self.session.progress.run_over(self.group.bytes, true);
            }
        }
        self.end_group()
    }

    /// Another run of each that a published claim is about.
    fn one_more_round(&mut self, round: usize) -> Result<(), Halt> {
        for turn in turns::order(round, self.group.competitors.len()) {
            let competitor = &self.group.competitors[turn];
            let right = self.case(competitor).is_ok_and(|case| case.outcome == Outcome::Right);
            // One that was interrupted here has run already.
            let wanted = self.case(competitor).is_ok_and(|case| case.runs.len() <= round);
            if competitor.asked && right && wanted && !self.session.is_late() {
                let words = format!("{}, run {}, to decide", competitor.name, round + 1);
                self.session.progress.say(&format!("{}, {}", self.section, self.group.name), &words);
                self.one_run(competitor)?;
            }
        }
        self.end_group()
    }

    /// A run of the base that does not count: the first pays for much that later ones find done.
    fn warm_up(&mut self) -> Result<(), Halt> {
        let cases = &self.session.section_mut(self.section)?.cases;
        let begun = cases.iter().any(|case| case.group == self.group.name && !case.runs.is_empty());
        let Some(base) =
            self.group.competitors.iter().find(|one| one.base).filter(|_| !begun && !self.session.is_late())
        else {
            return Ok(());
        };
        self.session.progress.say(&format!("{}, {}", self.section, self.group.name), "warming up");
        let (folder, ..) = self.timed(base)?;
        self.session.halt_if_stopped()?;
        Ok(remove(&folder)?)
    }

    fn begin_case(&mut self, competitor: &Competitor) -> Result<(), Halt> {
        if !self.session.results.environment.competitors.contains_key(&competitor.name)
            && let Some(version) = competitor.how.version(&self.session.own)
        {
            self.session.results.environment.competitors.insert(competitor.name.clone(), version);
        }
        if self.case(competitor).is_err() {
            let case = Case {
                group: self.group.name.clone(),
                competitor: competitor.name.clone(),
                base: competitor.base,
                parameters: competitor.parameters.clone(),
                bytes: self.group.bytes,
                ..Case::default()
            };
            self.session.section_mut(self.section)?.cases.push(case);
        }
        Ok(())
    }

    fn case(&mut self, competitor: &Competitor) -> Result<&mut Case, String> {
        let cases = &mut self.session.section_mut(self.section)?.cases;
        let found = cases.iter_mut().find(|case| case.group == self.group.name && case.competitor == competitor.name);
        found.ok_or_else(|| format!("the case of {} was not begun", competitor.name))
    }

    /// Whether its first run took so long that others are not worth it.
    fn is_hopeless(&mut self, competitor: &Competitor) -> Result<bool, String> {
        let first = |case: &Case| case.runs.first().map(|run| run.durable);
        let own = first(self.case(competitor)?);
        let cases = &self.session.section_mut(self.section)?.cases;
        let base = cases.iter().find(|case| case.group == self.group.name && case.base).and_then(first);
        Ok(own.zip(base).is_some_and(|(own, base)| own > 1.0 && own > base * FAR_TOO_SLOW))
    }

    /// One timed run: the folder with the copy, how it ended, and in which state the source was.
    fn timed(&mut self, competitor: &Competitor) -> Result<(PathBuf, Ended, Cache), Halt> {
        if let Some(make) = &self.group.make
            && !self.group.source.exists()
        {
            let made = make(&self.group.source, &self.session.stop);
            self.session.halt_if_stopped()?;
            made?;
        }
        if let Some((entries, bytes)) = self.group.entries {
            // Before anybody can take something away: whatever ends this process then, that is not removed.
            self.session.workspace.guard_source(&self.group.source, entries, bytes)?;
        }
        self.make_room()?;
        self.session.copies += 1;
        // In a folder of its own: who knows what else a competitor leaves beside its copy.
        let folder = self.session.workspace.path().join(format!("{RUN}{}", self.session.copies));
        fs::create_dir(&folder).map_err(|error| format!("cannot make a folder: {}", words::of(&error)))?;
        // Some seconds more than there are, so that a run can still end.
        let left = self.session.time_left().map_or(self.session.settings.timeout, |left| left + LENIENCE);
        let timeout = self.session.settings.timeout.min(left);
        let (source, dest) = (&self.group.source, folder.join("copy"));
        let prepare = || cache::prepare(source, competitor.cache);
        let (ended, state) = time(self.session, &competitor.how, (source, self.group.bytes, &dest), prepare, timeout)?;
        self.source_is_there()?;
        Ok((folder, ended, state))
    }

    /// A competitor that moves, and does not copy, has the user's only copy.
    fn source_is_there(&self) -> Result<(), Halt> {
        if self.group.entries.is_none() || self.session.workspace.source_is_whole() {
            return Ok(());
        }
        self.session.workspace.keep()?;
        Err(Halt::Failed(format!(
            "{} is not what it was before the last run; whatever is missing is in {}, which is not removed",
            words::quoted(&self.group.source),
            words::quoted(self.session.workspace.path())
        )))
    }

    fn one_run(&mut self, competitor: &Competitor) -> Result<(), Halt> {
        let (folder, ended, state) = self.timed(competitor)?;
        let outcome = match ended {
            Ended::Stopped => return Err(Halt::Stopped),
            Ended::Well(run) => match competitor.how.took_effect(&run) {
                Ok(()) => return self.judge(competitor, &folder, (*run, state)),
                Err(why) => Outcome::NotAsNamed(why),
            },
            // It was the session's time that was over.
            Ended::TooLong(_) if self.session.is_late() => {
                return Ok(remove(&folder)?);
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
        let case = self.case(competitor)?;
        case.outcome = outcome;
        // One that failed once has no times to be compared with.
        case.runs.clear();
        remove(&folder)?;
        Ok(self.session.save()?)
    }

    fn judge(&mut self, competitor: &Competitor, folder: &Path, (run, state): (Run, Cache)) -> Result<(), Halt> {
        let dest = folder.join("copy");
        let wrong = match self.group.judge {
            Some(judge) => judge(&self.group.source, &dest, competitor, &self.session.stop),
            None => verify(&self.group.source, &dest, self.group.metadata, &self.session.stop),
        };
        self.session.halt_if_stopped()?;
        if wrong.is_some() {
            // It may have filled the disk that the results go to.
            remove(folder)?;
        } else {
            cache::forget(&dest);
        }
        let wanted = self.session.settings.runs;
        let case = self.case(competitor)?;
        // Runs in two states are in none.
        case.cache = if case.runs.is_empty() || case.cache == state { state } else { Cache::Unknown };
        if let Some(why) = wrong {
            case.outcome = Outcome::Wrong(why);
            case.runs.clear();
        } else {
            case.outcome = Outcome::Right;
            case.runs.push(run);
        }
        case.warnings = warnings(case, wanted);
        Ok(self.session.save()?)
    }

    /// Removes older copies if there is no room for another one. They stay as long as they can: ext4 is slow in reusing what
    /// was just removed.
    fn make_room(&mut self) -> Result<(), Halt> {
        let needed = self.group.bytes.saturating_add(MORE);
        let old = (self.copies()?.len() as u64).saturating_mul(self.group.bytes);
        let full = old.saturating_add(needed) > self.session.settings.space;
        if full || space::free(self.session.workspace.path())? < needed.saturating_mul(2) {
            self.remove_copies()?;
        }
        Ok(space::check(self.session.workspace.path(), needed, &self.group.name)?)
    }

    /// Copies that were not removed yet.
    fn copies(&self) -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(self.session.workspace.path()).map_err(not_removed)?;
        let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(not_removed)?;
        entries.retain(|entry| entry.file_name().as_bytes().starts_with(RUN.as_bytes()));
        Ok(entries.iter().map(fs::DirEntry::path).collect())
    }

    fn remove_copies(&mut self) -> Result<(), String> {
        self.copies()?.iter().try_for_each(|copy| remove(copy))?;
        self.session.synced_workspace().map(drop)
    }

    /// Warnings, what was skipped, and the end of source and copies.
    fn end_group(&mut self) -> Result<(), Halt> {
        let wanted = self.session.settings.runs;
        let mut late = Vec::new();
        for competitor in &self.group.competitors {
            let case = self.case(competitor)?;
            case.warnings = warnings(case, wanted);
            if case.runs.is_empty() && case.outcome == Outcome::Unverified {
                late.push(competitor.name.clone());
            }
        }
        if !late.is_empty() {
            let cases = &mut self.session.section_mut(self.section)?.cases;
            cases.retain(|case| !(case.group == self.group.name && late.contains(&case.competitor)));
            let who = if late.len() == self.group.competitors.len() {
                String::new()
            } else {
                format!(": {}", words::list(&late))
            };
            self.session.skip(self.section, format!("the time was over for {}{who}", self.group.name))?;
        }
        self.session.save()?;
        self.remove_copies()?;
        if self.group.make.is_some() {
            workspace::remove(&self.group.source)
                .map_err(|error| format!("cannot remove a source: {}", words::of(&error)))?;
        }
        Ok(())
    }
}

fn remove(copy: &Path) -> Result<(), String> {
    workspace::remove(copy).map_err(not_removed)
}

fn not_removed(error: std::io::Error) -> String {
    format!("cannot remove a copy: {}", words::of(&error))
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
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_looked_at_after_three_numbers_of_rounds_at_most() {
        let after = |runs| std::iter::successors(next_look(runs), |look| next_look(*look)).collect::<Vec<usize>>();
        assert_eq!([3, 6, 10, 12, 30].map(after), [vec![6, 12, 30], vec![12, 30], vec![12, 30], vec![30], vec![]]);
    }

    #[test]
    fn who_is_not_asked_about_gives_way_where_time_is_short() {
        let asked = Competitor::new("asked", cache::Temperature::Cold, How::Line(String::new())).into_asked();
        let other = Competitor { asked: false, ..asked.clone() };
        let round = Duration::from_secs(10);
        for (left, expected) in [(None, true), (Some(20), true), (Some(19), false)] {
            let left = (2, left.map(Duration::from_secs));
            assert_eq!(
                (runs_again(&other, round, left), runs_again(&asked, round, left)),
                (expected, true),
                "{left:?}"
            );
        }
    }
}
