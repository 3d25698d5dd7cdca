//! Shards: several processes that copy parts of one tree, in any order and at the same time, and know of each other only by
//! what they find at the destination and in the state file (`state`).
//!
//! A directory that a shard of the job has made is known by its birth, which is not before that of the state file. Each shard
//! makes the directories that it needs, and sets their attributes when it is done with them; so the last one leaves them right.
//! Attributes that would stand in the way of other shards, or change what these make, are left to the last one that needs the
//! directory: which ones need it follows from the split, and which ones are done is in the state file.

mod state;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use haul_sys::rustix::fs::OFlags;

use super::command::command;
use super::entry::{Level, Subject};
use super::existing::{Clear, Existing, Way};
use super::links::DestDir;
use super::tree::{Frame, sync_directory};
use super::{Keep, Run};
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::journal::Fingerprint;
use crate::manifest::{Index, Shard};
use crate::meta::{NewEntries, Object};
use crate::plan::{Backup, Durable, IfChanged, ModeRule, Plan, Verify};
use crate::walk::{Operand, PathNode, Spot, last_component};
use state::{Earlier, Ended, State, Trouble};

/// Permissions of the owner, and the three special bits.
const OWNER: u32 = 0o700;
const SPECIAL: u32 = 0o7000;

/// What this run shares with the other shards.
pub(super) struct Shards {
    state: State,
    shard: Shard,
    /// This shard was begun before.
    repeated: bool,
    path: PathBuf,
    waiting: Mutex<Vec<Waiting>>,
}

/// A directory that is left to the last shard that needs it.
struct Waiting {
    directory: Index,
    dest: Arc<DestDir>,
    dest_inode: Inode,
    dest_path: Arc<PathNode>,
    source_inode: Inode,
    source_path: Arc<PathNode>,
    created: bool,
}

/// The command, whichever shard it is, and however certain and quick it is.
fn job(plan: &Plan, last: &OsStr, holder: &Inode) -> Fingerprint {
    let plan = Plan {
        shard: Shard::new(1, 1),
        // What is divided, and how, is in the file.
        manifest: None,
        resume: false,
        durable: Durable::None,
        atomic: false,
        verify: Verify::Off,
        checksum: None,
        if_changed: IfChanged::Ignore,
        backup: Backup::None,
        ..plan.clone()
    };
    command(&plan, last, holder)
}

