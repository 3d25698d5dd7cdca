//! `cargo xtask picture`: what somebody sees who copies, from a real copy, as a drawing for README.

mod terminal;

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use haul_testbed::create_painted;

use crate::bench::surroundings;
use crate::leftovers::Scratch;
use crate::shell::{self, Result};

/// The command, as the picture shows it; it copies [`FILES`] of [`SIZE`] bytes.
const COMMAND: &str = "haul -a photos backup";
const FILES: usize = 1200;
const SIZE: u64 = 3 << 20;

/// Columns of the terminal.
const COLUMNS: usize = 96;

/// Copies, and draws what was on the terminal meanwhile.
///
/// # Errors
/// When the copy fails, or ends before there is a bar.
pub fn run() -> Result {
    let haul = surroundings::haul(None)?;
    let scratch = Scratch::new()?;
    let drawn = copy(&haul, scratch.path()).and_then(|frames| terminal::draw(COMMAND, COLUMNS, &frames));
    let into = shell::root().join("docs/copy.svg");
    let written = drawn.and_then(|svg| shell::write(&into, &svg));
    scratch.finish()?;
    written?;
    println!("{}", into.display());
    Ok(())
}

/// What the terminal got, and when.
fn copy(haul: &Path, place: &Path) -> Result<Vec<terminal::Frame>> {
    for number in 0..FILES {
        let dir = place.join(format!("photos/{}", number / 100));
        shell::make_dir(&dir)?;
        create_painted(dir.join(format!("{number}.jpg")), SIZE);
    }
    let bin = place.join("bin");
    shell::make_dir(&bin)?;
    std::os::unix::fs::symlink(haul, bin.join("haul")).map_err(shell::at(&bin))?;
    let mut script = shell::command("script");
    let line = format!("stty cols {COLUMNS}; PATH={}:$PATH; {COMMAND}", bin.display());
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    script.current_dir(place).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = script.spawn().map_err(|error| format!("cannot run script: {error}"))?;
    let (started, mut frames, mut buffer) = (Instant::now(), Vec::new(), [0; 4096]);
    let mut terminal = child.stdout.take().ok_or("script has no output")?;
    loop {
        let count = terminal.read(&mut buffer).map_err(|error| format!("cannot read from script: {error}"))?;
        if count == 0 {
            break;
        }
        terminal::add(&mut frames, &String::from_utf8_lossy(&buffer[..count]), started.elapsed());
    }
    let status = child.wait().map_err(|error| format!("cannot wait for script: {error}"))?;
    if status.success() { Ok(frames) } else { Err(format!("{COMMAND}: {status}")) }
}
