//! One machine's view of a directory that several machines share.
//!
//! Each of several mounts over one backing directory sees what the others do late, as clients of a network filesystem do:
//!
//! * **names**: a directory is looked at once, and for so long its names are those that were there then, and those that
//!   this mount made or removed since. That holds for what is missing too.
//! * **attributes** stay in the kernel for so long; an open asks for them again.
//! * **bytes** that were written are not in the backing file before a sync, a close, or a change of the file's attributes;
//!   those that were read stay in the page cache until the next open.
//!
//! Everything else passes through: types, owners, modes, times, ACLs, extended attributes, hard links, inode numbers, holes.
//! (The kernel's own write-back cache for FUSE would not do: it never takes a size from the server again.)
//!
//! The server is a process of its own, the example `late-view`, so that it can live in any namespace.

mod inodes;
mod lateness;
mod pending;
mod server;
mod view;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use crate::process::{BUILD, WHOLE_TEST};
use crate::skip::skip;
use crate::{Child, Command};

pub use lateness::Lateness;
pub use server::serve;

/// So long that no test lives to see its end.
pub const FOR_EVER: Duration = Duration::from_secs(3600);

/// A mounted view. Dropped, it is unmounted, and what was pending is written.
pub struct LateView {
    path: PathBuf,
    process: Child,
    /// Its end is that of the server, also when this process is killed.
    alive: Option<ChildStdin>,
}

impl LateView {
    /// Mounts a view of `backing` on the directory `at`. `None`, after a [`skip`], where the machine has no `/dev/fuse` or
    /// this is not root.
    ///
    /// `program` is the built example `late-view`; `starter` a command that starts it elsewhere, or nothing.
    ///
    /// # Panics
    /// If it is permitted and fails all the same.
    #[must_use]
    pub fn mount(
        program: &Path,
        starter: &[OsString],
        backing: &Path,
        at: &Path,
        lateness: Lateness,
    ) -> Option<LateView> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            skip("a view of a shared directory needs /dev/fuse and root");
            return None;
        }
        let mut words: Vec<OsString> = starter.to_vec();
        words.extend([program.into(), backing.into(), at.into()]);
        words.extend(lateness.words().map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).deadline(WHOLE_TEST).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("cannot start {words:?}: {error}"));
        let alive = process.stdin.take();
        let mut line = String::new();
        let out = process.stdout.take().expect("it has a pipe");
        BufReader::new(out).read_line(&mut line).expect("cannot read from a pipe");
        assert_eq!(line, "ready\n", "{words:?} cannot mount");
        Some(LateView { path: at.to_owned(), process, alive })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LateView {
    fn drop(&mut self) {
        drop(self.alive.take());
        // It has said on standard error what went wrong.
        self.process.wait().map(drop).unwrap_or_default();
    }
}

/// The example `late-view` beside a test, which stands in `target/PROFILE/deps`; cargo builds it where it is missing.
///
/// # Panics
/// If it cannot be built.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.ancestors().nth(2).expect("a test is in the deps of a target directory");
    let path = profile.join("examples/late-view");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.deadline(BUILD).args(["build", "--quiet", "--package", "haul-testbed", "--example", "late-view"]);
        let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be run");
        assert!(status.success() && path.exists(), "cargo did not build {}", path.display());
    }
    path
}
