//! File lists, which several processes share that copy a part each.

use std::fs::File;
use std::io;
use std::path::Path;

use haul_copy::list::{self, FileList, LoadError};

use crate::list_file::ListFile;
use crate::report::Report;
use crate::words;

/// Reads a list.
///
/// # Errors
/// The message, without the program's name.
pub fn load(path: &Path, report: &Report) -> Result<FileList, Vec<u8>> {
    let loaded = File::open(path).map_err(LoadError::Io).and_then(|mut file| list::load(&mut file));
    loaded.map_err(|error| {
        let why = match &error {
            LoadError::Io(error) => words::io_error(error),
            error => error.to_string(),
        };
        words::unusable("cannot read the file list", path, &why, report.quoter())
    })
}

/// Writes a list; with `durable` it is on the device then.
///
/// # Errors
/// The message, without the program's name.
pub fn save(
    list: io::Result<ListFile>,
    path: &Path,
    entries: &FileList,
    durable: bool,
    report: &Report,
) -> Result<(), Vec<u8>> {
    let saved = list.and_then(|mut list| {
        list.write(&mut |to| list::save(entries, to));
        list.finish(durable)
    });
    saved
        .map_err(|error| words::unusable("cannot write the file list", path, &words::io_error(&error), report.quoter()))
}
