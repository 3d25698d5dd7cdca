//! `cargo xtask bench single-file`: one file of incompressible data, haul against cp.

use std::fmt::Write;
use std::time::Duration;

use haul_measure::stats::Spread;
use haul_measure::workspace::Workspace;

use super::options::{Options, wants};
use super::peers::install::{self, Peer};
use super::peers::programs::Shape;
use super::peers::record::{Row, Table};
use super::peers::row;
use super::peers::sources::Source;
use super::peers::workload::{Fs, Workload};
use super::report::{range, seconds};
use super::{machine, peers, place, surroundings};
use crate::shell::{self, Result};

/// The name of the place on the filesystem of the temporary directory.
const TEMPORARY: &str = "tmpdir";

/// Takes the arguments after `bench single-file`.
pub fn options(args: &[String]) -> Result<Options> {
    let usual = Options { size: 1 << 30, runs: 5, timeout: Duration::MAX, ..Options::default() };
    usual.parse(args, &["size", "runs", "engine", "place"])?.with_runs()
}

/// The places by their names in `--place`.
fn places() -> Vec<(&'static str, Fs)> {
    let images = place::IMAGES.iter().map(|image| (image.name, Fs::Image(image)));
    std::iter::once((TEMPORARY, Fs::Dir)).chain(images).collect()
}

/// Times all programs at all places and prints a table for each.
///
/// # Errors
/// When cp or haul's own choice fails anywhere, or any copy is wrong. An engine may refuse.
pub fn run(args: &[String]) -> Result {
    let options = options(args)?;
    let mut places = places();
    if let Some(unknown) = options.places.iter().find(|name| !places.iter().any(|(known, _)| known == name)) {
        let names: Vec<&str> = places.iter().map(|(name, _)| *name).collect();
        return Err(format!("no place {unknown:?}; there are: {}", names.join(", ")));
    }
    places.retain(|(name, _)| wants(&options.places, name));
    let haul = surroundings::haul(None)?;
    // Before the namespace, in which this process starts from the beginning.
    let (peers, missing) = install::all(&haul, &|name| ["cp", "haul", "fio"].contains(&name));
    place::enter_namespace()?;
    println!("One file of {} MiB, warm, {} runs, order rotating.", options.size >> 20, options.runs);
    println!("{}.", machine::describe(&haul)?);
    println!("A disturbed run had other load on the machine. RSS is never below that of the measuring program.");
    missing.iter().for_each(|missing| println!("Not measured with {}: {}.", missing.name, missing.why));
    println!();
    let workspace = surroundings::workspace(&std::env::temp_dir())?;
    let measured = all_places(&options, &places, &peers, &workspace);
    workspace.finish()?;
    let (count, slower) = measured?;
    if let Some(verdict) = verdict(&slower, count == places.len()) {
        println!("{verdict}");
    }
    Ok(())
}

/// Where haul returned later than cp; that it did so nowhere can be said only if all places were measured.
fn verdict(slower: &[String], everywhere: bool) -> Option<String> {
    match (slower, everywhere) {
        ([], false) => None,
        ([], true) => {
            Some("haul returned at least as early as cp everywhere (ratio of medians at most 1.00).".to_owned())
        }
        _ => Some(format!("haul returned later than cp (ratio of medians above 1.00): {}.", slower.join("; "))),
    }
}

