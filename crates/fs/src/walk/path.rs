//! Paths of trees of any depth, for messages: each directory knows its name and the one above it, nothing else.
//!
//! Whole paths kept for all levels of a tree would take memory with the square of its depth: 10,000 levels with names of
//! 255 bytes 25 GB.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::operand::without_trailing_slashes;

/// The path of an entry, which shares all but its last name with the paths of others.
#[derive(Debug, PartialEq, Eq)]
pub struct PathNode {
    above: Option<Arc<PathNode>>,
    /// The path as the user wrote it where nothing is above.
    name: OsString,
    /// The length of what stands before the names of entries below this one: its path with one slash at the end.
    prefix: usize,
}

impl Drop for PathNode {
    /// Lets go of the way up step by step: dropped as it is, a chain of a hundred thousand levels would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.above.take();
        while let Some(node) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.above.take());
        }
    }
}

impl PathNode {
    /// A path as the user wrote it.
    pub fn root(path: &Path) -> Arc<PathNode> {
        Arc::new(PathNode { above: None, name: path.into(), prefix: prefix_of(path) })
    }

    /// The path of the entry of this name, which has no slash in it.
    #[must_use]
    pub fn below(self: &Arc<Self>, name: &OsStr) -> Arc<PathNode> {
        let prefix = self.prefix + name.len() + 1;
        Arc::new(PathNode { above: Some(Arc::clone(self)), name: name.to_owned(), prefix })
    }

    /// The whole path.
    pub fn path(&self) -> PathBuf {
        match &self.above {
            Some(above) => above.joined(&self.name),
            None => PathBuf::from(&self.name),
        }
    }

    /// The whole path of an entry below this one.
    pub fn joined(&self, name: &OsStr) -> PathBuf {
        let mut text = Vec::with_capacity(self.prefix + name.len());
        self.write_prefix(&mut text);
        text.extend_from_slice(name.as_bytes());
        PathBuf::from(OsString::from_vec(text))
    }

    /// The path of an entry below this one, from the outermost node on, whose own name is left out.
    pub fn joined_below_root(&self, name: &OsStr) -> PathBuf {
        let mut names = vec![name];
        let mut node = self;
        while let Some(above) = &node.above {
            names.push(&node.name);
            node = above;
        }
        names.into_iter().rev().collect()
    }

    /// Bytes of memory that it takes, without those above.
    #[inline]
    pub fn own_size(&self) -> usize {
        size_of::<PathNode>() + self.name.len()
    }

    /// Writes what stands before the names of entries.
    fn write_prefix(&self, text: &mut Vec<u8>) {
        let mut names = Vec::new();
        let mut node = self;
        while let Some(above) = &node.above {
            names.push(node.name.as_bytes());
            node = above;
        }
        text.clear();
        text.reserve(self.prefix);
        text.extend_from_slice(without_trailing_slashes(&node.name).as_bytes());
        if text.len() < node.prefix {
            text.push(b'/');
        }
        for name in names.into_iter().rev() {
            text.extend_from_slice(name);
            text.push(b'/');
        }
    }
}

/// Whole paths of one entry after the other, in the same memory. Entries of one directory, and a step into a directory or
/// out of it, take only as long as their names.
#[derive(Debug, Default)]
pub struct PathCursor {
    /// What stands before the names of entries of `at`, and the last one that was asked for.
    text: Vec<u8>,
    at: Option<Arc<PathNode>>,
}

impl PathCursor {
    /// The path of an entry of this directory.
    pub fn entry(&mut self, dir: &Arc<PathNode>, name: &OsStr) -> &Path {
        let is = |one: &Option<Arc<PathNode>>| one.as_ref().is_some_and(|one| Arc::ptr_eq(one, dir));
        if !is(&self.at) {
            match &self.at {
                Some(at) if is(&at.above) => {}
                Some(at) if dir.above.as_ref().is_some_and(|above| Arc::ptr_eq(above, at)) => {
                    self.text.truncate(at.prefix);
                    self.text.extend_from_slice(dir.name.as_bytes());
                    self.text.push(b'/');
                }
                _ => dir.write_prefix(&mut self.text),
            }
            self.at = Some(Arc::clone(dir));
        }
        self.text.truncate(dir.prefix);
        self.text.extend_from_slice(name.as_bytes());
        Path::new(OsStr::from_bytes(&self.text))
    }

