//! Copying only what a list names: all of it, or the part of one shard.
//!
//! The walk goes by the list instead of the directories' own names, so a shard does not read directories in which it has
//! nothing to do. Everything else is as in any other copy.

use std::borrow::Cow;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, Inode, Kind};
use haul_sys::rustix::fs::{FileType, OFlags};

use crate::decide::Wanted;
use crate::error::{Error, What};
use crate::events::{Event, Observer};
use crate::list::{Assignment, Entry, FileList, Index, Shard};
use crate::plan::{LinkMode, Plan};
use crate::report::Session;
use crate::sources::operands::{excluded_operands, operand_inode, ways_up};
use crate::sources::survey::{self, root_of};
use crate::stats::Stats;
use crate::walk::{Listed, Operand, open_directory};

/// What is to be copied.
pub(crate) struct Selection {
    pub list: Arc<FileList>,
    /// How it is divided, if it is.
    pub shards: Option<(Shard, Assignment)>,
    /// The entries of the operands, if there is anything to do in them.
    pub roots: Vec<Option<Index>>,
    /// The first entry in each directory in which there is something to do, and the next one beside each; 0 if there is none,
    /// since that is the number of an operand.
    pub first: Vec<Index>,
    pub next: Vec<Index>,
    /// What was found out before anything was copied: what the filter has said of the entries, and names that are not there.
    pub filtered: Stats,
    /// So many of the errors there are names that lead to nothing.
    pub missing: u64,
}

impl Selection {
    fn new(list: Arc<FileList>, shards: Option<(Shard, Assignment)>) -> Selection {
        let mut first = vec![0; list.len()];
        let mut next = vec![0; list.len()];
        let all = Index::try_from(list.len()).unwrap_or(Index::MAX);
        let mut wanted_roots = HashSet::new();
        // What is in a directory comes behind it, so it is known here when the directory is met.
        for at in (0..all).rev() {
            if !is_own(&shards, at) && first[at as usize] == 0 {
                continue;
            }
            match list.parent(at) {
                Some(parent) => next[at as usize] = std::mem::replace(&mut first[parent as usize], at),
                None => {
                    wanted_roots.insert(at);
                }
            }
        }
        let roots = list.operands().map(|(_, _, root)| root.filter(|root| wanted_roots.contains(root))).collect();
        Selection { list, shards, roots, first, next, filtered: Stats::default(), missing: 0 }
    }

    /// How many entries the plan has to copy, and the bytes of their regular files.
    pub(crate) fn totals(&self, plan: &Plan) -> (u64, u64) {
        let (mut entries, mut bytes, mut linked) = (0, 0_u64, HashSet::new());
        for at in 0..Index::try_from(self.list.len()).unwrap_or(Index::MAX) {
            let Entry { kind, size, id, .. } = self.list.entry(at);
            let own = is_own(&self.shards, at);
            // A shard makes the directories above its entries, too.
            entries += u64::from(own || self.first[at as usize] != 0);
            if !own {
                continue;
            }
            let known = plan.preserve.links && id.is_some_and(|id| !linked.insert(id));
            if kind == Kind::Regular && plan.link == LinkMode::Copy && !known {
                bytes = bytes.saturating_add(size);
            }
        }
        (entries, bytes)
    }

    /// So many entries from one on that are in the same directory, and the one behind them.
    pub(crate) fn beside(&self, start: Index, most: usize) -> (Vec<Listed>, Option<Index>) {
        let mut found = Vec::new();
        let mut at = start;
        while at != 0 && found.len() < most {
            let kind = match self.list.kind(at) {
                Kind::Regular => Some(FileType::RegularFile),
                Kind::Directory => Some(FileType::Directory),
                _ => None,
            };
            found.push(Listed { name: self.list.name(at).to_owned(), kind, entry: Some(at), made: None });
            at = self.next[at as usize];
        }
        (found, Some(at).filter(|at| *at != 0))
    }
}

/// Whether an entry is of this shard, if there are shards.
fn is_own(shards: &Option<(Shard, Assignment)>, at: Index) -> bool {
    shards.as_ref().is_none_or(|(shard, split)| split.shard_of(at) == shard.index())
}

