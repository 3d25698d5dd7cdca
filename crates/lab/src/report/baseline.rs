//! Two results of the same measurement, earlier and later.

use std::cmp::Ordering;

use haul_measure::stats;

use super::text::{self, Unit, count};
use super::{join, sections};
use crate::results::{Case, Outcome, Results, Section};
use crate::view::{Cell, Mark, Table, View};

/// What became of the cases that both have.
#[derive(Debug, Default)]
struct Tally {
    faster: usize,
    slower: usize,
    level: usize,
    unknown: usize,
}

/// What is new in `new` against `old`: a table for each section, and what only one of them has. `None` if they have no case
/// in common.
pub fn view(old: &Results, new: &Results) -> Option<View> {
    let mut view = View {
        name: "baseline".to_owned(),
        title: "Against the baseline".to_owned(),
        question: "Is anything faster or slower than it was?".to_owned(),
        ..View::default()
    };
    let mut tally = Tally::default();
    for section in &new.sections {
        match counterpart(old, section) {
            Some(earlier) => {
                view.tables.extend(table(earlier, section, &mut tally));
                view.not_measured.extend(only_in_one(earlier, section));
            }
            None => view.not_measured.push(format!("{} is not in the baseline.", sections::title(&section.name))),
        }
    }
    let gone = old.sections.iter().filter(|section| counterpart(new, section).is_none());
    view.not_measured
        .extend(gone.map(|section| format!("{} is only in the baseline.", sections::title(&section.name))));
    if view.tables.is_empty() {
        return None;
    }
    view.summary.push(format!(
        "Of {} that both have, {} faster than in the baseline of {}, {} slower, and {} without a difference that stands out.",
        count(tally.faster + tally.slower + tally.level + tally.unknown, "case"),
        are(tally.faster),
        text::date(old.started),
        are(tally.slower),
        are(tally.level)
    ));
    if tally.unknown > 0 {
        view.summary.push(format!("{} cannot be compared: too few runs, or no times.", count(tally.unknown, "case")));
    }
    let mut differences = join::differences(old, new);
    if old.program != new.program {
        differences.push(format!("haul-lab {} and not {}", new.program, old.program));
    }
    if !differences.is_empty() {
        view.warnings.push(format!("Not only the copiers may differ: {}.", differences.join("; ")));
    }
    Some(view)
}

fn are(number: usize) -> String {
    match number {
        0 => "none is".to_owned(),
        1 => "1 is".to_owned(),
        number => format!("{number} are"),
    }
}

/// The section of the same name, on the same place if there are several.
fn counterpart<'r>(results: &'r Results, section: &Section) -> Option<&'r Section> {
    let same = || results.sections.iter().filter(|known| known.name == section.name);
    same().find(|known| known.place == section.place).or_else(|| same().next())
}

fn find<'s>(section: &'s Section, case: &Case) -> Option<&'s Case> {
    section.cases.iter().find(|known| known.group == case.group && known.competitor == case.competitor)
}

fn table(old: &Section, new: &Section, tally: &mut Tally) -> Option<Table> {
    let pairs: Vec<(&Case, &Case)> = new.cases.iter().filter_map(|case| Some((find(old, case)?, case))).collect();
    let all = pairs.iter().flat_map(|(old, new)| [old, new]).filter(|case| case.is_ranked());
    let unit = Unit::of(all.flat_map(|case| case.runs.iter().map(|run| run.returned)));
    let heads = "group|tool|>baseline, UNIT|>now, UNIT|>now against it|verdict".replace("UNIT", unit.name);
    let rows = pairs.iter().map(|(old, new)| row(old, new, &unit, tally));
    Table::new(sections::title(&new.name), &heads, rows).if_any()
}

