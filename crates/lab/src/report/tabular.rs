//! Drawings as tables, where nothing can be drawn.

use haul_measure::words;

use super::text::Digits;
use crate::view::{Cell, Chart, Column, Table};

/// What a chart shows, as figures; `None` for bars, which stand beside tables with the same figures.
pub fn of(chart: &Chart) -> Option<Table> {
    match chart {
        Chart::Bars { .. } => None,
        Chart::Heat { title, unit, rows, columns, values, .. } => Some(heat(title, unit, rows, columns, values)),
        Chart::Latency { title, series, threshold } => Some(latency(title, series, threshold.as_ref())),
        Chart::Parts { title, unit, parts, rows } => Some(stacked(title, unit, parts, rows)),
        Chart::Strip { title, spans } => Some(strip(title, spans)),
    }
}

/// The name of a chart.
pub fn title(chart: &Chart) -> &str {
    match chart {
        Chart::Bars { title, .. }
        | Chart::Heat { title, .. }
        | Chart::Latency { title, .. }
        | Chart::Parts { title, .. }
        | Chart::Strip { title, .. } => title,
    }
}

fn nothing() -> Cell {
    Cell::text("-")
}

fn heat(
    title: &str,
    unit: &str,
    rows: &(String, Vec<String>),
    columns: &(String, Vec<String>),
    values: &[Vec<Option<f64>>],
) -> Table {
    let mut heads = vec![Column::words(format!("{} \\ {}", rows.0, columns.0))];
    heads.extend(columns.1.iter().map(Column::figures));
    let digits = Digits::of(values.iter().flatten().flatten().copied());
    let figure = |value: f64| Cell::figure(value, digits.say(value));
    let line = |(row, name): (usize, &String)| {
        let value = |column: usize| values.get(row).and_then(|line| line.get(column)).copied().flatten();
        let cells = (0..columns.1.len()).map(|column| value(column).map_or_else(nothing, figure));
        std::iter::once(Cell::text(name)).chain(cells).collect()
    };
    Table {
        title: format!("{title} ({unit})"),
        columns: heads,
        rows: rows.1.iter().enumerate().map(line).collect(),
        note: None,
    }
}

fn latency(title: &str, series: &[(String, Vec<(f64, f64)>)], threshold: Option<&(f64, String)>) -> Table {
    let mut percentiles: Vec<f64> = series.iter().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    let mut columns = vec![Column::words("")];
    columns.extend(percentiles.iter().map(|percentile| Column::figures(format!("{percentile} %"))));
    let line = |(name, points): &(String, Vec<(f64, f64)>)| {
        let at = |percentile: f64| points.iter().find(|point| point.0.total_cmp(&percentile).is_eq());
        let cell = |point: &(f64, f64)| Cell::figure(point.1, words::seconds(point.1));
        let cells = percentiles.iter().map(|percentile| at(*percentile).map_or_else(nothing, cell));
        std::iter::once(Cell::text(name)).chain(cells).collect()
    };
    let note = threshold.map(|(seconds, name)| format!("{}: {name}", words::seconds(*seconds)));
    Table { title: title.to_owned(), columns, rows: series.iter().map(line).collect(), note }
}

fn stacked(title: &str, unit: &str, parts: &[String], rows: &[(String, Vec<f64>)]) -> Table {
    let mut columns = vec![Column::words("")];
    columns.extend(parts.iter().map(|part| Column::figures(format!("{part}, {unit}"))));
    let digits = Digits::of(rows.iter().map(|(_, amounts)| amounts.iter().sum()));
    let figure = |value: f64| Cell::figure(value, digits.say(value));
    let line = |(name, amounts): &(String, Vec<f64>)| {
        let cells = (0..parts.len()).map(|part| amounts.get(part).copied().map_or_else(nothing, figure));
        std::iter::once(Cell::text(name)).chain(cells).collect()
    };
    Table { title: title.to_owned(), columns, rows: rows.iter().map(line).collect(), note: None }
}

/// The kinds of a strip with their bytes, the most first.
pub fn amounts(spans: &[(String, u64)]) -> Vec<(String, u64)> {
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for (kind, bytes) in spans {
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(*bytes),
            None => kinds.push((kind.clone(), *bytes)),
        }
    }
    kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    kinds
}

fn strip(title: &str, spans: &[(String, u64)]) -> Table {
    let kinds = amounts(spans);
    let all = kinds.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>().max(1.0);
    let line = |(kind, bytes): &(String, u64)| {
        let share = *bytes as f64 / all;
        vec![
            Cell::text(kind),
            Cell::figure(*bytes as f64, words::bytes(*bytes)),
            Cell::figure(share, super::text::percent(share)),
        ]
    };
    Table {
        title: title.to_owned(),
        columns: vec![Column::words("kind"), Column::figures("bytes"), Column::figures("share")],
        rows: kinds.iter().map(line).collect(),
        note: None,
    }
}
