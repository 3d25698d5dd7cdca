//! What the measurements were made on, and what else was going on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::shell::{self, Result};

/// Lines that describe machine, kernel and programs.
///
/// # Errors
/// When /proc cannot be read or a program does not tell its version.
pub fn describe(haul: &Path) -> Result<String> {
    let cpu = read("/proc/cpuinfo")?;
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = meminfo("MemTotal:")? >> 20;
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let cp = first(shell::output(shell::command("cp").arg("--version"))?);
    let own = shell::output(shell::command(haul).arg("--version")).map(first)?;
    let commit = shell::output(shell::command("git").args(["rev-parse", "--short", "HEAD"])).unwrap_or_default();
    Ok(format!(
        "{}, {cores} cores, {memory} MiB, Linux {}; {own} (commit {}); {cp}",
        cpu.unwrap_or("unknown processor"),
        kernel.trim(),
        if commit.is_empty() { "unknown" } else { commit.trim() },
    ))
}

/// A figure of /proc/meminfo in bytes.
///
/// # Errors
/// When there is none of that name.
pub fn meminfo(name: &str) -> Result<u64> {
    let table = read("/proc/meminfo")?;
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or(format!("/proc/meminfo has no {name}"))
}

/// CPU time that all programs of the machine have used in user mode. Kernel threads, which write back what a copy
/// left behind, use none, so a difference beyond the timed program's own is other load.
///
/// # Errors
/// When /proc/stat cannot be read.
pub fn user_time() -> Result<Duration> {
    let table = read("/proc/stat")?;
    let mut fields = table.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let (user, nice) = (ticks(), ticks());
    let per_second = haul_sys::rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_millis((user + nice) * 1000 / per_second))
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}
