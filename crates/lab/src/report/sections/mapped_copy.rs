//! Copies through a mapping against copies with big buffers.

use haul_measure::words;

use super::claims::{Source, beside};
use super::copies::{self, Figure, RETURNED, SYSTEM};
use super::heading::begun;
use crate::report::text::{self, Unit};
use crate::results::{Case, Results, Run, Section};
use crate::view::{Cell, Chart, Published, Table, View};

/// The segment and the buffer of the published copies.
const BUFFER: &str = "8388608";
/// Two counts of faults that differ by less are called the same.
const SAME_FAULTS: f64 = 1.1;
/// The copy goes past the page cache, and what is read of the source comes from it.
const OUTPUT: &str = "direct output";
// The source is mapped with MAP_PRIVATE; or another process reads it meanwhile.
const PRIVATE: &str = "private mapping";
const BESIDE: &str = "beside a reader";
/// What counts as the large file of the published copies.
const LARGE: u64 = 4_000_000_000;
const MIB: f64 = (1 << 20) as f64;

pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "Is a copy from a mapping of the source slower than one through a buffer of the same size, through the page cache \
         and past it? Why does a mapped copy need more kernel time through the cache? And does a shared mapping serve others who \
         read the file?",
    );
    let groups = section.groups();
    for (name, cases) in &groups {
        view.summary.extend(against(name, cases, ("mapped", "buffered"), ("read-write", "buffered")));
    }
    if view.summary.is_empty() {
        view.summary.push("The mapped copy and the one with buffers were not both measured.".to_owned());
    }
    let chosen = chosen(&groups);
    if let Some((name, cases)) = chosen {
        view.summary.extend(open_question(name, cases));
        let changes = [("mapped", PRIVATE), ("mapped", BESIDE), ("read-write", BESIDE)];
        view.summary.extend(changes.iter().filter_map(|one| against(name, cases, *one, (one.0, "buffered"))));
    }
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(&groups));
    view.charts.extend(processor_time(&groups));
    copies::fill(&mut view, section);
    if let Some((name, cases)) = chosen {
        view.tables.extend(counts(name, cases));
        view.picture = copies::bars(&[(*name, picked(cases, &WAYS[..4]))]);
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
    // Until version 0.1 a mapped copy past the cache was called direct.
    let names = if io == OUTPUT { &[OUTPUT, "direct"][..] } else { &[io] };
    names.iter().find_map(|io| {
        let wanted = [("engine", engine), ("io", *io), ("buffer", BUFFER)];
        copies::with(cases, &wanted).or_else(|| copies::with(cases, &wanted[..2]))
    })
}

/// A copy by its engine and how its bytes go.
type Way = (&'static str, &'static str);

/// What the questions are about; the first of them through the page cache and past it, with the mapping and with buffers.
const WAYS: [Way; 7] = [
    ("mapped", "buffered"),
    ("mapped", OUTPUT),
    ("read-write", "buffered"),
    ("read-write", OUTPUT),
    ("mapped", PRIVATE),
    ("mapped", BESIDE),
    ("read-write", BESIDE),
];

fn picked<'c>(cases: &[&'c Case], ways: &[Way]) -> Vec<&'c Case> {
    ways.iter().filter_map(|(engine, io)| pick(cases, engine, io)).collect()
}

fn against(name: &str, cases: &[&Case], of: Way, base: Way) -> Option<String> {
    let (of, base) = (pick(cases, of.0, of.1)?, pick(cases, base.0, base.1)?);
    let ratio = copies::ratio(Some(of), Some(base), RETURNED)?;
    Some(format!(
        "{name}: {} {} {}; it takes {}.",
        of.competitor,
        text::verdict(&ratio),
        base.competitor,
        text::times_as(&ratio, "as long")
    ))
}

fn faults(run: &Run) -> f64 {
    (run.minor_faults + run.major_faults) as f64
}

/// What the counts say of the question that the author left open.
fn open_question(name: &str, cases: &[&Case]) -> Option<String> {
    let (through, past) = (pick(cases, "mapped", "buffered")?, pick(cases, "mapped", OUTPUT)?);
    let ratio = copies::ratio(Some(through), Some(past), SYSTEM).filter(|ratio| ratio.interval.is_some())?;
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
        let (through, past) = (pick(cases, engine, "buffered")?, pick(cases, engine, OUTPUT)?);
        let more = copies::median(through, SYSTEM)? - copies::median(past, SYSTEM)?;
        (through.bytes > 0).then(|| more / (through.bytes as f64 / MIB) * 1e6)
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
        let amounts = vec![copies::median(case, |run| run.user)?, copies::median(case, SYSTEM)?];
        Some((case.competitor.clone(), amounts))
    };
    let rows: Vec<(String, Vec<f64>)> = cases.iter().filter_map(row).collect();
    copies::parts(format!("CPU time, {name}"), "CPU time", &["user", "sys"], rows)
}

