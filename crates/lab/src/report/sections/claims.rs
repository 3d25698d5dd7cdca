//! Published directions, and whether they are found here: by intervals, never by medians alone.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use haul_measure::stats::Ratio;
use serde::Deserialize;

use crate::report::text::{significant, times_as};
use crate::view::{Cell, Claim, NOT_MEASURED, Published, Table};

/// What was published of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Under(f64),
    Over(f64),
    /// It is 1, but for this share.
    Same(f64),
}

/// Whether what was found has the direction. `None` if there is no interval, or if it holds both answers.
pub fn judge(ratio: Option<&Ratio>, direction: Direction) -> Option<bool> {
    let ratio = ratio?;
    match direction {
        Direction::Under(level) => ratio.side(level).map(Ordering::is_lt),
        Direction::Over(level) => ratio.side(level).map(Ordering::is_gt),
        Direction::Same(tolerance) => ratio.is_same(tolerance),
    }
}

/// What others have published, as it stands in `published.json`.
#[derive(Debug, Deserialize)]
pub struct Source {
    by: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    heads: String,
    /// A name, and its figures.
    #[serde(default)]
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    pub claims: Vec<Said>,
}

/// A claim of a ratio: what was published, and what is said with the ratio that was found.
#[derive(Debug, Deserialize)]
pub struct Said {
    says: String,
    /// `the copy through the mapping takes`; `{}` stands for the place where it was looked at.
    #[serde(default)]
    found: String,
    #[serde(default)]
    what: String,
    /// None is in the file where more than a ratio decides.
    direction: Option<Direction>,
}

impl Source {
    /// What was published of the subject of a section.
    pub fn of(section: &str) -> Source {
        // A test reads the file for each section that asks for it.
        let mut all: BTreeMap<String, Source> =
            serde_json::from_str(include_str!("published.json")).expect("the file is part of the program");
        all.remove(section).expect("the section is in the file")
    }

    pub fn table(&self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        Table::new(&self.title, &self.heads, rows)
    }

    pub(crate) fn with(self, table: Table, claims: Vec<Claim>) -> Published {
        Published { by: self.by, table, claims }
    }

    /// The claims with the ratios that were found, in their order.
    pub(crate) fn judged(&self, ratios: impl IntoIterator<Item = Option<Ratio>>) -> Vec<Claim> {
        self.claims.iter().zip(ratios).map(|(said, ratio)| said.judged("", ratio)).collect()
    }
}

impl Said {
    pub(crate) fn judged(&self, place: &str, ratio: Option<Ratio>) -> Claim {
        let found = self.found.replace("{}", place);
        let here = ratio.map(|ratio| format!("{found} {}.", times_as(&ratio, &self.what)));
        self.decided(here, self.agrees(ratio))
    }

    pub(crate) fn agrees(&self, ratio: Option<Ratio>) -> Option<bool> {
        judge(ratio.as_ref(), self.direction?)
    }

    /// The same with other words, if there are any.
    pub(crate) fn decided(&self, here: Option<String>, agrees: Option<bool>) -> Claim {
        let here = here.unwrap_or_else(|| NOT_MEASURED.to_owned());
        Claim { says: self.says.clone(), here, agrees }
    }
}

/// Their figures, each with ours behind it.
pub fn beside<'f>(
    theirs: &'f [Option<f64>],
    ours: impl IntoIterator<Item = Option<f64>> + 'f,
) -> impl Iterator<Item = Cell> {
    let pair = |(theirs, ours): (&Option<f64>, Option<f64>)| {
        [Cell::of(*theirs, |value| value.to_string()), Cell::of(ours, significant)]
    };
    theirs.iter().zip(ours).flat_map(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(least: f64, most: f64) -> Ratio {
        Ratio { value: f64::midpoint(least, most), interval: Some((least, most)) }
    }

    #[test]
    fn a_direction_agrees_only_with_its_whole_interval() {
        let judged = |least, most, direction| judge(Some(&ratio(least, most)), direction);
        assert_eq!(judged(0.7, 0.9, Direction::Under(1.0)), Some(true));
        assert_eq!(judged(0.7, 1.1, Direction::Under(1.0)), None);
        assert_eq!(judged(1.1, 1.2, Direction::Under(1.0)), Some(false));
        assert_eq!(judged(1.1, 1.2, Direction::Over(1.0)), Some(true));
        assert_eq!(judged(0.97, 1.02, Direction::Same(0.1)), Some(true));
        assert_eq!(judge(None, Direction::Over(1.0)), None);
        assert_eq!(judge(Some(&Ratio { value: 0.1, interval: None }), Direction::Under(1.0)), None);
    }
}
