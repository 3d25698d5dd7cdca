//! The command lines of the benchmarks and of `vm`. Each takes some of these options.

use std::path::PathBuf;
use std::time::Duration;

use haul_measure::values;

use crate::shell::{self, Result};

/// What to measure, and how. What is not said here is in the help.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Workloads or groups of them by name, or one of cold and warm; empty for all.
    pub only: Vec<String>,
    /// Programs by name; empty for all. Of the peers cp always runs, since the others are compared with it.
    pub programs: Vec<String>,
    /// Engines of haul to time beside its own choice.
    pub engines: Vec<String>,
    /// Places by name; empty for all.
    pub places: Vec<String>,
    /// Kernels of virtual machines by name; empty for all.
    pub kernels: Vec<String>,
    /// Other options of haul, without their dashes, of which each is timed beside haul as it is, in every workload.
    pub with: Vec<String>,
    /// Bytes of a file or an image.
    pub size: u64,
    /// Timed runs of each program in each workload.
    pub runs: usize,
    /// By what the sizes and counts are multiplied.
    pub scale: f64,
    /// Where sources, copies and images are; the temporary directory if not given.
    pub dir: Option<PathBuf>,
    /// The image, made if it is not there, and kept.
    pub image: Option<PathBuf>,
    /// Results are written there, and older ones that it holds already are kept.
    pub json: Option<PathBuf>,
    /// A drawing is written there.
    pub svg: Option<PathBuf>,
    /// Only show the tables of results saved earlier.
    pub from: Option<PathBuf>,
    /// Most bytes of files at any time.
    pub space: u64,
    /// How long to wait after trees were removed: ext4 does not reuse an inode for a minute and searches past it.
    pub settle: Duration,
    /// A run that takes longer is ended and not repeated.
    pub timeout: Duration,
    /// A haul that is built already.
    pub haul: Option<PathBuf>,
    /// Another build of haul, usually one from before a change, which is timed in turns with it.
    pub before: Option<PathBuf>,
    /// Show where the kernel spends the time instead of measuring it.
    pub profile: bool,
    /// Only say what there is.
    pub list: bool,
    /// The table of images of mounted filesystems instead.
    pub dirty: bool,
}

/// Whether a name is among those that were given, or none was.
pub fn wants(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}

impl Options {
    /// Takes the arguments of a task that knows the options of these names; where one is not given, what stands here
    /// holds. The value of an option stands behind `=` or is the next argument.
    pub fn parse(mut self, args: &[String], known: &[&str]) -> Result<Options> {
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, value) = arg.split_once('=').map_or((&arg[..], None), |(name, value)| (name, Some(value)));
            let Some(name) = name.strip_prefix("--").filter(|name| known.contains(name)) else {
                return Err(format!("unknown option {arg:?}; there are --{}", known.join(", --")));
            };
            if let (Some(flag), None) = (self.flag(name), value) {
                *flag = true;
                continue;
            }
            let value = value.or_else(|| args.next().map(String::as_str));
            self.set(name, value.ok_or_else(|| format!("{arg} needs a value"))?)?;
        }
        Ok(self)
    }

    /// Refuses to run nothing.
    pub fn with_runs(self) -> Result<Options> {
        if self.runs == 0 { Err("there is nothing to measure in 0 runs".into()) } else { Ok(self) }
    }

    fn flag(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "profile" => Some(&mut self.profile),
            "list" => Some(&mut self.list),
            "dirty" => Some(&mut self.dirty),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result {
        let list = || value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let seconds =
            || value.parse().map(Duration::from_secs).map_err(|_| format!("{value:?} is no number of seconds"));
        // Programs run in another directory than this one.
        let path = || std::path::absolute(value).map(Some).map_err(shell::at(value.as_ref()));
        match name {
            "only" => self.only = list(),
            "programs" => self.programs = list(),
            "engine" => self.engines = list(),
            "place" => self.places = list(),
            "kernel" => self.kernels = list(),
            "with" => {
                self.with = list();
                if let Some(dashed) = self.with.iter().find(|option| option.starts_with('-')) {
                    return Err(format!("--with wants an option of haul without its dashes, not {dashed:?}"));
                }
            }
            "size" => self.size = values::size(value)?,
            "runs" => self.runs = value.parse().map_err(|_| format!("{value:?} is no number of runs"))?,
            "scale" => {
                let scale: Option<f64> = value.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
                self.scale = scale.ok_or(format!("{value:?} is no scale (above 0, at most 1)"))?;
            }
            "dir" => self.dir = path()?,
            "image" => self.image = path()?,
            "json" => self.json = path()?,
            "svg" => self.svg = path()?,
            "from" => self.from = path()?,
            "haul" => self.haul = path()?,
            "before" => self.before = path()?,
            "space" => self.space = values::size(value)?,
            "settle" => self.settle = seconds()?,
            "timeout" => self.timeout = seconds()?,
            other => return Err(format!("unknown option --{other}")),
        }
        Ok(())
    }

    /// A count or a number of bytes at this scale, but not below `least`.
    pub fn scaled(&self, full: u64, least: u64) -> u64 {
        // Counts and sizes here are far below 2^52, so the product is exact enough.
        ((full as f64 * self.scale).round() as u64).max(least).min(full)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{images, peers, single_file};
    use super::*;

    fn words(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    fn parse(args: &[&str]) -> Result<Options> {
        peers::options(&words(args))
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
            &["--profile=1"],
            &["--size=1M"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn options_of_images_have_values() {
        let options = images::options(&words(&["--size", "1G", "--only=cold", "--programs", "smart,cp", "--dirty"]));
        let options = options.unwrap();
        assert_eq!((options.size, &options.only[..], options.dirty), (1 << 30, &words(&["cold"])[..], true));
        assert_eq!(options.programs, ["smart", "cp"]);
        for args in [&["--size", "1M"][..], &["--only", "hot"], &["--programs", "dd"], &["--what=1"], &["--runs"]] {
            assert!(images::options(&words(args)).is_err(), "{args:?}");
        }
    }

    #[test]
    fn options_of_a_single_file_have_values() {
        let parse = |args: &[&str]| single_file::options(&words(args));
        let options = parse(&["--size", "64M", "--runs=3", "--engine=mapped,direct"]).unwrap();
        assert_eq!((options.size, options.runs), (64 << 20, 3));
        assert_eq!(options.engines, ["mapped", "direct"]);
        for args in [
            &["--size", "x"][..],
            &["--size"],
            &["--size=0"],
            &["--runs", "0"],
            &["--size", "99999999999G"],
            &["--what=1"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
