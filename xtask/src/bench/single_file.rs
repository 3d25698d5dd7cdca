//! `cargo xtask bench single-file`: one file of incompressible data, haul against cp.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use haul_measure::turns;
use haul_measure::workspace::Workspace;

use super::measure::{self, Program, Run};
use super::options::Options;
use super::place::{self, Image, Place};
use super::report::{self, Row};
use super::{limit, machine, surroundings};
use crate::shell::{self, Result};

/// Takes the arguments after `bench single-file`.
pub fn options(args: &[String]) -> Result<Options> {
    let usual = Options { size: 1 << 30, runs: 5, ..Options::default() };
    usual.parse(args, &["size", "runs", "engine", "place"])?.with_runs()
}

/// Times all programs at all places and prints a table for each.
///
/// # Errors
/// When cp or haul's own choice fails anywhere, or any copy is wrong. An engine may refuse.
pub fn run(args: &[String]) -> Result {
    let options = &options(args)?;
    let haul = surroundings::haul(None)?;
    place::enter_namespace()?;
    let programs = programs(&haul, &options.engines);
    let wanted = |name: &str| options.places.is_empty() || options.places.iter().any(|place| place == name);
    let images: Vec<&Image> = place::IMAGES.iter().filter(|image| wanted(image.name)).collect();
    if let Some(unknown) = options.places.iter().find(|name| !known(name)) {
        return Err(format!("no place {unknown:?}; there are: {}", place_names().join(", ")));
    }
    println!("One file of {} MiB, warm, {} runs, order rotating.", options.size >> 20, options.runs);
    println!("{}.", machine::describe(&haul)?);
    println!("A disturbed run had other load on the machine. RSS is never below that of the measuring program.\n");
    let workspace = surroundings::workspace(&std::env::temp_dir())?;
    let measured = places(options, &programs, &images, &workspace);
    workspace.finish()?;
    match measured? {
        None => {}
        Some(slower) if slower.is_empty() => {
            println!("haul returned at least as early as cp everywhere (ratio of medians at most 1.00).");
        }
        Some(slower) => println!("haul returned later than cp (ratio of medians above 1.00): {}.", slower.join("; ")),
    }
    Ok(())
}

/// Measures at all places; those where haul returned later than cp, or `None` where not all could be measured.
fn places(
    options: &Options,
    programs: &[Program],
    images: &[&Image],
    workspace: &Workspace,
) -> Result<Option<Vec<String>>> {
    let copies = (options.runs * programs.len()) as u64;
    // The source, a copy for each run, and the file of the limit.
    let data = options.size.saturating_mul(copies + 2);
    let base = workspace.path();
    let mut slower = Vec::new();
    let mut measure = |place: Place, reflink: bool| -> Result {
        let answer = one_place(&place, programs, options, reflink, workspace);
        let title = place.title.clone();
        place.remove()?;
        if !answer? {
            slower.push(title);
        }
        Ok(())
    };
    if options.places.is_empty() || options.places.iter().any(|place| place == place::TEMPORARY) {
        measure(Place::plain_in(base, data)?, false)?;
    }
    if !shell::is_root() && !images.is_empty() {
        let names: Vec<&str> = images.iter().map(|image| image.name).collect();
        println!("Not measured, since this is not root: {}.", names.join(", "));
        return Ok(None);
    }
    for image in images {
        let space = if image.reflink {
            options.size.saturating_mul(3 + options.engines.len() as u64 * options.runs as u64)
        } else {
            data
        };
        measure(Place::image_in(base, image, space)?, image.reflink)?;
    }
    Ok(Some(slower))
}

fn known(name: &str) -> bool {
    place_names().contains(&name)
}

fn place_names() -> Vec<&'static str> {
    let mut names = vec![place::TEMPORARY];
    names.extend(place::IMAGES.iter().map(|image| image.name));
    names
}

/// cp first, as the others are compared with it; then haul's own choice, then the engines asked for.
fn programs(haul: &Path, engines: &[String]) -> Vec<Program> {
    let mut programs = vec![
        Program { name: "cp".into(), words: vec!["cp".into()] },
        Program { name: "haul".into(), words: vec![haul.into()] },
    ];
    programs.extend(engines.iter().map(|engine| Program {
        name: format!("haul --engine={engine}"),
        words: vec![haul.into(), format!("--engine={engine}").into()],
    }));
    programs
}

/// Whether an engine that was asked for leaves this place's files to another one: then its row is not about it.
fn fallback(program: &Program, dir: &Path) -> Result<bool> {
    let Some(engine) = program.words.iter().find_map(|word| word.to_str()?.strip_prefix("--engine=")) else {
        return Ok(false);
    };
    let (source, dest) = (dir.join("small"), dir.join(format!("small-{engine}")));
    fs::write(&source, vec![b'x'; 1 << 20]).map_err(shell::at(&source))?;
    let mut words = program.words.iter();
    let mut command = shell::command(words.next().ok_or("a program without a name")?);
    command.args(words).arg("--explain").arg(&source).arg(&dest);
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", program.name))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).contains(&format!("{engine}: refused")))
}

/// Measures and prints; whether haul returned at least as early as cp.
fn one_place(
    place: &Place,
    programs: &[Program],
    options: &Options,
    reflink: bool,
    workspace: &Workspace,
) -> Result<bool> {
    eprintln!("{} ...", place.title);
    let source = place.dir.join("source");
    let write = || -> io::Result<()> {
        let mut file = File::create(&source)?;
        io::copy(&mut File::open("/dev/urandom")?.take(options.size), &mut file)?;
        file.sync_all()
    };
    write().map_err(shell::at(&source))?;
    let limit = if reflink { None } else { limit::measure(&place.dir, options.size)? };

    let mut rows = Vec::new();
    for program in programs {
        let fell_back = fallback(program, &place.dir)?;
        let name = format!("{}{}", program.name, if fell_back { " (refused, fell back)" } else { "" });
        rows.push(Row { name, samples: Vec::new(), refused: None });
    }
    for round in 0..options.runs {
        for which in turns::order(round, programs.len()) {
            let dest = place.dir.join(format!("copy-{which}-{round}"));
            match measure::run(&programs[which], &source, &dest, workspace)? {
                Run::Measured(cost) => rows[which].samples.push(cost),
                Run::Refused(why) => rows[which].refused = Some(why),
            }
        }
    }
    println!("{}", report::table(&place.title, &rows, limit));
    if let Some(row) = rows.iter().take(2).find(|row| row.refused.is_some()) {
        return Err(format!("{} failed: {}", row.name, row.refused.as_deref().unwrap_or_default()));
    }
    // Removed only now: ext4 is slow for a while after a large file was deleted.
    fs::remove_file(&source).map_err(shell::at(&source))?;
    let medians: Vec<f64> = rows.iter().filter_map(|row| Some(row.returned()?.median)).collect();
    Ok(medians.len() >= 2 && medians[1] <= medians[0])
}
