//! `cargo xtask prove`: all that the trust in haul rests on, at full length, over night, and a page of what came of it.

mod page;
mod parts;
mod record;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use parts::{PARTS, Part, Work};
use record::Outcome;

use crate::bench::machine;
use crate::counts;
use crate::leftovers::Scratch;
use crate::mpi::Mpi;
use crate::shell::{self, Result};

struct Options {
    only: Vec<String>,
    /// Not what has passed before.
    missing: bool,
    quick: bool,
    into: PathBuf,
}

/// Runs the parts, each also after one has failed, and writes the page anew after each.
///
/// # Errors
/// When one failed, with the names of those that did.
pub fn run(args: &[String]) -> Result {
    let Some(options) = options(args)? else {
        PARTS.iter().for_each(|part| println!("{:<17} {}", part.name, part.what));
        return Ok(());
    };
    let kept = options.into.with_extension("json");
    let before = record::today(&record::read(&kept)?, options.quick);
    let wanted = PARTS
        .iter()
        .filter(|part| options.only.is_empty() || options.only.iter().any(|name| name == part.name))
        .filter(|part| !options.missing || !before.iter().any(|one| one.part == part.name && one.verdict.is_ok()));
    let wanted: Vec<&'static Part> = wanted.collect();
    let logs = shell::target().join("prove");
    shell::make_dir(&logs)?;
    let mpi = Mpi::look();
    let (machine, commit) = (machine()?, commit(&options.into));
    let mut failed = Vec::new();
    for part in &wanted {
        println!("\n==> {}: {}", part.name, part.what);
        let outcome = Outcome { commit: commit.clone(), ..one(part, options.quick, &logs, &mpi, &machine)? };
        failed.extend(outcome.verdict.is_err().then_some(part.name));
        // Another run may have added to it meanwhile.
        let mut outcomes = record::read(&kept)?;
        record::put(&mut outcomes, outcome);
        record::write(&kept, &outcomes)?;
        shell::write(&options.into, &page::write(&record::today(&outcomes, options.quick), options.quick))?;
    }
    shell::write(&options.into, &page::write(&record::today(&record::read(&kept)?, options.quick), options.quick))?;
    println!("\n{}", options.into.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// `None`: only say what there is.
fn options(args: &[String]) -> Result<Option<Options>> {
    let mut options = Options { only: vec![], missing: false, quick: false, into: PathBuf::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--list" => return Ok(None),
            "--missing" => options.missing = true,
            "--quick" => options.quick = true,
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--into" => options.into = std::path::absolute(value()?).map_err(|error| error.to_string())?,
            _ => return Err(format!("prove knows --only, --missing, --quick, --into and --list, and not {arg:?}")),
        }
    }
    match options.only.iter().find(|name| !PARTS.iter().any(|part| part.name == name.as_str())) {
        Some(unknown) => Err(format!("no part {unknown:?}; `cargo xtask prove --list` names them")),
        None => {
            if options.into.extension().is_some_and(|extension| extension == "json") {
                return Err("--into wants the page; its record is beside it, as .json".into());
            }
            if options.into.as_os_str().is_empty() {
                // The page that is shipped is of parts at full length.
                let folder = if options.quick { shell::target().join("prove") } else { shell::root().join("docs") };
                options.into = folder.join("proof.md");
            }
            Ok(Some(options))
        }
    }
}

/// Lines about machine, system and programs.
fn machine() -> Result<Vec<String>> {
    let first = |program: &str| {
        let text = shell::output(shell::command(program).arg("--version"))?;
        Ok::<_, String>(text.lines().next().unwrap_or_default().to_owned())
    };
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system =
        system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown").trim_matches('"');
    let mut lines = vec![
        format!("{}.", machine::hardware()),
        format!("{system}; {}; {}; temporary files on {}.", first("rustc")?, first("cp")?, filesystem()?),
    ];
    if !shell::is_root() {
        lines.push("Not as root: what mounts filesystems or makes devices was skipped.".into());
    }
    Ok(lines)
}

/// Of the sources; the name says where these have changed since. The page and its record do not count.
fn commit(page: &Path) -> String {
    let mut status = shell::command("git");
    status.args(["status", "--porcelain", "--untracked-files=no", "--", "."]);
    for file in [page.to_owned(), page.with_extension("json")] {
        // One that lies elsewhere is no change.
        if let Ok(inside) = file.strip_prefix(shell::root()) {
            status.arg(format!(":(exclude){}", inside.display()));
        }
    }
    // What git cannot say may have changed.
    let changed = shell::output(&mut status).map_or(true, |text| !text.trim().is_empty());
    let commit = shell::output(shell::command("git").args(["rev-parse", "--short", "HEAD"])).unwrap_or_default();
    format!("{}{}", commit.trim(), if changed { "+" } else { "" })
}

fn filesystem() -> Result<String> {
    let mut stat = shell::command("stat");
    shell::output(stat.args(["--file-system", "--format=%T"]).arg(std::env::temp_dir()))
        .map(|text| text.trim().to_owned())
}

/// Runs a part. Its output goes to a log, too.
fn one(part: &'static Part, quick: bool, logs: &Path, mpi: &Mpi, machine: &[String]) -> Result<Outcome> {
    let begun = shell::output(shell::command("date").args(["--utc", "+%Y-%m-%d, %H:%M UTC"]))?.trim().to_owned();
    // What an earlier run has left is none of this one.
    let log = logs.join(format!("{}.log", part.name.replace(' ', "-")));
    shell::remove(&log)?;
    let scratch = Scratch::new()?;
    let started = Instant::now();
    let verdict = match part.work {
        Work::Tests { package, .. } if !mpi.builds(package) => Err("there is no MPI".into()),
        Work::Tests { package, test, length } => {
            let mut command = shell::cargo();
            command.args(["test", "--locked", "--package", package, "--test", test, "--", "--nocapture"]);
            command.envs(if quick { &[] } else { length }.iter().copied());
            Mpi::both(&mut command);
            let built = if Mpi::is_needed_by(package) { mpi.build().map(drop) } else { Ok(()) };
            built.and_then(|()| logged(&mut command, &log)).and_then(|()| counts::judge_log(&read(&log)?))
        }
        Work::Task { full, quick: look } => {
            let (task, rest) = if quick { look } else { full }.split_first().unwrap_or((&"help", &[]));
            let mut command = shell::own(task)?;
            command.args(rest).env("TMPDIR", scratch.path());
            logged(&mut command, &log).map(|()| "as it should be".to_owned())
        }
    };
    let time = started.elapsed();
    let left = scratch.finish();
    let figures =
        read(&log).unwrap_or_default().lines().filter(|line| page::is_figure(line)).map(str::to_owned).collect();
    let verdict = verdict.and_then(|found| left.map(|_| found));
    if let Err(why) = &verdict {
        println!("{} failed: {why}", part.name);
    }
    Ok(Outcome {
        part: part.name.into(),
        command: part.work.command(quick),
        begun,
        commit: String::new(),
        machine: machine.to_vec(),
        time,
        verdict,
        figures,
    })
}

/// Runs a command; both of its outputs are shown, and go to the log.
fn logged(command: &mut Command, log: &Path) -> Result {
    let name = shell::line(command);
    let at = shell::at(log);
    let mut file = std::fs::File::create(log).map_err(at)?;
    let (reader, writer) = std::io::pipe().map_err(at)?;
    command.stdout(writer.try_clone().map_err(at)?).stderr(writer).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
    // The command has ends of the pipe, which would stay open as long as it is there.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(at)?;
        println!("{}", String::from_utf8_lossy(&line));
        file.write_all(&line).and_then(|()| file.write_all(b"\n")).map_err(at)?;
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {name}: {error}"))?;
    // It stands on a page that is shipped, which names no folder of this machine.
    let shown = log.strip_prefix(shell::root()).unwrap_or(log).display();
    if status.success() { Ok(()) } else { Err(format!("{name}: {status} (all of it is in {shown})")) }
}

fn read(log: &Path) -> Result<String> {
    // What tests print need not be UTF-8.
    std::fs::read(log).map(|text| String::from_utf8_lossy(&text).into_owned()).map_err(shell::at(log))
}