/// What the plan wants of a list; `None` if it wants everything; else how many errors there were. Nothing is written before
/// that is known. The `first` of several processes looks whether the list fits, and tells; the others have the same list.
pub(crate) fn prepare(plan: &Plan, session: &Session<'_>, first: bool) -> Result<Option<Selection>, u64> {
    let excluded = excluded_operands(plan);
    if plan.list.is_none() && plan.names.is_none() && plan.shard.is_none() && excluded.is_empty() {
        return Ok(None);
    }
    if plan.names.is_some()
        && let Some(error) = no_directory(plan)
    {
        if first {
            session.observer.event(&Event::Problem(Cow::Owned(error)));
        }
        return Err(1);
    }
    let mut errors = 0;
    let mut tell = |error: Error| {
        errors += 1;
        if first {
            session.observer.event(&Event::Problem(Cow::Borrowed(&error)));
        }
    };
    if let Some(what) = plan.against_lists().filter(|_| excluded.is_empty()) {
        tell(Error::new(What::NotByList, "").detail(what));
        return Err(errors);
    }
    let objections = match plan.list.as_ref() {
        _ if !excluded.is_empty() => excluded,
        Some(list) if first => misfits(plan, list),
        _ => Vec::new(),
    };
    if !objections.is_empty() {
        objections.into_iter().for_each(tell);
        return Err(errors);
    }
    if plan.shard.is_some()
        && let Some(error) = into_itself(plan).or_else(|| same_names(plan))
    {
        tell(error);
        return Err(errors);
    }
    let (mut filtered, mut missing) = (Stats::default(), 0);
    let list = match &plan.list {
        // What was found under names was chosen then.
        Some(list) if plan.filter.is_some() && plan.names.is_none() => Arc::new(chosen(list, plan, &mut filtered)),
        Some(list) => Arc::clone(list),
        None => {
            // One of several processes reports for all; the shard of a directory that cannot be read reports it.
            let silent = Session { observer: &Silent, ..session.clone() };
            let survey = survey::walk(plan, if first { session } else { &silent }, false);
            let reported = |count| if first { count } else { 0 };
            missing = reported(survey.missing);
            let (list, found) = survey.settle(plan).map_err(reported)?;
            filtered = Stats { errors: reported(found.errors), ..found };
            if session.cancel.is_cancelled() {
                return Err(filtered.errors);
            }
            list
        }
    };
    let shards = plan.shard.map(|shard| (shard, crate::list::split(&list, shard.count())));
    // All of them have met the same: one counts it, and all know which rules have decided.
    if plan.shard.is_some_and(|shard| shard.index() > 0) || !first {
        filtered.excluded = 0;
    }
    Ok(Some(Selection { filtered, missing, ..Selection::new(list, shards) }))
}

/// Names are below a directory.
fn no_directory(plan: &Plan) -> Option<Error> {
    let [source] = plan.sources.as_slice() else { return None };
    let inode = operand_inode(Operand::open(source).spot(), plan).ok()?;
    (inode.kind != Kind::Directory).then(|| Error::new(What::CannotAccess, source).errno(Errno::NOTDIR))
}

/// Hears of what the first process reports.
struct Silent;

