//! Copies of disk images: what need not be read or written, and what a copy waits for.

use haul_measure::words;

use super::claims::{Direction, claim};
use super::copies;
use super::heading::begun;
use crate::report::text::{self, percent};
use crate::results::{Body, Case, Results, Section};
use crate::view::{Cell, Chart, Claim, Column, Published, Table, View};

/// Figures that haul reports, and what they are called: work, then the waits at both queues.
const PHASES: [(&str, &str); 7] = [
    ("seconds.read", "reading"),
    ("seconds.scan", "looking for zeros"),
    ("seconds.write", "writing"),
    (READER_WAITS, "reader waits for room"),
    ("seconds.read-dequeue", "scanner waits for data"),
    ("seconds.write-enqueue", "scanner waits for room"),
    (WRITER_WAITS, "writer waits for data"),
];
const READER_WAITS: &str = "seconds.read-enqueue";
const WRITER_WAITS: &str = "seconds.write-dequeue";
/// Waits below this many seconds are next to nothing.
const NOTHING: f64 = 0.01;
/// One side is the bottleneck if the other waits this many times longer for it than the reverse.
const CLEARLY: f64 = 2.0;

/// The section as it is shown.
pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "How much of a disk image need not be read, and not written, what does that save, and what does a copy wait for?",
    );
    let groups = copies::groups(section);
    for (name, cases) in &groups {
        view.summary.extend(saved(name, cases));
        view.summary.extend(bottleneck(name, cases));
    }
    if view.summary.is_empty() {
        view.summary.push("Smart and full copies of the image were not both measured.".to_owned());
    }
    view.summary.push(copies::measured(results, section));
    for detail in &section.details {
        match &detail.body {
            Body::Strip { spans } => {
                let title = "What is where on the image, from its beginning to its end".to_owned();
                view.charts.push(Chart::Strip { title, spans: spans.clone() });
            }
            Body::Facts { rows } => view.tables.push(kinds(rows)),
            _ => {}
        }
    }
    view.charts.extend(copies::bars(section, "Time until the copier returned"));
    view.charts.extend(groups.iter().filter_map(|(name, cases)| phases(name, cases)));
    view.tables.extend(groups.iter().filter_map(|(name, cases)| bytes(name, cases)));
    copies::fill(&mut view, section);
    let first = groups.first().map(|(_, cases)| cases.as_slice()).unwrap_or_default();
    view.published = Some(published(first));
    view
}

/// How many bytes of the image are of which kind, exactly: the strip shows of each place only what most of it is.
fn kinds(rows: &[(String, String, String)]) -> Table {
    let all: f64 = rows.iter().filter_map(|(_, count, _)| count.parse::<f64>().ok()).sum::<f64>().max(1.0);
    let row = |(kind, count, shown): &(String, String, String)| {
        let count = count.parse::<f64>().ok();
        let share = count.map_or_else(|| Cell::text("-"), |count| Cell::figure(count / all, percent(count / all)));
        vec![Cell::text(kind), Cell { value: count, ..Cell::text(shown) }, share]
    };
    Table {
        title: "What the image consists of".to_owned(),
        columns: vec![Column::words("kind"), Column::figures("bytes"), Column::figures("share")],
        rows: rows.iter().map(row).collect(),
        note: None,
    }
}

/// A copy with or without SmartRead, with sparse output or not.
fn pick<'c>(cases: &[&'c Case], smart: bool, sparse: bool) -> Option<&'c Case> {
    let said = |yes: bool| if yes { "yes" } else { "no" };
    let is = |case: &Case, name: &str, yes: bool| case.parameters.get(name).is_some_and(|known| known == said(yes));
    let name =
        format!("{} read, {} output", if smart { "smart" } else { "full" }, if sparse { "sparse" } else { "plain" });
    let found = |case: &&&Case| case.is_ranked() && is(case, "smart", smart) && is(case, "sparse", sparse);
    copies::find(cases, &name).or_else(|| cases.iter().find(found).copied())
}

fn reported(case: &Case, name: &str) -> Option<f64> {
    copies::median_of_some(case, |run| run.reported.get(name).copied())
}

fn saved(name: &str, cases: &[&Case]) -> Option<String> {
    let (smart, full) = (pick(cases, true, true)?, pick(cases, false, false)?);
    let ratio = copies::ratio(Some(smart), Some(full), copies::returned)?;
    let whole = (smart.bytes as f64).max(1.0);
    let share = |figure: &str| {
        reported(smart, figure).map_or_else(|| "an unknown part".to_owned(), |bytes| percent(bytes / whole))
    };
    Some(format!(
        "{name}: with smart read and sparse output {} of the image is not read and {} is not written; the copy takes {}.",
        share("bytes.read-skipped"),
        share("bytes.write-skipped"),
        text::times_as(&ratio, "the time of a full copy")
    ))
}

