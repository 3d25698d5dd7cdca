//! Doubts that follow from the runs of a case.

use haul_measure::stats::spread;

use crate::results::{Run, Warning};

/// Seconds under which a median is [`Warning::TooShort`].
const SHORT: f64 = 0.05;
/// Share of the median by which the runs of a [`Warning::Noisy`] case differ.
const NOISE: f64 = 0.25;
/// Share of a run's time that others may use before it is [`Warning::OtherLoad`].
const OTHERS: f64 = 0.05;

/// [`Warning::Noisy`], [`Warning::TooShort`], [`Warning::FewRuns`] if there are fewer than `asked`, and
/// [`Warning::OtherLoad`]. Nothing follows from no runs but the last but one.
pub fn warnings(runs: &[Run], asked: usize) -> Vec<Warning> {
    let mut found = Vec::new();
    let times: Vec<f64> = runs.iter().map(|run| run.returned).collect();
    if let Some(spread) = spread(&times) {
        if spread.noise() > NOISE {
            found.push(Warning::Noisy);
        }
        if spread.median < SHORT {
            found.push(Warning::TooShort);
        }
    }
    if runs.len() < asked {
        found.push(Warning::FewRuns);
    }
    if runs.iter().any(|run| run.other_load > OTHERS * run.returned.max(run.durable)) {
        found.push(Warning::OtherLoad);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(returned: f64, other_load: f64) -> Run {
        Run { returned, durable: returned, other_load, ..Run::default() }
    }

    #[test]
    fn doubts_follow_from_the_runs() {
        assert_eq!(warnings(&[run(1.0, 0.0), run(1.1, 0.0), run(1.2, 0.0)], 3), []);
        assert_eq!(warnings(&[run(1.0, 0.0), run(1.1, 0.0), run(1.4, 0.0)], 3), [Warning::Noisy]);
        assert_eq!(warnings(&[run(0.049, 0.0)], 0), [Warning::TooShort]);
        assert_eq!(warnings(&[run(1.0, 0.06), run(1.0, 0.0)], 3), [Warning::FewRuns, Warning::OtherLoad]);
        assert_eq!(warnings(&[], 3), [Warning::FewRuns]);
    }
}
