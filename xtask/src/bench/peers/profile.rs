//! What the kernel did during a copy: `perf`, where the machine has it.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use crate::shell::{self, Result};

/// Lines of the profile that are shown.
const SHOWN: usize = 30;

/// Runs the commands and a sync of the destination's filesystem under `perf record`, all processors, and gives the
/// symbols with most samples; with `perf stat` where nothing can be recorded.
///
/// # Errors
/// When the copy fails, or there is no perf at all.
pub fn run(commands: Vec<Vec<OsString>>, place: &Path, scratch: &Path) -> Result<String> {
    if !shell::has("perf") {
        return Err("there is no perf; Debian has it in linux-perf".into());
    }
    let data = scratch.join("perf.data");
    // One shell for all, so that one recording has everything until the copy is durable.
    let mut script = String::new();
    for words in &commands {
        let quoted: Vec<String> = words.iter().map(|word| quote(&word.to_string_lossy())).collect();
        script += &format!("{} || exit 1\n", quoted.join(" "));
    }
    script += &format!("sync -f {}\n", quote(&place.to_string_lossy()));
    let mut record = shell::command("perf");
    record.args(["record", "--quiet", "-a", "-g", "-F", "997", "-o"]).arg(&data);
    record.args(["--", "sh", "-c"]).arg(&script).stdout(Stdio::null()).stderr(Stdio::null());
    if shell::run(&mut record).is_err() {
        let mut stat = shell::command("perf");
        stat.args(["stat", "-a", "--", "sh", "-c"]).arg(&script).stdout(Stdio::null());
        let output = stat.output().map_err(|error| format!("perf stat: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "neither perf record nor perf stat works: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        return Ok(block(&String::from_utf8_lossy(&output.stderr)));
    }
    let mut text = String::new();
    for sort in ["comm", "symbol", "comm,symbol"] {
        let mut report = shell::command("perf");
        report.args(["report", "--stdio", "--no-children", "-g", "none", "--sort", sort, "-i"]).arg(&data);
        let said = report.stderr(Stdio::null()).output().map_err(|error| format!("perf report: {error}"))?;
        text += &format!("By {sort}:\n\n{}\n", block(&String::from_utf8_lossy(&said.stdout)));
    }
    Ok(text)
}

/// The lines that say something, as a Markdown block.
fn block(report: &str) -> String {
    let lines = report.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(|line| line.trim_end_matches(['-', ' '])).take(SHOWN);
    format!("```\n{}\n```\n", lines.collect::<Vec<_>>().join("\n"))
}

/// As one word of a shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_of_a_shell_as_they_went_in() {
        let word = r#"it's "$1" \ and *"#;
        let said = shell::output(shell::command("sh").arg("-c").arg(format!("printf %s {}", quote(word)))).unwrap();
        assert_eq!(said, word);
    }

    #[test]
    fn headings_and_empty_columns_are_skipped() {
        assert_eq!(block("# head\n\n  50.0%  [k] copy  -  -  \n"), "```\n  50.0%  [k] copy\n```\n");
    }
}
