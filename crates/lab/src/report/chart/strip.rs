//! What kind of bytes is where on an image.

use super::canvas::paint;
use super::form::Form;
use super::ink::{Ink, PARTS};
use super::legend::Legend;
use crate::report::tabular;
use crate::report::text::{percent, shown};

/// Height of the strip, and how wide a column of it is.
const HEIGHT: i32 = 40;
const COLUMN: i32 = 2;

/// The strip as an `<svg>`: each column is a stack of what is in it, so that nothing small is lost.
pub fn draw(spans: &[(String, u64)], label: &str, form: Form) -> String {
    let kinds = tabular::amounts(spans);
    let all: u64 = kinds.iter().fold(0, |sum: u64, (_, bytes, _)| sum.saturating_add(*bytes));
    let inks: Vec<Ink> = kinds.iter().enumerate().map(|(number, (kind, ..))| ink(kind, number)).collect();
    let names = kinds.iter().map(|(kind, _, share)| format!("{}, {}", shown(kind), percent(*share)));
    let legend = Legend::new(names.zip(inks.iter().copied()), form.width());
    let stacks = stacks(spans, &kinds, all, (form.width() / COLUMN) as usize);
    paint((form.width(), HEIGHT + 10 + legend.height.max(1)), None, label, |canvas| {
        // Equal neighbours are one rectangle.
        let mut from = 0;
        for run in stacks.chunk_by(|a, b| a == b) {
            let to = from + run.len() as i32;
            let mut top = 0;
            for (ink, bottom) in inks.iter().zip(run.first().into_iter().flatten()) {
                if *bottom > top {
                    canvas.rect((from * COLUMN, top), (to * COLUMN, *bottom), *ink);
                    top = *bottom;
                }
            }
            from = to;
        }
        legend.draw(canvas, HEIGHT + 10);
    })
}

/// The same kind always has the same colour.
fn ink(kind: &str, number: usize) -> Ink {
    match kind {
        "used" => Ink::Part(0),
        "free" => Ink::Part(2),
        "zero" | "zeros" => Ink::Part(1),
        "opaque" => Ink::Part(5),
        "hole" | "holes" => Ink::Line,
        _ => Ink::Part(number % PARTS),
    }
}

/// For each column where each kind ends, from above.
fn stacks(spans: &[(String, u64)], kinds: &[(String, u64, f64)], all: u64, columns: usize) -> Vec<Vec<i32>> {
    let mut cells = vec![vec![0.0f64; kinds.len()]; columns];
    if all == 0 || columns == 0 {
        return Vec::new();
    }
    let place = |byte: u64| byte as f64 / all as f64 * columns as f64;
    let mut at = 0u64;
    for (kind, bytes) in spans {
        let Some(number) = kinds.iter().position(|(known, ..)| known == kind) else { continue };
        let (from, to) = (place(at), place(at.saturating_add(*bytes)));
        at = at.saturating_add(*bytes);
        let (first, last) = (from as usize, (to.ceil() as usize).min(columns));
        for (column, cell) in cells.iter_mut().enumerate().take(last).skip(first) {
            let inside = to.min(column as f64 + 1.0) - from.max(column as f64);
            if let Some(share) = cell.get_mut(number) {
                *share += inside.max(0.0);
            }
        }
    }
    let ends = |cell: &Vec<f64>| {
        let whole: f64 = cell.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut sum = 0.0;
        let mut ends: Vec<i32> = Vec::with_capacity(cell.len());
        for share in cell {
            sum += share;
            ends.push((sum / whole * f64::from(HEIGHT)).round() as i32);
        }
        ends
    };
    cells.iter().map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_filled_by_what_is_in_it() {
        let spans = [("used".to_owned(), 30), ("hole".to_owned(), 10)];
        let kinds = tabular::amounts(&spans);
        assert_eq!(stacks(&spans, &kinds, 40, 4), [[40, 40], [40, 40], [40, 40], [0, 40]]);
        assert_eq!(stacks(&spans, &kinds, 40, 2), [[40, 40], [20, 40]]);
        assert!(stacks(&[], &[], 0, 4).is_empty());
    }
}
