//! What all sections of timed copies have: which tool was how fast, at what cost, and which figures are doubtful.

use std::collections::BTreeMap;

use haul_measure::stats::{self, Ratio};
use haul_measure::{nfs, words};

use crate::doubts;
use crate::report::text::{Unit, WRONG, count, doubt};
use crate::results::{Case, Outcome, Results, Run, Section, Warning};
use crate::view::{Bar, BarGroup, Cell, Chart, Mark, Table, View};

/// The one of this name, if it has times.
pub fn find<'c>(cases: &[&'c Case], competitor: &str) -> Option<&'c Case> {
    cases.iter().copied().find(|case| case.competitor == competitor && case.is_ranked())
}

/// The first with these parameters that has times.
pub fn with<'c>(cases: &[&'c Case], parameters: &[(&str, &str)]) -> Option<&'c Case> {
    let is = |case: &Case, (name, value): &(&str, &str)| case.parameters.get(*name).is_some_and(|known| known == value);
    cases.iter().copied().find(|case| case.is_ranked() && parameters.iter().all(|wanted| is(case, wanted)))
}

/// The one that the others of a group are compared with, if it has times.
pub fn base<'c>(cases: &[&'c Case]) -> Option<&'c Case> {
    cases.iter().copied().find(|case| case.base && case.is_ranked())
}

/// Those that have times.
fn ranked<'c>(cases: &[&'c Case]) -> impl Iterator<Item = &'c Case> {
    cases.iter().copied().filter(|case| case.is_ranked())
}

/// A figure of a run, in seconds.
pub type Figure = fn(&Run) -> f64;

/// Until the program has ended.
pub const RETURNED: Figure = |run| run.returned;
pub const SYSTEM: Figure = |run| run.system;
pub const PROCESSOR: Figure = |run| run.user + run.system;

/// How many times one case's figure is another's.
pub fn ratio(of: Option<&Case>, base: Option<&Case>, figure: Figure) -> Option<Ratio> {
    stats::ratio(&of?.figures(figure), &base?.figures(figure))
}

/// The same over several pairs, of which those count that are whole.
pub fn pooled<'c>(pairs: impl Iterator<Item = (Option<&'c Case>, Option<&'c Case>)>, figure: Figure) -> Option<Ratio> {
    let whole = pairs.filter_map(|(of, base)| Some((of?.figures(figure), base?.figures(figure))));
    stats::pooled(&whole.collect::<Vec<_>>())
}

pub fn median(case: &Case, figure: impl Fn(&Run) -> f64) -> Option<f64> {
    stats::median(&case.figures(figure))
}

/// The median of a figure that not every run has.
pub fn median_of_some(case: &Case, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    stats::median(&case.runs.iter().filter_map(figure).collect::<Vec<_>>())
}

/// The median of what the program reports of itself under this name.
pub fn reported(case: &Case, name: &str) -> Option<f64> {
    median_of_some(case, |run| run.reported.get(name).copied())
}

/// The quickest of a group, and those behind it until one stands out from it: none of them is better than another for
/// certain.
pub fn best<'c>(cases: &[&'c Case], figure: Figure) -> Vec<&'c Case> {
    let time = |case: &Case| median(case, figure).unwrap_or(f64::INFINITY);
    let mut ranked: Vec<&Case> = ranked(cases).collect();
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

/// The table of a group: times, rates, ratios, doubts.
fn times(name: &str, cases: &[&Case]) -> Table {
    let unit = Unit::of(ranked(cases).flat_map(|case| case.runs.iter().flat_map(|run| [run.returned, run.durable])));
    let base = base(cases);
    let quickest = best(cases, RETURNED);
    let soonest = best(cases, |run| run.durable);
    // Where everybody was run as often, one line says it.
    let mut counts: Vec<usize> = ranked(cases).map(|case| case.runs.len()).collect();
    counts.dedup();
    let heads = "tool|>returned, UNIT|>ratio to base|>durable, UNIT|>MiB/s|>runs|notes".replace("UNIT", unit.name);
    let row = |case: &&Case| {
        let case: &Case = case;
        if !case.is_ranked() {
            let mut row = vec![Cell::text(&case.competitor)];
            row.resize_with(RUNS + 1, dash);
            row.push(notes(case));
            return row;
        }
        let mark = |of: &[&Case]| match of.iter().any(|best| std::ptr::eq(*best, case)) && cases.len() > 1 {
            true => Mark::Best,
            false => Mark::None,
        };
        let ratio = match case.base {
            true => Cell::figure(1.0, "base"),
            false => ratio(Some(case), base, RETURNED).map_or_else(dash, |ratio| Cell::ratio(Some(ratio))),
        };
        vec![
            Cell::text(&case.competitor),
            time(case, &unit, RETURNED).marked(mark(&quickest)),
            ratio,
            time(case, &unit, |run| run.durable).marked(mark(&soonest)),
            Cell::known(throughput(case), words::short),
            Cell::count(case.runs.len()),
            notes(case),
        ]
    };
    let mut table = Table::new(name, &heads, cases.iter().map(row));
    if let [one] = counts[..] {
        table.columns.remove(RUNS);
        for row in &mut table.rows {
            row.remove(RUNS);
        }
        table = table.noted(format!("{} each.", count(one, "run")));
    }
    table
}

