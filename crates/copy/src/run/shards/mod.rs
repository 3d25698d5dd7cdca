//! Shards: several processes that copy parts of one tree, in any order and at the same time, and know of each other only by
//! what they find at the destination and in the state file (`state`).
//!
//! A directory that a shard of the job has made is known by its birth, which is not before that of the state file. Each shard
//! makes the directories that it needs, and sets their attributes when it is done with them; so the last one leaves them right.
//! Attributes that would stand in the way of other shards, or change what these make, are left to the last one that needs the
//! directory: which ones need it follows from the split, and which ones are done is in the state file.

mod record;
mod state;

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use haul_sys::Errno;
use haul_sys::rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use super::Run;
use super::attributes::Keep;
use super::command::command;
use super::entry::{Level, Subject};
use super::existing::{Clear, Way};
use super::resume::Progress;
use super::tree::{Frame, sync_directory};
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::journal::Fingerprint;
use crate::links::DestDir;
use crate::manifest::{Index, Shard};
use crate::meta::{NewEntries, Object};
use crate::plan::{Backup, Destination, Durable, IfChanged, Job, ModeRule, Plan, Verify};
use crate::publish::temporary::TemporaryNames;
use crate::walk::{Operand, PathNode, Spot, last_component, without_trailing_slashes};
use record::Meaning;
use state::{Claim, Earlier, Ended, State, Trouble};

/// Permissions of the owner, and the three special bits.
const OWNER: u32 = 0o700;
const SPECIAL: u32 = 0o7000;
/// Before the command, the job, the shard and a number, in temporary names.
const TEMPORARY: &str = ".haul-s";
/// Hexadecimal digits of the last three of them.
const OTHER_DIGITS: usize = 4 + 5 + 16;
/// Between two looks whether another process still copies the same shard.
const PAUSE: Duration = Duration::from_millis(200);

/// What this run shares with the other shards.
pub(super) struct Shards {
    state: State,
    shard: Shard,
    earlier: Earlier,
    path: PathBuf,
    waiting: Mutex<Vec<Waiting>>,
    /// The job's temporary names, and those of this run among them.
    tag: String,
    names: TemporaryNames,
}

/// What the shards of a job have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardReport {
    /// The file in which that is noted.
    pub record: PathBuf,
    /// The job's ID, with what cannot be shown escaped.
    pub job: String,
    /// How many there are.
    pub count: u32,
    /// The numbers of those that are not done, from 1 on, in ascending order.
    pub missing: Vec<u32>,
    /// The one that reports this is done.
    pub own_is_done: bool,
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
        job: Job::Recorded,
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

/// The names of the copies of the operands in the directory of the record.
fn roots(plan: &Plan, last: &OsStr) -> Vec<OsString> {
    if !last.is_empty() {
        return vec![last.to_owned()];
    }
    let name = |source| match last_component(without_trailing_slashes(source)).as_encoded_bytes() {
        b"" | b"." | b".." => OsString::from("."),
        _ => last_component(without_trailing_slashes(source)).to_owned(),
    };
    plan.sources.iter().map(|source| name(source)).collect()
}

/// Why a shard does not begin.
fn objection(trouble: Trouble, path: &Path, shard: Shard) -> Error {
    match trouble {
        Trouble::Kernel(errno) => Error::new(What::NoShardState, path).errno(errno),
        Trouble::Foreign => Error::new(What::ShardStateForeign, path),
        Trouble::Running(id) => Error::new(What::JobRunning, path).detail(format!("'{id}'")),
        Trouble::OtherDestination => Error::new(What::OtherDestination, path),
        Trouble::Job(meaning, id) => match meaning {
            Meaning::OtherCount(count) => {
                Error::new(What::OtherSplit, path).detail(format!("are {count}, not {}", shard.count()))
            }
            Meaning::Superseded => Error::new(What::JobReplaced, path).detail(format!("'{id}'")),
            Meaning::Unfinished => Error::new(What::JobUnfinished, path).detail(format!("'{id}'")),
            Meaning::OtherList | Meaning::Same | Meaning::Replace => Error::new(What::OtherSplit, path)
                .detail("go by another list, or have found other files, or the same ones before they were changed"),
        },
    }
}

