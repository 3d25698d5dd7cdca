//! Drawings of a page: the shares and places that its template gives to boxes and lines. The browser breaks names, fits
//! everything to the screen, and takes the colours from the style sheet.

use std::fmt::Write as _;

use haul_measure::words::{self, short};
use serde::Serialize;

use super::tabular;
use super::text::{Digits, percent, significant};
use crate::results::Grid;
use crate::view::{Bar, BarGroup, Chart, Kind, Series, Values};

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
    /// The same for those who cannot see it.
    says: String,
    /// The class of a colour, and what it stands for.
    legend: Vec<(String, String)>,
    groups: Vec<Group>,
    heat: Option<Heat<'c>>,
    plot: Option<Plot>,
    strip: Option<Strip>,
    note: String,
}

/// A line with figures at their places in percent, and what they are of, with the unit.
#[derive(Default, Serialize)]
struct Axis {
    title: String,
    ticks: Vec<(f64, String)>,
}

#[derive(Serialize)]
struct Group {
    name: String,
    rows: Vec<Row>,
    /// From one line of the grid to the next, in percent.
    step: f64,
    /// Below the group, where no other of the same scale follows.
    axis: Option<Axis>,
}

/// A bar; lengths are percentages of the longest.
#[derive(Serialize)]
struct Row {
    name: String,
    /// The class, length, words and figure of each part.
    parts: Vec<(String, f64, String, String)>,
    /// Where each single run lies.
    dots: Vec<f64>,
    figure: String,
    rate: String,
}

#[derive(Serialize)]
struct Heat<'c> {
    grid: &'c Grid,
    /// The class and figures of each field, by row.
    fields: Vec<Vec<(String, String, String)>>,
}

/// Curves on logarithmic axes, with places in [`UNITS`] from the upper left corner, and lines in percent.
#[derive(Serialize)]
struct Plot {
    /// A class, and the points as a path.
    curves: Vec<(String, String)>,
    upwards: Axis,
    across: Axis,
    threshold: Option<f64>,
}

#[derive(Serialize)]
struct Strip {
    /// A class, and where on the strip it is.
    paths: Vec<(String, String)>,
    axis: Axis,
}

pub fn draw(chart: &Chart) -> Drawing<'_> {
    let drawing = match &chart.kind {
        Kind::Bars { axis, unit, parts, groups } => bars(&format!("{axis}, {unit}"), unit, parts, groups),
        Kind::Heat { grid, against } => heat(grid, against.as_ref()),
        Kind::Latency { series, threshold } => latency(series, threshold.as_ref()),
        Kind::Strip(spans) => strip(spans),
    };
    Drawing { title: &chart.title, says: tabular::read_aloud(chart), ..drawing }
}

fn part(number: usize) -> String {
    format!("p{}", number % PARTS)
}

fn share(value: f64, most: f64) -> f64 {
    (value / most.max(f64::MIN_POSITIVE) * 1e4).clamp(0.0, 1e4).round() / 100.0
}