/// Kernel time with the counts that may explain it.
fn counts(name: &str, cases: &[&Case]) -> Option<Table> {
    let found = picked(cases, &WAYS);
    if found.len() < 2 {
        return None;
    }
    let unit = Unit::of(found.iter().filter_map(|case| copies::median(case, SYSTEM)));
    let row = |case: &&Case| {
        let mib = (case.bytes as f64 / MIB).max(f64::MIN_POSITIVE);
        let per_mib = |value: Option<f64>, factor: f64| Cell::of(value.map(|value| value / mib * factor), words::short);
        let kernel = copies::median(case, SYSTEM);
        vec![
            Cell::text(&case.competitor),
            Cell::time(kernel, &unit),
            per_mib(kernel, 1e6),
            per_mib(copies::median(case, faults), 1.0),
            per_mib(copies::median(case, |run| run.major_faults as f64), 1.0),
            per_mib(copies::median_of_some(case, |run| run.device_written.map(|bytes| bytes as f64)), 1.0 / MIB),
        ]
    };
    let heads = format!(
        "tool|>sys, {}|>sys, us per MiB|>page faults per MiB|>major faults per MiB|>device written, MiB per MiB",
        unit.name
    );
    let table = Table::new(format!("System time and what goes with it, {name}"), &heads, found.iter().map(row));
    Some(table.noted(
        "A page of 4 KiB is a fault at most; the kernel maps pages around each fault, so there are fewer. With direct \
         output the pages of the mapping go to the device as they are.",
    ))
}

fn published(cases: &[&Case]) -> Published {
    let (mapped, buffers) = (pick(cases, "mapped", "buffered"), pick(cases, "read-write", "buffered"));
    let past = pick(cases, "mapped", OUTPUT);
    // Published of 1000 MB, and of 8 GB on another machine.
    let large = mapped.is_some_and(|case| case.bytes >= LARGE);
    let kernel = copies::ratio(mapped, buffers, SYSTEM);
    let published = Source::of("mapped-copy");
    let claims = published.judged([
        copies::ratio(mapped, buffers, RETURNED),
        kernel.filter(|_| !large),
        kernel.filter(|_| large),
        copies::ratio(mapped, past, SYSTEM),
    ]);
    let row = |((tool, theirs), here): (&(String, Vec<Option<f64>>), Option<&Case>)| {
        let figures: [Figure; 3] = [RETURNED, |run| run.user, SYSTEM];
        let ours = figures.map(|figure| copies::median(here?, figure));
        std::iter::once(Cell::text(tool)).chain(beside(theirs, ours)).collect()
    };
    let mut table = published.table(published.rows.iter().zip([mapped, buffers, past, None, None]).map(row));
    table.note = mapped.or(buffers).or(past).map(|case| format!("Here: {}, {}.", case.group, words::bytes(case.bytes)));
    published.with(table, claims)
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::test_support::{case, results, section, timed};

    fn measured(set: &[(&str, &str, f64, u64)]) -> View {
        measured_of(1_048_576_000, set)
    }

    fn measured_of(bytes: u64, set: &[(&str, &str, f64, u64)]) -> View {
        let mut section = section("mapped-copy");
        for (engine, io, seconds, faults) in set {
            let mut case = case("1000 MB, cold", &format!("{engine} 8 MiB, {io}"), bytes, &timed(*seconds));
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
        assert_eq!(verdicts(&measured(&both)), [Some(true), Some(false), None, None]);
        let direct = [both[0], both[1], ("mapped", "direct", 0.8, 900)];
        assert_eq!(verdicts(&measured(&direct)), [Some(true), Some(false), None, Some(true)]);
        let same = [("mapped", "buffered", 1.0, 900), ("read-write", "buffered", 1.0, 10)];
        assert_eq!(verdicts(&measured(&same)), [None, Some(true), None, None]);
        // What was published of 8 GB is judged by a file of that size alone.
        assert_eq!(verdicts(&measured_of(8 << 30, &both)), [Some(true), None, Some(false), None]);
    }

    #[test]
    fn a_private_mapping_and_a_reader_are_compared_with_the_copy_that_lacks_them_alone() {
        let set = [
            ("mapped", "private mapping", 1.0, 9),
            ("mapped", "beside a reader", 2.0, 9),
            ("read-write", "beside a reader", 3.0, 9),
            ("mapped", "buffered", 1.0, 9),
            ("read-write", "buffered", 2.0, 9),
        ];
        let summary = measured(&set).summary.join("\n");
        for said in [
            "mapped 8 MiB, private mapping shows no significant difference to mapped 8 MiB, buffered; it takes 1.00",
            "mapped 8 MiB, beside a reader is slower than mapped 8 MiB, buffered; it takes 2.00",
            "read-write 8 MiB, beside a reader is slower than read-write 8 MiB, buffered; it takes 1.50",
        ] {
            assert!(summary.contains(said), "{summary}");
        }
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
