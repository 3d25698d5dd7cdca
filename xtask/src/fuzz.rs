//! `cargo xtask fuzz`: every parser of haul-guest, and the readers of journals and file lists, under libFuzzer, one
//! after the other.
//!
//! The programs are in `fuzz/`, a workspace of its own. They are built by plain cargo with the flags that cargo-fuzz would give it;
//! `cargo fuzz run` works there too, with `HAUL_SEEDS` set to `target/fuzz/seeds`. There is no sanitizer, since the parsers
//! forbid unsafe code; overflows and debug assertions are checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    let mut crashed = Vec::new();
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>8} {:>9} {:>7} {:>7} {:>6}  crashes",
        "target", "runs", "seconds", "cpu s", "runs/s", "coverage", "seeds'", "corpus", "MiB"
    );
    for (name, count) in all.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        if *count == 0 && !WITHOUT_SEEDS.contains(&name.as_str()) {
            println!("{name:<12} no seeds can be made here");
            continue;
        }
        if !one(name, &programs.join(name), &place, *count, seconds)? {
            crashed.push(name.as_str());
        }
    }
    if crashed.is_empty() { Ok(()) } else { Err(format!("crashed: {}", crashed.join(", "))) }
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
    let (cpu, start) = (cpu_of_children()?, Instant::now());
    let output = fuzzer.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let (cpu, took) = (cpu_of_children()?.saturating_sub(cpu), start.elapsed());
    let text = String::from_utf8_lossy(&output.stderr);
    fs::write(place.join(format!("{name}.log")), &output.stderr).map_err(failed)?;
    let seen = Seen::in_log(&text);
    let kept = fs::read_dir(&corpus).map_err(failed)?.count();
    let crashes = if output.status.success() { "none".to_owned() } else { format!("yes: {}", trouble(&text)) };
    println!(
        "{name:<12} {:>10} {:>8.0} {:>8.0} {:>8} {:>9} {:>7} {kept:>7} {:>6}  {crashes}",
        seen.runs,
        took.as_secs_f64(),
        cpu.as_secs_f64(),
        seen.speed,
        seen.coverage.1,
        seen.coverage.0,
        seen.memory
    );
    Ok(output.status.success())
}

/// The time that children which have ended took of the processors.
fn cpu_of_children() -> Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    // After the name, which may have spaces; cutime and cstime are fields 16 and 17.
    let fields = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = haul_sys::rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_millis(ticks * 1000 / per_second))
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
    fn the_figures_of_a_run_are_read() {
        let log = "#3\tINITED cov: 120 ft: 130 corp: 2/2b exec/s: 0 rss: 40Mb\n#99\tNEW    cov: 150 ft: 3\n\
                   stat::number_of_executed_units: 1234\nstat::average_exec_per_sec:     56\nstat::peak_rss_mb: 78\n";
        assert_eq!(Seen::in_log(log), Seen { runs: 1234, speed: 56, memory: 78, coverage: (120, 150) });
    }
}
