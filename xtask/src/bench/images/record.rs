//! Results, and the file that keeps them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::shell::{self, Result};

/// What is in the image, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Image {
    #[serde(skip)]
    pub path: PathBuf,
    pub size: u64,
    /// What the file occupies.
    #[serde(skip)]
    pub allocated: u64,
    /// What its filesystem calls free.
    pub free: u64,
    pub live: u64,
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
    pub disturbed: bool,
    pub failed: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    pub program: String,
    pub cold: bool,
    #[serde(flatten)]
    pub sample: Sample,
}

/// Everything that was measured with one image, as it is in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    #[serde(flatten)]
    pub image: Image,
    /// Machine and build.
    pub machine: String,
    /// What each program said of itself.
    pub versions: BTreeMap<String, String>,
    /// Finished rounds.
    pub rounds: usize,
    /// Bytes a second of the zero scan.
    pub scan: f64,
    pub runs: Vec<Run>,
}

impl Results {
    /// What a file has, or nothing. Runs are added to those that it has, so they must be of the same image, machine and programs.
    ///
    /// # Errors
    /// When it cannot be read, or is of others.
    pub fn load(
        file: Option<&Path>,
        image: &Image,
        (machine, versions): (&str, &BTreeMap<String, String>),
    ) -> Result<Results> {
        let Some(file) = file.filter(|file| file.exists()) else {
            let (image, machine, versions) = (image.clone(), machine.to_owned(), versions.clone());
            return Ok(Results { image, machine, versions, ..Results::default() });
        };
        let text = fs::read_to_string(file).map_err(shell::at(file))?;
        let saved: Results = serde_json::from_str(&text).map_err(shell::at(file))?;
        if (saved.image.size, saved.image.free) != (image.size, image.free) {
            return Err(format!("{} is of another image", file.display()));
        }
        if saved.machine != machine {
            let then = if saved.machine.is_empty() { "an unknown machine" } else { &saved.machine };
            return Err(format!("{} is of {then}, and this is {machine}; name another file", file.display()));
        }
        for (program, now) in versions {
            if let Some(then) = saved.versions.get(program).filter(|then| *then != now) {
                return Err(format!("{} has {program} as {then:?}, and this is {now:?}", file.display()));
            }
        }
        let versions = saved.versions.into_iter().chain(versions.clone()).collect();
        Ok(Results { image: image.clone(), versions, ..saved })
    }

    pub fn save(&self, file: Option<&Path>) -> Result {
        let Some(file) = file else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(file, text + "\n").map_err(shell::at(file))
    }

    pub fn add(&mut self, program: &str, cold: bool, sample: Sample) {
        self.runs.push(Run { program: program.to_owned(), cold, sample });
    }

    pub fn samples(&self, program: &str, cold: bool) -> Vec<&Sample> {
        let of = self.runs.iter().filter(|run| run.program == program && run.cold == cold);
        of.map(|run| &run.sample).collect()
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
        let versions = |cp: &str| BTreeMap::from([("cp".to_owned(), cp.to_owned())]);
        let load = |image: &Image, machine: &str, cp: &str| Results::load(Some(&file), image, (machine, &versions(cp)));
        let mut results = load(&image, "here", "9.1").unwrap();
        let sample = Sample { read: 7, returned: 0.5, failed: Some("short".to_owned()), ..Sample::default() };
        results.add("cp", true, sample.clone());
        (results.rounds, results.scan) = (3, 1.5);
        results.save(Some(&file)).unwrap();
        let loaded = load(&image, "here", "9.1").unwrap();
        assert_eq!((loaded.rounds, loaded.samples("cp", true)), (3, vec![&sample]));
        assert_eq!(loaded.image, image);
        assert!(load(&image, "there", "9.1").unwrap_err().contains("is of here, and this is there"));
        assert!(load(&image, "here", "9.2").unwrap_err().contains("has cp as \"9.1\""));
        assert!(load(&Image { free: 3, ..image.clone() }, "here", "9.1").is_err());
        fs::write(&file, "{\"size\": 8, \"free\": 2}").unwrap();
        assert!(load(&image, "here", "9.1").unwrap_err().contains("an unknown machine"));
    }
}
