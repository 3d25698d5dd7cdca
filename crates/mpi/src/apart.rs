//! `--each`: whether all ranks have destinations of their own. Each makes a file in the directory that its copy goes into,
//! and looks for the files of the others there.

use std::path::Path;

use crate::at_work::probe;
use crate::directory::Directory;

/// The file of this rank, which goes when this is dropped.
#[derive(Debug)]
pub struct Mark {
    directory: Option<Directory>,
    secret: String,
    rank: usize,
    is_made: bool,
}

impl Mark {
    /// Makes it. What cannot be opened, or made, the copy reports.
    pub fn make(dir: &Path, secret: &str, rank: usize) -> Mark {
        let directory = Directory::open(dir).ok();
        let name = name(secret, rank);
        let is_made = directory.as_ref().is_some_and(|directory| {
            // Closed at once: what others are to see is the name.
            directory.keeping_times(|| directory.create(&name).is_ok())
        });
        Mark { directory, secret: secret.to_owned(), rank, is_made }
    }

    /// Whether the others can see it.
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Its name, for the next job.
    pub fn name(&self) -> String {
        name(&self.secret, self.rank)
    }

    /// The first other rank of so many whose file is here.
    pub fn sees(&self, ranks: usize) -> Option<usize> {
        let directory = self.directory.as_ref()?;
        // Nobody has asked for these names before, so no machine remembers that they are not there.
        (0..ranks).find(|rank| *rank != self.rank && directory.look(&name(&self.secret, *rank)).is_ok())
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.as_ref().filter(|_| self.is_made) {
            // What cannot be removed is empty, and its name says whose it is.
            directory.keeping_times(|| directory.remove(&self.name()).ok());
        }
    }
}

fn name(secret: &str, rank: usize) -> String {
    probe(&format!("{secret}{rank:08x}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn ranks_in_one_directory_see_each_other_and_leave_nothing() {
        let (dir, other) = (temp_dir(), temp_dir());
        let before = fs::metadata(dir.path()).unwrap().modified().unwrap();
        let marks = [0, 2].map(|rank| Mark::make(dir.path(), "secret", rank));
        let apart = Mark::make(other.path(), "secret", 1);
        assert_eq!(marks.each_ref().map(|mark| mark.sees(3)), [Some(2), Some(0)]);
        assert_eq!((apart.sees(3), apart.is_made()), (None, true));
        drop(marks);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(fs::metadata(dir.path()).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn a_directory_that_is_not_there_is_for_the_copy_to_report() {
        let dir = temp_dir();
        let mark = Mark::make(&dir.path().join("missing"), "secret", 0);
        assert_eq!((mark.sees(5), mark.is_made()), (None, false));
    }
}
