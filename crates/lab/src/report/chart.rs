//! Drawings of a page: the shares and places that its template gives to boxes and lines. The browser breaks names, fits
//! everything to the screen, and takes the colours from the style sheet.

use std::fmt::Write as _;

use haul_measure::words::{self, short};
use serde::Serialize;

use super::tabular;
use super::text::{Digits, percent};
use crate::results::Grid;
use crate::view::{Bar, BarGroup, Chart, Kind, Series};

/// How many parts have colours of their own.
const PARTS: usize = 7;
/// How many colours fields have above and below the middle.
const STEPS: i32 = 4;
/// If the bars of a group are this much shorter than those of another, each group has a scale of its own.
const APART: f64 = 12.0;
/// What a letter takes of the longest bar on the narrowest screen, in percent.
const LETTER: f64 = 3.5;
/// Percentiles with a line.
const LINES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
/// Units of a plot or a strip, which is stretched to the screen.
const UNITS: f64 = 1000.0;

/// What the template draws.
#[derive(Default, Serialize)]
pub struct Drawing<'c> {
    title: &'c str,
    /// The class of a colour, and what it stands for.
    legend: Vec<(String, String)>,
    groups: Vec<Group>,
    heat: Option<Heat<'c>>,
    plot: Option<Plot>,
    /// A class, and where on the strip it is.
    strip: Vec<(String, String)>,
    note: String,
}

#[derive(Serialize)]
struct Group {
    name: String,
    rows: Vec<Row>,
}

/// A bar; lengths are percentages of the longest.
#[derive(Serialize)]
struct Row {
    name: String,
    /// The class, length, words and figure of each part.
    parts: Vec<(String, f64, String, String)>,
    /// Where the least that was seen lies, and how far the most is from it.
    range: Option<(f64, f64)>,
    figure: String,
}

#[derive(Serialize)]
struct Heat<'c> {
    grid: &'c Grid,
    /// The class and figure of each field, by row.
    fields: Vec<Vec<(String, String)>>,
}

/// Curves on logarithmic axes, with places in [`UNITS`] from the upper left corner, and lines in percent.
#[derive(Default, Serialize)]
struct Plot {
    /// A class, and the points as a path.
    curves: Vec<(String, String)>,
    across: Vec<(f64, String)>,
    down: Vec<(f64, String)>,
    threshold: Option<f64>,
}

pub fn draw(chart: &Chart) -> Drawing<'_> {
    let drawing = match &chart.kind {
        Kind::Bars { unit, groups } => bars(unit, groups),
        Kind::Heat { grid, level } => heat(grid, *level),
        Kind::Latency { series, threshold } => latency(series, threshold.as_ref()),
        Kind::Parts { unit, parts, rows } => split(unit, parts, rows),
        Kind::Strip(spans) => strip(spans),
    };
    Drawing { title: &chart.title, ..drawing }
}

fn part(number: usize) -> String {
    format!("p{}", number % PARTS)
}

fn share(value: f64, most: f64) -> f64 {
    (value / most.max(f64::MIN_POSITIVE) * 1e4).clamp(0.0, 1e4).round() / 100.0
}

fn bars(unit: &str, groups: &[BarGroup]) -> Drawing<'static> {
    let longest = |group: &BarGroup| {
        let ends = group.bars.iter().map(|bar| bar.value.max(bar.range.1));
        ends.filter(|end| end.is_finite()).fold(0.0, f64::max)
    };
    let all = groups.iter().map(longest).fold(0.0, f64::max);
    let shortest = groups.iter().map(longest).filter(|end| *end > 0.0).fold(f64::INFINITY, f64::min);
    let own = all > shortest * APART;
    let group = |group: &BarGroup| {
        let most = if own { longest(group) } else { all };
        let digits = Digits::of(group.bars.iter().map(|bar| bar.value));
        let row = |bar: &Bar| {
            let class = if bar.base { "base" } else { "bar" };
            let (least, furthest) = bar.range;
            Row {
                name: bar.name.clone(),
                parts: vec![(class.to_owned(), share(bar.value, most), String::new(), String::new())],
                range: (furthest > least).then(|| (share(least, most), share(furthest - least, most))),
                figure: format!("{} {unit}", digits.say(bar.value)),
            }
        };
        Group { name: group.name.clone(), rows: group.bars.iter().map(row).collect() }
    };
    let note = if own { "Each group has a scale of its own." } else { "" };
    Drawing { groups: groups.iter().map(group).collect(), note: note.to_owned(), ..Drawing::default() }
}

