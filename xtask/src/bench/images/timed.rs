//! One timed run, and whether the copy is right.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Instant;

use haul_measure::workspace::Workspace;
use haul_sys::child;
use haul_sys::rustix::fs::syncfs;
use haul_sys::rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::super::machine::Load;
use super::super::warm_memory;
use super::past::Mount;
use super::programs::Program;
use super::record::{Image, Sample};
use crate::shell::{self, Result};

/// Copies the image with one program. The copy is removed afterwards.
///
/// # Errors
/// When the machinery fails.
pub fn run(program: &Program, image: &Image, cold: bool, workspace: &Workspace) -> Result<Sample> {
    let scratch = workspace.path();
    let dest = scratch.join("copy");
    let sample = measure(program, image, cold, &dest, workspace).and_then(|mut sample| {
        if sample.failed.is_none() {
            sample.failed = wrong(image, &dest, scratch)?;
        }
        Ok(sample)
    });
    if dest.exists() {
        fs::remove_file(&dest).map_err(|error| format!("{}: {error}", dest.display()))?;
    }
    sample
}

fn measure(program: &Program, image: &Image, cold: bool, dest: &Path, workspace: &Workspace) -> Result<Sample> {
    let place = dest.parent().unwrap_or(dest);
    let place = File::open(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let sync = || syncfs(&place).map_err(|error| format!("syncfs: {error}"));
    sync()?;
    if cold {
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| format!("/proc/sys/vm/drop_caches: {error}"))?;
        warm_memory(2 * image.size)?;
    } else {
        warm_memory(image.size)?;
        let mut read = shell::command("cat");
        shell::run(read.arg(&image.path).stdout(Stdio::null()))?;
    }
    if program.sized {
        let made = File::create(dest).and_then(|file| file.set_len(image.size));
        made.map_err(|error| format!("{}: {error}", dest.display()))?;
    }
    let word = |word: &String| match word.as_str() {
        "IMAGE" => image.path.clone().into_os_string(),
        "COPY" => dest.as_os_str().to_owned(),
        other => other.into(),
    };
    // The program itself is in memory in either case.
    let mut tell = shell::command(&program.words[0]);
    tell.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    tell.status().map_err(|error| format!("cannot run {}: {error}", program.name))?;
    let mut command = shell::command(&program.words[0]);
    command.args(program.words[1..].iter().map(word)).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let before = Load::now()?;
    let start = Instant::now();
    let mut process = command.spawn().map_err(|error| format!("cannot run {}: {error}", program.name))?;
    workspace.watch(Some(process.id()))?;
    let id = process.id();
    let mut said = Vec::new();
    if let Some(mut stderr) = process.stderr.take() {
        stderr.read_to_end(&mut said).map_err(|error| format!("{}: {error}", program.name))?;
    }
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("no process")?;
    // Ended, but not reaped: its counts are there until it is.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .map_err(|error| format!("waitid: {error}"))?;
    let returned = start.elapsed().as_secs_f64();
    let io = fs::read_to_string(format!("/proc/{id}/io")).map_err(|error| format!("/proc/{id}/io: {error}"))?;
    let ended = child::wait(process).map_err(|error| format!("cannot wait for {}: {error}", program.name))?;
    workspace.watch(None)?;
    sync()?;
    let durable = start.elapsed();
    let load = Load::now()?.since(before);
    let status = ExitStatus::from_raw(ended.status);
    let said = String::from_utf8_lossy(&said);
    let failed = (!status.success()).then(|| format!("{status}: {}", said.lines().next().unwrap_or_default()));
    let count = |name: &str| -> Result<u64> {
        let value = io.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.trim().parse().ok());
        value.ok_or(format!("/proc/{id}/io has no {name}"))
    };
    Ok(Sample {
        read: count("rchar:")?,
        written: count("wchar:")?,
        fetched: count("read_bytes:")?,
        returned,
        durable: durable.as_secs_f64(),
        user: ended.user.as_secs_f64(),
        system: ended.system.as_secs_f64(),
        memory: ended.max_rss_kib << 10,
        allocated: fs::metadata(dest).map(|meta| meta.blocks() * 512).unwrap_or_default(),
        disturbed: load.disturbs(ended.user, durable),
        failed,
    })
}

/// What is wrong with a copy: its size, the filesystem in it, or a file.
fn wrong(image: &Image, dest: &Path, scratch: &Path) -> Result<Option<String>> {
    let size = fs::metadata(dest).map_err(|error| format!("{}: {error}", dest.display()))?.len();
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
