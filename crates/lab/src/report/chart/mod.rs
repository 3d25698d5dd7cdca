//! Drawings for a page, by plotters: each in a wide form and in a narrow one, so that letters have one size on every screen.
//!
//! Colours in the drawings are only names ([`ink`]); the page's style sheet says what they look like by day, by night and
//! on paper. Text is measured by [`fit`], for the widest of the fonts that pages are commonly shown in.

use haul_measure::words;

mod bars;
mod canvas;
mod fit;
mod form;
mod heat;
pub mod ink;
mod latency;
mod legend;
mod parts;
mod strip;

use crate::report::tabular;
use crate::report::text::{percent, shown};
use crate::results::Grid;
use crate::view::{Bar, BarGroup, Chart, Kind};

pub use form::Form;

/// A drawing as an `<svg>` element. It may be wider than its form: then it has a `min-width`, and scrolls in its box.
pub fn draw(chart: &Chart, form: Form) -> String {
    let label = &label(chart);
    match &chart.kind {
        Kind::Bars { unit, groups } => bars::draw(unit, groups, label, form),
        Kind::Heat { grid, level } => heat::draw(grid, *level, label, form),
        Kind::Latency { series, threshold } => latency::draw(series, threshold.as_ref(), label, form),
        Kind::Parts { unit, parts, rows } => parts::draw(unit, parts, rows, label, form),
        Kind::Strip(spans) => strip::draw(spans, label, form),
    }
}

/// What a drawing is and what it shows, for who does not see it.
pub fn label(chart: &Chart) -> String {
    shown(&format!("{}: {}", chart.title, finding(chart)))
}

/// What a drawing shows, in a sentence.
fn finding(chart: &Chart) -> String {
    let found = match &chart.kind {
        Kind::Bars { unit, groups } => extremes(unit, groups),
        Kind::Heat { grid, .. } => field_extremes(grid),
        Kind::Latency { series, .. } => {
            let say = |(name, points): &(String, Vec<(f64, f64)>)| {
                let longest = points.last().map_or(0.0, |point| point.1);
                format!("{name} at most {}", words::seconds(longest))
            };
            words::list(&series.iter().map(say).collect::<Vec<_>>())
        }
        Kind::Parts { unit, parts, rows } => {
            let say = |(name, amounts): &(String, Vec<f64>)| {
                let (part, amount) = amounts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
                Some(format!("{name} mostly {}, {} {unit}", parts.get(part)?, words::short(*amount)))
            };
            words::list(&rows.iter().filter_map(say).collect::<Vec<_>>())
        }
        Kind::Strip(spans) => {
            let say = |(kind, _, share): (String, u64, f64)| format!("{} {kind}", percent(share));
            words::list(&tabular::amounts(spans).into_iter().map(say).collect::<Vec<_>>())
        }
    };
    if found.is_empty() { "nothing was measured".to_owned() } else { found }
}

fn extremes(unit: &str, groups: &[BarGroup]) -> String {
    let say = |group: &BarGroup| {
        let order = |a: &&Bar, b: &&Bar| a.value.total_cmp(&b.value);
        let (least, most) = (group.bars.iter().min_by(order)?, group.bars.iter().max_by(order)?);
        let figure = |bar: &Bar| format!("{} {} {unit}", bar.name, words::short(bar.value));
        let of = if group.name.is_empty() { String::new() } else { format!("{}, ", group.name) };
        Some(format!("{of}from {} to {}", figure(least), figure(most)))
    };
    groups.iter().filter_map(say).collect::<Vec<_>>().join("; ")
}

fn field_extremes(grid: &Grid) -> String {
    let line = |(row, line): (usize, &Vec<Option<f64>>)| {
        let value =
            |(column, value): (usize, &Option<f64>)| Some(((*value).filter(|value| value.is_finite())?, row, column));
        line.iter().enumerate().filter_map(value).collect::<Vec<_>>()
    };
    let values: Vec<(f64, usize, usize)> = grid.values.iter().enumerate().flat_map(line).collect();
    let say = |(value, row, column): &(f64, usize, usize)| {
        let name = |names: &[String], place: usize| names.get(place).cloned().unwrap_or_default();
        format!("{} at {}, {}", words::short(*value), name(&grid.rows.1, *row), name(&grid.columns.1, *column))
    };
    // Of equals the first.
    let least = values.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = values.iter().rev().max_by(|a, b| a.0.total_cmp(&b.0));
    least
        .zip(most)
        .map_or_else(String::new, |(least, most)| format!("{} from {} to {}", grid.unit, say(least), say(most)))
}
