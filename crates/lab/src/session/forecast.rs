//! Whether there is time to decide published claims, estimated before anything is measured.

use std::time::{Duration, Instant};

use haul_measure::cache::Temperature;
use haul_measure::stats::FEWEST;
use haul_measure::{words, workspace};

use super::competitor::{Competitor, How};
use super::group::Group;
use super::progress::in_words;
use super::state::{Halt, Session};
use super::timed::time_copy;
use crate::measure::controlled::{By, Method};
use crate::measure::{one_copy, sources};

/// So many runs, of so many bytes each.
pub type Runs = (usize, u64);

/// What intervals need of a group: the source is made, the base warms up, everybody runs once, and those whom claims are about
/// run in further rounds. Nothing if no claim is about it.
pub(crate) fn runs(competitors: &[Competitor], bytes: u64) -> Runs {
    let asked = competitors.iter().filter(|one| one.asked).count();
    let again = competitors.iter().filter(|one| one.asked || one.base).count();
    if asked == 0 { (0, bytes) } else { (2 + competitors.len() + (FEWEST - 1) * again, bytes) }
}

/// Those of all groups.
pub(crate) fn all(groups: &[Group<'_>]) -> Vec<Runs> {
    groups.iter().map(|group| runs(&group.competitors, group.bytes)).collect()
}

/// What a run costs here, with all that is done before and after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds of each run.
    pub run: f64,
    /// And of each of its bytes.
    pub byte: f64,
}

/// Sizes of the two files from whose copies it follows.
const SMALL: u64 = 1 << 20;
const LARGE: u64 = 32 << 20;

impl Pace {
    /// By a copy of a small file and one of a larger one.
    fn measured(session: &mut Session) -> Result<Pace, Halt> {
        let source = session.folder().join("forecast");
        let method = Some(Method::new(By::ReadWrite, 128 << 10));
        let how = How::Own(one_copy::Settings { method, ..one_copy::Settings::default() });
        let mut times = [0.0; 2];
        for (size, time) in [SMALL, LARGE].into_iter().zip(&mut times) {
            sources::file(&source, size, size, &session.stop)?;
            let (begun, timeout) = (Instant::now(), session.settings.timeout);
            time_copy(session, &how, &source, Temperature::Warm, (size, timeout))?.ok();
            *time = begun.elapsed().as_secs_f64();
            workspace::remove(&source).map_err(words::cannot("remove", &source))?;
        }
        let byte = (times[1] - times[0]).max(0.0) / (LARGE - SMALL) as f64;
        Ok(Pace { run: times[0], byte })
    }

    pub fn time(&self, runs: &[Runs]) -> Duration {
        let one = |(count, bytes): &Runs| *count as f64 * (self.run + self.byte * *bytes as f64);
        Duration::from_secs_f64(runs.iter().map(one).sum())
    }
}

/// Says on standard error which claims the time cannot decide, and the least time that can. `short` names those for a time, by the
/// pace that is measured for it; nothing is measured where runs are there already, which know better.
pub fn say(
    session: &mut Session,
    (option, time): (&str, Duration),
    short: impl Fn(&Pace, Duration) -> Vec<String>,
) -> Result<(), Halt> {
    let begun = session.results.sections.iter().any(|section| section.cases.iter().any(|case| !case.runs.is_empty()));
    if begun {
        return Ok(());
    }
    let pace = Pace::measured(session)?;
    session.halt_if_stopped()?;
    if let Some(text) = in_time((option, time), |time| short(&pace, time)) {
        eprintln!("haul-lab: {text}");
    }
    Ok(())
}

/// The longest time that is looked at.
const LONGEST: Duration = Duration::from_secs(7 * 86400);

/// What is said of a time that leaves somebody short. Times are tried in steps of 5 %, and said in whole minutes.
fn in_time((option, time): (&str, Duration), short: impl Fn(Duration) -> Vec<String>) -> Option<String> {
    let about = short(time);
    if about.is_empty() {
        return None;
    }
    let minutes = |time: Duration| time.as_secs().div_ceil(60).max(1);
    let longer = std::iter::successors(Some(time), |time| Some(time.mul_f64(1.05)).filter(|time| *time < LONGEST));
    let least = longer.map(minutes).find(|minutes| short(Duration::from_secs(60 * minutes)).is_empty());
    let advice = match least {
        Some(minutes) => format!("--{option}={minutes}m can"),
        None => "no time within a week can".to_owned(),
    };
    Some(format!(
        "{} cannot decide the published claims about {}: they need {FEWEST} rounds of those that they are about; {advice}",
        in_words(time),
        words::list(&about)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::How;

    #[test]
    fn an_interval_needs_everybody_once_and_those_who_are_asked_about_six_times() {
        let one = Competitor::new("one", Temperature::Cold, How::Line(String::new()));
        let group = [one.clone().into_base(), one.clone().into_asked(), one.clone(), one.clone()];
        assert_eq!(runs(&group, 7), (2 + 4 + 5 * 2, 7));
        assert_eq!(runs(&group[2..], 7), (0, 7));
        let pace = Pace { run: 0.5, byte: 0.25 };
        assert_eq!(pace.time(&[(10, 2), (1, 0)]), Duration::from_millis(10_500));
    }

    #[test]
    fn a_time_that_cannot_decide_names_the_least_that_can() {
        let short = |least: u64| {
            move |time: Duration| if time.as_secs() < least { vec!["in-kernel".to_owned()] } else { Vec::new() }
        };
        let said = |time: u64, least: u64| in_time(("time", Duration::from_secs(time)), short(least));
        assert_eq!(said(60, 60), None);
        let text =
            "60 s cannot decide the published claims about in-kernel: they need 6 rounds of those that they are about";
        assert_eq!(said(60, 61).unwrap(), format!("{text}; --time=2m can"));
        assert_eq!(said(60, 600).unwrap(), format!("{text}; --time=10m can"));
        assert_eq!(said(60, 1 << 40).unwrap(), format!("{text}; no time within a week can"));
    }
}
