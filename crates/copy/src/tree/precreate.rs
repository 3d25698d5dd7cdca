//! Directories that are made ahead: all that a directory holds, before the first of its files is copied.
//!
//! Where files are made in turns with the directories beside them, ext4 without flex_bg puts a directory and all its files
//! into the same block group, and then the next ones, so that all threads make inodes in one group. They wait there for each
//! other's blocks of the inode table, and each new inode is looked for among all those that were freed in that group within
//! the last minutes. Directories that were made first get their files in a group each: on such a filesystem
//! (Linux 6.18, two threads, 60,000 files where others had just been removed) a copy took 1.8 s instead of 2.8.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use haul_sys::inode::Kind;
use haul_sys::rustix::fs::FileType;

use crate::tree::walker::Walker;
use crate::walk::{Listed, Spot};
use crate::work::directory::Frame;

/// So many in one directory at most: where the process is killed they stay, and meanwhile the other threads may have nothing
/// to do.
const MOST: usize = 1000;

/// Makes the directories among the names that were just read in this one. What cannot be made is left to the visit, which
/// reports it.
pub(crate) fn precreate(walker: &mut Walker<'_>, frame: &mut Frame) {
    let cx = walker.worker.cx;
    if !may_make_ahead(walker, frame) {
        return;
    }
    let (place, sides, names) = frame.names();
    let Some(sides) = sides else { return };
    let unsaid = Path::new("");
    let [source_dir, dest_dir] = sides.both();
    for listed in names.filter(|listed| listed.kind == Some(FileType::Directory)).take(MOST) {
        if cx.cancelled() {
            return;
        }
        let source = Spot::new(source_dir, &listed.name, unsaid);
        let Ok(inode) = source.inode() else { continue };
        if inode.kind == Kind::Directory {
            let mode = cx.creation_mode(inode.kind, &inode, &place.entries);
            let dest = Spot::new(dest_dir, &listed.name, unsaid);
            listed.made = dest.make_dir(mode).is_ok().then_some(mode);
        }
    }
}

/// Only in a directory that holds nothing but what we put there, where nobody else has to know before, and on a
/// filesystem with a device of its own: over a network it would only take time.
fn may_make_ahead(walker: &Walker<'_>, frame: &Frame) -> bool {
    let cx = walker.worker.cx;
    let [_, dest_device] = frame.devices();
    frame.place.fresh
        && dest_device.major != 0
        && frame.place.listed.is_none()
        // What is excluded would be made for nothing.
        && cx.plan.filter.is_none()
        // What is renamed is not made.
        && !cx.plan.moves
        // Without one, the copy may be changing its own source.
        && walker.pool.is_some()
        && cx.peers.is_none()
        && cx.plan.shard.is_none()
        && cx.services.progress.get().is_none()
        && !cx.session.pace.is_active()
}

/// Takes directories away that were made ahead and that nobody will visit.
pub(crate) fn unmake_rest(frame: &mut Frame) {
    let dir = Arc::clone(&frame.place.dir);
    let (_, sides, names) = frame.names();
    let unsaid = Path::new("");
    let mut names = names.filter(|listed| listed.made.is_some()).peekable();
    if names.peek().is_none() {
        return;
    }
    let opened = if sides.is_none() { dir.open().ok() } else { None };
    let dest_dir = sides.map(|sides| sides.dest.as_fd()).or_else(|| opened.as_ref().map(AsFd::as_fd));
    let Some(dest_dir) = dest_dir else { return };
    for listed in names {
        unmake(Spot::new(dest_dir, &listed.name, unsaid), listed);
    }
}