/// Who waits for whom, where the copy went through queues.
fn bottleneck(name: &str, cases: &[&Case]) -> Option<String> {
    let case = pick(cases, true, true).or_else(|| pick(cases, false, false))?;
    let (reader, writer) = (reported(case, READER_WAITS)?, reported(case, WRITER_WAITS)?);
    if reader.max(writer) < NOTHING {
        return Some(format!(
            "{name}: nobody waited at a queue; threads that each read, scan and write copied it, or both sides were equally quick."
        ));
    }
    let verdict = if writer > reader * CLEARLY {
        "the source is the bottleneck"
    } else if reader > writer * CLEARLY {
        "the destination is the bottleneck"
    } else {
        "neither side is clearly the bottleneck, and it may be what is between them"
    };
    let (reader, writer) = (words::seconds(reader), words::seconds(writer));
    Some(format!("{name}: the reader waits {reader} for room, the writer {writer} for data: {verdict}."))
}

fn phases(name: &str, cases: &[&Case]) -> Option<Chart> {
    let row = |case: &&Case| {
        let amounts: Vec<Option<f64>> = PHASES.iter().map(|(figure, _)| reported(case, figure)).collect();
        let known = case.is_ranked() && amounts.iter().any(Option::is_some);
        known.then(|| (case.competitor.clone(), amounts.into_iter().map(Option::unwrap_or_default).collect()))
    };
    let rows: Vec<(String, Vec<f64>)> = cases.iter().filter_map(row).collect();
    let title = format!("What the threads of a copy do, {name}: the sum may be more than its time");
    copies::parts(title, &PHASES.map(|(_, name)| name), rows)
}

fn bytes(name: &str, cases: &[&Case]) -> Option<Table> {
    let figures = [
        ("bytes.read-skipped", "not read"),
        ("bytes.write-skipped", "not written"),
        ("bytes.zeros", "zeros found"),
        ("bytes.copied", "written"),
    ];
    let row = |case: &&Case| {
        let values: Vec<Option<f64>> = figures.iter().map(|(figure, _)| reported(case, figure)).collect();
        if !case.is_ranked() || values.iter().all(Option::is_none) {
            return None;
        }
        let whole = (case.bytes as f64).max(1.0);
        let mut row = vec![Cell::text(&case.competitor)];
        row.extend(values.into_iter().map(|value| match value {
            Some(value) => {
                let text = format!("{} ({})", words::bytes(value.max(0.0) as u64), percent(value / whole));
                Cell::figure(value, text)
            }
            None => Cell::text("-"),
        }));
        Some(row)
    };
    let rows: Vec<Vec<Cell>> = cases.iter().filter_map(row).collect();
    let mut columns = vec![Column::words("tool")];
    columns.extend(figures.map(|(_, name)| Column::figures(name)));
    let title = format!("Bytes, {name}");
    (!rows.is_empty()).then(|| Table { title, columns, rows, note: Some("In brackets: of the image.".to_owned()) })
}

/// Theirs: tool; seconds; bytes not read, and not written; seconds on reading, and on writing.
const FIGURES: [(&str, [f64; 5], bool, bool); 3] = [
    ("smart read, sparse output", [236.807, 2_391_018_496.0, 4_396_757_358.0, 212.812, 4.962], true, true),
    ("smart read, plain output", [246.531, 2_391_018_496.0, 0.0, 233.609, 24.114], true, false),
    ("full read, plain output", [321.688, 0.0, 0.0, 320.017, 9.667], false, false),
];

fn published(cases: &[&Case]) -> Published {
    let time = |of, base| copies::ratio(of, base, copies::returned);
    let (sparse, plain, full) = (pick(cases, true, true), pick(cases, true, false), pick(cases, false, false));
    Published {
        by: "smartcp, about 2014: a flat virtual disk of 8,589,934,592 bytes (Fedora) from a store of virtual machines to a \
             deduplicating NAS, with buffers of 128 KiB."
            .to_owned(),
        table: table(cases),
        claims: vec![
            claim(
                "Not reading what the guest does not use saves time (246.5 s against 321.7 s)",
                "With plain output, the smart copy takes",
                "the time of the full one",
                time(plain, full).as_ref(),
                Direction::Under(1.0),
            ),
            claim(
                "Not writing zeros saves a little more (236.8 s against 246.5 s)",
                "With sparse output, the smart copy takes",
                "the time of one with plain output",
                time(sparse, plain).as_ref(),
                Direction::Under(1.0),
            ),
            waits(sparse),
        ],
    }
}

