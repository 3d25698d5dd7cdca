//! Copies through a mapping against copies with big buffers.

use haul_measure::stats::{self, Ratio};
use haul_measure::words;

use super::claims::{Direction, claim};
use super::copies;
use super::heading::begun;
use crate::report::text::{self, Unit};
use crate::results::{Case, Results, Run, Section};
use crate::view::{Cell, Chart, Column, Published, Table, View};

/// The segment and the buffer of the published copies.
const BUFFER: u64 = 8 << 20;
/// Two counts of faults that differ by less are called the same.
const SAME_FAULTS: f64 = 1.1;

/// The section as it is shown.
pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "Is a copy from a mapping of the source slower than one through a buffer of the same size, through the page cache \
         and past it? And why does a mapped copy need more kernel time through the cache?",
    );
    let groups = copies::groups(section);
    for (name, cases) in &groups {
        view.summary.extend(against_buffers(name, cases));
    }
    if view.summary.is_empty() {
        view.summary.push("The mapped copy and the one with buffers were not both measured.".to_owned());
    }
    let chosen = chosen(&groups);
    if let Some((name, cases)) = chosen {
        view.summary.extend(open_question(name, cases));
    }
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(section, "Time until the copier returned"));
    view.charts.extend(processor_time(&groups));
    copies::fill(&mut view, section);
    if let Some((name, cases)) = chosen {
        view.tables.extend(counts(name, cases));
    }
    view.published = Some(published(chosen.map(|(_, cases)| cases.as_slice()).unwrap_or_default()));
    view
}

/// The group that is compared with published figures: cold if there is one, and the largest file.
fn chosen<'g, 'c>(groups: &'g [(&'c str, Vec<&'c Case>)]) -> Option<&'g (&'c str, Vec<&'c Case>)> {
    let weight = |cases: &[&Case]| {
        let case = cases.first()?;
        Some((case.parameters.get("state").is_some_and(|state| state == "cold"), case.bytes))
    };
    groups.iter().max_by_key(|(_, cases)| weight(cases))
}

/// The copy by this engine, buffered or direct, with segments of 8 MiB if there is one.
fn pick<'c>(cases: &[&'c Case], engine: &str, io: &str) -> Option<&'c Case> {
    let is = |case: &Case, name: &str, value: &str| case.parameters.get(name).is_some_and(|known| known == value);
    let usual = BUFFER.to_string();
    let found =
        || cases.iter().copied().filter(|case| case.is_ranked() && is(case, "engine", engine) && is(case, "io", io));
    found().find(|case| is(case, "buffer", &usual)).or_else(|| found().next())
}

/// The answer for one group.
fn against_buffers(name: &str, cases: &[&Case]) -> Option<String> {
    let (mapped, buffered) = (pick(cases, "mapped", "buffered")?, pick(cases, "read-write", "buffered")?);
    let ratio = copies::ratio(Some(mapped), Some(buffered), copies::returned)?;
    let verdict = match ratio.side(1.0) {
        Some(std::cmp::Ordering::Less) => "is quicker than",
        Some(_) => "is slower than",
        None => "shows no significant difference to",
    };
    Some(format!(
        "{name}: {} {verdict} {}; it takes {}.",
        mapped.competitor,
        buffered.competitor,
        text::times_as(&ratio, "as long")
    ))
}

fn faults(run: &Run) -> f64 {
    (run.minor_faults + run.major_faults) as f64
}

/// What the counts say of the question that the author left open.
fn open_question(name: &str, cases: &[&Case]) -> Option<String> {
    let (through, past) = (pick(cases, "mapped", "buffered")?, pick(cases, "mapped", "direct")?);
    let ratio = copies::ratio(Some(through), Some(past), copies::system)?;
    let (here, there) = (copies::median(through, faults)?, copies::median(past, faults)?);
    let found = text::times_as(&ratio, "as much");
    let begun = format!("The question left open ({name}):");
    let faults = match here.total_cmp(&there) {
        _ if here.max(there) <= here.min(there) * SAME_FAULTS => {
            format!("Both take about the same page faults ({here:.0} and {there:.0})")
        }
        std::cmp::Ordering::Less => format!("Through the cache it takes fewer page faults ({here:.0} and {there:.0})"),
        _ => format!("Through the cache it takes more page faults ({here:.0} and {there:.0})"),
    };
    let more_faults = here > there * SAME_FAULTS;
    Some(match ratio.side(1.0) {
        Some(std::cmp::Ordering::Greater) => {
            let why = match more_faults {
                false => {
                    ", so it is not the mapping that makes the difference: it is what writing through the cache does \
                     besides, a copy of every byte into pages that must be had, marked and written back."
                }
                true => {
                    ", so the mapping itself is a part of the difference, beside the copy of every byte into the page cache."
                }
            };
            let price = price(cases).unwrap_or_default();
            format!(
                "{begun} here, too, the mapped copy needs more kernel time through the page cache than past it, {found}. \
                 {faults}{why}{price}"
            )
        }
        Some(_) => format!(
            "{begun} here the mapped copy needs less kernel time through the page cache than past it, {found}. {faults}."
        ),
        None => format!(
            "{begun} there is no significant difference here between kernel time through the page cache and past it, {found}. {faults}."
        ),
    })
}

