//! `cargo xtask fuzz`: every parser of haul-guest, and the readers of journals and file lists, under libFuzzer, as many at
//! once as there are cores.
//!
//! The programs are in `fuzz/`, a workspace of its own. They are built by plain cargo with the flags that cargo-fuzz would give it;
//! `cargo fuzz run` works there too, with `HAUL_SEEDS` set to `target/fuzz/seeds`. There is no sanitizer, since the parsers
//! forbid unsafe code; overflows and debug assertions are checked.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::shell::{self, Result};

/// What makes libFuzzer see where the program has been. Not what it compares: that costs half of all runs and more, and
/// reaches less in the same time.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1";

/// What is not read from images begins with nothing.
const WITHOUT_SEEDS: [&str; 2] = ["journal", "list"];

/// Limits of a run: memory at all and at once in MiB, seconds of one input, bytes of one input, and how soon they grow.
const LIMITS: [&str; 5] =
    ["-rss_limit_mb=512", "-malloc_limit_mb=128", "-timeout=10", "-max_len=512", "-len_control=20"];

/// Runs the targets that are named, or all.
pub fn run(args: &[String]) -> Result {
    let (seconds, names) = args.split_first().ok_or("how many seconds for each target?")?;
    // None would be no limit.
    let seconds = seconds.parse::<u64>().ok().filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or("the first argument is a number of seconds, at least 1")?;
    let place = shell::target().join("fuzz");
    // What begins with nothing needs none of the programs that make images.
    let with_seeds = names.is_empty() || names.iter().any(|name| !WITHOUT_SEEDS.contains(&name.as_str()));
    let mut all = if with_seeds { seeds(&place.join("seeds"))? } else { Vec::new() };
    all.extend(WITHOUT_SEEDS.map(|name| (name.to_owned(), 0)));
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!("no target {unknown:?}; there are: {}", known.join(" ")));
    }
    let programs = build(&place, names)?;
    all.retain(|(name, _)| names.is_empty() || names.contains(name));
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>9} {:>7} {:>7} {:>6}  crashes",
        format!("targets: {}", all.len()),
        "runs",
        "seconds",
        "runs/s",
        "coverage",
        "seeds'",
        "corpus",
        "MiB"
    );
    let crashed = side_by_side(&all, |name, count| one(name, &programs.join(name), &place, count, seconds))?;
    if crashed.is_empty() { Ok(()) } else { Err(format!("crashed: {}", crashed.join(", "))) }
}

