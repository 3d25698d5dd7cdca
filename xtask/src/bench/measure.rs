//! One timed run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use haul_measure::cache::{self, Wanted};
use haul_measure::process::{self, Cost, Ended, Job};
use haul_measure::stop::Stop;
use haul_measure::workspace::Workspace;
use haul_sys::rustix::fs::syncfs;

use super::surroundings::{failure, warm_memory};
use crate::shell::{self, Result};

const BUFFER: usize = 1 << 20;

/// A program with its arguments, to which source and destination are added.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in the tables.
    pub name: String,
    /// The words of the command.
    pub words: Vec<OsString>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Run {
    /// The copy is right.
    Measured(Cost),
    /// The program said that it will not or cannot; its first words.
    Refused(String),
}

/// Copies `source` to `dest` with one program and measures it; then compares the two.
///
/// # Errors
/// When the machinery fails, or the copy differs from the source although the program was content.
pub fn run(program: &Program, source: &Path, dest: &Path, workspace: &Workspace) -> Result<Run> {
    let place = dest.parent().unwrap_or(dest);
    let place = File::open(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let size = fs::metadata(source).map_err(|error| format!("{}: {error}", source.display()))?.len();
    // The destination's pages and as much again, then the source, which must be in memory as well.
    warm_memory(size.saturating_mul(2))?;
    cache::prepare(source, Wanted::Warm)?;
    syncfs(&place).map_err(|error| format!("syncfs: {error}"))?;

    let mut words = program.words.iter();
    let mut command = shell::command(words.next().ok_or("a program without a name")?);
    command.args(words).arg(source).arg(dest);
    let (commands, timeout) = (vec![command], Duration::MAX);
    let job = Job { commands, place: &place, devices: (None, None), timeout, output: false };
    let cost = match process::run(job, workspace, &Stop::default())? {
        Ended::Finished(finished) if finished.status.success() => finished.cost,
        other => return Ok(Run::Refused(failure(other, timeout)?)),
    };
    if !dest.exists() {
        return Err(format!("{} said that all is well, but there is no {}", program.name, dest.display()));
    }
    if !same(source, dest)? {
        return Err(format!("{} made a WRONG COPY: {} differs", program.name, dest.display()));
    }
    // Old copies must not fill the memory. The source stays: other runs need it.
    cache::forget(dest);
    Ok(Run::Measured(cost))
}

/// Whether two files hold the same bytes.
pub fn same(one: &Path, two: &Path) -> Result<bool> {
    let (mut first, mut second) = (open(one)?, open(two)?);
    let (mut left, mut right) = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        let (count, other) = (fill(&mut first, &mut left, one)?, fill(&mut second, &mut right, two)?);
        if count != other || left[..count] != right[..other] {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8], path: &Path) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_short_or_differs_in_one_byte_is_not_the_same() {
        let dir = std::env::temp_dir().join(format!("haul-xtask-same-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            fs::write(dir.join(name), bytes).unwrap();
            dir.join(name)
        };
        let mut bytes = vec![7_u8; BUFFER + 10];
        let (one, equal) = (write("one", &bytes), write("equal", &bytes));
        let short = write("short", &bytes[..BUFFER]);
        bytes[BUFFER + 9] = 8;
        let other = write("other", &bytes);
        let answers = [&equal, &short, &other].map(|two| same(&one, two).unwrap());
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(answers, [true, false, false]);
    }
}
