use std::collections::BTreeMap;
use std::time::Duration;

use super::super::grid::Cell;
use super::super::latency::Times;
use super::*;
use crate::results::Latency;

fn latency(times: &[f64]) -> Latency {
    let mut taken = Times::new(Duration::from_millis(1));
    times.iter().for_each(|seconds| taken.add(Duration::from_secs_f64(*seconds)));
    taken.summary()
}

fn stall(waits: &[(Wait, &[f64])]) -> stall::Measured {
    let long: Vec<f64> = waits.iter().flat_map(|(_, times)| times.iter().copied()).collect();
    let fills = latency(&[vec![3e-4; 1000], long].concat());
    let waits = waits.iter().map(|(wait, times)| (wait.name().to_owned(), times.to_vec()));
    stall::Measured { files: 4, step: 512 << 10, fills, waits: waits.collect(), ..stall::Measured::default() }
}

fn under(store: f64, rest: f64, seen: &[Wait]) -> under::Measured {
    under::Measured { stores: vec![store; 5], rests: vec![rest; 5], seen: seen.to_vec() }
}

fn msync(mapped: f64, written: f64) -> msync::Measured {
    let means = Some((mapped, written));
    let (mapped, written) = (latency(&[mapped; 128]), latency(&[written; 128]));
    msync::Measured { mapped, written, means, ..msync::Measured::default() }
}

fn facts(rule: Rule) -> Facts {
    Facts { rule, ..Facts::default() }
}

#[test]
fn quick_stores_and_a_quick_msync_are_no_stalls() {
    let (stall, under, msync) = (stall(&[]), under(1e-5, 5e-3, &[]), msync(1.1e-3, 1e-3));
    let evidence = Measured { stall: Some(stall), under: Some(under), msync: Some(msync), ..Measured::default() };
    let verdict = judge(&evidence);
    assert_eq!(verdict.name, "no-stalls");
    assert!(verdict.sentences.iter().any(|sentence| sentence.contains("they do not wait for it")), "{verdict:?}");
}

#[test]
fn in_memory_nothing_stalls_whatever_was_measured() {
    let (facts, stall) = (facts(Rule::NoDevice), stall(&[(Wait::Memory, &[3.0, 4.0])]));
    assert_eq!(judge(&Measured { facts, stall: Some(stall), ..Measured::default() }).name, "no-device");
}

#[test]
fn without_figures_nothing_is_said() {
    let (facts, stall, msync) = (facts(Rule::Device), stall::Measured::default(), msync::Measured::default());
    let evidence = Measured { facts, stall: Some(stall), msync: Some(msync), ..Measured::default() };
    assert_eq!((judge(&evidence).name, judge(&Measured::default()).name), ("not-measured", "not-measured"));
}

#[test]
fn the_published_bad_kernel_stalls_and_the_good_one_does_not() {
    let (good, bad) = ([1.7e-3, 1.8e-3, 1.9e-3, 3.1e-3, 8.3e-3], [1.42, 1.43, 1.61, 1.73, 2.19]);
    for (worst, expected) in [(good, "no-stalls"), (bad, "waits-for-stable-pages")] {
        let stall = stall(&[(Wait::StablePage, &worst)]);
        assert_eq!(judge(&Measured { stall: Some(stall), ..Measured::default() }).name, expected);
    }
}

#[test]
fn the_reason_that_took_most_time_names_the_stalls() {
    for (wait, expected) in [
        (Wait::StablePage, "waits-for-stable-pages"),
        (Wait::Throttled, "throttled-writers"),
        (Wait::Memory, "waits-for-memory"),
        (Wait::Filesystem, "waits-for-filesystem"),
        (Wait::Page, "waits-for-filesystem"),
        (Wait::Unknown, "stalls"),
    ] {
        let mut waits: BTreeMap<Wait, &[f64]> =
            BTreeMap::from([(Wait::Memory, &[0.02; 3][..]), (Wait::OnProcessor, &[9.0; 9])]);
        waits.insert(wait, &[0.1, 0.3]);
        let stall = stall(&waits.into_iter().collect::<Vec<_>>());
        assert_eq!(judge(&Measured { stall: Some(stall), ..Measured::default() }).name, expected);
    }
}

#[test]
fn one_long_fill_may_be_chance_and_a_busy_processor_is_no_stall() {
    let stall =
        stall(&[(Wait::Filesystem, &[0.05]), (Wait::OnProcessor, &[0.4; 50]), (Wait::NotOnProcessor, &[0.4; 50])]);
    assert_eq!(judge(&Measured { stall: Some(stall), ..Measured::default() }).name, "no-stalls");
}

