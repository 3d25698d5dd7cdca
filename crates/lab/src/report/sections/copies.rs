//! What all sections of timed copies have: which tool was how fast, at what cost, and which figures are doubtful.

use std::collections::BTreeMap;

use haul_measure::stats::{self, Ratio};
use haul_measure::words;

use crate::doubts;
use crate::report::text::{self, Unit, WRONG, count, doubt, doubt_at_length};
use crate::results::{Case, Outcome, Results, Run, Section, Warning};
use crate::view::{Bar, BarGroup, Cell, Chart, Column, Mark, Table};

/// The cases by group, in the order in which groups are first met.
pub fn groups(section: &Section) -> Vec<(&str, Vec<&Case>)> {
    let mut groups: Vec<(&str, Vec<&Case>)> = Vec::new();
    for case in &section.cases {
        match groups.iter_mut().find(|(name, _)| *name == case.group) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((&case.group, vec![case])),
        }
    }
    groups
}

/// The one that the others of a group are compared with, if it has times.
pub fn base<'c>(cases: &[&'c Case]) -> Option<&'c Case> {
    cases.iter().copied().find(|case| case.base && case.is_ranked())
}

/// The one of this name, if it has times.
pub fn find<'c>(cases: &[&'c Case], competitor: &str) -> Option<&'c Case> {
    cases.iter().copied().find(|case| case.competitor == competitor && case.is_ranked())
}

/// A figure of a run, in seconds.
pub type Figure = fn(&Run) -> f64;

/// Until the program has ended.
pub fn returned(run: &Run) -> f64 {
    run.returned
}

/// CPU time in the kernel.
pub fn system(run: &Run) -> f64 {
    run.system
}

/// CPU time.
pub fn processor(run: &Run) -> f64 {
    run.user + run.system
}

/// How many times one case's figure is another's.
pub fn ratio(of: Option<&Case>, base: Option<&Case>, figure: Figure) -> Option<Ratio> {
    stats::ratio(&of?.figures(figure), &base?.figures(figure))
}

/// The median of a figure.
pub fn median(case: &Case, figure: impl Fn(&Run) -> f64) -> Option<f64> {
    stats::median(&case.figures(figure))
}

/// The median of a figure that not every run has.
pub fn median_of_some(case: &Case, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    stats::median(&case.runs.iter().filter_map(figure).collect::<Vec<_>>())
}

/// The doubts about a case: those that were noted, and those that its runs show.
pub fn doubts(case: &Case) -> Vec<Warning> {
    let mut doubts = case.warnings.clone();
    doubts.extend(doubts::warnings(&case.runs, 0));
    doubts.sort_unstable();
    doubts.dedup();
    doubts
}

/// The quickest of a group, and those behind it until one stands out from it: none of them is better than another for
/// certain.
pub fn best<'c>(cases: &[&'c Case], figure: Figure) -> Vec<&'c Case> {
    let time = |case: &Case| median(case, figure).unwrap_or(f64::INFINITY);
    let mut ranked: Vec<&Case> = cases.iter().copied().filter(|case| case.is_ranked()).collect();
    ranked.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let Some(quickest) = ranked.first().copied() else { return Vec::new() };
    let longest = stats::spread(&quickest.figures(figure)).map_or(f64::INFINITY, |spread| spread.max);
    let level = |case: &&Case| {
        if std::ptr::eq(*case, quickest) {
            return true;
        }
        // Where no run was as quick as any of the quickest, no interval needs to be drawn.
        if stats::spread(&case.figures(figure)).is_none_or(|spread| spread.min > longest) {
            return false;
        }
        let ratio = ratio(Some(case), Some(quickest), figure);
        ratio.and_then(|ratio| ratio.interval).is_some_and(|(least, most)| least <= 1.0 && most >= 1.0)
    };
    ranked.into_iter().take_while(level).collect()
}

/// One table for each group: times, rates, ratios, doubts.
pub fn tables(section: &Section) -> Vec<Table> {
    groups(section).into_iter().map(|(name, cases)| times(name, &cases)).collect()
}

