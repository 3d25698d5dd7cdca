//! How the section is shown: made of its saved details alone.

use haul_measure::{stats, words};

mod published;

use super::grid::{Manner, Test, grid_name};
use super::waits::Wait;
use crate::report::text::{Unit, significant};
use crate::results::{Body, Grid, Results, Section};
use crate::view::{Bar, BarGroup, Cell, Chart, Kind, Mark, Table, View};

/// Less than this share of looks at which something was being written is doubtful, in percent.
const WRITING: f64 = 50.0;
/// Rounds of msync below which their times are doubtful.
const FEW_ROUNDS: usize = 3;

/// What people are to see of the section `mapped-write`.
pub fn view(results: &Results, section: &Section) -> View {
    let not_measured = section.facts("left-out").iter().map(|(part, _, why)| format!("{part}: {why}"));
    View {
        summary: summary(section),
        not_measured: section.skipped.iter().cloned().chain(not_measured).collect(),
        warnings: warnings(results, section),
        charts: charts(section),
        tables: tables(section),
        published: published::published(section),
        ..View::of(section, "Writes to mapped files", "Does writing through mmap stall here, and does msync?")
    }
}

fn summary(section: &Section) -> Vec<String> {
    match section.detail("verdict") {
        Some(Body::Verdict { name, sentences }) => {
            let mut sentences = sentences.clone();
            match sentences.first_mut() {
                Some(first) => *first = format!("{}{}.", first.trim_end_matches('.'), figures(section)),
                None => sentences.push(name.clone()),
            }
            sentences
        }
        _ => vec!["It was not measured to its end, so there is no verdict.".to_owned()],
    }
}

/// How long fills took, for the first sentence.
fn figures(section: &Section) -> String {
    let at = |percentile: f64| section.latency("stall")?.at(percentile).map(words::seconds);
    let figures = [50.0, 99.0, 99.9].map(|percentile| Some(format!("{} (p{percentile})", at(percentile)?)));
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    if figures.is_empty() { String::new() } else { format!("; a fill of a step took {}", words::list(&figures)) }
}

fn warnings(results: &Results, section: &Section) -> Vec<String> {
    let mut warnings = Vec::new();
    let fact = |name: &str| section.facts("stall-facts").iter().find(|(have, ..)| have == name);
    if fact("stacks of the kernel").is_some_and(|(_, seen, _)| seen != "seen") {
        warnings.push(
            "The kernel's stacks could not be seen (that needs root), so the kinds of waits are rough.".to_owned(),
        );
    }
    let writing = fact("under write-back").and_then(|(_, share, _)| share.strip_suffix(" %")?.parse::<f64>().ok());
    if let Some(share) = writing.filter(|share| *share < WRITING) {
        warnings.push(format!(
            "Something was under write-back only at {share:.0} % of the looks: the device was quicker than the files grew, or \
             nothing was written back. Stalls need write-back."
        ));
    }
    let rounds = section.samples("msync", "written").len();
    if section.detail("msync").is_some() && rounds < FEW_ROUNDS {
        warnings
            .push(format!("Only {rounds} whole rounds of msync were done in their time; what is said of pages holds."));
    }
    if let Some(hypervisor) = &results.environment.virtual_machine {
        warnings
            .push(format!("This is a virtual machine ({hypervisor}): what its host does shows in the longest times."));
    }
    warnings
}

fn charts(section: &Section) -> Vec<Chart> {
    let mut charts: Vec<Chart> = latencies(section).into_iter().collect();
    charts.extend(waits_chart(section));
    charts.extend(rounds(section));
    for test in Test::ALL.into_iter().filter(|test| test.writes()) {
        let grid = |manner| section.grid(&grid_name(manner, test));
        let (Some(mapped), written) = (grid(Manner::Mapped), grid(Manner::Written)) else { continue };
        let rows = ("file size".to_owned(), sizes(&mapped.rows.1));
        let columns = ("record size".to_owned(), sizes(&mapped.columns.1));
        let grid = Grid { rows, columns, ..mapped.clone() };
        let against = written.map(|written| ("write(2)".to_owned(), written.values.clone()));
        charts.push(Chart::heat(format!("Throughput of {}, mapped", said(test)), grid, against));
    }
    charts
}

fn said(test: Test) -> String {
    test.name().replace('-', " ")
}

/// Latencies and what they are of, in the order in which they are shown.
const LATENCIES: [(&str, &str); 4] = [
    ("stall", "fill of a step"),
    ("stall-extensions", "extension by a segment"),
    ("msync-latency", "msync of a page"),
    ("written-latency", "synchronous write of a page"),
];

fn latencies(section: &Section) -> Option<Chart> {
    let points = |(name, said): &(&str, &str)| {
        let points = section.latency(name)?.percentiles.clone();
        (!points.is_empty() && *name != "stall-extensions").then(|| ((*said).to_owned(), points))
    };
    let series: Vec<_> = LATENCIES.iter().filter_map(points).collect();
    let threshold = section.latency("stall").map(|fills| (fills.threshold, "counted as long".to_owned()));
    (!series.is_empty()).then(|| Chart::new("Latency by percentile", Kind::Latency { series, threshold }))
}

fn waits_chart(section: &Section) -> Option<Chart> {
    let waits: Vec<_> = section.series("stall-waits").collect();
    let parts = waits.iter().map(|(name, _)| (*name).to_owned()).collect();
    let lengths: Vec<f64> = waits.iter().map(|(_, times)| times.iter().sum()).collect();
    let bar = Bar { name: "fills over the threshold".to_owned(), lengths, ..Bar::default() };
    let bars = Some(bar).filter(|_| !waits.is_empty()).into_iter().collect();
    let group = BarGroup { name: String::new(), bars };
    Chart::bars("Where the time of long fills went", ["time of all of them", "s"], parts, vec![group])
}