impl Run<'_> {
    /// Whether a shard was about to make this destination, which then must not be taken for a directory to copy into.
    pub(super) fn other_shards_began_beside(&self, path: &OsStr) -> bool {
        if self.plan.shard.is_none() {
            return false;
        }
        let operand = Operand::open(path);
        let spot = operand.spot();
        let Ok(dir) = spot.dir() else { return false };
        let Ok(holder) = Inode::of(dir) else { return false };
        let name = state::name(&job(self.plan, last_component(spot.name), &holder));
        Inode::at(dir, &name).is_ok_and(|found| found.kind == Kind::Regular && found.user == self.shared.caller.user)
    }

    /// Notes in this directory that the shard begins, for copies that get the name `last` there, or any if that is empty. False
    /// if that is not possible, which was reported.
    pub(super) fn begin_shard(&mut self, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> bool {
        let Some((shard, split)) = self.shared.selection.as_ref().and_then(|selection| selection.shards()) else {
            return true;
        };
        let here = if shown.is_empty() { OsStr::new(".") } else { shown };
        let holder = match Inode::of(dir) {
            Ok(holder) => holder,
            Err(errno) => return self.problem(Error::new(What::NoShardState, here).errno(errno)),
        };
        let command = job(self.plan, last, &holder);
        let path = super::operands::joined(shown, &state::name(&command));
        let opened = State::open(dir, &command, *shard, split.digest());
        let (state, earlier) = match opened {
            Ok(opened) => opened,
            Err(trouble) => {
                let error = match trouble {
                    Trouble::Kernel(errno) => Error::new(What::NoShardState, &path).errno(errno),
                    Trouble::Foreign => Error::new(What::ShardStateForeign, &path),
                    Trouble::OtherCount(count) => {
                        Error::new(What::OtherSplit, &path).detail(format!("are {count}, not {}", shard.count()))
                    }
                    Trouble::OtherList => Error::new(What::OtherSplit, &path)
                        .detail("go by another list, or have found other files (a manifest for all of them helps)"),
                };
                return self.problem(error);
            }
        };
        if earlier == Earlier::Done {
            // Whoever runs it again may mean another job, long after this one was given up; what was copied since is not touched.
            self.warning(&Error::new(What::ShardIsDone, &path));
            return false;
        }
        let (waiting, repeated) = (Mutex::default(), earlier == Earlier::Begun);
        let shards = Shards { state, shard: *shard, repeated, path, waiting };
        self.shared.shards.set(shards).is_ok()
    }

    /// Whether nothing that only this shard makes can be there already, in a directory that shards have made.
    pub(super) fn is_first_attempt(&self) -> bool {
        self.shared.shards.get().is_some_and(|shards| !shards.repeated)
    }

    /// A directory is about to be made.
    pub(super) fn note_directory(&mut self, dest: Spot<'_>) {
        let Some(shards) = self.shared.shards.get() else { return };
        // If this fails it will be taken for one that was there before.
        let noted = shards.state.note(|| {
            let above = Inode::of(dest.dir()?)?;
            Ok(Fingerprint::of_name(&above, last_component(dest.name)))
        });
        if let Err(errno) = noted {
            self.warning(&Error::new(What::NoShardState, &shards.path).errno(errno));
        }
    }

    /// Whether a shard of this job has made a directory, and nothing in this run has met it.
    pub(super) fn was_made_by_shard(&self, dest: Spot<'_>, found: &Inode) -> bool {
        let Some(shards) = self.shared.shards.get() else { return false };
        let made = shards.state.is_of_job(found).unwrap_or_else(|| {
            let above = dest.dir().and_then(Inode::of);
            above.is_ok_and(|above| shards.state.is_noted(Fingerprint::of_name(&above, last_component(dest.name))))
        });
        made && matches!(self.shared.links.get(found.into()), Ok(None))
    }

    /// Whether what stands at a destination was put there by this very shard, when it was run before.
    pub(super) fn is_of_earlier_attempt(&self, subject: &Subject<'_>, level: &Level<'_>, found: &Existing) -> bool {
        let Some(shards) = self.shared.shards.get().filter(|shards| shards.repeated) else { return false };
        if subject.inode.kind == Kind::Directory || found.entry.kind == Kind::Directory {
            return false;
        }
        // The source by another way, or a link to it, is nothing that a shard has made.
        if [found.entry.id, found.target.id].contains(&subject.inode.id) {
            return false;
        }
        level.ancestors.last().is_some_and(Frame::is_created) || shards.state.is_of_job(&found.entry).unwrap_or(false)
    }

    /// Makes way for it once more, whatever options say of files that were there.
    pub(super) fn make_again(&mut self, subject: &Subject<'_>) -> Way {
        if self.plan.is_staged() {
            return Way::Clear(Clear { new: true, replaces: true, ..Clear::default() });
        }
        match self.remove(subject.dest) {
            true => Way::Clear(Clear { new: true, ..Clear::default() }),
            false => Way::Blocked,
        }
    }

    /// Whether the attributes of a directory are left to the last shard that needs it.
    pub(super) fn leave_to_last_shard(&self, frame: &Frame, keep: &Keep<'_>) -> bool {
        let (Some(shards), Some(directory)) = (self.shared.shards.get(), frame.listed()) else { return false };
        if shards.shard.count().get() == 1 || !self.is_in_the_way(keep) {
            return false;
        }
        let waiting = Waiting {
            directory,
            dest: Arc::clone(frame.dest_dir()),
            dest_inode: *keep.dest_inode,
            dest_path: Arc::clone(&frame.place().dest_path),
            source_inode: *keep.source_inode,
            source_path: Arc::clone(&frame.place().source_path),
            created: keep.created,
        };
        shards.lock().push(waiting);
        true
    }

    /// Whether the last attributes of a directory keep its owner from making entries, or change what entries get.
    fn is_in_the_way(&self, keep: &Keep<'_>) -> bool {
        let umask = self.shared.caller.umask;
        match self.plan.preserve.mode {
            ModeRule::Keep => {
                let source = keep.source_inode.permissions;
                source & OWNER != OWNER || source & SPECIAL != 0 || hands_on_acl(keep.source)
            }
            ModeRule::Default | ModeRule::Discard => {
                keep.created && (keep.dest_inode.permissions & OWNER != OWNER || umask & OWNER != 0)
            }
        }
    }

    /// The end of a shard: sets the attributes that nobody needs to wait for any more, and notes that it is done. Where it is
    /// not, this is where the state stays.
    pub(super) fn end_shard(&mut self, failed: bool) -> Option<PathBuf> {
        let shared = self.shared;
        let shards = shared.shards.get()?;
        if self.cancelled() {
            return Some(shards.path.clone());
        }
        let mut waiting = std::mem::take(&mut *shards.lock());
        // From the innermost on: what is in a directory cannot be reached any more when that is closed.
        waiting.sort_by_key(|directory| std::cmp::Reverse(directory.directory));
        let needed = self.needed_by(&waiting);
        let ended = shards.state.end(shards.shard, &mut |done: &dyn Fn(u32) -> bool| {
            for directory in &waiting {
                let others = needed.get(&directory.directory).into_iter().flatten();
                if others.into_iter().all(|other| *other == shards.shard.index() || done(*other)) {
                    self.finish_waiting(directory);
                }
            }
            if failed || self.failed { Ended::Badly } else { Ended::Well }
        });
        match ended {
            Ok(Ended::Well) => None,
            Ok(Ended::Badly) => Some(shards.path.clone()),
            Err(errno) => {
                self.problem(Error::new(What::NoShardState, &shards.path).errno(errno));
                Some(shards.path.clone())
            }
        }
    }

    /// Which shards have anything to do in these directories.
    fn needed_by(&self, waiting: &[Waiting]) -> HashMap<Index, BTreeSet<u32>> {
        let mut needed: HashMap<Index, BTreeSet<u32>> =
            waiting.iter().map(|directory| (directory.directory, BTreeSet::new())).collect();
        let Some(selection) = self.shared.selection.as_ref().filter(|_| !waiting.is_empty()) else { return needed };
        let Some((_, split)) = selection.shards() else { return needed };
        let manifest = selection.manifest();
        // The innermost of these directories that each entry is in, as its number plus one; 0 if it is in none.
        let mut inside: Vec<Index> = vec![0; manifest.len()];
        for at in 0..Index::try_from(manifest.len()).unwrap_or(Index::MAX) {
            let above = manifest.parent(at).map_or(0, |parent| inside[parent as usize]);
            inside[at as usize] = if needed.contains_key(&at) { at + 1 } else { above };
            if let Some(shards) = inside[at as usize].checked_sub(1).and_then(|directory| needed.get_mut(&directory)) {
                shards.insert(split.shard_of(at));
            }
        }
        // From the innermost on, as `waiting` is sorted.
        for directory in waiting {
            let above = manifest.parent(directory.directory).and_then(|parent| inside[parent as usize].checked_sub(1));
            let own = needed.get(&directory.directory).cloned().unwrap_or_default();
            if let Some(above) = above.and_then(|above| needed.get_mut(&above)) {
                above.extend(own);
            }
        }
        needed
    }

    fn finish_waiting(&mut self, directory: &Waiting) {
        let failed = |path: &PathBuf, errno| Error::new(What::CannotAccess, path).errno(errno);
        let (source_path, dest_path) = (directory.source_path.path(), directory.dest_path.path());
        let source = match self.open_listed(directory.directory) {
            Ok(source) => source,
            Err(errno) => {
                self.problem(failed(&source_path, errno));
                return;
            }
        };
        if !Inode::of(source.as_fd()).is_ok_and(|now| now.is_same_file_as(&directory.source_inode)) {
            self.problem(Error::new(What::ReplacedWhileCopied, &source_path));
            return;
        }
        let dest = match directory.dest.open() {
            Ok(dest) => dest,
            Err(errno) => {
                self.problem(failed(&dest_path, errno));
                return;
            }
        };
        self.keep_attributes(&Keep {
            source: Object { fd: source.as_fd(), path_only: true },
            source_inode: &directory.source_inode,
            source_path: &source_path,
            dest: Object { fd: dest.as_fd(), path_only: true },
            dest_inode: &directory.dest_inode,
            dest_path: &dest_path,
            created: directory.created,
            entries: NewEntries::UNKNOWN,
        });
        if self.plan.durable != Durable::None
            && let Err(errno) = sync_directory(dest.as_fd())
            // Nobody may read it any more; its filesystem was synced before.
            && errno != haul_sys::Errno::ACCESS
        {
            self.problem(Error::new(What::Syncing, &dest_path).errno(errno));
        }
    }
}

impl Shards {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        // Every change is of one entry and whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a directory of the source has an ACL for new entries.
fn hands_on_acl(source: Object<'_>) -> bool {
    source.get_xattr(c"system.posix_acl_default", &mut Vec::new()).is_ok()
}

/// How state files are opened: never through a link, never waiting.
const OPEN: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
