//! Results, and the file that keeps them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::shell::Result;

/// What is in the image, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub path: PathBuf,
    /// All of it.
    pub size: u64,
    /// What the file occupies.
    pub allocated: u64,
    /// What its filesystem calls free.
    pub free: u64,
    /// Files of noise.
    pub live: u64,
    /// Files of zeros.
    pub zeros: u64,
}

/// What one run cost; bytes and seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What the program asked the kernel to read.
    pub read: u64,
    /// What it asked to write.
    pub written: u64,
    /// What came from the device for it, with what the kernel read ahead.
    pub fetched: u64,
    /// Until it ended.
    pub returned: f64,
    /// Until the copy was on the device.
    pub durable: f64,
    pub user: f64,
    pub system: f64,
    /// The most memory that was resident.
    pub memory: u64,
    /// What the copy occupies.
    pub allocated: u64,
    /// Others were busy.
    pub disturbed: bool,
    /// What is wrong with the copy.
    pub failed: Option<String>,
}

/// All runs of one program, cold or warm.
#[derive(Debug)]
pub struct Row {
    pub key: String,
    pub cold: bool,
    pub samples: Vec<Sample>,
}

/// Everything that was measured with one image.
#[derive(Debug)]
pub struct Results {
    pub image: Image,
    pub rows: Vec<Row>,
    /// Finished rounds.
    pub rounds: usize,
    /// Bytes a second of the zero scan.
    pub scan: f64,
}

impl Results {
    /// What a file has, or nothing.
    ///
    /// # Errors
    /// When it cannot be read, or is of another image.
    pub fn load(file: Option<&Path>, image: &Image) -> Result<Results> {
        let mut results = Results { image: image.clone(), rows: Vec::new(), rounds: 0, scan: 0.0 };
        let Some(file) = file.filter(|file| file.exists()) else { return Ok(results) };
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        if [("size", image.size), ("free", image.free)].iter().any(|(name, here)| value[name].as_u64() != Some(*here)) {
            return Err(format!("{} is of another image", file.display()));
        }
        results.rounds = value["rounds"].as_u64().unwrap_or_default() as usize;
        results.scan = value["scan"].as_f64().unwrap_or_default();
        for run in value["runs"].as_array().into_iter().flatten() {
            let (count, time) =
                (|name: &str| run[name].as_u64().unwrap_or(0), |name: &str| run[name].as_f64().unwrap_or(0.0));
            let sample = Sample {
                read: count("read"),
                written: count("written"),
                fetched: count("fetched"),
                returned: time("returned"),
                durable: time("durable"),
                user: time("user"),
                system: time("system"),
                memory: count("memory"),
                allocated: count("allocated"),
                disturbed: run["disturbed"].as_bool().unwrap_or(false),
                failed: run["failed"].as_str().map(str::to_owned),
            };
            results.add(run["program"].as_str().unwrap_or_default(), run["cold"].as_bool().unwrap_or(false), sample);
        }
        Ok(results)
    }

    /// Writes them to a file.
    ///
    /// # Errors
    /// When that fails.
    pub fn save(&self, file: Option<&Path>) -> Result {
        let Some(file) = file else { return Ok(()) };
        let runs: Vec<Value> =
            self.rows.iter().flat_map(|row| row.samples.iter().map(|sample| run(row, sample))).collect();
        let value = json!({
            "size": self.image.size, "free": self.image.free, "live": self.image.live, "zeros": self.image.zeros,
            "rounds": self.rounds, "scan": self.scan, "runs": runs,
        });
        fs::write(file, format!("{value:#}\n")).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Adds a run.
    pub fn add(&mut self, key: &str, cold: bool, sample: Sample) {
        match self.rows.iter_mut().find(|row| row.key == key && row.cold == cold) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row { key: key.to_owned(), cold, samples: vec![sample] }),
        }
    }

    /// The runs of a program.
    pub fn row(&self, key: &str, cold: bool) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key && row.cold == cold)
    }
}

fn run(row: &Row, sample: &Sample) -> Value {
    json!({
        "program": row.key, "cold": row.cold, "read": sample.read, "written": sample.written,
        "fetched": sample.fetched, "returned": sample.returned, "durable": sample.durable, "user": sample.user,
        "system": sample.system, "memory": sample.memory, "allocated": sample.allocated,
        "disturbed": sample.disturbed, "failed": sample.failed,
    })
}