fn rounds(section: &Section) -> Option<Chart> {
    let rounds = |series| section.samples("msync", series);
    let unit = Unit::of(["mapped", "written"].into_iter().filter_map(|series| stats::median(rounds(series))));
    let bar = |(series, name, base): (&'static str, &str, bool)| {
        let runs: Vec<f64> = rounds(series).iter().map(|time| unit.scaled(*time)).collect();
        Some(Bar { name: name.to_owned(), lengths: vec![stats::median(&runs)?], runs, base, ..Bar::default() })
    };
    let bars = [("mapped", "mapped, msync", false), ("written", "synchronous write", true)];
    let group = BarGroup { name: "page by page".to_owned(), bars: bars.into_iter().filter_map(bar).collect() };
    Chart::bars("A round of synchronous pages", ["time of a round", unit.name], Vec::new(), vec![group])
}

fn sizes(names: &[String]) -> Vec<String> {
    names.iter().map(|size| sized(size)).collect()
}

/// Bytes that are saved in decimal.
fn sized(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), words::bytes)
}

fn longest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

fn tables(section: &Section) -> Vec<Table> {
    let first = [latency_table(section), waits_table(section), under_table(section)];
    let mut tables: Vec<Table> = first.into_iter().flatten().collect();
    tables.extend(Manner::ALL.into_iter().filter_map(|manner| grid_table(section, manner)));
    for (name, title, heads) in [
        ("stall-places", "Where long fills were seen to stand still", "reason|count|functions of the kernel"),
        ("stall-facts", "While files grew", "fact|value|meaning"),
        ("facts", "What is known of the storage", "fact|value|meaning"),
    ] {
        tables.extend(Table::of_facts(title, heads, section.facts(name)).if_any());
    }
    tables
}

fn latency_table(section: &Section) -> Option<Table> {
    let shown = [50.0, 99.0, 99.9, 99.99];
    let row = |(name, said): &(&str, &str)| {
        let latency = section.latency(name)?;
        let over = Cell::count(latency.over as usize).marked(if latency.over > 0 { Mark::Bad } else { Mark::None });
        let count = Cell::count(latency.count as usize);
        let mut cells = vec![Cell::text(*said), count, Cell::seconds(Some(latency.threshold)), over];
        cells.extend(shown.map(|percentile| Cell::seconds(latency.at(percentile))));
        cells.push(Cell::seconds(Some(latency.longest)));
        Some(cells)
    };
    let heads = "operation|>count|>threshold|>over threshold|>p50|>p99|>p99.9|>p99.99|>max";
    Table::new("Latencies", heads, LATENCIES.iter().filter_map(row)).if_any()
}

fn waits_table(section: &Section) -> Option<Table> {
    let row = |(name, times): (&str, &[f64])| {
        let says = Wait::of_name(name).map_or_else(String::new, |wait| wait.says(1));
        let [together, longest] = [times.iter().sum(), longest(times)].map(|time| Cell::seconds(Some(time)));
        vec![Cell::text(name), Cell::count(times.len()), together, longest, Cell::text(says)]
    };
    let heads = "reason|>count|>total|>max|meaning";
    Table::new("Why fills took longer than the threshold", heads, section.series("stall-waits").map(row))
        .noted("Seen by a second thread that looks at the first one every quarter of a millisecond.")
        .if_any()
}

fn under_table(section: &Section) -> Option<Table> {
    let row = |(series, said): (&str, &str)| {
        let spread = stats::spread(section.samples("under-write-back", series))?;
        Some(vec![
            Cell::text(said),
            Cell::count(spread.count),
            Cell::seconds(Some(spread.median)),
            Cell::seconds(Some(spread.max)),
        ])
    };
    let rows = [("store", "four stores"), ("rest", "what was left of the write-back")].into_iter().filter_map(row);
    Table::new("Stores to pages under write-back", "operation|>count|>p50|>max", rows)
        .noted("If stores wait for the write-back, nothing is left of it after them.")
        .if_any()
}

/// A row for each size of file and record, a column for each test.
fn grid_table(section: &Section, manner: Manner) -> Option<Table> {
    let grid = |test| Some((said(test), section.grid(&grid_name(manner, test))?));
    let (tests, grids): (Vec<String>, Vec<&Grid>) = Test::ALL.into_iter().filter_map(grid).unzip();
    let first = grids.first()?;
    let mut rows = Vec::new();
    for (row, file) in first.rows.1.iter().enumerate() {
        for (column, record) in first.columns.1.iter().enumerate() {
            let rates: Vec<_> = grids.iter().map(|grid| *grid.values.get(row)?.get(column)?).collect();
            if rates.iter().any(Option::is_some) {
                let rates = rates.into_iter().map(|rate| Cell::known(rate.map(|rate| rate / 1024.0), significant));
                rows.push([sized(file), sized(record)].map(Cell::text).into_iter().chain(rates).collect());
            }
        }
    }
    let (title, note) = match manner {
        Manner::Mapped => {
            ("Mapped, MiB/s", "Each record that is stored is followed by an msync(MS_SYNC) of just that record.")
        }
        Manner::Written => ("By read(2) and write(2), MiB/s", "Each record is written to a descriptor with O_DSYNC."),
    };
    let table = Table::new(title, "file|record", rows).and_figures(tests);
    Some(table.noted(format!("{note} Reads are from the page cache.")))
}

#[cfg(test)]
mod tests;
