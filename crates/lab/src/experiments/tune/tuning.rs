//! One search: files of one size, cached or cold, from their making to what is to be said of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_io::options::DataOptions;
use haul_io::profile::{Place, SizeClass};
use haul_io::strategy::choose;
use haul_io::transfer::facts_of;
use haul_measure::cache::{self, State, Temperature};
use haul_measure::words;
use haul_measure::{space, workspace};

use super::bench::Bench;
use super::candidates::{Candidate, candidates};
use super::files::{self, Shape};
use super::judge::{self, Pair};
use super::names::{CONFIRMATION, DEFAULTS, NAME};
use super::search::{Trial, Trials, expected_runs, search};
use super::unit::Unit;
use crate::report::text::percent;
use crate::session::{Halt, Session};

/// Pairs of runs on fresh files.
const CONFIRM: usize = 9;
/// The part of the time that is for the search; the rest is for making files and confirming.
const FOR_SEARCH: f64 = 0.6;
/// Rounds are made of copies that take this long, if there is time for it: shorter ones show the clock's grain.
const LONG_ENOUGH: f64 = 1.0;

/// A first look that took less is worth a second one, in seconds.
const QUICK: f64 = 1.0;

#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It was not made, or says nothing: what is known of such files stays.
    Skipped(String),
    /// No setting beats the defaults.
    Nothing { why: String },
    /// This one does.
    Won {
        candidate: Candidate,
        /// On fresh files.
        gain: f64,
        /// Pairs of runs there.
        pairs: usize,
        /// That this is chance.
        chance: f64,
        /// On the files of the search.
        searched: f64,
    },
}

impl Fate {
    pub fn chosen(&self) -> String {
        match self {
            Fate::Skipped(_) => "not tuned".to_owned(),
            Fate::Nothing { .. } => DEFAULTS.to_owned(),
            Fate::Won { candidate, .. } => candidate.to_string(),
        }
    }

    pub fn why(&self) -> String {
        match self {
            Fate::Skipped(why) | Fate::Nothing { why } => why.clone(),
            Fate::Won { gain, pairs, chance, searched, .. } => format!(
                "{} times as fast on fresh files ({pairs} pairs, {} by chance); {} in the search",
                words::short(*gain),
                percent(*chance),
                words::short(*searched)
            ),
        }
    }
}

/// Whether files can be made to leave the page cache here.
pub fn can_be_cold(session: &Session) -> Result<bool, String> {
    let path = session.folder().join("look");
    let failed = words::cannot("write", &path);
    fs::write(&path, vec![7; 64 << 10]).map_err(failed)?;
    let state = cache::evict_all(&path)?;
    fs::remove_file(&path).map_err(failed)?;
    Ok(state == State::Evicted)
}

/// Searches for `share` of time, within `space` bytes.
pub fn tune(session: &mut Session, unit: &Unit, place: &Place, space: u64, share: Duration) -> Result<Fate, Halt> {
    let begun = Instant::now();
    let workshop = Workshop { unit, place, group: unit.words(), begun, share };
    let (each, least, most) = files::extent(unit.class);
    let fits = |count| {
        // A source and a copy.
        let needed = Shape { each, count }.room().saturating_mul(2);
        needed <= space && space::check(session.folder(), needed, "").is_ok()
    };
    if !fits(least) {
        return Ok(Fate::Skipped("there is too little space".to_owned()));
    }
    let most =
        (0..).map(|power| least << power).take_while(|count| *count <= most && fits(*count)).last().unwrap_or(least);
    let fate = workshop.tune(session, each, (least, most));
    for name in [SOURCE, FRESH] {
        let path = session.folder().join(name);
        workspace::remove(&path).map_err(words::cannot("remove", &path))?;
    }
    fate
}

const SOURCE: &str = "source";
const FRESH: &str = "fresh";

struct Workshop<'a> {
    unit: &'a Unit,
    place: &'a Place,
    group: String,
    begun: Instant,
    share: Duration,
}

