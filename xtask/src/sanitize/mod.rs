//! `cargo xtask sanitize`: the code that may be `unsafe`, and what calls it, under AddressSanitizer, ThreadSanitizer and Miri.
//!
//! All three need a nightly toolchain, ThreadSanitizer and Miri also the source of the standard library (rust-src).

mod copies;
mod coverage;
mod place;
mod tool;

use std::fs;
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::leftovers::Scratch;
use crate::shell::{self, Result};
use place::Place;
use tool::Tool;

/// What one tool found in one part.
struct Row {
    tool: Tool,
    part: &'static str,
    passed: u64,
    failed: u64,
    /// Tests that were skipped, and looks that tests could not take.
    skipped: u64,
    findings: u64,
    time: Duration,
    /// What went wrong, if something did.
    trouble: Option<String>,
}

impl Row {
    fn is_good(&self) -> bool {
        self.failed == 0 && self.findings == 0 && self.passed > 0 && self.trouble.is_none()
    }
}

/// Runs the tools that are named, or the usual ones.
pub fn run(args: &[String]) -> Result {
    let mut tools = Vec::new();
    for arg in args {
        tools.push(Tool::named(arg).ok_or_else(|| format!("no tool {arg:?}; there are: address thread miri"))?);
    }
    if tools.is_empty() {
        tools.extend(Tool::USUAL);
    }
    let host = shell::nightly_host()?;
    let scratch = Scratch::new()?;
    let mut rows = Vec::new();
    let mut covered = Vec::new();
    for tool in tools {
        let place = Place::new(tool, &host, scratch.path())?;
        rows.extend(all_parts(&place)?);
        if tool != Tool::Miri {
            covered
                .push((tool, coverage::read(&place.coverage(), &[place.programs(), place.programs().join("deps")])?));
        }
    }
    if !covered.is_empty() {
        coverage::print(&covered)?;
    }
    let left = scratch.finish();
    print(&rows);
    left?;
    let bad = rows.iter().filter(|row| !row.is_good()).count();
    if bad == 0 { Ok(()) } else { Err(format!("{bad} of {} parts failed or have findings", rows.len())) }
}

fn all_parts(place: &Place) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (part, arguments) in place.tool.parts() {
        println!("\n==> {}: {part}", place.tool.name());
        rows.push(tests(place, part, arguments)?);
    }
    if place.tool == Tool::Address {
        println!("\n==> {}: copies", place.tool.name());
        rows.push(copies(place)?);
    }
    Ok(rows)
}

fn tests(place: &Place, part: &'static str, arguments: &[&str]) -> Result<Row> {
    let skip_log = place.dir.join("skips.log");
    fs::write(&skip_log, "").map_err(shell::at(&skip_log))?;
    let mut cargo = place.tests(arguments);
    cargo.env("HAUL_SKIP_LOG", &skip_log);
    let before = findings(place)?;
    let start = Instant::now();
    let counts = Counts::of(&mut cargo)?;
    let time = start.elapsed();
    let skips = fs::read_to_string(&skip_log).map_err(shell::at(&skip_log))?;
    for name in &counts.failures {
        println!("failed: {name}");
    }
    Ok(Row {
        tool: place.tool,
        part,
        passed: counts.passed,
        failed: counts.failed,
        skipped: counts.ignored + skips.lines().count() as u64,
        findings: findings(place)?.saturating_sub(before),
        time,
        trouble: counts.trouble,
    })
}

fn copies(place: &Place) -> Result<Row> {
    shell::run(&mut place.program())?;
    let before = findings(place)?;
    let start = Instant::now();
    let (passed, failed) = copies::run(place)?;
    let time = start.elapsed();
    let findings = findings(place)?.saturating_sub(before);
    Ok(Row { tool: place.tool, part: "copies", passed, failed, skipped: 0, findings, time, trouble: None })
}

/// How many findings the tool has reported so far; it prints those that are new.
fn findings(place: &Place) -> Result<u64> {
    let mut count = 0;
    for path in shell::entries(&place.reports())? {
        let failed = shell::at(&path);
        let text = String::from_utf8_lossy(&fs::read(&path).map_err(failed)?).into_owned();
        let found = tool::findings_in(&text);
        if found > 0 && path.extension().is_none_or(|extension| extension != "shown") {
            println!("{text}");
            let shown = format!("{}.shown", path.display());
            fs::rename(&path, shown).map_err(failed)?;
        }
        count += found;
    }
    Ok(count)
}

fn print(rows: &[Row]) {
    println!(
        "\n{:<8} {:<12} {:>7} {:>7} {:>8} {:>9} {:>8}",
        "tool", "part", "passed", "failed", "skipped", "findings", "seconds"
    );
    for row in rows {
        println!(
            "{:<8} {:<12} {:>7} {:>7} {:>8} {:>9} {:>8.0}  {}",
            row.tool.name(),
            row.part,
            row.passed,
            row.failed,
            row.skipped,
            row.findings,
            row.time.as_secs_f64(),
            row.trouble.as_deref().unwrap_or_default()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            tool: Tool::Address,
            part: "suites",
            passed: 3,
            failed: 0,
            skipped: 0,
            findings: 0,
            time: Duration::ZERO,
            trouble: None,
        }
    }

    #[test]
    fn a_part_is_good_only_if_something_ran_and_nothing_was_found() {
        assert!(row().is_good());
        assert!(!Row { passed: 0, ..row() }.is_good());
        assert!(!Row { failed: 1, ..row() }.is_good());
        assert!(!Row { findings: 1, ..row() }.is_good());
        assert!(!Row { trouble: Some("signal 6".into()), ..row() }.is_good());
    }
}
