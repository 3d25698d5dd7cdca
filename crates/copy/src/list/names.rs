//! Names below a source that a user has written down, for a copy of these and no others.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use twox_hash::XxHash3_128;

/// Names below a source. The directories on the way to them belong to them.
#[derive(Clone, PartialEq, Eq)]
pub struct Names {
    /// In the order of a walk: what is in a directory comes right behind it. Each once; no component is empty, `.` or `..`.
    /// Only the first one may be empty, which is the source itself with its contents.
    paths: Vec<OsString>,
    /// A directory that is named stands for all that is in it; otherwise for itself.
    with_contents: bool,
}

/// Why a list of names cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName {
    /// Its place in the list: 1 is the first.
    pub number: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "name {}: {}", self.number, self.why)
    }
}

impl std::error::Error for BadName {}

impl Names {
    /// The names in a text, each of which ends with this byte; the last one need not. Slashes at the beginning of a name, empty
    /// names and `.` where it is a component mean nothing; where rsync cuts the path at `/./`, all of it stays. What is left of
    /// `.` or `/` is the source itself.
    ///
    /// # Errors
    /// The first name with `..` or a zero byte in it.
    pub fn parse(text: &[u8], end: u8, with_contents: bool) -> Result<Names, BadName> {
        let mut paths = Vec::new();
        for (number, name) in text.split(|byte| *byte == end).enumerate() {
            let bad = |why| Err(BadName { number: number + 1, why });
            let parts = || name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, [] | b"."));
            if name.contains(&0) {
                return bad("it has a zero byte in it: -0 reads lists with zero bytes between the names");
            }
            if parts().any(|part| part == b"..") {
                return bad("'..' could lead out of the source");
            }
            let path = parts().collect::<Vec<_>>().join(&b'/');
            // The source itself belongs to the names in any case.
            if !path.is_empty() || with_contents && !name.is_empty() {
                paths.push(OsString::from_vec(path));
            }
        }
        paths.sort_unstable_by(|one, other| parts(one).cmp(parts(other)));
        paths.dedup();
        Ok(Names { paths, with_contents })
    }

    /// Whether a directory that is named stands for all that is in it.
    pub(crate) fn with_contents(&self) -> bool {
        self.with_contents
    }

    /// Whether the source itself is named with all that is in it.
    pub(crate) fn are_everything(&self) -> bool {
        self.paths.first().is_some_and(|path| path.is_empty())
    }

    /// The components of each name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Vec<&OsStr>> {
        self.paths.iter().map(|path| parts(path).collect())
    }

    /// The same for two lists of the same names.
    pub(crate) fn digest_text(&self) -> String {
        let all = self.paths.iter().flat_map(|path| [path.as_bytes(), b"\0"]).collect::<Vec<_>>().concat();
        format!("{:032x}{}", XxHash3_128::oneshot(&all), if self.with_contents { " with contents" } else { "" })
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Names({}, {})", self.paths.len(), self.digest_text())
    }
}

fn parts(path: &OsStr) -> impl Iterator<Item = &OsStr> {
    path.as_bytes().split(|byte| *byte == b'/').map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_below_the_source_in_the_order_of_a_walk() {
        let text = b"b\na-c\n/a/b//c\n./a\n\na/./b/\n.\na-c\n/\nb\xff";
        let names = Names::parse(text, b'\n', false).unwrap();
        let expected: Vec<&[u8]> = vec![b"a", b"a/b", b"a/b/c", b"a-c", b"b", b"b\xff"];
        assert_eq!(names.paths.iter().map(|path| path.as_bytes()).collect::<Vec<_>>(), expected);
        let zeros = Names::parse(b"x\ny\0a b\0", 0, false).unwrap();
        assert_eq!(zeros.paths, ["a b", "x\ny"]);
        assert!(Names::parse(b"", b'\n', false).unwrap().paths.is_empty());
    }

    #[test]
    fn with_contents_a_dot_or_slash_is_the_whole_source() {
        let of = |text: &str, contents| Names::parse(text.as_bytes(), b'\n', contents).unwrap().are_everything();
        for text in [".", "/", "./", "a\n.//.\nb"] {
            assert!(of(text, true) && !of(text, false), "{text}");
        }
        assert!(!of("", true) && !of("\n\na\n", true));
    }

    #[test]
    fn a_name_that_could_lead_out_is_refused() {
        for text in [&b"a\n.."[..], b"a\n../b", b"a\nb/../c", b"a\n/..", b"a\nb\0c"] {
            assert_eq!(Names::parse(text, b'\n', false).unwrap_err().number, 2, "{text:?}");
        }
        assert!(Names::parse(b"..a\na..\n...", b'\n', false).is_ok());
    }

    #[test]
    fn the_digest_is_that_of_what_is_named() {
        let digest = |text: &str, contents| Names::parse(text.as_bytes(), b'\n', contents).unwrap().digest_text();
        assert_eq!(digest("a\nb", false), digest("/b\n./a\nb\n", false));
        assert_ne!(digest("a\nb", false), digest("a\nb", true));
        assert_ne!(digest("a\nb", false), digest("a/b", false));
        assert_ne!(digest("a\nb", false), digest("ab", false));
    }
}
