//! Copies of disk images: what need not be read or written, and what a copy waits for.

use haul_measure::{stats, words};

use super::claims::{Source, beside};
use super::copies::{self, RETURNED, SYSTEM, reported};
use super::heading::begun;
use crate::report::text::{self, percent};
use crate::results::{Body, Case, Fact, Results, Run, Section};
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
/// Workers that are on a CPU for more of their time wait for nothing.
const BUSY: f64 = 0.9;
/// Of each queue: what is done there, who waited in 2014 and how long (smart read, sparse output), who waits here.
const QUEUES: [(&str, &str, f64, &str, &str); 4] = [
    ("read, enqueue", "who lists what to read, for the reader", 214.070, "reader, for room", READER_WAITS),
    ("read, dequeue", "reader, for something to read", 21.573, "scanner, for data", "seconds.read-dequeue"),
    ("write, enqueue", "reader, for room", 0.232, "scanner, for room", "seconds.write-enqueue"),
    ("write, dequeue", "writer, for data", 230.948, "writer, for data", WRITER_WAITS),
];
/// Of the time of parallel workers: reading, writing, looking for zeros, on a CPU.
const SHARES: [fn(&Case) -> Option<f64>; 4] = [
    |case| of_workers(case, |run| run.reported.get("seconds.read").copied()),
    |case| of_workers(case, |run| run.reported.get("seconds.write").copied()),
    |case| of_workers(case, |run| run.reported.get("seconds.scan").copied()),
    |case| of_workers(case, |run| Some(run.user + run.system)),
];

/// The median share of the time of parallel workers, at most 1. None where there were none.
fn of_workers(case: &Case, figure: fn(&Run) -> Option<f64>) -> Option<f64> {
    copies::median_of_some(case, |run| {
        let whole = run.reported.get("seconds.workers").copied().filter(|time| *time > 0.0)?;
        Some((figure(run)? / whole).min(1.0))
    })
}
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
        view.summary.extend(parallel(name, cases));
        view.summary.extend(bottleneck(name, cases));
    }
    if view.summary.is_empty() {
        view.summary.push("Smart and full copies of the image were not both measured.".to_owned());
    }
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(&groups));
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
    view.charts.extend(groups.iter().filter_map(|(name, cases)| phases(name, cases)));
    for (name, cases) in &groups {
        let tables = [bytes, workers, queues, terabyte].map(|table| table(name, cases));
        view.tables.extend(tables.into_iter().flatten());
    }
    copies::fill(&mut view, section);
    let first = groups.first().map(|(_, cases)| cases.as_slice()).unwrap_or_default();
    let asked = [(true, true), (true, false), (false, true), (false, false)];
    let asked = asked.into_iter().filter_map(|(smart, sparse)| pick(first, smart, sparse)).collect();
    view.picture = copies::bars(&[(groups.first().map_or("", |group| group.0), asked)]);
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
    copies::with(cases, &[("smart", said(smart)), ("sparse", said(sparse))])
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

/// The times on both queues, which those of 2014 were not about in the same way.
fn queues(name: &str, cases: &[&Case]) -> Option<Table> {
    let case = queued(cases)?;
    let row = |(queue, then, theirs, now, figure): (&str, &str, f64, &str, &str)| {
        let ours = Cell::seconds(reported(case, figure));
        vec![Cell::text(queue), Cell::text(then), Cell::seconds(Some(theirs)), Cell::text(now), ours]
    };
    let heads = "queue|who waited in 2014|>2014|who waits here|>here";
    let note = "In 2014 the read queue held what was still to be read, so filling it took as long as reading, and opening \
                (21.5 s) counts in both dequeues. Here it holds what was read, and the clocks run from the first byte on.";
    Some(Table::new(format!("Times on the queues, {name}"), heads, QUEUES.map(row)).noted(note))
}

