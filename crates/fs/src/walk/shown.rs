//! Paths for messages, made of others without looking at anything.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::operand::without_trailing_slashes;

/// The path with another last component, for messages. Unlike `Path::with_file_name` it leaves the rest as it is written,
/// `.` and double slashes too.
pub fn renamed(path: &Path, name: &OsStr) -> PathBuf {
    let bytes = without_trailing_slashes(path.as_os_str()).as_bytes();
    let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    PathBuf::from(OsString::from_vec([&bytes[..start], name.as_bytes()].concat()))
}

/// The path of a name in a directory, for messages. Written as cp writes it: with one slash between the two, however
/// many the directory ends in, and `/./` where an absolute path is put below the root.
pub fn joined(dir: &OsStr, name: &OsStr) -> PathBuf {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(without_trailing_slashes(dir).as_bytes());
    match (path.last(), name.as_bytes().first()) {
        (Some(b'/'), Some(b'/')) => path.push(b'.'),
        (None | Some(b'/'), _) | (_, Some(b'/')) => {}
        _ => path.push(b'/'),
    }
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_path_keeps_its_dots() {
        for (path, new) in [("d/./g", "d/./x"), ("g", "x"), ("/g/", "/x"), ("a//b", "a//x")] {
            assert_eq!(renamed(Path::new(path), OsStr::new("x")).as_os_str(), new, "{path}");
        }
    }

    #[test]
    fn names_are_joined_with_one_slash() {
        for (dir, name, path) in [
            ("d", "n", "d/n"),
            ("d//", "n", "d/n"),
            ("/", "n", "/n"),
            ("d", "/n", "d/n"),
            ("/", "/n", "/./n"),
            ("d", "", "d/"),
        ] {
            assert_eq!(joined(OsStr::new(dir), OsStr::new(name)), PathBuf::from(path), "{dir} {name}");
        }
    }
}