fn times(name: &str, cases: &[&Case]) -> Table {
    let ranked = || cases.iter().filter(|case| case.is_ranked());
    let all = ranked().flat_map(|case| case.runs.iter().flat_map(|run| [run.returned, run.durable]));
    let unit = Unit::of(all);
    let base = base(cases);
    let quickest = best(cases, returned);
    let soonest = best(cases, |run| run.durable);
    let mut columns = vec![
        Column::words("tool"),
        Column::figures(format!("returned, {}", unit.name)),
        Column::figures("against base"),
        Column::figures(format!("durable, {}", unit.name)),
        Column::figures("MB/s"),
        Column::figures("runs"),
        Column::words("notes"),
    ];
    // Where everybody was run as often, one line says it.
    let mut counts: Vec<usize> = ranked().map(|case| case.runs.len()).collect();
    counts.dedup();
    let note = match counts[..] {
        [one] => {
            columns.remove(RUNS);
            Some(format!("{} each.", count(one, "run")))
        }
        _ => None,
    };
    let row = |case: &&Case| {
        let case: &Case = case;
        if !case.is_ranked() {
            return unranked(case, columns.len());
        }
        let mark = |of: &[&Case]| match of.iter().any(|best| std::ptr::eq(*best, case)) && cases.len() > 1 {
            true => Mark::Best,
            false => Mark::None,
        };
        let rate = median(case, returned).filter(|time| *time > 0.0).map(|time| case.bytes as f64 / time / 1e6);
        let ratio = match case.base {
            true => Cell::figure(1.0, "base"),
            false => ratio(Some(case), base, returned)
                .map_or_else(dash, |ratio| Cell::figure(ratio.value, text::ratio(&ratio))),
        };
        let mut row = vec![
            Cell::text(&case.competitor),
            time(case, &unit, returned).marked(mark(&quickest)),
            ratio,
            time(case, &unit, |run| run.durable).marked(mark(&soonest)),
            rate.map_or_else(dash, |rate| Cell::figure(rate, words::short(rate))),
            Cell::figure(case.runs.len() as f64, case.runs.len().to_string()),
            notes(case),
        ];
        if note.is_some() {
            row.remove(RUNS);
        }
        row
    };
    Table { title: name.to_owned(), rows: cases.iter().map(row).collect(), columns, note: note.clone() }
}

/// The column of how many runs there are.
const RUNS: usize = 5;

fn dash() -> Cell {
    Cell::text("-").marked(Mark::Faint)
}

fn time(case: &Case, unit: &Unit, figure: Figure) -> Cell {
    match stats::spread(&case.figures(figure)) {
        Some(spread) => Cell::figure(unit.scaled(spread.median), unit.spread(&spread)),
        None => dash(),
    }
}

/// A row without times and without a rank.
fn unranked(case: &Case, columns: usize) -> Vec<Cell> {
    let mut row = vec![Cell::text(&case.competitor)];
    row.resize_with(columns.saturating_sub(1), dash);
    row.push(notes(case));
    row
}

/// How a case ended, if not well, and what is doubtful about it.
fn notes(case: &Case) -> Cell {
    let said = match &case.outcome {
        Outcome::Right | Outcome::Unverified if case.runs.is_empty() => {
            return Cell::text("not run").marked(Mark::Faint);
        }
        Outcome::Right | Outcome::Unverified => None,
        Outcome::Wrong(why) => Some((format!("{WRONG}: {why}"), Mark::Bad)),
        Outcome::Refused(why) => Some((format!("refused: {why}"), Mark::Faint)),
        Outcome::Failed(why) => Some((format!("failed: {why}"), Mark::Bad)),
        Outcome::TooLong(why) => Some((format!("took too long: {why}"), Mark::Bad)),
    };
    match said {
        Some((words, mark)) => Cell::text(words).marked(mark),
        None => {
            let doubts: Vec<&str> = noted(case).into_iter().map(doubt).collect();
            Cell::text(doubts.join(", ")).marked(Mark::Faint)
        }
    }
}

/// The doubts of a case with the one that follows from how it ended.
fn noted(case: &Case) -> Vec<Warning> {
    let mut doubts = doubts(case);
    if case.outcome == Outcome::Unverified && !doubts.contains(&Warning::NotVerified) {
        doubts.push(Warning::NotVerified);
    }
    doubts
}

