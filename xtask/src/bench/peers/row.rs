//! All runs of one workload.

use std::fs;
use std::path::{Path, PathBuf};

use haul_measure::process::{self, Ended, Job};
use haul_measure::stop::Stop;
use haul_measure::workspace::Workspace;
use haul_measure::{cache, turns};
use serde_json::Value;

use super::super::compare::{self, Lost};
use super::super::options::Options;
use super::super::surroundings::failure;
use super::programs::{Program, Shape, Task};
use super::record::{Row, Sample, Table};
use super::scene::Scene;
use super::sources::Source;
use super::workload::Workload;
use crate::shell::{self, Result};

/// A program that was so much slower than cp in the first round is not run again.
const SLOW: f64 = 5.0;
/// Copies of 500 that are compared.
const MEBIBYTE_KIB: u64 = 1024;

/// Runs all programs in rotating order and checks every copy.
///
/// # Errors
/// When the machinery fails. A program that fails or copies wrongly gets a row that says so.
pub fn measure(workload: &Workload, programs: &[Program], options: &Options, workspace: &Workspace) -> Result<Table> {
    let mut scene = Scene::new(workload, options, workspace.path())?;
    let mut rows: Vec<Row> = programs.iter().map(without_runs).collect();
    rows.first_mut().into_iter().for_each(|row| row.base = !row.haul);
    for (row, program) in rows.iter_mut().zip(programs).filter(|_| workload.marks_fallback) {
        row.name += if scene.falls_back(program)? { " (refused, fell back)" } else { "" };
    }
    for round in 0..options.runs {
        for which in turns::order(round, programs.len()) {
            let row = &mut rows[which];
            if row.wrong.is_some() || row.failed.is_some() || row.slow {
                continue;
            }
            eprint!("  {}/{} {}: ", round + 1, options.runs, row.name);
            one(&mut scene, workload, &programs[which], row, round * programs.len() + which, workspace)?;
            eprintln!("{}", said(row));
        }
        if round == 0 {
            skip_slow(&mut rows);
        }
    }
    let place = scene.title.clone();
    scene.remove()?;
    let (group, title) = (workload.group.to_owned(), workload.title.clone());
    let (name, about) = (workload.name.clone(), Vec::new());
    Ok(Table { name, group, title, place, about, target: workload.target, rows })
}

/// The row of a program that was not run yet.
fn without_runs(program: &Program) -> Row {
    Row {
        name: program.name.clone(),
        version: program.peer.version.clone(),
        base: false,
        haul: program.is_haul(),
        limit: program.task == Task::Limit,
        samples: Vec::new(),
        wrong: None,
        failed: None,
        lost: Lost::new(),
        slow: false,
    }
}

fn said(row: &Row) -> String {
    if let Some(why) = row.wrong.as_ref().or(row.failed.as_ref()) {
        return why.clone();
    }
    let Some(last) = row.samples.last() else { return String::new() };
    let disturbed = if last.disturbed { ", disturbed" } else { "" };
    format!("{:.3} s, durable {:.3} s{disturbed}", last.returned, last.durable)
}

fn skip_slow(rows: &mut [Row]) {
    let time = |row: &Row| row.samples.first().map(|sample| sample.durable);
    let Some(base) = rows.iter().find(|row| row.base).and_then(time) else { return };
    for row in rows.iter_mut().filter(|row| !row.base && !row.haul) {
        row.slow = time(row).is_some_and(|own| own > SLOW * base && own > 1.0);
    }
}

fn one(
    scene: &mut Scene<'_>,
    workload: &Workload,
    program: &Program,
    row: &mut Row,
    run: usize,
    workspace: &Workspace,
) -> Result {
    let dest = scene.dest(run)?;
    let copies = destinations(workload, &dest);
    scene.prepare(program)?;
    let limit = program.task == Task::Limit;
    let commands = copies.iter().map(|copy| command(program, scene, copy)).collect::<Result<Vec<_>>>()?;
    let timeout = scene.options.timeout;
    let job = Job { commands, place: &scene.sync, devices: (None, None), timeout, output: limit };
    let finished = match process::run(job, workspace, &Stop::default())? {
        Ended::Finished(finished) if finished.status.success() => finished,
        other => {
            row.failed = Some(failure(other, timeout)?);
            return Ok(());
        }
    };
    let mut sample = Sample::of(&finished.cost);
    if limit {
        row.samples.push(device_time(sample, &finished.said)?);
        cache::forget(&dest);
        return Ok(());
    }
    sample.allocated_kib = scene.allocated(&dest);
    for copy in &copies {
        if !copy.exists() {
            row.wrong = Some(format!("there is no {}", copy.display()));
            return Ok(());
        }
        let found = if copies.len() > 1 {
            // In this process: five hundred others would take longer than the run. The files are small.
            compare::compare(&scene.source, copy, false)?
        } else {
            compare::apart(&scene.source, copy, workload.shape.keeps_all())?
        };
        row.wrong = found.sentence();
        if row.wrong.is_some() {
            return Ok(());
        }
        lose(&mut row.lost, found.lost);
    }
    if workload.shape == Shape::Sparse && filled(workload.source, &sample) {
        row.wrong = Some(format!("fills holes: {} MiB allocated", sample.allocated_kib.unwrap_or(0) >> 10));
    }
    row.samples.push(sample);
    Ok(())
}