impl Workshop<'_> {
    fn tune(&self, session: &mut Session, each: u64, (least, most): (u64, u64)) -> Result<Fate, Halt> {
        let mut shape = Shape { each, count: least };
        let source = self.make(session, SOURCE, shape)?;
        let past_cache = goes_past_the_cache(session, &source, self.unit).map_err(Halt::Failed)?;
        let mut candidates = candidates(self.unit.class, past_cache);
        let pilot = match self.pilot(session, &source, shape)? {
            Ok(pilot) => pilot,
            Err(why) => return Ok(Fate::Skipped(why)),
        };
        let time = self.left(FOR_SEARCH).as_secs_f64();
        let per_run = time / expected_runs(candidates.len()).max(1) as f64;
        let wished = LONG_ENOUGH.min(per_run) / pilot.max(1e-3);
        let mut expected = pilot;
        if wished >= 2.0 && most > least {
            let factor = 1_u64 << (wished.log2().floor() as u32).min(20);
            shape.count = least.saturating_mul(factor).min(most);
            expected = pilot * (shape.count / least) as f64;
            workspace::remove(&source).map_err(words::cannot("remove", &source))?;
            self.make(session, SOURCE, shape)?;
        }
        let time = self.left(FOR_SEARCH).as_secs_f64();
        while !candidates.is_empty() && expected_runs(candidates.len()) as f64 * expected > time {
            candidates.pop();
        }
        if candidates.is_empty() {
            return Ok(Fate::Skipped("there is too little time".to_owned()));
        }
        self.search(session, &candidates, shape)
    }

    fn search(&self, session: &mut Session, candidates: &[Candidate], shape: Shape) -> Result<Fate, Halt> {
        let source = session.folder().join(SOURCE);
        let names = (self.unit, self.place);
        let until = self.begun + self.share.mul_f64(FOR_SEARCH);
        let mut bench = Bench::new(session, names, (&source, shape), candidates, &self.group, until)?;
        let found = search(candidates.len(), &mut bench);
        let failure = bench.failure(0);
        bench.finish()?;
        if found.defaults_failed {
            let why = failure.unwrap_or_default();
            return Ok(Fate::Skipped(format!("haul's own choice failed: {why}")));
        }
        let Some(best) = found.best else {
            return Ok(match found.cut_short {
                true => Fate::Skipped("there is too little time".to_owned()),
                false => Fate::Nothing { why: "no setting makes a difference here".to_owned() },
            });
        };
        let (searched, pairs) = (found.gain(best), found.pairs(best));
        let candidate = candidates[best - 1];
        if found.winner.is_none() {
            let (gain, chance, count) = (words::short(searched), percent(judge::chance(pairs)), pairs.len());
            let why = format!("the best, {candidate}, was {gain} times as fast ({count} pairs, {chance} by chance)");
            // So few decide nothing, whatever they say.
            let undecided = found.cut_short && count < judge::FEWEST;
            return Ok(if undecided { Fate::Skipped(why) } else { Fate::Nothing { why } });
        }
        self.confirm(session, candidate, shape, searched)
    }

    /// The winner against the defaults, on files that it was not chosen on.
    fn confirm(&self, session: &mut Session, candidate: Candidate, shape: Shape, searched: f64) -> Result<Fate, Halt> {
        let source = session.folder().join(SOURCE);
        workspace::remove(&source).map_err(words::cannot("remove", &source))?;
        let source = self.make(session, FRESH, shape)?;
        let group = format!("{}{CONFIRMATION}", self.group);
        let names = (self.unit, self.place);
        let mut bench = Bench::new(session, names, (&source, shape), &[candidate], &group, self.begun + self.share)?;
        let pairs = pairs(&mut bench, CONFIRM);
        let failure = bench.failure(1);
        bench.finish()?;
        let (gain, chance) = (judge::gain(&pairs).unwrap_or(0.0), judge::chance(&pairs));
        if let Some(why) = failure {
            return Ok(Fate::Nothing { why: format!("{candidate} won the search, but then {why}") });
        }
        if pairs.len() < judge::FEWEST {
            let why = format!(
                "{candidate} was {} times as fast, but there was no time to confirm it",
                words::short(searched)
            );
            return Ok(Fate::Skipped(why));
        }
        if !judge::wins(&pairs) {
            let why = format!(
                "{candidate} was {} times as fast in the search, and {} times on fresh files ({} pairs, {} by chance): not \
                 written",
                words::short(searched),
                words::short(gain),
                pairs.len(),
                percent(chance)
            );
            return Ok(Fate::Nothing { why });
        }
        Ok(Fate::Won { candidate, gain, pairs: pairs.len(), chance, searched })
    }

    /// The defaults once: the seconds of a whole run, or why there is nothing to tune.
    fn pilot(&self, session: &mut Session, source: &Path, shape: Shape) -> Result<Result<f64, String>, Halt> {
        let names = (self.unit, self.place);
        let group = format!("{}, first look", self.group);
        let mut bench = Bench::new(session, names, (source, shape), &[], &group, self.begun + self.share)?;
        let mut trial = bench.run(0, 0);
        if matches!(trial, Trial::Right(_)) && bench.latest() < QUICK {
            // The first one pays for much that the others find done.
            trial = bench.run(0, 1);
        }
        let (whole, failure) = (bench.latest(), bench.failure(0));
        let shared = bench.runs(0).iter().any(|run| run.reported.get("bytes.shared").is_some_and(|bytes| *bytes > 0.0));
        bench.forget();
        bench.finish()?;
        Ok(match trial {
            Trial::Right(_) if shared => {
                Err("copies share extents with their sources here, and move no bytes".to_owned())
            }
            Trial::Right(_) | Trial::Idle => Ok(whole),
            Trial::NoTime => Err("there is too little time".to_owned()),
            Trial::Wrong => Err(format!("haul's own choice failed: {}", failure.unwrap_or_default())),
        })
    }

    fn make(&self, session: &mut Session, name: &str, shape: Shape) -> Result<PathBuf, Halt> {
        let path = session.folder().join(name);
        let seed = u64::from(name == FRESH) * 1_000_003 + self.unit.class.least() + 1;
        let text = format!("{} files of {}", shape.count, words::bytes(shape.each));
        session.progress.say(&format!("{}, {}", NAME, self.group), &format!("making {text}"));
        let stop = session.stop.clone();
        match files::make(&path, shape, seed, &stop) {
            Err(_) if stop.is_stopped() => Err(Halt::Stopped),
            made => made.map(|()| path).map_err(Halt::Failed),
        }
    }

    /// What is left of a part of the time.
    fn left(&self, part: f64) -> Duration {
        self.share.mul_f64(part).saturating_sub(self.begun.elapsed())
    }
}

