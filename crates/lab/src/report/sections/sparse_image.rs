//! Copies of disk images: what need not be read or written, and what a copy waits for.

use haul_measure::{stats, words};

use super::claims::Source;
use super::copies::{self, RETURNED, reported};
use super::heading::begun;
use crate::report::text::{self, percent};
use crate::results::{Body, Case, Fact, Results, Section};
use crate::view::{Cell, Chart, Claim, Kind, Published, Table, View};

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

pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "How much of a disk image need not be read, and not written, what does that save, and what does a copy wait for?",
    );
    let groups = section.groups();
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
                let title = "What is where on the image, from its beginning to its end";
                view.charts.push(Chart::new(title, Kind::Strip(spans.clone())));
            }
            Body::Facts { rows } => view.tables.push(kinds(rows)),
            _ => {}
        }
    }
    view.charts.extend(copies::bars(section));
    view.charts.extend(groups.iter().filter_map(|(name, cases)| phases(name, cases)));
    view.tables.extend(groups.iter().filter_map(|(name, cases)| bytes(name, cases)));
    copies::fill(&mut view, section);
    let first = groups.first().map(|(_, cases)| cases.as_slice()).unwrap_or_default();
    view.published = Some(published(first));
    view
}

/// How many bytes of the image are of which kind, exactly: the strip shows of each place only what most of it is.
fn kinds(rows: &[Fact]) -> Table {
    let all: f64 = rows.iter().filter_map(|(_, count, _)| count.parse::<f64>().ok()).sum::<f64>().max(1.0);
    let row = |(kind, count, shown): &Fact| {
        let count = count.parse::<f64>().ok();
        let share = Cell::of(count.map(|count| count / all), percent);
        vec![Cell::text(kind), Cell { value: count, ..Cell::text(shown) }, share]
    };
    Table::new("What the image consists of", "kind|>bytes|>share", rows.iter().map(row))
}

/// A copy with or without SmartRead, with sparse output or not.
fn pick<'c>(cases: &[&'c Case], smart: bool, sparse: bool) -> Option<&'c Case> {
    let said = |yes: bool| if yes { "yes" } else { "no" };
    let name =
        format!("{} read, {} output", if smart { "smart" } else { "full" }, if sparse { "sparse" } else { "plain" });
    let alike = || copies::with(cases, &[("smart", said(smart)), ("sparse", said(sparse))]);
    copies::find(cases, &name).or_else(alike)
}

/// The smart copy by queues, or in older results the one that had them or not.
fn queued<'c>(cases: &[&'c Case]) -> Option<&'c Case> {
    copies::with(cases, &[("queued", "yes")]).or_else(|| pick(cases, true, true))
}

fn saved(name: &str, cases: &[&Case]) -> Option<String> {
    let (smart, full) = (pick(cases, true, true)?, pick(cases, false, false)?);
    let ratio = copies::ratio(Some(smart), Some(full), RETURNED)?;
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
    let case = queued(cases).or_else(|| pick(cases, false, false))?;
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
        let amounts = PHASES.map(|(figure, _)| reported(case, figure));
        let known = case.is_ranked() && amounts.iter().any(Option::is_some);
        known.then(|| (case.competitor.clone(), amounts.map(Option::unwrap_or_default).to_vec()))
    };
    let rows: Vec<(String, Vec<f64>)> = cases.iter().filter_map(row).collect();
    let title = format!("What the threads of a copy do, {name}: the sum may be more than its time");
    copies::parts(title, &PHASES.map(|(_, name)| name), rows)
}

fn bytes(name: &str, cases: &[&Case]) -> Option<Table> {
    let figures = ["bytes.read-skipped", "bytes.write-skipped", "bytes.zeros", "bytes.copied"];
    let row = |case: &&Case| {
        let values = figures.map(|figure| reported(case, figure));
        if !case.is_ranked() || values.iter().all(Option::is_none) {
            return None;
        }
        let whole = (case.bytes as f64).max(1.0);
        let say = |value: f64| format!("{} ({})", words::bytes(value.max(0.0) as u64), percent(value / whole));
        Some(std::iter::once(Cell::text(&case.competitor)).chain(values.map(|value| Cell::of(value, say))).collect())
    };
    let heads = "tool|>not read|>not written|>zeros found|>written";
    let table = Table::new(format!("Bytes, {name}"), heads, cases.iter().filter_map(row));
    table.noted("In brackets: of the image.").if_any()
}

