//! What to do about an entry whose destination exists: pure, in the order in which GNU cp checks.
//!
//! Some facts cost system calls, or the user's attention, and are seldom needed. [`decide`] asks for them one by one
//! ([`Decision::Ask`]); the caller finds out, adds the answer, and calls it again.

mod entries;
mod same_file;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use entries::{Existing, Source};
pub(crate) use same_file::CloseLook;
pub use wanted::Wanted;

use haul_sys::inode::Kind;

use crate::plan::{Backup, Dereference, LinkMode, Overwrite, Plan};
use crate::walk::Identity;

/// What was found out so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answers {
    /// To [`Fact::CloseLook`].
    pub close_look: Option<CloseLook>,
    /// To [`Fact::Overwrite`]: the user agrees.
    pub overwrite: Option<bool>,
    /// To [`Fact::MadeForOperand`].
    pub made_for_operand: Option<bool>,
    /// To [`Fact::Identity`].
    pub identity: Option<Identity>,
    /// To [`Fact::BackupIsSource`].
    pub backup_is_source: Option<bool>,
}

/// A fact that the decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// How are the two entries related, of which one may be the other or lead to it?
    CloseLook,
    /// Does the user want it replaced?
    Overwrite,
    /// Was the destination made in this run, for an earlier operand?
    MadeForOperand,
    /// Can the two be one file though their numbers differ?
    Identity,
    /// Is the source what the backup would be called?
    BackupIsSource,
}

/// Why a destination stays as it is, which is no failure of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The source is not newer.
    NotOlder,
    /// Nothing that exists is to be replaced.
    Protected,
    /// The user said no.
    Declined,
}

/// Why an entry cannot be copied to where it should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// It is the source.
    SameFile,
    /// What exists is to be reported, not replaced.
    Exists,
    /// A directory stands where a file goes.
    Directory,
    /// Something else stands where a directory goes.
    NotDirectory,
    /// An earlier operand was copied there in this run.
    JustMade,
    /// The backup would take the name of the source.
    BackupIsSource,
}

/// What becomes of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This must be known first.
    Ask(Fact),
    /// What is wanted stands there.
    Nothing,
    /// It stays, and the entry is passed over.
    Keep(Kept),
    /// Nothing happens to either side, and that is an error.
    Refuse(Conflict),
    /// It is written into; a directory is entered.
    WriteInto(Identity),
    /// It is removed, then the copy is made.
    Remove,
    /// It stays until a whole copy takes its place.
    Replace(Identity),
    /// It is renamed to its backup name, or linked to that where it shall stay until a whole copy takes its place.
    BackUp {
        /// Linked, if the filesystem can do that.
        link: bool,
        /// Whether it may be the source.
        identity: Identity,
    },
}

/// Decides what becomes of an existing destination.
pub(crate) fn decide(source: &Source<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Decision {
    let verdict = match plan.overwrite {
        // What is left alone need not be looked at.
        Overwrite::Skip | Overwrite::Refuse => same_file::Verdict::Go,
        _ => match same_file::judge(source, existing, answers.close_look.as_ref(), plan) {
            Some(verdict) => verdict,
            None => return Decision::Ask(Fact::CloseLook),
        },
    };
    if verdict == same_file::Verdict::Refuse {
        return Decision::Refuse(Conflict::SameFile);
    }
    if source.inode.kind != Kind::Directory
        && let Some(decision) = keep(source, existing, answers, plan)
    {
        return decision;
    }
    if verdict == same_file::Verdict::Nothing {
        return Decision::Nothing;
    }
    if let Some(decision) = unsuitable(source, existing, answers, plan) {
        return decision;
    }
    // A directory is entered, and where only attributes are set no byte can be lost.
    let identity = match existing.target.kind == Kind::Directory || plan.attributes_only {
        true => Identity::Two,
        false => match answers.identity {
            Some(identity) => identity,
            None => return Decision::Ask(Fact::Identity),
        },
    };
    overwrite(source, existing, answers, identity, plan)
}

/// `--update`, `-n` and `-i`: reasons to leave the destination as it is.
fn keep(source: &Source<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Option<Decision> {
    if plan.only_newer && source.inode.modified <= existing.target.modified {
        return Some(Decision::Keep(Kept::NotOlder));
    }
    match plan.overwrite {
        Overwrite::Replace => None,
        Overwrite::Skip => Some(Decision::Keep(Kept::Protected)),
        Overwrite::Refuse => Some(Decision::Refuse(Conflict::Exists)),
        Overwrite::Ask => match answers.overwrite {
            None => Some(Decision::Ask(Fact::Overwrite)),
            Some(false) => Some(Decision::Keep(Kept::Declined)),
            Some(true) => None,
        },
    }
}

/// Types that cannot replace each other, and files that this very run made.
fn unsuitable(source: &Source<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Option<Decision> {
    let from_directory = source.inode.kind == Kind::Directory;
    if existing.target.kind == Kind::Directory {
        return (!from_directory).then_some(Decision::Refuse(Conflict::Directory));
    }
    if from_directory {
        // With a backup it makes way.
        return (plan.backup == Backup::None).then_some(Decision::Refuse(Conflict::NotDirectory));
    }
    if !source.is_operand || plan.backup == Backup::Numbered {
        return None;
    }
    match answers.made_for_operand {
        None => Some(Decision::Ask(Fact::MadeForOperand)),
        Some(made) => made.then_some(Decision::Refuse(Conflict::JustMade)),
    }
}

/// The destination is to be overwritten: how.
fn overwrite(source: &Source<'_>, existing: &Existing, answers: &Answers, identity: Identity, plan: &Plan) -> Decision {
    // What may be the source stands there until it is copied.
    let replaces = plan.uses_temporary_file() || identity != Identity::Two;
    let is_directory = existing.target.kind == Kind::Directory;
    if plan.backup != Backup::None && !existing.is_dot && !is_directory {
        let may_be_source = plan.backup != Backup::Numbered;
        return match answers.backup_is_source {
            None if may_be_source => Decision::Ask(Fact::BackupIsSource),
            Some(true) if may_be_source => Decision::Refuse(Conflict::BackupIsSource),
            // A directory is not renamed into its place.
            _ => Decision::BackUp { link: replaces && source.inode.kind != Kind::Directory, identity },
        };
    }
    let must_go = plan.remove_destination
        || (!plan.attributes_only
            && ((plan.preserve.links && existing.target.links > 1)
                || (source.dereference == Dereference::Never && source.inode.kind != Kind::Regular)));
    match () {
        () if is_directory || !must_go => Decision::WriteInto(identity),
        () if replaces => Decision::Replace(identity),
        () => Decision::Remove,
    }
}

/// Whether a file of this kind is copied by its contents, into a regular file.
pub(crate) fn copied_as_regular(kind: Kind, plan: &Plan) -> bool {
    let contents = !plan.recursive || plan.copy_contents;
    kind == Kind::Regular || (contents && kind != Kind::Directory && kind != Kind::SymbolicLink)
}

/// Whether a symbolic link at the destination counts itself, not what it leads to: regular files can be written through a link;
/// others cannot, nor can what is going to be removed or linked.
pub(crate) fn acts_on_entry(source: Kind, plan: &Plan) -> bool {
    !copied_as_regular(source, plan)
        || plan.link != LinkMode::Copy
        || plan.backup != Backup::None
        || plan.remove_destination
}