/// So many pairs of runs of the defaults and the candidate 1, as far as time allows. Who goes first changes.
fn pairs(trials: &mut dyn Trials, count: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for round in 0..count {
        let order = if (round / 2 + round) % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut times = [0.0; 2];
        for candidate in order {
            let Trial::Right(time) = trials.run(candidate, round) else { return pairs };
            times[candidate] = time;
        }
        pairs.push((times[0], times[1]));
    }
    pairs
}

/// Whether haul sends such files to the device here, by itself.
fn goes_past_the_cache(session: &Session, source: &Path, unit: &Unit) -> Result<bool, String> {
    let failed = words::cannot("look at", source);
    let dest = session.folder().join("look");
    let source = File::open(source.join("d0/f0")).map_err(failed)?;
    let made = File::create(&dest).map_err(failed)?;
    let facts = facts_of(&source.into(), &made.into()).map_err(|errno| failed(errno.into()))?;
    fs::remove_file(&dest).map_err(failed)?;
    let mut facts = facts;
    if let Some(around) = &mut facts.around {
        around.cached = Some(if unit.state(0) == Temperature::Warm { facts.size } else { 0 });
    }
    let engines = choose(&facts, &DataOptions::default()).engines;
    Ok(unit.class >= SizeClass::Medium && engines.iter().any(|engine| !engine.caps().fills_page_cache()))
}
