//! Two results of the same measurement, earlier and later.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use haul_measure::stats::{self, Ratio};
use haul_measure::words;

use super::text::{self, Unit, count};
use super::{join, sections};
use crate::results::{Body, Case, Grid, Latency, Outcome, Results, Section};
use crate::view::{Cell, Mark, Table, View};

/// How often each verdict was given of what both have.
type Tally = BTreeMap<&'static str, usize>;

const FASTER: &str = "faster";
const SLOWER: &str = "slower";
const LEVEL: &str = "no difference that stands out";
const UNKNOWN: &str = "cannot say";

/// What is new in `new` against `old`: a table for each section, and what only one of them has. `None` if they have no case
/// in common.
pub fn view(old: &Results, new: &Results) -> Option<View> {
    let mut view = View {
        name: "baseline".to_owned(),
        title: "Against the baseline".to_owned(),
        question: "Is anything faster or slower than it was?".to_owned(),
        ..View::default()
    };
    let mut tally = Tally::new();
    for section in &new.sections {
        match counterpart(old, section) {
            Some(earlier) => {
                view.tables.extend(table(earlier, section, &mut tally));
                view.tables.extend(details(earlier, section, &mut tally));
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
    let number = |verdict: &str| tally.get(verdict).copied().unwrap_or(0);
    view.summary.push(format!(
        "Of {} that both have, {} faster than in the baseline of {}, {} slower, and {} without a difference that stands out.",
        count(tally.values().sum(), "case"),
        are(number(FASTER)),
        text::date(old.started),
        are(number(SLOWER)),
        are(number(LEVEL))
    ));
    if number(UNKNOWN) > 0 {
        view.summary.push(format!(
            "{} cannot be compared: too few runs, no times, or another case.",
            count(number(UNKNOWN), "case")
        ));
    }
    let mut differences = join::differences(old, new);
    if old.program != new.program {
        differences.push(format!("haul-lab {} and not {}", new.program, old.program));
    }
    differences.extend(settings(old, new));
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

/// The section of the same name on the same place. That of another place is about another disk.
fn counterpart<'r>(results: &'r Results, section: &Section) -> Option<&'r Section> {
    results.sections.iter().find(|known| known.name == section.name && known.place == section.place)
}

/// What sections that are compared were run with, as far as both say it and it is not the same.
fn settings(old: &Results, new: &Results) -> Vec<String> {
    let pairs = new.sections.iter().filter_map(|section| Some((counterpart(old, section)?, section)));
    let differ = |(old, new): (&Section, &Section)| {
        let both = new
            .settings
            .iter()
            .filter_map(|(name, now)| Some((name.clone(), old.settings.get(name)?.clone(), now.clone())));
        let title = new.name.clone();
        let changed = both.filter(|(_, then, now)| then != now);
        changed.map(move |(name, then, now)| format!("{name} of {title} {now} and not {then}")).collect::<Vec<_>>()
    };
    pairs.flat_map(differ).collect()
}

/// Why the times of two cases of one name say nothing of each other, if that is so.
fn another_case(old: &Case, new: &Case) -> Option<String> {
    if old.bytes != new.bytes {
        return Some(format!("{} and not {}", words::exactly(new.bytes), words::exactly(old.bytes)));
    }
    if old.cache != new.cache {
        return Some(format!("{} and not {}", text::cache(new.cache), text::cache(old.cache)));
    }
    let changed = |(name, now): (&String, &String)| {
        let then = old.parameters.get(name).filter(|then| *then != now)?;
        Some(format!("{name} {now} and not {then}"))
    };
    new.parameters.iter().find_map(changed)
}

fn find<'s>(section: &'s Section, case: &Case) -> Option<&'s Case> {
    section.cases.iter().find(|known| known.group == case.group && known.competitor == case.competitor)
}

