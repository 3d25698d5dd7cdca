//! Lists of what there is to copy: written for, and read by, copies of which several processes do a part each.

use std::fs::File;
use std::io;
use std::path::Path;

use haul_copy::manifest::{self, LoadError};

use crate::manifest::Manifest;
use crate::report::Report;
use crate::words;

/// Reads a list.
///
/// # Errors
/// The message, without the program's name.
pub fn load(path: &Path, report: &Report) -> Result<manifest::Manifest, Vec<u8>> {
    let loaded = File::open(path).map_err(LoadError::Io).and_then(|mut file| manifest::Manifest::load(&mut file));
    loaded.map_err(|error| {
        let why = match &error {
            LoadError::Io(error) => words::io_error(error),
            error => error.to_string(),
        };
        message("cannot read the manifest", path, &why, report)
    })
}

/// Writes a list; with `durable` it is on the device then.
///
/// # Errors
/// The message, without the program's name.
pub fn save(
    list: io::Result<Manifest>,
    path: &Path,
    entries: &manifest::Manifest,
    durable: bool,
    report: &Report,
) -> Result<(), Vec<u8>> {
    let saved = list.and_then(|mut list| {
        list.write(&mut |to| entries.save(to));
        list.finish(durable)
    });
    saved.map_err(|error| message("cannot write the manifest", path, &words::io_error(&error), report))
}

/// What is said of a shard that is to be run again.
pub fn not_done(state: &Path, report: &Report) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let state = report.quoter().always(state.as_os_str().as_bytes());
    let before = b"this shard is not done, and the same command does it again; what all of them have done is in ";
    [&before[..], &state].concat()
}

fn message(what: &str, path: &Path, why: &str, report: &Report) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let path = report.quoter().always(path.as_os_str().as_bytes());
    [what.as_bytes(), b" ", &path, b": ", why.as_bytes()].concat()
}