/// Takes a directory away that was made ahead, if nothing is in it.
pub(crate) fn unmake(dest: Spot<'_>, listed: &Listed) {
    if listed.made.is_some() {
        // Another one that stays behind does no harm.
        dest.remove_dir().ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_sys::inode::{DeviceNumber, FileId};

    use super::*;
    use crate::context::test_support::Bench;
    use crate::tree::test_support::{alone, beside_other, entered, found, make_dir, mode_of, plan, whole_tree};

    /// Two directories and a file in the source. Directories are closed to others until they have their owners.
    fn bench() -> Bench {
        let mut bench = Bench::new(plan()).source("file", "");
        bench.plan.preserve.ownership = true;
        for name in ["one", "two"] {
            make_dir(bench.source_path(name), 0o755);
        }
        bench
    }

    /// The directory with the names that were just read in it, on a filesystem with a device.
    fn just_read(mut frame: Frame) -> Frame {
        let place = Arc::get_mut(&mut frame.place).unwrap();
        place.dest_inode.id = FileId::new(DeviceNumber { major: 8, minor: 1 }, place.dest_inode.id.inode());
        assert!(frame.listing.read(frame.sides.as_ref().unwrap().both()[0]).unwrap());
        frame
    }

    #[test]
    fn the_directories_among_the_names_are_made_ahead() {
        let bench = bench();
        let mut frame = just_read(entered(&bench));
        beside_other(&bench, |walker, _| precreate(walker, &mut frame)).says(&[]);
        assert_eq!(whole_tree(&bench.dest_path("")), ["one/ 700", "two/ 700"]);
        let made: Vec<_> = frame.names().2.map(|listed| (listed.name.to_str() != Some("file"), listed.made)).collect();
        assert!(made.contains(&(false, None)));
        assert_eq!(made.iter().filter(|made| **made == (true, Some(0o700))).count(), 2);
    }

    #[test]
    fn nothing_is_made_ahead_by_the_only_thread() {
        let bench = bench();
        let mut frame = just_read(entered(&bench));
        alone(&bench, |walker| precreate(walker, &mut frame));
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn nothing_is_made_ahead_in_a_directory_that_was_there() {
        let bench = bench();
        let mut frame = just_read(found(&bench));
        beside_other(&bench, |walker, _| precreate(walker, &mut frame));
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn nothing_is_made_ahead_on_a_filesystem_without_device() {
        let bench = bench();
        let mut frame = just_read(entered(&bench));
        let place = Arc::get_mut(&mut frame.place).unwrap();
        place.dest_inode.id = FileId::new(DeviceNumber { major: 0, minor: 30 }, 2);
        beside_other(&bench, |walker, _| precreate(walker, &mut frame));
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn a_cancelled_run_makes_nothing_ahead() {
        let bench = bench();
        bench.cancel.cancel();
        let mut frame = just_read(entered(&bench));
        beside_other(&bench, |walker, _| precreate(walker, &mut frame));
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn what_cannot_be_made_ahead_is_left_to_the_visit() {
        let bench = bench().dest("one", "in the way");
        let mut frame = just_read(entered(&bench));
        beside_other(&bench, |walker, _| precreate(walker, &mut frame)).says(&[]);
        let made = |name: &str, frame: &mut Frame| frame.names().2.find(|listed| listed.name == *name).unwrap().made;
        assert_eq!((made("one", &mut frame), made("two", &mut frame)), (None, Some(0o700)));
    }

    #[test]
    fn what_was_made_ahead_and_is_not_visited_goes_again() {
        let bench = bench();
        let mut frame = just_read(entered(&bench));
        beside_other(&bench, |walker, _| precreate(walker, &mut frame));
        fs::write(bench.dest_path("two/somebody's"), "").unwrap();
        make_dir(bench.dest_path("three"), 0o700);
        unmake_rest(&mut frame);
        assert_eq!(whole_tree(&bench.dest_path("")), ["three/ 700", "two/ 700", "two/somebody's: "]);
    }

    #[test]
    fn what_was_made_ahead_goes_from_closed_directories_too() {
        let bench = bench();
        let mut frame = just_read(entered(&bench));
        beside_other(&bench, |walker, _| precreate(walker, &mut frame));
        assert_eq!(mode_of(bench.dest_path("one")), 0o700);
        frame.sides = None;
        unmake_rest(&mut frame);
        assert!(bench.tree().is_empty());
    }
}
