//! How long something took, by percentile, on logarithmic axes.

use haul_measure::words;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::IntoLogRange;

use super::canvas::{Anchor, Canvas, Hand, paint};
use super::fit;
use super::form::{Form, SMALL, name};
use super::ink::{Ink, PARTS};
use super::legend::Legend;

/// Height of the field, and of what is below it.
const FIELD: i32 = 240;
const AXIS: i32 = 26;
/// Percentiles with a line.
const LINES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// A name, and percentile and seconds of each point.
type Series = (String, Vec<(f64, f64)>);

struct Plan {
    /// Of the field.
    left: i32,
    right: i32,
    top: i32,
    seconds: LogCoord<f64>,
    /// What is left of 100 %, as a share: the axis goes from much to little.
    rest: LogCoord<f64>,
    lowest: f64,
}

/// How much is above a percentile, as a share. Nobody measures better than a part in a million.
fn above(percentile: f64) -> f64 {
    (1.0 - percentile / 100.0).clamp(1e-6, 1.0)
}

pub fn draw(series: &[Series], threshold: Option<&(f64, String)>, label: &str, form: Form) -> String {
    let width = form.width();
    let named = series.iter().enumerate().map(|(number, (text, _))| (name(text), Ink::Part(number % PARTS)));
    let line =
        threshold.map(|(time, text)| (format!("broken line: {}, {}", words::seconds(*time), name(text)), Ink::Text));
    let legend = Legend::new(named.chain(line), width);
    let plan = Plan::new(series, threshold, width, legend.height + 14);
    paint((width, legend.height + 14 + FIELD + AXIS), None, label, |canvas| {
        legend.draw(canvas, 0);
        plan.axes(canvas);
        if let Some((seconds, _)) = threshold {
            let y = plan.y(*seconds);
            canvas.dashes((plan.left, y), (plan.right, y), Ink::Text);
        }
        for (number, (_, points)) in series.iter().enumerate() {
            plan.curve(canvas, points, Ink::Part(number % PARTS));
        }
    })
}

impl Plan {
    fn new(series: &[Series], threshold: Option<&(f64, String)>, width: i32, top: i32) -> Plan {
        let points = || series.iter().flat_map(|(_, points)| points).filter(|point| point.1.is_finite());
        let times = || points().map(|point| point.1).chain(threshold.map(|line| line.0)).filter(|time| *time > 0.0);
        let least = times().fold(f64::INFINITY, f64::min).max(1e-9);
        let most = times().fold(1e-9, f64::max);
        // Whole decades.
        let lowest = 10f64.powf(least.min(most).log10().floor());
        let highest = 10f64.powf(most.log10().ceil()).max(lowest * 10.0);
        let furthest = points().map(|point| above(point.0)).fold(0.05, f64::min);
        Plan {
            left: (fit::width("100 ms", SMALL) + 10.0) as i32,
            right: width - 24,
            top,
            seconds: (lowest..highest).log_scale().into(),
            rest: (furthest..1.0).log_scale().into(),
            lowest,
        }
    }

    fn x(&self, percentile: f64) -> i32 {
        // From right to left, since what is rare is on the right.
        self.rest.map(&above(percentile), (self.right, self.left))
    }

    fn y(&self, seconds: f64) -> i32 {
        self.seconds.map(&seconds.max(self.lowest), (self.top + FIELD, self.top))
    }

    fn axes(&self, canvas: &Canvas) {
        let bottom = self.top + FIELD;
        let range = self.seconds.range();
        let mut decade = range.start;
        while decade <= range.end * 1.01 {
            let y = self.y(decade);
            canvas.line(vec![(self.left, y), (self.right, y)], Ink::Line, 1);
            let hand = Hand::new(SMALL, Ink::Dim).at(Anchor::End);
            canvas.text((self.left - 8, y), &words::seconds(decade), hand);
            decade *= 10.0;
        }
        let mut free = 0;
        for percentile in LINES {
            let x = self.x(percentile);
            if above(percentile) < self.rest.range().start * 0.99 {
                break;
            }
            canvas.line(vec![(x, self.top), (x, bottom)], Ink::Line, 1);
            let text = format!("{percentile} %");
            let half = (fit::width(&text, SMALL) / 2.0).ceil() as i32;
            // The last one may not reach out of the drawing.
            let middle = x.min(self.right + 24 - half);
            if middle - half >= free {
                canvas.text((middle, bottom + 14), &text, Hand::new(SMALL, Ink::Dim).at(Anchor::Middle));
                free = middle + half + 4;
            }
        }
    }

    fn curve(&self, canvas: &Canvas, points: &[(f64, f64)], ink: Ink) {
        let usable = points.iter().filter(|point| point.0.is_finite() && point.1.is_finite());
        let places: Vec<(i32, i32)> =
            usable.map(|(percentile, seconds)| (self.x(*percentile), self.y(*seconds))).collect();
        for place in &places {
            canvas.dot(*place, 3, ink);
        }
        if places.len() > 1 {
            canvas.line(places, ink, 2);
        }
    }
}
