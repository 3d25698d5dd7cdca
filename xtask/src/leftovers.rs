//! What tests left behind: mounts, loop devices and files.
//!
//! Tests get a temporary directory of their own (by TMPDIR), so whatever is in it, is mounted below it or backed by a
//! file in it afterwards is theirs, whoever else works on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::shell::{self, Result};

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
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("haul-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Scratch { before: held()?, patience: PATIENCE, path })
    }

    /// Where it is.
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

/// Unmounts what is mounted below a directory, frees the loop devices on files in it, and removes it.
///
/// # Errors
/// When something resists.
pub fn free(dir: &Path) -> Result {
    let mut mounts: Vec<PathBuf> = mounts()?.into_iter().filter(|mount| mount.starts_with(dir)).collect();
    mounts.reverse();
    for mount in mounts {
        shell::run(shell::command("umount").arg("--lazy").arg(mount))?;
    }
    for (device, backing) in loops() {
        if backing.starts_with(dir) {
            shell::run(shell::command("losetup").arg("--detach").arg(device))?;
        }
    }
    // Some tests leave immutable or append-only files when they fail; chattr is there if they could make them.
    if dir.exists() && fs::remove_dir_all(dir).is_err() && shell::has("chattr") {
        shell::command("chattr").args(["-R", "-f", "-i", "-a"]).arg(dir).status().map_err(|e| e.to_string())?;
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// One line for each mount and each loop device in use.
fn held() -> Result<Vec<String>> {
    let mut lines: Vec<String> = mounts()?.iter().map(|mount| format!("mount {}", mount.display())).collect();
    lines.extend(loops().iter().map(|(device, file)| format!("{} on {}", device.display(), file.display())));
    Ok(lines)
}

fn mounts() -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    Ok(table.lines().filter_map(|line| line.split(' ').nth(4)).map(|field| PathBuf::from(unescape(field))).collect())
}

fn loops() -> Vec<(PathBuf, PathBuf)> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let in_use = |name: std::ffi::OsString| {
        // Absent where the device is free.
        let backing = fs::read_to_string(Path::new("/sys/block").join(&name).join("loop/backing_file")).ok()?;
        Some((Path::new("/dev").join(name), PathBuf::from(backing.trim_end())))
    };
    devices.filter_map(|entry| in_use(entry.ok()?.file_name())).collect()
}

/// Undoes the octal escapes of /proc/self/mountinfo (space, tab, newline, backslash).
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_mountinfo_are_unescaped() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }

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
