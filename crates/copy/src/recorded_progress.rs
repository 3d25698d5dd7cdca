//! The recorded progress of a run with `--resume`: its journal, and what that said when the run began.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_io::transfer::{Log, STEP};
use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::rustix::fs::{AtFlags, unlinkat};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;
use haul_sys::rustix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;

use crate::error::{Error, What};
use crate::journal::command::command;
use crate::journal::{self, Digest, Fingerprint, Journal, Record, Trouble};
use crate::links::pages::{KEY, Key, Pages, Record as Page};
use crate::plan::Plan;
use crate::publish::temporary::TemporaryNames;
use crate::walk::{entries_of, joined};

/// Before the command and the number, in temporary names.
pub(crate) const TEMPORARY: &str = ".haul-r";

/// Hexadecimal digits of the command in names.
const TAG: usize = 10;

/// Pages of 4 KiB in memory: 16 MiB, enough for some 200,000 finished files.
pub(crate) const PAGES_IN_MEMORY: usize = 4096;

/// The journal of a run, and what it said when the run began.
pub(crate) struct RecordedProgress {
    pub journal: Journal,
    /// Where it is.
    pub dir: OwnedFd,
    pub name: OsString,
    /// What users know it by.
    pub path: PathBuf,
    known: Mutex<Known>,
    /// There was an earlier run.
    pub earlier: bool,
    /// Those of files that are not whole.
    pub names: TemporaryNames,
    /// Something was written down by this run.
    pub promised: AtomicBool,
    /// It was said that nothing can be written down any more.
    complained: AtomicBool,
}

struct Known {
    /// Finished copies, and directories that were made.
    pub done: Pages,
    partial: HashMap<Fingerprint, Partial>,
    /// Numbers of earlier runs that this one goes on with.
    pub adopted: HashSet<u64>,
    /// Beginnings that were met, with their directories; those that nobody has wanted go at the end.
    pub kept: Vec<(OwnedFd, u64)>,
}

/// The beginning of a source, under a temporary name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partial {
    /// Which file has it.
    pub file: Fingerprint,
    /// The number in its name.
    pub number: u64,
    /// Bytes that are on the device.
    pub prefix: u64,
}

/// What becomes of a temporary file that is met.
enum Fate {
    InUse,
    Useless,
    MayBeWanted,
}

