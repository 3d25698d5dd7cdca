//! Finding files and directories again that another process has named.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_cluster::messages::{Location, Pair, Way};
use haul_sys::Errno;
use haul_sys::inode::{Inode, Time};
use haul_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use crate::links::{DestDir, Made, duplicate};
use crate::peers::PeerGroup;
use crate::plan::{Dereference, Plan};
use crate::walk::{Operand, ask_server_again, open_directory};
use crate::work::directory::Directory;
use crate::work::entry::Top;

/// Both directories of a pair, open.
pub(crate) struct OpenPair {
    pub source: OwnedFd,
    pub dest: OwnedFd,
    pub source_inode: Inode,
    pub dest_inode: Inode,
    pub dir: Arc<DestDir>,
}

/// Opens both directories by the names on the way, and makes sure that they are those that were meant: ESTALE and EXDEV if others
/// stand there.
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
        dest = open_directory(&dest, name)?;
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
        here.is_some() && there.is_some() && here.map(Into::into) != *there
    };
    let known = births.iter().all(|(here, there)| here.is_some() && there.is_some());
    let mounted_below = source_inode.id.device() != operand_device || dest_inode.id.device() != dir.top_device()?;
    if births.iter().any(differ) || (mounted_below && !known) {
        return Err(Errno::XDEV);
    }
    Ok(OpenPair { source, dest, source_inode, dest_inode, dir })
}

/// Opens a directory of the destination by the way to it. Another machine may not see yet what was made there.
fn open_way(way: &Way) -> Result<(OwnedFd, Arc<DestDir>), Errno> {
    let root = if way.prefix.is_empty() { ".".as_ref() } else { way.prefix.as_os_str() };
    let mut fd = open_directory(CWD, root)?;
    let mut dir = DestDir::root_shown_as(Arc::new(duplicate(fd.as_fd())?), way.prefix.clone())?;
    for name in &way.names {
        // A link is followed where the process that was here first has followed one; inode numbers tell.
        fd = open_directory(&fd, name)?;
        dir = dir.known_below(name, Inode::of(fd.as_fd())?.id);
    }
    Ok((fd, dir))
}

/// Before [`open_pair`] is tried again: this machine asks for both directories.
pub(crate) fn ask_again_for(pair: &Pair) {
    // The first name of the destination is that of the operand.
    let source = pair.dest.names.iter().skip(1).fold(PathBuf::from(&pair.operand), |path, name| path.join(name));
    ask_server_again(&source);
    ask_again_for_way(&pair.dest);
}

/// Before [`find`] is tried again, likewise.
pub(crate) fn ask_again_for_way(way: &Way) {
    ask_server_again(&way.names.iter().fold(PathBuf::from(&way.prefix), |path, name| path.join(name)));
}

pub(crate) fn find(place: &Location) -> Result<Made, Errno> {
    let (fd, dir) = open_way(&place.way)?;
    let mut found = Inode::at(fd.as_fd(), &place.name)?;
    if found.id.inode() != place.inode {
        // Where a symbolic link was written through, the file is behind it.
        found = Inode::at_following(fd.as_fd(), &place.name)?;
    }
    let is_it = found.id.inode() == place.inode;
    is_it.then(|| Made { dir, name: place.name.clone(), id: Some(found.id) }).ok_or(Errno::STALE)
}

/// What another process needs to open the two directories of a place.
pub(crate) fn pair_of_place(place: &Directory, top: &Top, peers: &PeerGroup<'_>) -> Pair {
    let device = place.source_inode.id.device();
    Pair {
        operand: top.source.clone().into_os_string(),
        operand_dest: top.dest.clone().into_os_string(),
        dest: Way { prefix: place.dir.prefix().to_owned(), names: place.dir.names() },
        inodes: [place.source_inode.id.inode(), place.dest_inode.id.inode()],
        born: [place.source_inode.born, place.dest_inode.born].map(|born| born.map(Into::into)),
        device: peers.name_of(device, None),
        listed: place.listed,
        shown: [place.source_path.path().into_os_string(), place.dest_path.path().into_os_string()],
    }
}

/// What another process needs to open a file that is an operand itself, and the directory of the destination.
pub(crate) fn pair_of_operand(source: &Path, dest: &Path, dir: &DestDir) -> Pair {
    Pair {
        operand: source.into(),
        operand_dest: dest.into(),
        dest: Way { prefix: dir.prefix().to_owned(), names: dir.names() },
        inodes: [0; 2],
        born: [None; 2],
        device: 0,
        listed: None,
        shown: [OsString::new(), OsString::new()],
    }
}

