//! What the options of smartcp change.

use std::ffi::OsString;

use haul_frontend::flags::Information;
use haul_image::{Format, Options};

/// What to copy, and what to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// For the copies.
    pub options: Options,
    /// What the sources are taken for.
    pub format: Format,
    /// Containers are copied as containers, and not as the disks that they hold.
    pub keep: bool,
    /// What may be skipped beyond free space.
    pub guests: haul_guest::fs::Options,
    /// How often an image is copied again that somebody wrote to meanwhile.
    pub retries: u32,
    /// `-v`.
    pub verbose: bool,
    /// `-g`.
    pub debug: bool,
    /// `-T json`.
    pub json: bool,
    /// At least one.
    pub sources: Vec<OsString>,
    /// A file, or a directory.
    pub dest: OsString,
}

/// A request while the options are read.
pub struct Draft {
    /// What it comes to.
    pub request: Request,
    /// Is printed instead of anything being done.
    pub information: Option<Information>,
    /// `--use-smartread`
    pub smart_read: bool,
    /// `--snapshot`
    pub snapshot: bool,
    /// `--read-only`
    pub read_only: bool,
    /// `--write-only`
    pub write_only: bool,
}

impl Default for Draft {
    fn default() -> Self {
        let request = Request {
            options: Options::default(),
            format: Format::Auto,
            keep: false,
            guests: haul_guest::fs::Options::default(),
            retries: 0,
            verbose: false,
            debug: false,
            json: false,
            sources: Vec::new(),
            dest: OsString::new(),
        };
        Draft { request, information: None, smart_read: true, snapshot: false, read_only: false, write_only: false }
    }
}
