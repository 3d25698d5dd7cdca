//! `cargo xtask bench scale`: what a copy by haul gains by threads, from one to twice as many as there are cores.

mod curve;
mod picture;

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_measure::machine::Machine;

use self::curve::Curve;
use super::options::{Options, wants};
use super::peers::install;
use super::peers::programs::{self, Program, Shape};
use super::peers::record::{self, Table};
use super::peers::row;
use super::peers::sources::Source;
use super::peers::workload::{Fs, Workload};
use super::{machine, place, surroundings};
use crate::shell::{self, Result};

/// Where trees in memory are.
const MEMORY: &str = "/dev/shm";

/// Takes the arguments after `bench scale`.
pub fn options(args: &[String]) -> Result<Options> {
    let timeout = Duration::from_secs(600);
    let usual = Options { runs: 5, scale: 1.0, size: 2 << 30, space: 20 << 30, timeout, ..Options::default() };
    let known = [
        "only", "place", "runs", "scale", "size", "dir", "space", "settle", "timeout", "haul", "json", "svg", "profile",
    ];
    usual.parse(args, &known)?.with_runs()
}

/// A filesystem to copy on.
struct Site {
    name: &'static str,
    dir: PathBuf,
    fs: Fs,
}

/// Measures, and prints for each filesystem and workload a table and what it means.
///
/// # Errors
/// When the machinery fails, or a copy fails or is wrong.
pub fn run(args: &[String]) -> Result {
    let options = options(args)?;
    let haul = surroundings::haul(options.haul.as_deref())?;
    let (peers, missing) = install::all(&haul, &|name| name == "haul");
    if let Some(missing) = missing.first() {
        return Err(format!("{}: {}", missing.name, missing.why));
    }
    place::enter_namespace()?;
    let cores = Machine::here().cores;
    let about = about(&options, &haul, cores)?;
    println!("{}\n", about.join("\n"));
    let programs = programs::of(Shape::Archive, &peers, &with_threads(&threads(cores)), false);
    let known = rows(&options).map(|(name, ..)| name).into_iter().flat_map(|name| [name.to_owned(), cold(name)]);
    let known: Vec<String> = known.collect();
    if let Some(unknown) = options.only.iter().find(|name| !known.contains(name)) {
        return Err(format!("no workload {unknown:?}; there are: {}", known.join(", ")));
    }
    let mut tables = Vec::new();
    let mut curves = Vec::new();
    for site in sites(&options)? {
        for workload in workloads(&options, &site) {
            if options.profile {
                println!("{}", profile(&workload, &programs, &options, &site)?);
                continue;
            }
            let table = one(&workload, &programs, &options, &site)?;
            let curve = Curve::new(format!("{}, {}", site.name, workload.name), cores, &table)?;
            println!("{}", curve.table(&table.place, &workload.title));
            tables.push(table);
            curves.push(curve);
            keep(&options, &about, &tables, &curves)?;
        }
    }
    curves.iter().for_each(|curve| println!("- {}", curve.verdict()));
    Ok(())
}

/// What the figures are from, and how far they can be trusted.
fn about(options: &Options, haul: &Path, cores: usize) -> Result<Vec<String>> {
    let trust = match cores {
        0..=3 => format!("With {cores} cores this says nothing about machines that have more."),
        _ => format!("It says nothing about more than {cores} cores."),
    };
    Ok(vec![
        format!("{}.", machine::describe(haul)?),
        format!("{} runs, order rotating, every copy compared; haul -a, with and without -jN. {trust}", options.runs),
        "Cores of a virtual machine may be threads of a processor, of which two share a core, and ext4 and XFS are in loop \
         images, whose writes pass through threads of their own."
            .into(),
    ])
}