/// MiB/s until the copier has returned.
pub fn throughput(case: &Case) -> Option<f64> {
    median(case, RETURNED).filter(|time| *time > 0.0).map(|time| case.bytes as f64 / time / f64::from(1 << 20))
}

/// The column of how many runs there are.
const RUNS: usize = 5;

fn dash() -> Cell {
    Cell::text("-").marked(Mark::Faint)
}

fn time(case: &Case, unit: &Unit, figure: Figure) -> Cell {
    let spread = stats::spread(&case.figures(figure));
    spread.map_or_else(dash, |spread| Cell::figure(unit.scaled(spread.median), unit.spread(&spread)))
}

/// A setting of a run took no effect.
const NOT_AS_NAMED: &str = "not what it says";

/// How a case ended that has no copy to be ranked, but for wrong ones: in words.
fn ended(case: &Case) -> Option<String> {
    match &case.outcome {
        Outcome::Right | Outcome::Unverified if case.runs.is_empty() => Some("not run".to_owned()),
        Outcome::Right | Outcome::Unverified | Outcome::Wrong(_) => None,
        Outcome::NotAsNamed(why) => Some(format!("{NOT_AS_NAMED}: {why}")),
        Outcome::Refused(why) => Some(format!("refused: {why}")),
        Outcome::Failed(why) => Some(format!("failed: {why}")),
        Outcome::TooLong(why) => Some(format!("took too long: {why}")),
    }
}

/// How a case ended, if not well, and what is doubtful about it.
fn notes(case: &Case) -> Cell {
    if let Outcome::Wrong(why) = &case.outcome {
        return Cell::text(format!("{WRONG}: {why}")).marked(Mark::Bad);
    }
    let bad = matches!(case.outcome, Outcome::NotAsNamed(_) | Outcome::Failed(_) | Outcome::TooLong(_));
    let words =
        ended(case).unwrap_or_else(|| doubts(case).into_iter().map(|one| doubt(one).0).collect::<Vec<_>>().join(", "));
    Cell::text(words).marked(if bad { Mark::Bad } else { Mark::Faint })
}

/// The doubts about a case: those that were noted, those that its runs show, and the one that follows from how it ended.
fn doubts(case: &Case) -> Vec<Warning> {
    let mut doubts = case.warnings.clone();
    doubts.extend(doubts::warnings(&case.runs, 0));
    doubts.sort_unstable();
    doubts.dedup();
    if case.outcome == Outcome::Unverified && !doubts.contains(&Warning::NotVerified) {
        doubts.push(Warning::NotVerified);
    }
    doubts
}

/// What the copies cost: CPU time, memory, faults, bytes of devices.
fn costs(section: &Section) -> Option<Table> {
    let groups = section.groups();
    let ranked = || groups.iter().flat_map(|(_, cases)| cases).filter(|case| case.is_ranked());
    let times = ranked().flat_map(|case| case.runs.iter().flat_map(|run| [run.user, run.system]));
    let unit = Unit::of(times.filter(|time| *time > 0.005));
    let heads = "group|tool|>user, UNIT|>sys, UNIT|>CPU %|>max RSS|>page faults|>major faults|>device read\
                 |>device written";
    let rows = ranked().map(|case| cost(case, &unit));
    let mut table = Table::new("What the copies cost", &heads.replace("UNIT", unit.name), rows)
        .noted("Medians. Devices count what everybody read and wrote meanwhile, until the copy was durable.");
    if groups.len() < 2 {
        table.columns.remove(0);
        for row in &mut table.rows {
            row.remove(0);
        }
    }
    table.if_any()
}

