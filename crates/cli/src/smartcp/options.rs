//! From the command line of smartcp to what it means.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use haul_frontend::complaint::{Complaint, misuse};
use haul_frontend::flags::Information;
use haul_frontend::getopt::Parser;
use haul_frontend::quote::Quoter;

use super::draft::{Draft, Request};
use super::flags::FLAGS;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Copies.
    Copy(Box<Request>),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// Reads a command line (without the program's name).
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    posix: bool,
    quoter: &Quoter,
) -> Result<Invocation, Complaint> {
    let mut parser = Parser::new(arguments, posix, FLAGS);
    let mut draft = Draft::default();
    while let Some(found) = parser.next_option().map_err(misuse)? {
        found.flag.apply(&mut draft, found.value.as_deref(), quoter, true)?;
        match draft.information {
            Some(Information::Help) => return Ok(Invocation::Help),
            Some(Information::Version) => return Ok(Invocation::Version),
            None => {}
        }
    }
    FLAGS.iter().try_for_each(|flag| (flag.settle)(&mut draft, quoter))?;
    let mut request = draft.request;
    let mut operands = parser.into_operands();
    request.dest = operands.pop().ok_or_else(|| misuse("missing file operand"))?;
    if operands.is_empty() {
        let dest = quoter.always(request.dest.as_bytes());
        return Err(misuse([&b"missing destination file operand after "[..], &dest].concat()));
    }
    request.sources = operands;
    Ok(Invocation::Copy(Box::new(request)))
}
