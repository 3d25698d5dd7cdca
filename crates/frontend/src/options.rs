//! From the command line to a plan.
//!
//! Each option is one value ([`crate::flags::Flag`]), which says what it is called, what it does and what it does not go with.
//! From the bottom to the top, and no file imports from one above it:
//!
//! 1. [`crate::flags`], `given`, `values` and `complaint`: what an option is
//! 2. `draft`: what the effects of haul's options change
//! 3. `source`, `destination`, `existing`, ...: the options by subject. A new option is a constant in one of them
//! 4. `table`: all of them, for the parser, `--help`, the man page and the completions
//! 5. this file: reads a command line by the table

mod attributes;
mod data;
mod destination;
pub mod draft;
mod existing;
mod extents;
mod images;
mod links;
mod output;
mod safety;
mod shards;
mod source;
pub mod table;
mod throttling;

use std::ffi::OsString;
use std::mem::take;

use haul_copy::plan::{Plan, SmartCopy};

use crate::complaint::{Complaint, misuse};
use crate::environment::Environment;
use crate::flags::{Information, Mode};
use crate::getopt::Parser;
use crate::persona::Persona;
use crate::quote::Quoter;
use crate::run_options::RunOptions;
use crate::show::Show;

use draft::Draft;

/// What a command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// A copy.
    Copy(Box<Plan>, Show, RunOptions),
    /// `--compare`.
    Compare(Box<Plan>, Show),
    /// `--punch`.
    Punch(Punch),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// Images whose free space is given back in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Punch {
    /// At least one.
    pub images: Vec<OsString>,
    /// No part of an image may be refused.
    pub required: bool,
    /// What is known of each part is shown.
    pub explain: bool,
}

/// Reads a command line (without the program's name). `warn` gets messages that stop nothing.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    persona: Persona,
    environment: &Environment,
    quoter: &Quoter,
    warn: &mut dyn FnMut(&[u8]),
) -> Result<Invocation, Complaint> {
    let mut draft = Draft::new(persona, environment);
    let wanted = read(arguments, &mut draft, persona, quoter);
    draft.warnings.iter().for_each(|warning| warn(warning));
    wanted
}

fn read(
    arguments: impl IntoIterator<Item = OsString>,
    draft: &mut Draft,
    persona: Persona,
    quoter: &Quoter,
) -> Result<Invocation, Complaint> {
    let mut parser = Parser::new(arguments, draft.environment.posixly_correct, table::FLAGS);
    while let Some(found) = parser.next_option().map_err(misuse)? {
        found.flag.apply(draft, found.value.as_deref(), quoter, persona == Persona::Haul)?;
        match draft.information {
            Some(Information::Help) => return Ok(Invocation::Help),
            Some(Information::Version) => return Ok(Invocation::Version),
            None => draft.against.extend(Mode::ALL.iter().filter(|mode| !found.flag.modes.contains(mode))),
        }
    }
    if draft.modes.contains(&Mode::Punch) {
        return punch(draft, parser.into_operands());
    }
    table::in_order_of_settling().try_for_each(|flag| (flag.settle)(draft, quoter))?;
    destination::set_operands(draft, parser.into_operands(), quoter)?;
    if draft.modes.contains(&Mode::Compare) {
        return comparison(draft);
    }
    destination::settle_repeated(draft, quoter)?;
    Ok(Invocation::Copy(Box::new(take(&mut draft.plan)), draft.show, take(&mut draft.run)))
}

fn punch(draft: &Draft, images: Vec<OsString>) -> Result<Invocation, Complaint> {
    match draft.plan.smart {
        SmartCopy::Off => return Err(misuse("--punch has a meaning only with --smart")),
        _ if draft.against.contains(&Mode::Punch) => {
            return Err(misuse("only --smart, --explain and --verbose can be combined with --punch"));
        }
        _ if images.is_empty() => return Err(misuse("missing file operand")),
        _ => {}
    }
    let required = draft.plan.smart == SmartCopy::Require;
    Ok(Invocation::Punch(Punch { images, required, explain: draft.show.explain }))
}

fn comparison(draft: &mut Draft) -> Result<Invocation, Complaint> {
    if draft.against.contains(&Mode::Compare) {
        return Err(misuse("an option that cannot be combined with --compare was given"));
    }
    Ok(Invocation::Compare(Box::new(take(&mut draft.plan)), draft.show))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
