//! What came of each part, kept beside the page, so that one night can do what another has not.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::parts::{PARTS, Part};
use crate::shell::{self, Result};

/// What came of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub part: String,
    /// The command, for those who want to run it again. It says the length.
    pub command: String,
    /// Date and time of the start, in UTC.
    pub begun: String,
    pub commit: String,
    /// Machine, kernel and versions, a line each.
    pub machine: Vec<String>,
    pub time: Duration,
    /// What was found, or what is wrong.
    pub verdict: Result<String>,
    /// What it has printed beside the lines of its runner.
    pub figures: Vec<String>,
}

impl Outcome {
    /// What this is the outcome of; `None` if that has another length by now, or is gone.
    pub fn part(&self, quick: bool) -> Option<&'static Part> {
        PARTS.iter().find(|part| part.name == self.part && part.work.command(quick) == self.command)
    }
}

/// What is kept in this file, of parts that there are, at whatever length; nothing if there is no such file.
pub fn read(file: &Path) -> Result<Vec<Outcome>> {
    if !file.exists() {
        return Ok(vec![]);
    }
    let text = std::fs::read(file).map_err(shell::at(file))?;
    let kept: Vec<Outcome> = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(kept.into_iter().filter(|outcome| PARTS.iter().any(|part| part.name == outcome.part)).collect())
}

/// Those of parts as they are today, at this length.
pub fn today(outcomes: &[Outcome], quick: bool) -> Vec<Outcome> {
    outcomes.iter().filter(|outcome| outcome.part(quick).is_some()).cloned().collect()
}

/// Keeps them there, whole or not at all.
pub fn write(file: &Path, outcomes: &[Outcome]) -> Result {
    let text = serde_json::to_string_pretty(outcomes).map_err(|error| error.to_string())?;
    let new = file.with_extension("new");
    shell::write(&new, &(text + "\n"))?;
    std::fs::rename(&new, file).map_err(shell::at(file))
}

/// Puts an outcome in the place of an earlier one of its part and length. They stand in the order of the parts.
pub fn put(outcomes: &mut Vec<Outcome>, outcome: Outcome) {
    outcomes.retain(|one| (&one.part, &one.command) != (&outcome.part, &outcome.command));
    outcomes.push(outcome);
    outcomes.sort_by_key(|one| PARTS.iter().position(|part| part.name == one.part));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(at: usize, found: &str) -> Outcome {
        Outcome {
            part: PARTS[at].name.into(),
            command: PARTS[at].work.command(false),
            begun: "2026-11-28, 01:00 UTC".into(),
            commit: "abc".into(),
            machine: vec![],
            time: Duration::from_millis(1500),
            verdict: Ok(found.into()),
            figures: vec![],
        }
    }

    #[test]
    fn a_part_that_ran_again_has_its_last_outcome_in_its_place() {
        let mut outcomes = vec![outcome(0, "old"), outcome(2, "third")];
        put(&mut outcomes, outcome(1, "second"));
        put(&mut outcomes, outcome(0, "new"));
        assert_eq!(outcomes, [outcome(0, "new"), outcome(1, "second"), outcome(2, "third")]);
    }

    #[test]
    fn what_ran_at_another_length_is_kept_and_not_shown() {
        let dir = haul_testbed::temp_dir();
        let file = dir.path().join("proof.json");
        assert_eq!(read(&file), Ok(vec![]));
        let shorter = Outcome { command: "HAUL_KILLS=3 cargo test".into(), ..outcome(0, "kills") };
        let mut all = vec![shorter, outcome(1, "safe")];
        write(&file, &all).unwrap();
        assert_eq!(read(&file), Ok(all.clone()));
        assert_eq!(today(&all, false), [outcome(1, "safe")]);
        put(&mut all, outcome(0, "longer"));
        assert_eq!((all.len(), today(&all, false).len()), (3, 2));
    }
}
