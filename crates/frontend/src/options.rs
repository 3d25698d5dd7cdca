//! From the command line to a plan.
//!
//! Each option is one value ([`crate::flags::Flag`]), which says what it is called and what it does. From the bottom to the
//! top, and no file imports from one above it:
//!
//! 1. [`crate::flags`], `given`, `values` and `complaint`: what an option is
//! 2. `draft`: what the effects of haul's options change
//! 3. `source`, `destination`, ...: the options by subject. A new option is a value in one of them
//! 4. this file: the table of all, for the parser, `--help`, the man page and the completions; and how it is read

mod attributes;
mod choice;
mod data;
mod deletion;
mod destination;
pub mod draft;
mod output;
mod safety;
mod shards;
mod source;

use std::ffi::OsString;
use std::mem::take;

use haul_copy::plan::{Plan, SmartCopy};

use crate::complaint::{Complaint, misuse};
use crate::environment::Environment;
use crate::flags::{Effect, Information, Mode, Table};
use crate::getopt::Parser;
use crate::persona::Persona;
use crate::quote::Quoter;
use crate::run_options::RunOptions;
use crate::show::Show;

use draft::Draft;

/// Every option.
pub static FLAGS: Table<Draft> = Table(&[
    source::FLAGS,
    choice::FLAGS,
    shards::FLAGS,
    destination::FLAGS,
    deletion::FLAGS,
    attributes::FLAGS,
    data::FLAGS,
    safety::FLAGS,
    output::FLAGS,
]);

/// What a command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// A copy.
    Copy(Box<Plan>, Show, RunOptions),
    /// `--compare`.
    Compare(Box<Plan>, Show),
    /// `--punch`.
    Punch(Punch),
    /// `--help` and `--version`.
    Print(Information),
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
    let parser = Parser::new(arguments, draft.environment.posixly_correct, &FLAGS);
    let mut parser = parser.for_cp(persona == Persona::Cp);
    while let Some(found) = parser.next_option().map_err(misuse)? {
        if let Effect::Print(information) = found.flag.effect {
            return Ok(Invocation::Print(information));
        }
        found.flag.apply(draft, found.value.as_deref(), quoter, persona == Persona::Haul)?;
        draft.against.extend(Mode::ALL.iter().filter(|mode| !found.flag.modes.contains(mode)));
    }
    if draft.modes.contains(&Mode::Punch) {
        return punch(draft, parser.into_operands());
    }
    settle(draft, quoter)?;
    destination::set_operands(draft, parser.into_operands(), quoter)?;
    if draft.modes.contains(&Mode::Compare) {
        return comparison(draft);
    }
    deletion::settle_operands(draft)?;
    choice::settle_failures(draft)?;
    destination::settle_repeated(draft, quoter)?;
    Ok(Invocation::Copy(Box::new(take(&mut draft.plan)), draft.show, take(&mut draft.run)))
}

/// What options mean together, whatever their order, once all are read. Of two complaints the user sees the one that GNU cp
/// has, and what is settled first the next ones know.
fn settle(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
    destination::settle_links(draft)?;
    destination::settle_overwriting(draft)?;
    data::settle_reflink(draft)?;
    data::settle_snapshot(draft)?;
    destination::settle_backup(draft, quoter)?;
    choice::settle_names(draft, quoter)?;
    source::settle_dereference(draft);
    choice::settle_choice(draft, quoter)?;
    choice::settle_input(draft)?;
    safety::settle_verification(draft)?;
    safety::settle_resume(draft)?;
    output::settle_dry_run(draft)?;
    shards::settle_lists(draft)?;
    deletion::settle_deletion(draft)?;
    source::settle_move(draft)?;
    output::settle_json(draft)?;
    attributes::settle_labels(draft)
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
