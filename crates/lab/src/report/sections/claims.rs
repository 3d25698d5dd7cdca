//! Published directions, and whether they are found here: by intervals, never by medians alone.

use std::cmp::Ordering;

use haul_measure::stats::Ratio;

use crate::report::text::times_as;
use crate::view::Claim;

/// What was published of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Direction {
    /// It is under this.
    Under(f64),
    /// It is over this.
    Over(f64),
    /// It is 1, but for this share.
    Same(f64),
}

/// Whether what was found has the direction. `None` if there is no interval, or if it holds both answers.
pub fn judge(ratio: Option<&Ratio>, direction: Direction) -> Option<bool> {
    let ratio = ratio?;
    match direction {
        Direction::Under(level) => ratio.side(level).map(Ordering::is_lt),
        Direction::Over(level) => ratio.side(level).map(Ordering::is_gt),
        Direction::Same(tolerance) => ratio.is_same(tolerance),
    }
}

/// A claim of a ratio: what was published, and `found` (`the copy through the mapping takes`) with the figures.
pub fn claim(says: &str, found: &str, what: &str, ratio: Option<&Ratio>, direction: Direction) -> Claim {
    let here = match ratio {
        Some(ratio) => format!("{found} {}.", times_as(ratio, what)),
        None => "This was not measured here.".to_owned(),
    };
    Claim { says: says.to_owned(), here, agrees: judge(ratio, direction) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(least: f64, most: f64) -> Ratio {
        Ratio { value: f64::midpoint(least, most), interval: Some((least, most)) }
    }

    #[test]
    fn a_direction_agrees_only_with_its_whole_interval() {
        let judged = |least, most, direction| judge(Some(&ratio(least, most)), direction);
        assert_eq!(judged(0.7, 0.9, Direction::Under(1.0)), Some(true));
        assert_eq!(judged(0.7, 1.1, Direction::Under(1.0)), None);
        assert_eq!(judged(1.1, 1.2, Direction::Under(1.0)), Some(false));
        assert_eq!(judged(1.1, 1.2, Direction::Over(1.0)), Some(true));
        assert_eq!(judged(0.97, 1.02, Direction::Same(0.1)), Some(true));
        assert_eq!(judge(None, Direction::Over(1.0)), None);
        assert_eq!(judge(Some(&Ratio { value: 0.1, interval: None }), Direction::Under(1.0)), None);
    }
}
