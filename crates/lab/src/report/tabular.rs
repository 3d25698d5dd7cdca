//! Drawings as tables, where nothing can be drawn, and in words, for those who cannot see them.

use haul_measure::words;

use super::text::{Digits, percent, significant};
use crate::results::Grid;
use crate::view::{Bar, BarGroup, Cell, Chart, Kind, Series, Table, Values};

/// What a chart shows, as figures; `None` for bars without parts, which stand beside tables with the same figures.
pub fn of(chart: &Chart) -> Option<Table> {
    let table = match &chart.kind {
        Kind::Bars { parts, .. } if parts.is_empty() => return None,
        _ => table(chart),
    };
    Some(Table { title: format!("{}{}", chart.title, table.title), ..table })
}

fn table(chart: &Chart) -> Table {
    match &chart.kind {
        Kind::Bars { unit, parts, groups, .. } => bars(unit, parts, groups),
        Kind::Heat { grid, against } => heat(grid, against.as_ref()),
        Kind::Latency { series, threshold } => latency(series, threshold.as_ref()),
        Kind::Strip(spans) => strip(spans),
    }
}

/// The figures of a chart in a sentence for each row: its name, then each figure with what it is.
pub fn read_aloud(chart: &Chart) -> String {
    let table = table(chart);
    let heads = || std::iter::once("").chain(table.columns.iter().skip(1).map(|column| column.name.as_str()));
    let said = |row: &Vec<Cell>| {
        let fields = row.iter().zip(heads()).filter(|(cell, _)| !cell.text.is_empty() && cell.text != "-");
        let fields = fields.map(|(cell, head)| format!("{head} {}", cell.text).trim().to_owned());
        fields.collect::<Vec<_>>().join(", ") + "."
    };
    format!("{}. {}", chart.title, table.rows.iter().map(said).collect::<Vec<_>>().join(" "))
}

fn line(name: &str, cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(Cell::text(name)).chain(cells).collect()
}

/// A value of a grid, and how many times that is what it is compared with.
pub fn field(grid: &Grid, against: Option<&(String, Values)>, row: usize, column: usize) -> Option<(f64, Option<f64>)> {
    let at = |values: &Values| values.get(row)?.get(column).copied()?.filter(|value| value.is_finite());
    let value = at(&grid.values)?;
    let base = against.and_then(|(_, base)| at(base)).filter(|base| *base > 0.0);
    Some((value, base.map(|base| value / base)))
}

fn heat(grid: &Grid, against: Option<&(String, Values)>) -> Table {
    let cell = |row: usize, column: usize| match field(grid, against, row, column) {
        None => Cell::text("-"),
        Some((value, None)) => Cell::figure(value, significant(value)),
        Some((value, Some(ratio))) => Cell::figure(value, format!("{} ({ratio:.2} x)", significant(value))),
    };
    let row = |(row, name): (usize, &String)| line(name, (0..grid.columns.1.len()).map(|column| cell(row, column)));
    let rows = grid.rows.1.iter().enumerate().map(row);
    let base = against.map(|(name, _)| format!("; in brackets: times that of {name}")).unwrap_or_default();
    let mut table = Table::new(format!(" ({}{base})", grid.unit), "", rows).and_figures(&grid.columns.1);
    table.columns[0].name = format!("{} \\ {}", grid.rows.0, grid.columns.0);
    table
}

fn latency(series: &[Series], threshold: Option<&(f64, String)>) -> Table {
    let mut percentiles: Vec<f64> = series.iter().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    let row = |(name, points): &Series| {
        let at =
            |percentile: &f64| points.iter().find(|point| point.0.total_cmp(percentile).is_eq()).map(|point| point.1);
        line(name, percentiles.iter().map(|percentile| Cell::of(at(percentile), words::seconds)))
    };
    let heads = percentiles.iter().map(|percentile| format!("p{percentile}"));
    let note = threshold.map(|(seconds, name)| format!("{}: {name}", words::seconds(*seconds)));
    Table { note, ..Table::new("", "", series.iter().map(row)).and_figures(heads) }
}

fn bars(unit: &str, parts: &[String], groups: &[BarGroup]) -> Table {
    let digits = Digits::of(groups.iter().flat_map(|group| &group.bars).map(Bar::length));
    let row = |group: &BarGroup, bar: &Bar| {
        let name = if group.name.is_empty() { bar.name.clone() } else { format!("{}, {}", group.name, bar.name) };
        let figure = |value| if parts.is_empty() { format!("{} {unit}", digits.say(value)) } else { digits.say(value) };
        let lengths = bar.lengths.iter().map(|length| Cell::figure(*length, figure(*length)));
        line(&name, lengths.chain((!bar.rate.is_empty()).then(|| Cell::text(&bar.rate))))
    };
    let rows = groups.iter().flat_map(|group| group.bars.iter().map(move |bar| row(group, bar)));
    let heads = parts.iter().map(|part| format!("{part}, {unit}"));
    // Figures of bars without parts have their units with them.
    let bare = ["", ""].map(str::to_owned).into_iter().filter(|_| parts.is_empty());
    Table::new("", "", rows).and_figures(heads.chain(bare))
}

/// The kinds of a strip with their bytes and shares, the most first.
pub fn amounts(spans: &[(String, u64)]) -> Vec<(String, u64, f64)> {
    let mut kinds: Vec<(String, u64, f64)> = Vec::new();
    for (kind, bytes) in spans {
        match kinds.iter_mut().find(|(known, ..)| known == kind) {
            Some((_, sum, _)) => *sum = sum.saturating_add(*bytes),
            None => kinds.push((kind.clone(), *bytes, 0.0)),
        }
    }
    kinds.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    let all = kinds.iter().map(|(_, bytes, _)| *bytes as f64).sum::<f64>().max(1.0);
    for (_, bytes, share) in &mut kinds {
        *share = *bytes as f64 / all;
    }
    kinds
}

fn strip(spans: &[(String, u64)]) -> Table {
    let row = |(kind, bytes, share): (String, u64, f64)| {
        vec![Cell::text(kind), Cell::figure(bytes as f64, words::bytes(bytes)), Cell::figure(share, percent(share))]
    };
    Table::new("", "kind|>bytes|>share", amounts(spans).into_iter().map(row))
}
