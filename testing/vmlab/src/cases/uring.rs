//! io_uring that an administrator has switched off (`kernel.io_uring_disabled`, Linux 6.6).

use std::fs;
use std::path::Path;

use crate::haul;
use crate::lab::{Found, Lab, Trouble};
use crate::tool;
use crate::tree::{self, ALL};

const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

/// Plays it.
pub fn run(lab: &mut Lab) -> Result<(), String> {
    let at = lab.mounted("xfs", "xfs", 512)?;
    let source = at.join("tree");
    tree::plant(&source, ALL)?;
    let play = |lab: &mut Lab, name: &str, engine: &str, used: bool| {
        lab.check(name, || {
            let copy = at.join("copy");
            let run = haul::right(&format!("-a --engine={engine} -T {} {}", source.display(), copy.display()))?;
            tree::same(&source, &copy, ALL)?;
            tool::run(&format!("rm -r {}", copy.display()))?;
            if run.used("io-uring") != used {
                return Err(run.report().into());
            }
            let how =
                tool::output(&format!("haul --explain --engine={engine} {0}/file-6 {0}/again", source.display()))?;
            let why = how.lines().find(|line| line.contains("io-uring")).unwrap_or_default().trim().to_owned();
            tool::run(&format!("rm {}/again", source.display()))?;
            Ok(Found::new(&run, format!("equal; {why}")))
        });
    };
    play(lab, "allowed: --engine=io-uring", "io-uring", true);
    if !Path::new(SWITCH).exists() {
        lab.check("io_uring_disabled=2", || Err(Trouble::Skipped(format!("there is no {SWITCH}"))));
        return Ok(());
    }
    fs::write(SWITCH, "2").map_err(|error| format!("{SWITCH}: {error}"))?;
    play(lab, "io_uring_disabled=2: --engine=io-uring", "io-uring", false);
    play(lab, "io_uring_disabled=2: --engine=auto", "auto", false);
    fs::write(SWITCH, "0").map_err(|error| format!("{SWITCH}: {error}"))
}
