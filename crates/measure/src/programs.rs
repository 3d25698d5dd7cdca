//! Programs of the system: where they are, and running them for what they do.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program without standard input and with the system's directories in its path.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).env("PATH", search_path());
    command
}

/// Runs a command to its end with its output shown.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {}: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", line(command))) }
}

/// Runs a command and gives its standard output, which must be text.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", line(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", line(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", line(command)))
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Whether a program is there, also in the directories that only root has in its path.
pub fn has(program: &str) -> bool {
    find(program).is_some()
}

/// Where a program is; what has a directory in its name is looked for there alone.
pub fn find(program: impl AsRef<Path>) -> Option<PathBuf> {
    let is_program =
        |file: &PathBuf| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if program.as_ref().components().count() > 1 {
        return Some(program.as_ref().to_owned()).filter(is_program);
    }
    let path = search_path();
    env::split_paths(&path).map(|dir| dir.join(&program)).find(is_program)
}

fn search_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}