/// What the shards of a copy have done, whichever of them the plan is for; `None` if none has begun. Nothing is changed.
///
/// # Errors
/// Why that cannot be told.
pub fn shard_status(plan: &Plan) -> Result<Option<ShardReport>, Error> {
    if let Some(path) = plan.ambiguous_destination() {
        return Err(Error::new(What::AmbiguousDestination, path));
    }
    let (holder, last, shown) = match super::settle_destination(plan) {
        Destination::Directory(path) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = openat(CWD, &path, flags, Mode::empty());
            (opened.map_err(|errno| Error::new(What::TargetDirectory, &path).errno(errno))?, OsString::new(), path)
        }
        Destination::Exactly(path) | Destination::Guess(path) => {
            let operand = Operand::open(&path);
            let spot = operand.spot();
            let held = spot.dir().and_then(|dir| fcntl_dupfd_cloexec(dir, 0));
            let held = held.map_err(|errno| Error::new(What::CannotAccess, &path).errno(errno))?;
            let shown = crate::walk::renamed(operand.path(), OsStr::new("")).into_os_string();
            (held, last_component(spot.name).to_owned(), shown)
        }
    };
    let inode = Inode::of(holder.as_fd()).map_err(|errno| Error::new(What::CannotAccess, &shown).errno(errno))?;
    let command = job(plan, &last, &inode);
    let record = crate::walk::joined(&shown, &state::name(&command));
    match state::look(holder.as_fd(), &command) {
        Ok(None) => Ok(None),
        Ok(Some((header, missing))) => {
            let own_is_done = missing.is_empty();
            Ok(Some(ShardReport { record, job: header.shown_id(), count: header.count, missing, own_is_done }))
        }
        Err(Trouble::Kernel(errno)) => Err(Error::new(What::CannotAccess, record).errno(errno)),
        Err(_) => Err(Error::new(What::ShardStateForeign, record)),
    }
}

