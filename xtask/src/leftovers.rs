//! What tests left behind: mounts, loop devices and files.
//!
//! Tests get a temporary directory of their own (by TMPDIR), so whatever is in it, is mounted below it or backed by a
//! file in it afterwards is theirs, whoever else works on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haul_measure::leftovers::free;
use haul_measure::mounts;

use crate::shell::Result;

/// How long mounts may take to go after the last test has ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// A directory for the temporary files of one run of the tests.
pub struct Scratch {
    path: PathBuf,
    before: Vec<String>,
    patience: Duration,
}

impl Scratch {
    /// Makes it. The path is short, since a socket's address has room for 107 bytes.
    pub fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("haul-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Scratch { before: held()?, patience: PATIENCE, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reports mounts and loop devices that are still there, frees them, and removes the directory.
    ///
    /// # Errors
    /// When there were any mounts or loop devices of ours.
    pub fn finish(self) -> Result<String> {
        let inside = self.path.to_string_lossy().into_owned();
        let ours =
            || -> Result<Vec<String>> { Ok(held()?.into_iter().filter(|line| line.contains(&inside)).collect()) };
        // The kernel takes down a dead namespace's mounts, and a loop device below them, a moment later.
        let deadline = Instant::now() + self.patience;
        while !ours()?.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        let ours = ours()?;
        for line in &ours {
            println!("left behind: {line}");
        }
        // Tests that ignore TMPDIR, or another run at the same time: to be looked at, but no proof of anything.
        for line in held()?.iter().filter(|line| line.contains("haul") && !line.contains(&inside)) {
            if !self.before.contains(line) {
                println!("new outside the temporary directory: {line}");
            }
        }
        let files = fs::read_dir(&self.path).map_or(0, Iterator::count);
        free(&self.path)?;
        if !ours.is_empty() {
            return Err(format!("the tests left {} mounts or loop devices behind", ours.len()));
        }
        Ok(match files {
            0 => "nothing left behind".into(),
            count => format!("no mounts or loop devices left; removed {count} temporary files or directories"),
        })
    }
}

/// One line for each mount and each loop device in use.
fn held() -> Result<Vec<String>> {
    let all = mounts::all().map_err(|error| format!("cannot find out what is mounted: {error}"))?;
    let mut lines: Vec<String> = all.iter().map(|mount| format!("mount {}", mount.point.display())).collect();
    lines.extend(mounts::loops().iter().map(|(device, file)| format!("{} on {}", device.display(), file.display())));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    #[test]
    fn a_mount_that_stays_is_an_error_and_is_freed() {
        if !shell::is_root() {
            return haul_testbed::skip("mounting needs root");
        }
        let scratch = Scratch {
            path: std::env::temp_dir().join(format!("haul-left-{}", std::process::id())),
            before: vec![],
            patience: Duration::ZERO,
        };
        let inner = scratch.path.join("mount");
        fs::create_dir_all(&inner).unwrap();
        shell::run(shell::command("mount").args(["-t", "tmpfs", "none"]).arg(&inner)).unwrap();
        let path = scratch.path.clone();
        assert!(scratch.finish().is_err());
        assert!(!path.exists());
    }
}
