//! The tables, and what was promised.

use std::fmt::Write;

use haul_measure::stats::Spread;

use super::super::report::{self, range};
use super::programs::{self, Program};
use super::record::{Image, Results, Sample};
use crate::shell::Result;

const MIB: f64 = 1_048_576.0;

pub fn markdown(results: &Results, programs: &[Program]) -> String {
    let Image { size, allocated, free, live, zeros, .. } = &results.image;
    let mib = |bytes: u64| format!("{:.0}", bytes as f64 / MIB);
    let percent = |bytes: u64| format!("{:.1} %", bytes as f64 * 100.0 / *size as f64);
    let rest = size.saturating_sub(free + live + zeros);
    let mut text = format!(
        "Image: {} MiB, {} MiB allocated. Free {} MiB ({}), live files {} MiB ({}), files of zeros {} MiB ({}), \
         metadata {} MiB ({}).\n",
        mib(*size),
        mib(*allocated),
        mib(*free),
        percent(*free),
        mib(*live),
        percent(*live),
        mib(*zeros),
        percent(*zeros),
        mib(rest),
        percent(rest),
    );
    for cold in [true, false] {
        if results.runs.iter().any(|run| run.cold == cold) {
            text.push_str(&table(results, programs, cold));
        }
    }
    text.push_str("\n| promise | measured | kept |\n|---|---|---|\n");
    for (promise, measured, kept) in promises(results, programs) {
        // A string takes everything.
        writeln!(text, "| {promise} | {measured} | {} |", if kept { "yes" } else { "**no**" }).unwrap_or_default();
    }
    text
}