impl Observer for Silent {
    fn event(&self, _: &Event<'_>) {}
}

/// What the filter leaves of a list, whose entries are as they were when it was made.
fn chosen(list: &FileList, plan: &Plan, filtered: &mut Stats) -> FileList {
    let wanted = Wanted::new(plan, &[]);
    let mut left = FileList::default();
    let mut operands = list.operands();
    // The number that each entry has in what is left.
    let mut numbers: Vec<Option<Index>> = Vec::with_capacity(list.len());
    for at in 0..Index::try_from(list.len()).unwrap_or(Index::MAX) {
        let Entry { kind, size, modified, .. } = list.entry(at);
        let added = match list.parent(at) {
            None => {
                // Operands that were not there have no entry.
                for (path, root, first) in operands.by_ref() {
                    left.add_operand(path, root);
                    if first == Some(at) {
                        break;
                    }
                }
                left.add_root(&list.entry(at)).ok()
            }
            Some(parent) => numbers[parent as usize].and_then(|above| {
                let inode = Inode { kind, size, modified, ..Inode::just_made(DeviceNumber { major: 0, minor: 0 }) };
                let path = || list.names_to(at).into_iter().collect::<PathBuf>();
                let verdict = wanted.below(&inode, list.name(at), path);
                filtered.count_verdict(verdict);
                (!verdict.excluded).then(|| left.add(above, list.name(at), &list.entry(at)).ok()).flatten()
            }),
        };
        numbers.push(added);
    }
    operands.for_each(|(path, root, _)| left.add_operand(path, root));
    left
}

/// Why a list is not one of these sources.
fn misfits(plan: &Plan, list: &FileList) -> Vec<Error> {
    let error = |path: &std::ffi::OsStr, detail: String| Error::new(What::OtherSources, path).detail(detail);
    if list.operands().len() != plan.sources.len() {
        let first = plan.sources.first().cloned().unwrap_or_default();
        let (listed, given) = (list.operands().len(), plan.sources.len());
        return vec![error(&first, format!("it is of {listed} sources, and {given} are given"))];
    }
    let mut found = Vec::new();
    for (source, (path, root, entry)) in plan.sources.iter().zip(list.operands()) {
        let operand = Operand::open(source);
        let now = match operand_inode(operand.spot(), plan) {
            Ok(inode) => inode,
            Err(errno) => {
                found.push(Error::new(What::CannotStat, source).errno(errno));
                continue;
            }
        };
        match (root, root_of(&now)) {
            (Some(then), Some(now)) if then != now => {
                found.push(error(source, "it was made of another file or directory".to_owned()));
            }
            (Some(_), Some(_)) => {}
            _ if path != source => {
                found.push(error(source, format!("there it is {:?}", path.to_string_lossy())));
            }
            _ => {}
        }
        match entry {
            None => {
                let why = "it has nothing of it, since it could not be looked at when the list was made";
                found.push(error(source, why.to_owned()));
            }
            Some(entry) if list.kind(entry) != now.kind => {
                found.push(error(source, format!("there it is {}", words_for(list.kind(entry)))));
            }
            _ => {}
        }
    }
    found
}

/// Shards do not know what the others have made: neither in a source, nor for an operand of the same name.
pub(crate) fn into_itself(plan: &Plan) -> Option<Error> {
    let path = plan.destination.path();
    let dest = Operand::open(path);
    let spot = dest.spot();
    let above = || open_directory(spot.dir()?, ".");
    let Ok(start) = spot.open(OFlags::PATH | OFlags::DIRECTORY, 0).or_else(|_| above()) else { return None };
    let ways_up = ways_up(start.as_fd()).unwrap_or_default();
    plan.sources.iter().find_map(|source| {
        let inode = operand_inode(Operand::open(source).spot(), plan).ok()?;
        let inside = inode.kind == Kind::Directory && ways_up.iter().any(|above| above.is_same_file_as(&inode));
        inside.then(|| Error::new(What::IntoItself, source).and(path))
    })
}

fn same_names(plan: &Plan) -> Option<Error> {
    let name = |source| crate::walk::last_component(crate::walk::without_trailing_slashes(source));
    let mut names: Vec<_> = plan.sources.iter().map(|source| name(source)).collect();
    // The contents of these go into the destination itself, where another source may have a name of the same.
    if let Some(dots) =
        names.iter().find(|name| names.len() > 1 && [b"." as &[u8], b"..", b""].contains(&name.as_bytes()))
    {
        let detail = "a source of no name of its own beside others, whose order would decide";
        return Some(Error::new(What::NotByList, *dots).detail(detail));
    }
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(Error::new(What::NotByList, twice[0]).detail("two sources of one name, whose order would decide"))
}

/// What a file is, in a sentence.
pub(crate) fn words_for(kind: Kind) -> &'static str {
    match kind {
        Kind::Regular => "a regular file",
        Kind::Directory => "a directory",
        Kind::SymbolicLink => "a symbolic link",
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::CharacterDevice => "a character device",
        Kind::BlockDevice => "a block device",
        Kind::Unknown => "something else",
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
