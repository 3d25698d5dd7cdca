//! Makes or finds the copy of a directory, and opens both.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::OFlags;

use crate::attributes::{OTHERS, OWNER};
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::file::open::noatime;
use crate::finish::{deletion, directories, naming, resume, shard, written};
use crate::list::Index;
use crate::meta::{NewEntries, Object};
use crate::plan::ModeRule;
use crate::publish::Sides;
use crate::tree::claims::{self, made_at};
use crate::walk::{Listing, PathNode, last_component, tagged_cache};
use crate::work::directory::{Directory, Frame};
use crate::work::entry::{DestState, Subject, announce};

const SET_GROUP_ID: u32 = 0o2000;

struct OpenDest {
    pub fd: OwnedFd,
    pub inode: Inode,
    pub created: bool,
    pub fresh: bool,
}

/// Makes or enters the destination directory and opens the source. `None` if that failed, and was reported.
pub(crate) fn enter_directory(worker: &mut Worker<'_>, subject: &Subject<'_>, state: &DestState) -> Option<Box<Frame>> {
    let cx = worker.cx;
    let (source, dest) = (subject.source, subject.dest);
    if subject.level.dir.is_some_and(|dir| dir.is_within_copy_of(subject.inode.id)) {
        worker.report.problem(Error::new(What::CyclicLink, source.path));
        return None;
    }
    let OpenDest { fd: dest_fd, inode: dest_inode, created, fresh } = make_or_find_directory(worker, subject, state)?;
    if let Some(above) = subject.level.ancestors.last() {
        deletion::look_at_name(cx, dest, above.place.dest_inode.id.device());
    }
    let above = subject.level.dir?;
    let dir = above.below(last_component(dest.name), dest_inode.id, subject.inode.id);
    // Below a directory that we made, everything is ours already.
    if created && !subject.level.ancestors.last().is_some_and(|above| above.place.fresh) {
        // Remembering what was remembered already is no error: the same directory may be entered for two operands.
        let remembered = cx.services.links.remember((&dest_inode).into(), || made_at(above, dest));
        claims::table(&mut worker.report, remembered, dest);
    }
    if fresh {
        announce(&worker.report, subject, &DestState::default());
    }
    worker.report.stats.directories += 1;
    let entries = match created && !fresh || cx.plan.shard.is_some() {
        // It may have got ACLs and another owner since, or get them from another shard.
        true => NewEntries::UNKNOWN,
        false => directories::new_entries(cx, &dest_fd, &dest_inode, fresh.then_some(&state.entries)),
    };
    let (opened, contents) = open_source(worker, subject)?;
    if !created {
        let sides = [(&opened, !contents), (&dest_fd, true)];
        let sides = sides.map(|(fd, path_only)| Object { fd: fd.as_fd(), path_only });
        directories::close_to_others(cx, sides, [&subject.inode, &dest_inode]);
    }
    let [source_path, dest_path] = nodes_of(subject);
    let place = Directory {
        source_inode: subject.inode,
        dest_inode,
        entries,
        // Also where only the contents are not wanted: as a handle it serves in either case.
        source_path_only: !contents,
        dir,
        created,
        // Nor has this shard been there before, and only it makes what it will make there; but what somebody else has
        // put there meanwhile may have to stay.
        fresh: fresh || created && shard::is_first_attempt(cx) && !cx.plan.keeps_existing(),
        source_path,
        dest_path,
        listed: subject.level.listed,
        stays: AtomicBool::new(false),
        unread: AtomicBool::new(false),
    };
    let listing = listing_of(cx, subject.level.listed, &opened);
    let sides = Arc::new(Sides::new(opened, dest_fd, &place.dest_path));
    let mut frame = Box::new(Frame::new(Arc::new(place), Some(sides), listing));
    frame.through_link = through_link(subject, state);
    frame.finished = !contents;
    if let Some(peers) = cx.peers {
        peers.name_of(subject.inode.id.device(), Some(source.path));
    }
    if fresh {
        cx.attributes().prepare(&frame.directory().keep([source.path, dest.path])?, &mut worker.report);
    }
    Some(frame)
}

/// Makes the directory of the destination, or opens the one that is there.
fn make_or_find_directory(worker: &mut Worker<'_>, subject: &Subject<'_>, state: &DestState) -> Option<OpenDest> {
    let cx = worker.cx;
    let dest = subject.dest;
    let mut fresh = !state.existing.as_ref().is_some_and(|existing| existing.target.kind == Kind::Directory);
    let mode = cx.creation_mode(Kind::Directory, &subject.inode, &state.entries);
    let made = subject.level.made;
    let stands = made == Some(mode);
    if made.is_some() && !stands {
        // The source has got another mode since: what was made may let others in.
        dest.remove_dir().ok();
    }
    let make = || cx.services.space_gate.with_space(|| dest.make_dir(mode));
    if fresh && !stands {
        shard::note_directory(worker, dest);
        match make() {
            // Another shard has come first.
            Err(Errno::EXIST) if cx.plan.shard.is_some() => fresh = false,
            made => worker.report.check(made, What::CannotCreateDirectory, dest.path).ok()?,
        }
    }
    let opened = match open_destination(subject, state) {
        // Somebody removes what is empty.
        Err(Errno::NOENT) if stands => make().and_then(|()| open_destination(subject, state)),
        opened => opened,
    };
    let (fd, found) = worker.report.check(opened, What::CannotStat, dest.path).ok()?;
    let created = fresh || resume::was_made_earlier(cx, &found) || shard::was_made_by_shard(cx, dest, &found);
    if fresh {
        resume::promise_directory(worker, &found);
    }
    let inode = match created {
        true => as_made(cx, subject, state, (&fd, found), fresh),
        false => found,
    };
    if created && !directories::make_usable(&mut worker.report, &fd, &inode, dest.path) {
        return None;
    }
    written::will_write_to(worker, inode.id.device(), dest.path, fd.as_fd());
    if !fresh {
        // What is in it may be met again.
        naming::give_names(worker);
        resume::tidy(cx, fd.as_fd(), true);
    }
    Some(OpenDest { fd, inode, created, fresh })
}

