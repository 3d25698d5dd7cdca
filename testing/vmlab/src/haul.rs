//! haul as its users have it: a command.

use std::process::Stdio;

use haul_testbed::Child;
use serde_json::Value;

use crate::tool;

/// What haul did and said.
#[derive(Debug)]
pub struct Run {
    line: String,
    status: Option<i32>,
    /// Its messages.
    pub said: String,
    stats: Value,
}

/// haul at work.
pub struct Started {
    line: String,
    child: Child,
}

/// Runs haul to its end.
pub fn run(arguments: &str) -> Result<Run, String> {
    start(arguments)?.finish()
}

/// Runs haul, which must end well and without a word.
pub fn right(arguments: &str) -> Result<Run, String> {
    let run = run(arguments)?;
    if run.failed() || !run.said.is_empty() { Err(run.report()) } else { Ok(run) }
}

/// Starts haul.
pub fn start(arguments: &str) -> Result<Started, String> {
    let line = format!("haul {arguments}");
    let mut command = tool::command(&format!("{line} --stats=json"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(Started { child: command.spawn().map_err(|error| format!("{line}: {error}"))?, line })
}

impl Started {
    /// Whether it has ended.
    pub fn ended(&mut self) -> bool {
        // What cannot be asked is gone.
        self.child.try_wait().map_or(true, |status| status.is_some())
    }

    /// Waits for its end.
    pub fn finish(self) -> Result<Run, String> {
        let output = self.child.wait_with_output().map_err(|error| format!("{}: {error}", self.line))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let (stats, said): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("{\"record\""));
        let stats = stats.last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        Ok(Run { line: self.line, status: output.status.code(), said: said.join("; "), stats })
    }
}

impl Run {
    /// Whether its exit status is not 0.
    pub fn failed(&self) -> bool {
        self.status != Some(0)
    }

    /// All of it in words, for a message.
    pub fn report(&self) -> String {
        format!("{}: status {:?}: {} [{}]", self.line, self.status, self.said, self.chose())
    }

    /// It must have failed, with status 1 and a message in which all these words are.
    pub fn must_say(&self, words: &[&str]) -> Result<(), String> {
        let said = |word: &&str| self.said.contains(*word);
        if self.status == Some(1) && words.iter().all(said) { Ok(()) } else { Err(self.report()) }
    }

    /// Whether an engine moved files.
    pub fn used(&self, engine: &str) -> bool {
        self.stats["engines"][engine]["files"].as_u64().unwrap_or_default() > 0
    }

    /// How many files the statistics count under this name.
    pub fn files(&self, name: &str) -> u64 {
        self.stats["files"][name].as_u64().unwrap_or_default()
    }

    /// How many bytes went one way: `shared`, `offloaded`, `written`, `holes`.
    pub fn bytes(&self, way: &str) -> u64 {
        self.stats["bytes"][way].as_u64().unwrap_or_default()
    }

    /// Which engines moved how many files, and which way the bytes went.
    pub fn chose(&self) -> String {
        let mut words = Vec::new();
        for (name, engine) in self.stats["engines"].as_object().into_iter().flatten() {
            match (engine["files"].as_u64().unwrap_or_default(), engine["refusals"].as_u64().unwrap_or_default()) {
                (0, 0) => {}
                (0, refusals) => words.push(format!("{name} refused {refusals}")),
                (files, _) => words.push(format!("{name} {files}")),
            }
        }
        for way in ["shared", "offloaded", "written", "holes"] {
            match self.bytes(way) {
                0 => {}
                bytes => words.push(format!("{way} {:.1} MiB", bytes as f64 / f64::from(1 << 20))),
            }
        }
        words.join(", ")
    }
}