fn table(old: &Section, new: &Section, tally: &mut Tally) -> Option<Table> {
    let pairs: Vec<(&Case, &Case)> = new.cases.iter().filter_map(|case| Some((find(old, case)?, case))).collect();
    let all = pairs.iter().flat_map(|(old, new)| [old, new]).filter(|case| case.is_ranked());
    let unit = Unit::of(all.flat_map(|case| case.runs.iter().map(|run| run.returned)));
    let heads = "group|tool|>baseline, UNIT|>now, UNIT|>ratio to baseline|verdict".replace("UNIT", unit.name);
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
    let another = another_case(old, new);
    let ratio = if both && another.is_none() { stats::unpaired(&times(new), &times(old)) } else { None };
    let names = [Cell::text(&new.group), Cell::text(&new.competitor)];
    let [ratio, verdict] = judged(ratio, tally);
    let verdict = another.map_or(verdict, |why| Cell::text(format!("another case: {why}")).marked(Mark::Faint));
    names.into_iter().chain([time(old), time(new), ratio, verdict]).collect()
}

/// The ratio of two times, and what it says.
fn judged(ratio: Option<Ratio>, tally: &mut Tally) -> [Cell; 2] {
    let (verdict, mark) = match ratio.map(|ratio| (ratio.interval.is_some(), ratio.side(1.0))) {
        Some((_, Some(Ordering::Less))) => (FASTER, Mark::Best),
        Some((_, Some(_))) => (SLOWER, Mark::Bad),
        Some((true, None)) => (LEVEL, Mark::None),
        Some((false, None)) | None => (UNKNOWN, Mark::Faint),
    };
    *tally.entry(verdict).or_default() += 1;
    [Cell::ratio(ratio), Cell::text(verdict).marked(mark)]
}

/// What is measured in another way than by timed copies: the samples, latencies and grids that both have.
fn details(old: &Section, new: &Section, tally: &mut Tally) -> Option<Table> {
    let rows = new.details.iter().filter_map(|detail| Some((detail, old.detail(&detail.name)?)));
    let rows: Vec<Vec<Cell>> = rows.flat_map(|(now, then)| detail(&now.name, then, &now.body, tally)).collect();
    let heads = "operation|>baseline|>now|>ratio to baseline, in time|verdict";
    let table = Table::new(format!("{}, other figures", sections::title(&new.name)), heads, rows);
    table.noted("Of a grid: the median of its cells, and where 95 % of them lie.").if_any()
}

fn detail(name: &str, old: &Body, new: &Body, tally: &mut Tally) -> Vec<Vec<Cell>> {
    let what = name.replace('-', " ");
    match (old, new) {
        // The longest few say nothing of the others.
        (Body::Samples { .. }, _) if name == "stall-worst" => Vec::new(),
        (Body::Samples { series: old, .. }, Body::Samples { series: new, .. }) => {
            let both = new.iter().filter_map(|(series, now)| Some((series, old.get(series)?, now)));
            let row = |(series, then, now): (&String, &Vec<f64>, &Vec<f64>)| {
                let time = |values: &[f64]| Cell::seconds(stats::median(values));
                let figures = [Cell::text(format!("{what}, {series}")), time(then), time(now)];
                figures.into_iter().chain(judged(stats::unpaired(now, then), tally)).collect()
            };
            both.map(row).collect()
        }
        (Body::Latency(old), Body::Latency(new)) if old.threshold == new.threshold => {
            let long = |latency: &Latency| Cell::text(format!("{} of {}", latency.over, latency.count));
            let over = Cell::text(format!("{what}, over {}", words::seconds(new.threshold)));
            let longest = [Cell::text(format!("{what}, longest")), Cell::seconds(Some(old.longest))];
            let one = [Cell::text("-"), Cell::text("one value").marked(Mark::Faint)];
            vec![
                [over, long(old), long(new)].into_iter().chain(judged(shares(old, new), tally)).collect(),
                longest.into_iter().chain([Cell::seconds(Some(new.longest))]).chain(one).collect(),
            ]
        }
        (Body::Grid(old), Body::Grid(new)) if new.unit.ends_with("/s") => {
            let names = |grid: &Grid| (grid.rows.clone(), grid.columns.clone());
            if names(old) != names(new) {
                return Vec::new();
            }
            let cells = old.values.iter().flatten().zip(new.values.iter().flatten());
            let pairs: Vec<(f64, f64)> = cells.filter_map(|(then, now)| Some(((*then)?, (*now)?))).collect();
            let median = |side: fn(&(f64, f64)) -> f64| stats::median(&pairs.iter().map(side).collect::<Vec<f64>>());
            let rate = |value: Option<f64>| Cell::of(value, |value| format!("{} {}", words::short(value), new.unit));
            let figures = [Cell::text(what), rate(median(|pair| pair.0)), rate(median(|pair| pair.1))];
            // A higher rate is a shorter time.
            let ratios = pairs.iter().filter(|(_, now)| *now > 0.0).map(|(then, now)| then / now).collect();
            vec![figures.into_iter().chain(judged(middle_of(ratios), tally)).collect()]
        }
        _ => Vec::new(),
    }
}

