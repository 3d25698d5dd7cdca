//! Finding files and directories again that another process has named.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use crate::facts::{Inode, Time};
use crate::links::{DestDir, Made, duplicate};
use crate::messages::{Location, Pair, Way};
use crate::peers::group::PeerGroup;
use crate::plan::{Dereference, Plan};
use crate::walk::Operand;
use crate::work::directory::Directory;
use crate::work::frame::Frame;
use crate::work::subject::Top;

/// Both directories of a pair, open.
pub(crate) struct OpenPair {
    pub source: OwnedFd,
    pub dest: OwnedFd,
    pub source_inode: Inode,
    pub dest_inode: Inode,
    pub dir: Arc<DestDir>,
}

/// Opens both directories by the names on the way, and makes sure that they are those that were meant.
///
/// # Errors
/// What the kernel says; ESTALE if others stand there.
pub(crate) fn open_pair(plan: &Plan, pair: &Pair) -> Result<OpenPair, Errno> {
    let operand = Operand::open(&pair.operand);
    let no_follow = if plan.dereference == Dereference::Never { OFlags::NOFOLLOW } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut source = operand.spot().open(flags | no_follow, 0)?;
    let operand_device = Inode::of(source.as_fd())?.id.device();
    let root = Way { prefix: pair.dest.prefix.clone(), names: Vec::new() };
    let (mut dest, mut dir) = open_way(&root)?;
    for (depth, name) in pair.dest.names.iter().enumerate() {
        if depth > 0 {
            // The first one is the operand.
            source = openat(&source, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        dest = openat(&dest, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let id = |fd: &OwnedFd| Inode::of(fd.as_fd()).map(|inode| inode.id);
        dir = dir.below(name, id(&dest)?, id(&source)?);
    }
    let (source_inode, dest_inode) = (Inode::of(source.as_fd())?, Inode::of(dest.as_fd())?);
    if [source_inode.id.inode(), dest_inode.id.inode()] != pair.inodes {
        return Err(Errno::STALE);
    }
    // The roots of filesystems that each machine has for itself have one number everywhere, but were not made at one time.
    let births = [(source_inode.born, pair.born[0]), (dest_inode.born, pair.born[1])];
    let differ = |(here, there): &(Option<Time>, Option<(i64, u32)>)| {
        here.is_some() && there.is_some() && born_of(*here) != *there
    };
    let told = births.iter().all(|(here, there)| here.is_some() && there.is_some());
    let mounted_below = source_inode.id.device() != operand_device || dest_inode.id.device() != dir.top_device()?;
    if births.iter().any(differ) || (mounted_below && !told) {
        return Err(Errno::XDEV);
    }
    Ok(OpenPair { source, dest, source_inode, dest_inode, dir })
}

/// Opens a directory of the destination by the way to it.
///
/// # Errors
/// What the kernel says; another machine may not see yet what was made there.
fn open_way(way: &Way) -> Result<(OwnedFd, Arc<DestDir>), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = if way.prefix.is_empty() { ".".as_ref() } else { way.prefix.as_os_str() };
    let mut fd = openat(CWD, root, flags, Mode::empty())?;
    let mut dir = DestDir::root_shown_as(Arc::new(duplicate(fd.as_fd())?), way.prefix.clone())?;
    for name in &way.names {
        // A link is followed where the process that was here first has followed one; inode numbers tell.
        fd = openat(&fd, name, flags, Mode::empty())?;
        dir = dir.known_below(name, Inode::of(fd.as_fd())?.id);
    }
    Ok((fd, dir))
}

pub(crate) fn find(place: &Location) -> Result<Made, Errno> {
    let (fd, dir) = open_way(&place.way)?;
    let found = Inode::at(fd.as_fd(), &place.name)?;
    if found.id.inode() != place.inode {
        // Where a symbolic link was written through, the file is behind it.
        let behind = Inode::at_following(fd.as_fd(), &place.name)?;
        if behind.id.inode() != place.inode {
            return Err(Errno::STALE);
        }
        return Ok(Made { dir, name: place.name.clone(), id: Some(behind.id) });
    }
    Ok(Made { dir, name: place.name.clone(), id: Some(found.id) })
}

/// What another process needs to open the two directories of a place.
pub(crate) fn pair_of_place(place: &Directory, top: &Top, peers: &PeerGroup<'_>) -> Pair {
    let device = place.source_inode.id.device();
    Pair {
        operand: top.source.clone().into_os_string(),
        operand_dest: top.dest.clone().into_os_string(),
        dest: Way { prefix: place.dir.prefix().to_owned(), names: place.dir.names() },
        inodes: [place.source_inode.id.inode(), place.dest_inode.id.inode()],
        born: [place.source_inode.born, place.dest_inode.born].map(born_of),
        device: peers.name_of(device, None),
        listed: place.listed,
        shown: [place.source_path.path().into_os_string(), place.dest_path.path().into_os_string()],
    }
}

fn born_of(born: Option<Time>) -> Option<(i64, u32)> {
    born.map(|born| (born.seconds, born.nanoseconds))
}

/// The way to a directory of the destination, and that of an operand's file: what is needed to describe a file to others.
pub(crate) fn pair_of(
    dir: &Arc<DestDir>,
    sides: Option<(&Frame, &Top)>,
    operand: (&std::path::Path, &std::path::Path),
    peers: &PeerGroup<'_>,
) -> Pair {
    match sides {
        Some((frame, top)) => pair_of_place(frame.place(), top, peers),
        None => Pair {
            operand: operand.0.as_os_str().to_owned(),
            operand_dest: operand.1.as_os_str().to_owned(),
            dest: Way { prefix: dir.prefix().to_owned(), names: dir.names() },
            inodes: [0; 2],
            born: [None; 2],
            device: 0,
            listed: None,
            shown: [OsString::new(), OsString::new()],
        },
    }
}

/// A directory of the destination for a file that is an operand itself.
pub(crate) fn open_holder(pair: &Pair) -> Result<OwnedFd, Errno> {
    let (fd, _dir) = open_way(&pair.dest)?;
    duplicate(fd.as_fd())
}
