//! Image files mounted by a program in user space, for filesystems that the kernel may not know.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};

use crate::Command;
use crate::guest::unmount;

/// A filesystem of an image, mounted by a FUSE program until this is dropped or [`FuseMount::unmount`] is called.
pub struct FuseMount {
    path: PathBuf,
    /// The other end is held by the program, and by nobody else.
    alive: Option<ChildStdout>,
}

impl FuseMount {
    /// Mounts an image file on a directory by `program IMAGE DIRECTORY -o OPTIONS`.
    ///
    /// # Panics
    /// If it cannot be mounted.
    pub(crate) fn mount(at: PathBuf, program: &str, image: &Path, options: &[&str]) -> FuseMount {
        // The program closes its standard streams, but knows nothing of a fourth one.
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"exec "$0" "$1" "$2" -o "$3" 3>&1 >/dev/null </dev/null"#, program]);
        shell.arg(image).arg(&at).arg([&["rw"], options].concat().join(","));
        let mut child = shell.stdout(Stdio::piped()).spawn().expect("cannot start a shell");
        let alive = child.stdout.take();
        let done = child.wait().expect("cannot wait for a shell");
        assert!(done.success(), "{program} cannot mount an image");
        FuseMount { path: at, alive }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it and waits until the program has ended, so that everything is in the image.
    ///
    /// # Panics
    /// If it cannot be unmounted.
    pub fn unmount(mut self) {
        unmount(&self.path);
        let mut alive = self.alive.take().expect("it is there until now");
        // Nothing comes, until the last descriptor of the pipe is closed.
        alive.read_to_end(&mut Vec::new()).expect("cannot wait for the program");
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        if self.alive.is_some() {
            // Best effort, after a failure of the test: the end of its namespace would do the same.
            Command::new("umount").arg("-l").arg(&self.path).status().map(drop).unwrap_or_default();
        }
    }
}
