//! The way down to where a walk is, at any depth with few descriptors.
//!
//! A walk goes depth first and keeps one [`Level`] for each directory that it is in. Of these only the innermost are held open.
//! What is closed is opened again on the way back, through `..` of the directory in it, and must be the same directory:
//! whoever moves a directory while it is walked does not lead the walk out of its tree.

use super::listing::Listing;

/// A directory that a walk is in, or several that are walked side by side.
pub trait Level {
    /// What is held open of it.
    type Handles;
    /// Why it could not be opened again.
    type Error;

    /// What is held open of it, if it is.
    fn handles(&mut self) -> &mut Option<Self::Handles>;

    /// The names that are still to be visited.
    fn listing(&mut self) -> &mut Listing;

    /// Whether its `..` is another directory than that of the level above: it was reached through a symbolic link.
    fn is_through_link(&self) -> bool;

    /// Opens it again from what is held open of a level in it.
    ///
    /// # Errors
    /// As [`open_above`](super::open_above).
    fn open_from(&self, inner: &Self::Handles) -> Result<Self::Handles, Self::Error>;
}

/// The levels that a walk is in, from the outermost to the innermost. Its owner enters and leaves them.
#[derive(Debug)]
pub struct Descent<L> {
    levels: Vec<L>,
    /// How many of them are held open.
    open: usize,
}

impl<L: Level> Descent<L> {
    /// No level yet; at least one, and at most so many of them will be held open, and one more for a moment.
    ///
    /// Those above a level that was reached through a symbolic link stay open beyond that: there is no other way back.
    pub fn new(open: usize) -> Descent<L> {
        Descent { levels: Vec::new(), open: open.max(1) }
    }

    /// Goes on in this directory, which was found in the innermost level.
    pub fn enter(&mut self, level: L) {
        self.levels.push(level);
        let Some(far) = self.levels.len().checked_sub(self.open + 1) else { return };
        if self.levels.get(far + 1).is_some_and(|inner| !inner.is_through_link()) {
            let level = &mut self.levels[far];
            *level.handles() = None;
            level.listing().reopened();
        }
    }

    /// Goes back to the level above, which is opened again if it was closed. Gives the level that was left, `None` at the end
    /// of the walk, and why the one above could not be opened: then it stays closed, and so do those above it.
    pub fn leave(&mut self) -> Option<(L, Result<(), L::Error>)> {
        let mut left = self.levels.pop()?;
        let reopened = match (self.levels.last_mut(), left.handles()) {
            (Some(above), Some(inner)) => open_again(above, inner),
            _ => Ok(()),
        };
        Some((left, reopened))
    }

    /// The level that the walk is in.
    #[inline]
    pub fn innermost(&mut self) -> Option<&mut L> {
        self.levels.last_mut()
    }

    /// All levels, the outermost first.
    #[inline]
    pub fn levels(&self) -> &[L] {
        &self.levels
    }

    /// The same, to be changed.
    #[inline]
    pub fn levels_mut(&mut self) -> &mut [L] {
        &mut self.levels
    }
}

