//! `haul-lab tune`: which settings win here? Writes a profile for haul.
//!
//! * Settings run against haul's own choice (the defaults), by turns and in the same rounds, so that what slows the machine down
//!   slows both. Most are dropped after a few runs ([`search`]).
//! * What counts is the durable time. A setting that only leaves more in memory returns sooner, and whoever syncs, unmounts or
//!   needs the memory pays for it; the time to return is kept in the results.
//! * Each copy is compared with its source. A wrong one takes its setting out and fails the command.
//! * What won is tried again on files that it was not chosen on ([`judge`]): the gain that is reported is that one. What does not win
//!   there, too, is not written.
//! * The settings are tried as haul will use them: by a profile that it obeys.

mod bench;
mod candidates;
mod files;
pub mod judge;
mod names;
pub mod search;
mod store;
mod tuning;
mod unit;
pub mod view;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use haul_io::probe;
use haul_io::profile::{Entry, Measured, Place, PlaceEntry, Searched, SizeClass};
use haul_measure::words::{self, quoted};

use crate::report::text;
use crate::results::{Body, Detail};
use crate::session::{Halt, Session};

use tuning::Fate;
use unit::Unit;

pub use names::{CONFIRMATION, DEFAULTS, NAME};
pub use store::usual as usual_profile;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Bytes that sources and copies may take.
    pub space: u64,
    /// The profile that is written; `None` where there is no usual one.
    pub profile: Option<PathBuf>,
    /// Nothing is written.
    pub dry_run: bool,
    pub classes: Vec<SizeClass>,
}

impl Request {
    /// Without the user's word, so long.
    pub(crate) const TIME: Duration = Duration::from_secs(300);
    /// The default of [`Request::space`].
    pub(crate) const SPACE: u64 = 6 << 30;

    /// Whether what is found can be written, which is to be known before it is looked for.
    ///
    /// # Errors
    /// If there is no usual profile, or the one that there is cannot be added to.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.destination()?.map_or(Ok(()), |path| store::load(&path).map(drop))
    }

    /// The profile that is written, if one is.
    fn destination(&self) -> Result<Option<PathBuf>, String> {
        match (&self.profile, self.dry_run) {
            (_, true) => Ok(None),
            (Some(path), false) => Ok(Some(path.clone())),
            (None, false) => Err("name the profile with --profile, or use --dry-run".to_owned()),
        }
    }
}

impl Default for Request {
    fn default() -> Request {
        Request { space: Request::SPACE, profile: None, dry_run: false, classes: SizeClass::ALL.to_vec() }
    }
}

pub fn run(session: &mut Session, request: &Request) -> Result<(), Halt> {
    let path = request.destination()?;
    if session.time_left().is_none() {
        session.deadline = Some(Instant::now() + Request::TIME);
    }
    let place = place_of(session)?;
    let space = words::bytes(request.space);
    let section = session.section(NAME, &[("space", space), ("place", place.id.clone())])?;
    // A search that was interrupted begins anew: half of its rounds say nothing.
    (section.cases, section.details, section.skipped) = (Vec::new(), Vec::new(), Vec::new());
    let units = Unit::all(&request.classes, tuning::can_be_cold(session)?);
    let (mut entries, mut searched) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for (number, unit) in units.iter().enumerate() {
        let left = u32::try_from(units.len() - number).unwrap_or(1);
        let share = session.time_left().unwrap_or_default() / left;
        let fate = tuning::tune(session, unit, &place, request.space, share)?;
        rows.push((unit.words(), fate.chosen(), fate.why()));
        if !matches!(fate, Fate::Skipped(_)) {
            searched.push((unit.class, unit.source()));
        }
        match fate {
            Fate::Skipped(why) => session.skip(NAME, format!("{}: {why}", unit.words()))?,
            Fate::Won { candidate, gain, pairs, .. } => {
                let measured = Measured {
                    date: today(),
                    on: machine(session),
                    gain: Some((gain * 1000.0).round() / 1000.0),
                    runs: u32::try_from(pairs).ok(),
                };
                let (setting, jobs) = (candidate.setting, candidate.jobs);
                entries.push(Entry { class: unit.class, source: unit.source(), setting, jobs, measured });
            }
            Fate::Nothing { .. } => {}
        }
    }
    let verdict = conclude(session, path, (place, entries), &searched)?;
    session.add_details(NAME, vec![Detail::new("chosen", Body::Facts { rows }), verdict])?;
    Ok(session.section_done(NAME)?)
}

fn place_of(session: &Session) -> Result<Place, String> {
    let failed = words::cannot("open", session.folder());
    let place = probe::place_of(session.folder()).map_err(failed)?;
    place.ok_or_else(|| "this storage has no unique identity, so a profile could not name it".to_owned())
}

/// Writes the profile, or says why not.
fn conclude(
    session: &Session,
    path: Option<PathBuf>,
    (place, entries): (Place, Vec<Entry>),
    searched: &[Searched],
) -> Result<Detail, String> {
    let won = entries.len();
    let what = match won {
        0 => "Nothing beat haul's own choice by more than the noise; haul keeps it.".to_owned(),
        1 => "For files of one size a setting beat haul's own choice, and did so again on fresh files.".to_owned(),
        won => format!("For files of {won} kinds a setting beat haul's own choice, and did so again on fresh files."),
    };
    let (name, then) = match path {
        None => ("not-written", "Nothing was written, as wished.".to_owned()),
        Some(path) => {
            let places = &session.results.environment.places;
            let directory = places.get(crate::session::DIRECTORY).map(|place| place.directory.clone());
            let directory = directory.unwrap_or_default();
            let entry = PlaceEntry { directory, place, entries, ..PlaceEntry::default() };
            match (won, store::add(&path, entry, searched)?) {
                (0, false) => ("nothing-won", "The profile is as it was.".to_owned()),
                (0, true) => {
                    ("nothing-won", format!("What {} said of such files on this storage was taken out.", quoted(&path)))
                }
                _ => (
                    "written",
                    format!("It is in {}, which haul reads where --profile says or by itself.", quoted(&path)),
                ),
            }
        }
    };
    Ok(Detail::new("verdict", Body::Verdict { name: name.to_owned(), sentences: vec![what, then] }))
}

/// What was measured on, for the profile.
fn machine(session: &Session) -> String {
    let machine = &session.results.environment;
    let haul = env!("CARGO_PKG_VERSION");
    format!("{}, {} cores, Linux {}, haul {haul}", machine.processor, machine.cores, machine.kernel)
}

fn today() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    text::date(now.as_secs()).split(' ').next().unwrap_or_default().to_owned()
}
