//! `cargo xtask bench peers`: haul against every peer, in every workload that its speed is promised for.
//!
//! It keeps to the rules of [`super`]. The programs run in processes that this one measures; everything that needs
//! memory (sources, comparisons) is done by helpers, since Linux counts the parent's memory to what it starts.

mod chart;
pub mod install;
mod judge;
mod profile;
pub mod programs;
pub mod record;
pub mod row;
mod scene;
pub mod sources;
mod table;
pub mod target;
pub mod workload;

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_measure::workspace::Workspace;

use self::install::Peer;
use self::programs::{Program, Shape};
use self::record::Table;
use self::workload::Workload;
use super::options::{Options, wants};
use super::{machine, place, surroundings};
use crate::shell::{self, Result};

/// Engines that the matrix times beside haul's own choice, if this haul has them.
const ASYNCHRONOUS: &[&str] = &["io-uring", "linux-aio", "posix-aio"];

/// Takes the arguments after `bench peers`.
pub fn options(args: &[String]) -> Result<Options> {
    let (settle, timeout) = (Duration::from_secs(65), Duration::from_secs(600));
    let usual = Options { runs: 5, scale: 1.0, space: 20 << 30, settle, timeout, ..Options::default() };
    let known = [
        "only", "programs", "engine", "with", "runs", "scale", "dir", "json", "from", "svg", "space", "settle",
        "timeout", "haul", "before", "profile", "list",
    ];
    usual.parse(args, &known)?.with_runs()
}

/// Measures what the options name and prints tables.
///
/// # Errors
/// When the machinery fails, when cp, or haul as it is, copied wrongly or not at all, or when haul copied wrongly with an option or
/// as another build.
pub fn run(args: &[String]) -> Result {
    let options = options(args)?;
    if options.svg.is_some() && options.from.is_none() {
        return Err("--svg draws saved results: name them with --from".into());
    }
    let workloads = workload::chosen(&options)?;
    if options.list {
        for workload in &workloads {
            println!("{:16} {}", workload.name, workload.title);
        }
        println!("programs: {}", install::names().join(", "));
        return Ok(());
    }
    if let Some(file) = &options.from {
        return show(file, &options);
    }
    if let Some(unknown) = options.programs.iter().find(|name| !install::names().contains(&name.as_str())) {
        return Err(format!("no program {unknown:?}; there are: {}", install::names().join(", ")));
    }
    let haul = surroundings::haul(options.haul.as_deref())?;
    // The peers are installed before, since a process in the namespace starts from the beginning.
    let wanted = |name: &str| wants(&options.programs, name) || (name == "cp" && !options.profile);
    let (mut peers, missing) = install::all(&haul, &wanted);
    if let Some(before) = &options.before {
        peers.push(install::before(before)?);
    }
    if let Some(vital) = missing.iter().find(|missing| ["cp", "haul"].contains(&missing.name)) {
        return Err(format!("{}: {}", vital.name, vital.why));
    }
    place::enter_namespace()?;

    let base = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let workspace = surroundings::workspace(&base)?;
    let outcome = measure(&workloads, &options, &haul, (&peers, &missing), &workspace);
    workspace.finish()?;
    outcome
}

