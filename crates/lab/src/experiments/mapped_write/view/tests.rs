use std::collections::BTreeMap;
use std::time::Duration;

use super::super::grid::{self, Cell as Measure};
use super::super::latency::Times;
use super::super::{Measured, msync, stall, under};
use super::*;
use crate::results::Environment;

/// A place where everything takes so many seconds.
fn measured(seconds: f64) -> Measured {
    let latency = |count: u64| {
        let mut times = Times::new(Duration::from_millis(1));
        (0..count).for_each(|_| times.add(Duration::from_secs_f64(seconds)));
        times.summary()
    };
    let cell = |manner, test: Test| {
        let slower = if manner == Manner::Mapped { seconds * 1000.0 } else { 1.0 };
        Measure { test, manner, file: 512 << 10, record: 4096, bytes: 512 << 10, seconds: slower }
    };
    let cells = Manner::ALL.into_iter().flat_map(|manner| Test::ALL.map(|test| cell(manner, test)));
    Measured {
        msync: Some(msync::Measured {
            mapped_rounds: vec![seconds; 5],
            written_rounds: vec![1e-3; 5],
            mapped: latency(640),
            written: msync::Measured::default().written,
            ..msync::Measured::default()
        }),
        grid: Some(grid::Measured {
            files: vec![512 << 10],
            records: vec![4096],
            cells: cells.collect(),
            skipped: vec!["files of 1 GiB: more than half of the space".to_owned()],
        }),
        under: Some(under::Measured { stores: vec![seconds; 3], rests: vec![1000.0; 3], ..under::Measured::default() }),
        stall: Some(stall::Measured {
            fills: latency(100),
            worst: vec![seconds; 5],
            waits: BTreeMap::from([("throttled".to_owned(), vec![seconds; 9])]),
            ..stall::Measured::default()
        }),
        skipped: vec![("grid".to_owned(), "files of 1 GiB: more than half of the space".to_owned())],
        ..Measured::default()
    }
}

fn viewed(measured: &Measured) -> View {
    let results = Results::new(Vec::new(), 0, Environment::default());
    view(&results, &Section { details: super::super::details(measured), ..Section::new("mapped-write", "here") })
}

#[test]
fn everything_that_was_measured_is_shown() {
    let view = viewed(&measured(2.0));
    let said = "more is changed than the device can take; a fill of a step took 2 s (p50), 2 s (p99) and 2 s (p99.9).";
    assert!(view.summary[0].ends_with(said), "{:?}", view.summary);
    assert_eq!(view.not_measured, ["grid: files of 1 GiB: more than half of the space"]);
    let titles: Vec<&str> = view.tables.iter().map(|table| table.title.as_str()).collect();
    for title in ["Latencies", "Why fills took longer than the threshold", "Mapped, MiB/s", "While files grew"] {
        assert!(titles.contains(&title), "{titles:?}");
    }
    assert!(view.tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.columns.len())));
    let heats = view.charts.iter().filter(|chart| matches!(chart.kind, Kind::Heat { .. })).count();
    assert_eq!((heats, view.charts.len()), (4, 7));
}

#[test]
fn heat_maps_are_in_mebibytes_a_second_against_write() {
    let view = viewed(&measured(2.0));
    let heats = view.charts.iter().filter_map(|chart| match &chart.kind {
        Kind::Heat { grid, against } => Some((grid, against.as_ref().unwrap())),
        _ => None,
    });
    // 512 KiB in 2000 s through the mapping, in 1 s by write(2).
    for (grid, (base, written)) in heats {
        assert_eq!((grid.unit.as_str(), base.as_str()), ("MiB/s", "write(2)"));
        assert_eq!((&grid.values, written), (&vec![vec![Some(0.5 / 2000.0)]], &vec![vec![Some(0.5)]]));
        assert_eq!(grid.rows, ("file size".to_owned(), vec!["512 KiB".to_owned()]));
    }
}

#[test]
fn the_side_of_the_published_figures_is_reported() {
    let agrees = |seconds: f64| {
        let published = viewed(&measured(seconds)).published.unwrap();
        assert!(published.table.rows.iter().all(|row| row.len() == published.table.columns.len()));
        published.claims.iter().map(|claim| claim.agrees).collect::<Vec<_>>()
    };
    // No latency of plain writes was measured, so msync is not compared.
    assert_eq!(agrees(2.0), [None, Some(false), Some(false), Some(false)]);
    assert_eq!(agrees(1e-3), [None, Some(true), Some(true), Some(true)]);
}

#[test]
fn every_published_figure_has_ours_beside_it() {
    let mut measured = measured(2.0);
    let cpu = [("mapped user", 0.5), ("mapped sys", 0.25), ("written user", 0.02), ("written sys", 0.01)];
    measured.msync.as_mut().unwrap().cpu = cpu.map(|(name, time)| (name.to_owned(), vec![time; 2])).into();
    let table = viewed(&measured).published.unwrap().table;
    let row = |name: &str| {
        let row = table.rows.iter().find(|row| row[0].text == name).unwrap_or_else(|| panic!("no {name}"));
        row[1..].iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(row("100 rounds of msync, real"), ["5.33 s", "-", "110 s", "200 s", "100 ms"]);
    assert_eq!(row("100 rounds of msync, sys, elsewhere"), ["344 ms", "-", "744 ms", "25 s", "1 s"]);
    assert_eq!(row("write, KiB/s"), ["402", "380", "285", "0", "512"]);
    assert_eq!(row("write, KiB/s, elsewhere"), ["2176", "-", "177", "0", "512"]);
    assert_eq!(row("stride read, KiB/s"), ["3102214", "3083779", "1560822", "0", "512"]);
    assert_eq!(row("fill of a step, longest"), ["8.26 ms", "-", "2.19 s", "2 s", ""]);
}

#[test]
fn a_section_without_figures_is_shown_without_them() {
    let results = Results::new(Vec::new(), 0, Environment::default());
    let view = view(&results, &Section::new("mapped-write", "here"));
    assert_eq!((view.charts.len(), view.tables.len(), view.published), (0, 0, None));
    assert_eq!(view.summary.len(), 1);
}
