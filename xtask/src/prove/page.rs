//! The page. Pure.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::parts::PARTS;
use super::record::Outcome;

/// Lines of figures of one part that the page shows; its log has all.
const FIGURES: usize = 120;

/// A Markdown page of what is known.
pub fn write(outcomes: &[Outcome], quick: bool) -> String {
    let mut page = String::new();
    let mut line = |text: &str| writeln!(page, "{text}").unwrap_or_default(); // writing to a String cannot fail
    line("# Proof\n");
    line("What the trust in haul rests on, at full length: `cargo xtask prove` ran it, and made this page.\n");
    let failed = outcomes.iter().filter(|outcome| outcome.verdict.is_err()).count();
    line(&format!("{} of {} parts have run, {failed} of them with failures.", outcomes.len(), PARTS.len()));
    if quick {
        line("\n**This was a quick look: each part was as short as in a normal run of the tests.**");
    }
    line("\n| part | what it does | begun | commit | took | found |\n|---|---|---|---|---|---|");
    for part in PARTS {
        let (begun, commit, took, found) = match outcomes.iter().find(|outcome| outcome.part == part.name) {
            Some(one) => (&one.begun[..], &one.commit[..], duration(one.time), found(one)),
            None => ("", "", String::new(), "not run yet".to_owned()),
        };
        line(&format!("| {} | {} | {begun} | {commit} | {took} | {found} |", part.name, part.what));
    }
    let machines = machines(outcomes);
    for (index, machine) in machines.iter().enumerate() {
        line(&format!(
            "\n{}:\n",
            if machines.len() > 1 { format!("Machine {}", index + 1) } else { "The machine".into() }
        ));
        machine.iter().for_each(|text| line(&format!("* {text}")));
    }
    for outcome in outcomes {
        line(&format!("\n## {}\n", title(&outcome.part)));
        if machines.len() > 1 {
            let at = machines.iter().position(|machine| *machine == outcome.machine).unwrap_or_default();
            line(&format!("On machine {}.\n", at + 1));
        }
        line(&format!("```sh,not-run\n{}\n```", outcome.command));
        // A row that is printed as it comes, and again in the table at the end, stands here once.
        let mut seen = BTreeSet::new();
        let figures = outcome.figures.iter().filter(|figure| is_figure(figure));
        let figures: Vec<&String> =
            figures.filter(|figure| !figure.starts_with("| ") || seen.insert(figure.as_str())).collect();
        if !figures.is_empty() {
            line("\n```text");
            figures.iter().take(FIGURES).for_each(|figure| line(figure));
            if figures.len() > FIGURES {
                line(&format!("... and {} lines more", figures.len() - FIGURES));
            }
            line("```");
        }
    }
    page
}

/// The different ones, in the order in which they come.
fn machines(outcomes: &[Outcome]) -> Vec<&[String]> {
    let mut machines: Vec<&[String]> = vec![];
    for outcome in outcomes {
        if !machines.contains(&&outcome.machine[..]) {
            machines.push(&outcome.machine);
        }
    }
    machines
}

fn found(outcome: &Outcome) -> String {
    let found = match &outcome.verdict {
        Ok(found) => targets(&outcome.figures).or_else(|| checks(&outcome.figures)).unwrap_or_else(|| found.clone()),
        Err(why) => format!("**FAILED**: {}", why.lines().next().unwrap_or_default()),
    };
    found.replace('|', "\\|")
}

/// How many checks of virtual machines passed. `None` of what has none.
fn checks(figures: &[String]) -> Option<String> {
    figures.iter().find_map(|line| line.strip_prefix("vm: ")).map(str::to_owned)
}

/// What came of the targets of a benchmark, which misses them without a failure. `None` of what has none.
fn targets(figures: &[String]) -> Option<String> {
    let ending = |end: &str| figures.iter().filter(|line| line.starts_with("Target ") && line.ends_with(end)).count();
    let (met, missed) = (ending(": met."), ending(": **missed**."));
    (met + missed > 0).then(|| format!("{met} targets met, {missed} missed"))
}

/// What of the output of a part is figures of its own: not the lines of cargo and of the runners, nor of programs that are built,
/// nor what each run of a benchmark took.
pub fn is_figure(line: &str) -> bool {
    let line = line.trim();
    let of_runner = ["running ", "test ", "test result:", "Doc-tests", "==>"];
    let of_cargo =
        ["Preparing ", "Running ", "Finished ", "Compiling ", "Downloaded ", "Downloading ", "Updating ", "Locking "];
    let of_packages = [
        "/",
        "--> ",
        "Build: ",
        "Building ",
        "Commit: ",
        "Copying ",
        "I: ",
        "License: ",
        "STEP ",
        "building ",
        "dpkg-deb: ",
        "info: ",
        "installing ",
        "job ",
        "🐍",
        "📦",
        "🔗",
    ];
    let is_version = line.ends_with(concat!(" ", env!("CARGO_PKG_VERSION")));
    let is_digest = line.len() >= 32 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let turn = line.split(' ').next().and_then(|word| word.split_once('/'));
    let of_one_run = turn.is_some_and(|(run, runs)| is_number(run) && is_number(runs));
    line.contains(|letter: char| letter.is_ascii_digit())
        && !of_one_run
        && !is_version
        && !is_digest
        && !of_runner.iter().chain(&of_cargo).chain(&of_packages).any(|start| line.starts_with(start))
}