/// What the copies cost: CPU time, memory, faults, bytes of devices.
pub fn costs(section: &Section) -> Option<Table> {
    let groups = groups(section);
    let ranked = || groups.iter().flat_map(|(_, cases)| cases).filter(|case| case.is_ranked());
    let unit = Unit::of(
        ranked().flat_map(|case| case.runs.iter().flat_map(|run| [run.user, run.system])).filter(|time| *time > 0.005),
    );
    let several = groups.len() > 1;
    let mut columns = vec![
        Column::words("tool"),
        Column::figures(format!("user, {}", unit.name)),
        Column::figures(format!("kernel, {}", unit.name)),
        Column::figures("CPU %"),
        Column::figures("peak memory"),
        Column::figures("page faults"),
        Column::figures("of them reading"),
        Column::figures("device read"),
        Column::figures("device written"),
    ];
    if several {
        columns.insert(0, Column::words("group"));
    }
    let mut rows = Vec::new();
    for (name, cases) in &groups {
        for case in cases.iter().filter(|case| case.is_ranked()) {
            let mut row = cost(case, &unit);
            if several {
                row.insert(0, Cell::text(*name));
            }
            rows.push(row);
        }
    }
    let title = "What the copies cost".to_owned();
    let note = "Medians. Devices count what everybody read and wrote meanwhile, until the copy was durable.".to_owned();
    (!rows.is_empty()).then_some(Table { title, columns, rows, note: Some(note) })
}

fn cost(case: &Case, unit: &Unit) -> Vec<Cell> {
    let plain =
        |figure: Figure| median(case, figure).map_or_else(dash, |time| Cell::figure(unit.scaled(time), unit.say(time)));
    let bytes = |value: Option<f64>| value.map_or_else(dash, |value| Cell::figure(value, words::bytes(value as u64)));
    let number = |value: Option<f64>| value.map_or_else(dash, |value| Cell::figure(value, format!("{value:.0}")));
    let faults = |run: &Run| (run.minor_faults + run.major_faults) as f64;
    vec![
        Cell::text(&case.competitor),
        plain(|run| run.user),
        plain(system),
        number(cpu(case)),
        bytes(median(case, |run| run.peak_memory as f64)),
        number(median(case, faults)),
        number(median(case, |run| run.major_faults as f64)),
        bytes(median_of_some(case, |run| run.device_read.map(|bytes| bytes as f64))),
        bytes(median_of_some(case, |run| run.device_written.map(|bytes| bytes as f64))),
    ]
}

/// CPU time as a percentage of the time that a copy takes.
pub fn cpu(case: &Case) -> Option<f64> {
    let share = |run: &Run| (run.returned > 0.0).then(|| processor(run) / run.returned * 100.0);
    median_of_some(case, share)
}

/// Bars of all groups, or `None` if nothing has times.
pub fn bars(section: &Section, title: &str) -> Option<Chart> {
    let ranked = section.cases.iter().filter(|case| case.is_ranked());
    let unit = Unit::of(ranked.filter_map(|case| median(case, returned)));
    let group = |(name, cases): (&str, Vec<&Case>)| {
        let bars: Vec<Bar> = cases.iter().filter_map(|case| bar(case, &unit)).collect();
        (!bars.is_empty()).then(|| BarGroup { name: name.to_owned(), bars })
    };
    let groups: Vec<BarGroup> = groups(section).into_iter().filter_map(group).collect();
    (!groups.is_empty()).then(|| Chart::Bars { title: title.to_owned(), unit: unit.name.to_owned(), groups })
}

fn bar(case: &Case, unit: &Unit) -> Option<Bar> {
    if !case.is_ranked() {
        return None;
    }
    let spread = stats::spread(&case.figures(returned))?;
    let range = (unit.scaled(spread.min), unit.scaled(spread.max));
    Some(Bar { name: case.competitor.clone(), value: unit.scaled(spread.median), range, base: case.base })
}

