//! The programs of docs/examples/json read what `--json` prints.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use haul_testbed::{Command, skip, temp_dir};

/// Runs one on a tree of which a part cannot be copied, since a directory stands in its place.
fn run(interpreter: &[&str], program: &str) {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("from/sub")).unwrap();
    fs::create_dir_all(at("to/bad")).unwrap();
    for name in ["from/bad", "from/good", "from/sub/deep"] {
        fs::write(at(name), name).unwrap();
    }
    fs::create_dir(at("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haul"), at("bin/haul")).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/json").join(program);
    let output = Command::new(interpreter[0])
        .args(&interpreter[1..])
        .arg(program)
        .args(["from", "to"])
        .current_dir(dir.path())
        .env("PATH", format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap()))
        .env("GOCACHE", at("cache"))
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return skip(format!("{} is not installed", interpreter[0]));
        }
        output => output.unwrap(),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    assert_eq!(
        lines,
        [
            "copied from/good",
            "copied from/sub",
            "copied from/sub/deep",
            "failed to/bad cannot overwrite directory 'to/bad' with non-directory 'from/bad'"
        ],
        "{errors}"
    );
    assert_eq!(fs::read(at("to/sub/deep")).unwrap(), b"from/sub/deep");
}

#[test]
fn go() {
    run(&["go", "run"], "copy.go");
}

#[test]
fn node() {
    run(&["node"], "copy.mjs");
}

#[test]
fn python() {
    run(&["python3"], "copy.py");
}
