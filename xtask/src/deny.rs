//! Licences, bans and sources of the dependencies by cargo-deny, and advisories where their database can be fetched.

use std::path::PathBuf;
use std::process::Stdio;

use crate::shell::{self, Checked, Result};

/// Pinned, so that a new release cannot break a build that was fine yesterday.
const VERSION: &str = "0.20.2";

/// Checks all dependencies against `deny.toml`.
pub fn run() -> Result<Checked> {
    let deny = tool()?;
    let check = |which: &[&str]| {
        let mut command = shell::command(&deny);
        command.args(["--workspace", "check"]).args(which);
        command
    };
    shell::run(&mut check(&["bans", "licenses", "sources"]))?;
    let done = "bans, licences, sources".to_owned();

    let mut advisories = check(&["advisories"]);
    let output = advisories.stdout(Stdio::inherit()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cannot run cargo-deny: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    if output.status.success() {
        return Ok(format!("{done}, advisories").into());
    }
    if said.contains("failed to fetch advisory database") {
        let why = "advisories NOT CHECKED: their database could not be fetched".to_owned();
        return Ok(Checked { done, missing: Some(why) });
    }
    Err("cargo-deny: advisories against the dependencies (see above)".into())
}

/// The program, built once into the target directory: about one minute on two cores in the dev profile.
fn tool() -> Result<PathBuf> {
    let home = shell::target().join(format!("tools/cargo-deny-{VERSION}"));
    let program = home.join("bin/cargo-deny");
    if !program.exists() {
        println!("building cargo-deny {VERSION} (once)");
        shell::run(
            shell::cargo()
                .args(["install", "--quiet", "--locked", "--debug", "--no-default-features", "--root"])
                .arg(&home)
                .args(["--version", VERSION, "cargo-deny"])
                .env("CARGO_TARGET_DIR", home.join("build"))
                .env("CARGO_PROFILE_DEV_DEBUG", "0"),
        )?;
        // A third of a gigabyte that nobody needs again; failing to remove it harms nothing.
        std::fs::remove_dir_all(home.join("build")).unwrap_or_default();
    }
    Ok(program)
}
