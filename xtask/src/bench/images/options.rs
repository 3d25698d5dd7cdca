//! What `cargo xtask bench images` takes.

use std::path::PathBuf;

use haul_measure::values;

use super::super::surroundings;
use super::programs;
use crate::shell::Result;

/// The options.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the image.
    pub size: u64,
    /// Rounds: timed runs of each program, cold and warm each.
    pub runs: usize,
    /// Where images and copies are; the temporary directory if not given.
    pub dir: Option<PathBuf>,
    /// The image, made if it is not there, and kept.
    pub image: Option<PathBuf>,
    /// Results are added to this file, and the tables are of all that is in it.
    pub json: Option<PathBuf>,
    /// The haul to measure.
    pub haul: Option<PathBuf>,
    /// Only `cold` or `warm`.
    pub only: Option<bool>,
    /// Keys of the programs; empty for all.
    pub programs: Vec<String>,
    /// The table of images of mounted filesystems instead.
    pub dirty: bool,
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options { size: 8 << 30, runs: 3, ..Options::default() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--dirty" {
                options.dirty = true;
                continue;
            }
            let (name, value) = surroundings::option(arg, &mut args)?;
            let path = || std::path::absolute(&value).map_err(|error| format!("{value}: {error}"));
            match name {
                "--size" => options.size = values::size(&value)?,
                "--runs" => options.runs = value.parse().map_err(|_| format!("{value:?} is no number of runs"))?,
                "--dir" => options.dir = Some(path()?),
                "--image" => options.image = Some(path()?),
                "--json" => options.json = Some(path()?),
                "--haul" => options.haul = Some(path()?),
                "--only" => options.only = Some(cold(&value)?),
                "--programs" => options.programs = value.split(',').map(str::to_owned).collect(),
                other => {
                    return Err(format!(
                        "unknown option {other:?}; there are --size, --runs, --dir, --image, --json, --haul, --only, \
                         --programs, --dirty"
                    ));
                }
            }
        }
        if options.size < 256 << 20 {
            return Err("an image of less than 256M proves nothing".into());
        }
        if let Some(unknown) = options.programs.iter().find(|key| !programs::KEYS.contains(&key.as_str())) {
            return Err(format!("no program {unknown:?}; there are: {}", programs::KEYS.join(", ")));
        }
        Ok(options)
    }

    /// Which of cold and warm is to be measured.
    pub fn temperatures(&self) -> Vec<bool> {
        self.only.map_or_else(|| vec![true, false], |cold| vec![cold])
    }
}

fn cold(word: &str) -> Result<bool> {
    match word {
        "cold" => Ok(true),
        "warm" => Ok(false),
        other => Err(format!("--only is cold or warm, not {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_have_values() {
        let options = parse(&["--size", "1G", "--only=cold", "--programs", "smart,cp", "--dirty"]).unwrap();
        assert_eq!((options.size, options.only, options.dirty), (1 << 30, Some(true), true));
        assert_eq!(options.programs, ["smart", "cp"]);
        assert_eq!(parse(&[]).unwrap().temperatures(), [true, false]);
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [&["--size", "1M"][..], &["--only", "hot"], &["--programs", "dd"], &["--what=1"], &["--runs"]] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
