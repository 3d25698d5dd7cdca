//! A field of colours by row and column, with the figures in it.

use haul_measure::words::short;

use super::canvas::{Anchor, Canvas, Hand, paint};
use super::fit;
use super::form::{Form, LETTERS, LINE, SMALL, name};
use super::ink::{Ink, STEPS};
use crate::report::text::Digits;
use crate::results::Grid;

const FIELD: i32 = 32;

struct Plan<'v> {
    width: i32,
    rows: Vec<Vec<String>>,
    columns: Vec<Vec<String>>,
    /// Where fields begin, and how wide one is.
    left: i32,
    field: i32,
    /// Height of the names of columns.
    head: i32,
    values: &'v [Vec<Option<f64>>],
    unit: &'v str,
    level: Option<f64>,
    digits: Digits,
    reach: (f64, f64),
}

/// The field as an `<svg>`. It is wider than the form where its figures need the room. Colours turn around `level`.
pub fn draw(grid: &Grid, level: Option<f64>, label: &str, form: Form) -> String {
    let plan = Plan::new(grid, level, form);
    let top = LINE + 6 + plan.head + 4;
    let fields: i32 = plan.rows.iter().map(|row| row_height(row)).sum();
    let legend = plan.legend();
    let height = top + fields + 12 + LINE * legend.len() as i32 + 6;
    let least = (plan.width > form.width()).then_some(plan.width);
    paint((plan.width, height), least, label, |canvas| {
        let hand = Hand::new(SMALL, Ink::Dim);
        canvas.text((0, LINE / 2), &clip(&grid.rows.0, plan.left - 8), hand);
        let over = clip(&grid.columns.0, plan.width - plan.left);
        canvas.text((plan.left, LINE / 2), &over, hand);
        for (number, lines) in plan.columns.iter().enumerate() {
            let x = plan.left + number as i32 * plan.field + plan.field / 2;
            canvas.lines((x, top - 4 - plan.head / 2), lines, Hand::new(SMALL, Ink::Text).at(Anchor::Middle));
        }
        let mut y = top;
        for (number, lines) in plan.rows.iter().enumerate() {
            plan.row(canvas, number, lines, y);
            y += row_height(lines);
        }
        plan.draw_legend(canvas, &legend, y + 12);
    })
}

fn row_height(lines: &[String]) -> i32 {
    (lines.len() as i32 * LINE + 6).max(FIELD)
}

/// The beginning of a text that fits.
fn clip(text: &str, room: i32) -> String {
    let lines = fit::wrap(&name(text), SMALL, f64::from(room));
    match &lines[..] {
        [only] => only.clone(),
        [first, ..] => format!("{}...", first.trim_end_matches(',')),
        [] => String::new(),
    }
}

impl<'v> Plan<'v> {
    fn new(grid: &'v Grid, level: Option<f64>, form: Form) -> Plan<'v> {
        let Grid { unit, rows, columns, values } = grid;
        let room = if form == Form::Wide { 220 } else { 96 };
        let names = fit::widest(rows.1.iter().chain([&rows.0]).map(|text| name(text)), LETTERS);
        let left = names.min(room) + 10;
        let known = || values.iter().flatten().flatten().copied().filter(|value| value.is_finite());
        // Ratios need no more digits.
        let digits = Digits::of(known()).at_most(if level.is_some() { 2 } else { 6 });
        let figure = fit::widest(known().map(|value| compact(value, digits)), LETTERS) + 10;
        // A name of a column may take several lines, but no word of it should be broken.
        let words = columns.1.iter().flat_map(|text| text.split(' ').map(|word| name(word) + " "));
        let words = fit::widest(words, LETTERS).min(110);
        let count = columns.1.len().max(1) as i32;
        let field = ((form.width() - left) / count).clamp(figure.max(words).max(34), 110);
        let wrapped = |texts: &[String], room: i32| {
            texts.iter().map(|text| fit::wrap(&name(text), SMALL, f64::from(room))).collect::<Vec<_>>()
        };
        let column_names = wrapped(&columns.1, field - 4);
        let head = column_names.iter().map(Vec::len).max().unwrap_or(1) as i32 * LINE;
        let reach = known().fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
        Plan {
            width: (left + field * count).max(form.width()),
            rows: rows.1.iter().map(|text| fit::wrap(&name(text), LETTERS, f64::from(left - 10))).collect(),
            columns: column_names,
            left,
            field,
            head,
            values,
            unit,
            level,
            digits,
            reach,
        }
    }

    fn row(&self, canvas: &Canvas, number: usize, lines: &[String], top: i32) {
        let height = row_height(lines);
        canvas.lines((0, top + height / 2), lines, Hand::new(LETTERS, Ink::Text));
        let line = self.values.get(number).map(Vec::as_slice).unwrap_or_default();
        for column in 0..self.columns.len() {
            let x = self.left + column as i32 * self.field;
            let value = line.get(column).copied().flatten().filter(|value| value.is_finite());
            let step = value.map(|value| self.step(value));
            let (ground, words) = match step {
                Some(step) => (Ink::Field(step), Ink::OnField(step)),
                None => (Ink::Empty, Ink::Dim),
            };
            // A line of paper is left between fields.
            canvas.rect((x, top), (x + self.field - 2, top + height - 2), ground);
            let text = value.map_or_else(|| "-".to_owned(), |value| compact(value, self.digits));
            let at = (x + self.field / 2 - 1, top + height / 2 - 1);
            canvas.text(at, &text, Hand::new(LETTERS, words).at(Anchor::Middle));
        }
    }

    fn step(&self, value: f64) -> i32 {
        let (least, most) = self.reach;
        match self.level {
            Some(level) if level > 0.0 && value > 0.0 => around(value / level),
            // More is stronger, from the middle on.
            _ if most > least && least > 0.0 && most / least > 20.0 => {
                -(((value / least).ln() / (most / least).ln() * f64::from(STEPS)).round() as i32)
            }
            _ if most > least => -(((value - least) / (most - least) * f64::from(STEPS)).round() as i32),
            _ => 0,
        }
    }

    fn legend(&self) -> Vec<String> {
        let text = match self.level {
            Some(level) => format!(
                "Blue: less than {0}; orange: more; grey: within 5 % of it. The strongest colours: under half, or over twice.",
                short(level)
            ),
            None => format!("In {}. The stronger the colour, the more.", name(self.unit)),
        };
        fit::wrap(&text, SMALL, f64::from(self.width))
    }

    fn draw_legend(&self, canvas: &Canvas, lines: &[String], top: i32) {
        let middle = top + lines.len() as i32 * LINE / 2;
        canvas.lines((0, middle), lines, Hand::new(SMALL, Ink::Dim));
    }
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
}
