//! A whole tree in one step, where it is a subvolume of btrfs: its copy is a snapshot (`--clone-tree`).
//!
//! A snapshot has everything that is in the subvolume, as it is at one moment. So it is made only where a copy would take all
//! of that, and change nothing. What lies in other subvolumes or is mounted in the tree is not in a snapshot, and a copy would
//! have it. What a snapshot has and a copy has not: inode flags (chattr(1)), files that this user may not read, owners that
//! this user may not give, and that it is a subvolume again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haul_fs::mounts;
use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{OFlags, fgetxattr};
use haul_sys::subvolume;

use crate::context::Worker;
use crate::error::{Error, What};
use crate::plan::{
    CloneTree, ContextRule, Dereference, EngineChoice, LinkMode, ModeRule, Plan, Reflink, SmartCopy, Sparse,
    SpecialFiles, Verify, Wish,
};
use crate::tree::access::may_make;
use crate::walk::{last_component, reopen_directory};
use crate::work::entry::{DestState, Subject, announce};

/// What came of it.
pub(crate) enum Cloned {
    /// It is there.
    Whole,
    /// It is copied entry by entry.
    No,
    /// It had to be, and cannot: that was reported.
    Failed,
}

/// Why there is no snapshot.
enum Reason {
    Because(&'static str),
    Kernel(Errno),
    /// It was made, and may lack something.
    Meanwhile,
}

/// Makes the copy of a directory as a snapshot, where that is asked for and possible; a dry run finds out whether it is.
/// `stands`: something is at the destination, and stays.
pub(crate) fn clone_tree(worker: &mut Worker<'_>, subject: &Subject<'_>, stands: bool) -> Cloned {
    let plan = worker.cx.plan;
    let wish = plan.clone_tree;
    if wish == CloneTree::Never || !subject.is_operand() {
        return Cloned::No;
    }
    let cloned = sides(worker, subject, stands).and_then(|sides| match plan.dry_run {
        true => Ok(()),
        false => snapshot(worker, subject, &sides),
    });
    let reason = match cloned {
        Ok(()) => {
            if !plan.dry_run {
                announce(&worker.report, subject, &DestState::default());
            }
            worker.report.stats.cloned_trees += 1;
            return Cloned::Whole;
        }
        Err(Reason::Because(_) | Reason::Kernel(_)) if wish == CloneTree::Auto => return Cloned::No,
        Err(reason) => reason,
    };
    let error = Error::new(What::TreeNotCloned, subject.source.path).and(subject.dest.path);
    worker.report.problem(match reason {
        Reason::Because(why) => error.detail(why),
        Reason::Kernel(errno) => error.detail("no snapshot can be made").errno(errno),
        Reason::Meanwhile => {
            error.detail("other subvolumes or mounts came into it meanwhile, and are missing in what was made")
        }
    });
    Cloned::Failed
}

/// The source, and the directory that its snapshot would go into, if there can be one.
fn sides(worker: &Worker<'_>, subject: &Subject<'_>, stands: bool) -> Result<[OwnedFd; 2], Reason> {
    let cx = worker.cx;
    if let Some(why) = against(cx.plan) {
        return Err(Reason::Because(why));
    }
    if stands {
        return Err(Reason::Because("something stands at the destination"));
    }
    if cx.peers.is_some() || !cx.session.skip_files.is_empty() {
        return Err(Reason::Because("not everything is copied by this process"));
    }
    let source = open(subject).map_err(Reason::Kernel)?;
    check_source(source.as_fd())?;
    if cx.plan.preserve.context == Wish::No && has_label(source.as_fd()) {
        return Err(Reason::Because("security contexts are not kept"));
    }
    // An ioctl takes no handle.
    let dir = subject.dest.dir().and_then(reopen_directory).map_err(Reason::Kernel)?;
    let holder = Inode::of(dir.as_fd()).map_err(Reason::Kernel)?;
    if holder.id.device() == subject.inode.id.device() {
        // Each subvolume has a device number of its own.
        return Err(Reason::Because("the copy would be in it"));
    }
    if cx.plan.dry_run {
        may_make(subject.dest).map_err(Reason::Kernel)?;
    }
    match subvolume::are_on_one_filesystem(source.as_fd(), dir.as_fd()) {
        Ok(true) => {}
        Ok(false) => return Err(Reason::Kernel(Errno::XDEV)),
        Err(errno) => return Err(Reason::Kernel(errno)),
    }
    Ok([source, dir])
}

fn snapshot(worker: &Worker<'_>, subject: &Subject<'_>, [source, dir]: &[OwnedFd; 2]) -> Result<(), Reason> {
    let name = last_component(subject.dest.name);
    let make = || subvolume::snapshot(source.as_fd(), dir.as_fd(), name);
    worker.cx.services.space_gate.with_space(make).map_err(Reason::Kernel)?;
    // What has come meanwhile is an empty directory of the snapshot.
    check_source(source.as_fd()).map_err(|_| Reason::Meanwhile)
}

/// Whether a directory has a security context of its own, as all have where SELinux is on.
fn has_label(dir: BorrowedFd<'_>) -> bool {
    fgetxattr(dir, "security.selinux", &mut [0u8; 0][..]).is_ok()
}

fn open(subject: &Subject<'_>) -> Result<OwnedFd, Errno> {
    let source = subject.source.open(OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, 0)?;
    match Inode::of(source.as_fd())?.is_same_file_as(&subject.inode) {
        true => Ok(source),
        false => Err(Errno::STALE),
    }
}

/// Whether a snapshot of this directory has everything that is below it.
fn check_source(source: BorrowedFd<'_>) -> Result<(), Reason> {
    if !subvolume::is_subvolume(source).map_err(Reason::Kernel)? {
        return Err(Reason::Because("it is no subvolume of btrfs"));
    }
    if subvolume::has_subvolumes(source).map_err(Reason::Kernel)? {
        return Err(Reason::Because("there are other subvolumes in it"));
    }
    match mounts::read() {
        Ok(table) if !mounts::has_mounts_below(&table, mounts::path_of(source)) => Ok(()),
        _ => Err(Reason::Because("something is mounted in it")),
    }
}

/// What a plan asks for that a snapshot does not do.
fn against(plan: &Plan) -> Option<&'static str> {
    let keep = &plan.preserve;
    let keeps_all = keep.mode == ModeRule::Keep
        && keep.ownership
        && keep.timestamps
        && keep.links
        && keep.xattr != Wish::No
        && plan.context == ContextRule::Default;
    let as_it_is = plan.link == LinkMode::Copy && plan.special_files == SpecialFiles::Nodes && !plan.attributes_only;
    let chosen = plan.filter.is_some() || plan.names.is_some() || plan.list.is_some() || plan.shard.is_some();
    let reads = plan.reads_again() || plan.verify != Verify::Off || plan.smart != SmartCopy::Off;
    let bytes = plan.data.sparse == Sparse::Auto && plan.data.engine == EngineChoice::Auto;
    let reasons = [
        (!plan.recursive || plan.dereference != Dereference::Never, "-a is not given"),
        (!keeps_all, "not all attributes are kept (-a keeps them)"),
        (!as_it_is, "links or nodes are copied in another way"),
        (chosen, "not everything in it is wanted"),
        (plan.data.reflink == Reflink::Never, "extents are not to be shared"),
        (reads || !bytes, "--sparse, --engine, --verify, --checksum or --smart is given"),
        (plan.sources.len() > 1, "there are several sources, which may have hard links to each other"),
        (plan.resume, "--resume needs single files"),
        (plan.parents || plan.moves, "--parents or --move is given"),
    ];
    reasons.iter().find(|(given, _)| *given).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Preserve;