/// Seconds by name, split into parts: a chart in the unit that suits them, without the parts that are nothing everywhere.
pub fn parts(title: String, parts: &[&str], rows: Vec<(String, Vec<f64>)>) -> Option<Chart> {
    let sums = rows.iter().map(|(_, amounts)| amounts.iter().sum::<f64>());
    let unit = Unit::of(sums.clone());
    let most = sums.fold(0.0, f64::max);
    let counts =
        |part: usize| rows.iter().any(|(_, amounts)| amounts.get(part).is_some_and(|time| *time > most / 1000.0));
    let kept: Vec<usize> = (0..parts.len()).filter(|part| counts(*part)).collect();
    let row = |(name, amounts): &(String, Vec<f64>)| {
        let amounts = kept.iter().map(|part| unit.scaled(amounts.get(*part).copied().unwrap_or_default()));
        (name.clone(), amounts.collect())
    };
    (!kept.is_empty()).then(|| Chart::Parts {
        title,
        unit: unit.name.to_owned(),
        parts: kept.iter().filter_map(|part| parts.get(*part)).map(|part| (*part).to_owned()).collect(),
        rows: rows.iter().map(row).collect(),
    })
}

/// What was measured, where, in a sentence or two.
pub fn measured(results: &Results, section: &Section) -> String {
    let right = section.cases.iter().filter(|case| case.outcome == Outcome::Right && !case.runs.is_empty()).count();
    let ranked = section.cases.iter().filter(|case| case.is_ranked()).count();
    let runs: usize = section.cases.iter().map(|case| case.runs.len()).sum();
    let place = results.environment.places.get(&section.place);
    let place = place.map(|place| format!(" on {} ({})", place.filesystem, place.directory)).unwrap_or_default();
    let all = section.cases.len();
    let mut text = format!("{} in {}{place}", count(ranked, "copier setting"), count(runs, "timed run"));
    if right == ranked && ranked > 0 {
        text.push_str("; every copy that is ranked was compared with its source and is right");
    }
    if ranked < all {
        text.push_str(&format!("; {} could not be ranked", all - ranked));
    }
    text + "."
}

/// What makes the figures of a section doubtful, in sentences.
pub fn warnings(section: &Section) -> Vec<String> {
    let mut words = Vec::new();
    for case in &section.cases {
        if let Outcome::Wrong(why) = &case.outcome {
            words.push(format!(
                "{WRONG}: {} made a copy that is not like its source ({}): {why}",
                case.competitor, case.group
            ));
        }
    }
    let mut doubts: BTreeMap<Warning, usize> = BTreeMap::new();
    let ranked: Vec<&Case> = section.cases.iter().filter(|case| case.is_ranked()).collect();
    for doubt in ranked.iter().flat_map(|case| noted(case)) {
        *doubts.entry(doubt).or_default() += 1;
    }
    for (doubt, number) in doubts {
        words.push(format!("In {number} of {} {}.", count(ranked.len(), "case"), doubt_at_length(doubt)));
    }
    words
}

/// What was skipped, or could not be done: which tool, where, why.
pub fn not_measured(section: &Section) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in &section.cases {
        let why = match &case.outcome {
            Outcome::Refused(why) => format!("refused: {why}"),
            Outcome::Failed(why) => format!("failed: {why}"),
            Outcome::TooLong(why) => format!("took too long: {why}"),
            Outcome::Right | Outcome::Unverified if case.runs.is_empty() => "not run".to_owned(),
            _ => continue,
        };
        reasons.entry(format!("{} {why}", case.competitor)).or_default().push(case.group.clone());
    }
    reasons.into_iter().map(|(what, groups)| format!("{what} ({})", words::list(&groups))).collect()
}

/// Charts, tables, doubts and gaps of a section of copies, put into its view.
pub fn fill(view: &mut crate::view::View, section: &Section) {
    view.tables.extend(tables(section));
    view.tables.extend(costs(section));
    view.warnings.extend(warnings(section));
    view.not_measured.extend(not_measured(section));
}