impl Run<'_> {
    /// Notes in this directory that the shard begins, for copies that get the name `last` there, or any if that is empty. False
    /// if that is not possible, which was reported.
    pub(super) fn begin_shard(&mut self, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> bool {
        let Some((shard, split)) = self.cx.services.selection.as_ref().and_then(|selection| selection.shards()) else {
            return true;
        };
        let here = if shown.is_empty() { OsStr::new(".") } else { shown };
        let holder = match Inode::of(dir) {
            Ok(holder) => holder,
            Err(errno) => return self.worker.report.problem(Error::new(What::NoShardState, here).errno(errno)),
        };
        let command = job(self.cx.plan, last, &holder);
        let path = crate::walk::joined(shown, &state::name(&command));
        let roots = roots(self.cx.plan, last);
        let claim =
            Claim { command: &command, shard: *shard, split: split.digest(), job: &self.cx.plan.job, roots: &roots };
        let (state, earlier) = match self.open_state(dir, &claim, &path) {
            Ok(Some(opened)) => opened,
            Ok(None) => return false,
            Err(trouble) => {
                let error = objection(trouble, &path, *shard);
                return self.worker.report.problem(error);
            }
        };
        let done = earlier == Earlier::Done;
        if done {
            // What was copied since is not touched.
            self.worker.report.warning(&Error::new(What::ShardIsDone, &path));
        }
        let tag = format!("{TEMPORARY}{:010x}", command.half() >> 24);
        let own = format!("{:04x}{:05x}", state.epoch() & 0xffff, shard.index());
        let names = TemporaryNames::new(format!("{tag}{own}"));
        let shards = Shards { state, shard: *shard, earlier, path, waiting: Mutex::default(), tag, names };
        if self.cx.services.shards.set(shards).is_err() || done {
            return false;
        }
        self.tidy_after_shards(dir);
        true
    }

    /// Waits until no other process copies this shard. `None` if the run was cancelled before.
    fn open_state(
        &mut self,
        dir: BorrowedFd<'_>,
        claim: &Claim<'_>,
        path: &Path,
    ) -> Result<Option<(State, Earlier)>, Trouble> {
        let mut told = false;
        while !self.cx.cancelled() {
            if let Some(opened) = State::open(dir, claim)? {
                return Ok(Some(opened));
            }
            if !told {
                self.worker.report.warning(&Error::new(What::ShardIsBusy, path));
                told = true;
            }
            thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// Removes what earlier runs of this shard have left in a directory under temporary names, and what shards of a job have
    /// left in whose place this one came. What cannot be removed stays: it is in nobody's way.
    pub(super) fn tidy_after_shards(&self, dir: BorrowedFd<'_>) {
        let Some(shards) = self.cx.services.shards.get().filter(|shards| shards.is_repeated()) else { return };
        // The journal knows what is of use in those of this shard.
        let keeps_own = self.cx.services.progress.get().is_some();
        // A handle cannot be read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(entries) = openat(dir, ".", flags, Mode::empty()).and_then(Dir::new) else { return };
        for entry in entries.map_while(Result::ok) {
            if shards.is_left_over(entry.file_name().to_bytes(), keeps_own) {
                unlinkat(dir, entry.file_name(), AtFlags::empty()).ok();
            }
        }
    }

    /// The same in a directory that nobody enters, if anything may have been left there.
    pub(super) fn tidy_behind_link(&self, dir: BorrowedFd<'_>) {
        let repeated = self.cx.services.shards.get().is_some_and(Shards::is_repeated);
        if repeated || self.cx.services.progress.get().is_some_and(Progress::goes_on) {
            self.tidy(dir, true);
        }
    }

    /// Notes a file that gets its name now, where another run of this shard would leave alone what it finds there: other names
    /// of the source become names of this file, and not of a copy of their own.
    pub(super) fn note_for_other_names(&mut self, subject: &Subject<'_>, made: Spot<'_>) {
        let Some(shards) = self.cx.services.shards.get() else { return };
        if subject.inode.links < 2 || !self.cx.keeps_links() || !self.cx.plan.keeps_existing() {
            return;
        }
        let noted = made.inode().and_then(|made| shards.state.note(Fingerprint::of_file(&made)));
        if let Err(errno) = noted {
            self.worker.report.warning(&Error::new(What::NoShardState, &shards.path).errno(errno));
        }
    }

    /// Whether an earlier run of this shard has made what stands there.
    pub(super) fn is_noted_by_shard(&self, subject: &Subject<'_>, found: &Existing) -> bool {
        let several = subject.inode.links > 1 && self.cx.keeps_links() && self.cx.plan.keeps_existing();
        let Some(shards) = self.cx.services.shards.get().filter(|shards| several && shards.is_repeated()) else {
            return false;
        };
        found.entry.id == found.target.id && shards.state.is_noted(Fingerprint::of_file(&found.target))
    }

    /// Whether nothing that only this shard makes can be there already, in a directory that shards have made.
    pub(super) fn is_first_attempt(&self) -> bool {
        self.cx.services.shards.get().is_some_and(|shards| !shards.is_repeated())
    }

    /// A directory is about to be made.
    pub(super) fn note_directory(&mut self, dest: Spot<'_>) {
        let Some(shards) = self.cx.services.shards.get() else { return };
        // If this fails it will be taken for one that was there before.
        if !shards.state.notes_directories() {
            return;
        }
        let name = dest.dir().and_then(Inode::of).map(|above| Fingerprint::of_name(&above, last_component(dest.name)));
        let noted = name.and_then(|name| shards.state.note(name));
        if let Err(errno) = noted {
            self.worker.report.warning(&Error::new(What::NoShardState, &shards.path).errno(errno));
        }
    }

    /// Whether a shard of this job has made a directory, and nothing in this run has met it.
    pub(super) fn was_made_by_shard(&self, dest: Spot<'_>, found: &Inode) -> bool {
        let Some(shards) = self.cx.services.shards.get() else { return false };
        let made = shards.state.is_of_job(found).unwrap_or_else(|| {
            let above = dest.dir().and_then(Inode::of);
            above.is_ok_and(|above| shards.state.is_noted(Fingerprint::of_name(&above, last_component(dest.name))))
        });
        made && matches!(self.cx.services.links.get(found.into()), Ok(None))
    }

    /// Whether what stands at a destination was put there by this very shard, when it was run before.
    pub(super) fn is_of_earlier_attempt(&self, subject: &Subject<'_>, level: &Level<'_>, found: &Existing) -> bool {
        let Some(shards) = self.cx.services.shards.get().filter(|shards| shards.is_repeated()) else { return false };
        // What is to stay as it is, is whole, and may be somebody else's.
        if self.cx.plan.keeps_existing() {
            return false;
        }
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
        if self.cx.plan.is_staged() {
            return Way::Clear(Clear { new: true, replaces: true, ..Clear::default() });
        }
        match self.remove(subject.dest) {
            true => Way::Clear(Clear { new: true, ..Clear::default() }),
            false => Way::Blocked,
        }
    }

    /// Whether the attributes of a directory are left to the last shard that needs it.
    pub(super) fn leave_to_last_shard(&self, frame: &Frame, keep: &Keep<'_>) -> bool {
        let (Some(shards), Some(directory)) = (self.cx.services.shards.get(), frame.listed()) else { return false };
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
        let umask = self.cx.services.caller.umask;
        match self.cx.plan.preserve.mode {
            ModeRule::Keep => {
                let source = keep.source_inode.permissions;
                source & OWNER != OWNER || source & SPECIAL != 0 || hands_on_acl(keep.source)
            }
            ModeRule::Default | ModeRule::Discard => {
                keep.created && (keep.dest_inode.permissions & OWNER != OWNER || umask & OWNER != 0)
            }
        }
    }

    /// The end of a shard: sets the attributes that nobody needs to wait for any more, and notes that it is done.
    pub(super) fn end_shard(&mut self, failed: bool) -> Option<ShardReport> {
        let shared = self.cx.services;
        let shards = shared.shards.get()?;
        let over = shards.earlier == Earlier::Done;
        if over || self.cx.cancelled() {
            let missing = shards.state.missing();
            return self.report_of_shards(shards, missing, over);
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
            if failed || self.worker.report.failed { Ended::Badly } else { Ended::Well }
        });
        let is_done = matches!(ended, Ok((Ended::Well, _)));
        self.report_of_shards(shards, ended.map(|(_, missing)| missing), is_done)
    }

    fn report_of_shards(
        &mut self,
        shards: &Shards,
        missing: Result<Vec<u32>, Errno>,
        own_is_done: bool,
    ) -> Option<ShardReport> {
        let (record, job, count) = (shards.path.clone(), shards.state.shown_id(), shards.shard.count().get());
        match missing {
            Ok(missing) => Some(ShardReport { record, job, count, missing, own_is_done }),
            Err(errno) => {
                self.worker.report.problem(Error::new(What::NoShardState, &shards.path).errno(errno));
                None
            }
        }
    }

    /// Which shards have anything to do in these directories.
    fn needed_by(&self, waiting: &[Waiting]) -> HashMap<Index, BTreeSet<u32>> {
        let mut needed: HashMap<Index, BTreeSet<u32>> =
            waiting.iter().map(|directory| (directory.directory, BTreeSet::new())).collect();
        let Some(selection) = self.cx.services.selection.as_ref().filter(|_| !waiting.is_empty()) else {
            return needed;
        };
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
                self.worker.report.problem(failed(&source_path, errno));
                return;
            }
        };
        if !Inode::of(source.as_fd()).is_ok_and(|now| now.is_same_file_as(&directory.source_inode)) {
            self.worker.report.problem(Error::new(What::ReplacedWhileCopied, &source_path));
            return;
        }
        let dest = match directory.dest.open() {
            Ok(dest) => dest,
            Err(errno) => {
                self.worker.report.problem(failed(&dest_path, errno));
                return;
            }
        };
        let keep = Keep {
            source: Object { fd: source.as_fd(), path_only: true },
            source_inode: &directory.source_inode,
            source_path: &source_path,
            dest: Object { fd: dest.as_fd(), path_only: true },
            dest_inode: &directory.dest_inode,
            dest_path: &dest_path,
            created: directory.created,
            entries: NewEntries::UNKNOWN,
        };
        self.cx.attributes().set(&keep, &mut self.worker.report);
        if self.cx.plan.durable != Durable::None
            && let Err(errno) = sync_directory(dest.as_fd())
            // Nobody may read it any more; its filesystem was synced before.
            && errno != Errno::ACCESS
        {
            self.worker.report.problem(Error::new(What::Syncing, &dest_path).errno(errno));
        }
    }
}

impl Shards {
    /// What files are called before they have their names.
    pub(super) fn names(&self) -> &TemporaryNames {
        &self.names
    }

    /// An earlier run of the shard may have made anything that this one will make, or a job that was not finished.
    fn is_repeated(&self) -> bool {
        self.earlier == Earlier::Begun
    }

    /// Whether this is a temporary name that nobody uses any more: of an earlier run of this shard, or of an earlier job.
    fn is_left_over(&self, name: &[u8], keeps_own: bool) -> bool {
        if let Some(number) = self.names.number_of(name) {
            return !keeps_own && !self.names.is_own(number);
        }
        let digits = name.strip_prefix(self.tag.as_bytes()).filter(|digits| digits.len() == OTHER_DIGITS);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let epoch = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let epoch = epoch.and_then(|digits| u32::from_str_radix(&digits[..4], 16).ok());
        epoch.is_some_and(|epoch| epoch != self.state.epoch() & 0xffff)
    }

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
