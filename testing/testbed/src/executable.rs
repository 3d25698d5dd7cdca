//! Programs that a test makes and then starts.
//!
//! A program that is open for writing cannot be started (`ETXTBSY`, execve(2)). A test that writes one itself has closed it
//! before it starts it, but another thread of the test program that forked in between has passed the descriptor to a
//! child, which keeps it until its own `execve`. So another process writes it here.

use std::ffi::OsStr;
use std::path::Path;

use crate::Command;

/// Copies the program `from` to `to`, with its mode.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    run("cp -- \"$1\" \"$2\"", from.as_ref().as_os_str(), to.as_ref());
}

/// Makes `text` the script `path`, which everybody may start.
///
/// # Panics
/// If it cannot be written.
pub fn write_script(path: impl AsRef<Path>, text: impl AsRef<str>) {
    run("printf %s \"$1\" >\"$2\" && chmod 755 -- \"$2\"", text.as_ref().as_ref(), path.as_ref());
}

fn run(script: &str, first: &OsStr, path: &Path) {
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(first).arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot make the program {}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::temp_dir;

    #[test]
    fn a_script_that_was_written_can_be_started_and_so_can_its_copy() {
        let dir = temp_dir();
        let [path, copy] = ["it's", "copy"].map(|name| dir.path().join(name));
        write_script(&path, "#!/bin/sh\necho \"$1%s\"\n");
        copy_program(&path, &copy);
        for program in [path, copy] {
            let output = Command::new(program).arg("a b").output().unwrap();
            assert_eq!(output.stdout, b"a b%s\n");
        }
    }
}
