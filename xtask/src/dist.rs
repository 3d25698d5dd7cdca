//! `cargo xtask dist`: what a packager or a user needs, in one folder.

use std::path::{Path, PathBuf};

use crate::shell::{self, Result};

/// Files of the workspace and where they go below `dist/`.
const FILES: &[(&str, &str)] = &[
    ("generated/haul.1", "man/man1/haul.1"),
    ("generated/haul.bash", "completions/bash/haul"),
    ("generated/_haul", "completions/zsh/_haul"),
    ("generated/haul.fish", "completions/fish/haul.fish"),
    ("generated/smartcp.1", "man/man1/smartcp.1"),
    ("generated/smartcp.bash", "completions/bash/smartcp"),
    ("generated/_smartcp", "completions/zsh/_smartcp"),
    ("generated/smartcp.fish", "completions/fish/smartcp.fish"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
];

/// What comes with haul-mpi, which is built only when asked for: it fits one MPI.
const MPI_FILES: &[(&str, &str)] = &[
    ("docs/man/haul-mpi.1", "man/man1/haul-mpi.1"),
    ("docs/cluster.md", "doc/cluster.md"),
    ("docs/examples/haul-mpi.sbatch", "doc/examples/haul-mpi.sbatch"),
];

/// Builds the release binary and lays everything out in `dist/`, which is emptied first. With `--mpi` haul-mpi as well,
/// for the MPI whose compiler `MPICC` names (`mpicc` if it names none).
pub fn run(arguments: &[String]) -> Result {
    let with_mpi = match arguments {
        [] => false,
        [argument] if argument == "--mpi" => true,
        _ => return Err("dist knows --mpi and nothing else".into()),
    };
    shell::run(shell::cargo().args(["build", "--release", "--locked", "--package", "haul-cli", "--bin", "haul"]))?;
    let dist = shell::root().join("dist");
    shell::remove(&dist)?;
    place(&shell::target().join("release/haul"), &dist.join("bin/haul"))?;
    println!("{} holds:", dist.display());
    println!("  bin/haul");
    lay_out(FILES, &dist)?;
    if with_mpi {
        place(&build_for_mpi()?, &dist.join("bin/haul-mpi"))?;
        println!("  bin/haul-mpi");
        lay_out(MPI_FILES, &dist)?;
    }
    Ok(())
}

/// In a target directory of its own: the workspace may be built with another MPI, which the build would not notice.
fn build_for_mpi() -> Result<PathBuf> {
    let target = shell::target().join("dist-mpi");
    shell::remove(&target)?;
    let mut build = shell::cargo();
    build.args(["build", "--release", "--locked", "--package", "haul-mpi", "--bin", "haul-mpi", "--target-dir"]);
    shell::run(build.arg(&target))?;
    Ok(target.join("release/haul-mpi"))
}

fn lay_out(files: &[(&str, &str)], dist: &Path) -> Result {
    for (from, to) in files {
        place(&shell::root().join(from), &dist.join(to))?;
        println!("  {to}");
    }
    Ok(())
}

fn place(from: &Path, to: &Path) -> Result {
    shell::make_dir(to.parent().unwrap_or(to))?;
    // Keeps the permission bits, so the binary stays executable.
    shell::copy(from, to)
}