/// Whether the writer waits for the reader.
fn waits(case: Option<&Case>) -> Claim {
    let says =
        "The writer waits for data: the source is the bottleneck (230.9 s, against 0.2 s of waiting for the writer)";
    let figures = |name: &str| {
        let runs = case.iter().flat_map(|case| &case.runs);
        // What is next to nothing is not many times as much as another nothing.
        runs.filter_map(|run| run.reported.get(name)).map(|time| time.max(NOTHING)).collect::<Vec<f64>>()
    };
    let (writer, reader) = (figures(WRITER_WAITS), figures(READER_WAITS));
    if !writer.is_empty() && writer.iter().chain(&reader).all(|time| *time <= NOTHING) {
        let here = "The copy needed no queues here, so nobody waited at one.".to_owned();
        return Claim { says: says.to_owned(), here, agrees: None };
    }
    let ratio = haul_measure::stats::ratio(&writer, &reader);
    claim(says, "The writer waits for data", "as long as the reader for room", ratio.as_ref(), Direction::Over(1.0))
}

fn table(cases: &[&Case]) -> Table {
    let mut rows = Vec::new();
    for (tool, theirs, smart, sparse) in FIGURES {
        let line = |whose: &str, figures: [Option<f64>; 5], whole: f64| {
            let mut row = vec![Cell::text(tool), Cell::text(whose)];
            for (place, figure) in figures.into_iter().enumerate() {
                let say = |value: f64| match place {
                    1 | 2 => percent(value / whole),
                    _ => text::significant(value),
                };
                row.push(figure.map_or_else(|| Cell::text("-"), |value| Cell::figure(value, say(value))));
            }
            row
        };
        rows.push(line("2014", theirs.map(Some), 8_589_934_592.0));
        let case = pick(cases, smart, sparse);
        let ours = [
            case.and_then(|case| copies::median(case, copies::returned)),
            case.and_then(|case| reported(case, "bytes.read-skipped")),
            case.and_then(|case| reported(case, "bytes.write-skipped")),
            case.and_then(|case| reported(case, "seconds.read")),
            case.and_then(|case| reported(case, "seconds.write")),
        ];
        rows.push(line("here", ours, case.map_or(1.0, |case| (case.bytes as f64).max(1.0))));
    }
    let mut columns = vec![Column::words("copy"), Column::words("when")];
    columns.extend(["time, s", "not read", "not written", "reading, s", "writing, s"].map(Column::figures));
    Table { title: "2014, and here".to_owned(), columns, rows, note: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::fixtures::{case, results, section, timed};

    fn measured(set: &[(bool, bool, f64)], waits: Option<(f64, f64)>) -> View {
        let mut section = section("sparse-image");
        for (smart, sparse, seconds) in set {
            let mut case = case("image of 8 GiB", "haul", 8 << 30, &timed(*seconds));
            for (name, yes) in [("smart", smart), ("sparse", sparse)] {
                case.parameters.insert(name.to_owned(), if *yes { "yes" } else { "no" }.to_owned());
            }
            for run in &mut case.runs {
                if let Some((reader, writer)) = waits {
                    run.reported.insert(READER_WAITS.to_owned(), reader);
                    run.reported.insert(WRITER_WAITS.to_owned(), writer);
                }
                run.reported.insert("bytes.read-skipped".to_owned(), f64::from(1 << 30) * 2.0);
            }
            section.cases.push(case);
        }
        let results = results(vec![section]);
        view(&results, &results.sections[0])
    }

    fn verdicts(view: &View) -> Vec<Option<bool>> {
        view.published.iter().flat_map(|published| &published.claims).map(|claim| claim.agrees).collect()
    }

    #[test]
    fn the_published_directions_are_judged_by_intervals() {
        let all = [(true, true, 1.0), (true, false, 1.5), (false, false, 2.0)];
        assert_eq!(verdicts(&measured(&all, Some((0.1, 2.0)))), [Some(true), Some(true), Some(true)]);
        assert_eq!(verdicts(&measured(&all, Some((2.0, 0.1)))), [Some(true), Some(true), Some(false)]);
        assert_eq!(verdicts(&measured(&all, Some((0.0, 0.0)))), [Some(true), Some(true), None]);
        assert_eq!(verdicts(&measured(&all[..2], None)), [None, Some(true), None]);
        let same = [(true, true, 1.0), (true, false, 1.0), (false, false, 1.0)];
        assert_eq!(verdicts(&measured(&same, None)), [None, None, None]);
    }

    #[test]
    fn who_waits_tells_the_bottleneck() {
        let of = |waits| measured(&[(true, true, 1.0)], Some(waits)).summary.join(" ");
        assert!(of((0.1, 2.0)).contains("the source is the bottleneck"));
        assert!(of((2.0, 0.1)).contains("the destination is the bottleneck"));
        assert!(of((1.0, 1.5)).contains("neither side is clearly"));
        assert!(of((0.0, 0.0)).contains("nobody waited at a queue"));
    }
}
