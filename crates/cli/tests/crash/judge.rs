//! What a crash may leave behind, and what not.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_agree::snapshot::{self, Item, Snapshot};

/// The beginning of names that are not final.
const TEMPORARY: &[u8] = b".haul-";

/// All that can be seen of a tree.
///
/// # Errors
/// If something of it cannot be read.
pub fn look(root: &Path) -> io::Result<Snapshot> {
    // No time of the scene is after this start, so that all of them are compared.
    snapshot::take(root, SystemTime::now() + Duration::from_secs(1 << 30))
}

/// What stands at the names of a destination, by comparison with what stood there before and with the source.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Names that are as before, also those that were not there and are not there.
    pub old: usize,
    /// Names that hold the whole new contents.
    pub new: usize,
    /// Names of the new tree that are not there yet, and were not before.
    pub absent: Vec<String>,
    /// Names of the new tree that were there and are not.
    pub missing: Vec<String>,
    /// Names that only the older tree has and that are not there.
    pub gone: Vec<String>,
    /// Names that hold neither the old nor the whole new contents.
    pub torn: Vec<String>,
    /// Names that neither tree has, but for temporary ones.
    pub strange: Vec<String>,
    /// Temporary names.
    pub temporary: Vec<String>,
    /// Names with the new contents and other attributes than the new ones.
    pub unlike: Vec<String>,
    /// Those of them that are no directories, and differ in more than what belongs to several names of one file: a
    /// directory is finished when all in it is, a file before it has its name.
    pub unfinished: Vec<String>,
}

impl Verdict {
    /// Judges what was found by what was before, and what should be in the end.
    pub fn new(found: &Snapshot, before: &Snapshot, source: &Snapshot) -> Verdict {
        let mut verdict = Verdict::default();
        let names: BTreeSet<&Vec<u8>> = before.keys().chain(source.keys()).collect();
        for name in &names {
            verdict.judge(name, found.get(*name), before.get(*name), source.get(*name));
        }
        for name in found.keys().filter(|name| !names.contains(name)) {
            if name.split(|byte| *byte == b'/').any(|part| part.starts_with(TEMPORARY)) {
                verdict.temporary.push(text(name));
            } else {
                verdict.strange.push(text(name));
            }
        }
        verdict
    }

    fn judge(&mut self, name: &[u8], found: Option<&Item>, before: Option<&Item>, source: Option<&Item>) {
        match (found, before, source) {
            (None, None, _) => self.absent.push(text(name)),
            (None, Some(_), Some(_)) => self.missing.push(text(name)),
            (None, Some(_), None) => self.gone.push(text(name)),
            (Some(found), _, Some(source)) if same_contents(found, source) => {
                self.new += 1;
                let words = || format!("{}: {} instead of {}", text(name), line(found), line(source));
                if !same_attributes(found, source) {
                    self.unlike.push(words());
                }
                if found.kind != 'd' && !same_own_attributes(found, source) {
                    self.unfinished.push(words());
                }
            }
            (Some(found), Some(before), _) if same_contents(found, before) => self.old += 1,
            (Some(found), _, _) => self.torn.push(format!("{}: {}", text(name), line(found))),
        }
    }

    /// Why this is not what an atomic copy leaves at any moment: each name as before, or whole with all attributes.
    pub fn against_old_or_new(&self) -> Option<String> {
        objections(&[
            ("missing", &self.missing),
            ("gone", &self.gone),
            ("neither old nor new", &self.torn),
            ("strange", &self.strange),
            ("new with other attributes", &self.unfinished),
        ])
    }

    /// Why this is not what a copy leaves that replaces names, and lets their contents come later.
    pub fn against_missing(&self) -> Option<String> {
        objections(&[("missing", &self.missing), ("gone", &self.gone), ("strange", &self.strange)])
    }

    /// Why this is not what a copy leaves that also deletes: what the source has stays, and if the copy is `atomic`, each name
    /// of the source is as before or new, and nothing is gone before all are new. `only_old` names have only the older tree.
    pub fn against_deletion(&self, only_old: usize, atomic: bool) -> Option<String> {
        let torn: &[String] = if atomic { &self.torn } else { &[] };
        let unfinished: &[String] = if atomic { &self.unfinished } else { &[] };
        let too_early = atomic && (!self.absent.is_empty() || self.old + self.gone.len() != only_old);
        let gone: &[String] = if too_early { &self.gone } else { &[] };
        objections(&[
            ("missing", &self.missing),
            ("neither old nor new", torn),
            ("strange", &self.strange),
            ("new with other attributes", unfinished),
            ("gone before all is copied", gone),
        ])
    }

    /// Why this is not the new tree in the place of the old one, with all attributes; `clean` if no temporary name may be left.
    pub fn against_complete(&self, untouched: usize, clean: bool) -> Option<String> {
        let temporary: &[String] = if clean { &self.temporary } else { &[] };
        let mut said = objections(&[
            ("missing", &self.missing),
            ("not there", &self.absent),
            ("neither old nor new", &self.torn),
            ("strange", &self.strange),
            ("with other attributes", &self.unlike),
            ("temporary", temporary),
        ])
        .unwrap_or_default();
        if self.old != untouched {
            writeln!(said, "{} names are old instead of {untouched}", self.old).expect("a string takes everything");
        }
        (!said.is_empty()).then_some(said)
    }

    /// Names that are not as they must be when the copy is done.
    pub fn lost(&self, untouched: usize) -> usize {
        self.old.abs_diff(untouched) + self.absent.len() + self.missing.len() + self.torn.len()
    }
}

/// How many names an older tree has that the new one leaves alone.
pub fn untouched(before: &Snapshot, source: &Snapshot) -> usize {
    before.keys().filter(|name| !source.contains_key(*name)).count()
}

/// Whether nobody has changed anything in a tree.
pub fn unchanged(now: &Snapshot, then: &Snapshot) -> bool {
    now.keys().eq(then.keys())
        && now.iter().all(|(name, item)| same_contents(item, &then[name]))
        && now.iter().all(|(name, item)| same_attributes(item, &then[name]))
}

fn same_contents(a: &Item, b: &Item) -> bool {
    (a.kind, a.size, a.device, &a.contents) == (b.kind, b.size, b.device, &b.contents)
}

/// All but what a copy cannot or does not keep: the time of the last access, and how many blocks are in use.
fn same_attributes(a: &Item, b: &Item) -> bool {
    same_own_attributes(a, b) && (a.links, &a.first_name) == (b.links, &b.first_name)
}

/// The same, but for what depends on other names of the file.
fn same_own_attributes(a: &Item, b: &Item) -> bool {
    (a.mode, a.uid, a.gid, a.mtime, &a.xattrs) == (b.mode, b.uid, b.gid, b.mtime, &b.xattrs)
}

fn objections(lists: &[(&str, &[String])]) -> Option<String> {
    let mut said = String::new();
    for (what, names) in lists.iter().filter(|(_, names)| !names.is_empty()) {
        let shown: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
        writeln!(said, "{} {what}: {}", names.len(), shown.join(", ")).expect("a string takes everything");
    }
    (!said.is_empty()).then_some(said)
}

fn line(item: &Item) -> String {
    format!(
        "{} {:o} {}:{} {} bytes, {:?}, {} links ({}), {} attributes",
        item.kind,
        item.mode,
        item.uid,
        item.gid,
        item.size,
        item.mtime,
        item.links,
        text(&item.first_name),
        item.xattrs.len()
    )
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