fn cost(case: &Case, unit: &Unit) -> Vec<Cell> {
    let seconds = |figure: Figure| Cell::time(median(case, figure), unit);
    let bytes = |value: Option<f64>| Cell::known(value, |value| words::bytes(value as u64));
    let number = |value: Option<f64>| Cell::known(value, |value| format!("{value:.0}"));
    vec![
        Cell::text(&case.group),
        Cell::text(&case.competitor),
        seconds(|run| run.user),
        seconds(SYSTEM),
        number(cpu(case)),
        bytes(median(case, |run| run.peak_memory as f64)),
        number(median(case, |run| (run.minor_faults + run.major_faults) as f64)),
        number(median(case, |run| run.major_faults as f64)),
        bytes(median_of_some(case, |run| run.device_read.map(|bytes| bytes as f64))),
        bytes(median_of_some(case, |run| run.device_written.map(|bytes| bytes as f64))),
    ]
}

/// What the server was asked for, where the copies were on NFS.
fn remote(section: &Section) -> Option<Table> {
    let row = |case: &Case| {
        let figures = nfs::COUNTERS.map(|name| {
            let bytes = ["sent", "received"].contains(&name);
            let words = |value: f64| if bytes { words::bytes(value as u64) } else { format!("{value:.0}") };
            Cell::known(reported(case, &format!("nfs.{name}")), words)
        });
        [Cell::text(&case.group), Cell::text(&case.competitor)].into_iter().chain(figures).collect()
    };
    let counted = section.cases.iter().filter(|case| case.is_ranked() && reported(case, "nfs.sent").is_some());
    let heads = format!("group|tool|>{}", nfs::COUNTERS.join("|>"));
    let note = "Medians of one copy: operations, and bytes of all requests and answers, until the copy was durable.";
    Table::new("What the NFS server was asked for", &heads, counted.map(row)).noted(note).if_any()
}

/// CPU time as a percentage of the time that a copy takes.
pub fn cpu(case: &Case) -> Option<f64> {
    median_of_some(case, |run| (run.returned > 0.0).then(|| PROCESSOR(run) / run.returned * 100.0))
}

/// Times and throughput of these groups, or `None` if nothing has times.
pub fn bars(groups: &[(&str, Vec<&Case>)]) -> Option<Chart> {
    let all = groups.iter().flat_map(|(_, cases)| ranked(cases));
    let unit = Unit::of(all.filter_map(|case| median(case, RETURNED)));
    let bar = |case: &Case| Bar {
        name: case.competitor.clone(),
        lengths: median(case, RETURNED).map(|time| unit.scaled(time)).into_iter().collect(),
        runs: case.figures(|run| unit.scaled(run.returned)),
        rate: throughput(case).map(|rate| format!("{} MiB/s", words::short(rate))).unwrap_or_default(),
        base: case.base,
    };
    let group = |(name, cases): &(&str, Vec<&Case>)| BarGroup {
        name: (*name).to_owned(),
        bars: ranked(cases).map(bar).collect(),
    };
    let axis = ["time until return", unit.name];
    Chart::bars("Time until the copier returned, and throughput", axis, Vec::new(), groups.iter().map(group).collect())
}

/// Seconds by name, split into parts: a chart in the unit that suits them, without the parts that are nothing everywhere.
pub fn parts(title: String, axis: &str, parts: &[&str], rows: Vec<(String, Vec<f64>)>) -> Option<Chart> {
    let sums = rows.iter().map(|(_, amounts)| amounts.iter().sum::<f64>());
    let unit = Unit::of(sums.clone());
    let most = sums.fold(0.0, f64::max);
    let counts =
        |part: usize| rows.iter().any(|(_, amounts)| amounts.get(part).is_some_and(|time| *time > most / 1000.0));
    let kept: Vec<usize> = (0..parts.len()).filter(|part| counts(*part)).collect();
    let bar = |(name, amounts): &(String, Vec<f64>)| {
        let lengths = kept.iter().map(|part| unit.scaled(amounts.get(*part).copied().unwrap_or_default()));
        Bar { name: name.clone(), lengths: lengths.collect(), ..Bar::default() }
    };
    let parts = kept.iter().filter_map(|part| parts.get(*part)).map(|part| (*part).to_owned()).collect();
    let bars = rows.iter().filter(|_| !kept.is_empty()).map(bar).collect();
    Chart::bars(title, [axis, unit.name], parts, vec![BarGroup { name: String::new(), bars }])
}

