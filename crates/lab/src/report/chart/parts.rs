//! Bars that are split into parts.

use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;

use super::canvas::{Anchor, Canvas, Hand, paint};
use super::fit;
use super::form::{Form, LETTERS, LINE, SMALL, name};
use super::ink::Ink;
use super::legend::Legend;
use crate::report::text::Digits;

const BAR: i32 = 22;
const GAP: i32 = 10;

pub fn draw(unit: &str, parts: &[String], rows: &[(String, Vec<f64>)], label: &str, form: Form) -> String {
    let width = form.width();
    let named = parts.iter().enumerate().map(|(number, part)| (name(part), Ink::Part(number)));
    let legend = Legend::new(named, width);
    let total = |amounts: &[f64]| amounts.iter().filter(|amount| amount.is_finite()).sum::<f64>();
    let most = rows.iter().map(|row| total(&row.1)).fold(0.0, f64::max);
    let digits = Digits::of(rows.iter().map(|row| total(&row.1)));
    let figure = |amounts: &[f64]| format!("{} {}", digits.say(total(amounts)), name(unit));
    let figures = fit::widest(rows.iter().map(|row| figure(&row.1)), LETTERS);
    let names = fit::widest(rows.iter().map(|row| name(&row.0)), LETTERS);
    let from = if form == Form::Wide { names.min(230) + 12 } else { 1 };
    let room = if form == Form::Wide { from - 12 } else { width - 4 };
    let lines = |row: &(String, Vec<f64>)| fit::wrap(&name(&row.0), LETTERS, f64::from(room));
    let high = |row: &(String, Vec<f64>)| {
        let lines = lines(row).len() as i32 * LINE;
        if form == Form::Wide { lines.max(BAR) + GAP } else { lines + BAR + GAP }
    };
    let scale = RangedCoordf64::from(0.0..most.max(f64::MIN_POSITIVE));
    let to = (width - figures - 10).max(from + 40);
    let height = legend.height + 8 + rows.iter().map(high).sum::<i32>();
    paint((width, height.max(10)), None, label, |canvas| {
        legend.draw(canvas, 0);
        let mut top = legend.height + 8;
        for row in rows {
            let names = lines(row);
            let tall = names.len() as i32 * LINE;
            let middle = match form {
                Form::Wide => {
                    let middle = top + tall.max(BAR) / 2;
                    canvas.lines((from - 10, middle), &names, Hand::new(LETTERS, Ink::Text).at(Anchor::End));
                    middle
                }
                Form::Narrow => {
                    canvas.lines((0, top + tall / 2), &names, Hand::new(LETTERS, Ink::Text));
                    top + tall + BAR / 2
                }
            };
            let end = bar(canvas, &row.1, middle, digits, &|value| scale.map(&value, (from, to)));
            canvas.text((end + 6, middle), &figure(&row.1), Hand::new(LETTERS, Ink::Text));
            top += high(row);
        }
    })
}

/// Draws one bar, and says where it ends.
fn bar(canvas: &Canvas, amounts: &[f64], middle: i32, digits: Digits, x: &dyn Fn(f64) -> i32) -> i32 {
    let mut sum = 0.0;
    let mut end = x(0.0);
    for (number, amount) in amounts.iter().enumerate() {
        if !amount.is_finite() || *amount <= 0.0 {
            continue;
        }
        let from = end;
        sum += amount;
        end = x(sum);
        if end <= from {
            continue;
        }
        // A line of paper between parts, if there is room for it.
        let right = if end - from > 3 { end - 1 } else { end };
        canvas.rect((from, middle - BAR / 2), (right, middle + BAR / 2), Ink::Part(number));
        let text = digits.say(*amount);
        if fit::width(&text, SMALL) + 8.0 <= f64::from(right - from) {
            let hand = Hand::new(SMALL, Ink::OnPart(number)).at(Anchor::Middle);
            canvas.text((i32::midpoint(from, right), middle), &text, hand);
        }
    }
    end
}
