//! copy_file_range against cp.

use haul_measure::stats::{self, Ratio};
use haul_measure::words;

use super::claims::{Direction, claim};
use super::copies;
use super::heading::begun;
use crate::report::text::{self, times_as};
use crate::results::{Case, Results, Section};
use crate::view::{Cell, Column, Published, Table, View};

/// Megabytes, and of cp and the system call: seconds in the kernel, percent of a processor, seconds in all.
const PUBLISHED: [(u64, [f64; 3], [f64; 3]); 4] = [
    (512, [0.32, 73.0, 0.446], [0.33, 77.0, 0.422]),
    (1024, [0.52, 69.0, 0.757], [0.49, 62.0, 0.777]),
    (1536, [1.04, 62.0, 1.197], [0.76, 60.0, 1.267]),
    (2048, [1.04, 62.0, 1.667], [0.99, 59.0, 1.655]),
];
/// How far times may lie apart that were published as hardly different: theirs do by 6 %.
const HARDLY: f64 = 0.1;

/// The section as it is shown.
pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "Does copy_file_range take less time than cp, or less of the processor? It copies once in the kernel where read \
         and write copy twice.",
    );
    let time = pooled(section, copies::returned);
    let kernel = pooled(section, copies::processor);
    view.summary.push(answer(time.as_ref(), kernel.as_ref()));
    view.summary.push(below(results, section));
    view.summary.extend(not_copied(section));
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(section, "Time until the copier returned"));
    copies::fill(&mut view, section);
    view.published = Some(published(section, time.as_ref(), pooled(section, copies::system).as_ref()));
    view
}

/// The system call against cp over all sizes.
fn pooled(section: &Section, figure: copies::Figure) -> Option<Ratio> {
    let pair = |(_, cases): (&str, Vec<&Case>)| {
        let (of, base) = (copies::find(&cases, "copy-range")?, copies::find(&cases, "cp")?);
        Some((of.figures(figure), base.figures(figure)))
    };
    stats::pooled(&copies::groups(section).into_iter().filter_map(pair).collect::<Vec<_>>())
}

fn answer(time: Option<&Ratio>, processor: Option<&Ratio>) -> String {
    let (Some(time), Some(processor)) = (time, processor) else {
        return "copy_file_range and cp were not both measured, so they cannot be compared.".to_owned();
    };
    let verdict = match time.side(1.0) {
        Some(std::cmp::Ordering::Less) => "is quicker than cp",
        Some(_) => "is slower than cp",
        None => "shows no significant difference to cp",
    };
    format!(
        "copy_file_range {verdict}: over all sizes it takes {}, and {}.",
        times_as(time, "as long"),
        times_as(processor, "as much CPU time")
    )
}

/// What a reviewer of 2015 asked.
fn below(results: &Results, section: &Section) -> String {
    match results.environment.places.get(&section.place) {
        Some(place) => {
            format!(
                "The filesystem below is {} on {}, mounted {}.",
                place.filesystem, place.source, place.mount_options
            )
        }
        None => "Which filesystem was below is not in the results.".to_owned(),
    }
}

/// Where the system call shared blocks, nothing was copied, and the comparison says something else.
fn not_copied(section: &Section) -> Option<String> {
    let shared = |case: &&Case| {
        let reported = |run: &crate::results::Run| run.reported.get("bytes.shared").copied();
        copies::median_of_some(case, reported).is_some_and(|bytes| bytes * 2.0 > case.bytes as f64 && case.bytes > 0)
    };
    let mut names: Vec<String> = section
        .cases
        .iter()
        .filter(|case| case.is_ranked())
        .filter(shared)
        .map(|case| case.competitor.clone())
        .collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{} shared the blocks of the source here and moved no bytes: that is a clone, and no copy inside the kernel.",
            words::list(&names)
        )
    })
}

fn published(section: &Section, time: Option<&Ratio>, kernel: Option<&Ratio>) -> Published {
    let range = "copy-range takes";
    Published {
        by: "Patches for copy_file_range, Linux 2015; files of random data, averages; the filesystem was not said. A \
             reviewer expected half the CPU time, since there is one copy and not two."
            .to_owned(),
        table: table(section),
        claims: vec![
            claim(
                "The copy inside the kernel takes as long as cp, within a few percent",
                range,
                "as long as cp",
                time,
                Direction::Same(HARDLY),
            ),
            claim(
                "It needs more than half of cp's time in the kernel, where a reviewer expected half",
                range,
                "as much kernel time as cp",
                kernel,
                Direction::Over(0.5),
            ),
            claim(
                "It needs less time in the kernel than cp, if not much less",
                range,
                "as much kernel time as cp",
                kernel,
                Direction::Under(1.0),
            ),
        ],
    }
}

fn table(section: &Section) -> Table {
    let groups = copies::groups(section);
    let mut rows = Vec::new();
    for (size, cp, range) in PUBLISHED {
        // Megabytes of a million, or of 2^20 bytes.
        let is_size = |case: &&Case| case.bytes == size * 1_000_000 || case.bytes == size << 20;
        let cases = groups.iter().find(|(_, cases)| cases.iter().any(is_size)).map(|(_, cases)| cases);
        for (name, theirs, ours) in [("cp", cp, "cp"), ("VFS copy", range, "copy-range")] {
            let here = cases.and_then(|cases| copies::find(cases, ours));
            let figure = |value: Option<f64>| {
                value.map_or_else(|| Cell::text("-"), |value| Cell::figure(value, text::significant(value)))
            };
            let published = |value: f64| Cell::figure(value, value.to_string());
            rows.push(vec![
                Cell::text(format!("{size} MB")),
                Cell::text(name),
                published(theirs[0]),
                figure(here.and_then(|case| copies::median(case, copies::system))),
                published(theirs[1]),
                figure(here.and_then(copies::cpu)),
                published(theirs[2]),
                figure(here.and_then(|case| copies::median(case, copies::returned))),
            ]);
        }
    }
    let mut columns = vec![Column::words("size"), Column::words("tool")];
    let heads = ["kernel, s", "here", "CPU %", "here", "total, s", "here"];
    columns.extend(heads.map(Column::figures));
    Table { title: "2015, and here".to_owned(), columns, rows, note: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::fixtures::{case, results, section, timed};

    fn measured(cp: &[f64], range: &[f64]) -> View {
        let mut section = section("in-kernel");
        for (competitor, times) in [("cp", cp), ("copy-range", range)] {
            let mut case = case("512 MB", competitor, 512_000_000, times);
            case.base = competitor == "cp";
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
        let same = measured(&[1.0, 1.01, 0.99], &[1.02, 1.01, 1.0]);
        assert_eq!(verdicts(&same), [Some(true), Some(true), None]);
        let half = measured(&[1.0, 1.01, 0.99], &[0.4, 0.41, 0.42]);
        assert_eq!(verdicts(&half), [Some(false), Some(false), Some(true)]);
        let unknown = measured(&[1.0, 1.01, 0.99], &[0.4]);
        assert_eq!(verdicts(&unknown), [None, None, None]);
        assert_eq!(verdicts(&measured(&[1.0], &[])), [None, None, None]);
    }

    #[test]
    fn the_filesystem_below_is_said() {
        let view = measured(&timed(1.0), &timed(1.0));
        assert!(view.summary.iter().any(|words| words.contains("ext4 on /dev/vdb")), "{:?}", view.summary);
    }
}
