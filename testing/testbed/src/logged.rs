//! A device whose writes are logged.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::guest::has;
use crate::process::WHOLE_TEST;
use crate::{Child, Command};

const DAEMON: &str = "qemu-storage-daemon";

/// An image file, served as another file by a process that logs what is written to that one. A loop device on it hands
/// flushes down as any disk gets them. The process needs no kernel driver but FUSE.
pub struct Logged {
    daemon: Child,
    export: PathBuf,
    log: PathBuf,
}

impl Logged {
    /// Serves an image; the log and the mount point are made beside it. `None`, after a skip, where there is no daemon.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(image: &Path) -> Option<Logged> {
        if !has(DAEMON) {
            return None;
        }
        let beside = |extension: &str| image.with_extension(extension);
        let (export, log) = (beside("export"), beside("log"));
        for path in [&export, &log] {
            File::create(path).expect("cannot make a file");
        }
        let unmounted = device_of(&export);
        let node = |name: &str, path: &Path| format!("driver=file,node-name={name},filename={}", path.display());
        let mut daemon = Command::new(DAEMON)
            .deadline(WHOLE_TEST)
            .args(["--blockdev", &node("disk", image), "--blockdev", &node("log", &log)])
            .args(["--blockdev", "driver=blklogwrites,node-name=logged,file=disk,log=log"])
            .arg("--export")
            .arg(format!("type=fuse,id=export,node-name=logged,mountpoint={},writable=on", export.display()))
            .stdin(Stdio::null())
            .spawn()
            .expect("cannot start the daemon");
        while device_of(&export) == unmounted {
            let ended = daemon.try_wait().expect("the daemon is ours");
            assert!(ended.is_none(), "{DAEMON}: {ended:?}");
            std::thread::yield_now();
        }
        Some(Logged { daemon, export, log })
    }

    /// The file to write to.
    pub fn path(&self) -> &Path {
        &self.export
    }

    /// The log.
    pub fn log(&self) -> &Path {
        &self.log
    }
}

fn device_of(path: &Path) -> u64 {
    fs::metadata(path).expect("cannot look at a file").dev()
}

impl Drop for Logged {
    fn drop(&mut self) {
        // Best effort: it has nothing to save, and the mount's namespace ends with the test.
        self.daemon.kill().unwrap_or_default();
        self.daemon.wait().map(drop).unwrap_or_default();
        Command::new("umount").arg("-l").arg(&self.export).status().map(drop).unwrap_or_default();
        fs::remove_file(&self.export).unwrap_or_default();
        fs::remove_file(&self.log).unwrap_or_default();
    }
}