/// Adds what another copy has lost: of each kind the most that one copy lost.
fn lose(lost: &mut Lost, found: Lost) {
    for (what, count) in found {
        let most = lost.entry(what).or_default();
        *most = count.max(*most);
    }
}

/// One copy, or as many as there are starts.
fn destinations(workload: &Workload, dest: &Path) -> Vec<PathBuf> {
    if workload.starts == 1 {
        return vec![dest.to_owned()];
    }
    (0..workload.starts).map(|start| dest.with_file_name(format!("copy-{start}"))).collect()
}

fn command(program: &Program, scene: &Scene<'_>, dest: &Path) -> Result<std::process::Command> {
    if program.task == Task::Limit {
        return Ok(limit(program, dest, scene.extent.bytes));
    }
    let words = program.words(&scene.source, dest);
    let (first, rest) = words.split_first().ok_or("a program without words")?;
    let mut command = shell::command(first);
    command.args(rest);
    Ok(command)
}

/// As much fresh incompressible data, in a new preallocated file, with direct I/O.
fn limit(program: &Program, dest: &Path, bytes: u64) -> std::process::Command {
    let mut command = shell::command(&program.peer.program);
    command.args(["--name=limit", "--rw=write", "--bs=8m", "--iodepth=4", "--ioengine=libaio", "--direct=1"]);
    // Without the second, one buffer is repeated, which some devices store much faster.
    command.args(["--fallocate=posix", "--refill_buffers", "--output-format=json"]);
    command.arg(format!("--size={}", bytes.next_multiple_of(8 << 20)));
    command.arg(format!("--filename={}", dest.display()));
    command
}

/// fio takes half a second to start and to end, so the time is what it says itself.
fn device_time(mut sample: Sample, said: &str) -> Result<Sample> {
    // It may warn before the JSON begins.
    let text = said.find('{').map_or("", |start| &said[start..]);
    let value: Value = serde_json::from_str(text).map_err(|error| format!("fio said no JSON: {error}"))?;
    let runtime = value["jobs"][0]["write"]["runtime"].as_f64().ok_or("fio did not say how long it took")? / 1000.0;
    sample.durable += runtime - sample.returned;
    sample.returned = runtime;
    Ok(sample)
}

/// Whether a copy has much more allocated than the source has data.
fn filled(source: Source, sample: &Sample) -> bool {
    let Source::Sparse { data, .. } = source else { return false };
    sample.allocated_kib.is_some_and(|kib| kib > data / 1024 * 3 / 2 + MEBIBYTE_KIB)
}

/// Runs each program once under a profiler and gives what it says.
pub fn profile(workload: &Workload, programs: &[Program], options: &Options, scratch: &Path) -> Result<String> {
    let mut scene = Scene::new(workload, options, scratch)?;
    let mut text = format!("### {}: {}\n\n", workload.name, workload.title);
    for (run, program) in programs.iter().enumerate().filter(|(_, program)| program.task != Task::Limit) {
        let dest = scene.dest(run)?;
        scene.prepare(program)?;
        let words = destinations(workload, &dest).iter().map(|dest| program.words(&scene.source, dest)).collect();
        let parent = dest.parent().unwrap_or(&dest).to_owned();
        text += &format!("#### {} {}\n\n", program.name, program.peer.version);
        text += &super::profile::run(words, &parent, scratch)?;
    }
    scene.remove()?;
    fs::remove_file(scratch.join("perf.data")).unwrap_or_default(); // absent where there is no perf
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::row;
    use super::*;

    #[test]
    fn only_peers_that_are_much_slower_than_cp_are_skipped() {
        let mut rows = [row("cp", &[(1.0, 2.0)]), row("haul", &[(50.0, 50.0)]), row("a", &[(9.0, 9.9)])];
        skip_slow(&mut rows);
        assert!(!rows.iter().any(|row| row.slow));
        rows[2].samples[0].durable = 10.1;
        skip_slow(&mut rows);
        assert_eq!(rows.map(|row| row.slow), [false, false, true]);
    }

    #[test]
    fn what_was_lost_once_is_lost() {
        let found = |all: &[(&str, u64)]| all.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        let mut lost = Lost::new();
        for copy in [&[("mtime", 2), ("xattr", 1)][..], &[("mtime", 1)], &[]] {
            lose(&mut lost, found(copy));
        }
        assert_eq!(lost, found(&[("mtime", 2), ("xattr", 1)]));
    }

    #[test]
    fn the_time_of_the_device_is_what_fio_measured_and_the_sync() {
        let mut sample = super::super::record::tests::sample(1.5, 1.75);
        sample = device_time(sample, "note: hello\n{\"jobs\": [{\"write\": {\"runtime\": 1000}}]}").unwrap();
        assert!((sample.returned - 1.0).abs() < 1e-9 && (sample.durable - 1.25).abs() < 1e-9);
        assert!(device_time(sample, "nothing").is_err());
    }

    #[test]
    fn a_filled_hole_is_seen_in_what_is_allocated() {
        let source = Source::Sparse { bytes: 1 << 30, data: 64 << 20 };
        let with =
            |mib: u64| Sample { allocated_kib: Some(mib << 10), ..super::super::record::tests::sample(1.0, 1.0) };
        assert!(!filled(source, &with(70)));
        assert!(filled(source, &with(1024)));
    }
}
