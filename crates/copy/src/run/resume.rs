//! `--resume`: what earlier runs of the same command have done, and what this one leaves to the next.
//!
//! With it every file is made under another name and gets its own when it is on its device (see `durable`), so whatever
//! stands under its own name is whole. The journal spares the work: it says which copies are finished, how much of a large
//! file is on the device, and which directories were made. Nothing of it is believed of a file that has changed.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use haul_sys::Errno;
use haul_sys::kernel::{Kernel, Linux};
use haul_sys::rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ftruncate, openat, unlinkat};
use haul_sys::rustix::io::{fcntl_dupfd_cloexec, retry_on_intr};
use haul_sys::rustix::time::{ClockId, clock_gettime};

use super::Run;
use super::attributes::SPECIAL_RIGHTS;
use super::command::command;
use super::entry::{Level, Subject};
use super::existing::{Clear, Way};
use super::regular::Opened;
use super::services::Services;
use super::temporary_file::{Adopted, Unfinished};
use crate::decide::Existing;
use crate::error::{Error, What};
use crate::facts::{Inode, Kind};
use crate::journal::{Digest, Fingerprint, Journal, Record, Trouble};
use crate::links::pages::{KEY, Key, Pages, Record as Page};
use crate::meta::{NewEntries, Object};
use crate::plan::{Destination, ModeRule, Plan};
use crate::publish::temporary::TemporaryNames;
use crate::transfer::{Checkpoints, Log, STEP, Transfer, has_storage};
use crate::verify::Checked;
use crate::walk::{Operand, joined, last_component, renamed};

/// Before the command and the number, in names of the meantime.
const TEMPORARY: &str = ".haul-r";
/// Hexadecimal digits of the command in names.
const TAG: usize = 10;
/// Pages of 4 KiB in memory: 16 MiB, enough for some 200,000 finished files.
const PAGES_IN_MEMORY: usize = 4096;

/// The journal of a run, and what it said when the run began.
pub(super) struct Progress {
    journal: Journal,
    /// Where it is.
    dir: OwnedFd,
    name: OsString,
    /// What users know it by.
    path: PathBuf,
    known: Mutex<Known>,
    /// There was an earlier run.
    earlier: bool,
    names: TemporaryNames,
    /// Something was written down by this run.
    promised: AtomicBool,
    /// It was said that nothing can be written down any more.
    complained: AtomicBool,
}

struct Known {
    /// Finished copies, and directories that were made.
    done: Pages,
    partial: HashMap<Fingerprint, Partial>,
    /// Numbers of earlier runs that this one goes on with.
    adopted: HashSet<u64>,
    /// Beginnings that were met, with their directories; those that nobody has wanted go at the end.
    kept: Vec<(OwnedFd, u64)>,
}

/// The beginning of a source, under a name of the meantime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partial {
    /// Which file has it.
    pub file: Fingerprint,
    /// The number in its name.
    pub number: u64,
    /// Bytes that are on the device.
    pub prefix: u64,
}

/// What becomes of a file of the meantime that is met.
enum Fate {
    InUse,
    Useless,
    MayBeWanted,
}

impl Progress {
    /// `rank`: the number of this process among several, of which the first goes on with what all of them have noted earlier.
    fn open(plan: &Plan, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr, rank: usize) -> Result<Progress, Error> {
        let here = if shown.is_empty() { OsStr::new(".") } else { shown };
        let holder = Inode::of(dir).map_err(|errno| Error::new(What::NoJournal, here).errno(errno))?;
        let command = command(plan, last, &holder);
        let name = rank_journal_name(&command, rank);
        let path = joined(shown, &name);
        let failed = |errno| Error::new(What::NoJournal, &path).errno(errno);
        let own_dir = fcntl_dupfd_cloexec(dir, 0).map_err(failed)?;
        let mut known = Known {
            done: Pages::new(PAGES_IN_MEMORY),
            partial: HashMap::new(),
            adopted: HashSet::default(),
            kept: Vec::new(),
        };
        let mut earlier = false;
        let journal = Journal::open(dir, &name, command, &mut |record| {
            earlier = true;
            known.learn(record, dir)
        });
        let troubled = |path: &PathBuf, trouble| match trouble {
            Trouble::Busy => Error::new(What::JournalBusy, path),
            Trouble::Foreign => Error::new(What::JournalForeign, path),
            Trouble::Kernel(errno) => Error::new(What::NoJournal, path).errno(errno),
        };
        let journal = journal.map_err(|trouble| troubled(&path, trouble))?;
        if rank == 0 {
            for other in journals_of_others(dir, &name) {
                earlier |= journal
                    .take_over(dir, &other, &mut |record| known.learn(record, dir))
                    .map_err(|trouble| troubled(&joined(shown, &other), trouble))?;
            }
        }
        Ok(Progress {
            journal,
            dir: own_dir,
            name,
            path,
            known: Mutex::new(known),
            earlier,
            names: TemporaryNames::new(format!("{TEMPORARY}{}", tag(&command))),
            promised: AtomicBool::new(false),
            complained: AtomicBool::new(false),
        })
    }