#[test]
fn one_very_long_fill_is_enough() {
    let stall = stall(&[(Wait::Filesystem, &[4.7])]);
    assert_eq!(judge(&Measured { stall: Some(stall), ..Measured::default() }).name, "waits-for-filesystem");
}

#[test]
fn on_a_busy_machine_waits_for_others_count_only_if_they_are_longer() {
    for (wait, seconds, expected) in [
        (Wait::Page, 0.04, "no-stalls"),
        (Wait::Page, 0.3, "waits-for-filesystem"),
        (Wait::StablePage, 0.04, "waits-for-stable-pages"),
    ] {
        let stall = stall(&[(wait, &[seconds; 7]), (Wait::NotOnProcessor, &[0.2; 700])]);
        let verdict = judge(&Measured { stall: Some(stall), ..Measured::default() });
        assert_eq!(verdict.name, expected, "{wait:?}");
        assert!(verdict.sentences.iter().any(|sentence| sentence.starts_with("The machine is busy")), "{verdict:?}");
    }
}

#[test]
fn stores_that_wait_for_the_write_back_are_proof_by_themselves() {
    let named = |under: under::Measured, waits: &[(Wait, &[f64])]| {
        let stall = stall(waits);
        judge(&Measured { under: Some(under), stall: Some(stall), ..Measured::default() }).name
    };
    let throttled: &[(Wait, &[f64])] = &[(Wait::Throttled, &[0.2, 0.3])];
    assert_eq!(named(under(0.05, 0.01, &[Wait::StablePage]), throttled), "waits-for-stable-pages");
    assert_eq!(named(under(0.05, 0.01, &[]), &[]), "waits-for-stable-pages");
    // Long, but seen at something else.
    assert_eq!(named(under(0.05, 0.01, &[Wait::Filesystem]), &[]), "no-stalls");
    // Short: what holds the fills up is worth more.
    assert_eq!(named(under(2e-3, 1e-3, &[]), throttled), "throttled-writers");
    assert_eq!(named(under(2e-3, 1e-3, &[]), &[]), "waits-for-stable-pages");
    assert_eq!(named(under(5e-4, 1e-5, &[]), &[]), "no-stalls");
    // A small part of a long write-back.
    assert_eq!(named(under(0.05, 1.0, &[]), &[]), "no-stalls");
}

#[test]
fn a_slow_msync_is_distinguished_from_a_slow_device() {
    for (mapped, written, expected) in [
        (8.6e-3, 0.41e-3, "slow-msync"),
        (60e-3, 52e-3, "slow-device"),
        (1e-5, 1e-6, "no-stalls"),
        (2e-3, 1e-3, "no-stalls"),
    ] {
        let msync = msync(mapped, written);
        assert_eq!(judge(&Measured { msync: Some(msync), ..Measured::default() }).name, expected, "{mapped} {written}");
    }
}

#[test]
fn the_grid_compares_each_cell_with_plain_writing() {
    let cell = |manner, test, seconds| Cell { test, manner, file: 65_536, record: 4096, bytes: 65_536, seconds };
    let cells = vec![
        cell(Manner::Mapped, Test::Write, 2.0),
        cell(Manner::Written, Test::Write, 1.0),
        cell(Manner::Mapped, Test::Read, 1.0),
        cell(Manner::Written, Test::Read, 9.0),
        cell(Manner::Mapped, Test::Rewrite, 1.0),
    ];
    let grid = grid::Measured { files: vec![65_536], records: vec![4096], cells, skipped: Vec::new() };
    assert_eq!(grid_ratios(&grid), [0.5]);
    assert_eq!(grid.table(Manner::Mapped, Test::Write), [[Some(32.0)]]);
    let sentence = of_grid(&grid).unwrap();
    assert!(sentence.contains("2 times as slow") && sentence.contains("50 %"), "{sentence}");
}

#[test]
fn a_device_that_demands_stable_pages_without_stalls_is_explained() {
    let (under, msync) = (under(1e-5, 5e-3, &[]), msync(1.1e-3, 1e-3));
    let says = |stable_pages| {
        let facts = Facts { stable_pages, ..facts(Rule::Device) };
        let evidence =
            Measured { facts, under: Some(under.clone()), msync: Some(msync.clone()), ..Measured::default() };
        judge(&evidence).sentences.iter().any(|sentence| sentence.starts_with("Stable pages alone are no stall"))
    };
    assert!(says(Some(true)) && !says(Some(false)) && !says(None));
}
