//! What haul-lab has measured in the guests: kept below `target/vm/results`, compared, shown.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::table::{Row, Table, Verdict};
use crate::shell::{self, Result};

/// The results of a case on a kernel.
pub struct Saved {
    kernel: String,
    case: String,
    file: PathBuf,
}

impl Saved {
    /// Writes what the guest has sent.
    pub fn keep(dir: &Path, kernel: &str, case: &str, text: &str) -> Result<Saved> {
        let dir = dir.join("results");
        shell::make_dir(&dir)?;
        let file = dir.join(format!("{case}-{kernel}.json"));
        shell::write(&file, text)?;
        Ok(Saved { kernel: kernel.into(), case: case.into(), file })
    }
}

/// The report of results, compared with others.
fn report(programs: &Path, now: &Saved, baseline: Option<&Saved>) -> Result<String> {
    let mut command = shell::command(programs.join("haul-lab"));
    command.arg("report").arg(&now.file).arg("--width=120");
    command.args(baseline.map(|one| format!("--baseline={}", one.file.display())));
    shell::output(&mut command)
}

/// The sentence of a report that counts what both kernels have.
fn compared(report: &str, now: &str, baseline: &str) -> Result<String> {
    // Lines end anywhere.
    let text = report.split_whitespace().collect::<Vec<_>>().join(" ");
    // The report has the kernels from the files themselves.
    if !text.contains(&format!("kernel {now}.")) || !text.contains(&format!("and not {baseline}.")) {
        return Err("the two files are not of these two kernels".into());
    }
    let sentence = text.split_once(" Of ").and_then(|(_, rest)| rest.split_once(" stands out."));
    sentence.map(|(words, _)| format!("of {words} stands out")).ok_or_else(|| "nothing was compared".into())
}

/// Adds a row for each case that was measured on several kernels: whether the last compares with the first.
pub fn compare(programs: &Path, saved: &[Saved], table: &mut Table) {
    for (number, baseline) in saved.iter().enumerate() {
        let same = |one: &&Saved| one.case == baseline.case;
        if saved[..number].iter().any(|one| same(&one)) {
            continue;
        }
        let Some(now) = saved[number + 1..].iter().rfind(same) else { continue };
        let start = Instant::now();
        let found =
            report(programs, now, Some(baseline)).and_then(|text| compared(&text, &now.kernel, &baseline.kernel));
        let row = Row {
            kernel: now.kernel.clone(),
            case: now.case.clone(),
            check: format!("compared with Linux {}", baseline.kernel),
            verdict: if found.is_ok() { Verdict::Right } else { Verdict::Wrong },
            seconds: start.elapsed().as_secs_f64(),
            chose: String::new(),
            found: found.unwrap_or_else(|why| why),
        };
        println!("{row}");
        table.rows.push(row);
    }
}

/// Prints the results of the second kernel beside those of the first, and where both are.
pub fn show(programs: &Path, saved: &[Saved], kernels: &[&str]) -> Result {
    let of = |kernel: &&str| saved.iter().find(|one| one.kernel == **kernel);
    let both: Option<Vec<&Saved>> = kernels.iter().map(of).collect();
    let Some([baseline, now]) = both.as_deref() else { return Err("not both kernels have results".into()) };
    println!("\n{}", report(programs, now, Some(baseline))?);
    let haul_lab = programs.join("haul-lab");
    println!("{} report {} --baseline={}", haul_lab.display(), now.file.display(), baseline.file.display());
    Ok(())
}

/// Says where results are, and shows each, if that is wanted.
pub fn list(programs: &Path, saved: &[Saved], shown: bool) -> Result {
    for one in saved {
        if shown {
            println!("\n{}", report(programs, one, None)?);
        }
        println!("{} report {}", programs.join("haul-lab").display(), one.file.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_of_both_kernels_and_of_something() {
        let text = "x. Of 3 cases that both have, 1 is\n  faster, and 2 without a difference that\nstands out. Not only the \
                    copiers may differ: kernel\n6.12.9 and not 5.10.0-33.";
        let found = compared(text, "6.12", "5.10").unwrap();
        assert_eq!(found, "of 3 cases that both have, 1 is faster, and 2 without a difference that stands out");
        assert!(compared(text, "6.1", "5.10").is_err());
        assert!(compared("kernel 6.12.9 and not 5.10.0", "6.12", "5.10").is_err());
    }
}