/// A directory that this run, an earlier one or another shard has made, as it was made.
fn as_made(
    cx: RunContext<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (fd, found): (&OwnedFd, Inode),
    fresh: bool,
) -> Inode {
    if fresh && cx.plan.shard.is_none() {
        return found;
    }
    // Another shard may have opened it up before it was looked at.
    let mut inode = directories::as_it_was_made(cx, found, &subject.inode, &state.entries);
    if fresh {
        return inode;
    }
    // As a new one: closed to others until it has its owner and what is in it, and without the bit of its source that new
    // directories in it would inherit, and keep.
    let closed = if cx.plan.preserve.ownership { OTHERS } else { 0 };
    let ended = if hands_its_group_on(cx, subject, &inode) { SET_GROUP_ID } else { 0 };
    if closed | ended != 0 {
        // Who may not do that may not set its attributes either, which is reported then.
        let object = Object { fd: fd.as_fd(), path_only: true };
        inode.permissions &= !(closed | ended);
        object.set_mode(inode.permissions | OWNER).ok();
    }
    inode
}

/// Whether an earlier run has given a directory the set-group-ID bit of its source, which it will get again. One that it has
/// inherited was there while that run filled it.
fn hands_its_group_on(cx: RunContext<'_>, subject: &Subject<'_>, inode: &Inode) -> bool {
    let is_set = |inode: &Inode| inode.permissions & SET_GROUP_ID != 0;
    cx.plan.preserve.mode == ModeRule::Keep
        && is_set(&subject.inode)
        && is_set(inode)
        && subject.dest.dir().and_then(Inode::of).is_ok_and(|above| !is_set(&above))
}

pub(crate) fn open_destination(subject: &Subject<'_>, state: &DestState) -> Result<(OwnedFd, Inode), Errno> {
    let no_follow = if is_link_to_directory(state) { OFlags::empty() } else { OFlags::NOFOLLOW };
    let fd = subject.dest.open(OFlags::PATH | OFlags::DIRECTORY | no_follow, 0)?;
    let inode = Inode::of(fd.as_fd())?;
    let found = state.existing.as_ref().map_or(inode.id, |existing| existing.target.id);
    if inode.id == found { Ok((fd, inode)) } else { Err(Errno::STALE) }
}

/// Opens the source directory. The flag says whether its contents are to be copied: not those of a directory on
/// another filesystem with `-x`, nor those that cannot be read, which is reported.
pub(crate) fn open_source(worker: &mut Worker<'_>, subject: &Subject<'_>) -> Option<(OwnedFd, bool)> {
    let above = subject.level.ancestors.last().map(|above| above.place.source_inode.id.device());
    let mut contents = worker.cx.wanted().contents(&subject.inode, above);
    let no_follow = if subject.follow() { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::DIRECTORY | no_follow;
    let mut said = false;
    let mut opened = match contents {
        true if noatime(worker.cx, &subject.inode).is_empty() => subject.source.open(flags | OFlags::RDONLY, 0),
        true => subject.source.open_noatime(flags | OFlags::RDONLY),
        false => subject.source.open(flags | OFlags::PATH, 0),
    };
    if let Err(errno) = opened {
        worker.report.problem(Error::new(What::CannotAccess, subject.source.path).errno(errno));
        (said, contents) = (true, false);
        opened = subject.source.open(flags | OFlags::PATH, 0);
    }
    match opened.and_then(|fd| Ok((Inode::of(fd.as_fd())?.is_same_file_as(&subject.inode), fd))) {
        Ok((true, fd)) => Some((fd, contents)),
        Ok((false, _)) => {
            worker.report.problem(Error::new(What::ReplacedWhileCopied, subject.source.path));
            None
        }
        Err(errno) => {
            if !said {
                worker.report.problem(Error::new(What::CannotAccess, subject.source.path).errno(errno));
            }
            None
        }
    }
}

/// The names in a directory, out of the list if there is one; of a cache that is not wanted, the tag.
pub(crate) fn listing_of(cx: RunContext<'_>, directory: Option<Index>, source: &OwnedFd) -> Listing {
    match (&cx.services.selection, directory) {
        (Some(selection), Some(directory)) => {
            Listing::out_of_list(Some(selection.first[directory as usize]).filter(|first| *first != 0))
        }
        _ if cx.wanted().excludes_caches() => tagged_cache(source.as_fd()).unwrap_or_default(),
        _ => Listing::default(),
    }
}

/// The paths of an entry, for those of entries below it.
pub(crate) fn nodes_of(subject: &Subject<'_>) -> [Arc<PathNode>; 2] {
    let (source, dest) = (subject.source, subject.dest);
    match subject.level.ancestors.last() {
        Some(above) => [above.place.source_path.below(source.name), above.place.dest_path.below(dest.name)],
        None => [PathNode::root(source.path), PathNode::root(dest.path)],
    }
}

pub(crate) fn through_link(subject: &Subject<'_>, state: &DestState) -> bool {
    let source = subject.follow() && subject.source.inode().is_ok_and(|entry| entry.kind == Kind::SymbolicLink);
    source || is_link_to_directory(state)
}

fn is_link_to_directory(state: &DestState) -> bool {
    state.existing.as_ref().is_some_and(|existing| existing.entry.kind == Kind::SymbolicLink)
}

#[cfg(test)]
#[path = "enter_tests.rs"]
mod tests;
