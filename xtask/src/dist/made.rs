//! All that is distributed, made by one recipe.

use std::path::{Path, PathBuf};

use super::build::{DYNAMIC, Recipe, STATIC, Target};
use super::layout::{self, HAUL, LAB, MPI, Part};
use super::{debian, rpm, wheel};

use crate::mpi::Mpi;
use crate::packages;
use crate::shell::{self, Result};

/// What was made, and where.
pub struct Made {
    pub archives: Vec<(&'static Target, PathBuf)>,
    pub debian: Vec<PathBuf>,
    pub rpm: Vec<PathBuf>,
    /// Of the Python package.
    pub wheel: PathBuf,
    /// The static programs of this processor.
    pub programs: Option<PathBuf>,
    /// What could not be made, and why.
    pub missing: Vec<String>,
}

impl Made {
    /// Makes all that can be made here.
    ///
    /// # Errors
    /// When a tool fails.
    pub fn make(recipe: &Recipe, mpi: &Mpi) -> Result<Made> {
        packages::install_for_dist()?;
        shell::remove(&recipe.into)?;
        shell::make_dir(&recipe.into)?;
        let wheel = wheel::make(recipe)?;
        let mut made = Made { archives: vec![], debian: vec![], rpm: vec![], wheel, programs: None, missing: vec![] };
        for target in STATIC.iter().filter(|target| recipe.crossed || target.is_native()) {
            if let Err(why) = target.install() {
                made.missing.push(format!("NOT MADE: {}: {why}", target.name));
                continue;
            }
            let programs = recipe.build(target, &[HAUL.programs, LAB.programs].concat())?;
            made.archives.push((target, layout::archive(recipe, &programs, target.arch)?));
            if target.is_native() {
                for part in [&HAUL, &LAB] {
                    made.rpm.push(rpm::package(part, recipe, &programs, target.arch)?);
                }
                made.programs = Some(programs);
            }
        }
        let parts: Vec<&Part> = [&HAUL, &LAB, &MPI].into_iter().filter(|part| mpi.builds(part.name)).collect();
        if parts.len() < 3 {
            made.missing.push("NOT MADE: the package haul-mpi, for want of MPI".into());
        }
        let programs = parts.iter().flat_map(|part| part.programs).copied().collect::<Vec<_>>();
        let programs = recipe.build(&DYNAMIC, &programs)?;
        for part in parts {
            made.debian.push(debian::package(part, recipe, &programs)?);
        }
        sum_up(&recipe.into)?;
        Ok(made)
    }
}

/// SHA256SUMS, as sha256sum(1) reads it.
fn sum_up(dir: &Path) -> Result {
    let names: Vec<_> = shell::entries(dir)?.iter().filter_map(|file| Some(file.file_name()?.to_owned())).collect();
    let sums = shell::output(shell::command("sha256sum").current_dir(dir).args(names))?;
    shell::write(&dir.join("SHA256SUMS"), &sums)
}
