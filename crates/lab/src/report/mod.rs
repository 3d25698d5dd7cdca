//! What was measured, shown: as a page, as Markdown, as CSV and on a terminal.
//!
//! [`page`] makes one [`Page`] of saved results; the four ways to show it know nothing of results.

use haul_measure::words;
use serde::Serialize;

pub mod baseline;
pub mod chart;
pub mod csv;
pub mod html;
pub mod join;
mod layout;
pub mod markdown;
pub mod markup;
pub mod sections;
pub mod tabular;
pub mod template;
pub mod terminal;
pub mod text;

use crate::results::{Case, Environment, Outcome, Place, Results};
use crate::view::{Cell, Table, View};

pub use sections::views;

/// A report, before it is known how it is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Page {
    pub title: String,
    /// When, and by what.
    pub subtitle: String,
    /// How much was measured, and how it came out, in a sentence or two.
    pub scope: String,
    /// What was measured, in plain words, one sentence or two for each section: its name and the words.
    pub summary: Vec<(String, String)>,
    /// What was not measured: by what, and why.
    pub not_measured: Vec<(String, String)>,
    /// What a reader should know before anything else: results that were joined, a run that was ended.
    pub notes: Vec<String>,
    /// The machine, the places, the competitors.
    pub environment: Vec<Table>,
    pub views: Vec<View>,
}

pub fn page(results: &Results) -> Page {
    let views = views(results);
    let title = match &views[..] {
        [only] => format!("{} on this machine", only.title),
        _ => "Copies, measured on this machine".to_owned(),
    };
    // Nothing is more important than that a copy is not what it should be.
    let wrong = views.iter().flat_map(|view| &view.warnings).filter(|words| words.starts_with(text::WRONG));
    let mut notes: Vec<String> = wrong.cloned().collect();
    let ended = "The measurement was ended before it was complete; what it did not reach is missing here.";
    notes.extend((!results.complete).then(|| ended.to_owned()));
    Page {
        title,
        subtitle: format!(
            "Measured on {} by haul-lab {}: {}",
            text::date(results.started),
            results.program,
            results.command.join(" ")
        ),
        scope: scope(results),
        summary: views.iter().map(|view| (view.name.clone(), in_short(view))).collect(),
        not_measured: not_measured(results, &views),
        notes,
        environment: environment(&results.environment),
        views,
    }
}

fn scope(results: &Results) -> String {
    let cases = || results.sections.iter().flat_map(|section| &section.cases);
    let number = |wanted: &dyn Fn(&Case) -> bool| cases().filter(|case| wanted(case)).count();
    let runs: usize = cases().map(|case| case.runs.len()).sum();
    let ranked = number(&|case| case.is_ranked());
    let mut words = vec![text::count(results.sections.len(), "section")];
    if ranked > 0 {
        words.push(format!("{} in {}", text::count(ranked, "copier setting"), text::count(runs, "timed run")));
        words.push(match number(&|case| case.outcome == Outcome::Unverified && case.is_ranked()) {
            0 => "every ranked copy was compared with its source, and is right".to_owned(),
            open => format!("the copies of {open} of them were compared with nothing, all others are right"),
        });
    }
    for (kind, what) in [
        (Outcome::Wrong as fn(String) -> Outcome, "with a wrong copy and no rank"),
        (Outcome::NotAsNamed, "that did something else than the name says"),
        (Outcome::Failed, "that failed"),
        (Outcome::TooLong, "that took too long"),
        (Outcome::Refused, "refused"),
    ] {
        let kind = std::mem::discriminant(&kind(String::new()));
        let found = number(&|case| std::mem::discriminant(&case.outcome) == kind);
        words.extend((found > 0).then(|| format!("{found} {what}")));
    }
    words.join("; ") + "."
}

/// What a section found, in its first sentence.
fn in_short(view: &View) -> String {
    view.summary.first().map_or("It was measured; see there.", String::as_str).to_owned()
}

fn not_measured(results: &Results, views: &[View]) -> Vec<(String, String)> {
    // Only who asked for all experiments misses one.
    let all = results.command.first().is_some_and(|task| task == sections::ALL);
    let absent = sections::EXPERIMENTS.iter().filter(|name| all && results.section(name).is_none());
    let absent = absent.map(|name| (sections::title(name), format!("not measured at all; `haul-lab {name}` does it")));
    let parts = views.iter().flat_map(|view| view.not_measured.iter().map(|why| (view.title.as_str(), why.clone())));
    parts.chain(absent).map(|(what, why)| (what.to_owned(), why)).collect()
}

/// What it was measured on, in tables of words.
pub fn environment(environment: &Environment) -> Vec<Table> {
    let row = |name: &str, value: String| vec![Cell::text(name), Cell::text(value)];
    let mut rows = vec![
        row("kernel", environment.kernel.clone()),
        row("CPU", environment.processor.clone()),
        row("CPUs", environment.cores.to_string()),
        row("memory", words::bytes(environment.memory)),
    ];
    let shared = |name: &String| format!("{name}: its memory and its disks may be shared with others");
    rows.push(row("virtual machine", environment.virtual_machine.as_ref().map_or("no".to_owned(), shared)));
    rows.extend(environment.methods.iter().map(|method| row("method", method.clone())));
    let mut tables = vec![Table::new("The machine", "|", rows)];
    for (name, place) in &environment.places {
        let rows = place_rows(place).into_iter().map(|(name, value)| row(name, value));
        tables.push(Table::new(format!("Storage: {name}"), "|", rows));
    }
    let versions = environment.competitors.iter().map(|(name, version)| row(name, version.clone()));
    tables.extend(Table::new("Tools", "|", versions).if_any());
    tables
}

fn place_rows(place: &Place) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("directory", place.directory.clone()),
        ("filesystem", format!("{} on {}", place.filesystem, place.source)),
        ("mount options", place.mount_options.clone()),
        ("free space", words::bytes(place.free)),
    ];
    let Some(device) = &place.device else {
        rows.push(("device", "none that the kernel reports".to_owned()));
        return rows;
    };
    let model = device.model.as_ref().map(|model| format!(", {}", model.trim())).unwrap_or_default();
    let known = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
    let answer = |value: Option<bool>, yes, no| known(value.map(|value| if value { yes } else { no }));
    rows.extend([
        ("device", format!("{}{model}", device.name)),
        ("rotational", answer(device.rotational, "yes, as the kernel believes", "no, as the kernel believes")),
        ("stable pages", answer(device.stable_pages, "demanded: writers wait for write-back", "not demanded")),
        ("scheduler", known(device.scheduler.as_deref())),
        ("write cache", known(device.write_cache.as_deref())),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::sections::test_support::{results, section};
    use super::*;

    #[test]
    fn an_experiment_that_nobody_asked_for_is_not_missed() {
        let missed = |command: &[&str], names: &[&str]| {
            let mut results = results(names.iter().map(|name| section(name)).collect());
            results.command = command.iter().map(|word| (*word).to_owned()).collect();
            page(&results).not_measured.len()
        };
        assert_eq!(missed(&["in-kernel", "/mnt"], &["in-kernel"]), 0);
        // Joined with the results of another one, too.
        assert_eq!(missed(&["in-kernel", "/mnt"], &["in-kernel", "sparse-image"]), 0);
        assert_eq!(missed(&["reproduce", "/mnt"], &["mapped-copy", "in-kernel"]), 3);
    }
}