fn bars(axis: &str, unit: &str, parts: &[String], groups: &[BarGroup]) -> Drawing<'static> {
    let longest = |group: &BarGroup| {
        let ends = group.bars.iter().flat_map(|bar| bar.runs.iter().copied().chain([bar.length()]));
        ends.filter(|end| end.is_finite()).fold(0.0, f64::max)
    };
    let all = groups.iter().map(longest).fold(0.0, f64::max);
    let shortest = groups.iter().map(longest).filter(|end| *end > 0.0).fold(f64::INFINITY, f64::min);
    let own = all > shortest * APART;
    let group = |(number, group): (usize, &BarGroup)| {
        let most = if own { longest(group) } else { all };
        let digits = Digits::of(group.bars.iter().map(Bar::length));
        let row = |bar: &Bar| {
            let one = |(number, length): (usize, &f64)| {
                let (share, figure) = (share(*length, most), digits.say(*length));
                match parts.get(number) {
                    None => (if bar.base { "base" } else { "bar" }.to_owned(), share, String::new(), String::new()),
                    Some(name) => {
                        let words = format!("{name}, {figure} {unit}");
                        let fits = share >= LETTER * figure.len() as f64;
                        (part(number), share, words, if fits { figure } else { String::new() })
                    }
                }
            };
            let known = bar.lengths.iter().enumerate().filter(|(_, length)| length.is_finite());
            Row {
                name: bar.name.clone(),
                parts: known.map(one).collect(),
                dots: bar.runs.iter().filter(|run| run.is_finite()).map(|run| share(*run, most)).collect(),
                figure: format!("{} {unit}", digits.say(bar.length())),
                rate: bar.rate.clone(),
            }
        };
        let ticks = ticks(most);
        Group {
            name: group.name.clone(),
            rows: group.bars.iter().map(row).collect(),
            step: ticks.get(1).map_or(100.0, |tick| tick.0),
            axis: (own || number + 1 == groups.len()).then(|| Axis { title: axis.to_owned(), ticks }),
        }
    };
    let legend = parts.iter().enumerate().map(|(number, name)| (part(number), name.clone())).collect();
    let any = |holds: fn(&Bar) -> bool| groups.iter().flat_map(|group| &group.bars).any(holds);
    let notes = [
        (any(|bar| bar.runs.len() > 1), "Bars are medians; each dot is one run."),
        (any(|bar| bar.base), "Grey is what the others are compared with."),
        (own, "Each group has a scale of its own."),
    ];
    let notes: Vec<&str> = notes.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| note).collect();
    let groups = groups.iter().enumerate().map(group).collect();
    Drawing { legend, groups, note: notes.join(" "), ..Drawing::default() }
}

/// Round figures from 0 to the most, in at most four steps.
fn ticks(most: f64) -> Vec<(f64, String)> {
    let rough = most.max(f64::MIN_POSITIVE) / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|step| step * power).into_iter().find(|step| *step >= rough).unwrap_or(power * 10.0);
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let values = (0..=4).map(|number| f64::from(number) * step).filter(|value| *value <= most);
    values.map(|value| (share(value, most), format!("{value:.digits$}"))).collect()
}

/// The colours are those of the values, or of what they are times those that they are compared with.
fn heat<'c>(grid: &'c Grid, against: Option<&(String, Values)>) -> Drawing<'c> {
    let known = || grid.values.iter().flatten().flatten().copied().filter(|value| value.is_finite());
    let (least, most) =
        known().fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    // In even steps, or by powers where the most is many times the least.
    let step = |value: f64| {
        let share = match most / least {
            _ if most <= least => 0.0,
            ratio if ratio > 20.0 && least > 0.0 => (value / least).ln() / ratio.ln(),
            _ => (value - least) / (most - least),
        };
        (share * f64::from(STEPS)).round() as i32
    };
    let field = |row: usize, column: usize| match tabular::field(grid, against, row, column) {
        None => ("empty".to_owned(), "-".to_owned(), String::new()),
        Some((value, ratio)) => {
            let step = if against.is_none() { step(value) } else { ratio.map_or(0, around) };
            let ratio = ratio.map(|ratio| format!("{ratio:.2} x")).unwrap_or_default();
            (format!("f{}", STEPS - step.clamp(-STEPS, STEPS)), compact(value), ratio)
        }
    };
    let row = |row: usize| (0..grid.columns.1.len()).map(|column| field(row, column)).collect();
    let note = match against {
        Some((name, _)) => format!(
            "In {}, and times the throughput of {name}. Blue: more than {name}; orange: less; grey: within 5 % of it. The \
             strongest colours: over twice, or under half.",
            grid.unit
        ),
        None => format!("In {}. The stronger the colour, the more.", grid.unit),
    };
    let fields = (0..grid.rows.1.len()).map(row).collect();
    Drawing { heat: Some(Heat { grid, fields }), note, ..Drawing::default() }
}

