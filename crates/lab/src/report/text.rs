//! Words of others, made fit to be shown, and figures in the units that suit a column.

use std::cmp::Ordering;

use haul_measure::stats::{Ratio, Spread};
use haul_measure::words::short;

pub use crate::map::strip::printable as shown;
use crate::results::{Cache, Warning};

/// What a copy is called that is not like its source, wherever it is shown.
pub const WRONG: &str = "WRONG COPY";

/// The beginning of a text that has more letters.
pub fn clipped(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
    }
}

/// The unit of a column of times, and how many digits they have after the point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// `s`, `ms`, `us`.
    pub name: &'static str,
    factor: f64,
    digits: Digits,
}

/// How many digits figures that stand together have after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digits(usize);

impl Digits {
    /// The least of the figures has three digits that count, the most not more than four, if both is possible.
    pub fn of(values: impl Iterator<Item = f64>) -> Digits {
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            (least, most) = (least.min(value), most.max(value));
        }
        if most == 0.0 {
            return Digits(0);
        }
        let before = |value: f64| value.log10().floor();
        Digits((2.0 - before(least)).min(3.0 - before(most)).clamp(0.0, 6.0) as usize)
    }

    pub fn say(self, value: f64) -> String {
        format!("{value:.*}", self.0)
    }
}

impl Unit {
    /// The unit for all of these seconds: the longest is above 1 in it, the shortest has three digits where that makes sense.
    pub fn of(seconds: impl Iterator<Item = f64>) -> Unit {
        let seconds: Vec<f64> = seconds.filter(|time| time.is_finite()).collect();
        let (name, factor) = match seconds.iter().copied().fold(0.0, f64::max) {
            most if most >= 1.0 || most == 0.0 => ("s", 1.0),
            most if most >= 1e-3 => ("ms", 1e3),
            _ => ("us", 1e6),
        };
        Unit { name, factor, digits: Digits::of(seconds.iter().map(|time| time * factor)) }
    }

    pub fn say(&self, seconds: f64) -> String {
        self.digits.say(seconds * self.factor)
    }

    /// A time in it, as a number.
    pub(crate) fn scaled(&self, seconds: f64) -> f64 {
        seconds * self.factor
    }

    /// `1.23 (1.20 to 1.31)`, or the median alone where there is one run.
    pub(crate) fn spread(&self, spread: &Spread) -> String {
        match spread.count {
            1 => self.say(spread.median),
            _ => format!("{} ({} to {})", self.say(spread.median), self.say(spread.min), self.say(spread.max)),
        }
    }
}

/// A figure with three digits that count, however small it is.
pub fn significant(value: f64) -> String {
    Digits::of(std::iter::once(value)).say(value)
}

/// `0.80 (0.75 to 0.86)`; says so where there is no interval.
pub fn ratio(ratio: &Ratio) -> String {
    match ratio.interval {
        Some((least, most)) => format!("{:.2} ({least:.2} to {most:.2})", ratio.value),
        None => format!("{:.2} (no interval)", ratio.value),
    }
}

/// `0.80 times as long (0.75 to 0.86)`.
pub fn times_as(ratio: &Ratio, what: &str) -> String {
    match ratio.interval {
        Some((least, most)) => format!("{:.2} times {what} (between {least:.2} and {most:.2})", ratio.value),
        None => format!("{:.2} times {what} (too few runs for an interval)", ratio.value),
    }
}

/// What a ratio of two times says of the one against the other, by its interval alone.
pub fn verdict(ratio: &Ratio) -> &'static str {
    match (ratio.interval, ratio.side(1.0)) {
        (None, _) => "cannot be ranked against",
        (_, Some(Ordering::Less)) => "is faster than",
        (_, Some(_)) => "is slower than",
        (_, None) => "shows no significant difference to",
    }
}

/// A share as a percentage: `46 %`, `0.3 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// `1 case`, `3 cases`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A doubt in one word or two, for a table, and what it means: the rest of a sentence that begins with the cases.
pub fn doubt(warning: Warning) -> (&'static str, &'static str) {
    match warning {
        Warning::Noisy => ("noisy", "the runs differ by more than a quarter of their median"),
        Warning::TooShort => ("very short", "a run takes under 50 ms, where the grain of clock and kernel shows"),
        Warning::FewRuns => ("few runs", "there are fewer runs than were asked for"),
        Warning::CacheUnknown => ("cache unknown", "nobody knows whether the source was in memory"),
        Warning::NotVerified => ("copy not compared", "nobody has looked whether the copies are right"),
        Warning::OtherLoad => ("other load", "other programs or virtual machines used more than 5 % of a run's time"),
    }
}

/// The state of the source when the clock started.
pub fn cache(state: Cache) -> &'static str {
    match state {
        Cache::Warm => "warm",
        Cache::Dropped => "cold (dropped)",
        Cache::Evicted => "cold (evicted)",
        Cache::Unknown => "cache unknown",
    }
}

/// Seconds since 1970 as a day and a time: `2026-11-22 16:51 UTC`.
pub fn date(seconds: u64) -> String {
    // Years begin in March, so that leap days are at their ends, and come in eras of 400.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (year, day) = (year + era * 400 + u64::from(month >= 10), day - (153 * month + 2) / 5 + 1);
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", seconds % 86_400 / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_366_260), "2026-11-22 16:51 UTC");
        assert!(date(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn what_cannot_be_seen_is_shown_as_a_question_mark() {
        assert_eq!(shown("a\u{202e}b\u{1b}[31m\u{200b}\u{feff}\n"), "a?b?[31m???");
        assert_eq!(shown("Größe 漢字"), "Größe 漢字");
        assert_eq!(clipped("Größe", 3), "Grö...");
    }

    #[test]
    fn without_an_interval_nothing_is_said_of_a_difference() {
        let said = |interval| verdict(&Ratio { value: 0.25, interval });
        assert_eq!(said(None), "cannot be ranked against");
        assert_eq!(said(Some((0.9, 1.1))), "shows no significant difference to");
        assert_eq!([(0.2, 0.3), (1.1, 1.2)].map(|ends| said(Some(ends))), ["is faster than", "is slower than"]);
    }

    #[test]
    fn a_column_has_one_unit() {
        let unit = Unit::of([0.446, 1.667].into_iter());
        assert_eq!((unit.name, unit.say(0.446), unit.say(1.667)), ("s", "0.446".into(), "1.667".into()));
        let unit = Unit::of([137.504, 116.217].into_iter());
        assert_eq!(unit.say(137.504), "138");
        assert_eq!(Unit::of([0.0017, 0.0083].into_iter()).say(0.0017), "1.70");
        assert_eq!(Unit::of([0.00999, 0.702].into_iter()).say(0.702), "702.0");
        assert_eq!(Unit::of([].into_iter()).say(0.0), "0");
    }
}
