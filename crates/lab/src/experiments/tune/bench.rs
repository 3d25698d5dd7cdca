//! The real machine for a search: copies in processes of their own, with a profile for each candidate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_io::profile::{Entry, Measured, Place, PlaceEntry, Profile, Setting, to_text};
use haul_measure::words;

use super::candidates::Candidate;
use super::files::Shape;
use super::names::{DEFAULTS, NAME};
use super::search::{Trial, Trials};
use super::unit::Unit;
use crate::measure::one_copy;
use crate::results::{Case, Outcome, Run};
use crate::session::{Halt, How, Session, time_copy};

/// A candidate that takes this many times as long as the defaults is ended.
const FAR_TOO_SLOW: f64 = 5.0;
/// But not before this.
const PATIENCE: Duration = Duration::from_secs(5);

/// A source, and the candidates that copy it.
pub struct Bench<'a> {
    session: &'a mut Session,
    unit: &'a Unit,
    source: PathBuf,
    shape: Shape,
    /// The first are the defaults.
    runners: Vec<(String, one_copy::Settings)>,
    /// Whether the profile of each has something to decide about every file. One about jobs has not.
    must_decide: Vec<bool>,
    cases: Vec<Case>,
    /// Seconds that a whole run took at most, with all that belongs to it.
    longest: BTreeMap<usize, f64>,
    /// Seconds that the latest whole run took.
    latest: f64,
    /// No run begins that would not end before this.
    until: Instant,
    halt: Option<Halt>,
}

impl<'a> Bench<'a> {
    /// `group` is the name in the results. The profiles of the candidates are written now. No run begins that would not end
    /// before `until`.
    pub fn new(
        session: &'a mut Session,
        (unit, place): (&'a Unit, &Place),
        (source, shape): (&Path, Shape),
        candidates: &[Candidate],
        group: &str,
        until: Instant,
    ) -> Result<Bench<'a>, String> {
        let usual = one_copy::Settings { reflink: true, ..one_copy::Settings::default() };
        let mut runners = vec![(DEFAULTS.to_owned(), usual.clone())];
        for (number, candidate) in candidates.iter().enumerate() {
            let path = session.folder().join(format!("profile-{number}"));
            fs::write(&path, to_text(&profile(unit, place, *candidate))).map_err(words::cannot("write", &path))?;
            let profile = path.to_str().ok_or("a profile needs a name in UTF-8")?;
            runners.push((
                candidate.to_string(),
                one_copy::Settings { profile: Some(profile.to_owned()), ..usual.clone() },
            ));
        }
        let case = |(number, (name, _)): (usize, &(String, one_copy::Settings))| Case {
            group: group.to_owned(),
            competitor: name.clone(),
            base: number == 0,
            parameters: [("class", unit.class.as_str()), ("settings", name)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            bytes: shape.bytes(),
            ..Case::default()
        };
        let cases = runners.iter().enumerate().map(case).collect();
        let decides = candidates.iter().map(|candidate| candidate.setting != Setting::default());
        Ok(Bench {
            session,
            unit,
            source: source.to_owned(),
            shape,
            must_decide: std::iter::once(false).chain(decides).collect(),
            runners,
            cases,
            longest: BTreeMap::new(),
            latest: f64::INFINITY,
            until,
            halt: None,
        })
    }

    /// Ends it: what was measured goes to the results.
    pub fn finish(self) -> Result<(), Halt> {
        let Bench { session, cases, halt, .. } = self;
        let ran = cases.into_iter().filter(|case| !case.runs.is_empty() || case.outcome != Outcome::Unverified);
        let section = session.section(NAME, &[])?;
        section.cases.extend(ran);
        session.add_details(NAME, Vec::new())?;
        halt.map_or(Ok(()), Err)
    }

    pub fn runs(&self, candidate: usize) -> &[Run] {
        self.cases.get(candidate).map_or(&[], |case| &case.runs)
    }

    /// Seconds that the latest whole run took: copy, comparison and all.
    pub fn latest(&self) -> f64 {
        self.latest
    }

    /// Right runs are none for the results.
    pub fn forget(&mut self) {
        self.cases.retain(|case| !matches!(case.outcome, Outcome::Right | Outcome::Unverified));
    }

    /// Why the copies of a candidate do not count.
    pub fn failure(&self, candidate: usize) -> Option<String> {
        match &self.cases.get(candidate)?.outcome {
            Outcome::Wrong(why) => Some(format!("the copy is WRONG: {why}")),
            Outcome::Failed(why) => Some(why.clone()),
            _ => None,
        }
    }

    fn has_time(&self, candidate: usize) -> bool {
        let known = self.longest.get(&candidate).or_else(|| self.longest.get(&0));
        let needed = known.copied().unwrap_or(0.0);
        Instant::now() + Duration::from_secs_f64(needed.min(86_400.0)) <= self.until
    }

    fn say(&mut self, candidate: usize, round: usize) {
        let (group, name) = (&self.cases[candidate].group, &self.runners[candidate].0);
        let (group, what) = (format!("{NAME}, {group}"), format!("{name}, round {}", round + 1));
        self.session.progress.say(&group, &what);
    }

    fn timeout(&self) -> Duration {
        let defaults = self.longest.get(&0).copied().unwrap_or(f64::INFINITY);
        let most = self.session.settings.timeout.as_secs_f64();
        Duration::from_secs_f64((defaults * FAR_TOO_SLOW).clamp(PATIENCE.as_secs_f64(), most.max(5.0)))
    }
}

impl Trials for Bench<'_> {
    fn run(&mut self, candidate: usize, round: usize) -> Trial {
        if self.halt.is_some() || !self.has_time(candidate) {
            return Trial::NoTime;
        }
        self.say(candidate, round);
        let started = Instant::now();
        let (state, timeout) = (self.unit.state(round), self.timeout());
        let how = How::Own(self.runners[candidate].1.clone());
        let timed = time_copy(self.session, &how, &self.source, state, (self.shape.bytes(), timeout));
        let case = &mut self.cases[candidate];
        match timed {
            Err(halt) => {
                self.halt = Some(halt);
                Trial::NoTime
            }
            Ok(Ok((run, cache))) => {
                let idle = self.must_decide[candidate]
                    && run.reported.get("files.by-profile").is_none_or(|files| *files == 0.0);
                let longest = self.longest.entry(candidate).or_insert(0.0);
                self.latest = started.elapsed().as_secs_f64();
                *longest = longest.max(self.latest);
                (case.cache, case.outcome) = (cache, Outcome::Right);
                let durable = run.durable;
                case.runs.push(run);
                if idle { Trial::Idle } else { Trial::Right(durable) }
            }
            Ok(Err(outcome)) => {
                (case.outcome, case.runs) = (outcome, Vec::new());
                Trial::Wrong
            }
        }
    }
}

/// What haul is to obey in a run of a candidate. Whatever it is tuned for, the files of the run are what it is about.
fn profile(unit: &Unit, place: &Place, candidate: Candidate) -> Profile {
    let Candidate { setting, jobs } = candidate;
    let entry = Entry { class: unit.class, source: None, setting, jobs, measured: Measured::default() };
    let directory = String::new();
    Profile {
        places: vec![PlaceEntry { directory, place: place.clone(), entries: vec![entry], ..PlaceEntry::default() }],
    }
}
