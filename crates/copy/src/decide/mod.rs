//! What to do about an entry whose destination exists: pure, in the order in which GNU cp checks.
//!
//! Some facts cost system calls, or the user's attention, and are seldom needed. [`decide`] asks for them one by one
//! ([`Decision::Ask`]); the caller finds out, adds the answer, and calls it again.

mod same_file;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use same_file::{CloseLook, Existing, Source};
pub use wanted::Wanted;

use haul_sys::inode::{Inode, Kind};

use crate::error::What;
use crate::events::{Kept, Reason};
use crate::plan::{Backup, Dereference, LinkMode, Overwrite, Plan, SpecialFiles, Update};
use crate::walk::Identity;

/// What was found out so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answers {
    /// To [`Fact::CloseLook`].
    pub close_look: Option<CloseLook>,
    /// To [`Fact::Contents`]: they are.
    pub same_contents: Option<bool>,
    /// To [`Fact::Offline`].
    pub offline: Option<bool>,
    /// To [`Fact::Overwrite`]: the user agrees.
    pub overwrite: Option<bool>,
    /// To [`Fact::MadeForOperand`].
    pub made_for_operand: Option<bool>,
    /// To [`Fact::Identity`].
    pub identity: Option<Identity>,
    /// To [`Fact::BackupIsSource`].
    pub backup_is_source: Option<bool>,
    /// To [`Fact::KeptForOther`].
    pub kept_for_other: Option<bool>,
}

/// A fact that the decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// How are the two entries related, of which one may be the other or lead to it?
    CloseLook,
    /// Are the bytes of the two the same, or the texts of two symbolic links?
    Contents,
    /// Are the contents of the source in an archive?
    Offline,
    /// Does the user want it replaced?
    Overwrite,
    /// Was the destination made in this run, for an earlier operand?
    MadeForOperand,
    /// Can the two be one file though their numbers differ?
    Identity,
    /// Is the source what the backup would be called?
    BackupIsSource,
    /// Has another source found the same file at the destination, by another name of it, and left it as its copy? If not, this
    /// one has.
    KeptForOther,
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
    /// Nothing happens to either side, and that is this error.
    Refuse(What),
    /// It is written into; a directory is entered.
    WriteInto(Identity),
    /// It is removed, then the copy is made.
    Remove,
    /// The same with all that is in it, as what only the copy has; where something of that stays, nothing happens and that is this
    /// error.
    Delete(What),
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
    let decision = decide_about_readable(source, existing, answers, plan);
    let reads = match decision {
        // Nobody is asked about what is not copied. To tell two files apart whose numbers say nothing, they are read.
        Decision::Ask(fact) => matches!(fact, Fact::Contents | Fact::Overwrite | Fact::Identity),
        // It is compared with its copy before it goes.
        Decision::Keep(Kept::Same) => plan.moves,
        Decision::Nothing | Decision::Keep(_) | Decision::Refuse(_) => false,
        _ => true,
    };
    match answers.offline {
        _ if !reads || !is_left_to_archives(source.inode.kind, plan) => decision,
        None => Decision::Ask(Fact::Offline),
        Some(true) => Decision::Keep(Kept::Offline),
        Some(false) => decision,
    }
}

/// Whether such a file is read, and not wanted if that would bring its contents back from an archive.
pub(crate) fn is_left_to_archives(kind: Kind, plan: &Plan) -> bool {
    plan.skip_offline && kind == Kind::Regular && plan.link == LinkMode::Copy && !plan.attributes_only
}

