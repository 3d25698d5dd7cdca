//! The figures of tables.

use haul_measure::words;

use crate::view::{Cell, Mark};

/// Seconds.
pub fn time(seconds: f64) -> Cell {
    Cell::figure(seconds, words::seconds(seconds))
}

/// Seconds, if they were measured.
pub fn maybe(seconds: Option<f64>) -> Cell {
    seconds.map_or_else(|| Cell::text("-").marked(Mark::Faint), time)
}

/// How many.
pub fn count(number: u64) -> Cell {
    Cell::figure(number as f64, number.to_string())
}