fn split(unit: &str, parts: &[String], rows: &[(String, Vec<f64>)]) -> Drawing<'static> {
    let total = |amounts: &[f64]| amounts.iter().filter(|amount| amount.is_finite()).sum::<f64>();
    let most = rows.iter().map(|row| total(&row.1)).fold(0.0, f64::max);
    let digits = Digits::of(rows.iter().map(|row| total(&row.1)));
    let row = |(name, amounts): &(String, Vec<f64>)| {
        let known = amounts.iter().zip(parts).enumerate().filter(|(_, (amount, _))| amount.is_finite());
        let one = |(number, (amount, name)): (usize, (&f64, &String))| {
            let (share, figure) = (share(*amount, most), digits.say(*amount));
            let words = format!("{name}, {figure} {unit}");
            (part(number), share, words, if share >= LETTER * figure.len() as f64 { figure } else { String::new() })
        };
        let figure = format!("{} {unit}", digits.say(total(amounts)));
        Row { name: name.clone(), parts: known.map(one).collect(), range: None, figure }
    };
    let legend = parts.iter().enumerate().map(|(number, name)| (part(number), name.clone())).collect();
    let groups = vec![Group { name: String::new(), rows: rows.iter().map(row).collect() }];
    Drawing { legend, groups, ..Drawing::default() }
}

/// Colours turn around `level`.
fn heat(grid: &Grid, level: Option<f64>) -> Drawing<'_> {
    let known = || grid.values.iter().flatten().flatten().copied().filter(|value| value.is_finite());
    // Ratios need no more digits.
    let digits = Digits::of(known()).at_most(if level.is_some() { 2 } else { 6 });
    let (least, most) =
        known().fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    let step = |value: f64| match level {
        Some(level) if level > 0.0 && value > 0.0 => around(value / level),
        // More is stronger, from the middle on.
        _ if most > least && least > 0.0 && most / least > 20.0 => {
            -(((value / least).ln() / (most / least).ln() * f64::from(STEPS)).round() as i32)
        }
        _ if most > least => -(((value - least) / (most - least) * f64::from(STEPS)).round() as i32),
        _ => 0,
    };
    let field = |value: Option<f64>| match value.filter(|value| value.is_finite()) {
        Some(value) => (format!("f{}", step(value).clamp(-STEPS, STEPS) + STEPS), compact(value, digits)),
        None => ("empty".to_owned(), "-".to_owned()),
    };
    let value = |row: usize, column: usize| *grid.values.get(row)?.get(column)?;
    let row = |row: usize| (0..grid.columns.1.len()).map(|column| field(value(row, column))).collect();
    let note = match level {
        Some(level) => format!(
            "Blue: less than {}; orange: more; grey: within 5 % of it. The strongest colours: under half, or over twice.",
            short(level)
        ),
        None => format!("In {}. The stronger the colour, the more.", grid.unit),
    };
    let fields = (0..grid.rows.1.len()).map(row).collect();
    Drawing { heat: Some(Heat { grid, fields }), note, ..Drawing::default() }
}

/// A figure that fits into a field: thousands and millions are abbreviated, as everywhere.
fn compact(value: f64, digits: Digits) -> String {
    match value.abs() {
        size if size >= 999_500.0 => format!("{} M", short(value / 1e6)),
        size if size >= 9_995.0 => format!("{} k", short(value / 1e3)),
        _ => digits.say(value),
    }
}

/// The colour of a ratio: the same, and from a tenth over a half to twice and beyond.
fn around(ratio: f64) -> i32 {
    let distance = ratio.ln().abs();
    let step = [1.05f64, 1.2, 1.5, 2.0].iter().filter(|edge| distance >= edge.ln()).count() as i32;
    if ratio < 1.0 { -step } else { step }
}

/// How much is above a percentile, as a share. Nobody measures better than a part in a million.
fn above(percentile: f64) -> f64 {
    (1.0 - percentile / 100.0).clamp(1e-6, 1.0)
}

