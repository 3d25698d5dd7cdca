//! Touching memory before a timed run.

use std::path::Path;
use std::process::Stdio;

use crate::own::Own;
use crate::words;

const PAGE: usize = 4096;

/// The name of the part of this program that touches memory.
pub const PART: &str = "touch-memory";

/// Touches `bytes` of memory in a process of its own, so that the pages are free and present afterwards. Never more than 60 % of
/// what is available, since this must not push a warm source out of the page cache. `false` if that was not possible, as under
/// a limit that nobody tells; the run is as right as any other, and perhaps slower.
pub fn warm(own: &Own, bytes: u64) -> Result<bool, String> {
    let bytes = bytes.min(available()? / 5 * 3);
    let mut command = own.part(PART);
    command.arg(bytes.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| format!("cannot start this program again: {}", words::of(&error)))?;
    Ok(status.success())
}

/// The process: touches so many bytes and ends.
pub fn touch(argument: &str) -> Result<(), String> {
    let bytes: usize = argument.parse().map_err(|_no_number| format!("{argument:?} is no number of bytes"))?;
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
    Ok(())
}

/// Bytes of memory that new work may take, on this machine and in this control group.
pub(crate) fn available() -> Result<u64, String> {
    let machine = figure("MemAvailable:")?;
    // Page cache counts to what a group uses, and is given up when memory is needed, so this is less than there is.
    let left = |group: &Path| Some(number(group, "memory.max")?.saturating_sub(number(group, "memory.current")?));
    Ok(least_of_groups(left).map_or(machine, |left| left.min(machine)))
}

/// The least memory that the control group of this process and those above it may have, in bytes.
pub fn group_limit() -> Option<u64> {
    least_of_groups(|group| number(group, "memory.max"))
}

fn number(folder: &Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok() // "max" is no number
}

/// The least of a figure in the control group (version 2) and those above it.
fn least_of_groups(figure: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    root.join(own).ancestors().take_while(|folder| folder.starts_with(root)).filter_map(figure).min()
}

/// A figure of /proc/meminfo in bytes.
///
/// # Errors
/// When there is none of that name.
pub fn figure(name: &str) -> Result<u64, String> {
    let table = std::fs::read_to_string("/proc/meminfo").map_err(words::cannot("read", "/proc/meminfo".as_ref()))?;
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or(format!("/proc/meminfo has no {name}"))
}