/// The same wherever the contents of the source are.
fn decide_about_readable(source: &Source<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Decision {
    let verdict = match plan.overwrite {
        // What is left alone need not be looked at.
        Overwrite::Skip | Overwrite::Refuse => same_file::Verdict::Go,
        _ => match same_file::judge(source, existing, answers.close_look.as_ref(), plan) {
            Some(verdict) => verdict,
            None => return Decision::Ask(Fact::CloseLook),
        },
    };
    if verdict == same_file::Verdict::Refuse {
        return Decision::Refuse(What::SameFile);
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
    match compared(source, &existing.target, answers, plan) {
        None => return Some(Decision::Ask(Fact::Contents)),
        Some(reason) => match (up_to_date(reason), answers.kept_for_other) {
            // What another source has become is not the copy of this one: the two may differ in all but their contents.
            (Some(Kept::Same), _) if plan.moves && source.is_operand && answers.made_for_operand != Some(false) => {
                return made_for_operand(answers);
            }
            // Two sources are two files. Without contents nothing is made for the second one.
            (Some(Kept::Same), None) if existing.has_several_names() && !plan.attributes_only => {
                return Some(Decision::Ask(Fact::KeptForOther));
            }
            (Some(Kept::Same), Some(true)) => {}
            (Some(why), _) => return Some(Decision::Keep(why)),
            (None, _) => {}
        },
    }
    match plan.overwrite {
        Overwrite::Replace => None,
        Overwrite::Skip => Some(Decision::Keep(Kept::Protected)),
        Overwrite::Refuse => Some(Decision::Refuse(What::NotReplacing)),
        Overwrite::Ask => match answers.overwrite {
            None => Some(Decision::Ask(Fact::Overwrite)),
            Some(false) => Some(Decision::Keep(Kept::Declined)),
            Some(true) => None,
        },
    }
}

/// Why what stands at the destination is replaced, or stays as it is: the reason for what [`decide`] says with these answers.
pub(crate) fn reason(source: &Source<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Reason {
    let compared = compared(source, &existing.target, answers, plan).unwrap_or(Reason::Any);
    match plan.overwrite {
        Overwrite::Skip | Overwrite::Refuse if up_to_date(compared).is_none() => Reason::Exists,
        _ if answers.kept_for_other == Some(true) => Reason::Any,
        _ => compared,
    }
}

/// What is left as it is since it is up to date.
fn up_to_date(reason: Reason) -> Option<Kept> {
    match reason {
        Reason::NotOlder => Some(Kept::NotOlder),
        Reason::SameSizeAndTime | Reason::SameContents | Reason::SameType => Some(Kept::Same),
        _ => None,
    }
}

/// `--update`: what makes what stands there another file than it is to be, or the same. None if the contents must be known first.
fn compared(source: &Source<'_>, target: &Inode, answers: &Answers, plan: &Plan) -> Option<Reason> {
    let differs = |differs: bool, so, same| Some(if differs { so } else { same });
    let is_operand = source.is_operand;
    let source = source.inode;
    match plan.update {
        Update::All => return Some(Reason::Any),
        // No time makes it what the source is.
        Update::Older if is_mirrored(plan, is_operand) && made_as(source.kind, plan) != target.kind => {
            return Some(Reason::TypeDiffers);
        }
        // A copy that keeps its time is no older for what its filesystem cuts off of that.
        Update::Older => {
            let same = plan.preserve.timestamps && target.is_modified_as(source);
            return differs(!same && source.modified > target.modified, Reason::Older, Reason::NotOlder);
        }
        Update::Changed | Update::Content => {}
    }
    // The source itself is no copy, and a copy is no link.
    if source.id == target.id || plan.link != LinkMode::Copy {
        return Some(Reason::Any);
    }
    if source.kind != target.kind {
        return Some(Reason::TypeDiffers);
    }
    match source.kind {
        Kind::Regular if plan.attributes_only => Some(Reason::SameType),
        Kind::Regular if source.size != target.size => Some(Reason::SizeDiffers),
        Kind::Regular if plan.update == Update::Changed => {
            differs(!target.is_modified_as(source), Reason::TimeDiffers, Reason::SameSizeAndTime)
        }
        Kind::Regular | Kind::SymbolicLink => {
            answers.same_contents.and_then(|same| differs(!same, Reason::ContentsDiffer, Reason::SameContents))
        }
        kind if copied_as_regular(kind, plan) => Some(Reason::Any),
        Kind::CharacterDevice | Kind::BlockDevice => {
            differs(source.node != target.node, Reason::TypeDiffers, Reason::SameType)
        }
        Kind::Fifo | Kind::Socket => Some(Reason::SameType),
        Kind::Directory | Kind::Unknown => Some(Reason::Any),
    }
}

/// Types that cannot replace each other, and files that this very run made.
fn unsuitable(source: &Source<'_>, existing: &Existing, answers: &Answers, plan: &Plan) -> Option<Decision> {
    let from_directory = source.inode.kind == Kind::Directory;
    if existing.target.kind == Kind::Directory {
        if !from_directory {
            return Some(blocked(source, plan, What::CannotOverwriteDirectory));
        }
        // What was moved there for another source would be replaced, and be nowhere.
        if !plan.moves {
            return None;
        }
    } else if from_directory {
        // With a backup it makes way.
        return (plan.backup == Backup::None).then(|| blocked(source, plan, What::CannotOverwriteNonDirectory));
    }
    if !source.is_operand || plan.backup == Backup::Numbered {
        return None;
    }
    made_for_operand(answers)
}

/// What this run made for an earlier operand stays.
fn made_for_operand(answers: &Answers) -> Option<Decision> {
    match answers.made_for_operand {
        None => Some(Decision::Ask(Fact::MadeForOperand)),
        Some(made) => made.then_some(Decision::Refuse(What::JustCreated)),
    }
}

/// A directory and something else stand in each other's place. What the user has named stays in any case.
fn blocked(source: &Source<'_>, plan: &Plan, conflict: What) -> Decision {
    if plan.delete.is_some() && !source.is_operand { Decision::Delete(conflict) } else { Decision::Refuse(conflict) }
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
            Some(true) if may_be_source => Decision::Refuse(What::BackupWouldDestroySource),
            // A directory is not renamed into its place.
            _ => Decision::BackUp { link: replaces && source.inode.kind != Kind::Directory, identity },
        };
    }
    let other_type = existing.target.kind != Kind::Regular && copied_as_regular(source.inode.kind, plan);
    let must_go = plan.remove_destination
        || (other_type && is_mirrored(plan, source.is_operand))
        // What is moved stays what it was: it does not become the contents of another file.
        || plan.moves
        || (!plan.attributes_only
            && (is_taken_apart(source, existing, plan)
                || (source.dereference == Dereference::Never && source.inode.kind != Kind::Regular)));
    // Whoever reads it would get the contents, and no file would be made.
    let into_fifo = existing.target.kind == Kind::Fifo && plan.special_files == SpecialFiles::Refused;
    match () {
        () if into_fifo && !must_go => Decision::Refuse(What::IntoFifo),
        () if is_directory || !must_go => Decision::WriteInto(identity),
        () if replaces => Decision::Replace(identity),
        () => Decision::Remove,
    }
}

/// Whether a file that has other names is left to those: what is written into it would be the contents of each, and one of them
/// may have been found to be the same as its source.
fn is_taken_apart(source: &Source<'_>, existing: &Existing, plan: &Plan) -> bool {
    let by_mirror = makes_equal(plan, source.is_operand) && existing.entry.id == existing.target.id;
    existing.target.links > 1 && (plan.preserve.links || by_mirror)
}

/// Whether what stands at the destination is there to be made equal: it does not go for a source that cannot be read.
pub(crate) fn makes_equal(plan: &Plan, is_operand: bool) -> bool {
    matches!(plan.update, Update::Changed | Update::Content) || is_mirrored(plan, is_operand)
}

/// Whether a file of this kind is copied by its contents, into a regular file.
pub(crate) fn copied_as_regular(kind: Kind, plan: &Plan) -> bool {
    let contents = !plan.recursive || plan.special_files == SpecialFiles::Contents;
    kind == Kind::Regular || (contents && kind != Kind::Directory && kind != Kind::SymbolicLink)
}

/// The type of the copy of such a file.
fn made_as(kind: Kind, plan: &Plan) -> Kind {
    if copied_as_regular(kind, plan) { Kind::Regular } else { kind }
}

/// Whether a symbolic link at the destination counts itself, not what it leads to: regular files can be written through a link;
/// others cannot, nor can what is going to be removed or linked.
pub(crate) fn acts_on_entry(source: Kind, plan: &Plan, is_operand: bool) -> bool {
    !copied_as_regular(source, plan)
        || plan.link != LinkMode::Copy
        || plan.backup != Backup::None
        || plan.remove_destination
        || plan.moves
        || is_mirrored(plan, is_operand)
}

/// Whether the copy is to be of the same type as the source, and nothing is written through a symbolic link or into a device. What
/// the user has named is what it is.
pub(crate) fn is_mirrored(plan: &Plan, is_operand: bool) -> bool {
    plan.delete.is_some() && !is_operand
}