/// What of the time of parallel workers went into which calls.
fn workers(name: &str, cases: &[&Case]) -> Option<Table> {
    let row = |case: &&Case| {
        let number = reported(case, "workers").filter(|number| *number > 0.0 && case.is_ranked())?;
        let shares = SHARES.map(|share| Cell::known(share(case), percent));
        Some([Cell::text(&case.competitor), Cell::count(number as usize)].into_iter().chain(shares).collect())
    };
    let heads = "tool|>workers|>reading|>writing|>zeros|>on a CPU";
    let note = "Shares of the number of workers times their time: in calls that read, in calls that write, looking for zeros. A \
                call takes its time whether it waits for a device or copies from or to the page cache; what is not on a CPU waits.";
    let title = format!("Where the time of parallel workers goes, {name}");
    Table::new(title, heads, cases.iter().filter_map(row)).noted(note).if_any()
}

/// Which calls take the time where there are no queues.
fn parallel(name: &str, cases: &[&Case]) -> Option<String> {
    let case = pick(cases, true, true)?;
    let [read, write, _, on_cpu] = SHARES.map(|share| share(case));
    let (read, write, on_cpu) = (read?, write?, on_cpu?);
    let verdict = match () {
        () if on_cpu > BUSY => "what they do there is copying in memory, and the processors are the bottleneck",
        () if read > write * CLEARLY => "the source is the bottleneck",
        () if write > read * CLEARLY => "the destination is the bottleneck",
        () => "neither side is clearly the bottleneck",
    };
    let [read, write, on_cpu] = [read, write, on_cpu].map(percent);
    Some(format!(
        "{name}: by parallel workers, {read} of their time goes into calls that read and {write} into calls that write, and \
         they are on a CPU for {on_cpu} of it: {verdict}."
    ))
}

fn phases(name: &str, cases: &[&Case]) -> Option<Chart> {
    let row = |case: &&Case| {
        let amounts = PHASES.map(|(figure, _)| reported(case, figure));
        let known = case.is_ranked() && amounts.iter().any(Option::is_some);
        known.then(|| (case.competitor.clone(), amounts.map(Option::unwrap_or_default).to_vec()))
    };
    let rows: Vec<(String, Vec<f64>)> = cases.iter().filter_map(row).collect();
    let title = format!("What the threads of a copy do, {name}: the sum may be more than its time");
    copies::parts(title, "time of all threads together", &PHASES.map(|(_, name)| name), rows)
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
    let heads = "tool|>read skipped|>write skipped|>zeros found|>copied";
    let table = Table::new(format!("Bytes, {name}"), heads, cases.iter().filter_map(row));
    table.noted("In brackets: of the image.").if_any()
}

