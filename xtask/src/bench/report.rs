//! Figures in tables.

use haul_measure::stats::{self, Spread};

/// Median, smallest and largest of some figures; `None` if there are none.
pub fn spread(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
    stats::spread(&figures.into_iter().collect::<Vec<_>>())
}

/// `median (min-max)` in seconds.
pub fn range(spread: Spread) -> String {
    format!("{} ({}-{})", seconds(spread.median), seconds(spread.min), seconds(spread.max))
}

/// Three digits that matter.
pub fn seconds(time: f64) -> String {
    match time {
        time if time < 0.1 => format!("{time:.4}"),
        time if time < 10.0 => format!("{time:.2}"),
        time => format!("{time:.1}"),
    }
}
