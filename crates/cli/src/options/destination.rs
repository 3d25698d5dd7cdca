//! What DEST means to a command that is run again (`--resume`, `--shard`): the same each time, whatever has come to be there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_copy::plan::Destination;

use super::{Complaint, Draft, misuse};

impl Draft<'_> {
    /// Takes a DEST that can only be a directory for one to copy into, as with `-t`, and refuses one that could be both.
    pub(super) fn settle_destination(&mut self) -> Result<(), Complaint> {
        let Some(path) = self.plan.ambiguous_destination() else { return Ok(()) };
        if names_directory(path) {
            self.plan.destination = Destination::Directory(path.to_owned());
            return Ok(());
        }
        let option = if self.plan.resume { "--resume" } else { "--shard" };
        let before = format!("with {option} the destination must not mean two things: add -T to copy to ");
        let dest = self.quoter.always(path.as_bytes());
        let into = self.quoter.always(&[path.as_bytes(), b"/"].concat());
        Err(misuse([before.as_bytes(), &dest, b" itself, or write ", &into, b" to copy into it"].concat()))
    }
}

/// Whether a path leads to a directory or to nothing.
fn names_directory(path: &OsStr) -> bool {
    matches!(path.as_bytes().rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_ends_in_a_slash_or_dots_is_a_directory() {
        for path in ["d/", "d//", "/", ".", "..", "d/.", "d/..", "./"] {
            assert!(names_directory(OsStr::new(path)), "{path}");
        }
        for path in ["d", "d/e", "d.", "d/...", ".d", "d/.e"] {
            assert!(!names_directory(OsStr::new(path)), "{path}");
        }
    }
}
