//! `-i`, `-n` and `--update`: what happens to files that exist.

use std::ffi::OsStr;

use haul_copy::plan::Overwrite;

use super::{Complaint, Draft, misuse};
use crate::flags::{Flag, Id};

/// The options so far. `-i` and `-n` override each other, `--update` overrides itself, and neither touches the other:
/// so a file that `--update=none` protects stays protected whatever stands around it.
#[derive(Debug, Default)]
pub(super) struct Existing {
    last: Option<Clobber>,
    update: Update,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clobber {
    Ask,
    Never,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Update {
    #[default]
    All,
    None,
    NoneFail,
    Older,
}

impl Existing {
    /// What is done to an existing file, and whether only to one that is older than its source.
    fn settled(&self) -> (Overwrite, bool) {
        let update = if self.last == Some(Clobber::Never) { Update::None } else { self.update };
        match (update, self.last) {
            (Update::None, _) => (Overwrite::Skip, false),
            (Update::NoneFail, _) => (Overwrite::Refuse, false),
            (_, Some(Clobber::Ask)) => (Overwrite::Ask, update == Update::Older),
            _ => (Overwrite::Replace, update == Update::Older),
        }
    }
}

impl Draft<'_> {
    /// `-i`, `-n` and `--update`.
    pub(super) fn overwriting(&mut self, flag: &Flag, value: Option<&OsStr>) -> Result<(), Complaint> {
        match flag.id {
            Id::Interactive => self.existing.last = Some(Clobber::Ask),
            Id::NoClobber => self.existing.last = Some(Clobber::Never),
            _ => {
                self.existing.update = match value.map_or(Ok("older"), |word| self.choice(flag, word))? {
                    "none" => Update::None,
                    "none-fail" => Update::NoneFail,
                    "all" => Update::All,
                    _ => Update::Older,
                }
            }
        }
        Ok(())
    }

    /// What they mean together, and with `--backup`.
    pub(super) fn settle_overwriting(&mut self) -> Result<(), Complaint> {
        (self.plan.overwrite, self.plan.only_newer) = self.existing.settled();
        if self.backups && matches!(self.plan.overwrite, Overwrite::Skip | Overwrite::Refuse) {
            return Err(misuse("--backup is mutually exclusive with -n or --update=none-fail"));
        }
        Ok(())
    }
}
