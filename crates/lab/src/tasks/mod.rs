//! The commands: what each takes, and what it does with it.

mod answer;
mod help;
mod manual;
mod map;
mod measuring;
mod probe;
mod report;

use std::ffi::OsString;

use haul_measure::{memory, workspace};

use crate::experiments::mapped_write;
use crate::measure::controlled::readers;
use crate::measure::failure::Failure;
use crate::measure::{FOLDER, one_copy};
use crate::signals;

use answer::usage;

pub use answer::{Answer, Complaint};
pub use manual::page as manual_page;

/// Does what the words after the program's name say.
pub fn run(mut words: impl Iterator<Item = OsString>) -> Result<Answer, Complaint> {
    let Some(task) = words.next() else { return Err(usage("missing operand: what to do")) };
    let name = task.to_string_lossy().into_owned();
    let rest: Vec<OsString> = words.collect();
    match name.as_str() {
        "--help" => return Ok(Answer::done(help::ALL.to_owned())),
        "--version" => return Ok(Answer::done(version())),
        memory::PART => return part(rest.first().and_then(|word| word.to_str()).map(memory::touch)),
        workspace::PART => {
            signals::ignore().map_err(|error| haul_measure::words::of(&error))?;
            return part(rest.first().map(|word| workspace::guard(std::io::stdin().lock(), word.as_ref(), FOLDER)));
        }
        one_copy::PART => return copy_once(rest),
        readers::PART => return part(Some(readers::read(&rest))),
        mapped_write::part::NAME => {
            // It ends with the pipe that it reads, and must outlive its reader to remove its files.
            signals::ignore().map_err(|error| haul_measure::words::of(&error))?;
            return part(Some(mapped_write::part::main(rest.into_iter())));
        }
        _ => {}
    }
    if rest.iter().any(|word| word == "--help") && !rest.iter().any(|word| word == "--") {
        return help::of(&name).map(Answer::done).ok_or_else(|| unknown(&name));
    }
    match name.as_str() {
        "map" => map::run(rest),
        "probe" => probe::run(rest),
        "report" => report::run(rest),
        name if measuring::is_one(name) => measuring::run(name, rest),
        _ => Err(unknown(&name)),
    }
}

fn unknown(task: &str) -> Complaint {
    usage(format!("unknown task {task:?}"))
}

fn version() -> String {
    format!("haul-lab (haul) {}\nLicense: MIT OR Apache-2.0\n", env!("CARGO_PKG_VERSION"))
}

/// One of the parts that are processes of their own.
fn part(done: Option<Result<(), String>>) -> Result<Answer, Complaint> {
    done.unwrap_or_else(|| Err("this part is not for people".to_owned()))?;
    Ok(Answer::done(String::new()))
}

fn copy_once(words: Vec<OsString>) -> Result<Answer, Complaint> {
    let (settings, source, dest) = one_copy::parse(words).map_err(Complaint::Usage)?;
    match one_copy::copy(&settings, &source, &dest) {
        Ok(report) => {
            serde_json::to_string(&report).map(Answer::done).map_err(|error| Complaint::Failed(error.to_string()))
        }
        Err(Failure::Refused(why)) => Err(Complaint::Refused(why)),
        Err(Failure::Failed(why)) => Err(Complaint::Failed(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> Result<Answer, Complaint> {
        run(words.iter().map(OsString::from))
    }

    #[test]
    fn every_task_has_a_help_of_its_own_which_the_first_help_names() {
        for name in measuring::COMMANDS.iter().map(|(name, ..)| name).chain(&["map", "probe"]) {
            let help = said(&[name, "--help"]).unwrap().text;
            assert!(help.starts_with(&format!("Usage: haul-lab {name} ")), "{help}");
            assert!(help::ALL.contains(&format!("  {name} ")), "{name}");
            assert!(help.lines().all(|line| line.len() <= 80), "{help}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (words, expected) in [
            (&[][..], "missing operand: what to do"),
            (&["mop", "x"], "unknown task \"mop\""),
            (&["mop", "--help"], "unknown task \"mop\""),
            (&["in-kernel"], "missing operand: the directory to measure in"),
            (&["in-kernel", "a", "b"], "unexpected argument \"b\""),
            (&["async-tree", "a", "b", "c"], "unexpected argument \"c\""),
            (&["in-kernel", "--runs=0", "a"], "\"0\" is no number above 0 for '--runs'"),
            (&["in-kernel", "--bufers=1", "a"], "invalid option '--bufers'"),
        ] {
            assert_eq!(said(words), Err(usage(expected)), "{words:?}");
        }
    }
}
