//! Bars in groups, with the least and the most that was seen.

use haul_measure::words::short;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;

use super::canvas::{Anchor, Canvas, Hand, paint};
use super::fit;
use super::form::{Form, LETTERS, LINE, SMALL, name};
use super::ink::Ink;
use crate::report::text::Digits;
use crate::view::{Bar, BarGroup};

/// Height of a bar, and what is left free below it.
const BAR: i32 = 16;
const GAP: i32 = 10;
/// Room for the head of a group, and for the axis.
const HEAD: i32 = 36;
const AXIS: i32 = 24;
/// If the bars of a group are this much shorter than those of another, each group has a scale of its own.
const APART: f64 = 12.0;

struct Plan {
    form: Form,
    unit: String,
    /// Where bars begin, and where the longest ends.
    from: i32,
    to: i32,
    /// Each group has its own scale.
    own: bool,
}

pub fn draw(unit: &str, groups: &[BarGroup], label: &str, form: Form) -> String {
    let plan = Plan::new(unit, groups, form);
    let height: i32 = groups.iter().map(|group| plan.height(group)).sum();
    let foot = match (plan.own, form) {
        (true, _) => LINE * plan.note().len() as i32 + 8,
        (false, Form::Wide) => AXIS,
        (false, Form::Narrow) => 0,
    };
    paint((form.width(), height + foot + 4), None, label, |canvas| {
        let all = groups.iter().map(longest).fold(0.0, f64::max);
        // On a narrow screen names stand where its lines would be; the figures beside the bars do without.
        if !plan.own && form == Form::Wide {
            plan.axis(canvas, all, height);
        }
        let mut top = 0;
        for group in groups {
            let most = if plan.own { longest(group) } else { all };
            plan.group(canvas, group, most, top);
            top += plan.height(group);
        }
        if plan.own {
            let middle = height + foot / 2 + 2;
            canvas.lines((0, middle), &plan.note(), Hand::new(SMALL, Ink::Dim));
        }
    })
}

/// What the scale of a group must reach.
fn longest(group: &BarGroup) -> f64 {
    let ends = group.bars.iter().map(|bar| bar.value.max(bar.range.1));
    ends.filter(|end| end.is_finite()).fold(0.0, f64::max)
}

impl Plan {
    fn new(unit: &str, groups: &[BarGroup], form: Form) -> Plan {
        let bars = || groups.iter().flat_map(|group| &group.bars);
        let unit = name(unit);
        let figures = |group: &BarGroup| {
            let digits = digits(group);
            fit::widest(group.bars.iter().map(|bar| figure(bar, digits, &unit)), LETTERS)
        };
        let figures = groups.iter().map(figures).max().unwrap_or(0);
        let names = fit::widest(bars().map(|bar| name(&bar.name)), LETTERS);
        let from = match form {
            Form::Wide => names.min(250) + 12,
            Form::Narrow => 1,
        };
        let shortest = groups.iter().map(longest).filter(|end| *end > 0.0).fold(f64::INFINITY, f64::min);
        let own = groups.iter().map(longest).fold(0.0, f64::max) > shortest * APART;
        Plan { form, unit, from, to: (form.width() - figures - 10).max(from + 40), own }
    }

    fn note(&self) -> Vec<String> {
        fit::wrap("Each group has a scale of its own.", SMALL, f64::from(self.form.width()))
    }

    fn name(&self, bar: &Bar) -> Vec<String> {
        let room = match self.form {
            Form::Wide => self.from - 12,
            Form::Narrow => self.form.width() - 4,
        };
        fit::wrap(&name(&bar.name), LETTERS, f64::from(room))
    }

    /// The height of a bar with its name.
    fn row(&self, bar: &Bar) -> i32 {
        let lines = self.name(bar).len() as i32 * LINE;
        match self.form {
            Form::Wide => lines.max(BAR) + GAP,
            Form::Narrow => lines + BAR + GAP,
        }
    }

    fn head(&self, group: &BarGroup) -> Vec<String> {
        match group.name.is_empty() {
            true => Vec::new(),
            false => fit::wrap(&name(&group.name), LETTERS * 1.05, f64::from(self.form.width() - 4)),
        }
    }

    fn height(&self, group: &BarGroup) -> i32 {
        let head = match self.head(group).len() as i32 {
            0 => 4,
            lines => HEAD + (lines - 1) * LINE,
        };
        head + group.bars.iter().map(|bar| self.row(bar)).sum::<i32>()
    }