fn published(cases: &[&Case]) -> Published {
    let (sparse, plain, full) = (pick(cases, true, true), pick(cases, true, false), pick(cases, false, false));
    let published = Source::of("sparse-image");
    let time = |of, base| copies::ratio(of, base, RETURNED);
    let written = |case: Option<&Case>| {
        let runs = case.into_iter().flat_map(|case| &case.runs);
        runs.filter_map(|run| run.reported.get("seconds.write").copied()).collect::<Vec<f64>>()
    };
    let writing = stats::ratio(&written(sparse), &written(plain));
    let user = copies::ratio(sparse, plain, |run| run.user);
    let mut claims = published.judged([time(plain, full), time(sparse, plain), writing, user]);
    claims.extend(published.claims.last().map(|said| -> Claim {
        let figures = |name: &str| {
            let runs = queued(cases).into_iter().flat_map(|case| &case.runs);
            // What is next to nothing is not many times as much as another nothing.
            runs.filter_map(|run| run.reported.get(name)).map(|time| time.max(NOTHING)).collect::<Vec<f64>>()
        };
        let (writer, reader) = (figures(WRITER_WAITS), figures(READER_WAITS));
        if !writer.is_empty() && writer.iter().chain(&reader).all(|time| *time <= NOTHING) {
            let here = "The copy needed no queues here, so nobody waited at one.".to_owned();
            return said.decided(Some(here), None);
        }
        said.judged("", stats::ratio(&writer, &reader))
    }));
    let table = table(&published, [sparse, plain, full]);
    published.with(table, claims)
}

/// Theirs and ours: seconds; bytes not read, and not written; seconds on reading, and on writing.
fn table(published: &Source, here: [Option<&Case>; 3]) -> Table {
    let line = |tool: &str, whose: &str, figures: &[Option<f64>], whole: f64| -> Vec<Cell> {
        let say = |place: usize, value: f64| match place {
            1 | 2 => percent(value / whole),
            _ => text::significant(value),
        };
        let figures = figures.iter().enumerate().map(|(place, figure)| Cell::of(*figure, |value| say(place, value)));
        [Cell::text(tool), Cell::text(whose)].into_iter().chain(figures).collect()
    };
    let pair = |((tool, theirs), case): (&(String, Vec<Option<f64>>), Option<&Case>)| {
        let figures = ["bytes.read-skipped", "bytes.write-skipped", "seconds.read", "seconds.write"];
        let mut ours = vec![case.and_then(|case| copies::median(case, RETURNED))];
        ours.extend(figures.map(|figure| case.and_then(|case| reported(case, figure))));
        let whole = case.map_or(1.0, |case| (case.bytes as f64).max(1.0));
        [line(tool, "2014", theirs, 8_589_934_592.0), line(tool, "here", &ours, whole)]
    };
    published.table(published.rows.iter().zip(here).flat_map(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::test_support::{case, results, section, timed};

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
                run.reported.insert("seconds.write".to_owned(), if *sparse { 5.0 } else { 24.0 });
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
        assert_eq!(
            verdicts(&measured(&all, Some((0.1, 2.0)))),
            [Some(true), Some(true), Some(true), Some(false), Some(true)]
        );
        assert_eq!(
            verdicts(&measured(&all, Some((2.0, 0.1)))),
            [Some(true), Some(true), Some(true), Some(false), Some(false)]
        );
        assert_eq!(
            verdicts(&measured(&all, Some((0.0, 0.0)))),
            [Some(true), Some(true), Some(true), Some(false), None]
        );
        assert_eq!(verdicts(&measured(&all[..2], None)), [None, Some(true), Some(true), Some(false), None]);
        let same = [(true, true, 1.0), (true, false, 1.0), (false, false, 1.0)];
        assert_eq!(verdicts(&measured(&same, None)), [None, None, Some(true), None, None]);
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
