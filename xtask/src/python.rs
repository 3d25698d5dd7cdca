//! The Python package: its wheel is built, installed into a fresh environment, and tested there.

use std::path::{Path, PathBuf};

use crate::shell::{self, Result};

/// Builds wheels. Pinned, as the tools are that cargo installs.
const MATURIN: &str = "1.16.0";

/// The system's, whose packages the tests need.
pub const PYTHON: &str = "/usr/bin/python3";

/// Builds the wheel and tests it with the system's interpreter, or with another one, which may be free-threaded.
///
/// # Errors
/// When it does not build, or a test fails.
pub fn run(args: &[String]) -> Result {
    let interpreter = match args {
        [] => PYTHON.to_owned(),
        // It is started in several directories.
        [name, path] if name == "--interpreter" && path.contains('/') => {
            std::path::absolute(path).map_err(shell::at(path.as_ref()))?.display().to_string()
        }
        [name, program] if name == "--interpreter" => program.clone(),
        _ => return Err("python knows --interpreter PROGRAM, and nothing else".into()),
    };
    check_with(&interpreter).map(|done| println!("{done}"))
}

/// The same, as a phase of `cargo xtask test`.
///
/// # Errors
/// As of [`run`].
pub fn check() -> Result<String> {
    check_with(PYTHON)
}

fn check_with(interpreter: &str) -> Result<String> {
    let room = shell::target().join("python");
    shell::remove(&room)?;
    let wheel = wheel("dev", interpreter, &room.join("wheels"))?;
    let python = installed_for(interpreter, &wheel, &room.join("environment"))?;
    let tests = shell::root().join("crates/python/tests");
    let own = ran(&python, &tests.join("test_haul_copy.py"))?;
    let theirs = ran(&python, &tests.join("cpython.py"))?;
    Ok(format!("{}, installed; own tests: {own}; CPython's: {theirs}", file_name(&wheel)))
}

/// A wheel for all versions of Python with a stable interface, or, of an interpreter that has none, for its version; with
/// binaries of this profile.
///
/// # Errors
/// When maturin cannot be fetched, or the wheel does not build.
fn wheel(profile: &str, interpreter: &str, into: &Path) -> Result<PathBuf> {
    let mut build = shell::command(maturin()?);
    build.args(["build", "--locked", "--profile", profile, "--interpreter", interpreter, "--out"]).arg(into);
    build.env("CARGO_TARGET_DIR", shell::target()).current_dir(shell::root().join("crates/python"));
    shell::run(&mut build)?;
    match shell::entries(into)?.as_slice() {
        [wheel] => Ok(wheel.clone()),
        several => Err(format!("maturin made {several:?}, and not one wheel")),
    }
}

/// The program that builds wheels, fetched if it is not there yet.
///
/// # Errors
/// When it cannot be fetched.
pub fn maturin() -> Result<PathBuf> {
    let home = shell::target().join(format!("tools/maturin-{MATURIN}"));
    let program = home.join("bin/maturin");
    if !program.exists() {
        println!("installing maturin {MATURIN} (once)");
        shell::remove(&home)?;
        let python = environment(PYTHON, &home)?;
        shell::run(pip(&python).arg(format!("maturin=={MATURIN}")))?;
    }
    Ok(program)
}

/// Installs a wheel into a fresh environment, without any other package; the interpreter of that.
///
/// # Errors
/// When pip refuses it.
pub fn installed(wheel: &Path, dir: &Path) -> Result<PathBuf> {
    installed_for(PYTHON, wheel, dir)
}

fn installed_for(interpreter: &str, wheel: &Path, dir: &Path) -> Result<PathBuf> {
    let python = environment(interpreter, dir)?;
    shell::run(pip(&python).arg("--no-index").arg(wheel))?;
    Ok(python)
}

/// Makes a virtual environment; its interpreter.
fn environment(interpreter: &str, dir: &Path) -> Result<PathBuf> {
    shell::run(shell::command(interpreter).args(["-m", "venv"]).arg(dir))?;
    Ok(dir.join("bin/python"))
}

fn pip(python: &Path) -> std::process::Command {
    let mut pip = shell::command(python);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]);
    pip
}

/// Runs a file of tests, and says how many passed.
fn ran(python: &Path, file: &Path) -> Result<String> {
    let output = shell::command(python).arg(file).output().map_err(shell::at(python))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    if !output.status.success() {
        return Err(format!("{} failed (see above)", file.display()));
    }
    summary(&said).ok_or_else(|| format!("{} ran no test", file.display()))
}

/// What unittest says of all tests; `None` if there were none.
fn summary(said: &str) -> Option<String> {
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran "))?.split(' ').next()?;
    let verdict = said.lines().find(|line| line.starts_with("OK"))?;
    (ran != "0").then(|| format!("{ran} {verdict}"))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tests_are_no_success() {
        assert_eq!(summary("..\nRan 2 tests in 0.1s\n\nOK (skipped=1)\n"), Some("2 OK (skipped=1)".into()));
        assert_eq!(summary("\nRan 0 tests in 0.0s\n\nOK\n"), None);
        assert_eq!(summary("Ran 2 tests in 0.1s\n\nFAILED (errors=1)\n"), None);
    }
}
