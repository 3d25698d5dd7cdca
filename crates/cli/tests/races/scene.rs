//! What is copied, what stands at the destination before, and what is swapped.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use haul_testbed::Command;

use crate::attack::Move;
use crate::outside::Outside;

/// The trees, in one directory with what is swapped in.
pub struct Scene {
    pub room: PathBuf,
}

/// How the destination is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// What stands at the name of a file is written into, by cp's rule also through a symbolic link: the attacker gets
    /// only links that lead to nothing.
    Written,
    /// A new file takes the place of the old one, but what a symbolic link leads to is replaced there.
    Replaced,
    /// The old entry goes, whatever it is.
    Removed,
}

impl Scene {
    /// Makes everything anew.
    pub fn lay(&self, outside: &Outside, attacked: &Path, existing: bool) {
        for name in ["s", "d", "park"] {
            remove(&self.room.join(name));
        }
        tree(&self.room.join("s"), "new");
        fs::create_dir(self.room.join("d")).expect("a directory");
        if existing {
            tree(&self.room.join("d/s"), "old");
        }
        self.park(outside, attacked);
    }

    /// Takes something from the source, which then goes from the copy.
    pub fn take_from_source(&self) {
        for name in ["dir/deep", "sub", "many"] {
            remove(&self.room.join("s").join(name));
        }
    }

    /// What is swapped for what is in the tree.
    fn park(&self, outside: &Outside, attacked: &Path) {
        let park = self.room.join("park");
        let secrets = self.room.join("outside");
        fs::create_dir_all(park.join("directory")).expect("a directory");
        fs::write(park.join("directory/a"), "harmless").expect("a file");
        fs::write(park.join("file"), "harmless").expect("a file");
        for (name, to) in
            [("to-dir", ""), ("to-deep", "deep"), ("to-a", "a"), ("to-file", "file0"), ("to-nothing", "not-there")]
        {
            symlink(secrets.join(to), park.join(name)).expect("a link");
        }
        let made = Command::new("mkfifo").arg(park.join("fifo")).status().expect("mkfifo can be run");
        assert!(made.success());
        fs::hard_link(outside.linked(0), park.join("hard")).expect("a link");
        // Its time is that of an old file, so that --update copies over it.
        for number in 0..2 {
            let other = attacked.join(format!("other{number}"));
            if attacked.is_dir() {
                fs::write(other, "harmless").expect("a file");
            }
        }
    }

    /// What is done to the source.
    pub fn source_moves(&self) -> Vec<Move> {
        let (tree, park) = (self.room.join("s"), self.room.join("park"));
        let swap = |inside: &str, parked: &str| Move::Exchange(tree.join(inside), park.join(parked));
        let secrets = self.room.join("outside");
        vec![
            swap("dir", "to-dir"),
            swap("dir/deep", "to-deep"),
            swap("dir/a", "to-a"),
            swap("file0", "to-file"),
            swap("file1", "fifo"),
            swap("file2", "directory"),
            swap("dir/deep/deeper", "file"),
            Move::Exchange(tree.join("dir"), tree.join("sub")),
            Move::Exchange(tree.join("other0"), tree.join("file3")),
            Move::File(tree.join("file4"), secrets.join("file0")),
            Move::Directory(tree.join("empty"), secrets.clone()),
            Move::Away(tree.join("sub/deep"), park.join("away")),
        ]
    }

    /// What is done to the destination.
    pub fn dest_moves(&self, files: Files) -> Vec<Move> {
        let (tree, park) = (self.room.join("d/s"), self.room.join("park"));
        let swap = |inside: &str, parked: &str| Move::Exchange(tree.join(inside), park.join(parked));
        let secrets = self.room.join("outside");
        let mut moves = vec![
            swap("dir", "to-dir"),
            swap("dir/deep", "to-deep"),
            swap("file0", "to-nothing"),
            swap("file1", "fifo"),
            swap("file2", "directory"),
            swap("dir/deep/deeper", "file"),
            Move::Exchange(tree.join("dir"), tree.join("sub")),
            Move::Exchange(tree.join("other0"), tree.join("file3")),
            Move::File(tree.join("file4"), secrets.join("not-there")),
            Move::Directory(tree.join("empty"), secrets.clone()),
            Move::Away(tree.join("sub/deep"), park.join("away")),
        ];
        if files != Files::Written {
            moves.push(swap("file5", "hard"));
        }
        if files == Files::Removed {
            moves.extend([swap("dir/a", "to-a"), Move::File(tree.join("file6"), secrets.join("file1"))]);
        }
        moves
    }
}

fn tree(root: &Path, contents: &str) {
    for dir in ["dir/deep/deeper", "sub/deep/deeper", "empty", "many"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    let files = ["dir/a", "dir/b", "dir/x", "dir/deep/a", "dir/deep/x", "dir/deep/y", "dir/deep/deeper/x", "sub/a"];
    let more = ["sub/deep/a", "sub/deep/x", "sub/deep/deeper/x"];
    for name in files.iter().chain(&more) {
        fs::write(root.join(name), format!("{contents} {name}")).expect("a file");
    }
    for number in 0..8 {
        fs::write(root.join(format!("file{number}")), format!("{contents} {number}")).expect("a file");
        fs::write(root.join(format!("many/{number}")), contents).expect("a file");
    }
}

fn remove(path: &Path) {
    let removed = match fs::symlink_metadata(path) {
        Err(_) => return,
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
