//! `mapped-write`: does writing through a mapping stall here?
//!
//! Four parts, each in a process of its own ([`part`], [`child`]), one after the other: [`msync`] page by page, the [`grid`] of
//! file and record sizes, stores [`under`] write-back, and files that grow until something [`stall`]s. Then [`verdict`] says
//! what the figures mean, with the [`facts`] of the place.
//!
//! # Details
//!
//! | name | kind | what |
//! |---|---|---|
//! | `facts` | facts | what is known of the place |
//! | `msync` | samples, s | each whole round: `mapped` (stores and msync, page by page) and `written` (synchronous pwrite of pages) |
//! | `msync-latency`, `written-latency` | latency | each of their pages |
//! | `grid-mapped-TEST`, `grid-written-TEST` | grid, KiB/s | by bytes of the file and of a record; nine tests ([`grid::Test`]) |
//! | `under-write-back` | samples, s | `store` and `rest`: stores to pages under write-back, and what was left of that after them |
//! | `stall` | latency | each fill of a step |
//! | `stall-extensions` | latency | each write of the last byte of a segment |
//! | `stall-worst` | samples, s | `fill`: the five longest |
//! | `stall-waits` | samples, s | fills over the threshold, by what they waited for ([`waits::Wait::name`]) |
//! | `stall-places` | facts | what the filling thread waited for, how often it was seen so, and in which functions of the kernel; missing if it never was |
//! | `stall-facts` | facts | what the kernel had to write, and counted, meanwhile |
//! | `left-out` | facts | parts that were not run, and why; missing if there are none |
//! | `verdict` | verdict | what it means |

pub mod chance;
pub mod child;
pub mod facts;
pub mod grid;
pub mod latency;
pub mod msync;
pub mod part;
pub mod saved;
pub mod stall;
pub mod under;
pub mod verdict;
pub mod view;
pub mod waits;
pub mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_measure::words;
use serde::{Deserialize, Serialize};

use self::facts::Facts;
use self::part::{Answer, Task};
use self::verdict::Evidence;
use crate::results::Detail;
use crate::session::{Halt, Session};

pub use self::view::view;

/// The section's name, and the command's.
pub const NAME: &str = "mapped-write";

/// The name of the part of this program that measures one of the four.
pub const PART: &str = "mapped-write-part";

/// What everything together takes at most, if nobody says otherwise.
pub const USUAL_TIME: Duration = Duration::from_secs(75);

/// Measures what of a session was not measured yet, and saves it there.
///
/// # Errors
/// When something failed, or the user wants no more.
pub fn run_in(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session
        .section(NAME, &[("rounds", request.msync.rounds.to_string()), ("files", request.stall.files.to_string())])?;
    if session.results().section(NAME).is_some_and(|section| section.complete) {
        return Ok(());
    }
    let place = session.workspace().join(NAME);
    std::fs::create_dir(&place)
        .map_err(|error| format!("cannot make {}: {}", words::quoted(&place), words::of(&error)))?;
    let request = Request { program: Some(session.own().path().to_path_buf()), ..request.clone() };
    let stop = session.stop().clone();
    let progress = session.progress();
    let mut report = |now: Progress| progress.say(NAME, &format!("{}, {:.0} %", now.part, now.of_all * 100.0));
    let details = run(&request, &place, &mut report, &|| stop.is_stopped());
    if stop.is_stopped() {
        return Err(Halt::Stopped);
    }
    session.add_details(NAME, details?)?;
    Ok(session.section_done(NAME)?)
}

/// What is to be measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// haul-lab, to be started once for each part. `None`: the program of this process.
    pub program: Option<PathBuf>,
    /// Page by page: 100 rounds of 512 KiB, within 20 s.
    pub msync: msync::Settings,
    /// Files from 64 KiB to 32 MiB, records from 4 KiB to 2 MiB, within 64 MiB and 25 s.
    pub grid: grid::Settings,
    /// Stores to pages under write-back: 20 times with 8 MiB, within 5 s.
    pub under: under::Settings,
    /// 50 files that grow to 2 GiB together, within 25 s.
    pub stall: stall::Settings,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// `msync`, `grid`, `under` or `stall`.
    pub part: &'static str,
    /// How much of this part is done, from 0 to 1.
    pub done: f64,
    /// How much of everything, by the times that the parts may take.
    pub of_all: f64,
}

/// Everything that was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// What is known of the place.
    pub facts: Facts,
    /// Page by page.
    pub msync: Option<msync::Measured>,
    /// The grid.
    pub grid: Option<grid::Measured>,
    /// Stores to pages under write-back.
    pub under: Option<under::Measured>,
    /// Files that grow.
    pub stall: Option<stall::Measured>,
    /// A part and why it was not run.
    pub skipped: Vec<(String, String)>,
}

impl Request {
    /// The usual one, made to fit into a time and a space: each part takes its share of the time (3, 4, 1 and 4 of 12), and
    /// no files take more than the space together. Nothing gets longer or larger than usual.
    #[must_use]
    pub fn within(time: Duration, space: u64) -> Request {
        let mut request = Request::default();
        let of = |shares: u32, usual: Duration| usual.min(time * shares / 12);
        request.msync.time = of(3, request.msync.time);
        request.grid.time = of(4, request.grid.time);
        request.under.time = of(1, request.under.time);
        request.stall.time = of(4, request.stall.time);
        request.limit(space);
        request
    }

    /// No files take more than the space together.
    fn limit(&mut self, space: u64) {
        self.grid.space = self.grid.space.min(space);
        self.under.size = self.under.size.min(space);
        self.msync.size = self.msync.size.min(space / 2);
        self.stall.space = self.stall.space.min(space);
    }