/// How many times as often something took longer than the threshold: the interval is that of both shares (Wilson, 95 %).
fn shares(old: &Latency, new: &Latency) -> Option<Ratio> {
    let (old, new) = (share(old)?, share(new)?);
    let value = if old.1 > 0.0 { new.1 / old.1 } else { f64::from(u8::from(new.1 == 0.0)) };
    let value = if old.1 == 0.0 && new.1 > 0.0 { new.2 / old.2 } else { value };
    Some(Ratio { value, interval: Some((new.0 / old.2, new.2 / old.0)) })
}

/// The share that was over the threshold, between its bounds.
fn share(latency: &Latency) -> Option<(f64, f64, f64)> {
    let (count, over) = (latency.count as f64, latency.over as f64);
    if count == 0.0 {
        return None;
    }
    let (z, share) = (1.96, over / count);
    let centre = share + z * z / (2.0 * count);
    let half = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    let whole = 1.0 + z * z / count;
    // None seen is no proof of none: half a case.
    Some((((centre - half) / whole).max(0.5 / count), share, (centre + half) / whole))
}

/// The median of ratios, and where 95 % of them lie.
fn middle_of(mut ratios: Vec<f64>) -> Option<Ratio> {
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get((share * ratios.len().saturating_sub(1) as f64).round() as usize).copied();
    let interval = at(0.025).zip(at(0.975)).filter(|_| ratios.len() >= stats::FEWEST);
    Some(Ratio { value: stats::median(&ratios)?, interval })
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
    use crate::results::Detail;

    fn with(cases: &[(&str, f64)]) -> Results {
        let mut section = section("compare");
        section.cases = cases.iter().map(|(name, time)| case("g", name, 1000, &timed(*time))).collect();
        results(vec![section])
    }

    #[test]
    fn what_is_faster_slower_and_neither_is_reported_and_what_only_one_has() {
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

    /// Rounds of msync, fills and a grid, whose times are so many times the usual ones.
    fn mapped_write(times: f64, over: u64) -> Results {
        let mut section = section("mapped-write");
        let rounds = [0.050, 0.051, 0.052, 0.053, 0.054, 0.055].map(|round| round * times).to_vec();
        let series = [("mapped".to_owned(), rounds)].into();
        section.details.push(Detail::new("msync", Body::Samples { unit: "s".to_owned(), series }));
        let stall = Latency { count: 4000, over, threshold: 1e-3, percentiles: Vec::new(), longest: 8.3e-3 * times };
        section.details.push(Detail::new("stall", Body::Latency(stall)));
        let names = |what: &str| (what.to_owned(), vec!["4096".to_owned(), "8192".to_owned()]);
        let row = |least: f64| [0.0, 1.0, 2.0, 3.0].map(|more| Some((least + more) / times)).to_vec();
        let mut values = vec![row(400.0), row(600.0)];
        values[1][3] = None;
        let grid = Grid { unit: "KiB/s".to_owned(), rows: names("file"), columns: names("record"), values };
        section.details.push(Detail::new("grid-mapped-rewrite", Body::Grid(grid)));
        results(vec![section])
    }

    fn verdicts_of_details(old: &Results, new: &Results) -> Vec<(String, String)> {
        let view = view(old, new).expect("they have figures in common");
        let rows = view.tables.iter().flat_map(|table| &table.rows);
        rows.map(|row| (row[0].text.clone(), row.last().unwrap().text.clone())).collect()
    }

    #[test]
    fn figures_that_are_no_copies_are_compared_too() {
        let (good, bad) = (mapped_write(1.0, 4), mapped_write(20.0, 400));
        let names = ["msync, mapped", "stall, over 1 ms", "stall, longest", "grid mapped rewrite"];
        for (old, new, expected) in [
            (&good, &good, ["no difference that stands out"; 3]),
            (&good, &bad, ["slower"; 3]),
            (&bad, &good, ["faster"; 3]),
        ] {
            let expected = [expected[0], expected[1], "one value", expected[2]];
            let expected: Vec<_> = names.iter().zip(expected).map(|(a, b)| ((*a).to_owned(), b.to_owned())).collect();
            assert_eq!(verdicts_of_details(old, new), expected);
        }
        let none = mapped_write(1.0, 0);
        assert_eq!(verdicts_of_details(&none, &none)[1].1, "no difference that stands out", "none was over it");
        assert_eq!(verdicts_of_details(&none, &bad)[1].1, "slower");
    }

    #[test]
    fn only_rates_of_a_grid_are_compared_as_rates() {
        let mut seconds = mapped_write(1.0, 0);
        if let Some(Body::Grid(grid)) = seconds.sections[0].details.last_mut().map(|detail| &mut detail.body) {
            grid.unit = "s".to_owned();
        }
        assert!(verdicts_of_details(&seconds, &seconds).iter().all(|(name, _)| !name.starts_with("grid")));
    }

    #[test]
    fn cases_of_another_size_or_cache_are_not_compared() {
        let verdict = |change: fn(&mut Case)| {
            let (old, mut new) = (with(&[("a", 2.0)]), with(&[("a", 1.0)]));
            change(&mut new.sections[0].cases[0]);
            let row = view(&old, &new).unwrap().tables[0].rows[0].clone();
            (row[4].text.clone(), row[5].text.clone())
        };
        let other = |why: &str| ("-".to_owned(), format!("another case: {why}"));
        assert_eq!(verdict(|_| {}).1, "faster");
        assert_eq!(verdict(|case| case.bytes = 2048), other("2 KiB and not 1000 B"));
        assert_eq!(verdict(|case| case.cache = crate::results::Cache::Dropped), other("cold (dropped) and not warm"));
    }

    #[test]
    fn sections_of_another_place_are_not_compared() {
        let (old, mut new) = (with(&[("a", 2.0)]), with(&[("a", 1.0)]));
        new.sections[0].place = "second directory".to_owned();
        assert!(view(&old, &new).is_none());
        let both = results(vec![old.sections[0].clone(), new.sections[0].clone()]);
        let said = view(&old, &both).unwrap().not_measured;
        assert!(said[0].ends_with("is not in the baseline."), "{said:?}");
    }

    #[test]
    fn other_settings_programs_and_mount_options_are_reported() {
        let (mut old, mut new) = (with(&[("a", 2.0)]), with(&[("a", 1.0)]));
        for (results, source, cp, options) in [(&mut old, "/a", "cp 9.1", "rw"), (&mut new, "/b", "cp 9.5", "rw,sync")]
        {
            results.sections[0].settings.insert("source".to_owned(), source.to_owned());
            results.environment.competitors.insert("cp".to_owned(), cp.to_owned());
            for place in results.environment.places.values_mut() {
                place.mount_options = options.to_owned();
            }
        }
        let words = "Not only the copiers may differ: mount options of target rw,sync and not rw; cp 9.5 and not cp 9.1; \
                     source of compare /b and not /a.";
        assert_eq!(view(&old, &new).unwrap().warnings, [words]);
    }

    #[test]
    fn other_machines_are_reported() {
        let (old, mut new) = (with(&[("a", 2.0)]), with(&[("a", 1.0)]));
        new.environment.kernel = "6.13".to_owned();
        assert_eq!(view(&old, &new).unwrap().warnings, ["Not only the copiers may differ: kernel 6.13 and not 6.12."]);
    }
}
