//! What was measured, as data, and as JSON.

use haul_measure::process::Cost;
use haul_measure::stats::Spread;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::compare::Lost;
use super::super::report::spread;
use super::target::Target;
use crate::shell::Result;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds from before the program starts until it has ended.
    #[serde(rename = "returned_s")]
    pub returned: f64,
    /// The same and a sync of the destination's filesystem.
    #[serde(rename = "durable_s")]
    pub durable: f64,
    /// Seconds of CPU in user mode.
    #[serde(rename = "user_s")]
    pub user: f64,
    /// Seconds of CPU in the kernel on the program's behalf.
    #[serde(rename = "system_s")]
    pub system: f64,
    /// Seconds of CPU of the whole machine until the copy was durable, with writeback and other kernel threads.
    #[serde(rename = "machine_cpu_s")]
    pub machine: f64,
    /// Largest resident set in KiB.
    pub rss_kib: u64,
    /// The same without mapped files, sampled every 10 ms: anonymous and shared memory of all its processes.
    pub own_kib: u64,
    /// KiB allocated for the copy; only for single files.
    pub allocated_kib: Option<u64>,
    /// Other programs, or other machines on this processor, used more than 5 % of one core meanwhile.
    pub disturbed: bool,
}

/// All runs of one program in one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub version: String,
    /// cp: the others are compared with it.
    pub base: bool,
    /// haul with its own choice of everything.
    pub haul: bool,
    /// Copies nothing: the limit of the device.
    pub limit: bool,
    pub samples: Vec<Sample>,
    /// What was wrong with its copy: then it is not ranked.
    pub wrong: Option<String>,
    /// Why it did not copy or was not run to the end.
    pub failed: Option<String>,
    /// Metadata that it did not keep although all was to be kept.
    #[serde(with = "pairs")]
    pub lost: Lost,
    /// It was so slow that it was not run again.
    pub slow: bool,
}

/// All programs in one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub name: String,
    /// Its group, or nothing.
    pub group: String,
    pub title: String,
    pub place: String,
    /// Machine, build and programs, where they are others than those that the file names for all tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
    #[serde(default)]
    pub target: Target,
    #[serde(rename = "programs")]
    pub rows: Vec<Row>,
}

impl Row {
    /// Of one figure of the good runs; `None` if there are none, or the copy was wrong.
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        if self.wrong.is_some() { None } else { spread(self.samples.iter().map(figure)) }
    }

    pub fn returned(&self) -> Option<Spread> {
        self.spread(|sample| sample.returned)
    }

    pub fn durable(&self) -> Option<Spread> {
        self.spread(|sample| sample.durable)
    }

    pub fn cpu(&self) -> Option<Spread> {
        self.spread(|sample| sample.user + sample.system)
    }

    /// Whether it did the whole task in every run, so that others may be compared with it.
    pub fn ranked(&self) -> bool {
        self.wrong.is_none() && self.failed.is_none() && self.lost.is_empty() && !self.limit && !self.samples.is_empty()
    }
}

impl Sample {
    pub fn of(cost: &Cost) -> Sample {
        Sample {
            returned: cost.returned.as_secs_f64(),
            durable: cost.durable.as_secs_f64(),
            user: cost.user.as_secs_f64(),
            system: cost.system.as_secs_f64(),
            machine: cost.machine.as_secs_f64(),
            rss_kib: cost.peak_memory >> 10,
            own_kib: cost.own_memory >> 10,
            allocated_kib: None,
            disturbed: cost.is_disturbed(),
        }
    }
}