/// What was measured, where, in a sentence or two.
pub fn measured(results: &Results, section: &Section) -> String {
    let right = section.cases.iter().filter(|case| case.outcome == Outcome::Right && !case.runs.is_empty()).count();
    let ranked = section.cases.iter().filter(|case| case.is_ranked()).count();
    let runs: usize = section.cases.iter().map(|case| case.runs.len()).sum();
    let place = results.place_of(section);
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
fn warnings(section: &Section) -> Vec<String> {
    let wrong = |case: &Case| match &case.outcome {
        Outcome::Wrong(why) => {
            let (who, group) = (&case.competitor, &case.group);
            Some(format!("{WRONG}: {who} made a copy that is not like its source ({group}): {why}"))
        }
        Outcome::NotAsNamed(why) => Some(format!("{NOT_AS_NAMED}: {} ({}): {why}", case.competitor, case.group)),
        _ => None,
    };
    let mut words: Vec<String> = section.cases.iter().filter_map(wrong).collect();
    let mut found: BTreeMap<Warning, usize> = BTreeMap::new();
    let ranked: Vec<&Case> = section.cases.iter().filter(|case| case.is_ranked()).collect();
    for doubt in ranked.iter().flat_map(|case| doubts(case)) {
        *found.entry(doubt).or_default() += 1;
    }
    let all = count(ranked.len(), "case");
    words.extend(found.into_iter().map(|(warning, number)| {
        let (word, meaning) = doubt(warning);
        format!("In {number} of {all} {meaning} ({word}).")
    }));
    words
}

/// What was skipped, or could not be done: which tool, where, why.
fn not_measured(section: &Section) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in &section.cases {
        if let Some(why) = ended(case) {
            reasons.entry(format!("{} {why}", case.competitor)).or_default().push(case.group.clone());
        }
    }
    reasons.into_iter().map(|(what, groups)| format!("{what} ({})", words::list(&groups))).collect()
}

/// Tables, doubts and gaps of a section of copies, put into its view.
pub fn fill(view: &mut View, section: &Section) {
    view.tables.extend(section.groups().into_iter().map(|(name, cases)| times(name, &cases)));
    view.tables.extend(costs(section));
    view.tables.extend(remote(section));
    view.warnings.extend(warnings(section));
    view.not_measured.extend(not_measured(section));
}

