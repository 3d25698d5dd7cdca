//! Which extended attributes are not copied: the rules of `/etc/xattr.conf`.

use std::ffi::CStr;
use std::fmt;

/// Where the rules stand on most systems (attr's own file). Whoever fills a [`XattrRules`] reads it once.
pub const FILE: &str = "/etc/xattr.conf";

/// What happens to an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is copied.
    Copy,
    /// It is copied with the permissions, not with the attributes.
    Permissions,
    /// It is not copied.
    Skip,
}

/// The rules: name patterns and what to do, in order; the first that fits counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrRules(Vec<(Vec<u8>, Action)>);

/// A line of the rules that cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLine(pub usize);

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected a pattern and skip or permissions", self.0)
    }
}

impl std::error::Error for BadLine {}

impl Default for XattrRules {
    /// The rules for a system that has no such file: ACLs go with the permissions; what only a kernel or a cluster
    /// filesystem may write is left out.
    fn default() -> Self {
        let permissions = ["system.nfs4_acl", "system.nfs4acl", "system.posix_acl_access", "system.posix_acl_default"];
        // The layout of a Lustre file belongs to the file; written to another it breaks that.
        let skip = ["trusted.SGI_*", "xfsroot.*", "security.evm", "afs.*", "trusted.lov", "trusted.lma", "lustre.*"];
        let rule = |action| move |pattern: &str| (pattern.as_bytes().to_vec(), action);
        XattrRules(permissions.map(rule(Action::Permissions)).into_iter().chain(skip.map(rule(Action::Skip))).collect())
    }
}

impl XattrRules {
    /// The rules for a file that gets the attributes of another with other contents: also what is said of contents, or
    /// given to them, is left out. The kernel takes it away when a file is written to.
    pub fn for_other_contents() -> XattrRules {
        let mut rules = XattrRules::default();
        ["security.capability", "security.ima"].into_iter().for_each(|name| rules.skip(name));
        rules
    }

    /// Also leaves out what this pattern fits.
    pub fn skip(&mut self, pattern: &str) {
        self.0.insert(0, (pattern.as_bytes().to_vec(), Action::Skip));
    }

    /// Reads the contents of the file. Each line has a pattern and `skip` or `permissions`; `#` begins a comment.
    ///
    /// # Errors
    /// The number of the first line that says something else.
    pub fn parse(text: &[u8]) -> Result<XattrRules, BadLine> {
        let mut rules = Vec::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
            let Some(pattern) = words.next() else { continue };
            let action = match (words.next(), words.next()) {
                (Some(b"skip"), None) => Action::Skip,
                (Some(b"permissions"), None) => Action::Permissions,
                _ => return Err(BadLine(index + 1)),
            };
            rules.push((pattern.to_vec(), action));
        }
        Ok(XattrRules(rules))
    }

    /// What happens to the attribute of this name.
    pub fn action(&self, name: &CStr) -> Action {
        let rule = self.0.iter().find(|(pattern, _)| matches(pattern, name.to_bytes()));
        rule.map_or(Action::Copy, |(_, action)| *action)
    }
}

/// Shell patterns: `*`, `?`, `[...]` with ranges and negation, and a backslash before a plain character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star, should the rest not fit: one byte of the name further each time.
    let mut retry = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p, n));
            p += 1;
            continue;
        }
        match name.get(n) {
            None if p == pattern.len() => return true,
            Some(byte) => {
                if let Some(length) = fits(&pattern[p..], *byte) {
                    p += length;
                    n += 1;
                    continue;
                }
            }
            None => {}
        }
        match retry {
            Some((star, from)) if from < name.len() => {
                retry = Some((star, from + 1));
                p = star + 1;
                n = from + 1;
            }
            _ => return false,
        }
    }
}

/// The length of the pattern's first element if it fits the byte.
fn fits(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match set(pattern, byte) {
            Some((length, true)) => Some(length),
            Some((_, false)) => None,
            // A bracket that is never closed is a plain character.
            None => (byte == b'[').then_some(1),
        },
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        plain => (plain == byte).then_some(1),
    }
}

/// The length of a bracket expression, and whether the byte is in it; `None` if it has no end.
fn set(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    if negated {
        at += 1;
    }
    let first = at;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((at + 1, found != negated));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some(b'-'), Some(high)) if *high != b']' => {
                found |= (low..=*high).contains(&byte);
                at += 3;
            }
            _ => {
                found |= low == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_file_is_understood() {
        let text =
            b"# comment\n\nsystem.nfs4_acl\t\t\tpermissions\n trusted.SGI_DMI_*\tskip  # xfs\nuser.Beagle.* skip#x\n";
        let rules = XattrRules::parse(text).unwrap();
        assert_eq!(rules.action(c"system.nfs4_acl"), Action::Permissions);
        assert_eq!(rules.action(c"trusted.SGI_DMI_X"), Action::Skip);
        assert_eq!(rules.action(c"user.Beagle.a.b"), Action::Skip);
        assert_eq!(rules.action(c"user.Beagle"), Action::Copy);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        assert_eq!(XattrRules::parse(b"a skip\nb\n"), Err(BadLine(2)));
        assert_eq!(XattrRules::parse(b"a copy\n"), Err(BadLine(1)));
        assert_eq!(XattrRules::parse(b"a skip b\n"), Err(BadLine(1)));
    }

    #[test]
    fn patterns_are_those_of_the_shell() {
        for (pattern, name, fit) in [
            ("user.*", "user.", true),
            ("user.*.b", "user.a.b.b", true),
            ("user.*.b", "user.a.b.c", false),
            ("u?er", "user", true),
            ("u?er", "uer", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[a", "[a", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*", "", true),
            ("", "a", false),
            ("**a", "bca", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fit, "{pattern} {name}");
        }
    }

    #[test]
    fn without_a_file_acls_go_with_the_permissions() {
        let rules = XattrRules::default();
        assert_eq!(rules.action(c"system.posix_acl_access"), Action::Permissions);
        assert_eq!(rules.action(c"security.evm"), Action::Skip);
        assert_eq!(rules.action(c"security.capability"), Action::Copy);
    }
}
