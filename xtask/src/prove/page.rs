//! The page. Pure.

use std::fmt::Write;
use std::time::Duration;

use super::parts::{Part, Work};

/// What came of a part.
pub struct Outcome {
    pub part: &'static Part,
    /// The command, for those who want to run it again.
    pub command: String,
    pub time: Duration,
    /// What was found, or what is wrong.
    pub verdict: Result<String, String>,
    /// What it has printed beside the lines of its runner.
    pub figures: Vec<String>,
}

/// When and on what the page was made.
pub struct About {
    pub begun: String,
    /// A line each.
    pub machine: Vec<String>,
    pub quick: bool,
}

/// Lines of figures of one part that the page shows; its log has all.
const FIGURES: usize = 120;

/// A Markdown page of what has ended; `wanted` parts are to come to it.
pub fn write(about: &About, outcomes: &[Outcome], wanted: usize) -> String {
    let mut page = String::new();
    let mut line = |text: &str| writeln!(page, "{text}").unwrap_or_default(); // writing to a String cannot fail
    line("# Proof\n");
    line(&format!("Begun on {}. `cargo xtask prove` made this page.\n", about.begun));
    about.machine.iter().for_each(|text| line(&format!("* {text}")));
    let failed = outcomes.iter().filter(|outcome| outcome.verdict.is_err()).count();
    line(&format!("\n{} of {wanted} parts have ended, {failed} of them with failures.", outcomes.len()));
    if about.quick {
        line("\n**This was a quick look: each part was as short as in a normal run of the tests.**");
    }
    line("\n| part | what it does | took | found |\n|---|---|---|---|");
    for Outcome { part, time, verdict, .. } in outcomes {
        let found = match verdict {
            Ok(found) => found.clone(),
            Err(why) => format!("**FAILED**: {}", why.lines().next().unwrap_or_default()),
        };
        line(&format!("| {} | {} | {} | {} |", part.name, part.what, duration(*time), found.replace('|', "\\|")));
    }
    for outcome in outcomes {
        line(&format!("\n## {}\n", title(outcome.part.name)));
        line(&format!("```sh\n{}\n```", outcome.command));
        if !outcome.figures.is_empty() {
            line("\n```text");
            outcome.figures.iter().take(FIGURES).for_each(|figure| line(figure));
            if outcome.figures.len() > FIGURES {
                line(&format!("... and {} lines more", outcome.figures.len() - FIGURES));
            }
            line("```");
        }
    }
    page
}

/// What of the output of a part is figures of its own: not the lines of cargo and of the runners, nor of programs that are built.
pub fn is_figure(line: &str) -> bool {
    let line = line.trim();
    let of_runner = ["running ", "test ", "test result:", "Doc-tests", "Running ", "Finished ", "Compiling ", "==>"];
    line.contains(|letter: char| letter.is_ascii_digit()) && !of_runner.iter().any(|start| line.starts_with(start))
}

/// What somebody types to run a part again.
pub fn command(work: Work, quick: bool) -> String {
    match work {
        Work::Tests { package, test, length } => {
            let length = if quick { &[] } else { length };
            let length: String = length.iter().map(|(name, value)| format!("{name}={value} ")).collect();
            format!("{length}cargo test -p {package} --test {test}")
        }
        Work::Task { full, quick: look } => format!("cargo xtask {}", if quick { look } else { full }.join(" ")),
    }
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

    #[test]
    fn the_page_says_what_failed_and_what_is_still_to_come() {
        let outcome = |at: usize, verdict| Outcome {
            part: &PARTS[at],
            command: command(PARTS[at].work, true),
            time: Duration::from_secs(300),
            verdict,
            figures: vec!["faults: 25 sets".into()],
        };
        let outcomes = [outcome(0, Ok("3 passed".into())), outcome(1, Err("1 failed | 2\nmore".into()))];
        let about = About { begun: "2026-11-27".into(), machine: vec!["2 cores".into()], quick: true };
        let page = write(&about, &outcomes, 5);
        for text in [
            "2 of 5 parts have ended, 1 of them",
            "| 5 min | 3 passed |",
            "**FAILED**: 1 failed \\| 2 |",
            "quick look",
            "25 sets",
        ] {
            assert!(page.contains(text), "{text:?} in {page}");
        }
    }

    #[test]
    fn lines_of_runners_are_no_figures() {
        for line in
            ["test a ... ok", "running 5 tests", "test result: ok. 5 passed", "   Compiling a v0.1.0", "", "words"]
        {
            assert!(!is_figure(line), "{line}");
        }
        assert!(is_figure("1500 swaps, 5 runs"));
    }

    #[test]
    fn a_quick_look_has_the_length_of_the_tests() {
        let work = Work::Tests { package: "p", test: "t", length: &[("N", "9")] };
        assert_eq!(command(work, false), "N=9 cargo test -p p --test t");
        assert_eq!(command(work, true), "cargo test -p p --test t");
    }
}