fn table(results: &Results, programs: &[Program], cold: bool) -> String {
    let mut text = format!(
        "\n| {} | n | read MiB | from the device MiB | written MiB | returned s | durable s | user s | sys s | \
         peak memory MiB | copy occupies MiB | verified |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        if cold { "cold" } else { "warm" }
    );
    for program in programs {
        let runs = results.samples(program.key, cold);
        if runs.is_empty() {
            continue;
        }
        let of = |figure: fn(&Sample) -> f64| spread(&runs, figure);
        let whole =
            |figure: fn(&Sample) -> f64| of(figure).map_or_else(String::new, |all| format!("{:.0}", all.median));
        let time = |figure: fn(&Sample) -> f64| of(figure).map_or_else(String::new, range);
        let two_digits =
            |figure: fn(&Sample) -> f64| of(figure).map_or_else(String::new, |all| format!("{:.2}", all.median));
        let busy = runs.iter().filter(|sample| sample.disturbed).count();
        let verified = match runs.iter().find_map(|sample| sample.failed.as_deref()) {
            Some(why) => format!("**no**: {why}"),
            None => "yes".to_owned(),
        };
        let busy = if busy > 0 { format!(", {busy} disturbed") } else { String::new() };
        let cells = [
            program.name.to_owned(),
            format!("{}{busy}", runs.len()),
            whole(|sample| sample.read as f64 / MIB),
            whole(|sample| sample.fetched as f64 / MIB),
            whole(|sample| sample.written as f64 / MIB),
            time(|sample| sample.returned),
            time(|sample| sample.durable),
            two_digits(|sample| sample.user),
            two_digits(|sample| sample.system),
            whole(|sample| sample.memory as f64 / MIB),
            whole(|sample| sample.allocated as f64 / MIB),
            verified,
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Of the runs that copied rightly; all of them if none did.
fn spread(runs: &[&Sample], figure: fn(&Sample) -> f64) -> Option<Spread> {
    let good = runs.iter().filter(|sample| sample.failed.is_none());
    report::spread(good.map(|run| figure(run))).or_else(|| report::spread(runs.iter().map(|run| figure(run))))
}

/// What was promised, what was measured, and whether that is kept.
fn promises(results: &Results, programs: &[Program]) -> Vec<(String, String, bool)> {
    let image = &results.image;
    let mut all = Vec::new();
    for cold in [true, false] {
        let word = if cold { "cold" } else { "warm" };
        let median = |key: &str, figure: fn(&Sample) -> f64| {
            let runs = results.samples(key, cold);
            let all_right = runs.iter().all(|sample| sample.failed.is_none());
            spread(&runs, figure).filter(|_| all_right).map(|all| all.median)
        };
        if let (Some(smart), Some(full)) =
            (median("smart", |run| run.read as f64), median("full", |run| run.read as f64))
        {
            let part = (full - smart) / image.free as f64;
            let said = format!("{:.0} MiB less, {:.2} % of what is free", (full - smart) / MIB, part * 100.0);
            all.push((
                format!("{word}: bytes read fall by what is free, within 1 %"),
                said,
                (part - 1.0).abs() <= 0.01,
            ));
        }
        if let Some(occupied) = median("smart", |run| run.allocated as f64) {
            let most = (image.size - image.free - image.zeros) as f64;
            let said = format!("{:.0} MiB of {:.0} MiB", occupied / MIB, most / MIB);
            let promise = "the copy occupies at most 1 % more than live data and metadata".to_owned();
            all.push((format!("{word}: {promise}"), said, occupied <= most * 1.01));
        }
        for figure in [("returned", (|run| run.returned) as fn(&Sample) -> f64), ("durable", |run| run.durable)] {
            let peers = programs.iter().filter(|program| !program.is_ours());
            let times = peers.filter_map(|program| Some((program.name, median(program.key, figure.1)?)));
            let best = times.min_by(|one, two| one.1.total_cmp(&two.1));
            if let (Some(smart), Some((name, best))) = (median("smart", figure.1), best) {
                let said = format!("{smart:.2} s, {name} {best:.2} s");
                all.push((format!("{word}: not slower than any peer ({})", figure.0), said, smart <= best));
            }
        }
        if let Some(most) = results.samples("smart", cold).iter().map(|run| run.memory).max() {
            let most = most as f64 / MIB;
            all.push((format!("{word}: peak memory below 64 MiB and the map"), format!("{most:.1} MiB"), most < 64.0));
        }
    }
    let scan = results.scan / (1024.0 * MIB);
    all.push(("the zero scan looks at 10 GiB/s on one core".into(), format!("{scan:.1} GiB/s of zeros"), scan >= 10.0));
    all
}

/// An error if a copy by smartcp was wrong.
pub fn failed(results: &Results) -> Result {
    let mut ours = results.runs.iter().filter(|run| programs::ours(&run.program));
    match ours.find_map(|run| run.sample.failed.as_deref()) {
        Some(why) => Err(format!("smartcp copied wrongly: {why}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(read: u64, returned: f64, failed: Option<&str>) -> Sample {
        let failed = failed.map(str::to_owned);
        Sample { read, returned, durable: returned, memory: 1 << 20, allocated: 50, failed, ..Sample::default() }
    }

    fn results() -> Results {
        let image = Image { path: "/image".into(), size: 100, allocated: 100, free: 30, live: 48, zeros: 20 };
        let mut results = Results { image, rounds: 1, scan: 2e10, ..Results::default() };
        results.add("smart", true, sample(70, 1.0, None));
        results.add("full", true, sample(100, 2.0, None));
        results.add("cp", true, sample(100, 1.5, None));
        results.add("qemu-img", true, sample(100, 0.5, Some("files differ")));
        results
    }

    fn programs() -> Vec<Program> {
        [("cp", "cp"), ("qemu-img", "qemu-img convert")]
            .map(|(key, name)| Program { key, name, version: String::new(), words: Vec::new(), sized: false })
            .to_vec()
    }

    #[test]
    fn a_wrong_copy_is_no_peer() {
        let all = promises(&results(), &programs());
        assert!(all.iter().all(|(_, _, kept)| *kept), "{all:?}");
        assert!(all.iter().any(|(_, said, _)| said.contains("cp 1.50 s")), "{all:?}");
    }

    #[test]
    fn a_broken_promise_is_reported() {
        let mut results = results();
        results.runs[0].sample.read = 80;
        results.runs[0].sample.returned = 1.6;
        let broken: Vec<String> =
            promises(&results, &programs()).into_iter().filter(|all| !all.2).map(|all| all.0).collect();
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(markdown(&results, &programs()).contains("**no**"));
    }

    #[test]
    fn a_wrong_copy_of_our_own_is_an_error() {
        assert!(failed(&results()).is_ok());
        let mut results = results();
        results.add("full", false, sample(1, 1.0, Some("files differ")));
        assert!(failed(&results).unwrap_err().contains("files differ"));
    }
}