fn open_again<L: Level>(level: &mut L, inner: &L::Handles) -> Result<(), L::Error> {
    if level.handles().is_none() {
        let handles = level.open_from(inner)?;
        *level.handles() = Some(handles);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use haul_sys::rustix::fs::FileType;
    use haul_testbed::{TempDir, temp_dir};

    use super::super::{Entered, NotAbove, Operand};
    use super::*;

    /// A level that may have been reached through a link.
    struct Linked(Entered<()>, bool);

    impl Level for Linked {
        type Handles = OwnedFd;
        type Error = NotAbove;

        fn handles(&mut self) -> &mut Option<OwnedFd> {
            self.0.handles()
        }

        fn listing(&mut self) -> &mut Listing {
            self.0.listing()
        }

        fn is_through_link(&self) -> bool {
            self.1
        }

        fn open_from(&self, inner: &OwnedFd) -> Result<OwnedFd, NotAbove> {
            self.0.open_from(inner)
        }
    }

    fn root(path: &Path) -> Entered<()> {
        Entered::open(Operand::open(path.as_os_str()).spot(), false, None, ()).unwrap()
    }

    fn below(level: &Entered<()>, name: &str) -> Entered<()> {
        let path = level.path().joined(OsStr::new(name));
        Entered::open(level.spot(OsStr::new(name), &path), false, Some(level.path()), ()).unwrap()
    }

    /// `d/d/d/...`, with a file beside each directory and in the last one.
    fn deep(depth: usize) -> TempDir {
        let dir = temp_dir();
        let mut path = dir.path().to_owned();
        for _ in 0..depth {
            fs::write(path.join("file"), "").unwrap();
            path.push("d");
            fs::create_dir(&path).unwrap();
        }
        fs::write(path.join("file"), "").unwrap();
        dir
    }

    /// A descent to the end of `d/d/d/...`, so many levels below its root.
    fn down(dir: &Path, depth: usize, open: usize) -> Descent<Entered<()>> {
        let mut descent = Descent::new(open);
        descent.enter(root(dir));
        for _ in 0..depth {
            let next = below(descent.innermost().unwrap(), "d");
            descent.enter(next);
        }
        descent
    }

    fn held(descent: &Descent<Entered<()>>) -> Vec<bool> {
        descent.levels().iter().map(|level| level.dir().is_some()).collect()
    }

    #[test]
    fn any_depth_is_walked_with_few_handles() {
        let dir = deep(30);
        for open in [0, 1, 2, 7, 100] {
            let mut descent = Descent::new(open);
            descent.enter(root(dir.path()));
            let mut met: Vec<OsString> = Vec::new();
            while let Some(level) = descent.innermost() {
                match level.next_name().unwrap() {
                    Some(listed) => {
                        let is_dir = listed.kind == Some(FileType::Directory);
                        let next = is_dir.then(|| below(level, listed.name.to_str().unwrap()));
                        met.push(listed.name);
                        next.into_iter().for_each(|next| descent.enter(next));
                    }
                    None => descent.leave().unwrap().1.unwrap(),
                }
                let held = held(&descent).into_iter().filter(|held| *held).count();
                assert!(held <= open.max(1), "{held} of {open}");
            }
            assert_eq!(met.iter().filter(|name| *name == "file").count(), 31);
            assert_eq!(met.len(), 61);
        }
    }

    #[test]
    fn the_outermost_are_closed_and_opened_again_on_the_way_back() {
        let dir = deep(3);
        let mut descent = down(dir.path(), 3, 2);
        assert_eq!(held(&descent), [false, false, true, true]);
        for left in [vec![false, false, true], vec![false, true], vec![true], vec![]] {
            let (_, reopened) = descent.leave().unwrap();
            assert_eq!((reopened, held(&descent)), (Ok(()), left));
        }
        assert!(descent.leave().is_none());
    }

    #[test]
    fn a_walk_does_not_go_on_where_a_directory_was_moved_to() {
        let dir = deep(4);
        let mut descent = down(dir.path(), 4, 1);
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        fs::rename(dir.path().join("d/d/d"), dir.path().join("elsewhere/d")).unwrap();
        assert_eq!(descent.leave().unwrap().1, Ok(()), "both have moved");
        assert_eq!(descent.leave().unwrap().1, Err(NotAbove::Moved));
        for levels in [2, 1] {
            assert_eq!(held(&descent), vec![false; levels + 1]);
            assert_eq!(descent.innermost().unwrap().next_name(), Ok(None));
            assert_eq!(descent.leave().unwrap().1, Ok(()), "nothing is said of it a second time");
        }
        assert_eq!(held(&descent), [false]);
    }

    #[test]
    fn what_is_above_a_level_behind_a_link_stays_open() {
        let dir = deep(2);
        let mut descent = Descent::new(1);
        let [outer, link] = [root(dir.path()), below(&root(dir.path()), "d")];
        let inner = below(&link, "d");
        for (level, through_link) in [(outer, false), (link, true), (inner, false)] {
            descent.enter(Linked(level, through_link));
        }
        let held: Vec<bool> = descent.levels().iter().map(|level| level.0.dir().is_some()).collect();
        assert_eq!(held, [true, false, true]);
    }
}