/// The sum that was published for 1 TB, and the same with the figures of this place.
fn terabyte(name: &str, cases: &[&Case]) -> Option<Table> {
    const TERABYTE: f64 = 1e12;
    /// Bytes a second.
    const PUBLISHED: f64 = 100e6;
    let (smart, full) = (pick(cases, true, true)?, pick(cases, false, false)?);
    let skipped = TERABYTE * of_image(smart, "bytes.read-skipped")? / 100.0;
    let time = |case: &Case| copies::median(case, RETURNED).map(|time| time / (case.bytes as f64).max(1.0) * TERABYTE);
    let (took, takes) = (time(full)?, time(smart)?);
    let row = |(sum, skipped, full, saved): (&str, f64, f64, f64)| {
        let figures = [skipped / 1e9, TERABYTE / full / 1e6, full / 60.0, saved / 60.0];
        std::iter::once(Cell::text(sum))
            .chain(figures.map(|value| Cell::figure(value, text::significant(value))))
            .collect()
    };
    let rows = [
        ("2014", 250e9, TERABYTE / PUBLISHED, 250e9 / PUBLISHED),
        ("here, at the rate of 2014", skipped, TERABYTE / PUBLISHED, skipped / PUBLISHED),
        ("here, at the rates of these copies", skipped, took, took - takes),
    ];
    let note = "Assumed: 1 TB (10^12 bytes) of images with this one's shares of free space and zeros, whose copies take time in \
                proportion to their bytes. The first two rows count nothing but reading; the third takes the medians of the full copy \
                and of smart read with sparse output. For 2014 a quarter of the bytes was taken, as a quarter of the time was saved \
                (27.8 % were not read), and 42 minutes were called 40.";
    let heads = "sum|>not read, GB|>full copy, MB/s|>full copy, min|>saved, min";
    Some(Table::new(format!("1 TB of such images: {name}"), heads, rows.map(row)).noted(note))
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

/// The figures of the rows that were published.
const FIGURES: [fn(&Case) -> Option<f64>; 11] = [
    |case| copies::median(case, RETURNED),
    |case| copies::median(case, |run| run.user),
    |case| copies::median(case, SYSTEM),
    |case| reported(case, "seconds.open"),
    |case| reported(case, "seconds.read"),
    |case| reported(case, "seconds.scan"),
    |case| reported(case, "seconds.write"),
    |case| of_image(case, "bytes.read-skipped"),
    |case| of_image(case, "bytes.write-skipped"),
    |case| of_image(case, "bytes.zeros"),
    |case| of_image(case, "bytes.copied"),
];

/// Percent of the image.
fn of_image(case: &Case, bytes: &str) -> Option<f64> {
    reported(case, bytes).map(|bytes| bytes / (case.bytes as f64).max(1.0) * 100.0)
}

/// Theirs and ours.
fn table(published: &Source, here: [Option<&Case>; 3]) -> Table {
    let rows = published.rows.iter().zip(FIGURES).map(|((name, theirs), figure)| {
        let ours = here.map(|case| case.and_then(figure));
        std::iter::once(Cell::text(name)).chain(beside(theirs, ours)).collect()
    });
    published
        .table(rows)
        .noted("Percentages are of the image. Here times on reading, zeros and writing are sums over all threads.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::test_support::{case, results, section, timed};

    fn measured(set: &[(bool, bool, f64)], waits: Option<(f64, f64)>) -> View {
        let waits = waits.map(|(reader, writer)| [(READER_WAITS, reader), (WRITER_WAITS, writer)]);
        reporting(set, waits.as_ref().map_or(&[], |waits| waits))
    }

    fn reporting(set: &[(bool, bool, f64)], figures: &[(&str, f64)]) -> View {
        let mut section = section("sparse-image");
        for (smart, sparse, seconds) in set {
            let mut case = case("image of 8 GiB", "haul", 8 << 30, &timed(*seconds));
            for (name, yes) in [("smart", smart), ("sparse", sparse)] {
                case.parameters.insert(name.to_owned(), if *yes { "yes" } else { "no" }.to_owned());
            }
            for run in &mut case.runs {
                run.reported.insert("seconds.write".to_owned(), if *sparse { 5.0 } else { 24.0 });
                run.reported.insert("bytes.read-skipped".to_owned(), f64::from(1 << 30) * 2.0);
                run.reported.extend(figures.iter().map(|(name, value)| ((*name).to_owned(), *value)));
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
    fn who_waits_shows_the_bottleneck() {
        let of = |waits| measured(&[(true, true, 1.0)], Some(waits)).summary.join(" ");
        assert!(of((0.1, 2.0)).contains("the source is the bottleneck"));
        assert!(of((2.0, 0.1)).contains("the destination is the bottleneck"));
        assert!(of((1.0, 1.5)).contains("neither side is clearly"));
        assert!(of((0.0, 0.0)).contains("nobody waited at a queue"));
    }

    #[test]
    fn shares_of_the_time_of_workers_tell_the_bottleneck_without_queues() {
        // Runs of 1 s have 0.6 s of CPU time.
        let of = |workers, read, write| {
            let figures =
                [("workers", 2.0), ("seconds.workers", workers), ("seconds.read", read), ("seconds.write", write)];
            reporting(&[(true, true, 1.0)], &figures)
        };
        let said = |workers, read, write| of(workers, read, write).summary.join(" ");
        assert!(
            said(2.0, 1.5, 0.3).contains("75 % of their time goes into calls that read and 15 % into calls that write")
        );
        assert!(said(2.0, 1.5, 0.3).contains("for 30 % of it: the source is the bottleneck"));
        assert!(said(2.0, 0.3, 1.5).contains("the destination is the bottleneck"));
        assert!(said(2.0, 0.9, 0.9).contains("neither side is clearly"));
        assert!(said(0.61, 0.5, 0.1).contains("the processors are the bottleneck"));
        assert!(!measured(&[(true, true, 1.0)], None).summary.join(" ").contains("workers"));
        let table =
            of(2.0, 1.5, 0.3).tables.into_iter().find(|table| table.title.starts_with("Where the time of parallel"));
        let cells: Vec<String> = table.unwrap().rows.remove(0).into_iter().map(|cell| cell.text).collect();
        assert_eq!(cells, ["haul", "2", "75 %", "15 %", "-", "30 %"]);
    }

    #[test]
    fn every_published_figure_has_one_of_this_place_behind_it() {
        let all = [(true, true, 1.0), (true, false, 1.5), (false, false, 2.0)];
        let figures = ["open", "read", "scan"].map(|name| (format!("seconds.{name}"), 3.0));
        let bytes = ["write-skipped", "zeros", "copied"].map(|name| (format!("bytes.{name}"), f64::from(1 << 30)));
        let figures: Vec<(&str, f64)> = figures.iter().chain(&bytes).map(|(name, value)| (&**name, *value)).collect();
        let table = reporting(&all, &figures).published.unwrap().table;
        let published = Source::of("sparse-image").rows;
        assert_eq!((table.rows.len(), FIGURES.len()), (published.len(), published.len()));
        for (row, (name, theirs)) in table.rows.iter().zip(&published) {
            assert_eq!((row[0].text.as_str(), row.len()), (&**name, 1 + 2 * theirs.len()));
            let [then, here]: [Vec<_>; 2] =
                [1, 2].map(|from| row.iter().skip(from).step_by(2).map(|cell| cell.value).collect());
            assert_eq!(&then, theirs);
            assert!(here.iter().all(Option::is_some), "{name}: {here:?}");
        }
        let row = |name: &str| table.rows.iter().find(|row| row[0].text.starts_with(name)).unwrap();
        assert_eq!((row("real")[6].value, row("not read")[2].value), (Some(2.0), Some(25.0)));
    }

    #[test]
    fn the_sum_for_a_terabyte_scales_bytes_and_times_of_the_image() {
        let view = measured(&[(true, true, 1.0), (false, false, 2.0)], None);
        let table = view.tables.iter().find(|table| table.title.starts_with("1 TB")).unwrap();
        let figures =
            |row: usize| -> Vec<String> { table.rows[row][1..].iter().map(|cell| cell.text.clone()).collect() };
        assert_eq!(figures(0), ["250", "100", "167", "41.7"]);
        assert_eq!(figures(1), ["250", "100", "167", "41.7"]);
        assert_eq!(figures(2), ["250", "4295", "3.88", "1.94"]);
        assert!(table.note.as_ref().is_some_and(|note| note.starts_with("Assumed: ")));
    }

    #[test]
    fn times_on_the_queues_stand_beside_those_of_2014() {
        let view = measured(&[(true, true, 1.0)], Some((0.5, 2.0)));
        let table = view.tables.iter().find(|table| table.title.starts_with("Times on the queues")).unwrap();
        let values = |column: usize| table.rows.iter().map(move |row| row[column].value);
        assert_eq!(values(2).collect::<Vec<_>>(), [214.07, 21.573, 0.232, 230.948].map(Some));
        assert_eq!(values(4).collect::<Vec<_>>(), [Some(0.5), None, None, Some(2.0)]);
    }
}