    /// Whether there was an earlier run.
    pub(super) fn goes_on(&self) -> bool {
        self.earlier
    }

    /// The names of files that are not whole.
    pub(super) fn names(&self) -> &TemporaryNames {
        &self.names
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is of one entry and whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digest that was noted, if this pair is finished.
    fn finished(&self, pair: Fingerprint) -> Option<Option<Digest>> {
        // What cannot be looked up is copied again.
        let page = self.lock().done.get(&key(b'p', pair)).ok().flatten()?;
        let digest = page.name.as_bytes();
        Some(if digest.is_empty() { None } else { Digest::from_bytes(digest) })
    }

    /// Whether an earlier run made this directory.
    fn made(&self, directory: &Inode) -> bool {
        if !self.earlier {
            return false;
        }
        // What was written down may be lost with the power; the birth tells all the same, if nobody has put the clock back.
        let born_since = directory.born.is_some_and(|born| self.journal.is_of_earlier_run(born));
        born_since || matches!(self.lock().done.get(&key(b'm', Fingerprint::of_file(directory))), Ok(Some(_)))
    }

    /// Whether a source may have beginnings, or get some.
    pub(super) fn is_worth_checkpoints(&self, source: &Inode) -> bool {
        source.size >= 2 * STEP || !self.lock().partial.is_empty()
    }

    /// What an earlier run has of this beginning; nobody else gets it.
    pub(super) fn partial(&self, beginning: Fingerprint) -> Option<Partial> {
        self.lock().partial.remove(&beginning)
    }

    /// This run goes on with the file that has this number.
    pub(super) fn adopt(&self, number: u64) {
        self.lock().adopted.insert(number);
    }

    /// Removes what earlier runs have left in a directory under names of the meantime; with `keep` not what this run may go
    /// on with. What cannot be removed stays: it is in nobody's way.
    fn tidy(&self, dir: BorrowedFd<'_>, keep: bool) {
        // A handle cannot be read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(entries) = openat(dir, ".", flags, Mode::empty()).and_then(Dir::new) else { return };
        for entry in entries {
            let Ok(entry) = entry else { return };
            let name = entry.file_name();
            let Some(number) = self.names.number_of(name.to_bytes()) else { continue };
            match self.fate_of(number, keep) {
                Fate::InUse => {}
                Fate::Useless => {
                    unlinkat(dir, name, AtFlags::empty()).ok();
                }
                Fate::MayBeWanted => {
                    let Ok(dir) = fcntl_dupfd_cloexec(dir, 0) else { continue };
                    self.lock().kept.push((dir, number));
                }
            }
        }
    }

    /// What to do with a file of the meantime that has this number.
    fn fate_of(&self, number: u64, keep: bool) -> Fate {
        let known = self.lock();
        let noted = || known.kept.iter().any(|(_, kept)| *kept == number);
        if self.names.is_own(number) || known.adopted.contains(&number) {
            Fate::InUse
        } else if !keep || known.partial.values().all(|partial| partial.number != number) {
            Fate::Useless
        } else if noted() {
            Fate::InUse
        } else {
            Fate::MayBeWanted
        }
    }

    /// Removes the beginnings that nobody has gone on with.
    fn tidy_kept(&self) {
        let unwanted = {
            let mut known = self.lock();
            let mut kept = std::mem::take(&mut known.kept);
            kept.retain(|(_, number)| !known.adopted.contains(number));
            kept
        };
        for (dir, number) in unwanted {
            unlinkat(&dir, self.names.with_number(number), AtFlags::empty()).ok();
        }
    }

    /// Writes promises down; the error is to be told once.
    pub(super) fn promise(&self, records: &[Record], sync: bool) -> Result<(), Error> {
        self.promised.store(true, Ordering::Relaxed);
        let written = self.journal.append(records).and_then(|()| if sync { self.journal.sync() } else { Ok(()) });
        match written {
            Err(errno) if !self.complained.swap(true, Ordering::Relaxed) => {
                Err(Error::new(What::JournalEnds, &self.path).errno(errno))
            }
            _ => Ok(()),
        }
    }
}

impl Log for Progress {
    fn checkpoint(&self, record: Record) -> Result<(), Error> {
        self.promise(&[record], true)
    }
}

impl Known {
    fn learn(&mut self, record: Record, room: BorrowedFd<'_>) -> Result<(), Errno> {
        let page = |kind, print, name| Page { key: key(kind, print), dir: 0, name, id: None };
        match record {
            Record::Begun => Ok(()),
            Record::Finished { pair, digest } => {
                let digest = digest.map_or(Vec::new(), |digest| digest.as_bytes().to_vec());
                self.done.put(&page(b'p', pair, OsString::from_vec(digest)), room)
            }
            Record::Directory(print) => self.done.put(&page(b'm', print, OsString::new()), room),
            Record::Partial { source, prefix: 0, .. } => {
                self.partial.remove(&source);
                Ok(())
            }
            Record::Partial { source, file, number, prefix } => {
                self.partial.insert(source, Partial { file, number, prefix });
                Ok(())
            }
        }
    }
}

fn key(kind: u8, print: Fingerprint) -> Key {
    let mut key = [0; KEY];
    key[0] = kind;
    key[1..17].copy_from_slice(&print.to_bytes());
    key
}

/// Whether the clock that files get their times from has gone on since the file changed: it does so every 10 ms at most, or
/// every 2 s where filesystems keep no parts of seconds.
pub(super) fn has_settled(inode: &Inode) -> bool {
    let last = inode.changed;
    let whole_seconds = inode.changed.nanoseconds == 0 && inode.modified.nanoseconds == 0;
    let now = clock_gettime(ClockId::Realtime);
    let nanoseconds = |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    let since = nanoseconds(now.tv_sec, now.tv_nsec) - nanoseconds(last.seconds, last.nanoseconds.into());
    since > if whole_seconds { 2_000_000_000 } else { 20_000_000 }
}

fn tag(command: &Fingerprint) -> String {
    let mut tag = format!("{:016x}", command.half());
    tag.truncate(TAG);
    tag
}

fn journal_name(command: &Fingerprint) -> OsString {
    OsString::from(format!(".haul-resume-{:016x}", command.half()))
}

/// That of one of several processes.
fn rank_journal_name(command: &Fingerprint, rank: usize) -> OsString {
    let mut name = journal_name(command);
    if rank > 0 {
        name.push(format!(".{rank}"));
    }
    name
}

/// The journals that processes beside the first one have left in a directory.
fn journals_of_others(dir: BorrowedFd<'_>, first: &OsStr) -> Vec<OsString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(entries) = openat(dir, ".", flags, Mode::empty()).and_then(Dir::new) else { return Vec::new() };
    let is_of_other = |name: &[u8]| {
        let number = name.strip_prefix(first.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let names = entries.map_while(Result::ok).map(|entry| entry.file_name().to_bytes().to_vec());
    let mut others: Vec<OsString> = names.filter(|name| is_of_other(name)).map(OsString::from_vec).collect();
    others.sort();
    others
}

impl<'a> Run<'a> {
    /// Opens the journal in this directory, for copies that get the name `last` there, or any if that is empty. False if there
    /// can be none, which was reported.
    pub(super) fn begin_progress(&mut self, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> bool {
        if !self.begin_shard(dir, last, shown) {
            return false;
        }
        if !self.cx.plan.resume {
            return true;
        }
        match Progress::open(self.cx.plan, dir, last, shown, 0) {
            Ok(progress) => {
                progress.tidy(dir, true);
                self.cx.services.progress.set(progress).is_ok()
            }
            Err(error) => self.worker.report.problem(error),
        }
    }

    /// The same for a process that begins with nothing, when it gets something to do.
    pub(super) fn begin_progress_elsewhere(&mut self) {
        let Some(peers) = self.peers.filter(|peers| self.cx.plan.resume && !peers.is_first()) else { return };
        let shared = self.cx.services;
        let _turn = peers.take_turn();
        if shared.progress.get().is_some() {
            return;
        }
        let opened = match &self.cx.plan.destination {
            Destination::Directory(path) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let dir = openat(CWD, path, flags, Mode::empty())
                    .map_err(|errno| Error::new(What::NoJournal, path).errno(errno));
                dir.and_then(|dir| {
                    Progress::open(self.cx.plan, dir.as_fd(), OsStr::new(""), path, peers.transport.rank())
                })
            }
            Destination::Exactly(path) | Destination::Guess(path) => {
                let operand = Operand::open(path);
                let shown = renamed(operand.path(), OsStr::new(""));
                let dir = operand.spot().dir().map_err(|errno| Error::new(What::NoJournal, path).errno(errno));
                let last = last_component(operand.spot().name);
                dir.and_then(|dir| Progress::open(self.cx.plan, dir, last, shown.as_os_str(), peers.transport.rank()))
            }
        };
        match opened {
            // Nobody else sets it.
            Ok(progress) => _ = shared.progress.set(progress),
            // The copy is as good without.
            Err(error) => self.worker.report.warning(&error),
        }
    }

    /// The end of a run. When all is done the journal goes; otherwise this is where it is.
    pub(super) fn end_progress(&mut self, failed: bool, did_something: bool) -> Option<PathBuf> {
        let shared = self.cx.services;
        let progress = shared.progress.get()?;
        let unfinished = failed || self.worker.report.failed || self.cx.cancelled();
        if unfinished && (did_something || progress.earlier || progress.promised.load(Ordering::Relaxed)) {
            return Some(progress.path.clone());
        }
        progress.tidy(progress.dir.as_fd(), false);
        progress.tidy_kept();
        for other in journals_of_others(progress.dir.as_fd(), &progress.name) {
            // Those of processes that have ended well as this one does.
            unlinkat(&progress.dir, other.as_os_str(), AtFlags::empty()).ok();
        }
        if let Err(errno) = unlinkat(&progress.dir, progress.name.as_os_str(), AtFlags::empty()) {
            self.worker.report.problem(Error::new(What::CannotRemove, &progress.path).errno(errno));
        }
        None
    }

    /// Writes promises down. That this fails costs the next run time, and is told once.
    pub(super) fn promise(&mut self, records: &[Record], sync: bool) {
        let Some(progress) = self.cx.services.progress.get().filter(|_| !records.is_empty()) else { return };
        if let Err(error) = progress.promise(records, sync) {
            self.worker.report.warning(&error);
        }
    }

    /// Writes down what was finished since the last time.
    pub(super) fn promise_all_finished(&mut self) {
        let finished = std::mem::take(&mut self.worker.finished);
        self.promise(&finished, false);
    }

    /// The same of a whole file that has its name now.
    pub(super) fn promise_finished(&mut self, source: Fingerprint, copy: BorrowedFd<'_>, checked: &Checked) {
        let Ok(copy) = Inode::of(copy) else { return };
        let digest = checked.digest.as_deref().and_then(Digest::from_hex);
        self.worker.finished.push(Record::Finished { pair: Fingerprint::of_copy(source, &copy), digest });
    }

    /// Passes over a copy that an earlier run has finished, if neither it nor its source has changed since.
    pub(super) fn pass_over_finished(
        &mut self,
        subject: &Subject<'_>,
        level: &Level<'_>,
        existing: &Existing,
    ) -> Option<Way> {
        let progress = self.cx.services.progress.get().filter(|progress| progress.earlier)?;
        if subject.inode.kind != Kind::Regular || existing.target.kind != Kind::Regular {
            return None;
        }
        let source = Fingerprint::of_source(&subject.inode);
        let digest = progress.finished(Fingerprint::of_copy(source, &existing.target))?;
        if self.cx.plan.checksum.is_some() && digest.is_none() {
            return None;
        }
        if let Some(way) = self.is_known_by_other_name(subject, level, existing) {
            return Some(way);
        }
        self.worker.report.stats.resumed_files += 1;
        self.worker.report.stats.resumed_bytes += subject.inode.size;
        if let Some(digest) = digest.filter(|_| self.cx.plan.checksum.is_some()) {
            let digest = Some(digest.to_hex());
            self.tell_digest(subject.dest.path, &Checked { digest, ..Checked::default() });
        }
        Some(Way::Done)
    }

    /// Whether an earlier run made this directory, and nothing in this one has met it.
    pub(super) fn was_made_earlier(&self, directory: &Inode) -> bool {
        let made = self.cx.services.progress.get().is_some_and(|progress| progress.made(directory));
        made && matches!(self.cx.services.links.get(directory.into()), Ok(None))
    }

    /// Notes a directory that was just made.
    pub(super) fn promise_directory(&mut self, directory: &Inode) {
        if self.cx.services.progress.get().is_some() {
            self.promise(&[Record::Directory(Fingerprint::of_file(directory))], false);
        }
    }

    /// Removes what earlier runs have left in a directory that was there before; with `keep` not what this run may go on with.
    pub(super) fn tidy(&self, dir: BorrowedFd<'_>, keep: bool) {
        if let Some(progress) = self.cx.services.progress.get() {
            // Another operand may come to the same directory.
            progress.tidy(dir, keep || self.cx.plan.sources.len() > 1);
        }
        self.tidy_after_shards(dir);
    }

    /// Goes on with a file that an earlier run has begun, as if it had just been made.
    pub(super) fn go_on_with(
        &mut self,
        adopted: Adopted,
        subject: &Subject<'_>,
        clear: &Clear,
        source_inode: &Inode,
        unfinished: &mut Unfinished,
    ) -> Option<Opened> {
        let Adopted { fd, inode, prefix, source } = adopted;
        // What has changed since the look is another source.
        let start = if unfinished.print == Some(source) { prefix } else { 0 };
        if start < prefix && !self.take_back_beginning(source, &inode, unfinished) {
            return None;
        }
        let entries = NewEntries::UNKNOWN;
        let preserve = &self.cx.plan.preserve;
        let as_made = clear.replaced.is_none() && preserve.mode == ModeRule::Default && !preserve.ownership;
        let mode = match as_made {
            true => inode.permissions & !SPECIAL_RIGHTS,
            false => self.creation_mode(clear, source_inode, &entries) & !self.cx.services.caller.umask,
        };
        let prepared = Object { fd: fd.as_fd(), path_only: false }
            .set_mode(mode)
            .and_then(|()| retry_on_intr(|| ftruncate(&fd, start)))
            .and_then(|()| Inode::of(fd.as_fd()));
        match prepared {
            Ok(inode) => {
                unfinished.start = start;
                self.worker.report.stats.resumed_bytes += start;
                Some(Opened { fd, inode, known: true, created: true, replaced: false, entries })
            }
            Err(errno) => {
                self.worker.report.problem(Error::new(What::CannotCreateRegular, subject.dest.path).errno(errno));
                None
            }
        }
    }

    /// Writes down that nothing is on the device of a beginning that is about to be cut. False if that was not possible.
    fn take_back_beginning(&mut self, source: Fingerprint, file: &Inode, unfinished: &mut Unfinished) -> bool {
        let (Some(progress), Some(home), Some(number)) =
            (self.cx.services.progress.get(), unfinished.home, unfinished.number)
        else {
            return false;
        };
        let source = Fingerprint::of_beginning(source, home);
        let record = Record::Partial { source, file: Fingerprint::of_file(file), number, prefix: 0 };
        match progress.journal.append(&[record]).and_then(|()| progress.journal.sync()) {
            Ok(()) => {
                unfinished.left = false;
                true
            }
            Err(errno) => self.worker.report.problem(Error::new(What::JournalEnds, &progress.path).errno(errno)),
        }
    }

    /// What a source is, if a later state can be told from this one: a file that is kept somewhere, and was not changed so
    /// recently that a change from now on might leave its times as they are. Asked for before the first byte is read.
    pub(super) fn fingerprint_of(&self, source: BorrowedFd<'_>, seen: &Inode) -> Option<Fingerprint> {
        self.cx.services.progress.get()?;
        let inode = &Inode::of(source).ok()?;
        // Its attributes will be those that were seen.
        if Fingerprint::of_source(inode) != Fingerprint::of_source(seen) {
            return None;
        }
        let lasting = inode.kind == Kind::Regular && has_storage(inode) && has_settled(inode);
        lasting.then(|| Fingerprint::of_source(inode))
    }

    /// The checkpoints of a file that is worth some.
    pub(super) fn checkpoints(&self, job: &Transfer<'_>, unfinished: &Unfinished) -> Option<Checkpoints<'a>> {
        let shared: &'a Services = self.cx.services;
        let (progress, number) = (shared.progress.get()?, unfinished.number?);
        let source = Fingerprint::of_beginning(unfinished.print?, unfinished.home?);
        let start = unfinished.start;
        let file = Fingerprint::of_file(job.dest_inode);
        let worth_it = start > 0 || job.source_inode.size >= 2 * STEP;
        // Before anything is written: what goes wrong from then on is told to this one, too.
        let own = if worth_it { Linux.reopen_to_read(job.dest.as_fd(), false).ok()? } else { return None };
        Some(Checkpoints::new(progress, source, file, own, number, start))
    }
}
