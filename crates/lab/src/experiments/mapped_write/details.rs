//! How what was measured is saved: as details of a section.

use haul_measure::words;

use super::grid::{Manner, Test, grid_name};
use super::stall;
use super::verdict::{Measured, judge};
use crate::results::{Body, Detail, Fact, Grid, fact};

/// In their order; the verdict is the last one.
pub fn details(measured: &Measured) -> Vec<Detail> {
    let mut details = vec![Detail::new("facts", Body::Facts { rows: measured.facts.rows.clone() })];
    if let Some(msync) = &measured.msync {
        let rounds = [("mapped", &msync.mapped_rounds[..]), ("written", &msync.written_rounds)];
        details.push(Detail::new("msync", samples(rounds)));
        details.push(Detail::new("msync-cpu", Body::Samples { unit: "s".to_owned(), series: msync.cpu.clone() }));
        details.push(Detail::new("msync-latency", Body::Latency(msync.mapped.clone())));
        details.push(Detail::new("written-latency", Body::Latency(msync.written.clone())));
    }
    for (manner, test) in Manner::ALL.into_iter().flat_map(|manner| Test::ALL.map(|test| (manner, test))) {
        let Some(grid) = &measured.grid else { continue };
        let names = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect();
        let body = Body::Grid(Grid {
            unit: "KiB/s".to_owned(),
            rows: ("bytes of the file".to_owned(), names(&grid.files)),
            columns: ("bytes of a record".to_owned(), names(&grid.records)),
            values: grid.table(manner, test),
        });
        details.push(Detail::new(grid_name(manner, test), body));
    }
    if let Some(under) = &measured.under {
        details.push(Detail::new("under-write-back", samples([("store", &under.stores[..]), ("rest", &under.rests)])));
    }
    if let Some(stall) = &measured.stall {
        details.push(Detail::new("stall", Body::Latency(stall.fills.clone())));
        details.push(Detail::new("stall-extensions", Body::Latency(stall.extensions.clone())));
        details.push(Detail::new("stall-worst", samples([("fill", &stall.worst[..])])));
        details.push(Detail::new("stall-waits", Body::Samples { unit: "s".to_owned(), series: stall.waits.clone() }));
        if !stall.places.is_empty() {
            let row = |(wait, place, times): &(String, String, u64)| (wait.clone(), times.to_string(), place.clone());
            details.push(Detail::new("stall-places", Body::Facts { rows: stall.places.iter().map(row).collect() }));
        }
        details.push(Detail::new("stall-facts", Body::Facts { rows: rows(stall) }));
    }
    if !measured.skipped.is_empty() {
        let row = |(part, why): &(String, String)| (part.clone(), "skipped".to_owned(), why.clone());
        details.push(Detail::new("left-out", Body::Facts { rows: measured.skipped.iter().map(row).collect() }));
    }
    details.push(Detail::new("verdict", judge(measured).body()));
    details
}

fn samples<const N: usize>(series: [(&str, &[f64]); N]) -> Body {
    let series = series.into_iter().map(|(name, values)| (name.to_owned(), values.to_vec()));
    Body::Samples { unit: "s".to_owned(), series: series.collect() }
}

/// What surrounded the fills.
fn rows(stall: &stall::Measured) -> Vec<Fact> {
    let pending = &stall.pending;
    let counted = |name: &str| stall.counters.get(name).copied();
    let count = |name: &str| format!("{:.0}", counted(name).unwrap_or(0.0));
    let bytes = |name: &str| words::bytes(counted(name).unwrap_or(0.0) as u64);
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
        ("made dirty", bytes("dirty"), of_all),
        ("written back", bytes("written"), of_all),
        ("page faults", count("minor faults"), "of the fills, without reading"),
        ("page faults that read", count("major faults"), "of the fills"),
        ("pressure, some", seconds(counted("some")), "in which somebody on this machine waited for storage"),
        ("pressure, full", seconds(counted("full")), "in which everybody did"),
        ("stolen", seconds(counted("stolen")), "of all processors, by other virtual machines"),
        ("stacks of the kernel", stacks.to_owned(), "without them less is known of waits"),
    ];
    rows.into_iter().map(|(name, value, meaning)| fact(name, value, meaning)).collect()
}
