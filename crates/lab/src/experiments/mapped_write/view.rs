//! How the section is shown: made of its saved details alone.

use haul_measure::words;

mod cells;
mod figures;
mod published;

use super::grid::{Manner, Test, grid_name};
use super::waits::Wait;
use crate::results::{Body, Results, Section};
use crate::view::{Bar, BarGroup, Cell, Chart, Column, Mark, Table, View};

use self::cells::{count, maybe, time};
use self::figures::{Figures, Grid, median};

/// Less than this share of looks at which something was being written is doubtful, in percent.
const WRITING: f64 = 50.0;
/// Rounds of msync below which their times are doubtful.
const FEW_ROUNDS: usize = 3;

/// What people are to see of the section `mapped-write`.
pub fn view(results: &Results, section: &Section) -> View {
    let figures = Figures(section);
    let not_measured = figures.rows("left-out").iter().map(|(part, _, why)| format!("{part}: {why}"));
    View {
        name: section.name.clone(),
        title: "Writes to mapped files".to_owned(),
        question: "Does writing through mmap stall here, and does msync?".to_owned(),
        summary: summary(figures),
        not_measured: section.skipped.iter().cloned().chain(not_measured).collect(),
        warnings: warnings(results, figures),
        charts: charts(figures),
        tables: tables(figures),
        published: published::published(figures),
    }
}

fn summary(figures: Figures<'_>) -> Vec<String> {
    match figures.0.detail("verdict") {
        Some(Body::Verdict { name, sentences }) => {
            let mut sentences = sentences.clone();
            match sentences.first_mut() {
                Some(first) => *first = format!("{first} ({name})"),
                None => sentences.push(name.clone()),
            }
            sentences
        }
        _ => vec!["It was not measured to its end, so there is no verdict.".to_owned()],
    }
}

fn warnings(results: &Results, figures: Figures<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let fact = |name: &str| figures.rows("stall-facts").iter().find(|(have, ..)| have == name);
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
    let rounds = figures.samples("msync", "written").len();
    if figures.0.detail("msync").is_some() && rounds < FEW_ROUNDS {
        warnings
            .push(format!("Only {rounds} whole rounds of msync were done in their time; what is said of pages holds."));
    }
    if let Some(hypervisor) = &results.environment.virtual_machine {
        warnings
            .push(format!("This is a virtual machine ({hypervisor}): what its host does shows in the longest times."));
    }
    warnings
}

fn charts(figures: Figures<'_>) -> Vec<Chart> {
    let mut charts: Vec<Chart> = latencies(figures).into_iter().collect();
    charts.extend(waits_chart(figures));
    charts.extend(rounds(figures));
    for test in Test::ALL.into_iter().filter(|test| test.writes()) {
        let grid = |manner| figures.grid(&grid_name(manner, test));
        let (mapped, written) = (grid(Manner::Mapped), grid(Manner::Written));
        charts.extend(
            mapped.map(|mapped| heat(&format!("{}, mapped", said(test)), "KiB/s", mapped, mapped.values, None)),
        );
        charts.extend(mapped.zip(written).map(|(mapped, written)| {
            let title = format!("{}, mapped: speed-up over write(2)", said(test));
            heat(&title, "times", mapped, &mapped.over(written), Some(1.0))
        }));
    }
    charts
}