/// Measures at all places: how many could be measured, and those where haul returned later than cp.
fn all_places(
    options: &Options,
    places: &[(&'static str, Fs)],
    peers: &[Peer],
    workspace: &Workspace,
) -> Result<(usize, Vec<String>)> {
    // The source, one to spare and, for each run, copies by cp, haul and its engines, and the file of the limit.
    let files = 2 + options.runs as u64 * (3 + options.engines.len() as u64);
    let options = &Options { space: options.size.saturating_mul(files), ..options.clone() };
    let mut slower = Vec::new();
    for (at, (name, fs)) in places.iter().enumerate() {
        if *fs != Fs::Dir && !shell::is_root() {
            let names: Vec<&str> = places[at..].iter().map(|(name, _)| *name).collect();
            println!("Not measured, since this is not root: {}.", names.join(", "));
            return Ok((at, slower));
        }
        place::need(workspace.path(), name, options.space)?;
        let workload = Workload::new(name, String::new(), Source::File { bytes: options.size }, Shape::File);
        let shares = matches!(fs, Fs::Image(image) if image.reflink);
        let workload = Workload { from: *fs, to: *fs, limit: !shares, marks_fallback: true, ..workload };
        let programs = peers::programs_for(&workload, peers, options, &[]);
        let measured = row::measure(&workload, &programs, options, workspace)?;
        println!("{}", table(&measured));
        if is_slower(&measured)? {
            slower.push(format!("{name}: {}", measured.place));
        }
    }
    Ok((places.len(), slower))
}

/// Whether haul returned later than cp.
fn is_slower(table: &Table) -> Result<bool> {
    if let Some((row, why)) = table.rows.iter().find_map(|row| Some((row, row.wrong.as_ref()?))) {
        return Err(format!("{} made a WRONG COPY: {why}", row.name));
    }
    let returned = |of: fn(&Row) -> bool| {
        let row = table.rows.iter().find(|row| of(row)).ok_or("cp or haul was not run")?;
        let failed = || format!("{} failed: {}", row.name, row.failed.as_deref().unwrap_or_default());
        row.returned().filter(|_| row.failed.is_none()).ok_or_else(failed)
    };
    Ok(returned(|row| row.haul)?.median > returned(|row| row.base)?.median)
}

/// A Markdown table. Ratios are of medians, against the first row: below 1 is faster than it.
fn table(Table { name, place, rows, .. }: &Table) -> String {
    let mut text = format!("### {name}: {place}\n");
    let base = rows.first().map_or("?", |row| row.name.as_str());
    let mut line = |words: String| writeln!(text, "{words}").unwrap_or_default(); // writing to a String cannot fail
    line(format!("| program | n | returned s | durable s | CPU s | RSS MiB | returned / {base} | durable / {base} |"));
    line("|---|---|---|---|---|---|---|---|".into());
    let first = rows.first().map(|row| (row.returned(), row.durable())).unwrap_or_default();
    for row in rows {
        let (Some(returned), Some(durable)) = (row.returned(), row.durable()) else {
            let why = row.wrong.as_ref().or(row.failed.as_ref()).map_or("no runs", String::as_str);
            line(format!("| {} | 0 | {why} | | | | | |", row.name));
            continue;
        };
        if row.limit {
            let (count, limit) = (row.samples.len(), range(durable));
            line(format!("| limit: fresh data, O_DIRECT, 8 MiB, depth 4 | {count} | | {limit} | | | | |"));
            continue;
        }
        let memory = row.samples.iter().map(|sample| sample.rss_kib).max().unwrap_or(0).div_ceil(1024);
        let disturbed = row.samples.iter().filter(|sample| sample.disturbed).count();
        let ratio = |own: Spread, other: Option<Spread>| {
            other.map_or_else(|| "?".into(), |other| format!("{:.2}", own.median / other.median))
        };
        line(format!(
            "| {}{} | {} | {} | {} | {} | {memory} | {} | {} |",
            row.name,
            if disturbed > 0 { format!(" ({disturbed} disturbed)") } else { String::new() },
            row.samples.len(),
            range(returned),
            range(durable),
            row.cpu().map_or_else(String::new, |cpu| seconds(cpu.median)),
            ratio(returned, first.0),
            ratio(durable, first.1),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::peers::record::tests::{row, table as record};
    use super::super::peers::target::Target;
    use super::*;

    #[test]
    fn ratios_are_of_medians_against_the_first_row() {
        let cp = row("cp", &[(0.9, 2.0), (1.0, 2.0), (9.0, 9.0)]);
        let text = table(&record("ext4", Target::default(), vec![cp, row("haul", &[(0.5, 1.5)])]));
        assert!(text.contains("| cp | 3 | 1.00 (0.90-9.00) | 2.00 (2.00-9.00) | 0.75 | 2 | 1.00 | 1.00 |"), "{text}");
        assert!(text.contains("| haul | 1 | 0.50 (0.50-0.50) | 1.50 (1.50-1.50) | 0.75 | 2 | 0.50 | 0.75 |"), "{text}");
    }

    #[test]
    fn a_place_where_haul_was_slower_is_named_also_if_others_were_not_measured() {
        let slower = ["tmpdir: ext4".to_owned()];
        for everywhere in [true, false] {
            assert!(verdict(&slower, everywhere).unwrap().ends_with("above 1.00): tmpdir: ext4."));
        }
        assert!(verdict(&[], true).unwrap().contains("everywhere"));
        assert_eq!(verdict(&[], false), None);
    }

    #[test]
    fn a_program_that_refuses_has_a_row_that_says_why() {
        let mut refused = row("x", &[]);
        refused.failed = Some("exit status: 1: no".into());
        let text = table(&record("ext4", Target::default(), vec![refused]));
        assert!(text.contains("| x | 0 | exit status: 1: no |"), "{text}");
    }

    #[test]
    fn a_wrong_copy_and_a_failure_of_cp_or_haul_are_errors() {
        let both = |change: fn(&mut [Row])| {
            let mut rows = vec![row("cp", &[(1.0, 1.0)]), row("haul", &[(1.0, 1.0)]), row("haul --engine=x", &[])];
            change(&mut rows);
            is_slower(&record("ext4", Target::default(), rows))
        };
        assert_eq!(both(|rows| rows[2].failed = Some("refused".into())), Ok(false));
        assert!(both(|rows| rows[2].wrong = Some("a differs".into())).is_err());
        assert!(both(|rows| rows[1].failed = Some("no".into())).is_err());
        assert!(both(|rows| rows[0].samples.clear()).is_err());
    }
}