/// The same difference for copies that map nothing: what the cache costs, without the mapping.
fn price(cases: &[&Case]) -> Option<String> {
    let per_mib = |engine: &str| {
        let (through, past) = (pick(cases, engine, "buffered")?, pick(cases, engine, "direct")?);
        let more = copies::median(through, copies::system)? - copies::median(past, copies::system)?;
        (through.bytes > 0).then(|| more / (through.bytes as f64 / f64::from(1 << 20)) * 1e6)
    };
    let (mapped, buffered) = (per_mib("mapped")?, per_mib("read-write")?);
    Some(format!(
        " For each MiB the cache costs the mapped copy {} us of kernel time, and the copy with buffers {} us.",
        words::short(mapped),
        words::short(buffered)
    ))
}

/// User and kernel time of each copy.
fn processor_time(groups: &[(&str, Vec<&Case>)]) -> Option<Chart> {
    let (name, cases) = chosen(groups)?;
    let row = |case: &&Case| {
        case.is_ranked().then_some(())?;
        let amounts = vec![copies::median(case, |run| run.user)?, copies::median(case, copies::system)?];
        Some((case.competitor.clone(), amounts))
    };
    let rows: Vec<(String, Vec<f64>)> = cases.iter().filter_map(row).collect();
    copies::parts(format!("CPU time, {name}"), &["in the program", "in the kernel"], rows)
}

/// Kernel time with the counts that may explain it.
fn counts(name: &str, cases: &[&Case]) -> Option<Table> {
    let ways = [("mapped", "buffered"), ("mapped", "direct"), ("read-write", "buffered"), ("read-write", "direct")];
    let found: Vec<&Case> = ways.into_iter().filter_map(|(engine, io)| pick(cases, engine, io)).collect();
    if found.len() < 2 {
        return None;
    }
    let unit = Unit::of(found.iter().filter_map(|case| copies::median(case, copies::system)));
    let row = |case: &&Case| {
        let mib = (case.bytes as f64 / f64::from(1 << 20)).max(f64::MIN_POSITIVE);
        let per_mib = |value: Option<f64>, factor: f64| match value {
            Some(value) => Cell::figure(value / mib * factor, words::short(value / mib * factor)),
            None => Cell::text("-"),
        };
        let kernel = copies::median(case, copies::system);
        vec![
            Cell::text(&case.competitor),
            kernel.map_or_else(|| Cell::text("-"), |time| Cell::figure(unit.scaled(time), unit.say(time))),
            per_mib(kernel, 1e6),
            per_mib(copies::median(case, faults), 1.0),
            per_mib(copies::median(case, |run| run.major_faults as f64), 1.0),
            per_mib(
                copies::median_of_some(case, |run| run.device_written.map(|bytes| bytes as f64)),
                1.0 / f64::from(1 << 20),
            ),
        ]
    };
    let heads = [
        format!("kernel, {}", unit.name),
        "kernel, us per MiB".to_owned(),
        "faults per MiB".to_owned(),
        "of them reading".to_owned(),
        "device written, MiB per MiB".to_owned(),
    ];
    let mut columns = vec![Column::words("tool")];
    columns.extend(heads.map(Column::figures));
    Some(Table {
        title: format!("Kernel time and what goes with it, {name}"),
        columns,
        rows: found.iter().map(row).collect(),
        note: Some(
            "A page of 4 KiB is a fault at most; the kernel maps pages around each fault, so there are fewer. With direct \
             output the pages of the mapping go to the device as they are."
                .to_owned(),
        ),
    })
}