/// A directory of the destination for a file that is an operand itself.
pub(crate) fn open_holder(pair: &Pair) -> Result<OwnedFd, Errno> {
    let (fd, _dir) = open_way(&pair.dest)?;
    duplicate(fd.as_fd())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use haul_cluster::test_support::{Wires, group};

    use super::*;
    use crate::context::test_support::Bench;
    use crate::tree::test_support::{entered, plan};

    /// The directories `one/two` of both sides, and how another process finds them.
    fn below(bench: &Bench) -> Pair {
        for side in [bench.source_path("one/two"), bench.dest_path("one/two")] {
            fs::create_dir_all(side).unwrap();
        }
        pair_below(bench)
    }

    fn pair_below(bench: &Bench) -> Pair {
        let inode = |path: &Path| Inode::at(CWD, path.as_os_str()).unwrap();
        let [source, dest] = [bench.source_path("one/two"), bench.dest_path("one/two")].map(|path| inode(&path));
        Pair {
            operand: bench.source_path("one").into(),
            operand_dest: bench.dest_path("one").into(),
            dest: Way { prefix: bench.dest_path("").into(), names: ["one", "two"].map(OsString::from).into() },
            inodes: [source, dest].map(|inode| inode.id.inode()),
            born: [source, dest].map(|inode| inode.born.map(Into::into)),
            device: 0,
            listed: None,
            shown: [OsString::new(), OsString::new()],
        }
    }

    fn opened(pair: &Pair) -> Result<[u64; 2], Errno> {
        let open = open_pair(&plan(), pair)?;
        assert_eq!(open.dir.names(), pair.dest.names);
        Ok([open.source_inode, open.dest_inode].map(|inode| inode.id.inode()))
    }

    #[test]
    fn both_directories_are_found_by_the_names_on_the_way() {
        let bench = Bench::new(plan());
        let pair = below(&bench);
        assert_eq!(opened(&pair), Ok(pair.inodes));
    }

    #[test]
    fn other_directories_in_their_places_are_stale() {
        let bench = Bench::new(plan());
        let pair = below(&bench);
        for side in [bench.source_path("one"), bench.dest_path("one")] {
            fs::rename(side.join("two"), side.join("moved")).unwrap();
            fs::create_dir(side.join("two")).unwrap();
            assert_eq!(opened(&pair), Err(Errno::STALE));
            fs::remove_dir(side.join("two")).unwrap();
            fs::rename(side.join("moved"), side.join("two")).unwrap();
        }
        assert_eq!(opened(&pair), Ok(pair.inodes));
    }

    #[test]
    fn an_inode_number_of_another_filesystem_is_not_taken() {
        let bench = Bench::new(plan());
        let pair = below(&bench);
        let Some(born) = pair.born[0] else { return haul_testbed::skip("births of directories") };
        let pair = Pair { born: [Some((born.0 + 1, born.1)), pair.born[1]], ..pair };
        assert_eq!(opened(&pair), Err(Errno::XDEV));
    }

    #[test]
    fn no_link_on_the_way_is_followed_in_the_source() {
        let bench = Bench::new(plan());
        let pair = below(&bench);
        fs::rename(bench.source_path("one/two"), bench.source_path("two")).unwrap();
        symlink("../two", bench.source_path("one/two")).unwrap();
        assert!(matches!(opened(&pair), Err(Errno::NOTDIR | Errno::LOOP)));
    }

    #[test]
    fn what_is_missing_on_the_way_is_not_there_yet() {
        let bench = Bench::new(plan());
        let pair = below(&bench);
        fs::remove_dir(bench.dest_path("one/two")).unwrap();
        assert_eq!(opened(&pair), Err(Errno::NOENT));
    }

    /// Where an entry of the destination is said to be.
    fn location(bench: &Bench, name: &str, inode: u64) -> Location {
        let way = Way { prefix: bench.dest_path("").into(), names: Vec::new() };
        Location { way, name: name.into(), inode }
    }

    #[test]
    fn a_file_is_found_where_another_process_made_it() {
        let bench = Bench::new(plan()).dest("a", "copy");
        let id = bench.to("a").inode().unwrap().id;
        let made = find(&location(&bench, "a", id.inode())).unwrap();
        assert_eq!((made.id, made.path()), (Some(id), bench.dest_path("a")));
    }

    #[test]
    fn a_file_written_through_a_link_is_found_behind_it() {
        let bench = Bench::new(plan()).dest("far", "copy").link("a", "far");
        let id = bench.to("far").inode().unwrap().id;
        assert_eq!(find(&location(&bench, "a", id.inode())).unwrap().id, Some(id));
    }

    #[test]
    fn another_file_of_the_name_is_stale() {
        let bench = Bench::new(plan()).dest("a", "of somebody else").dest("b", "copy");
        let id = bench.to("b").inode().unwrap().id;
        assert_eq!(find(&location(&bench, "a", id.inode())).map(drop), Err(Errno::STALE));
    }

    #[test]
    fn an_entered_directory_is_found_by_its_description() {
        let bench = Bench::new(plan());
        let wires = Wires::new(1);
        let end = wires.end_of(0);
        let (peers, frame) = (group(&end), entered(&bench));
        let top = Top { source: bench.source_path(""), dest: bench.dest_path(""), into_itself: false };
        let pair = pair_of_place(&frame.place, &top, &peers);
        assert_eq!(pair.inodes, [frame.place.source_inode.id, frame.place.dest_inode.id].map(|id| id.inode()));
        assert_eq!(pair.shown, ["source", "dest"]);
        let pair = Pair { dest: Way { prefix: bench.dest_path("").into(), ..pair.dest }, ..pair };
        assert_eq!(opened(&pair), Ok(pair.inodes));
    }

    #[test]
    fn a_file_named_by_the_user_is_described_by_paths() {
        let bench = Bench::new(plan()).source("a", "new");
        let pair = pair_of_operand(Path::new("a"), Path::new("dest/b"), &bench.root());
        assert_eq!((pair.operand, pair.operand_dest), ("a".into(), "dest/b".into()));
    }
}
