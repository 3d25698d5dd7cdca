//! From the command line of smartcp to what it means.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::CacheUse;
use haul_copy::smart::{Format, LARGEST_BUFFER, Mode, Options, Smart};

use crate::argmatch::choose;
use crate::flags::Id;
use crate::getopt::{Found, Parser};
use crate::quote::Quoter;
use crate::size::parse_size;

use super::flags::FLAGS;

/// As often haul copies a file again that has changed.
const RETRIES: u32 = 3;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Copies.
    Copy(Box<Request>),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// What to copy, and what to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// For the copies.
    pub options: Options,
    /// What the sources are taken for.
    pub format: Format,
    /// Containers are copied as containers, and not as the disks that they hold.
    pub keep: bool,
    /// What may be left out beyond free space.
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

/// Reads a command line (without the program's name).
///
/// # Errors
/// The first thing that is wrong with it, without the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>, posix: bool, quoter: &Quoter) -> Result<Wanted, Vec<u8>> {
    let mut parser = Parser::with_table(arguments, posix, FLAGS);
    let mut request = Request {
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
    let (mut smart_read, mut snapshot) = (true, false);
    let (mut read_only, mut write_only) = (false, false);
    while let Some(Found { flag, value }) = parser.next_option()? {
        let value = value.as_deref().unwrap_or_default();
        let word = || word(flag.long, value, flag.values.choices(), quoter);
        match flag.id {
            Id::Help => return Ok(Wanted::Help),
            Id::Version => return Ok(Wanted::Version),
            Id::UseSmartRead => smart_read = word()? == "yes",
            Id::Snapshot => snapshot = true,
            Id::Format => request.format = format(word()?),
            Id::IfChanged => {
                let what = word()?;
                request.options.fail_if_written = what != "warn";
                request.retries = if what == "retry" { RETRIES } else { 0 };
            }
            Id::Container => request.keep = word()? == "keep",
            Id::PageFiles => request.guests.drop_page_files = word()? == "drop",
            Id::Sparse => request.options.sparse = word()? == "always",
            Id::ZeroScan => request.options.zero_scan = word()? == "yes",
            Id::Md5 => request.options.md5 = true,
            Id::BufferSize => request.options.buffer_size = buffer_size(value, quoter)?,
            Id::DirectIo => {
                request.options.direct = word()? == "yes";
                request.options.cache = if word()? == "no" { CacheUse::Keep } else { CacheUse::Auto };
            }
            Id::ReadOnly => read_only = true,
            Id::WriteOnly => write_only = true,
            Id::Verbose => request.verbose = true,
            Id::Debug => request.debug = true,
            Id::StatsOutput => request.json = word()? == "json",
            // The table has no others.
            _ => {}
        }
    }
    request.options.smart = match (smart_read, snapshot) {
        (false, true) => return Err(b"--snapshot has no meaning with --use-smartread=no".to_vec()),
        (false, false) => Smart::Off,
        (true, false) => Smart::Auto,
        (true, true) => Smart::Snapshot,
    };
    if request.guests.drop_page_files && !smart_read {
        return Err(b"--page-files=drop has no meaning with --use-smartread=no".to_vec());
    }
    request.options.mode = match (read_only, write_only) {
        (true, true) => return Err(b"cannot combine --read-only and --write-only".to_vec()),
        (true, false) => Mode::ReadOnly,
        (false, true) => Mode::WriteOnly,
        (false, false) => Mode::Copy,
    };
    if write_only && request.options.md5 {
        return Err(b"cannot combine --write-only and --md5".to_vec());
    }
    if request.debug && !request.verbose {
        return Err(b"-g (--debug) is possible only with -v (--verbose)".to_vec());
    }
    let mut operands = parser.into_operands();
    request.dest = operands.pop().ok_or_else(|| b"missing file operand".to_vec())?;
    if operands.is_empty() {
        let dest = quoter.always(request.dest.as_bytes());
        return Err([&b"missing destination file operand after "[..], &dest].concat());
    }
    request.sources = operands;
    Ok(Wanted::Copy(Box::new(request)))
}

/// By the word of `--format`.
fn format(word: &str) -> Format {
    match word {
        "raw" => Format::Raw,
        "container" => Format::Container,
        _ => Format::Auto,
    }
}

fn word(
    name: &str,
    value: &OsStr,
    choices: &'static [crate::flags::Choice],
    quoter: &Quoter,
) -> Result<&'static str, Vec<u8>> {
    choose(&format!("--{name}"), value, choices, quoter, true).map(|choice| choice.name)
}

fn buffer_size(value: &OsStr, quoter: &Quoter) -> Result<usize, Vec<u8>> {
    let size = parse_size(value.as_bytes()).and_then(|size| usize::try_from(size).ok());
    match size.filter(|size| (1..=LARGEST_BUFFER).contains(size)) {
        Some(size) => Ok(size),
        None => {
            let text = quoter.text(value.as_bytes());
            Err([&b"invalid buffer size "[..], &text, b": it must be from 1 to 16M"].concat())
        }
    }
}
