//! Takes away a directory in which filesystems were mounted.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::mounts;
use crate::programs::{self, command, run};

/// Unmounts what is mounted below a directory, frees the loop devices on files in it, and removes it.
pub fn free(dir: &Path) -> Result<(), String> {
    let all = mounts::all().map_err(|error| format!("/proc/thread-self/mountinfo: {error}"))?;
    for mount in all.iter().rev().filter(|mount| mount.point.starts_with(dir)) {
        run(command("umount").arg("--lazy").arg(&mount.point))?;
    }
    for (device, backing) in mounts::loops() {
        if backing.starts_with(dir) {
            run(command("losetup").arg("--detach").arg(device))?;
        }
    }
    // Some tests leave immutable or append-only files when they fail; chattr is there if they could make them.
    if dir.exists() && fs::remove_dir_all(dir).is_err() && programs::has("chattr") {
        command("chattr").args(["-R", "-f", "-i", "-a"]).arg(dir).status().map_err(|error| error.to_string())?;
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("cannot remove {}: {error}", dir.display())),
        _ => Ok(()),
    }
}