fn published(cases: &[&Case]) -> Published {
    let (mapped, buffers) = (pick(cases, "mapped", "buffered"), pick(cases, "read-write", "buffered"));
    let past = pick(cases, "mapped", "direct");
    let kernel = |of, base| copies::ratio(of, base, copies::system);
    let found: [Option<Ratio>; 3] =
        [copies::ratio(mapped, buffers, copies::returned), kernel(mapped, buffers), kernel(mapped, past)];
    let [time, between, cache] = &found;
    Published {
        by: "Solaris, UFS on one disk, 2007, rebooted before every copy: the system's cp, which maps 8 MiB at a time, \
             against GNU cp with buffers of 8 MiB; a file of 1000 MB, and one of 8 GB on another machine."
            .to_owned(),
        table: table(mapped, buffers, past),
        claims: vec![
            claim(
                "The mapped copy is slower than the one with big buffers (137.5 s against 116.2 s)",
                "The mapped copy takes",
                "as long",
                time.as_ref(),
                Direction::Over(1.0),
            ),
            claim(
                "Of a large file, it needs less time in the kernel (152.6 s against 184.5 s)",
                "The mapped copy needs",
                "as much kernel time",
                between.as_ref(),
                Direction::Under(1.0),
            ),
            claim(
                "Through the page cache it needs more time in the kernel than past it (14.4 s against 10.9 s)",
                "Through the page cache it needs",
                "as much kernel time",
                cache.as_ref(),
                Direction::Over(1.0),
            ),
        ],
    }
}

/// Theirs: tool; real, user and kernel seconds.
type Theirs = (&'static str, Option<f64>, Option<f64>, f64);

const FIGURES: [Theirs; 5] = [
    ("mapped, normal mount, 1000 MB", Some(137.504), Some(0.002), 14.363),
    ("buffers of 8 MiB, normal mount, 1000 MB", Some(116.217), Some(0.003), 14.264),
    ("mapped, direct mount, 1000 MB", None, None, 10.853),
    ("mapped, normal mount, 8 GB", Some(437.41), Some(0.18), 152.55),
    ("buffers of 8 MiB, normal mount, 8 GB", Some(289.59), Some(0.02), 184.5),
];

fn table(mapped: Option<&Case>, buffers: Option<&Case>, past: Option<&Case>) -> Table {
    let theirs =
        |value: Option<f64>| value.map_or_else(|| Cell::text("-"), |value| Cell::figure(value, value.to_string()));
    let ours = |case: Option<&Case>, figure: copies::Figure| match case
        .and_then(|case| stats::spread(&case.figures(figure)))
    {
        Some(spread) => Cell::figure(spread.median, text::significant(spread.median)),
        None => Cell::text("-"),
    };
    let here = [mapped, buffers, past, None, None];
    let row = |((tool, real, user, kernel), here): (Theirs, Option<&Case>)| {
        vec![
            Cell::text(tool),
            theirs(real),
            ours(here, copies::returned),
            theirs(user),
            ours(here, |run| run.user),
            theirs(Some(kernel)),
            ours(here, copies::system),
        ]
    };
    let mut columns = vec![Column::words("tool")];
    columns.extend(["real, s", "here", "user, s", "here", "kernel, s", "here"].map(Column::figures));
    let size = mapped.or(buffers).or(past).map(|case| format!("Here: {}, {}.", case.group, words::bytes(case.bytes)));
    Table {
        title: "2007, and here".to_owned(),
        columns,
        rows: FIGURES.into_iter().zip(here).map(row).collect(),
        note: size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::fixtures::{case, results, section, timed};

    fn measured(set: &[(&str, &str, f64, u64)]) -> View {
        let mut section = section("mapped-copy");
        for (engine, io, seconds, faults) in set {
            let mut case = case("1000 MB, cold", &format!("{engine} 8 MiB, {io}"), 1_048_576_000, &timed(*seconds));
            for (name, value) in [("engine", *engine), ("io", *io), ("buffer", "8388608"), ("state", "cold")] {
                case.parameters.insert(name.to_owned(), value.to_owned());
            }
            for run in &mut case.runs {
                run.minor_faults = *faults;
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
    fn the_published_direction_is_judged_by_intervals() {
        let both = [("mapped", "buffered", 1.2, 900), ("read-write", "buffered", 1.0, 10)];
        assert_eq!(verdicts(&measured(&both)), [Some(true), Some(false), None]);
        let direct = [both[0], both[1], ("mapped", "direct", 0.8, 900)];
        assert_eq!(verdicts(&measured(&direct)), [Some(true), Some(false), Some(true)]);
        let same = [("mapped", "buffered", 1.0, 900), ("read-write", "buffered", 1.0, 10)];
        assert_eq!(verdicts(&measured(&same)), [None, None, None]);
    }

    #[test]
    fn faults_accuse_the_mapping_only_where_there_are_more_of_them() {
        let with = |faults| {
            let set = [("mapped", "buffered", 1.2, 900), ("mapped", "direct", 0.8, faults)];
            measured(&set).summary.into_iter().find(|words| words.contains("question left open")).unwrap()
        };
        assert!(with(910).contains("it is not the mapping"), "{}", with(910));
        assert!(
            with(9000).contains("fewer page faults") && with(9000).contains("it is not the mapping"),
            "{}",
            with(9000)
        );
        assert!(with(90).contains("the mapping itself is a part"), "{}", with(90));
    }
}
