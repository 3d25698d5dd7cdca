//! What the guests of one run have as disks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::machine::{Machine, make_disk};
use crate::mpi::Mpi;
use crate::shell::{self, Result};

/// What the guests run, and the packages that it is in.
pub const PROGRAMS: [(&str, &str); 3] = [("haul-cli", "haul"), ("haul-lab", "haul-lab"), ("haul-vmlab", "haul-vmlab")];

/// How large the disk is that a guest makes its filesystems on. It takes only what is written.
const SCRATCH: u64 = 6 << 30;

/// The disks of one run, which go with it.
pub struct Disks {
    /// Where they are, and the wires between machines.
    pub dir: PathBuf,
    pub programs: PathBuf,
    /// For filesystems.
    pub scratch: PathBuf,
}

impl Disks {
    /// The guests run the `programs` of this build, but for `haul`, if that is another one.
    pub fn make(machine: &Machine, programs: &Path, haul: Option<&Path>) -> Result<Disks> {
        let dir = machine.dir().join(format!("run-{}", std::process::id()));
        let disks = Disks { programs: dir.join("programs.img"), scratch: dir.join("scratch.img"), dir };
        let content = disks.dir.join("programs");
        shell::make_dir(&content)?;
        let ours = PROGRAMS.iter().map(|(_, name)| match haul {
            Some(haul) if *name == "haul" => (haul.to_owned(), *name),
            _ => (programs.join(name), *name),
        });
        for (from, name) in ours.chain(Mpi::programs().filter(|(from, _)| from.exists())) {
            // Who drops the caches of a guest waits for the programs to be read again, and nine tenths are for debuggers.
            shell::run(shell::command("strip").arg("--strip-debug").arg("-o").arg(content.join(name)).arg(from))?;
        }
        make_disk(&disks.programs, &content, 512 << 20)?;
        Ok(disks)
    }

    /// Each kernel finds the same empty disk.
    pub fn empty_scratch(&self) -> Result {
        let made = File::create(&self.scratch).and_then(|file| file.set_len(SCRATCH));
        made.map_err(shell::at(&self.scratch))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // What stays is litter below target/, and a later run has a directory of its own.
        fs::remove_dir_all(&self.dir).unwrap_or_default();
    }
}
