//! `mapped-write`: does writing through a mapping stall here?
//!
//! Four parts, each in a process of its own (`part`, `child`), one after the other: `msync` page by page, the `grid` of
//! file and record sizes, stores `under` write-back, and files that grow until something `stall`s. Then `verdict` says
//! what the figures mean, with the `facts` of the place.
//!
//! # Details
//!
//! | name | kind | what |
//! |---|---|---|
//! | `facts` | facts | what is known of the place |
//! | `msync` | samples, s | each whole round: `mapped` (stores and msync, page by page) and `written` (synchronous pwrite of pages) |
//! | `msync-cpu` | samples, s | CPU time of each whole round, `user` and `sys` of both |
//! | `msync-latency`, `written-latency` | latency | each of their pages |
//! | `grid-mapped-TEST`, `grid-written-TEST` | grid, KiB/s | by bytes of the file and of a record; nine tests (`grid::Test`) |
//! | `under-write-back` | samples, s | `store` and `rest`: stores to pages under write-back, and what was left of that after them |
//! | `stall` | latency | each fill of a step |
//! | `stall-extensions` | latency | each write of the last byte of a segment |
//! | `stall-worst` | samples, s | `fill`: the five longest |
//! | `stall-waits` | samples, s | fills over the threshold, by what they waited for (`waits::Wait::name`) |
//! | `stall-places` | facts | what the filling thread waited for, how often it was seen so, and in which functions of the kernel; missing if it never was |
//! | `stall-facts` | facts | what the kernel had to write, and counted, meanwhile |
//! | `left-out` | facts | parts that were not run, and why; missing if there are none |
//! | `verdict` | verdict | what it means |

mod child;
mod details;
mod facts;
mod grid;
mod latency;
mod msync;
pub(crate) mod part;
mod request;
mod scene;
mod stall;
mod under;
mod verdict;
mod view;
mod waits;
mod watch;

use std::path::Path;
use std::time::Duration;

use haul_measure::own::Own;
use haul_measure::{space, words};

use self::facts::Facts;
use crate::session::{Halt, Session};

pub use self::details::details;
pub use self::request::Request;
pub use self::verdict::{Measured, judge};
pub(crate) use self::view::view;

/// The section's name, and the command's.
pub(crate) const NAME: &str = "mapped-write";

/// What everything together takes at most, if nobody says otherwise.
pub(crate) const USUAL_TIME: Duration = Duration::from_secs(75);

/// Measures what of a session was not measured yet, and saves it there.
///
/// # Errors
/// When something failed, or the user wants no more.
pub(crate) fn run_in(session: &mut Session, request: &Request) -> Result<(), Halt> {
    session
        .section(NAME, &[("rounds", request.msync.rounds.to_string()), ("files", request.stall.files.to_string())])?;
    if session.results.section(NAME).is_some_and(|section| section.complete) {
        return Ok(());
    }
    let place = session.folder().join(NAME);
    std::fs::create_dir(&place).map_err(words::cannot("make", &place))?;
    let (own, stop) = (session.own.clone(), session.stop.clone());
    let progress = &mut session.progress;
    let mut report = |part: &str, done: f64| progress.say(NAME, &format!("{part}, {:.0} %", done * 100.0));
    let measured = measure(&own, request, &place, &mut report, &|| stop.is_stopped());
    session.halt_if_stopped()?;
    session.add_details(NAME, details(&measured?))?;
    Ok(session.section_done(NAME)?)
}

/// Measures below `place`, an empty directory, in which nothing is left. Each part is a process of `own`, which is haul-lab.
///
/// No file is made anywhere else, and no more than half of what is free is used. `report` hears which part is run and how much
/// of everything is done, from 0 to 1 by the times that the parts may take, a few times in a second; once `stop` says yes, what
/// runs is ended and its files are removed.
///
/// # Errors
/// A message: the place is no empty directory, something failed, the space ran out; `stopped` if it was.
pub fn measure(
    own: &Own,
    request: &Request,
    place: &Path,
    report: &mut dyn FnMut(&str, f64),
    stop: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    if std::fs::read_dir(place).map_err(words::cannot("read", place))?.next().is_some() {
        return Err(format!("{} is not empty", words::quoted(place)));
    }
    let mut request = request.clone();
    request.limit(space::free(place)? / 2);
    let mut measured = Measured { facts: Facts::of(place)?, skipped: request.too_small(), ..Measured::default() };
    let parts = request.parts();
    let whole: Duration = parts.iter().map(|(.., time)| *time).sum();
    let mut before = Duration::ZERO;
    for (name, task, time) in parts {
        if !measured.skipped.iter().any(|(part, _)| part == name) {
            let mut report = |done: f64| {
                let of_all = (before.as_secs_f64() + time.as_secs_f64() * done) / whole.as_secs_f64().max(1e-9);
                report(name, of_all.min(1.0));
            };
            report(0.0);
            measured.take(child::run(own, &task, place, &mut report, stop)?);
        }
        before += time;
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_empty_is_left_alone() {
        let dir = std::env::temp_dir().join(format!("haul-lab-mapped-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("precious"), "x").unwrap();
        let refused = measure(&Own::at("haul-lab"), &Request::default(), &dir, &mut |_, _| {}, &|| false);
        assert!(refused.is_err_and(|message| message.ends_with("is not empty")));
        assert_eq!(std::fs::read(dir.join("precious")).unwrap(), b"x");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
