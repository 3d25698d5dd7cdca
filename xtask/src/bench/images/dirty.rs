//! Images of mounted filesystems, whose allocation maps on the disk are older than their files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use super::past::Mount;
use super::programs::command;
use crate::shell::{self, Result};

const FILES: usize = 100;
const FILE: usize = 64 << 10;

/// Filesystems: name, mkfs, options for reading what was copied, the cloning tool.
const KINDS: &[(&str, &[&str], &str)] = &[
    ("ext4", &["mkfs.ext4", "-q", "-F"], "partclone.extfs"),
    ("XFS", &["mkfs.xfs", "-q", "-f"], "partclone.xfs"),
    ("btrfs", &["mkfs.btrfs", "-q", "-f"], "partclone.btrfs"),
];

/// Prints the table.
///
/// # Errors
/// When the machinery fails, or smartcp lost a file.
pub fn run(smartcp: &Path, scratch: &Path) -> Result {
    println!("| image of a mounted | program | exit status | bytes not read | files bad of {FILES} |");
    println!("|---|---|---|---|---|");
    let mut lost = Vec::new();
    for (kind, mkfs, partclone) in KINDS {
        let image = snapshot(mkfs, scratch)?;
        let plain = scratch.join("plain");
        let smartcp = smartcp.display().to_string();
        for (name, program, words) in [
            ("cp", "cp", "--sparse=never IMAGE COPY"),
            ("smartcp", &smartcp, "-T json IMAGE COPY"),
            (*partclone, *partclone, "-b -q -F -L /dev/null -s IMAGE -O COPY"),
        ] {
            let words: Vec<String> = [program].into_iter().chain(words.split(' ')).map(str::to_owned).collect();
            if !words[0].starts_with('/') && !shell::has(&words[0]) {
                println!("| {kind} | {name} | not installed | | |");
                continue;
            }
            let copied = copy(&words, &image, &plain)?;
            let bad = if copied.status == "0" { Some(bad(&plain, scratch)?) } else { None };
            let said = bad.map_or_else(String::new, |bad| bad.to_string());
            println!("| {kind} | {name} | {} | {} | {said} |", copied.status, copied.skipped);
            if name == "smartcp" && bad != Some(0) {
                lost.push(*kind);
            }
            fs::remove_file(&plain).map_err(shell::at(&plain))?;
        }
        fs::remove_file(&image).map_err(shell::at(&image))?;
    }
    if lost.is_empty() { Ok(()) } else { Err(format!("smartcp lost files on {}", lost.join(", "))) }
}

/// A copy of the image of a filesystem that is mounted and has files that were synced one by one.
fn snapshot(mkfs: &[&str], scratch: &Path) -> Result<std::path::PathBuf> {
    let (live, snapshot) = (scratch.join("live"), scratch.join("snapshot"));
    File::create(&live).and_then(|file| file.set_len(512 << 20)).map_err(shell::at(&live))?;
    let (program, args) = mkfs.split_first().ok_or("no mkfs")?;
    shell::run(shell::command(program).args(args).arg(&live).stdout(Stdio::null()))?;
    let mounted = Mount::new(&live, &["loop"], &scratch.join("mounted"))?;
    let written = write(&mounted.0);
    let copied = shell::run(shell::command("cp").arg("--sparse=never").arg(&live).arg(&snapshot));
    mounted.unmount()?;
    written?;
    copied?;
    fs::remove_file(&live).map_err(shell::at(&live))?;
    Ok(snapshot)
}

/// The files, each on the disk when the next one begins. No sync of the whole: that would write the maps, too.
fn write(dir: &Path) -> Result {
    let failed = shell::at(dir);
    for number in 0..FILES {
        let mut file = File::create(dir.join(number.to_string())).map_err(failed)?;
        file.write_all(&contents(number)).map_err(failed)?;
        file.sync_all().map_err(failed)?;
    }
    Ok(())
}

/// What is in a file: no zeros, and different in each.
fn contents(number: usize) -> Vec<u8> {
    (0..FILE).map(|at| (at % 251) as u8 ^ (number as u8) | 0x80).collect()
}

struct Copied {
    status: String,
    skipped: String,
}

fn copy(words: &[String], image: &Path, dest: &Path) -> Result<Copied> {
    let size = fs::metadata(image).map_err(shell::at(image))?.len();
    // For what clones only to what is large enough.
    File::create(dest).and_then(|file| file.set_len(size)).map_err(shell::at(dest))?;
    let mut command = command(words, image, dest);
    let done = command.stderr(Stdio::null()).output();
    let done = done.map_err(|error| format!("cannot run {}: {error}", shell::line(&command)))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let skipped = said.lines().last().and_then(|line| line.split("\"read_skipped\": \"").nth(1)?.split('"').next());
    let status = done.status.code().map_or_else(|| done.status.to_string(), |code| code.to_string());
    Ok(Copied { status, skipped: skipped.unwrap_or_default().to_owned() })
}

/// How many files are not what they were, after a mount that replays the journal.
fn bad(image: &Path, scratch: &Path) -> Result<usize> {
    // One that does not mount has lost all.
    let Ok(mounted) = Mount::new(image, &["loop"], &scratch.join("copied")) else { return Ok(FILES) };
    let good = |number: usize| {
        let mut bytes = Vec::new();
        let read = File::open(mounted.0.join(number.to_string())).and_then(|mut file| file.read_to_end(&mut bytes));
        read.is_ok() && bytes == contents(number)
    };
    let bad = (0..FILES).filter(|number| !good(*number)).count();
    mounted.unmount()?;
    Ok(bad)
}