    /// Lines with figures below them, from the first bar to the last.
    fn axis(&self, canvas: &Canvas, most: f64, height: i32) {
        if most <= 0.0 {
            return;
        }
        let scale = RangedCoordf64::from(0.0..most);
        let mut free = 0;
        for value in scale.key_points(6) {
            let x = scale.map(&value, (self.from, self.to));
            let text = short(value);
            let half = (fit::width(&text, SMALL) / 2.0).ceil() as i32;
            canvas.line(vec![(x, 4), (x, height)], Ink::Line, 1);
            // The first stands below the beginning of the bars, and would reach out of the drawing.
            let middle = x.max(half);
            if middle - half >= free && middle + half <= self.form.width() {
                canvas.text((middle, height + 12), &text, Hand::new(SMALL, Ink::Dim).at(Anchor::Middle));
                free = middle + half + 8;
            }
        }
    }

    fn group(&self, canvas: &Canvas, group: &BarGroup, most: f64, top: i32) {
        let head = self.head(group);
        let mut top = top + if head.is_empty() { 4 } else { HEAD + (head.len() as i32 - 1) * LINE };
        if !head.is_empty() {
            let middle = top - 13 - head.len() as i32 * LINE / 2 + 2;
            // Lines of the scale do not run through words.
            let widest = head.iter().map(|line| fit::width(line, LETTERS * 1.1)).fold(0.0, f64::max) as i32;
            let half = head.len() as i32 * LINE / 2 + 1;
            canvas.rect((0, middle - half), (widest.min(self.form.width()), middle + half), Ink::Paper);
            canvas.lines((0, middle), &head, Hand::new(LETTERS, Ink::Text).bold());
        }
        let scale = RangedCoordf64::from(0.0..most.max(f64::MIN_POSITIVE));
        let x = |value: f64| scale.map(&value.clamp(0.0, most.max(0.0)), (self.from, self.to));
        for bar in &group.bars {
            self.bar(canvas, bar, digits(group), top, &x);
            top += self.row(bar);
        }
    }

    fn bar(&self, canvas: &Canvas, bar: &Bar, digits: Digits, top: i32, x: &dyn Fn(f64) -> i32) {
        let names = self.name(bar);
        let lines = names.len() as i32 * LINE;
        let hand = Hand::new(LETTERS, Ink::Text);
        let middle = match self.form {
            Form::Wide => {
                let middle = top + lines.max(BAR) / 2;
                canvas.lines((self.from - 10, middle), &names, hand.at(Anchor::End));
                middle
            }
            Form::Narrow => {
                let widest = names.iter().map(|line| fit::width(line, LETTERS)).fold(0.0, f64::max) as i32;
                canvas.rect((0, top), ((widest + 4).min(self.form.width()), top + lines - 1), Ink::Paper);
                canvas.lines((0, top + lines / 2), &names, hand);
                top + lines + BAR / 2
            }
        };
        let ink = if bar.base { Ink::Base } else { Ink::Bar };
        let end = x(bar.value).max(self.from + 1);
        canvas.rect((self.from, middle - BAR / 2), (end, middle + BAR / 2), ink);
        canvas.line(vec![(self.from, middle - BAR / 2 - 3), (self.from, middle + BAR / 2 + 3)], Ink::Dim, 1);
        let (least, most) = (x(bar.range.0), x(bar.range.1));
        if most > least {
            canvas.line(vec![(least, middle), (most, middle)], Ink::Text, 1);
            for end in [least, most] {
                canvas.line(vec![(end, middle - 4), (end, middle + 4)], Ink::Text, 1);
            }
        }
        let text = figure(bar, digits, &self.unit);
        let at = end.max(most) + 6;
        let width = fit::width(&text, LETTERS).ceil() as i32;
        canvas.rect((at - 2, middle - 8), ((at + width).min(self.form.width()), middle + 8), Ink::Paper);
        canvas.text((at, middle), &text, Hand::new(LETTERS, Ink::Text));
    }
}

/// The digits of a group's figures, as in a table of it.
fn digits(group: &BarGroup) -> Digits {
    Digits::of(group.bars.iter().map(|bar| bar.value))
}

fn figure(bar: &Bar, digits: Digits, unit: &str) -> String {
    format!("{} {unit}", digits.say(bar.value))
}