/// A test's name in titles.
fn said(test: Test) -> String {
    let name = test.name().replace('-', " ");
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn latencies(figures: Figures<'_>) -> Option<Chart> {
    let named = [
        ("stall", "fill of a step"),
        ("msync-latency", "msync of a page"),
        ("written-latency", "synchronous write of a page"),
    ];
    let points = |(name, said): &(&str, &str)| {
        let points = figures.latency(name)?.percentiles.clone();
        (!points.is_empty()).then(|| ((*said).to_owned(), points))
    };
    let series: Vec<_> = named.iter().filter_map(points).collect();
    let threshold = figures.latency("stall").map(|fills| (fills.threshold, "counted as long".to_owned()));
    (!series.is_empty()).then(|| Chart::Latency { title: "How long it took".to_owned(), series, threshold })
}

fn waits_chart(figures: Figures<'_>) -> Option<Chart> {
    let waits: Vec<_> = figures.series("stall-waits").collect();
    let parts = waits.iter().map(|(name, _)| (*name).to_owned()).collect();
    let amounts = waits.iter().map(|(_, times)| times.iter().sum()).collect();
    let rows = vec![("fills over the threshold".to_owned(), amounts)];
    let title = "Where the time of long fills went".to_owned();
    (!waits.is_empty()).then(|| Chart::Parts { title, unit: "s".to_owned(), parts, rows })
}

fn rounds(figures: Figures<'_>) -> Option<Chart> {
    let bar = |series: &str, name: &str, base: bool| {
        let rounds = figures.samples("msync", series);
        let range = (rounds.iter().copied().reduce(f64::min)?, rounds.iter().copied().reduce(f64::max)?);
        Some(Bar { name: name.to_owned(), value: median(rounds)?, range, base })
    };
    let bars = [bar("mapped", "mapped, msync", false), bar("written", "synchronous write", true)];
    let bars: Vec<Bar> = bars.into_iter().flatten().collect();
    let groups = vec![BarGroup { name: "page by page".to_owned(), bars: bars.clone() }];
    (!bars.is_empty()).then(|| Chart::Bars {
        title: "A round of synchronous pages".to_owned(),
        unit: "s".to_owned(),
        groups,
    })
}

fn heat(title: &str, unit: &str, grid: Grid<'_>, values: &[Vec<Option<f64>>], level: Option<f64>) -> Chart {
    Chart::Heat {
        title: title.to_owned(),
        unit: unit.to_owned(),
        rows: ("file".to_owned(), grid.rows.iter().map(|size| sized(size)).collect()),
        columns: ("record".to_owned(), grid.columns.iter().map(|size| sized(size)).collect()),
        values: values.to_vec(),
        level,
    }
}

/// Bytes that are saved in decimal.
fn sized(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), words::bytes)
}

fn tables(figures: Figures<'_>) -> Vec<Table> {
    let mut tables: Vec<Table> =
        [latency_table(figures), waits_table(figures), under_table(figures)].into_iter().flatten().collect();
    tables.extend(Manner::ALL.into_iter().filter_map(|manner| grid_table(figures, manner)));
    for (name, title, columns) in [
        (
            "stall-places",
            "Where long fills were seen to stand still",
            ["reason", "times seen", "functions of the kernel"],
        ),
        ("stall-facts", "While files grew", ["what", "value", "meaning"]),
        ("facts", "What is known of the place", ["what", "value", "meaning"]),
    ] {
        let rows = figures.rows(name);
        let cells = |(name, value, meaning): &(String, String, String)| [name, value, meaning].map(Cell::text).to_vec();
        let columns = columns.map(Column::words).to_vec();
        let table = Table { title: title.to_owned(), columns, rows: rows.iter().map(cells).collect(), note: None };
        tables.extend((!rows.is_empty()).then_some(table));
    }
    tables
}

fn latency_table(figures: Figures<'_>) -> Option<Table> {
    let shown = [50.0, 99.0, 99.9, 99.99];
    let row = |(name, said): (&str, &str)| {
        let latency = figures.latency(name)?;
        let over = count(latency.over).marked(if latency.over > 0 { Mark::Bad } else { Mark::None });
        let mut cells = vec![Cell::text(said), count(latency.count), time(latency.threshold), over];
        cells.extend(shown.map(|percentile| maybe(latency.at(percentile))));
        cells.push(time(latency.longest));
        Some(cells)
    };
    let rows: Vec<_> = [
        ("stall", "fill of a step"),
        ("stall-extensions", "extension by a segment"),
        ("msync-latency", "msync of a page"),
        ("written-latency", "synchronous write of a page"),
    ]
    .into_iter()
    .filter_map(row)
    .collect();
    let mut columns = vec![Column::words("what")];
    columns.extend(["times", "threshold", "over it"].map(Column::figures));
    columns.extend(shown.map(|percentile| Column::figures(format!("p{percentile}"))));
    columns.push(Column::figures("longest"));
    (!rows.is_empty()).then(|| Table { title: "Times".to_owned(), columns, rows, note: None })
}