fn measure(
    workloads: &[Workload],
    options: &Options,
    haul: &Path,
    (peers, missing): (&[Peer], &[install::Missing]),
    workspace: &Workspace,
) -> Result {
    let scratch = workspace.path();
    let mut about = vec![format!("{}.", machine::describe(haul)?)];
    about.push(format!("Files on {} in {}.", scene::kind(scratch)?, scratch.parent().unwrap_or(scratch).display()));
    about.push(format!("{} runs, order rotating, scale {}.", options.runs, options.scale));
    about.extend(table::programs(peers, missing));
    if scene::kind(scratch)? != "ext4" {
        about.push("**Not on ext4**: the rows about ext4 are about this filesystem; use --dir.".into());
    }
    println!("{}\n", about.join("\n"));
    let matrix = workloads.iter().any(|workload| workload.shape == Shape::Matrix);
    let engines = if matrix { asynchronous(haul, scratch)? } else { Vec::new() };
    let mut tables: Vec<Table> = Vec::new();
    for workload in workloads {
        let images = [workload.from, workload.to].iter().any(|fs| *fs != workload::Fs::Dir);
        if (images || workload.cold) && !shell::is_root() {
            println!("Not measured, since this is not root: {}.\n", workload.name);
            continue;
        }
        eprintln!("{}: {}", workload.name, workload.title);
        let programs = programs_for(workload, peers, options, &engines);
        if options.profile {
            println!("{}", row::profile(workload, &programs, options, scratch)?);
            continue;
        }
        let table = row::measure(workload, &programs, options, workspace)?;
        println!("{}", table::workload(&table));
        tables.push(table);
        if let Some(file) = &options.json {
            save(file, &about, &tables)?;
        }
    }
    if options.profile {
        return Ok(());
    }
    println!("{}", overview(&tables));
    let faults: Vec<String> = tables.iter().flat_map(judge::faults).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// The programs of a workload; `asynchronous` are the engines of a matrix besides those of the options.
pub fn programs_for(workload: &Workload, peers: &[Peer], options: &Options, asynchronous: &[String]) -> Vec<Program> {
    let mut engines = options.engines.clone();
    if workload.shape == Shape::Matrix {
        engines.extend(asynchronous.iter().filter(|name| !options.engines.contains(name)).cloned());
    }
    let engines = engines.iter().map(|engine| format!("--engine={engine}"));
    let with = options.with.iter().map(|option| format!("--{option}"));
    programs::of(workload.shape, peers, &engines.chain(with).collect::<Vec<_>>(), workload.limit)
}

/// Those of the asynchronous engines that this haul has.
fn asynchronous(haul: &Path, scratch: &Path) -> Result<Vec<String>> {
    let mut engines = Vec::new();
    for &engine in ASYNCHRONOUS {
        if knows(haul, engine, scratch)? {
            engines.push(engine.to_owned());
        } else {
            println!("**Missing**: this haul has no engine {engine}, or cannot copy a small file with it.\n");
        }
    }
    Ok(engines)
}

/// Whether this haul copies a small file with an engine.
fn knows(haul: &Path, engine: &str, scratch: &Path) -> Result<bool> {
    let (source, dest) = (scratch.join("small"), scratch.join("small-copy"));
    fs::write(&source, vec![b'x'; 1 << 20]).map_err(shell::at(&source))?;
    let mut command = shell::command(haul);
    command.arg(format!("--engine={engine}")).arg(&source).arg(&dest);
    let output = command.output().map_err(|error| format!("cannot run haul: {error}"))?;
    for file in [source, dest] {
        shell::remove(&file)?;
    }
    Ok(output.status.success())
}

/// The summary, and the cells of each group side by side.
fn overview(tables: &[Table]) -> String {
    let mut text = String::new();
    for name in table::groups(tables) {
        let cells: Vec<&Table> = tables.iter().filter(|table| table.group == name).collect();
        text += &format!("{}\n", table::group(name, &cells));
    }
    text + &table::summary(tables) + &table::elsewhere(tables)
}

/// Puts the new results into a file, in which older ones of other workloads stay.
fn save(file: &Path, about: &[String], tables: &[Table]) -> Result {
    let older = match fs::read_to_string(file) {
        Ok(text) => record::read(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Default::default(),
        Err(error) => return Err(format!("{}: {error}", file.display())),
    };
    let text = record::write(about, &record::merge(older, about, tables));
    fs::write(file, text).map_err(shell::at(file))
}

/// Shows saved results, those of the named workloads in a drawing.
fn show(file: &Path, options: &Options) -> Result {
    let text = fs::read_to_string(file).map_err(shell::at(file))?;
    let (about, tables) = record::read(&text)?;
    println!("{}\n", about.join("\n"));
    for one in &tables {
        println!("{}", table::workload(one));
    }
    println!("{}", overview(&tables));
    match &options.svg {
        Some(drawing) => {
            let wanted = |name: &String| tables.iter().find(|table| table.name == *name).cloned();
            let chosen: Vec<Table> = options.only.iter().filter_map(wanted).collect();
            shell::write(drawing, &chart::draw(if options.only.is_empty() { &tables } else { &chosen }))
        }
        None => Ok(()),
    }
}
