//! What copies and their launchers wait for, on the machine where this is asked.

use std::fs;
use std::path::{Path, PathBuf};

/// For each of their threads its name, CPU time in clock ticks, and what it waits for in the kernel.
pub fn threads() -> String {
    let mut said = String::new();
    for process in below(Path::new("/proc")).filter(|at| is_ours(at)) {
        for thread in below(&process.join("task")) {
            let stack = fs::read_to_string(thread.join("stack")).unwrap_or_default();
            let calls: Vec<&str> = stack.lines().filter_map(|line| line.split([' ', '+']).nth(1)).take(8).collect();
            let (at, name, calls) = (thread.display(), name(&thread), calls.join(" "));
            said += &format!("{at} {name} {} ticks: {calls}; ", ticks(&thread));
        }
    }
    said
}

fn below(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(at: &Path) -> String {
    fs::read_to_string(at.join("comm")).unwrap_or_default().trim().to_owned()
}

fn is_ours(at: &Path) -> bool {
    ["haul", "mpi", "orted", "hydra", "ssh"].iter().any(|begin| name(at).starts_with(begin))
}

/// The fields utime and stime, the 14th and the 15th.
fn ticks(thread: &Path) -> u64 {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}