/// From one to twice as many as there are cores.
fn threads(cores: usize) -> Vec<usize> {
    let steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
    let mut threads: Vec<usize> = steps.into_iter().filter(|threads| *threads <= 2 * cores).collect();
    threads.extend([cores, 2 * cores]);
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn with_threads(threads: &[usize]) -> Vec<String> {
    threads.iter().map(|threads| format!("-j{threads}")).collect()
}

/// The filesystems that `--place` names, as far as this user may make them.
fn sites(options: &Options) -> Result<Vec<Site>> {
    let base = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let image = |name| {
        let found = place::IMAGES.iter().find(|image| image.name == name);
        found.map(Fs::Image).ok_or_else(|| format!("no loop image is named {name:?}"))
    };
    let all = [
        Site { name: "tmpfs", dir: MEMORY.into(), fs: Fs::Dir },
        Site { name: "dir", dir: base.clone(), fs: Fs::Dir },
        Site { name: "ext4", dir: base.clone(), fs: image("ext4")? },
        Site { name: "xfs", dir: base, fs: image("xfs-data")? },
    ];
    let names: Vec<&str> = all.iter().map(|site| site.name).collect();
    if let Some(unknown) = options.places.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("no place {unknown:?}; there are: {}", names.join(", ")));
    }
    let wanted = all.into_iter().filter(|site| wants(&options.places, site.name));
    let (made, others): (Vec<Site>, Vec<Site>) = wanted.partition(|site| site.fs == Fs::Dir || shell::is_root());
    others.iter().for_each(|site| println!("Not measured, since this is not root: {}.", site.name));
    Ok(made)
}

/// Names of workloads, what they are, and what they copy; each is there with a cold source, too.
fn rows(options: &Options) -> [(&'static str, String, Source); 3] {
    let files = options.scaled(100_000, 200);
    let small = "files of 1 to 16 KiB";
    [
        ("many", format!("{files} {small}, 100 in a directory"), Source::Tree { files }),
        ("one", format!("{files} {small} in one directory"), Source::Flat { files }),
        ("large", format!("one file of {} MiB", options.size >> 20), Source::File { bytes: options.size }),
    ]
}

fn cold(name: &str) -> String {
    format!("{name}-cold")
}

fn workloads(options: &Options, site: &Site) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for is_cold in [false, true] {
        for (name, title, source) in rows(options) {
            let name = if is_cold { cold(name) } else { name.to_owned() };
            let title = format!("{title}; {}", if is_cold { "cold" } else { "warm" });
            let workload = Workload::new(&name, title, source, Shape::Archive);
            let workload = Workload { cold: is_cold, from: site.fs, to: site.fs, ..workload };
            // What is in memory is never cold, and who is not root cannot drop the caches.
            let can = !is_cold || (site.name != "tmpfs" && shell::is_root());
            if can && wants(&options.only, &name) {
                workloads.push(workload);
            }
        }
    }
    workloads
}

fn one(workload: &Workload, programs: &[Program], options: &Options, site: &Site) -> Result<Table> {
    eprintln!("{}, {}: {}", site.name, workload.name, workload.title);
    let workspace = surroundings::workspace(&site.dir)?;
    let measured = row::measure(workload, programs, options, &workspace);
    workspace.finish()?;
    let mut table = measured?;
    if let Some((row, why)) = table.rows.iter().find_map(|row| Some((row, row.wrong.as_ref().or(row.failed.as_ref())?)))
    {
        return Err(format!("{}: {why}", row.name));
    }
    table.name = format!("{} {}", site.name, table.name);
    Ok(table)
}

/// What the kernel does, with one thread and with as many as there are cores.
fn profile(workload: &Workload, programs: &[Program], options: &Options, site: &Site) -> Result<String> {
    let cores = format!("-j{} ", Machine::here().cores);
    let wanted = |program: &&Program| program.name.contains("-j1 ") || program.name.contains(&cores);
    let programs: Vec<Program> = programs.iter().filter(wanted).cloned().collect();
    let workspace = surroundings::workspace(&site.dir)?;
    let text = row::profile(workload, &programs, options, workspace.path());
    workspace.finish()?;
    text
}

/// Saves what there is after each workload.
fn keep(options: &Options, about: &[String], tables: &[Table], curves: &[Curve]) -> Result {
    if let Some(file) = &options.json {
        shell::write(file, &record::write(about, tables))?;
    }
    match &options.svg {
        Some(file) => shell::write(file, &picture::draw(curves)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_from_one_to_twice_the_cores_and_include_both() {
        assert_eq!(threads(1), [1, 2]);
        assert_eq!(threads(2), [1, 2, 3, 4]);
        assert_eq!(threads(10), [1, 2, 3, 4, 6, 8, 10, 12, 16, 20]);
    }

    #[test]
    fn nothing_in_memory_is_cold() {
        let options = options(&[]).unwrap();
        let site = Site { name: "tmpfs", dir: MEMORY.into(), fs: Fs::Dir };
        let names: Vec<String> = workloads(&options, &site).into_iter().map(|workload| workload.name).collect();
        assert_eq!(names, ["many", "one", "large"]);
    }
}
