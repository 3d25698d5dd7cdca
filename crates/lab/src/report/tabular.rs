//! Drawings as tables, where nothing can be drawn.

use haul_measure::words;

use super::text::{Digits, percent};
use crate::results::Grid;
use crate::view::{Cell, Chart, Kind, Series, Table};

/// What a chart shows, as figures; `None` for bars, which stand beside tables with the same figures.
pub fn of(chart: &Chart) -> Option<Table> {
    let table = match &chart.kind {
        Kind::Bars { .. } => return None,
        Kind::Heat { grid, .. } => heat(grid),
        Kind::Latency { series, threshold } => latency(series, threshold.as_ref()),
        Kind::Parts { unit, parts, rows } => stacked(unit, parts, rows),
        Kind::Strip(spans) => strip(spans),
    };
    Some(Table { title: format!("{}{}", chart.title, table.title), ..table })
}

fn line(name: &str, cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(Cell::text(name)).chain(cells).collect()
}

fn heat(grid: &Grid) -> Table {
    let digits = Digits::of(grid.values.iter().flatten().flatten().copied());
    let row = |(row, name): (usize, &String)| {
        let value = |column: usize| grid.values.get(row).and_then(|line| line.get(column)).copied().flatten();
        line(name, (0..grid.columns.1.len()).map(|column| Cell::of(value(column), |value| digits.say(value))))
    };
    let rows = grid.rows.1.iter().enumerate().map(row);
    let mut table = Table::new(format!(" ({})", grid.unit), "", rows).and_figures(&grid.columns.1);
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
    let heads = percentiles.iter().map(|percentile| format!("{percentile} %"));
    let note = threshold.map(|(seconds, name)| format!("{}: {name}", words::seconds(*seconds)));
    Table { note, ..Table::new("", "", series.iter().map(row)).and_figures(heads) }
}

fn stacked(unit: &str, parts: &[String], rows: &[(String, Vec<f64>)]) -> Table {
    let digits = Digits::of(rows.iter().map(|(_, amounts)| amounts.iter().sum()));
    let row = |(name, amounts): &(String, Vec<f64>)| {
        line(name, (0..parts.len()).map(|part| Cell::of(amounts.get(part).copied(), |value| digits.say(value))))
    };
    Table::new("", "", rows.iter().map(row)).and_figures(parts.iter().map(|part| format!("{part}, {unit}")))
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
