//! Touching memory before a timed run.

use std::process::Stdio;

use super::Own;
use crate::words;

const PAGE: usize = 4096;

/// The name of the part of this program that touches memory.
pub const PART: &str = "touch-memory";

/// Touches `bytes` of memory in a process of its own, so that the pages are free and present afterwards. Never more than 60 % of
/// what is available, since this must not push a warm source out of the page cache.
///
/// # Errors
/// When the process cannot be started or fails.
pub fn warm(own: &Own, bytes: u64) -> Result<(), String> {
    let bytes = bytes.min(available()? / 5 * 3);
    let mut command = own.part(PART);
    command.arg(bytes.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cannot touch {} of memory: {status}", words::bytes(bytes))),
        Err(error) => Err(format!("cannot start this program again: {}", words::of(&error))),
    }
}

/// The process: touches so many bytes and ends.
///
/// # Errors
/// When the argument is no number.
pub fn touch(argument: &str) -> Result<(), String> {
    let bytes: usize = argument.parse().map_err(|_no_number| format!("{argument:?} is no number of bytes"))?;
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
    Ok(())
}

/// Bytes of memory that new work may take.
///
/// # Errors
/// When /proc cannot be read.
pub fn available() -> Result<u64, String> {
    figure("MemAvailable:")
}

/// A figure of /proc/meminfo in bytes.
///
/// # Errors
/// When there is none of that name.
pub fn figure(name: &str) -> Result<u64, String> {
    let table = std::fs::read_to_string("/proc/meminfo")
        .map_err(|error| format!("cannot read /proc/meminfo: {}", words::of(&error)))?;
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or(format!("/proc/meminfo has no {name}"))
}
