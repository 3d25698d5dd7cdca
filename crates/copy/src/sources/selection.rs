//! Copying only what a list names: all of it, or the part of one shard.
//!
//! The walk goes by the list instead of the directories' own names, so a shard does not read directories in which it has
//! nothing to do. Everything else is as in any other copy.

use std::borrow::Cow;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use haul_sys::inode::Kind;
use haul_sys::rustix::fs::{FileType, OFlags};

use crate::error::{Error, What};
use crate::events::Event;
use crate::list::{Assignment, FileList, Index, Shard};
use crate::plan::Plan;
use crate::report::Session;
use crate::sources::operands::{operand_inode, ways_up};
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
}

impl Selection {
    fn new(list: Arc<FileList>, shards: Option<(Shard, Assignment)>) -> Selection {
        let mut first = vec![0; list.len()];
        let mut next = vec![0; list.len()];
        let all = Index::try_from(list.len()).unwrap_or(Index::MAX);
        let mut wanted_roots = HashSet::new();
        // What is in a directory comes behind it, so it is known here when the directory is met.
        for at in (0..all).rev() {
            let own = shards.as_ref().is_none_or(|(shard, split)| split.shard_of(at) == shard.index());
            if !own && first[at as usize] == 0 {
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
        Selection { list, shards, roots, first, next }
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

/// What the plan wants of a list; `None` if it wants everything. Nothing is written before that is known. The `first` of several
/// processes looks whether the list fits, and tells; the others have the same list.
pub(crate) fn prepare(plan: &Plan, session: &Session<'_>, first: bool) -> Result<Option<Selection>, Box<Stats>> {
    if plan.list.is_none() && plan.shard.is_none() {
        return Ok(None);
    }
    let mut stats = Box::<Stats>::default();
    let mut tell = |error: Error| {
        stats.errors += 1;
        if !first {
            return;
        }
        session.observer.event(&Event::Problem(Cow::Borrowed(&error)));
    };
    if let Some(what) = plan.against_lists() {
        tell(Error::new(What::NotByList, "").detail(what));
        return Err(stats);
    }
    let objections = match &plan.list {
        Some(list) if first => misfits(plan, list),
        _ => Vec::new(),
    };
    if !objections.is_empty() {
        objections.into_iter().for_each(tell);
        return Err(stats);
    }
    if plan.shard.is_some()
        && let Some(error) = into_itself(plan).or_else(|| same_names(plan))
    {
        tell(error);
        return Err(stats);
    }
    let list = match &plan.list {
        Some(list) => Arc::clone(list),
        None => {
            // The shard of a directory that cannot be read reports it.
            let survey = survey::walk(plan, session, false);
            if session.cancel.is_cancelled() || survey.failed {
                stats.errors += survey.errors;
                return Err(stats);
            }
            Arc::new(survey.list)
        }
    };
    let shards = plan.shard.map(|shard| (shard, crate::list::split(&list, shard.count())));
    Ok(Some(Selection::new(list, shards)))
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