fn waits_table(figures: Figures<'_>) -> Option<Table> {
    let row = |(name, times): (&str, &[f64])| {
        let says = Wait::of_name(name).map_or_else(String::new, |wait| wait.says(1));
        let longest = times.iter().copied().fold(0.0, f64::max);
        vec![Cell::text(name), count(times.len() as u64), time(times.iter().sum()), time(longest), Cell::text(says)]
    };
    let rows: Vec<_> = figures.series("stall-waits").map(row).collect();
    let mut columns = vec![Column::words("reason")];
    columns.extend(["fills", "together", "longest"].map(Column::figures));
    columns.push(Column::words("the fill"));
    let title = "Why fills took longer than the threshold".to_owned();
    let note = Some("Seen by a second thread that looks at the first one every quarter of a millisecond.".to_owned());
    (!rows.is_empty()).then_some(Table { title, columns, rows, note })
}

fn under_table(figures: Figures<'_>) -> Option<Table> {
    let row = |(series, said): (&str, &str)| {
        let times = figures.samples("under-write-back", series);
        let longest = times.iter().copied().reduce(f64::max)?;
        Some(vec![Cell::text(said), count(times.len() as u64), maybe(median(times)), time(longest)])
    };
    let rows = [("store", "four stores"), ("rest", "what was left of the write-back")];
    let rows: Vec<_> = rows.into_iter().filter_map(row).collect();
    let mut columns = vec![Column::words("what")];
    columns.extend(["times", "median", "longest"].map(Column::figures));
    let note = "If stores wait for the write-back, nothing is left of it after them.".to_owned();
    let title = "Stores to pages under write-back".to_owned();
    (!rows.is_empty()).then_some(Table { title, columns, rows, note: Some(note) })
}

/// A row for each size of file and record, a column for each test.
fn grid_table(figures: Figures<'_>, manner: Manner) -> Option<Table> {
    let grids: Vec<_> = Test::ALL.into_iter().filter_map(|test| figures.grid(&grid_name(manner, test))).collect();
    let first = grids.first()?;
    let mut rows = Vec::new();
    for (row, file) in first.rows.iter().enumerate() {
        for (column, record) in first.columns.iter().enumerate() {
            let rates: Vec<_> = grids.iter().map(|grid| *grid.values.get(row)?.get(column)?).collect();
            if rates.iter().any(Option::is_some) {
                let rate = |rate: &Option<f64>| {
                    rate.map_or_else(
                        || Cell::text("-").marked(Mark::Faint),
                        |rate| Cell::figure(rate, format!("{rate:.0}")),
                    )
                };
                let mut cells = vec![Cell::text(sized(file)), Cell::text(sized(record))];
                cells.extend(rates.iter().map(rate));
                rows.push(cells);
            }
        }
    }
    let mut columns = vec![Column::words("file"), Column::words("record")];
    columns.extend(Test::ALL.map(|test| Column::figures(test.name().replace('-', " "))));
    let (title, note) = match manner {
        Manner::Mapped => {
            ("Mapped, KiB/s", "Each record that is stored is followed by an msync(MS_SYNC) of just that record.")
        }
        Manner::Written => ("By read(2) and write(2), KiB/s", "Each record is written to a descriptor with O_DSYNC."),
    };
    Some(Table { title: title.to_owned(), columns, rows, note: Some(format!("{note} Reads are from the page cache.")) })
}

#[cfg(test)]
mod tests;
