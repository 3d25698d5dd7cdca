//! Drawings for a page, by plotters: each in a wide form and in a narrow one, so that letters have one size on every screen.
//!
//! Colours in the drawings are only names ([`ink`]); the page's style sheet says what they look like by day, by night and
//! on paper. Text is measured by [`fit`], for the widest of the fonts that pages are commonly shown in.

use haul_measure::words;

mod bars;
mod canvas;
pub mod fit;
mod form;
mod heat;
pub mod ink;
mod latency;
mod parts;
mod strip;

use crate::report::tabular;
use crate::report::text::{percent, shown};
use crate::view::{BarGroup, Chart};

pub use form::Form;

/// A drawing as an `<svg>` element. It may be wider than its form: then it has a `min-width`, and scrolls in its box.
pub fn draw(chart: &Chart, form: Form) -> String {
    match chart {
        Chart::Bars { unit, groups, .. } => bars::draw(unit, groups, &label(chart), form),
        Chart::Heat { rows, columns, values, level, unit, .. } => {
            heat::draw(rows, columns, values, (unit.as_str(), *level), &label(chart), form)
        }
        Chart::Latency { series, threshold, .. } => latency::draw(series, threshold.as_ref(), &label(chart), form),
        Chart::Parts { unit, parts, rows, .. } => parts::draw(unit, parts, rows, &label(chart), form),
        Chart::Strip { spans, .. } => strip::draw(spans, &label(chart), form),
    }
}

/// What a drawing is and what it shows, for who does not see it.
pub fn label(chart: &Chart) -> String {
    shown(&format!("{}: {}", tabular::title(chart), finding(chart)))
}

/// What a drawing shows, in a sentence.
fn finding(chart: &Chart) -> String {
    let found = match chart {
        Chart::Bars { unit, groups, .. } => extremes(unit, groups),
        Chart::Heat { unit, rows, columns, values, .. } => field_extremes(unit, &rows.1, &columns.1, values),
        Chart::Latency { series, .. } => {
            let longest = |points: &[(f64, f64)]| points.last().map_or(0.0, |point| point.1);
            let say = |(name, points): &(String, Vec<(f64, f64)>)| {
                format!("{name} at most {}", words::seconds(longest(points)))
            };
            words::list(&series.iter().map(say).collect::<Vec<_>>())
        }
        Chart::Parts { unit, parts, rows, .. } => {
            let most = |amounts: &[f64]| {
                let largest = amounts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                largest.and_then(|(part, amount)| Some((parts.get(part)?, *amount)))
            };
            let say = |(name, amounts): &(String, Vec<f64>)| {
                let (part, amount) = most(amounts)?;
                Some(format!("{name} mostly {part}, {} {unit}", words::short(amount)))
            };
            words::list(&rows.iter().filter_map(say).collect::<Vec<_>>())
        }
        Chart::Strip { spans, .. } => {
            let kinds = tabular::amounts(spans);
            let all = kinds.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>().max(1.0);
            let say = |(kind, bytes): &(String, u64)| format!("{} {kind}", percent(*bytes as f64 / all));
            words::list(&kinds.iter().map(say).collect::<Vec<_>>())
        }
    };
    if found.is_empty() { "nothing was measured".to_owned() } else { found }
}

fn extremes(unit: &str, groups: &[BarGroup]) -> String {
    let say = |group: &BarGroup| {
        let order = |a: &&crate::view::Bar, b: &&crate::view::Bar| a.value.total_cmp(&b.value);
        let (least, most) = (group.bars.iter().min_by(order)?, group.bars.iter().max_by(order)?);
        let figure = |bar: &crate::view::Bar| format!("{} {} {unit}", bar.name, words::short(bar.value));
        let of = if group.name.is_empty() { String::new() } else { format!("{}, ", group.name) };
        Some(format!("{of}from {} to {}", figure(least), figure(most)))
    };
    groups.iter().filter_map(say).collect::<Vec<_>>().join("; ")
}

fn field_extremes(unit: &str, rows: &[String], columns: &[String], values: &[Vec<Option<f64>>]) -> String {
    let mut least: Option<(f64, usize, usize)> = None;
    let mut most = least;
    for (row, line) in values.iter().enumerate() {
        for (column, value) in line.iter().enumerate() {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            if least.is_none_or(|least| value < least.0) {
                least = Some((value, row, column));
            }
            if most.is_none_or(|most| value > most.0) {
                most = Some((value, row, column));
            }
        }
    }
    let say = |(value, row, column): (f64, usize, usize)| {
        let name = |names: &[String], place: usize| names.get(place).cloned().unwrap_or_default();
        format!("{} at {}, {}", words::short(value), name(rows, row), name(columns, column))
    };
    match (least, most) {
        (Some(least), Some(most)) => format!("{unit} from {} to {}", say(least), say(most)),
        _ => String::new(),
    }
}
