//! Results, and the file that keeps them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::shell::{self, Result};

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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

/// One run in the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SavedRun {
    program: String,
    cold: bool,
    #[serde(flatten)]
    sample: Sample,
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Saved {
    size: u64,
    free: u64,
    live: u64,
    zeros: u64,
    rounds: usize,
    scan: f64,
    runs: Vec<SavedRun>,
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
        let text = fs::read_to_string(file).map_err(shell::at(file))?;
        let saved: Saved = serde_json::from_str(&text).map_err(shell::at(file))?;
        if (saved.size, saved.free) != (image.size, image.free) {
            return Err(format!("{} is of another image", file.display()));
        }
        (results.rounds, results.scan) = (saved.rounds, saved.scan);
        for run in saved.runs {
            results.add(&run.program, run.cold, run.sample);
        }
        Ok(results)
    }

    /// Writes them to a file.
    ///
    /// # Errors
    /// When that fails.
    pub fn save(&self, file: Option<&Path>) -> Result {
        let Some(file) = file else { return Ok(()) };
        let runs = self.rows.iter().flat_map(|row| {
            let (program, cold) = (&row.key, row.cold);
            row.samples.iter().map(move |sample| SavedRun { program: program.clone(), cold, sample: sample.clone() })
        });
        let Image { size, free, live, zeros, .. } = self.image;
        let saved = Saved { size, free, live, zeros, rounds: self.rounds, scan: self.scan, runs: runs.collect() };
        let text = serde_json::to_string_pretty(&saved).map_err(|error| error.to_string())?;
        fs::write(file, text + "\n").map_err(shell::at(file))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_from_their_file() {
        let dir = haul_testbed::temp_dir();
        let file = dir.path().join("results.json");
        let image = Image { path: "image".into(), size: 8, allocated: 8, free: 2, live: 4, zeros: 1 };
        let mut results = Results::load(Some(&file), &image).unwrap();
        let sample = Sample { read: 7, returned: 0.5, failed: Some("short".to_owned()), ..Sample::default() };
        results.add("cp", true, sample.clone());
        (results.rounds, results.scan) = (3, 1.5);
        results.save(Some(&file)).unwrap();
        let loaded = Results::load(Some(&file), &image).unwrap();
        assert_eq!((loaded.rounds, &loaded.row("cp", true).unwrap().samples), (3, &vec![sample]));
        assert!(Results::load(Some(&file), &Image { free: 3, ..image }).is_err());
    }
}
