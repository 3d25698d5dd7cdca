//! Existing files that were left as the copies of their sources.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use twox_hash::XxHash3_128;

use super::stays::Room;
use crate::links::{DestDir, LinkTable, Made};

/// Which source each of them is the copy of, where it has other names: several sources may find one file. What does not fit into
/// memory goes to a file without a name at the destination.
#[derive(Default)]
pub(crate) struct KeptCopies {
    table: LinkTable,
    room: Room,
}

impl KeptCopies {
    /// Whether the file is the copy of another source under another name, `path`; if it is of none, it is of this one from now on.
    /// `near` is a directory of the destination.
    ///
    /// # Errors
    /// It is not known.
    pub fn is_of_other(&self, file: &Inode, source: &Inode, path: &Path, near: &DestDir) -> Result<bool, Errno> {
        let room = self.room.near(near)?;
        // Short, whatever the path is.
        let name = OsString::from(format!("{:032x}", XxHash3_128::oneshot(path.as_os_str().as_bytes())));
        let this = || Made { dir: room, name: name.clone(), id: Some(source.id) };
        let first = self.table.remember(file.into(), this)?;
        Ok(first.is_some_and(|first| first.id != Some(source.id) && first.name != name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::test_support::Bench;
    use crate::plan::Plan;

    #[test]
    fn a_file_is_the_copy_of_the_first_source_that_finds_it() {
        let bench = Bench::new(Plan::default()).source("a", "").source("b", "").source("x", "").source("y", "");
        let [a, b, x, y] = ["a", "b", "x", "y"].map(|name| bench.from(name).inode().unwrap());
        let (kept, root) = (KeptCopies::default(), bench.root());
        let found = [(x, a, "1"), (x, a, "2"), (x, b, "2"), (y, b, "3"), (y, a, "4"), (x, a, "5")];
        let of_other = found.map(|(file, source, path)| kept.is_of_other(&file, &source, path.as_ref(), &root));
        assert_eq!(of_other, [false, false, true, false, true, false].map(Ok));
        // Another source of the same name.
        assert_eq!(kept.is_of_other(&x, &b, "1".as_ref(), &root), Ok(false));
    }
}
