//! copy_file_range against read and write, as cp of 2015 did it.

use haul_measure::stats::Ratio;
use haul_measure::words;

use super::claims::{Source, beside};
use super::copies::{self, Figure, PROCESSOR, RETURNED, SYSTEM};
use super::heading::begun;
use crate::report::text::{times_as, verdict};
use crate::results::{Case, Results, Section};
use crate::view::{Cell, Chart, Table, View};

pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "Does copy_file_range take less time than read and write, or less of the processor? It copies once in the kernel \
         where they copy twice. Each call moves as many bytes, by one thread, and nothing else differs.",
    );
    let (time, kernel) = (pooled(section, RETURNED), pooled(section, SYSTEM));
    view.summary.push(answer(time, pooled(section, PROCESSOR)));
    view.summary.push(below(results, section));
    view.summary.extend(not_copied(section));
    view.summary.push(copies::measured(results, section));
    view.charts.extend(copies::bars(&section.groups()));
    view.charts.extend(samples(section));
    copies::fill(&mut view, section);
    let published = Source::of("in-kernel");
    let claims = published.judged([time, kernel, kernel]);
    let table = table(section, &published);
    view.published = Some(published.with(table, claims));
    view
}

/// The system call against read and write over all sizes.
fn pooled(section: &Section, figure: Figure) -> Option<Ratio> {
    let groups = section.groups();
    let pairs = groups.iter().map(|(_, cases)| (copies::find(cases, "copy-range"), copies::find(cases, "read-write")));
    copies::pooled(pairs, figure)
}

fn answer(time: Option<Ratio>, processor: Option<Ratio>) -> String {
    let (Some(time), Some(processor)) = (time, processor) else {
        return "copy_file_range and read and write were not both measured, so they cannot be compared.".to_owned();
    };
    let verdict = verdict(&time);
    let (time, processor) = (times_as(&time, "as long"), times_as(&processor, "as much CPU time"));
    format!("copy_file_range {verdict} read and write: over all sizes it takes {time}, and {processor}.")
}

/// What a reviewer of 2015 asked.
fn below(results: &Results, section: &Section) -> String {
    results.place_of(section).map_or_else(
        || "Which filesystem was below is not in the results.".to_owned(),
        |at| format!("The filesystem below is {} on {}, mounted {}.", at.filesystem, at.source, at.mount_options),
    )
}