fn title(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::PARTS;
    use super::*;
    use crate::shell::Result;

    fn outcome(at: usize, verdict: Result<String>) -> Outcome {
        Outcome {
            part: PARTS[at].name.into(),
            command: PARTS[at].work.command(true),
            begun: "2026-11-28, 01:00 UTC".into(),
            commit: "abc".into(),
            machine: vec!["2 cores".into()],
            time: Duration::from_secs(300),
            verdict,
            figures: vec!["faults: 25 sets".into()],
        }
    }

    #[test]
    fn the_page_says_what_failed_and_what_is_still_to_come() {
        let page = write(&[outcome(0, Ok("3 passed".into())), outcome(1, Err("1 failed | 2\nmore".into()))], true);
        for text in [
            &format!("2 of {} parts have run, 1 of them", PARTS.len()),
            "| 2026-11-28, 01:00 UTC | abc | 5 min | 3 passed |",
            "**FAILED**: 1 failed \\| 2 |",
            &format!("| {} | {} |  |  |  | not run yet |", PARTS[2].name, PARTS[2].what),
            "quick look",
            "The machine:",
            "25 sets",
        ] {
            assert!(page.contains(text), "{text:?} in {page}");
        }
    }

    #[test]
    fn a_benchmark_that_misses_a_target_is_not_as_it_should_be() {
        let figures = ["Target 2.00 x: 2.20: met.", "Target 2.00 x: 1.58: **missed**.", "of 3 targets"];
        let figures = figures.map(str::to_owned).to_vec();
        let page = write(&[Outcome { figures, ..outcome(0, Ok("as it should be".into())) }], false);
        assert!(page.contains("| 1 targets met, 1 missed |") && !page.contains("as it should be"), "{page}");
    }

    #[test]
    fn checks_of_virtual_machines_are_counted_and_stand_on_the_page_once() {
        let row = "| 6.1  | cifs | from and to | ok | 1.0 |";
        let figures = [row, row, "vm: 1 passed, 0 failed, 0 skipped"].map(str::to_owned).to_vec();
        let page = write(&[Outcome { figures, ..outcome(0, Ok("as it should be".into())) }], false);
        assert!(page.contains("| 1 passed, 0 failed, 0 skipped |"), "{page}");
        assert_eq!(page.matches(row).count(), 1, "{page}");
    }

    #[test]
    fn the_page_that_is_shipped_is_that_of_its_record() {
        let file = |name: &str| crate::shell::root().join("docs").join(name);
        let outcomes = super::super::record::read(&file("proof.json")).unwrap();
        let page = write(&super::super::record::today(&outcomes, false), false);
        if std::env::var_os("HAUL_REGENERATE").is_some() {
            std::fs::write(file("proof.md"), &page).unwrap();
        }
        assert!(std::fs::read_to_string(file("proof.md")).unwrap() == page, "HAUL_REGENERATE=1 writes it");
    }

    #[test]
    fn the_page_says_what_ran_on_which_machine() {
        let other = Outcome { machine: vec!["16 cores".into()], ..outcome(1, Ok("fine".into())) };
        let page = write(&[outcome(0, Ok("fine".into())), other], false);
        let (machines, parts) = page.split_once("\n## ").unwrap();
        assert!(
            machines.contains("Machine 1:\n\n* 2 cores") && machines.contains("Machine 2:\n\n* 16 cores"),
            "{page}"
        );
        assert!(parts.contains("On machine 2."), "{page}");
    }

    #[test]
    fn lines_of_runners_are_no_figures() {
        for line in [
            "test a ... ok",
            "running 5 tests",
            "test result: ok. 5 passed",
            "   Compiling a v0.1.0",
            "  Downloaded a v0.1.0",
            "",
            "words",
            "  2/5 cp: 1 s",
            "I: Retrieving adduser 3.134",
            "/dist/SHA256SUMS",
            "9813489cda4db02ab98a096e8cf03e8cea88a979cf1d529914a632070b5f59b5",
        ] {
            assert!(!is_figure(line), "{line}");
        }
        assert!(is_figure("1500 swaps, 5 runs"));
    }
}
