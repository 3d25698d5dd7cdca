//! The two entries that a decision is about, and whether their being the same file is a mistake, in the cases that GNU cp
//! distinguishes.

use haul_sys::inode::{Inode, Kind};

use crate::plan::{Backup, Dereference, LinkMode, Plan};

/// The entry of the source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Links followed or not as the options say.
    pub inode: &'a Inode,
    /// Which links are followed from here on.
    pub dereference: Dereference,
    /// It was named by the user.
    pub is_operand: bool,
}

impl Source<'_> {
    /// Whether it matters what the two lead to.
    pub(crate) fn needs_targets(&self, existing: &Existing) -> bool {
        let links = [self.inode.kind, existing.target.kind] == [Kind::SymbolicLink; 2];
        self.dereference == Dereference::Never && !links
    }
}

/// A destination as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Existing {
    /// The entry itself.
    pub entry: Inode,
    /// What the copy would act on: the entry, or what it leads to.
    pub target: Inode,
    /// Its name is `.` or `..`.
    pub is_dot: bool,
}

impl Existing {
    /// Other entries may be names of the same file.
    pub(crate) fn has_several_names(&self) -> bool {
        self.target.kind != Kind::Directory && self.target.links > 1
    }
}

/// What to do with a destination that may be the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are different files, or it does no harm.
    Go,
    /// The wanted state is there already.
    Nothing,
    /// Going on would lose data or make no sense.
    Refuse,
}

/// How two entries are related of which one may be the other, or lead to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CloseLook {
    /// They are the same name in the same directory.
    pub one_entry: bool,
    /// They are, and their paths say so: neither goes through a symbolic link to that directory.
    pub one_path: bool,
    /// The source and the destination themselves, no link followed; none if that is not known.
    pub entries: Option<[Inode; 2]>,
    /// Both are, or lead to, one file; none if a link leads nowhere, or nobody needs to know ([`Source::needs_targets`]).
    pub same_target: Option<bool>,
}

/// Decides; none if a close look is needed first.
pub(super) fn judge(
    source: &Source<'_>,
    existing: &Existing,
    look: Option<&CloseLook>,
    plan: &Plan,
) -> Option<Verdict> {
    let (inode, target) = (source.inode, &existing.target);
    let same = inode.id == target.id;
    if same && plan.link == LinkMode::Hard {
        return Some(Verdict::Nothing);
    }
    let never = source.dereference == Dereference::Never;
    if !same && !(never && (is_link(inode) || is_link(target))) {
        return Some(Verdict::Go);
    }
    let look = look?;
    if never && is_link(inode) && is_link(target) {
        return Some(judge_two_links(look, plan, same));
    }
    let [inode, target] = match (never, &look.entries) {
        (true, _) => [inode, target],
        // They have gone: whatever comes next will say so.
        (false, None) => return Some(Verdict::Go),
        (false, Some([inode, target])) => [inode, target],
    };
    if !never && is_link(inode) && is_link(target) && plan.remove_destination {
        return Some(Verdict::Go);
    }
    Some(judge_entries(source, look, plan, inode, target))
}

/// Two symbolic links that are copied as such: fine as long as they are two.
fn judge_two_links(look: &CloseLook, plan: &Plan, same: bool) -> Verdict {
    // rename(2) would do nothing, either.
    if look.one_path || plan.moves && same {
        Verdict::Refuse
    } else if plan.backup == Backup::None && same {
        Verdict::Nothing
    } else if look.one_entry {
        // As a backup the only name of the source would be gone, as it is with cp.
        Verdict::Refuse
    } else {
        Verdict::Go
    }
}

/// `inode` and `target` are the attributes of the entries themselves.
fn judge_entries(source: &Source<'_>, look: &CloseLook, plan: &Plan, inode: &Inode, target: &Inode) -> Verdict {
    let same = inode.id == target.id;
    if plan.backup != Backup::None {
        return judge_with_backup(source, look, inode, target);
    }
    // What only the copy has goes, also a link to the source.
    let goes = plan.remove_destination || plan.moves || plan.delete.is_some() && !source.is_operand;
    if is_link(target) && goes {
        return Verdict::Go;
    }
    if plan.remove_destination && same && target.links > 1 && !look.one_entry {
        return Verdict::Go;
    }
    if !is_link(inode) && !is_link(target) && !same {
        return Verdict::Go;
    }
    if plan.link == LinkMode::Symbolic && is_link(target) {
        return Verdict::Go;
    }
    if source.dereference == Dereference::Never {
        return judge_targets(look, plan, target);
    }
    Verdict::Refuse
}

/// A backup moves the destination aside, so a second name of the source may go, but not its only one.
fn judge_with_backup(source: &Source<'_>, look: &CloseLook, inode: &Inode, target: &Inode) -> Verdict {
    let refuse = if inode.id == target.id {
        look.one_entry
    } else {
        // The source is a link to the destination: moved aside, the link would dangle.
        source.dereference != Dereference::Never && is_link(inode) && !is_link(target)
    };
    if refuse { Verdict::Refuse } else { Verdict::Go }
}

/// One side is a link, neither is followed: a problem only if the link leads to the other side.
fn judge_targets(look: &CloseLook, plan: &Plan, target: &Inode) -> Verdict {
    match look.same_target {
        None | Some(false) => Verdict::Go,
        Some(true) if plan.link == LinkMode::Hard => {
            if is_link(target) {
                Verdict::Go
            } else {
                Verdict::Nothing
            }
        }
        Some(true) => Verdict::Refuse,
    }
}

fn is_link(inode: &Inode) -> bool {
    inode.kind == Kind::SymbolicLink
}
