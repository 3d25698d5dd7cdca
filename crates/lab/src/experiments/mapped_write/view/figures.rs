//! Getting at what is saved.

use std::collections::BTreeMap;

use super::super::latency::Latency;
use crate::results::{Body, Section};

/// The details of a section.
#[derive(Clone, Copy)]
pub struct Figures<'a>(pub &'a Section);

/// A detail that is a grid.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    /// Names of the rows.
    pub rows: &'a [String],
    /// Names of the columns.
    pub columns: &'a [String],
    /// By row, then column.
    pub values: &'a [Vec<Option<f64>>],
}

impl<'a> Figures<'a> {
    /// The rows of facts; none if there are no such facts.
    pub fn rows(self, name: &str) -> &'a [(String, String, String)] {
        match self.0.detail(name) {
            Some(Body::Facts { rows }) => rows,
            _ => &[],
        }
    }

    /// Every series of samples.
    pub fn series(self, name: &str) -> impl Iterator<Item = (&'a str, &'a [f64])> {
        let series: Option<&BTreeMap<String, Vec<f64>>> = match self.0.detail(name) {
            Some(Body::Samples { series, .. }) => Some(series),
            _ => None,
        };
        series.into_iter().flatten().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// One of them; empty if there is none.
    pub fn samples(self, name: &str, series: &str) -> &'a [f64] {
        self.series(name).find(|(have, _)| *have == series).map_or(&[], |(_, values)| values)
    }

    /// Times.
    pub fn latency(self, name: &str) -> Option<Latency> {
        match self.0.detail(name)? {
            Body::Latency { count, over, threshold, percentiles, longest } => Some(Latency {
                count: *count,
                over: *over,
                threshold: *threshold,
                percentiles: percentiles.clone(),
                longest: *longest,
                // It is not saved, and nothing here asks for it.
                sum: 0.0,
            }),
            _ => None,
        }
    }

    /// A grid.
    pub fn grid(self, name: &str) -> Option<Grid<'a>> {
        match self.0.detail(name)? {
            Body::Grid { rows, columns, values, .. } => Some(Grid { rows: &rows.1, columns: &columns.1, values }),
            _ => None,
        }
    }
}

impl Grid<'_> {
    /// The value of a file and a record of so many bytes.
    pub fn at(self, file: u64, record: u64) -> Option<f64> {
        let find = |names: &[String], size: u64| names.iter().position(|name| *name == size.to_string());
        *self.values.get(find(self.rows, file)?)?.get(find(self.columns, record)?)?
    }

    /// Each value divided by that of another grid.
    pub fn over(self, other: Grid<'_>) -> Vec<Vec<Option<f64>>> {
        let divided = |(above, below): (&Option<f64>, &Option<f64>)| {
            let (above, below) = ((*above)?, (*below)?);
            (below > 0.0).then(|| above / below)
        };
        let row =
            |(above, below): (&Vec<Option<f64>>, &Vec<Option<f64>>)| above.iter().zip(below).map(divided).collect();
        self.values.iter().zip(other.values).map(row).collect()
    }
}

/// The median.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (half, even) = (sorted.len() / 2, sorted.len().is_multiple_of(2));
    let median = *sorted.get(half)?;
    Some(if even { f64::midpoint(median, sorted[half - 1]) } else { median })
}