/// The quickest tools of a group, in a sentence.
pub fn quickest(name: &str, cases: &[&Case]) -> Option<String> {
    let best = best(cases, RETURNED);
    let names: Vec<String> = best.iter().map(|case| case.competitor.clone()).collect();
    let time = words::seconds(best.first().and_then(|case| median(case, RETURNED))?);
    let few = best.first().is_some_and(|case| case.runs.len() < stats::FEWEST) && ranked(cases).count() > 1;
    Some(match &names[..] {
        [only] if few => {
            format!(
                "{name}: {only} had the shortest median, {time}; {} are needed to rank it.",
                count(stats::FEWEST, "run")
            )
        }
        [only] => format!("{name}: {only} was the quickest, in {time}."),
        names => {
            let names = words::list(names);
            format!("{name}: no significant difference among {names}, which are the quickest; they took about {time}.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{case, section, timed};
    use super::*;
    use crate::view::Kind;

    fn with(cases: &[(&str, &[f64])]) -> Section {
        let mut section = section("compare");
        section.cases = cases.iter().map(|(name, times)| case("g", name, 1_000_000, times)).collect();
        section
    }

    fn names(cases: &[&Case]) -> Vec<String> {
        cases.iter().map(|case| case.competitor.clone()).collect()
    }

    fn table(section: &Section) -> Table {
        let (name, cases) = section.groups().remove(0);
        times(name, &cases)
    }

    #[test]
    fn a_wrong_copy_is_never_ranked() {
        let mut section = with(&[("liar", &timed(0.1)), ("cp", &timed(1.0))]);
        section.cases[0].outcome = Outcome::Wrong("byte 7".to_owned());
        assert_eq!(names(&best(&section.groups()[0].1, RETURNED)), ["cp"]);
        let table = table(&section);
        let row: Vec<&str> = table.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(row, ["liar", "-", "-", "-", "-", "WRONG COPY: byte 7"]);
        assert!(table.rows[0].iter().all(|cell| cell.value.is_none() && cell.mark != Mark::Best));
        assert_eq!(costs(&section).unwrap().rows.len(), 1);
        assert!(warnings(&section)[0].starts_with("WRONG COPY: liar"));
        assert!(bars(&section.groups()).is_some_and(|chart| !format!("{chart:?}").contains("liar")));
    }

    #[test]
    fn what_does_not_differ_from_the_quickest_is_as_good_and_nobody_behind_one_that_does() {
        let section = with(&[
            ("third, and noisy", &[0.9, 1.6, 1.7, 1.6, 1.7, 1.6]),
            ("quick", &[1.0, 1.01, 1.02, 1.0, 1.01, 1.02]),
            ("as quick", &[1.0, 1.02, 1.03, 1.02, 1.03, 1.0]),
            ("slower", &[1.5, 1.51, 1.52, 1.5, 1.51, 1.52]),
        ]);
        assert_eq!(names(&best(&section.groups()[0].1, RETURNED)), ["quick", "as quick"]);
        let single = with(&[("a", &[1.0]), ("b", &[1.01])]);
        assert_eq!(names(&best(&single.groups()[0].1, RETURNED)), ["a"]);
        let said = quickest("g", &single.groups()[0].1).unwrap();
        assert_eq!(said, "g: a had the shortest median, 1 s; 6 runs are needed to rank it.");
    }

    #[test]
    fn doubts_that_follow_from_the_runs_are_reported_without_having_been_noted() {
        let mut section = with(&[("a", &[1.0, 2.0, 1.0]), ("b", &timed(0.01))]);
        section.cases[1].outcome = Outcome::Unverified;
        let table = table(&section);
        let said: Vec<&str> = table.rows.iter().filter_map(|row| row.last()).map(|cell| cell.text.as_str()).collect();
        assert_eq!(said, ["noisy", "very short, copy not compared"]);
    }

    #[test]
    fn a_figure_is_in_the_unit_that_its_column_names() {
        let section = with(&[("cp", &timed(0.5))]);
        let table = table(&section);
        assert_eq!(table.columns[1].name, "returned, ms");
        assert!(table.rows[0][1].value.is_some_and(|value| (value - 500.0).abs() < 1e-9), "{:?}", table.rows[0][1]);
        let costs = costs(&section).unwrap();
        assert_eq!((costs.columns[2].name.as_str(), costs.rows[0][2].value), ("sys, ms", Some(250.0)));
    }

    #[test]
    fn copies_on_nfs_show_operations_and_bytes() {
        let mut section = with(&[("range", &timed(0.5)), ("local", &timed(0.5))]);
        for run in &mut section.cases[0].runs {
            let all = nfs::COUNTERS.into_iter().zip([2.0, 0.0, 0.0, 4.0, 11.0, 2048.0, 1024.0]);
            run.reported.extend(all.map(|(name, value)| (format!("nfs.{name}"), value)));
        }
        let table = remote(&section).unwrap();
        let row: Vec<&str> = table.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(row, ["g", "range", "2", "0", "0", "4", "11", "2 KiB", "1 KiB"]);
        assert_eq!((table.rows.len(), table.rows[0][7].value), (1, Some(2048.0)));
        assert!(remote(&with(&[("local", &timed(0.5))])).is_none());
    }

    #[test]
    fn bars_are_sorted_by_the_time_that_they_show_with_throughput_and_single_runs() {
        let section = with(&[("slow", &[2.0, 2.5, 1.5]), ("quick", &timed(0.5)), ("mean", &timed(1.0))]);
        let Kind::Bars { groups, .. } = bars(&section.groups()).unwrap().kind else { panic!() };
        let shown: Vec<(&str, f64, &str)> =
            groups[0].bars.iter().map(|bar| (bar.name.as_str(), bar.length(), bar.rate.as_str())).collect();
        assert_eq!(shown, [("quick", 0.5, "1.91 MiB/s"), ("mean", 1.0, "0.95 MiB/s"), ("slow", 2.0, "0.48 MiB/s")]);
        assert_eq!(groups[0].bars[2].runs, [2.0, 2.5, 1.5]);
    }

    #[test]
    fn parts_that_are_nothing_everywhere_are_skipped() {
        let rows = vec![("a".to_owned(), vec![0.01, 0.0, 0.002]), ("b".to_owned(), vec![0.0, 0.0, 0.004])];
        let chart = parts("t".to_owned(), "CPU time", &["x", "y", "z"], rows).unwrap();
        let Kind::Bars { unit, parts, groups, .. } = chart.kind else { panic!() };
        assert_eq!((unit.as_str(), parts.as_slice()), ("ms", &["x".to_owned(), "z".to_owned()][..]));
        let lengths: Vec<&[f64]> = groups[0].bars.iter().map(|bar| bar.lengths.as_slice()).collect();
        assert_eq!(lengths, [[0.0, 4.0], [10.0, 2.0]]);
    }
}
