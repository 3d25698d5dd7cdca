//! One timed run, and whether the copy is right.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use haul_measure::cache::{self, Temperature};
use haul_measure::process::{self, Ended, Job};
use haul_measure::stop::Stop;
use haul_measure::workspace::Workspace;
use haul_sys::rustix::fs::syncfs;

use super::super::surroundings::{drop_caches, failure, warm_memory};
use super::past::Mount;
use super::programs::{Program, command};
use super::record::{Image, Sample};
use crate::shell::{self, Result};

/// Copies the image with one program. The copy is removed afterwards.
pub fn run(program: &Program, image: &Image, cold: bool, workspace: &Workspace) -> Result<Sample> {
    let scratch = workspace.path();
    let dest = scratch.join("copy");
    let sample = measure(program, image, cold, &dest, workspace).and_then(|mut sample| {
        if sample.failed.is_none() {
            sample.failed = wrong(image, &dest, scratch)?;
        }
        Ok(sample)
    });
    shell::remove(&dest)?;
    sample
}

fn measure(program: &Program, image: &Image, cold: bool, dest: &Path, workspace: &Workspace) -> Result<Sample> {
    let place = dest.parent().unwrap_or(dest);
    let place = File::open(place).map_err(shell::at(place))?;
    let sync = || syncfs(&place).map_err(|error| format!("syncfs: {error}"));
    sync()?;
    if cold {
        drop_caches()?;
        warm_memory(2 * image.size)?;
    } else {
        warm_memory(image.size)?;
        cache::prepare(&image.path, Temperature::Warm)?;
    }
    if program.sized {
        File::create(dest).and_then(|file| file.set_len(image.size)).map_err(shell::at(dest))?;
    }
    // The program itself is in memory in either case.
    let mut version = shell::command(&program.words[0]);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().map_err(|error| format!("cannot run {}: {error}", program.name))?;
    let (commands, timeout) = (vec![command(&program.words, &image.path, dest)], Duration::MAX);
    let job = Job { commands, place: &place, devices: (None, None), timeout, output: false };
    let finished = match process::run(job, workspace, &Stop::default())? {
        Ended::Finished(finished) => finished,
        other => return Err(failure(other, timeout)?),
    };
    let cost = finished.cost;
    let moved = cost.moved.ok_or("the kernel does not count what a process reads")?;
    let failed = if finished.status.success() { None } else { Some(failure(Ended::Finished(finished), timeout)?) };
    Ok(Sample {
        read: moved.read,
        written: moved.written,
        fetched: moved.fetched,
        returned: cost.returned.as_secs_f64(),
        durable: cost.durable.as_secs_f64(),
        user: cost.user.as_secs_f64(),
        system: cost.system.as_secs_f64(),
        memory: cost.peak_memory,
        allocated: fs::metadata(dest).map(|meta| meta.blocks() * 512).unwrap_or_default(),
        disturbed: cost.is_disturbed(),
        failed,
    })
}

/// What is wrong with a copy: its size, the filesystem in it, or a file.
fn wrong(image: &Image, dest: &Path, scratch: &Path) -> Result<Option<String>> {
    let size = fs::metadata(dest).map_err(shell::at(dest))?.len();
    if size != image.size {
        return Ok(Some(format!("the copy has {size} bytes")));
    }
    let quiet = |command: &mut std::process::Command| {
        let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.map_err(|error| format!("cannot run {}: {error}", shell::line(command)))
    };
    if !quiet(shell::command("e2fsck").arg("-fn").arg(dest))?.success() {
        return Ok(Some("e2fsck is not content".into()));
    }
    let options = ["loop", "ro", "noload"];
    let one = Mount::new(&image.path, &options, &scratch.join("one"))?;
    let two = Mount::new(dest, &options, &scratch.join("two"))?;
    let same = quiet(shell::command("diff").args(["-r", "-q"]).arg(&one.0).arg(&two.0));
    one.unmount()?;
    two.unmount()?;
    Ok((!same?.success()).then(|| "files differ".into()))
}