    /// The parts with the times that they may take.
    fn parts(&self) -> [(&'static str, Task, Duration); 4] {
        [
            ("msync", Task::Msync(self.msync.clone()), self.msync.time),
            ("grid", Task::Grid(self.grid.clone()), self.grid.time),
            ("under", Task::Under(self.under.clone()), self.under.time),
            ("stall", Task::Stall(self.stall.clone()), self.stall.time),
        ]
    }
}

/// Measures below `place`, an empty directory, in which nothing is left: the details of the section, in their order.
///
/// No file is made anywhere else, and no more than half of what is free is used. `report` hears how far it is, a few times in
/// a second; once `stop` says yes, what runs is ended and its files are removed.
///
/// # Errors
/// A message: the place is no empty directory, something failed, the space ran out; `stopped` if it was.
pub fn run(
    request: &Request,
    place: &Path,
    report: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Detail>, String> {
    measure(request, place, report, stop).map(|measured| measured.details())
}

/// The same, before it is made ready to be saved.
///
/// # Errors
/// As above.
pub fn measure(
    request: &Request,
    place: &Path,
    report: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    let cannot =
        |what: &str, error: std::io::Error| format!("cannot {what} {}: {}", words::quoted(place), words::of(&error));
    if std::fs::read_dir(place).map_err(|error| cannot("read", error))?.next().is_some() {
        return Err(format!("{} is not empty", words::quoted(place)));
    }
    let program = match &request.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|error| format!("cannot find this program: {}", words::of(&error)))?,
    };
    let mut request = request.clone();
    request.limit(part::free_bytes(place).map_err(|error| cannot("look at", error))? / 2);
    let mut measured = Measured {
        facts: Facts::of(place).map_err(|error| cannot("look at", error))?,
        skipped: request.too_small(),
        ..Measured::default()
    };
    let parts = request.parts();
    let whole: Duration = parts.iter().map(|(.., time)| *time).sum();
    let mut before = Duration::ZERO;
    for (name, task, time) in parts {
        if !measured.skipped.iter().any(|(part, _)| part == name) {
            let mut report = |done: f64| {
                let of_all = (before.as_secs_f64() + time.as_secs_f64() * done) / whole.as_secs_f64().max(1e-9);
                report(Progress { part: name, done, of_all: of_all.min(1.0) });
            };
            report(0.0);
            measured.take(child::run(&program, &task, place, &mut report, stop)?);
        }
        before += time;
    }
    Ok(measured)
}

impl Request {
    /// Parts for which there is no space, and parts that are to take no time.
    fn too_small(&self) -> Vec<(String, String)> {
        let least = [
            ("msync", self.msync.size, 64 << 10, self.msync.time),
            ("grid", self.grid.space, 128 << 10, self.grid.time),
            ("under", self.under.size, 64 << 10, self.under.time),
            ("stall", self.stall.space, self.stall.segment, self.stall.time),
        ];
        let why = |(name, space, least, time): (&str, u64, u64, Duration)| {
            let why = match (time.is_zero(), space < least) {
                (true, _) => "no time was given to it".to_owned(),
                (_, true) => format!("it needs {}, and may use {}", words::bytes(least), words::bytes(space)),
                _ => return None,
            };
            Some((name.to_owned(), why))
        };
        least.into_iter().filter_map(why).collect()
    }
}

impl Measured {
    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Msync(measured) => self.msync = Some(measured),
            Answer::Grid(measured) => {
                self.skipped.extend(measured.skipped.iter().map(|why| ("grid".to_owned(), why.clone())));
                self.grid = Some(measured);
            }
            Answer::Under(measured) => self.under = Some(measured),
            Answer::Stall(measured) => self.stall = Some(measured),
        }
    }

    /// What it means.
    pub fn verdict(&self) -> verdict::Verdict {
        verdict::judge(Evidence {
            facts: Some(&self.facts),
            msync: self.msync.as_ref(),
            grid: self.grid.as_ref(),
            under: self.under.as_ref(),
            stall: self.stall.as_ref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_request_fits_into_a_time_and_a_space() {
        let request = Request::within(Duration::from_secs(60), 100 << 20);
        let times = [request.msync.time, request.grid.time, request.under.time, request.stall.time];
        assert_eq!(times.map(|time| time.as_secs()), [15, 20, 5, 20]);
        assert_eq!((request.stall.space, request.grid.space), (100 << 20, 64 << 20));
        assert_eq!(Request::within(Duration::from_secs(3600), u64::MAX), Request::default());
    }

    #[test]
    fn parts_without_space_or_time_are_skipped_and_named() {
        let request = Request::within(Duration::from_secs(12), 1 << 20);
        let skipped = request.too_small();
        assert_eq!(skipped.len(), 1);
        assert_eq!(skipped[0], ("stall".to_owned(), "it needs 4 MiB, and may use 1 MiB".to_owned()));
        let skipped = Request::within(Duration::ZERO, 1 << 30).too_small();
        assert_eq!(skipped.len(), 4);
    }

    #[test]
    fn a_place_that_is_not_empty_is_left_alone() {
        let dir = std::env::temp_dir().join(format!("haul-lab-mapped-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("precious"), "x").unwrap();
        let refused = run(&Request::default(), &dir, &mut |_| {}, &|| false);
        assert!(refused.is_err_and(|message| message.ends_with("is not empty")));
        assert_eq!(std::fs::read(dir.join("precious")).unwrap(), b"x");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