impl RecordedProgress {
    /// `rank`: the number of this process among several, of which the first goes on with what all of them have noted earlier.
    pub(crate) fn open(
        plan: &Plan,
        dir: BorrowedFd<'_>,
        last: &OsStr,
        shown: &OsStr,
        rank: usize,
    ) -> Result<RecordedProgress, Error> {
        let command = command_in(plan, dir, last, shown)?;
        let name = journal_name(&command, rank);
        let path = joined(shown, &name);
        let failed = |errno| Error::new(What::NoJournal, &path).errno(errno);
        let own_dir = fcntl_dupfd_cloexec(dir, 0).map_err(failed)?;
        let mut known = Known::new(Pages::new(PAGES_IN_MEMORY));
        let mut earlier = false;
        let journal = Journal::open(dir, &name, command, &mut |record| {
            earlier = true;
            known.learn(record, dir)
        });
        let journal = journal.map_err(|trouble| troubled(&path, trouble))?;
        if rank == 0 {
            for other in journals_of_others(dir, &name) {
                earlier |= journal
                    .take_over(dir, &other, &mut |record| known.learn(record, dir))
                    .map_err(|trouble| troubled(&joined(shown, &other), trouble))?;
            }
        }
        Ok(RecordedProgress {
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

    /// The digest that was noted, if this pair is finished.
    pub(crate) fn finished(&self, pair: Fingerprint) -> Option<Option<Digest>> {
        self.known.lock().finished(pair)
    }

    /// Whether it was made between the beginning of the first run and that of this one.
    pub(crate) fn is_born_since(&self, inode: &Inode) -> bool {
        self.earlier && inode.born.is_some_and(|born| self.journal.is_of_earlier_run(born))
    }

    /// Whether an earlier run made this directory.
    pub(crate) fn made(&self, directory: &Inode) -> bool {
        if !self.earlier {
            return false;
        }
        // What was written down may be lost with the power; the birth tells all the same, if nobody has put the clock back.
        let born_since = self.is_born_since(directory);
        born_since || matches!(self.known.lock().done.get(&key(b'm', Fingerprint::of_file(directory))), Ok(Some(_)))
    }

    /// Whether a source may have beginnings, or get some.
    pub(crate) fn is_worth_checkpoints(&self, source: &Inode) -> bool {
        source.size >= 2 * STEP || !self.known.lock().partial.is_empty()
    }

    /// What an earlier run has of this beginning; nobody else gets it.
    pub(crate) fn partial(&self, beginning: Fingerprint) -> Option<Partial> {
        self.known.lock().partial.remove(&beginning)
    }

    /// This run goes on with the file that has this number.
    pub(crate) fn adopt(&self, number: u64) {
        self.known.lock().adopted.insert(number);
    }

    /// Removes what earlier runs have left in a directory under temporary names; with `keep` not what this run may go
    /// on with. What cannot be removed stays: it is in nobody's way.
    pub(crate) fn tidy(&self, dir: BorrowedFd<'_>, keep: bool) {
        for entry in entries_of(dir) {
            let name = entry.file_name();
            let Some(number) = self.names.number_of(name.to_bytes()) else { continue };
            match self.fate_of(number, keep) {
                Fate::InUse => {}
                Fate::Useless => {
                    // It is in nobody's way, and the next run tries again.
                    unlinkat(dir, name, AtFlags::empty()).ok();
                }
                Fate::MayBeWanted => {
                    let Ok(dir) = fcntl_dupfd_cloexec(dir, 0) else { continue };
                    self.known.lock().kept.push((dir, number));
                }
            }
        }
    }

    /// What to do with a temporary file that has this number.
    fn fate_of(&self, number: u64, keep: bool) -> Fate {
        let known = self.known.lock();
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
    pub(crate) fn tidy_kept(&self) {
        let unwanted = {
            let mut known = self.known.lock();
            let mut kept = std::mem::take(&mut known.kept);
            kept.retain(|(_, number)| !known.adopted.contains(number));
            kept
        };
        for (dir, number) in unwanted {
            unlinkat(&dir, self.names.with_number(number), AtFlags::empty()).ok();
        }
    }

    /// Writes promises down; the error is to be reported once.
    pub(crate) fn promise(&self, records: &[Record], sync: bool) -> Result<(), Error> {
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

/// What earlier runs have finished, as a dry run reads it: nothing is written, and no other run is kept out.
pub(crate) struct EarlierRuns {
    known: Mutex<Known>,
    /// Of their files that are not whole.
    names: TemporaryNames,
    /// Of the journal of the first process; those of others begin with it.
    journal: OsString,
}

impl EarlierRuns {
    /// Reads their journals in this directory, of copies that get the name `last` there, or any if that is empty.
    pub(crate) fn look(plan: &Plan, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> Result<EarlierRuns, Error> {
        let command = command_in(plan, dir, last, shown)?;
        let mut known = Known::new(Pages::unlimited());
        let first = journal_name(&command, 0);
        for name in journals_of_others(dir, &first).into_iter().chain([first.clone()]) {
            journal::look(dir, &name, &command, &mut |record| known.learn(record, dir))
                .map_err(|trouble| troubled(&joined(shown, &name), trouble))?;
        }
        let names = TemporaryNames::new(format!("{TEMPORARY}{}", tag(&command)));
        Ok(EarlierRuns { known: Mutex::new(known), names, journal: first })
    }

    /// Whether the next run makes use of what has this name, or removes it by itself.
    pub(crate) fn have_left(&self, name: &OsStr) -> bool {
        name.as_bytes().starts_with(self.journal.as_bytes()) || self.names.number_of(name.as_bytes()).is_some()
    }

    /// Whether this pair is finished, and the digest that was noted.
    pub(crate) fn finished(&self, pair: Fingerprint) -> Option<Option<Digest>> {
        self.known.lock().finished(pair)
    }
}

/// What tells this command from others, with copies in this directory.
fn command_in(plan: &Plan, dir: BorrowedFd<'_>, last: &OsStr, shown: &OsStr) -> Result<Fingerprint, Error> {
    let here = if shown.is_empty() { OsStr::new(".") } else { shown };
    // A journal has nothing of files that are left out: they are copied when they are back, or without the option.
    let plan = Plan { skip_offline: false, ..plan.clone() };
    let command = Inode::of(dir).and_then(|holder| command(&plan, last, &holder));
    command.map_err(|errno| Error::new(What::NoJournal, here).errno(errno))
}

fn troubled(path: &Path, trouble: Trouble) -> Error {
    match trouble {
        Trouble::Busy => Error::new(What::JournalBusy, path),
        Trouble::Foreign => Error::new(What::JournalForeign, path),
        Trouble::Kernel(errno) => Error::new(What::NoJournal, path).errno(errno),
    }
}

/// Writes down in the journal how much of one file is on its device.
pub(crate) struct CheckpointLog<'a> {
    progress: &'a RecordedProgress,
    source: Fingerprint,
    file: Fingerprint,
    /// Of the temporary name.
    number: u64,
    complaint: Mutex<Option<Error>>,
}

impl<'a> CheckpointLog<'a> {
    /// Of a source, to a file under the temporary name with this number.
    pub(crate) fn new(
        progress: &'a RecordedProgress,
        [source, file]: [Fingerprint; 2],
        number: u64,
    ) -> CheckpointLog<'a> {
        CheckpointLog { progress, source, file, number, complaint: Mutex::default() }
    }

    /// The first error of the journal, once.
    pub(crate) fn take_complaint(&self) -> Option<Error> {
        self.complaint.lock().take()
    }
}

impl Log for CheckpointLog<'_> {
    fn checkpoint(&self, prefix: u64) {
        let record = Record::Partial { source: self.source, file: self.file, number: self.number, prefix };
        if let Err(error) = self.progress.promise(&[record], true) {
            self.complaint.lock().get_or_insert(error);
        }
    }
}

impl Known {
    fn new(done: Pages) -> Known {
        Known { done, partial: HashMap::new(), adopted: HashSet::default(), kept: Vec::new() }
    }

    /// The digest that was noted, if this pair is finished.
    fn finished(&mut self, pair: Fingerprint) -> Option<Option<Digest>> {
        // What cannot be looked up is copied again.
        let page = self.done.get(&key(b'p', pair)).ok().flatten()?;
        let digest = page.name.as_bytes();
        Some(if digest.is_empty() { None } else { Digest::from_bytes(digest) })
    }

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

pub(crate) fn key(kind: u8, print: Fingerprint) -> Key {
    let mut key = [0; KEY];
    key[0] = kind;
    key[1..17].copy_from_slice(&print.to_bytes());
    key
}

/// Whether the clock that files get their times from has gone on since the file changed: it does so every 10 ms at most, or
/// every 2 s where filesystems keep no parts of seconds.
pub(crate) fn has_settled(inode: &Inode) -> bool {
    let last = inode.changed;
    let whole_seconds = inode.changed.nanoseconds == 0 && inode.modified.nanoseconds == 0;
    let now = clock_gettime(ClockId::Realtime);
    let nanoseconds = |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    let since = nanoseconds(now.tv_sec, now.tv_nsec) - nanoseconds(last.seconds, last.nanoseconds.into());
    since > if whole_seconds { 2_000_000_000 } else { 20_000_000 }
}

pub(crate) fn tag(command: &Fingerprint) -> String {
    let mut tag = format!("{:016x}", command.half());
    tag.truncate(TAG);
    tag
}

/// That of one of several processes.
fn journal_name(command: &Fingerprint, rank: usize) -> OsString {
    let rank = if rank > 0 { format!(".{rank}") } else { String::new() };
    OsString::from(format!(".haul-resume-{:016x}{rank}", command.half()))
}

/// The journals that processes beside the first one have left in a directory.
pub(crate) fn journals_of_others(dir: BorrowedFd<'_>, first: &OsStr) -> Vec<OsString> {
    let is_of_other = |name: &[u8]| {
        let number = name.strip_prefix(first.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let names = entries_of(dir).map(|entry| entry.file_name().to_bytes().to_vec());
    let mut others: Vec<OsString> = names.filter(|name| is_of_other(name)).map(OsString::from_vec).collect();
    others.sort();
    others
}

#[cfg(test)]
#[path = "recorded_progress_tests.rs"]
mod tests;