    fn archive() -> Plan {
        let preserve = Preserve {
            mode: ModeRule::Keep,
            ownership: true,
            timestamps: true,
            links: true,
            xattr: Wish::Try,
            ..Preserve::default()
        };
        Plan { recursive: true, dereference: Dereference::Never, preserve, ..Plan::default() }
    }

    #[test]
    fn only_a_plan_that_takes_all_and_changes_nothing_is_for_a_snapshot() {
        assert_eq!(against(&archive()), None);
        let differs = |change: fn(&mut Plan)| {
            let mut plan = archive();
            change(&mut plan);
            against(&plan).is_some()
        };
        let changes: [fn(&mut Plan); 15] = [
            |plan| plan.recursive = false,
            |plan| plan.dereference = Dereference::Operands,
            |plan| plan.preserve.mode = ModeRule::Default,
            |plan| plan.preserve.ownership = false,
            |plan| plan.preserve.timestamps = false,
            |plan| plan.preserve.links = false,
            |plan| plan.preserve.xattr = Wish::No,
            |plan| plan.link = LinkMode::Hard,
            |plan| plan.special_files = SpecialFiles::Contents,
            |plan| plan.special_files = SpecialFiles::Refused,
            |plan| plan.data.reflink = Reflink::Never,
            |plan| plan.data.sparse = Sparse::Always,
            |plan| plan.verify = Verify::Read,
            |plan| plan.smart = SmartCopy::Auto,
            |plan| plan.resume = true,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(differs(change), "change {number}");
        }
        assert!(!differs(|plan| plan.one_file_system = true), "nothing else is below it");
        assert!(!differs(|plan| plan.data.reflink = Reflink::Always));
    }
}
