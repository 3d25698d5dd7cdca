//! `cargo xtask bench images`: smartcp against whatever else copies disk images.
//!
//! The image is one ext4 filesystem that is full of live files (noise), files of zeros and deleted files (noise): the
//! proportions of smartcp's first published experiment. Nothing in it is a hole. Each copy is mounted and compared with
//! the image, file by file, and checked by e2fsck.

mod dirty;
mod past;
mod programs;
mod record;
mod table;
mod timed;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_measure::turns;
use haul_measure::workspace::Workspace;

use self::record::{Image, Results};
use super::options::{Options, wants};
use super::{machine, place, surroundings};
use crate::shell::{self, Result};

/// Takes the arguments after `bench images`.
pub fn options(args: &[String]) -> Result<Options> {
    let known = ["size", "runs", "dir", "image", "json", "haul", "only", "programs", "dirty"];
    let options = Options { size: 8 << 30, runs: 3, ..Options::default() }.parse(args, &known)?;
    if options.size < 256 << 20 {
        return Err("an image of less than 256M proves nothing".into());
    }
    if let Some(unknown) = options.programs.iter().find(|key| !programs::KEYS.contains(&key.as_str())) {
        return Err(format!("no program {unknown:?}; there are: {}", programs::KEYS.join(", ")));
    }
    match options.only.iter().find(|word| !["cold", "warm"].contains(&word.as_str())) {
        Some(other) => Err(format!("--only is cold or warm, not {other:?}")),
        None => Ok(options),
    }
}

/// Measures and prints tables.
///
/// # Errors
/// When the machinery fails, or a copy by smartcp is wrong.
pub fn run(args: &[String]) -> Result {
    let options = options(args)?;
    if !shell::is_root() {
        return Err("images must be mounted and caches dropped, which only root can".into());
    }
    let haul = surroundings::haul(options.haul.as_deref())?;
    place::enter_namespace()?;
    let base = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let workspace = surroundings::workspace(&base)?;
    let outcome = measure(&options, &haul, &workspace);
    workspace.finish()?;
    outcome
}

fn measure(options: &Options, haul: &Path, workspace: &Workspace) -> Result {
    let scratch = workspace.path();
    let smartcp = scratch.join("smartcp");
    let haul = haul.canonicalize().map_err(shell::at(haul))?;
    symlink(&haul, &smartcp).map_err(shell::at(&smartcp))?;
    let machine = machine::describe(&haul)?;
    println!("{machine}.\n");
    if options.dirty {
        return dirty::run(&smartcp, scratch);
    }
    let (programs, missing) = programs::all(&smartcp);
    for program in &programs {
        println!("* {}: `{}` ({})", program.name, program.line(), program.version);
    }
    for (name, why) in &missing {
        println!("* {name}: not measured, {why}");
    }
    println!();
    let image = image(options, scratch)?;
    let versions = programs.iter().map(|program| (program.key.to_owned(), program.version.clone())).collect();
    let mut results = Results::load(options.json.as_deref(), &image, (&machine, &versions))?;
    for round in 0..options.runs {
        for cold in [true, false].into_iter().filter(|cold| wants(&options.only, if *cold { "cold" } else { "warm" })) {
            for which in turns::order(results.rounds + round, programs.len()) {
                let program = &programs[which];
                if !wants(&options.programs, program.key) {
                    continue;
                }
                results.add(program.key, cold, timed::run(program, &image, cold, workspace)?);
                // Whoever ends it early keeps what was measured.
                results.save(options.json.as_deref())?;
            }
        }
    }
    results.rounds += options.runs;
    results.scan = scan(&smartcp, scratch)?;
    results.save(options.json.as_deref())?;
    println!("{}", table::markdown(&results, &programs));
    table::failed(&results)
}

/// The image: a given one that is there already, or a new one.
fn image(options: &Options, scratch: &Path) -> Result<Image> {
    let path = options.image.clone().unwrap_or_else(|| scratch.join("image"));
    if !path.exists() {
        made_whole(&path, |path| past::make(path, options.size, scratch))?;
    }
    past::look_at(&path, scratch)
}

/// Makes a file under another name, which it loses when it is whole: an interrupted run leaves none that the next one would measure.
fn made_whole(path: &Path, make: impl FnOnce(&Path) -> Result) -> Result {
    let name = path.file_name().ok_or_else(|| format!("{} is no name of a file", path.display()))?;
    let mut unfinished = name.to_owned();
    unfinished.push(".unfinished");
    let unfinished = path.with_file_name(unfinished);
    shell::remove(&unfinished)?;
    make(&unfinished)?;
    fs::rename(&unfinished, path).map_err(shell::at(path))
}

/// Bytes a second that the zero scan looks at on one core, in a copy: zeros, since it looks no further than the first byte
/// that is none. The time is the sum of all threads.
fn scan(smartcp: &Path, scratch: &Path) -> Result<f64> {
    const SIZE: u64 = 1 << 30;
    let (zeros, copy) = (scratch.join("zeros"), scratch.join("copy-of-zeros"));
    past::write_zeros(&zeros, SIZE)?;
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        let mut command = shell::command(smartcp);
        command.args(["-v", "-S", "no"]).arg(&zeros).arg(&copy);
        let said = shell::output(&mut command)?;
        let time = said.lines().rev().find_map(|line| line.trim().strip_prefix("time on scan:"));
        let time: Option<f64> = time.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let time = time.filter(|time| *time > 0.0).ok_or("smartcp -v reports no time on scan")?;
        best = best.max(SIZE as f64 / time);
    }
    for path in [&zeros, &copy] {
        fs::remove_file(path).map_err(shell::at(path))?;
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_was_not_finished_is_none() {
        let dir = haul_testbed::temp_dir();
        let image = dir.path().join("image");
        let half = |path: &Path| {
            fs::write(path, "half").map_err(shell::at(path))?;
            Err("interrupted".to_owned())
        };
        assert_eq!(made_whole(&image, half), Err("interrupted".to_owned()));
        assert!(!image.exists());
        let whole = |path: &Path| {
            assert!(!path.exists(), "the half one is gone");
            fs::write(path, "whole").map_err(shell::at(path))
        };
        made_whole(&image, whole).unwrap();
        assert_eq!(fs::read_to_string(&image).unwrap(), "whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