    /// The path of an entry that is known by its own.
    pub fn of<'a>(&'a mut self, node: &'a PathNode) -> &'a Path {
        match &node.above {
            Some(above) => self.entry(above, &node.name),
            None => Path::new(&node.name),
        }
    }
}

/// The length of what stands before the names of entries of a directory that the user wrote so.
fn prefix_of(path: &Path) -> usize {
    let bare = without_trailing_slashes(path.as_os_str()).as_bytes();
    bare.len() + usize::from(!matches!(bare.last(), None | Some(b'/')))
}

/// The path of an entry from the operand on that it is below, without a slash before it. Both are written as a [`PathNode`]
/// writes them; of the operand itself it is empty.
pub fn path_below<'p>(operand: &Path, path: &'p Path) -> &'p Path {
    let below = path.as_os_str().as_bytes().get(prefix_of(operand)..).unwrap_or_default();
    // Those that the user wrote behind the operand.
    let start = below.iter().take_while(|byte| **byte == b'/').count();
    Path::new(OsStr::from_bytes(&below[start..]))
}

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

    fn node(root: &str, names: &[&str]) -> Arc<PathNode> {
        names.iter().fold(PathNode::root(Path::new(root)), |above, name| above.below(OsStr::new(name)))
    }

    #[test]
    fn paths_are_shown_as_the_user_wrote_their_beginning() {
        for (root, names, path) in [
            ("a", &[][..], "a"),
            ("a//", &[], "a//"),
            ("a//", &["b"], "a/b"),
            ("a", &["b", "c"], "a/b/c"),
            ("/", &["b"], "/b"),
            ("", &["b"], "b"),
            ("../x/.", &["b"], "../x/./b"),
        ] {
            let node = node(root, names);
            assert_eq!(node.path().as_os_str(), path);
            assert_eq!(PathCursor::default().of(&node).as_os_str(), path);
        }
    }

    #[test]
    fn the_part_below_the_operand_does_not_depend_on_how_that_is_written() {
        for (root, names, below) in [
            ("a", &["b", "c"][..], "b/c"),
            ("a//", &["b"], "b"),
            ("/", &["b", "c"], "b/c"),
            ("", &["b"], "b"),
            ("a//", &[], ""),
        ] {
            assert_eq!(path_below(Path::new(root), &node(root, names).path()).as_os_str(), below, "{root}");
        }
    }

    #[test]
    fn a_cursor_shows_whatever_entry_comes_next() {
        let dirs = [node("r/", &[]), node("r/", &["a"]), node("/", &["a", "bb", "ccc"])];
        let deeper = [dirs[0].below(OsStr::new("x")), dirs[1].below(OsStr::new("y")), dirs[2].below(OsStr::new("z"))];
        let all: Vec<_> = dirs.iter().chain(&deeper).collect();
        let mut cursor = PathCursor::default();
        for first in &all {
            for second in &all {
                for dir in [first, second] {
                    let expected = dir.joined(OsStr::new("name"));
                    assert_eq!(cursor.entry(dir, OsStr::new("name")), expected);
                    let expected = dir.path();
                    assert_eq!(cursor.of(dir), expected);
                }
            }
        }
    }

    #[test]
    fn a_chain_of_a_million_levels_can_be_dropped() {
        let mut node = PathNode::root(Path::new("r"));
        for _ in 0..1_000_000 {
            node = node.below(OsStr::new("n"));
        }
        assert_eq!(node.path().as_os_str().len(), 2_000_001);
    }

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
