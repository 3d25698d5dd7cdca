//! Where copies are timed: a real filesystem, and others in loop images.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use haul_measure::space;
use haul_measure::storage::Storage;

use crate::shell::{self, Result};

/// Set in the process that has a mount namespace of its own.
const NAMESPACE: &str = "HAUL_BENCH_NAMESPACE";

/// A filesystem to make in an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// Its name in `--place` and in the tables.
    pub name: &'static str,
    /// The command that makes it; the device is added.
    pub mkfs: &'static [&'static str],
    /// Files can share extents there.
    pub reflink: bool,
}

/// Every filesystem that can be made.
pub const IMAGES: &[Image] = &[
    Image { name: "ext4", mkfs: &["mkfs.ext4", "-q", "-F"], reflink: false },
    Image { name: "xfs-data", mkfs: &["mkfs.xfs", "-q", "-f", "-m", "reflink=0"], reflink: false },
    Image { name: "xfs-reflink", mkfs: &["mkfs.xfs", "-q", "-f", "-m", "reflink=1"], reflink: true },
    Image { name: "btrfs-reflink", mkfs: &["mkfs.btrfs", "-q", "-f"], reflink: true },
];

/// A new filesystem, empty at first.
pub struct Place {
    pub dir: PathBuf,
}

/// Starts this program again in a private mount namespace, if it is root and not in one yet. Then nothing that is
/// mounted outlives the process, however it ends, and the loop devices go with the mounts.
///
/// # Errors
/// When the new process cannot be started; otherwise it returns only where there is nothing to do.
pub fn enter_namespace() -> Result {
    if !shell::is_root() || std::env::var_os(NAMESPACE).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = shell::command("unshare");
    command.args(["--mount", "--propagation", "private", "--"]).arg(program).args(std::env::args_os().skip(1));
    Err(format!("cannot run unshare: {}", command.env(NAMESPACE, "1").exec()))
}

impl Place {
    /// A new filesystem in an image in `base` with room for `space` bytes. The image has no name once it is attached, and
    /// the loop device detaches itself when the filesystem is unmounted.
    pub fn image_in(base: &Path, image: &Image, space: u64) -> Result<Place> {
        need(base, image.name, space)?;
        let (dir, file) = (base.join(image.name), base.join("image"));
        shell::make_dir(&dir)?;
        // Filesystems need room for themselves: btrfs keeps metadata twice, XFS refuses less than 300 MiB.
        let size = (space + space / 8).max(512 << 20);
        File::create(&file).and_then(|file| file.set_len(size)).map_err(shell::at(&file))?;
        let (program, args) = image.mkfs.split_first().ok_or("no mkfs")?;
        // mkfs.btrfs talks of its defaults even with -q, and standard output is for the tables.
        shell::run(shell::command(program).args(args).arg(&file).stdout(Stdio::null()))?;
        let mut attach = shell::command("losetup");
        let device = shell::output(attach.args(["--find", "--show", "--direct-io=on"]).arg(&file))?;
        let device = device.trim();
        // The device holds the file from now on; without a name it goes when the device goes.
        fs::remove_file(&file).map_err(shell::at(&file))?;
        let mounted = shell::run(shell::command("mount").arg(device).arg(&dir));
        // Detaches at once if the mount failed, and with the unmount otherwise.
        shell::run(shell::command("losetup").args(["--detach", device]))?;
        mounted.map(|()| Place { dir })
    }

    pub fn remove(self) -> Result {
        shell::run(shell::command("umount").arg(&self.dir))?;
        shell::remove(&self.dir)
    }
}

/// The type of the filesystem that a directory is on, and what is mounted there.
pub fn on(dir: &Path) -> Result<String> {
    let storage = Storage::of(dir)?;
    Ok(format!("{} on {}", storage.filesystem, storage.source))
}

/// Whether there is room for so many bytes, with some to spare.
pub fn need(dir: &Path, name: &str, space: u64) -> Result {
    let (free, wanted) = (space::free(dir)?, space + space / 4);
    if free > wanted {
        return Ok(());
    }
    Err(format!("{name} needs {} MiB, {} MiB are free; use --size, --runs or TMPDIR", wanted >> 20, free >> 20))
}
