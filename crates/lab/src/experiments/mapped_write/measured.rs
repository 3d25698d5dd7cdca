//! What was measured, and how it is saved: as details of a section.

use std::collections::BTreeMap;

use haul_measure::words;

use super::facts::Facts;
use super::grid::{Manner, Test, grid_name};
use super::part::Answer;
use super::verdict::{Evidence, Verdict, judge};
use super::{grid, msync, stall, under};
use crate::results::{Body, Detail, Fact, Grid, fact};

/// Everything that was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// What is known of the place.
    pub facts: Facts,
    /// Page by page.
    pub msync: Option<msync::Measured>,
    /// The grid.
    pub grid: Option<grid::Measured>,
    /// Stores to pages under write-back.
    pub under: Option<under::Measured>,
    /// Files that grow.
    pub stall: Option<stall::Measured>,
    /// A part and why it was not run.
    pub skipped: Vec<(String, String)>,
}

impl Measured {
    /// In their order; the verdict is the last one.
    pub fn details(&self) -> Vec<Detail> {
        let mut details = vec![Detail::new("facts", Body::Facts { rows: self.facts.rows.clone() })];
        if let Some(msync) = &self.msync {
            let rounds = [("mapped", &msync.mapped_rounds[..]), ("written", &msync.written_rounds)];
            details.push(Detail::new("msync", samples(rounds)));
            details.push(Detail::new("msync-latency", Body::Latency(msync.mapped.clone())));
            details.push(Detail::new("written-latency", Body::Latency(msync.written.clone())));
        }
        for (manner, test) in Manner::ALL.into_iter().flat_map(|manner| Test::ALL.map(|test| (manner, test))) {
            let Some(grid) = &self.grid else { continue };
            let names = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect();
            let body = Body::Grid(Grid {
                unit: "KiB/s".to_owned(),
                rows: ("bytes of the file".to_owned(), names(&grid.files)),
                columns: ("bytes of a record".to_owned(), names(&grid.records)),
                values: grid.table(manner, test),
            });
            details.push(Detail::new(grid_name(manner, test), body));
        }
        if let Some(under) = &self.under {
            details
                .push(Detail::new("under-write-back", samples([("store", &under.stores[..]), ("rest", &under.rests)])));
        }
        if let Some(stall) = &self.stall {
            details.push(Detail::new("stall", Body::Latency(stall.fills.clone())));
            details.push(Detail::new("stall-extensions", Body::Latency(stall.extensions.clone())));
            details.push(Detail::new("stall-worst", samples([("fill", &stall.worst[..])])));
            let waits: BTreeMap<String, Vec<f64>> = stall.waits.clone();
            details.push(Detail::new("stall-waits", Body::Samples { unit: "s".to_owned(), series: waits }));
            if !stall.places.is_empty() {
                let row =
                    |(wait, place, times): &(String, String, u64)| (wait.clone(), times.to_string(), place.clone());
                details.push(Detail::new("stall-places", Body::Facts { rows: stall.places.iter().map(row).collect() }));
            }
            details.push(Detail::new("stall-facts", Body::Facts { rows: rows(stall) }));
        }
        if !self.skipped.is_empty() {
            let row = |(part, why): &(String, String)| (part.clone(), "skipped".to_owned(), why.clone());
            details.push(Detail::new("left-out", Body::Facts { rows: self.skipped.iter().map(row).collect() }));
        }
        details.push(Detail::new("verdict", self.verdict().body()));
        details
    }

    /// Adds what a part has found.
    pub(crate) fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Msync(measured) => self.msync = Some(measured),
            Answer::Grid(measured) => {
                self.skipped.extend(measured.skipped.iter().map(|why| ("grid".to_owned(), why.clone())));
                self.grid = Some(measured);
            }
            Answer::Under(measured) => self.under = Some(measured),
            Answer::Stall(measured) => self.stall = Some(measured),
        }
    }

    /// What it means.
    pub fn verdict(&self) -> Verdict {
        judge(Evidence {
            facts: Some(&self.facts),
            msync: self.msync.as_ref(),
            grid: self.grid.as_ref(),
            under: self.under.as_ref(),
            stall: self.stall.as_ref(),
        })
    }
}

fn samples<const N: usize>(series: [(&str, &[f64]); N]) -> Body {
    let series = series.into_iter().map(|(name, values)| (name.to_owned(), values.to_vec()));
    Body::Samples { unit: "s".to_owned(), series: series.collect() }
}

/// What surrounded the fills.
fn rows(stall: &stall::Measured) -> Vec<Fact> {
    let (pending, counters) = (&stall.pending, &stall.counters);
    let seconds = |time: Option<f64>| time.map_or_else(|| "not counted".to_owned(), words::seconds);
    let share = format!("{:.0} %", 100.0 * pending.writing as f64 / pending.looks.max(1) as f64);
    let both = |mean: u64, most: u64| format!("{} on average, {} at most", words::bytes(mean), words::bytes(most));
    let stacks = if stall.stacks { "seen" } else { "not seen" };
    let of_all = "for anybody on this machine";
    let rows = [
        ("files", stall.files.to_string(), "that grew side by side"),
        ("filled", words::bytes(stall.bytes), "in all files together"),
        ("under write-back", share, "of the looks at /proc/meminfo, every 50 ms"),
        ("being written", both(pending.writeback_mean, pending.writeback_most), "Writeback in /proc/meminfo"),
        ("dirty", both(pending.dirty_mean, pending.dirty_most), "Dirty in /proc/meminfo"),
        ("made dirty", words::bytes(counters.dirtied), of_all),
        ("written back", words::bytes(counters.written), of_all),
        ("page faults", counters.minor_faults.to_string(), "of the fills, without reading"),
        ("page faults that read", counters.major_faults.to_string(), "of the fills"),
        ("pressure, some", seconds(counters.pressure_some), "in which somebody on this machine waited for storage"),
        ("pressure, full", seconds(counters.pressure_full), "in which everybody did"),
        ("stolen", words::seconds(counters.stolen), "of all processors, by other virtual machines"),
        ("stacks of the kernel", stacks.to_owned(), "without them less is known of waits"),
    ];
    rows.into_iter().map(|(name, value, meaning)| fact(name, value, meaning)).collect()
}