fn latency(series: &[Series], threshold: Option<&(f64, String)>) -> Drawing<'static> {
    let usable = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    let points = || series.iter().flat_map(|(_, points)| points).filter(usable);
    let times = || points().map(|point| point.1).chain(threshold.map(|line| line.0)).filter(|time| *time > 0.0);
    let most = times().fold(1e-9, f64::max);
    // Whole decades.
    let lowest = times().fold(most, f64::min).max(1e-9).log10().floor();
    let highest = most.log10().ceil().max(lowest + 1.0);
    let furthest = points().map(|point| above(point.0)).fold(0.05, f64::min);
    // What is rare is on the right.
    let x = |percentile: f64| above(percentile).ln() / furthest.ln();
    let y = |seconds: f64| ((highest - seconds.max(1e-12).log10()) / (highest - lowest)).clamp(0.0, 1.0);
    let curve = |(number, (_, points)): (usize, &Series)| {
        let places = points.iter().filter(usable).map(|(percentile, time)| (x(*percentile) * UNITS, y(*time) * UNITS));
        let places: Vec<String> = places.map(|(x, y)| format!("M{x:.1} {y:.1}")).collect();
        let dots: String = places.iter().map(|place| format!("{place}h0")).collect();
        [(part(number), places.join("").replace('M', "L").replacen('L', "M", 1)), (part(number) + " dots", dots)]
    };
    let decades = (lowest as i32..=highest as i32).map(|decade| 10f64.powi(decade));
    let plot = Plot {
        curves: series.iter().enumerate().flat_map(curve).collect(),
        across: decades.map(|time| (share(y(time), 1.0), words::seconds(time))).collect(),
        down: LINES
            .into_iter()
            .filter(|percentile| above(*percentile) >= furthest * 0.99)
            .map(|percentile| (share(x(percentile), 1.0), format!("{percentile} %")))
            .collect(),
        threshold: threshold.map(|(time, _)| share(y(*time), 1.0)),
    };
    let mut legend: Vec<_> =
        series.iter().enumerate().map(|(number, (name, _))| (part(number), name.clone())).collect();
    legend.extend(
        threshold.map(|(time, text)| ("line".to_owned(), format!("broken line: {}, {text}", words::seconds(*time)))),
    );
    Drawing { legend, plot: Some(plot), ..Drawing::default() }
}

/// What kind of bytes is where on an image. Edges are drawn smooth, so that nothing small is lost.
fn strip(spans: &[(String, u64)]) -> Drawing<'static> {
    let kinds = tabular::amounts(spans);
    let all = kinds.iter().map(|(_, bytes, _)| *bytes as f64).sum::<f64>().max(1.0);
    let mut paths = vec![String::new(); kinds.len()];
    let mut at = 0.0;
    for (kind, bytes) in spans {
        let (from, width) = (at / all * UNITS, *bytes as f64 / all * UNITS);
        at += *bytes as f64;
        if let Some(number) = kinds.iter().position(|(known, ..)| known == kind) {
            write!(paths[number], "M{from:.3} 0h{width:.3}v1h-{width:.3}z").unwrap_or_default();
        }
    }
    // The same kind always has the same colour.
    let class = |(number, (kind, ..)): (usize, &(String, u64, f64))| match kind.as_str() {
        "used" => part(0),
        "free" => part(2),
        "zero" | "zeros" => part(1),
        "opaque" => part(5),
        "hole" | "holes" => "hole".to_owned(),
        _ => part(number),
    };
    let classes: Vec<String> = kinds.iter().enumerate().map(class).collect();
    let names = kinds.iter().map(|(kind, _, share)| format!("{kind}, {}", percent(*share)));
    let legend = classes.iter().cloned().zip(names).collect();
    Drawing { legend, strip: classes.into_iter().zip(paths).collect(), ..Drawing::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_figures_are_abbreviated() {
        let values = [400.0, 9994.0, 35_755.0, 999_500.0, 3.2e6];
        let digits = Digits::of(values.into_iter());
        assert_eq!(values.map(|value| compact(value, digits)), ["400", "9994", "35.8 k", "1 M", "3.2 M"]);
    }

    #[test]
    fn less_is_blue_more_is_orange_and_the_same_is_grey() {
        assert_eq!(
            [0.4, 0.6, 0.75, 0.9, 0.97, 1.0, 1.04, 1.1, 1.3, 1.7, 2.5].map(around),
            [-4, -3, -2, -1, 0, 0, 0, 1, 2, 3, 4]
        );
    }

    #[test]
    fn every_part_of_a_strip_is_drawn_where_it_is() {
        let spans = [("used".to_owned(), 30), ("hole".to_owned(), 10), ("used".to_owned(), 40)];
        let drawing = strip(&spans);
        let used = "M0.000 0h375.000v1h-375.000zM500.000 0h500.000v1h-500.000z".to_owned();
        let hole = "M375.000 0h125.000v1h-125.000z".to_owned();
        assert_eq!(drawing.strip, [("p0".to_owned(), used), ("hole".to_owned(), hole)]);
        assert!(strip(&[]).strip.is_empty());
    }
}
