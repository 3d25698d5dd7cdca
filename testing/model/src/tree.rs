//! A tree that is nowhere: what is in a directory is a function of its number, so any part of it can be had at any time.

use crate::config::Config;
use crate::sizes::{Sizes, mix};

/// The tree that a configuration describes. It has exactly the files that were asked for.
#[derive(Debug)]
pub struct Tree {
    files_per_directory: u64,
    skew: f64,
    sizes: Sizes,
    root: Dir,
}

/// A directory. Its names are the numbers below [`Dir::names`], in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dir {
    /// A number that no other directory has, but by chance.
    pub id: u64,
    /// Directories above it.
    pub depth: u32,
    /// Regular files in it, without large ones.
    pub files: u64,
    /// Directories in it.
    pub directories: u64,
    /// Large files in it.
    pub large: u64,
    /// Levels that may still be below.
    levels: u32,
    /// Files in all directories below it.
    files_below: u64,
    large_below: u64,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// A regular file.
    File,
    /// The directory of this number in its parent.
    Directory(u64),
    /// A large file.
    Large,
}

impl Tree {
    /// The tree of the configuration.
    pub fn new(config: &Config) -> Tree {
        let levels = u32::try_from(config.depth).unwrap_or(u32::MAX);
        let (files, large) = (config.files, config.large_files);
        let root = directory(mix(config.seed), 0, levels, (files, large), config.files_per_directory);
        Tree { files_per_directory: config.files_per_directory, skew: config.skew, sizes: Sizes::new(config), root }
    }

    /// The directory that is copied.
    pub fn root(&self) -> Dir {
        self.root
    }

    /// The directory number `index` in `parent`.
    pub fn child(&self, parent: &Dir, index: u64) -> Dir {
        let id = mix(parent.id.wrapping_add(mix(index + 1)));
        let files = self.files_in_child(parent, index);
        let large = share(parent.large_below, index, parent.directories);
        directory(id, parent.depth + 1, parent.levels - 1, (files, large), self.files_per_directory)
    }

    /// Two neighbours have together what two equal ones would have.
    fn files_in_child(&self, parent: &Dir, index: u64) -> u64 {
        let equal = |index| share(parent.files_below, index, parent.directories);
        let other = index ^ 1;
        if other >= parent.directories {
            return equal(index);
        }
        let least = equal(index).min(equal(other));
        let chance = mix(parent.id ^ mix(index / 2)) as f64 / u64::MAX as f64;
        let moved = (least as f64 * self.skew * chance) as u64;
        if index.is_multiple_of(2) { equal(index) - moved } else { equal(index) + moved }
    }

    /// Bytes of the regular files among the names `from..to`, which must be regular files all, and how many are not empty.
    pub fn bytes(&self, dir: &Dir, from: u64, to: u64) -> (u64, u64) {
        let special = dir.specials_before(from);
        self.sizes.total(dir.id, from - special, to - special)
    }
}

fn directory(id: u64, depth: u32, levels: u32, (files, large): (u64, u64), most: u64) -> Dir {
    let mut dir = Dir { id, depth, files, directories: 0, large, levels, files_below: 0, large_below: 0 };
    if levels == 0 || files <= most {
        return dir;
    }
    dir.files = most;
    dir.files_below = files - most;
    dir.large = 0;
    dir.large_below = large;
    let wanted = dir.files_below as f64 / most as f64;
    dir.directories = (wanted.powf(1.0 / f64::from(levels)).ceil() as u64).clamp(1, dir.files_below);
    dir
}

/// The part number `index` of `count` nearly equal ones.
fn share(total: u64, index: u64, count: u64) -> u64 {
    scaled(total, index + 1, count) - scaled(total, index, count)
}

/// `total * numerator / denominator`, rounded down.
fn scaled(total: u64, numerator: u64, denominator: u64) -> u64 {
    (u128::from(total) * u128::from(numerator) / u128::from(denominator)) as u64
}

impl Dir {
    /// How many names it has.
    pub fn names(&self) -> u64 {
        self.files + self.specials()
    }

    fn specials(&self) -> u64 {
        self.directories + self.large
    }

    /// Directories and large files are spread evenly between the regular files.
    fn specials_before(&self, name: u64) -> u64 {
        if self.names() == 0 { 0 } else { scaled(self.specials(), name, self.names()) }
    }

    /// What the name stands for.
    pub fn name(&self, name: u64) -> Name {
        let special = self.specials_before(name);
        if self.specials_before(name + 1) == special {
            return Name::File;
        }
        let before = scaled(self.directories, special, self.specials());
        let is_directory = scaled(self.directories, special + 1, self.specials()) > before;
        if is_directory { Name::Directory(before) } else { Name::Large }
    }

    /// The first name from this one on that is no regular file; [`Dir::names`] if there is none.
    pub(crate) fn next_special(&self, name: u64) -> u64 {
        let next = self.specials_before(name) + 1;
        if next > self.specials() {
            return self.names();
        }
        let names = u128::from(self.names()) * u128::from(next);
        (names.div_ceil(u128::from(self.specials())) - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories, files, large files and bytes below, by looking at every name.
    fn count(tree: &Tree, dir: &Dir) -> [u64; 4] {
        let mut found = [1, 0, 0, 0];
        for name in 0..dir.names() {
            match dir.name(name) {
                Name::File => {
                    assert!(dir.next_special(name) > name);
                    found[1] += 1;
                    found[3] += tree.bytes(dir, name, name + 1).0;
                }
                Name::Large => found[2] += 1,
                Name::Directory(index) => {
                    let below = count(tree, &tree.child(dir, index));
                    (0..4).for_each(|i| found[i] += below[i]);
                }
            }
            if dir.name(name) != Name::File {
                assert_eq!(dir.next_special(name), name);
            }
        }
        found
    }

    #[test]
    fn a_tree_has_what_was_asked_for() {
        for (files, per_directory, depth, large, skew) in [
            (0, 10, 3, 0, 0.5),
            (0, 10, 3, 5, 0.5),
            (1, 10, 3, 0, 0.5),
            (10_000, 10, 3, 7, 0.9),
            (10_000, 100, 0, 3, 0.0),
            (12_345, 1, 5, 1000, 0.99),
            (5_000, 7, 1, 0, 0.5),
        ] {
            let config = Config {
                files,
                files_per_directory: per_directory,
                depth,
                large_files: large,
                skew,
                sizes: vec![3],
                ..Config::default()
            };
            let tree = Tree::new(&config);
            let [directories, found, found_large, bytes] = count(&tree, &tree.root());
            assert_eq!((found, found_large, bytes), (files, large, files * 3), "{config:?}");
            assert!(directories >= 1);
        }
    }

    #[test]
    fn directories_have_about_as_many_files_as_asked_for() {
        let config = Config { files: 100_000, files_per_directory: 50, depth: 3, ..Config::default() };
        let tree = Tree::new(&config);
        let [directories, ..] = count(&tree, &tree.root());
        assert!((2_000..5_000).contains(&directories), "{directories}");
    }
}
