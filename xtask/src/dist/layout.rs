//! What is distributed in which part, and where it is below a prefix (FHS, and where the shells look for completions).

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::build::{Recipe, Stamp};
use crate::shell::{self, Result};

/// Commands that are installed together: a package of a distribution.
pub struct Part {
    pub name: &'static str,
    pub summary: &'static str,
    /// Without a line of more than 79 bytes, for control files and spec files.
    pub description: &'static [&'static str],
    /// Packages of cargo, and their programs.
    pub programs: &'static [(&'static str, &'static str)],
    /// A name, and the program that it links to.
    links: &'static [(&'static str, &'static str)],
    /// In the workspace, and below the prefix.
    files: &'static [(&'static str, &'static str)],
    /// Of Debian: what it needs besides libraries, and what is installed with it.
    pub depends: &'static [&'static str],
    pub recommends: &'static [&'static str],
}

pub const HAUL: Part = Part {
    name: "haul",
    summary: "copies files the fastest way that is right",
    description: &[
        "haul copies files, trees and disk images. It picks the fastest way that the",
        "filesystems, the device and the page cache allow, says what it picked and why,",
        "keeps what a copy must keep, and can prove that the copy is right.",
        "By the name cp it behaves as cp does.",
        "smartcp copies disk images: it does not read blocks that the guest does not",
        "use, and does not write zeros.",
    ],
    programs: &[("haul-cli", "haul")],
    links: &[("smartcp", "haul")],
    files: &[
        ("generated/haul.1", "share/man/man1/haul.1"),
        ("generated/haul.bash", "share/bash-completion/completions/haul"),
        ("generated/_haul", "share/zsh/site-functions/_haul"),
        ("generated/haul.fish", "share/fish/vendor_completions.d/haul.fish"),
        ("generated/smartcp.1", "share/man/man1/smartcp.1"),
        ("generated/smartcp.bash", "share/bash-completion/completions/smartcp"),
        ("generated/_smartcp", "share/zsh/site-functions/_smartcp"),
        ("generated/smartcp.fish", "share/fish/vendor_completions.d/smartcp.fish"),
        ("LICENSE-MIT", "share/doc/haul/LICENSE-MIT"),
        ("LICENSE-APACHE", "share/doc/haul/LICENSE-APACHE"),
        ("README.md", "share/doc/haul/README.md"),
        ("CHANGELOG.md", "share/doc/haul/CHANGELOG.md"),
    ],
    depends: &[],
    recommends: &[],
};

pub const LAB: Part = Part {
    name: "haul-lab",
    summary: "measures how fast files can be copied, and explains it",
    description: &[
        "haul-lab inspects filesystems, devices and the page cache, measures ways of",
        "copying files in turns, and says how sure its figures are.",
    ],
    programs: &[("haul-lab", "haul-lab")],
    links: &[],
    files: &[("generated/haul-lab.1", "share/man/man1/haul-lab.1"), ("docs/lab.md", "share/doc/haul-lab/lab.md")],
    depends: &[],
    recommends: &["haul"],
};

/// Dynamic alone: it fits one MPI.
pub const MPI: Part = Part {
    name: "haul-mpi",
    summary: "one copy by many machines",
    description: &[
        "haul-mpi copies a tree with all processes of an MPI job, on filesystems that",
        "all machines of the job have mounted. It takes the options of haul.",
    ],
    programs: &[("haul-mpi", "haul-mpi")],
    links: &[],
    files: &[
        ("docs/man/haul-mpi.1", "share/man/man1/haul-mpi.1"),
        ("docs/cluster.md", "share/doc/haul-mpi/cluster.md"),
        ("docs/examples/haul-mpi.sbatch", "share/doc/haul-mpi/examples/haul-mpi.sbatch"),
    ],
    // Its orted is needed by a single rank without mpirun, too.
    depends: &["openmpi-bin"],
    recommends: &[],
};

impl Part {
    /// Puts it below a prefix; the programs are in a folder.
    pub fn lay_out(&self, source: &Path, programs: &Path, prefix: &Path) -> Result {
        for (_, program) in self.programs {
            place(&programs.join(program), &prefix.join("bin").join(program), 0o755)?;
        }
        for (name, program) in self.links {
            let link = prefix.join("bin").join(name);
            symlink(program, &link).map_err(shell::at(&link))?;
        }
        self.lay_out_files(source, prefix)
    }

    fn lay_out_files(&self, source: &Path, prefix: &Path) -> Result {
        self.files.iter().try_for_each(|(from, to)| place(&source.join(from), &prefix.join(to), 0o644))
    }
}

fn place(from: &Path, to: &Path, mode: u32) -> Result {
    shell::make_dir(to.parent().unwrap_or(to))?;
    shell::copy(from, to)?;
    shell::set_mode(to, mode)
}

/// An archive for any distribution: static programs, manual pages of all commands, completions.
///
/// # Errors
/// When a file is missing.
pub fn archive(recipe: &Recipe, programs: &Path, arch: &str) -> Result<PathBuf> {
    let name = format!("haul-{}-{arch}-linux", recipe.stamp.version);
    let room = recipe.target.join("layout").join(arch);
    shell::remove(&room)?;
    let prefix = room.join(&name);
    for part in [&HAUL, &LAB] {
        part.lay_out(&recipe.source, programs, &prefix)?;
    }
    MPI.lay_out_files(&recipe.source, &prefix)?;
    let archive = recipe.into.join(format!("{name}.tar.gz"));
    tar(&room, &name, &archive, &recipe.stamp)?;
    Ok(archive)
}

/// The same bytes for the same files, whoever makes it, and when.
fn tar(dir: &Path, name: &str, archive: &Path, stamp: &Stamp) -> Result {
    let mut tar = shell::command("tar");
    tar.current_dir(dir)
        .args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mode=u=rwX,go=rX", &format!("--mtime=@{}", stamp.seconds)])
        .args(["--use-compress-program=gzip -9 --no-name", "--file"])
        .arg(archive)
        .arg(name);
    shell::run(&mut tar)
}
