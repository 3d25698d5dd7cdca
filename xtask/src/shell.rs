//! Running programs and finding things.

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_measure::own::Own;
use haul_measure::{programs, workspace};

pub use haul_measure::programs::{find, has, line, output, run};

/// What a task gives back; the error is a message for people. A task fails where what it checks does not hold, or cannot be
/// checked.
pub type Result<T = ()> = std::result::Result<T, String>;

/// How checks went that cannot all be made everywhere.
pub struct Checked {
    pub done: String,
    /// What could not be checked, and why. Not a failure, but never silent.
    pub missing: Option<String>,
}

impl From<String> for Checked {
    fn from(done: String) -> Checked {
        Checked { done, missing: None }
    }
}

/// Makes a message of what went wrong with a file.
pub fn at<E: Display>(path: &Path) -> impl Fn(E) -> String + Copy {
    move |error| format!("{}: {error}", path.display())
}

pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs this task, working in the root of the workspace.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A part of this program that is a process of its own.
pub fn own(part: &str) -> Result<Command> {
    let mut command = command(Own::running()?.path());
    command.arg(part);
    Ok(command)
}

/// A program of the nightly toolchain.
pub fn nightly(program: &str) -> Command {
    let mut command = command("rustup");
    command.args(["run", "nightly", program]);
    // What the cargo that runs this task has set is for another toolchain.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}

/// The target that the nightly toolchain builds for. A build that names it gives its flags to no build script.
pub fn nightly_host() -> Result<String> {
    let version = output(nightly("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    Ok(host.to_owned())
}

/// A program in the root of the workspace, without standard input and with the system's directories in its path.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = programs::command(program);
    command.current_dir(root());
    command
}

/// Makes a directory and those above it, as far as they are missing.
pub fn make_dir(path: &Path) -> Result {
    std::fs::create_dir_all(path).map_err(at(path))
}

/// The paths of what is in a directory, by name.
pub fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
    let mut entries: Vec<PathBuf> = entries.map_err(at(dir))?;
    entries.sort();
    Ok(entries)
}

/// Copies a file, with its permission bits.
pub fn copy(from: &Path, to: &Path) -> Result {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{} -> {}: {error}", from.display(), to.display()))
}

/// Removes a file or a tree, if it is there.
pub fn remove(path: &Path) -> Result {
    workspace::remove(path).map_err(at(path))
}

pub fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(at(path))
}

pub fn make_executable(path: &Path) -> Result {
    set_mode(path, 0o755)
}

pub fn set_mode(path: &Path, mode: u32) -> Result {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(at(path))
}

/// Whether nothing may be skipped.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

pub fn is_root() -> bool {
    haul_sys::rustix::process::geteuid().is_root()
}