fn row(old: &Case, new: &Case, unit: &Unit, tally: &mut Tally) -> Vec<Cell> {
    let times = |case: &Case| case.figures(|run| run.returned);
    let time = |case: &Case| match stats::spread(&times(case)).filter(|_| case.is_ranked()) {
        Some(spread) => Cell::figure(unit.scaled(spread.median), unit.spread(&spread)),
        None => Cell::text(how(case)).marked(Mark::Bad),
    };
    let both = old.is_ranked() && new.is_ranked();
    let ratio = if both { stats::ratio(&times(new), &times(old)) } else { None };
    let (verdict, mark) = match ratio.map(|ratio| (ratio.interval.is_some(), ratio.side(1.0))) {
        Some((_, Some(Ordering::Less))) => {
            tally.faster += 1;
            ("faster", Mark::Best)
        }
        Some((_, Some(_))) => {
            tally.slower += 1;
            ("slower", Mark::Bad)
        }
        Some((true, None)) => {
            tally.level += 1;
            ("no difference that stands out", Mark::None)
        }
        Some((false, None)) | None => {
            tally.unknown += 1;
            ("cannot say", Mark::Faint)
        }
    };
    vec![
        Cell::text(&new.group),
        Cell::text(&new.competitor),
        time(old),
        time(new),
        Cell::ratio(ratio),
        Cell::text(verdict).marked(mark),
    ]
}

/// How a case without times ended, in a word or two.
fn how(case: &Case) -> &'static str {
    match case.outcome {
        Outcome::Wrong(_) => text::WRONG,
        Outcome::NotAsNamed(_) => "not as named",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
        Outcome::TooLong(_) => "took too long",
        Outcome::Right | Outcome::Unverified => "not run",
    }
}

fn only_in_one(old: &Section, new: &Section) -> Vec<String> {
    let name = |case: &Case| format!("{}, {}", case.competitor, case.group);
    let added = new.cases.iter().filter(|case| find(old, case).is_none());
    let gone = old.cases.iter().filter(|case| find(new, case).is_none());
    let added = added.map(|case| format!("{}: {} is not in the baseline.", sections::title(&new.name), name(case)));
    added
        .chain(gone.map(|case| format!("{}: {} is only in the baseline.", sections::title(&new.name), name(case))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::sections::test_support::{case, results, section, timed};
    use super::*;

    fn with(cases: &[(&str, f64)]) -> Results {
        let mut section = section("compare");
        section.cases = cases.iter().map(|(name, time)| case("g", name, 1000, &timed(*time))).collect();
        results(vec![section])
    }

    #[test]
    fn what_is_faster_slower_and_neither_is_told_and_what_only_one_has() {
        let old = with(&[("a", 2.0), ("b", 1.0), ("c", 1.0), ("gone", 1.0)]);
        let new = with(&[("a", 1.0), ("b", 2.0), ("c", 1.001), ("added", 1.0)]);
        let view = view(&old, &new).unwrap();
        let verdicts: Vec<&str> = view.tables[0].rows.iter().map(|row| row[5].text.as_str()).collect();
        assert_eq!(verdicts, ["faster", "slower", "no difference that stands out"]);
        let missing = view.not_measured.join(" ");
        assert!(
            missing.contains("added, g is not in the baseline") && missing.contains("gone, g is only in the baseline")
        );
    }

    #[test]
    fn a_wrong_copy_is_neither_faster_nor_slower() {
        let (old, mut new) = (with(&[("a", 2.0)]), with(&[("a", 1.0)]));
        new.sections[0].cases[0].outcome = Outcome::Wrong("it is not".to_owned());
        let view = view(&old, &new).unwrap();
        let row: Vec<&str> = view.tables[0].rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!((row[3], row[4], row[5]), ("WRONG COPY", "-", "cannot say"));
    }

    #[test]
    fn other_machines_are_told() {
        let (old, mut new) = (with(&[("a", 2.0)]), with(&[("a", 1.0)]));
        new.environment.kernel = "6.13".to_owned();
        assert_eq!(view(&old, &new).unwrap().warnings, ["Not only the copiers may differ: kernel 6.13 and not 6.12."]);
    }
}
