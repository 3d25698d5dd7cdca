//! Operands: the only paths that are resolved as a whole, and each only once.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::CWD;

use super::directory::open_directory;
use super::spot::Spot;

/// A path that the user named, split into an open parent directory and a last component.
#[derive(Debug)]
pub struct Operand {
    parent: Result<Arc<OwnedFd>, Errno>,
    name: OsString,
    path: PathBuf,
}

impl Operand {
    /// Opens the parent directory of the operand.
    ///
    /// Symbolic links in the path are followed: the user named them. A parent that cannot be opened is no error here;
    /// every use of the operand's spot then answers with the errno, as every use of the path would.
    pub fn open(path: &OsStr) -> Operand {
        let (parent, name) = split(path.as_bytes());
        let parent = open_directory(CWD, if parent.is_empty() { &b"."[..] } else { parent }).map(Arc::new);
        Operand { parent, name: OsString::from_vec(name.to_vec()), path: PathBuf::from(path) }
    }

    /// Where it is.
    #[inline]
    pub fn spot(&self) -> Spot<'_> {
        match &self.parent {
            Ok(parent) => Spot::new(parent.as_fd(), &self.name, &self.path),
            Err(errno) => Spot::unreachable(*errno, &self.name, &self.path),
        }
    }

    /// The directory that holds it, if that could be opened.
    #[inline]
    pub fn parent(&self) -> Option<&Arc<OwnedFd>> {
        self.parent.as_ref().ok()
    }

    /// The path as the user wrote it.
    #[inline]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Has a filesystem of the network ask its server for each directory on the way to `path`, and for what is there, so that the
/// next look at it finds what other machines have made, removed or exchanged: for up to a minute (acdirmax in nfs(5)) this
/// one would go by what it remembers, also that there is nothing of a name. A name is asked for again once its directory has
/// another change attribute.
pub fn ask_server_again(path: &Path) {
    let ancestors: Vec<&Path> = path.ancestors().collect();
    for path in ancestors.into_iter().rev() {
        // Of a relative path the last one is empty.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // What is wrong there whoever looks will meet.
        if Inode::now_at(CWD, path.as_os_str(), true).is_err() {
            break;
        }
    }
}

/// Splits after the slash before the last component. Trailing slashes stay with the component, since the kernel gives
/// them a meaning: a directory is wanted, and a symbolic link is followed. A path of slashes only is `.` in the root.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    if end == 0 && !path.is_empty() {
        return (b"/", b".");
    }
    match path[..end].iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..=slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The path without trailing slashes, but for a path that has nothing else, which keeps one.
pub fn without_trailing_slashes(path: &OsStr) -> &OsStr {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(bytes.len().min(1), |last| last + 1);
    OsStr::from_bytes(&bytes[..end])
}

/// The last component, without trailing slashes; empty if the path has none.
pub fn last_component(path: &OsStr) -> &OsStr {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let start = bytes[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    OsStr::from_bytes(&bytes[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_before_the_last_component() {
        for (path, parent, name) in [
            ("a", "", "a"),
            ("a/b", "a/", "b"),
            ("a/b//", "a/", "b//"),
            ("a//b", "a//", "b"),
            ("/", "/", "."),
            ("//", "/", "."),
            ("/a", "/", "a"),
            ("a/", "", "a/"),
            ("..", "", ".."),
            ("", "", ""),
        ] {
            assert_eq!(split(path.as_bytes()), (parent.as_bytes(), name.as_bytes()), "{path}");
        }
    }

    #[test]
    fn trailing_slashes_go_but_the_root_stays() {
        for (path, bare, last) in
            [("a//", "a", "a"), ("//", "/", ""), ("x/a/", "x/a", "a"), ("", "", ""), ("a", "a", "a")]
        {
            assert_eq!(without_trailing_slashes(OsStr::new(path)), bare, "{path}");
            assert_eq!(last_component(OsStr::new(path)), last, "{path}");
        }
    }
}
