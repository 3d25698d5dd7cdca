//! Whether source and destination being the same file is a mistake, in the cases that GNU cp distinguishes.

use haul_sys::Errno;

use crate::facts::{FileId, Inode, Kind};
use crate::plan::{Backup, Dereference, LinkMode, Plan};
use crate::walk::Spot;

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

/// The two sides as they were looked at: links followed or not as the options say.
pub(super) struct Pair<'a> {
    pub source: Spot<'a>,
    pub source_inode: &'a Inode,
    pub dest: Spot<'a>,
    pub dest_inode: &'a Inode,
    /// Which links are followed for this entry.
    pub dereference: Dereference,
}

/// Decides. Looks at the links themselves where the options made us look through them.
pub(super) fn judge(pair: &Pair<'_>, plan: &Plan) -> Verdict {
    let same = pair.source_inode.id == pair.dest_inode.id;
    if same && plan.link == LinkMode::Hard {
        return Verdict::Nothing;
    }
    let (source, dest) = if pair.dereference == Dereference::Never {
        if is_link(pair.source_inode) && is_link(pair.dest_inode) {
            return judge_two_links(pair, plan, same);
        }
        (*pair.source_inode, *pair.dest_inode)
    } else {
        if !same {
            return Verdict::Go;
        }
        let (Ok(source), Ok(dest)) = (pair.source.inode(), pair.dest.inode()) else { return Verdict::Go };
        if is_link(&source) && is_link(&dest) && plan.remove_destination {
            return Verdict::Go;
        }
        (source, dest)
    };
    judge_entries(pair, plan, &source, &dest)
}

/// Two symbolic links that are copied as such: fine as long as they are two.
fn judge_two_links(pair: &Pair<'_>, plan: &Plan, same: bool) -> Verdict {
    if one_entry(pair) {
        Verdict::Refuse
    } else if plan.backup == Backup::None && same {
        Verdict::Nothing
    } else {
        Verdict::Go
    }
}

/// `source` and `dest` are the attributes of the entries themselves.
fn judge_entries(pair: &Pair<'_>, plan: &Plan, source: &Inode, dest: &Inode) -> Verdict {
    let same_entry_file = source.id == dest.id;
    if plan.backup != Backup::None {
        return judge_with_backup(pair, source, dest);
    }
    if plan.remove_destination {
        if is_link(dest) {
            return Verdict::Go;
        }
        if same_entry_file && dest.links > 1 && !one_entry(pair) {
            return Verdict::Go;
        }
    }
    if !is_link(source) && !is_link(dest) && !same_entry_file {
        return Verdict::Go;
    }
    if plan.link == LinkMode::Symbolic && is_link(dest) {
        return Verdict::Go;
    }
    if pair.dereference == Dereference::Never {
        return judge_targets(pair, plan, source, dest);
    }
    Verdict::Refuse
}

/// A backup moves the destination aside, so a second name of the source may go, but not its only one.
fn judge_with_backup(pair: &Pair<'_>, source: &Inode, dest: &Inode) -> Verdict {
    let refuse = if source.id == dest.id {
        one_entry(pair)
    } else {
        // The source is a link to the destination: moved aside, the link would dangle.
        pair.dereference != Dereference::Never && is_link(source) && !is_link(dest)
    };
    if refuse { Verdict::Refuse } else { Verdict::Go }
}

/// One side is a link, neither is followed: a problem only if the link leads to the other side.
fn judge_targets(pair: &Pair<'_>, plan: &Plan, source: &Inode, dest: &Inode) -> Verdict {
    let (Ok(source_target), Ok(dest_target)) = (target(pair.source, source), target(pair.dest, dest)) else {
        return Verdict::Go;
    };
    if source_target != dest_target {
        Verdict::Go
    } else if plan.link == LinkMode::Hard {
        if is_link(dest) { Verdict::Go } else { Verdict::Nothing }
    } else {
        Verdict::Refuse
    }
}

fn target(spot: Spot<'_>, entry: &Inode) -> Result<FileId, Errno> {
    if is_link(entry) { Ok(spot.inode_following()?.id) } else { Ok(entry.id) }
}

fn is_link(inode: &Inode) -> bool {
    inode.kind == Kind::SymbolicLink
}

/// Whether both spots are the same directory entry: the same name in the same directory.
fn one_entry(pair: &Pair<'_>) -> bool {
    super::one_entry(pair.source, pair.dest)
}