/// A figure that fits into a field: thousands and millions are abbreviated, as everywhere.
fn compact(value: f64) -> String {
    match value.abs() {
        size if size >= 999_500.0 => format!("{} M", short(value / 1e6)),
        size if size >= 9_995.0 => format!("{} k", short(value / 1e3)),
        _ => significant(value),
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
    let drawn = LINES.into_iter().filter(|percentile| above(*percentile) >= furthest * 0.99);
    let plot = Plot {
        curves: series.iter().enumerate().flat_map(curve).collect(),
        upwards: Axis {
            title: "latency (logarithmic)".to_owned(),
            ticks: decades.map(|time| (share(y(time), 1.0), words::seconds(time))).collect(),
        },
        across: Axis {
            title: "percentile (% that took no longer)".to_owned(),
            ticks: drawn.map(|percentile| (share(x(percentile), 1.0), format!("p{percentile}"))).collect(),
        },
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
    let quarters = (0..=4).map(|quarter| f64::from(quarter) / 4.0);
    let ticks = quarters.map(|place| (place * 100.0, words::bytes((all * place) as u64))).collect();
    let axis = Axis { title: "position on the image".to_owned(), ticks };
    Drawing {
        legend,
        strip: Some(Strip { paths: classes.into_iter().zip(paths).collect(), axis }),
        ..Drawing::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_figures_are_abbreviated() {
        let values = [400.0, 9994.0, 35_755.0, 999_500.0, 3.2e6];
        assert_eq!(values.map(compact), ["400", "9994", "35.8 k", "1 M", "3.2 M"]);
    }

    #[test]
    fn more_is_blue_less_is_orange_and_the_same_is_grey() {
        assert_eq!(
            [0.4, 0.6, 0.75, 0.9, 0.97, 1.0, 1.04, 1.1, 1.3, 1.7, 2.5].map(around),
            [-4, -3, -2, -1, 0, 0, 0, 1, 2, 3, 4]
        );
        let names = || ("of".to_owned(), vec!["a".to_owned()]);
        let columns = ("of".to_owned(), ["a", "b", "c"].map(str::to_owned).to_vec());
        let values = vec![vec![Some(210.0), Some(100.0), Some(40.0)]];
        let grid = Grid { unit: "MiB/s".to_owned(), rows: names(), columns, values };
        let drawn = heat(&grid, Some(&("cp".to_owned(), vec![vec![Some(100.0); 3]])));
        let field = |class: &str, figure: &str, ratio: &str| (class.to_owned(), figure.to_owned(), ratio.to_owned());
        let fields = [field("f0", "210", "2.10 x"), field("f4", "100", "1.00 x"), field("f8", "40.0", "0.40 x")];
        assert_eq!(drawn.heat.unwrap().fields, [fields]);
        assert!(drawn.note.starts_with("In MiB/s, and times the throughput of cp."), "{}", drawn.note);
    }

    /// Names and their runs.
    type Runs<'r> = [(&'r str, &'r [f64])];

    fn bars_of(groups: &[(&str, &Runs)]) -> Chart {
        let bar = |(name, runs): &(&str, &[f64])| Bar {
            name: (*name).to_owned(),
            lengths: vec![runs[runs.len() / 2]],
            runs: runs.to_vec(),
            rate: "7 MiB/s".to_owned(),
            base: false,
        };
        let group =
            |(name, bars): &(&str, &Runs)| BarGroup { name: (*name).to_owned(), bars: bars.iter().map(bar).collect() };
        Chart::bars("Times", ["time", "s"], Vec::new(), groups.iter().map(group).collect()).unwrap()
    }

    #[test]
    fn every_axis_has_a_title_and_figures_with_a_unit() {
        let said = |axis: &Axis| {
            let ticks: Vec<&str> = axis.ticks.iter().map(|(_, figure)| figure.as_str()).collect();
            format!("{}: {}", axis.title, ticks.join(" "))
        };
        let chart = bars_of(&[("small", &[("cp", &[0.001, 0.004])]), ("large", &[("cp", &[1.0, 1.7])])]);
        let drawn = draw(&chart);
        let axes: Vec<String> = drawn.groups.iter().filter_map(|group| group.axis.as_ref()).map(said).collect();
        assert_eq!(axes, ["time, s: 0.000 0.001 0.002 0.003 0.004", "time, s: 0.0 0.5 1.0 1.5"]);
        let points = vec![(50.0, 3e-5), (99.0, 2e-4), (99.9, 5e-3)];
        let plot = latency(&[("fill".to_owned(), points)], None).plot.unwrap();
        assert_eq!(said(&plot.upwards), "latency (logarithmic): 10 us 100 us 1 ms 10 ms");
        assert_eq!(said(&plot.across), "percentile (% that took no longer): p50 p90 p99 p99.9");
        let drawn = strip(&[("used".to_owned(), 8 << 30)]).strip.unwrap();
        assert_eq!(said(&drawn.axis), "position on the image: 0 B 2 GiB 4 GiB 6 GiB 8 GiB");
    }

    #[test]
    fn groups_of_one_scale_have_one_axis_and_every_run_is_a_dot_on_it() {
        let chart =
            bars_of(&[("a", &[("cp", &[1.0, 1.5, 2.0]), ("haul", &[0.5, 1.0, 1.25])]), ("b", &[("cp", &[1.0])])]);
        let drawn = draw(&chart);
        assert_eq!(drawn.groups.iter().map(|group| group.axis.is_some()).collect::<Vec<_>>(), [false, true]);
        let rows: Vec<(&str, &[f64])> =
            drawn.groups[0].rows.iter().map(|row| (row.name.as_str(), row.dots.as_slice())).collect();
        assert_eq!(rows, [("haul", &[25.0, 50.0, 62.5][..]), ("cp", &[50.0, 75.0, 100.0][..])]);
        assert_eq!(drawn.groups[0].rows[0].rate, "7 MiB/s");
        assert_eq!(drawn.note, "Bars are medians; each dot is one run.");
    }

    #[test]
    fn a_drawing_says_its_figures_to_those_who_cannot_see_it() {
        let bars = bars_of(&[("1 GiB", &[("cp", &[1.5]), ("haul", &[1.0])])]);
        assert_eq!(draw(&bars).says, "Times. 1 GiB, haul, 1.00 s, 7 MiB/s. 1 GiB, cp, 1.50 s, 7 MiB/s.");
        let points = vec![(50.0, 3e-5), (99.9, 5e-3)];
        let kind = Kind::Latency { series: vec![("fill".to_owned(), points)], threshold: None };
        assert_eq!(draw(&Chart::new("Latency", kind)).says, "Latency. fill, p50 30 us, p99.9 5 ms.");
        let strip = Chart::new("Image", Kind::Strip(vec![("used".to_owned(), 3 << 20), ("hole".to_owned(), 1 << 20)]));
        assert_eq!(draw(&strip).says, "Image. used, bytes 3 MiB, share 75 %. hole, bytes 1 MiB, share 25 %.");
    }

    #[test]
    fn every_part_of_a_strip_is_drawn_where_it_is() {
        let spans = [("used".to_owned(), 30), ("hole".to_owned(), 10), ("used".to_owned(), 40)];
        let drawing = strip(&spans);
        let used = "M0.000 0h375.000v1h-375.000zM500.000 0h500.000v1h-500.000z".to_owned();
        let hole = "M375.000 0h125.000v1h-125.000z".to_owned();
        assert_eq!(drawing.strip.unwrap().paths, [("p0".to_owned(), used), ("hole".to_owned(), hole)]);
        assert!(strip(&[]).strip.unwrap().paths.is_empty());
    }
}