/// [`Lost`] as pairs.
mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Lost;

    pub fn serialize<S: Serializer>(lost: &Lost, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(lost)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Lost, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// Everything, with lines that describe machine and programs.
pub fn write(about: &[String], tables: &[Table]) -> String {
    let value = json!({ "about": about, "workloads": tables });
    format!("{value:#}\n")
}

/// What [`write()`] wrote.
pub fn read(text: &str) -> Result<(Vec<String>, Vec<Table>)> {
    let saved: Saved = serde_json::from_str(text).map_err(|error| format!("no results: {error}"))?;
    Ok((saved.about, saved.workloads))
}

#[derive(Deserialize)]
struct Saved {
    about: Vec<String>,
    workloads: Vec<Table>,
}

/// Puts new tables, which `about` describes, in the place of older ones of the same name. Those that were measured elsewhere, or with
/// other programs, keep their own description.
pub fn merge((described, older): (Vec<String>, Vec<Table>), about: &[String], newer: &[Table]) -> Vec<Table> {
    let mut merged: Vec<Table> = older;
    for table in &mut merged {
        if table.about.is_empty() {
            table.about.clone_from(&described);
        }
        if table.about == about {
            table.about.clear();
        }
    }
    for table in newer {
        match merged.iter_mut().find(|old| old.name == table.name) {
            Some(old) => *old = table.clone(),
            None => merged.push(table.clone()),
        }
    }
    merged
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn sample(returned: f64, durable: f64) -> Sample {
        Sample {
            returned,
            durable,
            user: 0.25,
            system: 0.5,
            machine: 1.0,
            rss_kib: 2048,
            own_kib: 1024,
            allocated_kib: None,
            disturbed: false,
        }
    }

    pub fn row(name: &str, times: &[(f64, f64)]) -> Row {
        Row {
            name: name.into(),
            version: "1.2".into(),
            base: name == "cp",
            haul: name == "haul",
            limit: name == "limit",
            samples: times.iter().map(|(returned, durable)| sample(*returned, *durable)).collect(),
            wrong: None,
            failed: None,
            lost: Lost::new(),
            slow: false,
        }
    }

    pub fn table(name: &str, target: Target, rows: Vec<Row>) -> Table {
        let (group, title, place) = (String::new(), format!("title of {name}"), "ext4".into());
        Table { name: name.into(), group, title, place, about: Vec::new(), target, rows }
    }

    #[test]
    fn results_come_back_from_json() {
        let mut bad = row("xcp", &[(0.5, 1.0)]);
        bad.wrong = Some("1 file differs".into());
        bad.lost.insert("mtime".into(), 3);
        let target = Target { returned: Some(1.5), not_behind: true, ..Target::default() };
        let tables = vec![table("one", target, vec![row("cp", &[(1.0, 2.5)]), bad])];
        let text = write(&["a machine".into()], &tables);
        assert_eq!(read(&text), Ok((vec!["a machine".into()], tables)));
        assert!(read("{}").is_err());
    }

    #[test]
    fn new_results_replace_those_of_the_same_workload_only() {
        let old =
            vec![table("a", Target::default(), vec![row("cp", &[(1.0, 1.0)])]), table("b", Target::default(), vec![])];
        let new = [table("a", Target::default(), vec![row("cp", &[(2.0, 2.0)])])];
        let merged = merge((Vec::new(), old), &[], &new);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].rows[0].samples[0].returned.to_bits(), 2.0_f64.to_bits());
    }

    #[test]
    fn older_results_keep_the_description_of_their_machine() {
        let of = |name: &str| table(name, Target::default(), vec![]);
        let words = |text: &str| vec![text.to_owned()];
        let merged = merge((words("one"), vec![of("a"), of("b")]), &words("two"), &[of("b"), of("c")]);
        let about: Vec<&[String]> = merged.iter().map(|table| &table.about[..]).collect();
        assert_eq!(about, [&words("one")[..], &[], &[]]);
        // And get it back where all is from there again.
        let again = merge((words("two"), merged), &words("one"), &[of("b"), of("c")]);
        assert!(again.iter().all(|table| table.about.is_empty()), "{again:?}");
        assert!(!write(&words("one"), &again).contains("\"about\": []"));
    }
}
