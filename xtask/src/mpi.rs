//! haul-mpi with both implementations of MPI: where it can be built, and the second build of it.
//!
//! The workspace is built with Open MPI. Build scripts of the crate `mpi-sys` do not notice that `MPICC` has changed, so
//! MPICH has a target directory of its own, and what somebody else left in ours is looked at.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::packages;
use crate::shell::{self, Checked, Result};

const PACKAGE: &str = "haul-mpi";
/// Their compilers, by the names that Debian gives them.
const OPEN_MPI: &str = "mpicc.openmpi";
const MPICH: &str = "mpicc.mpich";

/// Whether haul-mpi takes part.
pub struct Mpi {
    /// Why not, if not.
    missing: Option<String>,
}

impl Mpi {
    /// Looks at what is installed, once for all phases.
    pub fn look() -> Mpi {
        let missing = packages::missing_for_mpi();
        let missing = (!missing.is_empty())
            .then(|| format!("{PACKAGE} is skipped, the Debian packages are missing: {}", missing.join(" ")));
        if let Some(why) = &missing {
            println!("NOT CHECKED: {why}");
        }
        Mpi { missing }
    }

    /// Makes a command of cargo one for all of the workspace that can be built here, with Open MPI. The tests hear
    /// where the other build is.
    pub fn workspace(&self, command: &mut Command) {
        command.arg("--workspace");
        match self.missing {
            Some(_) => command.args(["--exclude", PACKAGE]),
            None => Mpi::both(command),
        };
    }

    /// The same for a command that runs tests of haul-mpi itself.
    pub fn both(command: &mut Command) -> &mut Command {
        Mpi::compiler(command).env("HAUL_MPI_MPICH", mpich_program())
    }

    /// Makes a command of cargo build with Open MPI, if it builds haul-mpi.
    pub fn compiler(command: &mut Command) -> &mut Command {
        command.env("MPICC", OPEN_MPI)
    }

    /// Whether a package of the workspace can be built here.
    pub fn builds(&self, package: &str) -> bool {
        !Mpi::is_needed_by(package) || self.missing.is_none()
    }

    /// Whether a package of the workspace needs MPI.
    pub fn is_needed_by(package: &str) -> bool {
        package == PACKAGE
    }

    /// Builds it with both.
    ///
    /// # Errors
    /// When it does not build, or, where `CI` is `true`, cannot be built.
    pub fn build(&self) -> Result<Checked> {
        match &self.missing {
            Some(why) if shell::in_ci() => {
                return Err(format!("{why}; in CI nothing may be skipped"));
            }
            Some(why) => {
                return Ok(Checked { done: "nothing built".into(), missing: Some(format!("NOT CHECKED: {why}")) });
            }
            None => {}
        }
        if built_with_mpich()? {
            shell::run(shell::cargo().args(["clean", "--package", "mpi-sys"]))?;
        }
        build_with(OPEN_MPI, shell::target())?;
        let is_new = !mpich_target().exists();
        if is_new {
            take_what_has_no_mpi()?;
        }
        build_with(MPICH, mpich_target())?;
        Ok("with Open MPI and with MPICH".to_owned().into())
    }

    /// What this has built, with a name for each.
    pub fn programs() -> impl Iterator<Item = (PathBuf, &'static str)> {
        [(shell::target().join("debug").join(PACKAGE), PACKAGE), (mpich_program(), "haul-mpi-mpich")].into_iter()
    }
}

fn build_with(compiler: &str, target: PathBuf) -> Result {
    let mut command = shell::cargo();
    command.args(["build", "--locked", "--package", PACKAGE, "--bins", "--examples", "--target-dir"]);
    command.arg(target).env("MPICC", compiler);
    shell::run(&mut command)
}

/// Begins the second target directory with what was built for the first: nearly all of it has nothing to do with MPI, and to
/// build it again takes minutes.
fn take_what_has_no_mpi() -> Result {
    let (ours, theirs) = (shell::target().join("debug"), mpich_target().join("debug"));
    shell::make_dir(&theirs)?;
    for part in [".fingerprint", "build", "deps"] {
        // cargo goes by the times of files.
        shell::run(shell::command("cp").args(["-a", "--reflink=auto"]).arg(ours.join(part)).arg(&theirs))?;
    }
    shell::run(shell::cargo().args(["clean", "--package", "mpi-sys", "--target-dir"]).arg(mpich_target()))
}

fn mpich_target() -> PathBuf {
    shell::target().join("mpich")
}

fn mpich_program() -> PathBuf {
    mpich_target().join("debug").join(PACKAGE)
}

/// Whether a build of the workspace was made with MPICH: by hand, and for the next one that does not ask again.
fn built_with_mpich() -> Result<bool> {
    let build = shell::target().join("debug/build");
    let entries = match fs::read_dir(&build) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(format!("{}: {error}", build.display())),
    };
    let of_mpi = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("mpi-sys-"));
    // What has no output did not run.
    let outputs = of_mpi.filter_map(|entry| fs::read_to_string(entry.path().join("output")).ok());
    Ok(outputs.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).any(|line| links_mpich(&line)))
}

fn links_mpich(line: &str) -> bool {
    line.strip_prefix("cargo:rustc-link-lib=").is_some_and(|library| library == "mpich")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_with_mpich_is_known_by_the_library_that_it_links() {
        assert!(links_mpich("cargo:rustc-link-lib=mpich"));
        assert!(!links_mpich("cargo:rustc-link-lib=mpi"));
    }

    #[test]
    fn without_mpi_the_workspace_is_checked_without_haul_mpi() {
        let mut command = Command::new("cargo");
        Mpi { missing: Some("nothing is there".into()) }.workspace(&mut command);
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["--workspace", "--exclude", "haul-mpi"]);
    }
}
