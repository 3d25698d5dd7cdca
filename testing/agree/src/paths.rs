//! Paths of command lines as paths of snapshots.

use crate::snapshot::{Item, Snapshot};
use crate::stage::Call;

/// So many links are followed at most.
const MOST_LINKS: usize = 40;

/// The sources of a command line, and where they go; options that take a word of their own but `-t` are not expected.
pub(crate) fn operands(call: &Call) -> (Vec<&[u8]>, Option<&[u8]>) {
    const LONG: &[u8] = b"--target-directory=";
    let (mut operands, mut target): (Vec<&[u8]>, Option<&[u8]>) = (Vec::new(), None);
    let below = |word: &'_ [u8]| -> usize { if word.starts_with(b"@/") { 2 } else { 0 } };
    for (at, word) in call.argv.iter().enumerate() {
        let path = &word[below(word)..];
        match word.strip_prefix(LONG) {
            Some(word) => target = Some(&word[below(word)..]),
            None if at > 0 && call.argv[at - 1] == b"-t" => target = Some(path),
            None if word.starts_with(b"-") => {}
            None => operands.push(path),
        }
    }
    let target = target.or_else(|| operands.pop());
    (operands, target)
}

/// Whether a path is that of a directory, or below it; all are below the one without a name.
pub(crate) fn within(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The path of an entry in a snapshot, with all links on the way followed but for the last one; none if it leads out of it.
pub(crate) fn resolved(path: &[u8], tree: &Snapshot) -> Option<Vec<u8>> {
    followed(&whole(path)?, |path| tree.get(path))
}

/// The same of a path as the snapshots begin it.
pub(crate) fn followed<'t>(path: &[u8], find: impl Fn(&Vec<u8>) -> Option<&'t Item>) -> Option<Vec<u8>> {
    let mut waiting: Vec<Vec<u8>> = components(path);
    waiting.reverse();
    let (mut at, mut links): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
    while let Some(name) = waiting.pop() {
        if name == b".." {
            at.pop()?;
            continue;
        }
        at.push(name);
        let joined = at.join(&b'/');
        let Some(item) = find(&joined).filter(|item| item.kind == 'l' && !waiting.is_empty()) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        at.pop();
        if item.contents.first() == Some(&b'/') {
            at.clear();
        }
        let target = if at.is_empty() { whole(&item.contents)? } else { item.contents.clone() };
        waiting.extend(components(&target).into_iter().rev());
    }
    Some(at.join(&b'/'))
}

/// Where a link leads; none if that is nowhere.
pub(crate) fn behind(path: &[u8], link: &Item, tree: &Snapshot) -> Option<Vec<u8>> {
    let (mut path, mut link) = (path.to_vec(), link);
    for _ in 0..MOST_LINKS {
        let dir = path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |at| &path[..at]);
        let target = match link.contents.first() {
            Some(b'/') => whole(&link.contents)?,
            _ => [dir, b"/", &link.contents].concat(),
        };
        path = followed(&target, |path| tree.get(path))?;
        match tree.get(&path) {
            Some(item) if item.kind == 'l' => link = item,
            _ => return Some(path),
        }
    }
    None
}

/// A path as the snapshots begin it: below the directory of the work, whether it was relative to that or absolute.
pub(crate) fn whole(path: &[u8]) -> Option<Vec<u8>> {
    const WORK: &[u8] = b"/outer/";
    if path.first() != Some(&b'/') {
        return Some([b"work/", path].concat());
    }
    let at = path.windows(WORK.len()).position(|window| window == WORK)?;
    Some(path[at + WORK.len()..].to_vec())
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::snapshot::Stamp;

    #[test]
    fn links_that_lead_to_each_other_lead_nowhere() {
        let link = |target: &str| Item {
            kind: 'l',
            mode: 0o777,
            uid: 0,
            gid: 0,
            device: 0,
            size: 0,
            blocks: 0,
            contents: target.into(),
            xattrs: BTreeMap::new(),
            mtime: Stamp::Now,
            atime: Stamp::Now,
            links: 1,
            first_name: Vec::new(),
        };
        let names = [("work/a", "b"), ("work/b", "a"), ("work/c", "c/x"), ("work/d", "e")];
        let tree: Snapshot = names.iter().map(|(name, target)| (name.as_bytes().to_vec(), link(target))).collect();
        let of = |name: &[u8]| behind(name, &tree[name], &tree).map(|path| String::from_utf8_lossy(&path).into_owned());
        assert_eq!([of(b"work/a"), of(b"work/c")], [None, None]);
        assert_eq!(of(b"work/d").as_deref(), Some("work/e"));
    }

    #[test]
    fn paths_are_those_of_the_snapshot() {
        let tree = Snapshot::new();
        let path = |path: &[u8]| resolved(path, &tree).map(|path| String::from_utf8_lossy(&path).into_owned());
        assert_eq!(path(b"./d//x").as_deref(), Some("work/d/x"));
        assert_eq!(path(b"s/../d/.").as_deref(), Some("work/d"));
        assert_eq!(path(b"/tmp/a/outer/work/d").as_deref(), Some("work/d"));
        assert_eq!(path(b"/etc/passwd"), None);
    }
}
