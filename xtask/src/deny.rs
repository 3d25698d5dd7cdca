//! Licences, bans and sources of the dependencies by cargo-deny, and advisories where their database can be fetched.

use std::process::Stdio;

use crate::shell::{self, Checked, Result};
use crate::tools::Tool;

const TOOL: Tool = Tool { name: "cargo-deny", version: "0.20.2", arguments: &["--no-default-features"] };

/// Checks all dependencies against `deny.toml`.
pub fn run() -> Result<Checked> {
    let deny = TOOL.program()?;
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
