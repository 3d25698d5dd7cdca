//! Other programs, each in a line of words without quotes.

use std::io::Write;
use std::process::Stdio;

use haul_testbed::Command;
use haul_testbed::process::DEADLINE;

/// A program with its arguments.
pub fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    // The machine is emulated.
    command.args(words).stdin(Stdio::null()).deadline(12 * DEADLINE);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/lab").env("LC_ALL", "C").env("HOME", "/root");
    command
}

/// What the kernel's command line has behind `NAME=`.
pub fn word(name: &str) -> Result<Option<String>, String> {
    let words = std::fs::read_to_string("/proc/cmdline").map_err(|error| format!("/proc/cmdline: {error}"))?;
    let value = |word: &str| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned());
    Ok(words.split_whitespace().find_map(value))
}

/// Runs it; it must end well.
pub fn run(line: &str) -> Result<(), String> {
    output(line).map(drop)
}

/// Runs it for what it says; it must end well.
pub fn output(line: &str) -> Result<String, String> {
    finish(line, &mut command(line))
}

/// The same for words that need quotes.
pub fn finish(line: &str, command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{line}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{line}: {}: {} {}", output.status, text(&output.stderr), text(&output.stdout)))
}

/// Runs it with a text as its standard input.
pub fn feed(line: &str, text: &str) -> Result<(), String> {
    let failed = |error| format!("{line}: {error}");
    let mut command = command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// Looks again and again until something has happened, at most for two minutes.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) -> Result<(), String> {
    let start = std::time::Instant::now();
    while !happened() {
        if start.elapsed().as_secs() > 120 {
            return Err(format!("waited in vain: {what}"));
        }
        std::thread::yield_now();
    }
    Ok(())
}