/// Where the system call shared blocks, nothing was copied, and the comparison says something else.
fn not_copied(section: &Section) -> Option<String> {
    let shared = |case: &&Case| {
        let bytes = copies::reported(case, "bytes.shared").filter(|_| case.is_ranked() && case.bytes > 0);
        bytes.is_some_and(|bytes| bytes * 2.0 > case.bytes as f64)
    };
    let mut names: Vec<String> = section.cases.iter().filter(shared).map(|case| case.competitor.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let names = Some(words::list(&names)).filter(|names| !names.is_empty())?;
    Some(format!(
        "{names} shared the blocks of the source here and moved no bytes: that is a clone, and no copy inside the kernel."
    ))
}

/// What the kernel did for each.
fn samples(section: &Section) -> Option<Chart> {
    let grid = section.grid("samples")?;
    let row =
        |(tool, seconds): (&String, &Vec<Option<f64>>)| (tool.clone(), seconds.iter().flatten().copied().collect());
    let rows = grid.rows.1.iter().zip(&grid.values).map(row).collect();
    let parts: Vec<&str> = grid.columns.1.iter().map(String::as_str).collect();
    let title = "Where the kernel spends the time, by samples of perf of one more copy of the smallest size".to_owned();
    copies::parts(title, "CPU time in the kernel", &parts, rows)
}

fn table(section: &Section, published: &Source) -> Table {
    let groups = section.groups();
    let row = |(number, (name, theirs)): (usize, &(String, Vec<Option<f64>>))| {
        let size: u64 = name.trim_end_matches(" MB").parse().unwrap_or_default();
        // Megabytes of a million, or of 2^20 bytes.
        let is_size = |case: &&Case| case.bytes == size * 1_000_000 || case.bytes == size << 20;
        let cases = groups.iter().find(|(_, cases)| cases.iter().any(is_size));
        let (tool, ours) = [("cp, by read and write", "read-write"), ("VFS copy", "copy-range")][number % 2];
        let here = cases.and_then(|(_, cases)| copies::find(cases, ours));
        let median = |figure: Figure| here.and_then(|case| copies::median(case, figure));
        let ours = [median(SYSTEM), here.and_then(copies::cpu), median(RETURNED)];
        [Cell::text(name), Cell::text(tool)].into_iter().chain(beside(theirs, ours)).collect()
    };
    published.table(published.rows.iter().enumerate().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::test_support::{case, results, section, timed};
    use crate::results::{Body, Detail, Grid};
    use crate::view::Kind;

    fn measured(read_write: &[f64], range: &[f64]) -> View {
        let mut section = section("in-kernel");
        for (competitor, times) in [("read-write", read_write), ("copy-range", range)] {
            let mut case = case("512 MB", competitor, 512_000_000, times);
            case.base = competitor == "read-write";
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
        let same = measured(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[1.02, 1.01, 1.0, 1.02, 1.01, 1.0]);
        assert_eq!(verdicts(&same), [Some(true), Some(true), None]);
        let half = measured(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[0.4, 0.41, 0.42, 0.4, 0.41, 0.42]);
        assert_eq!(verdicts(&half), [Some(false), Some(false), Some(true)]);
        let unknown = measured(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[0.4]);
        assert_eq!(verdicts(&unknown), [None, None, None]);
        assert_eq!(verdicts(&measured(&[1.0], &[])), [None, None, None]);
    }

    #[test]
    fn what_the_runs_do_not_decide_is_open_and_what_was_not_run_is_not() {
        let open = |read_write: &[f64], range: &[f64]| {
            measured(read_write, range).published.unwrap().claims.iter().filter(|claim| claim.is_undecided()).count()
        };
        assert_eq!(open(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[0.4, 0.41, 0.42, 0.4, 0.41, 0.42]), 0);
        assert_eq!(open(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[1.02, 1.01, 1.0, 1.02, 1.01, 1.0]), 1);
        assert_eq!(open(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[0.4]), 3, "one run has no interval");
        assert_eq!(open(&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99], &[]), 0);
    }

    #[test]
    fn what_the_kernel_did_is_shown_part_by_part() {
        let mut section = section("in-kernel");
        assert!(samples(&section).is_none());
        let columns = ("part".to_owned(), ["copying memory", "journal", "other"].map(str::to_owned).to_vec());
        let values = vec![vec![Some(0.3), Some(0.0), Some(0.01)], vec![Some(0.15), Some(0.0), Some(0.02)]];
        let rows = ("tool".to_owned(), vec!["read-write".to_owned(), "copy-range".to_owned()]);
        let grid = Grid { unit: "s".to_owned(), rows, columns, values };
        section.details.push(Detail::new("samples", Body::Grid(grid)));
        let Kind::Bars { unit, parts, groups, .. } = samples(&section).unwrap().kind else { panic!() };
        assert_eq!((unit.as_str(), parts), ("ms", vec!["copying memory".to_owned(), "other".to_owned()]));
        let bars: Vec<_> = groups[0].bars.iter().map(|bar| (bar.name.as_str(), &bar.lengths[..])).collect();
        assert_eq!(bars, [("copy-range", &[150.0, 20.0][..]), ("read-write", &[300.0, 10.0])]);
    }

    #[test]
    fn the_filesystem_below_is_said() {
        let view = measured(&timed(1.0), &timed(1.0));
        assert!(view.summary.iter().any(|words| words.contains("ext4 on /dev/vdb")), "{:?}", view.summary);
    }
}
