//! The command line of `cargo xtask bench peers`.

use std::path::PathBuf;
use std::time::Duration;

use haul_measure::values;

use super::super::surroundings;
use crate::shell::Result;

/// What to measure, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Workloads or groups of them by name; empty for all.
    pub only: Vec<String>,
    /// Programs by the name of the peer; empty for all. cp always runs, since the others are compared with it.
    pub programs: Vec<String>,
    /// Engines of haul to time beside its own choice, in every workload.
    pub engines: Vec<String>,
    /// Other options of haul, without their dashes, of which each is timed beside haul as it is, in every workload.
    pub with: Vec<String>,
    /// Timed runs of each program in each workload.
    pub runs: usize,
    /// By what the sizes and counts are multiplied.
    pub scale: f64,
    /// Where sources, copies and images are; the temporary directory if not given.
    pub dir: Option<PathBuf>,
    /// Raw results are written there; results of other workloads that it holds already are kept.
    pub json: Option<PathBuf>,
    /// Only show the tables of results saved earlier.
    pub from: Option<PathBuf>,
    /// Most bytes of files at any time.
    pub space: u64,
    /// How long to wait after trees were removed: ext4 does not reuse an inode for a minute and searches past it.
    pub settle: Duration,
    /// A run that takes longer is ended and not repeated.
    pub timeout: Duration,
    /// Show where the kernel spends the time instead of measuring it.
    pub profile: bool,
    /// A haul that is built already.
    pub haul: Option<PathBuf>,
    /// Another build of haul, usually one from before a change, which is timed in turns with it.
    pub before: Option<PathBuf>,
    /// Only say what there is.
    pub list: bool,
}

const NAMES: &str = "--only, --programs, --engine, --with, --runs, --scale, --dir, --json, --from, --space, --settle, \
                     --timeout, --haul, --before, --profile and --list";

impl Options {
    /// Takes the arguments after `bench peers`.
    ///
    /// # Errors
    /// When one is unknown, lacks its value or makes no sense.
    pub fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options {
            runs: 5,
            scale: 1.0,
            space: 20 << 30,
            settle: Duration::from_secs(65),
            timeout: Duration::from_secs(600),
            ..Options::default()
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--profile" => options.profile = true,
                "--list" => options.list = true,
                _ => {
                    let (name, value) = surroundings::option(arg, &mut args)?;
                    options.set(name, &value)?;
                }
            }
        }
        if options.runs == 0 {
            return Err("there is nothing to measure in 0 runs".into());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result {
        let list = || value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let seconds =
            || value.parse().map(Duration::from_secs).map_err(|_| format!("{value:?} is no number of seconds"));
        match name {
            "--only" => self.only = list(),
            "--programs" => self.programs = list(),
            "--engine" => self.engines = list(),
            "--with" => {
                self.with = list();
                if let Some(dashed) = self.with.iter().find(|option| option.starts_with('-')) {
                    return Err(format!("--with wants an option of haul without its dashes, not {dashed:?}"));
                }
            }
            "--runs" => self.runs = value.parse().map_err(|_| format!("{value:?} is no number of runs"))?,
            "--scale" => {
                let scale: Option<f64> = value.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
                self.scale = scale.ok_or(format!("{value:?} is no scale (above 0, at most 1)"))?;
            }
            "--dir" => self.dir = Some(absolute(value)?),
            "--json" => self.json = Some(absolute(value)?),
            "--from" => self.from = Some(absolute(value)?),
            "--haul" => self.haul = Some(absolute(value)?),
            "--before" => self.before = Some(absolute(value)?),
            "--space" => self.space = values::size(value)?,
            "--settle" => self.settle = seconds()?,
            "--timeout" => self.timeout = seconds()?,
            other => return Err(format!("unknown option {other:?}; there are {NAMES}")),
        }
        Ok(())
    }

    /// A count or a number of bytes at this scale, but not below `least`.
    pub fn scaled(&self, full: u64, least: u64) -> u64 {
        // Counts and sizes here are far below 2^52, so the product is exact enough.
        ((full as f64 * self.scale).round() as u64).max(least).min(full)
    }
}

/// Programs run in another directory than this one.
fn absolute(path: &str) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| format!("{path:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_taken_with_and_without_equals_sign() {
        let options =
            parse(&["--only", "tree,file", "--scale=0.01", "--profile", "--space=3G", "--runs", "2", "--with=durable"])
                .unwrap();
        assert_eq!(options.only, ["tree", "file"]);
        assert_eq!(options.with, ["durable"]);
        assert_eq!(parse(&["--before=/old/haul"]).unwrap().before, Some("/old/haul".into()));
        assert_eq!((options.runs, options.space, options.profile), (2, 3 << 30, true));
        assert_eq!(options.scaled(100_000, 10), 1000);
        assert_eq!(options.scaled(100, 10), 10);
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [
            &["--scale", "0"][..],
            &["--scale=2"],
            &["--runs=0"],
            &["--runs"],
            &["--what=1"],
            &["--space=much"],
            &["--with=--durable"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