/// Runs as many of the targets at once as there are cores; the names of those that crashed, in their order.
fn side_by_side(targets: &[(String, u8)], run: impl Fn(&str, u8) -> Result<bool> + Sync) -> Result<Vec<&str>> {
    let waiting = Mutex::new(targets.iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one_after_another = || {
        let mut crashed = Vec::new();
        while let Some((name, count)) = next() {
            if *count == 0 && !WITHOUT_SEEDS.contains(&name.as_str()) {
                println!("{name:<12} no seeds can be made here");
            } else if !run(name, *count)? {
                crashed.push(name.as_str());
            }
        }
        Ok(crashed)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from).min(targets.len().max(1));
    let ended = thread::scope(|scope| {
        let hands: Vec<_> = (0..cores).map(|_| scope.spawn(one_after_another)).collect();
        hands.into_iter().map(|hand| hand.join().unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    let crashed = ended.into_iter().collect::<Result<Vec<Vec<&str>>>>()?.concat();
    Ok(targets.iter().map(|(name, _)| name.as_str()).filter(|name| crashed.contains(name)).collect())
}

/// The targets, and how many seeds there are of each. Those that are there stay, since inputs mean something only together
/// with them.
fn seeds(dir: &Path) -> Result<Vec<(String, u8)>> {
    let failed = shell::at(dir);
    if !dir.exists() {
        let new = dir.with_extension("new");
        shell::remove(&new)?;
        let mut make = shell::cargo();
        make.args(["run", "--locked", "--quiet", "--package", "haul-forge", "--bin", "make-seeds", "--"]).arg(&new);
        shell::output(&mut make)?;
        fs::rename(&new, dir).map_err(failed)?;
    }
    let mut targets = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let count = fs::read_dir(entry.path()).map_err(failed)?.count();
        targets.push((entry.file_name().to_string_lossy().into_owned(), u8::try_from(count).unwrap_or(u8::MAX)));
    }
    targets.sort();
    Ok(targets)
}

/// Builds the programs of these names, or all; gives the directory in which they are.
fn build(place: &Path, names: &[String]) -> Result<PathBuf> {
    let host = shell::nightly_host()?;
    let mut cargo = shell::nightly("cargo");
    // With --target the flags are not for build scripts.
    cargo.args(["build", "--locked", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    if names.is_empty() {
        cargo.arg("--bins");
    }
    for name in names {
        cargo.args(["--bin", name]);
    }
    cargo.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", place.join("build"));
    shell::run(&mut cargo)?;
    Ok(place.join("build").join(host).join("release"))
}

/// Runs one target and prints its line; `false` if it crashed.
fn one(name: &str, program: &Path, place: &Path, count: u8, seconds: u64) -> Result<bool> {
    let (corpus, artifacts) = (place.join("corpus").join(name), place.join("artifacts").join(name));
    let failed = shell::at(place);
    for dir in [&corpus, &artifacts] {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    // Each seed as it is, and with its checksums fixed.
    for input in 0..count.min(127) * 2 {
        fs::write(corpus.join(format!("seed-{input}")), [input]).map_err(failed)?;
    }
    let mut fuzzer = Command::new(program);
    fuzzer.arg(&corpus).args(LIMITS).arg(format!("-max_total_time={}", seconds)).arg("-print_final_stats=1");
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display())).env("HAUL_SEEDS", place.join("seeds"));
    fuzzer.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let output = fuzzer.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let took = start.elapsed();
    let text = String::from_utf8_lossy(&output.stderr);
    fs::write(place.join(format!("{name}.log")), &output.stderr).map_err(failed)?;
    let seen = Seen::in_log(&text);
    let kept = fs::read_dir(&corpus).map_err(failed)?.count();
    let crashes = if output.status.success() { "none".to_owned() } else { format!("yes: {}", trouble(&text)) };
    println!(
        "{name:<12} {:>10} {:>8.0} {:>8} {:>9} {:>7} {kept:>7} {:>6}  {crashes}",
        seen.runs,
        took.as_secs_f64(),
        seen.speed,
        seen.coverage.1,
        seen.coverage.0,
        seen.memory
    );
    Ok(output.status.success())
}

/// What libFuzzer says of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    runs: u64,
    speed: u64,
    memory: u64,
    /// Places in the program that were reached by the corpus at the start, and at the end.
    coverage: (u64, u64),
}

impl Seen {
    fn in_log(text: &str) -> Seen {
        let mut seen = Seen::default();
        for line in text.lines() {
            let number = |rest: &str| rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
            if let Some((_, rest)) = line.split_once(" cov: ") {
                seen.coverage.1 = number(rest);
                if line.contains("INITED") {
                    seen.coverage.0 = seen.coverage.1;
                }
            }
            for (name, field) in [
                ("stat::number_of_executed_units:", &mut seen.runs),
                ("stat::average_exec_per_sec:", &mut seen.speed),
                ("stat::peak_rss_mb:", &mut seen.memory),
            ] {
                if let Some(rest) = line.strip_prefix(name) {
                    *field = number(rest);
                }
            }
        }
        seen
    }
}

/// The lines of a log that say what went wrong.
fn trouble(text: &str) -> String {
    let relevant = |line: &&str| {
        ["panicked at", "ERROR: libFuzzer", "Test unit written to"].iter().any(|words| line.contains(words))
    };
    text.lines().filter(relevant).map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Checks that the programs build, with this toolchain and without libFuzzer itself.
pub fn check() -> Result<String> {
    let mut cargo = shell::cargo();
    cargo.args([
        "check",
        "--locked",
        "--quiet",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--no-default-features",
        "--all-targets",
    ]);
    cargo.env("CARGO_TARGET_DIR", shell::target().join("fuzz/check"));
    shell::run(&mut cargo).map(|()| "the targets build".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_runs_once_and_those_that_crash_are_named() {
        let targets = ["a", "b", "none", "list", "c"].map(|name| (name.to_owned(), u8::from(name.len() == 1)));
        let ran = Mutex::new(Vec::new());
        let crashed = side_by_side(&targets, |name, _| {
            ran.lock().unwrap().push(name.to_owned());
            Ok(!["c", "a"].contains(&name))
        });
        assert_eq!(crashed, Ok(vec!["a", "c"]));
        let mut ran = ran.into_inner().unwrap();
        ran.sort();
        assert_eq!(ran, ["a", "b", "c", "list"]);
        assert_eq!(side_by_side(&targets, |_, _| Err("cannot run".into())), Err("cannot run".to_owned()));
    }

    #[test]
    fn the_figures_of_a_run_are_read() {
        let log = "#3\tINITED cov: 120 ft: 130 corp: 2/2b exec/s: 0 rss: 40Mb\n#99\tNEW    cov: 150 ft: 3\n\
                   stat::number_of_executed_units: 1234\nstat::average_exec_per_sec:     56\nstat::peak_rss_mb: 78\n";
        assert_eq!(Seen::in_log(log), Seen { runs: 1234, speed: 56, memory: 78, coverage: (120, 150) });
    }
}
