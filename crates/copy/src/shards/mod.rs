//! Shards: several processes that copy parts of one tree, in any order and at the same time, and know of each other only by
//! what they find at the destination and in the state file (`state`).
//!
//! A directory that a shard of the job has made is known by its birth, which is not before that of the state file. Each shard
//! makes the directories that it needs, and sets their attributes when it is done with them; so the last one leaves them right.
//! Attributes that would stand in the way of other shards, or change what these make, are left to the last one that needs the
//! directory: which ones need it follows from the split, and which ones are done is in the state file.

mod record;
pub(crate) mod state;

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::Inode;
use parking_lot::Mutex;

use crate::error::{Error, What};
use crate::journal::Fingerprint;
use crate::journal::command::command;
use crate::list::{Index, Shard};
use crate::plan::{Backup, Destination, Durable, IfChanged, Job, Plan, Verify};
use crate::publish::temporary::TemporaryNames;
use crate::shards::record::Meaning;
use crate::shards::state::{Earlier, State, Trouble};
use crate::sources::operands::{holder_of, settle_destination};
use crate::walk::{last_component, without_trailing_slashes};
use crate::work::directory::Directory;

/// Before the command, the job, the shard and a number, in temporary names.
pub(crate) const TEMPORARY: &str = ".haul-s";

/// Hexadecimal digits of the last three of them.
const OTHER_DIGITS: usize = 4 + 5 + 16;

/// What this run shares with the other shards.
pub(crate) struct Shards {
    pub state: State,
    pub shard: Shard,
    pub earlier: Earlier,
    pub path: PathBuf,
    /// Directories that are left to the last shard that needs each.
    pub waiting: Mutex<Vec<Waiting>>,
    /// The job's temporary names, and those of this run among them.
    pub tag: String,
    pub names: TemporaryNames,
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

/// A directory, and its number in the list.
pub(crate) type Waiting = (Index, Arc<Directory>);

impl Shards {
    /// An earlier run of the shard may have made anything that this one will make, or a job that was not finished.
    pub(crate) fn is_repeated(&self) -> bool {
        self.earlier == Earlier::Begun
    }

    /// Whether this is a temporary name that nobody uses any more: of an earlier run of this shard, or of an earlier job.
    pub(crate) fn is_left_over(&self, name: &[u8], keeps_own: bool) -> bool {
        if let Some(number) = self.names.number_of(name) {
            return !keeps_own && !self.names.is_own(number);
        }
        let digits = name.strip_prefix(self.tag.as_bytes()).filter(|digits| digits.len() == OTHER_DIGITS);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let epoch = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let epoch = epoch.and_then(|digits| u32::from_str_radix(&digits[..4], 16).ok());
        epoch.is_some_and(|epoch| epoch != self.state.header.epoch & 0xffff)
    }
}

/// The command, whichever shard it is, and however certain and quick it is.
///
/// # Errors
/// As of [`command`].
pub(crate) fn job(plan: &Plan, last: &OsStr, holder: &Inode) -> Result<Fingerprint, Errno> {
    let plan = Plan {
        shard: Shard::new(1, 1),
        job: Job::Recorded,
        // What is divided, and how, is in the file.
        list: None,
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
pub(crate) fn roots(plan: &Plan, last: &OsStr) -> Vec<OsString> {
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
pub(crate) fn objection(trouble: Trouble, path: &Path, shard: Shard) -> Error {
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
/// Why that is unknown.
pub fn shard_status(plan: &Plan) -> Result<Option<ShardReport>, Error> {
    if let Some(path) = plan.ambiguous_destination() {
        return Err(Error::new(What::AmbiguousDestination, path));
    }
    let destination = settle_destination(plan);
    let what = match destination {
        Destination::Directory(_) => What::TargetDirectory,
        Destination::Exactly(_) | Destination::Guess(_) => What::CannotAccess,
    };
    let holder = holder_of(&destination).map_err(|errno| Error::new(what, destination.path()).errno(errno));
    let (holder, last, shown) = holder?;
    let command = Inode::of(holder.as_fd()).and_then(|inode| job(plan, &last, &inode));
    let command = command.map_err(|errno| Error::new(What::CannotAccess, &shown).errno(errno))?;
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
