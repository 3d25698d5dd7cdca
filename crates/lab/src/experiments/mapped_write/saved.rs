//! What was measured, as details of a section.

use std::collections::BTreeMap;

use haul_measure::words;

use super::grid::{Manner, Test};
use super::{Measured, stall};
use crate::results::{Body, Detail};

fn detail(name: impl Into<String>, body: Body) -> Detail {
    Detail { name: name.into(), body }
}

fn samples<const N: usize>(series: [(&str, &[f64]); N]) -> Body {
    let series = series.into_iter().map(|(name, values)| (name.to_owned(), values.to_vec()));
    Body::Samples { unit: "s".to_owned(), series: series.collect() }
}

/// The name of a detail of the grid.
pub fn grid_name(manner: Manner, test: Test) -> String {
    format!("grid-{}-{}", manner.name(), test.name())
}

impl Measured {
    /// In their order; the verdict is the last one.
    pub fn details(&self) -> Vec<Detail> {
        let mut details = vec![detail("facts", Body::Facts { rows: self.facts.rows.clone() })];
        if let Some(msync) = &self.msync {
            let rounds = [("mapped", &msync.mapped_rounds[..]), ("written", &msync.written_rounds)];
            details.push(detail("msync", samples(rounds)));
            details.push(detail("msync-latency", msync.mapped.body()));
            details.push(detail("written-latency", msync.written.body()));
        }
        for (manner, test) in Manner::ALL.into_iter().flat_map(|manner| Test::ALL.map(|test| (manner, test))) {
            let Some(grid) = &self.grid else { continue };
            let names = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect();
            let body = Body::Grid {
                unit: "KiB/s".to_owned(),
                rows: ("bytes of the file".to_owned(), names(&grid.files)),
                columns: ("bytes of a record".to_owned(), names(&grid.records)),
                values: grid.table(manner, test),
            };
            details.push(detail(grid_name(manner, test), body));
        }
        if let Some(under) = &self.under {
            details.push(detail("under-write-back", samples([("store", &under.stores[..]), ("rest", &under.rests)])));
        }
        if let Some(stall) = &self.stall {
            details.push(detail("stall", stall.fills.body()));
            details.push(detail("stall-extensions", stall.extensions.body()));
            details.push(detail("stall-worst", samples([("fill", &stall.worst[..])])));
            let waits: BTreeMap<String, Vec<f64>> = stall.waits.clone();
            details.push(detail("stall-waits", Body::Samples { unit: "s".to_owned(), series: waits }));
            if !stall.places.is_empty() {
                let row =
                    |(wait, place, times): &(String, String, u64)| (wait.clone(), times.to_string(), place.clone());
                details.push(detail("stall-places", Body::Facts { rows: stall.places.iter().map(row).collect() }));
            }
            details.push(detail("stall-facts", Body::Facts { rows: rows(stall) }));
        }
        if !self.skipped.is_empty() {
            let row = |(part, why): &(String, String)| (part.clone(), "skipped".to_owned(), why.clone());
            details.push(detail("left-out", Body::Facts { rows: self.skipped.iter().map(row).collect() }));
        }
        details.push(detail("verdict", self.verdict().body()));
        details
    }
}

/// What surrounded the fills.
fn rows(stall: &stall::Measured) -> Vec<(String, String, String)> {
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
    rows.into_iter().map(|(name, value, meaning)| (name.to_owned(), value, meaning.to_owned())).collect()
}