/// The quickest tools of a group, in a sentence.
pub fn quickest(name: &str, cases: &[&Case]) -> Option<String> {
    let best = best(cases, returned);
    let names: Vec<String> = best.iter().map(|case| case.competitor.clone()).collect();
    let time = best.first().and_then(|case| median(case, returned))?;
    Some(match &names[..] {
        [] => return None,
        [only] => format!("{name}: {only} was the quickest, in {}.", words::seconds(time)),
        _ => format!(
            "{name}: no significant difference among {}, which are the quickest; they took about {}.",
            words::list(&names),
            words::seconds(time)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{case, section, timed};
    use super::*;

    fn with(cases: &[(&str, &[f64])]) -> Section {
        let mut section = section("compare");
        section.cases = cases.iter().map(|(name, times)| case("g", name, 1_000_000, times)).collect();
        section
    }

    fn names(cases: &[&Case]) -> Vec<String> {
        cases.iter().map(|case| case.competitor.clone()).collect()
    }

    #[test]
    fn a_wrong_copy_is_never_ranked() {
        let mut section = with(&[("liar", &timed(0.1)), ("cp", &timed(1.0))]);
        section.cases[0].outcome = Outcome::Wrong("byte 7".to_owned());
        assert_eq!(names(&best(&groups(&section)[0].1, returned)), ["cp"]);
        let table = tables(&section).remove(0);
        let row: Vec<&str> = table.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(row, ["liar", "-", "-", "-", "-", "WRONG COPY: byte 7"]);
        assert!(table.rows[0].iter().all(|cell| cell.value.is_none() && cell.mark != Mark::Best));
        assert_eq!(costs(&section).unwrap().rows.len(), 1);
        assert!(warnings(&section)[0].starts_with("WRONG COPY: liar"));
        assert!(bars(&section, "t").is_some_and(|chart| !format!("{chart:?}").contains("liar")));
    }

    #[test]
    fn what_cannot_be_told_from_the_quickest_is_as_good_and_nobody_behind_one_that_can() {
        let section = with(&[
            ("third, and noisy", &[0.9, 1.6, 1.7]),
            ("quick", &[1.0, 1.01, 1.02]),
            ("as quick", &[1.0, 1.02, 1.03]),
            ("slower", &[1.5, 1.51, 1.52]),
        ]);
        assert_eq!(names(&best(&groups(&section)[0].1, returned)), ["quick", "as quick"]);
        let single = with(&[("a", &[1.0]), ("b", &[1.01])]);
        assert_eq!(names(&best(&groups(&single)[0].1, returned)), ["a"]);
    }

    #[test]
    fn doubts_that_follow_from_the_runs_are_told_without_having_been_noted() {
        let mut section = with(&[("a", &[1.0, 2.0, 1.0]), ("b", &timed(0.01))]);
        section.cases[1].outcome = Outcome::Unverified;
        let table = tables(&section).remove(0);
        let said: Vec<&str> = table.rows.iter().filter_map(|row| row.last()).map(|cell| cell.text.as_str()).collect();
        assert_eq!(said, ["noisy", "very short, copy not compared"]);
    }

    #[test]
    fn a_figure_is_in_the_unit_that_its_column_names() {
        let section = with(&[("cp", &timed(0.5))]);
        let table = tables(&section).remove(0);
        assert_eq!(table.columns[1].name, "returned, ms");
        assert!(table.rows[0][1].value.is_some_and(|value| (value - 500.0).abs() < 1e-9), "{:?}", table.rows[0][1]);
        let costs = costs(&section).unwrap();
        assert_eq!((costs.columns[2].name.as_str(), costs.rows[0][2].value), ("kernel, ms", Some(250.0)));
    }

    #[test]
    fn parts_that_are_nothing_everywhere_are_skipped() {
        let rows = vec![("a".to_owned(), vec![0.01, 0.0, 0.002]), ("b".to_owned(), vec![0.0, 0.0, 0.004])];
        let Some(Chart::Parts { unit, parts, rows, .. }) = parts("t".to_owned(), &["x", "y", "z"], rows) else {
            panic!()
        };
        assert_eq!((unit.as_str(), parts.as_slice()), ("ms", &["x".to_owned(), "z".to_owned()][..]));
        assert_eq!(rows[0].1, [10.0, 2.0]);
    }
}
