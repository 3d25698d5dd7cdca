//! What the stages of a copy work with: the services that all threads share, what one thread owns, and the two together with
//! the plan.

pub(crate) mod deletions;
pub(crate) mod free_space;
pub(crate) mod kept;
pub(crate) mod name_queue;
pub(crate) mod stays;
pub(crate) mod striping;
#[cfg(test)]
pub(crate) mod test_support;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use haul_image::Look;
use haul_io::transfer::{self, Buffers, Mover};
use haul_sys::inode::{DeviceNumber, FileId, Inode, Kind};
use haul_sys::kernel::Kernel;
use parking_lot::Mutex;

use deletions::Deletions;
use free_space::FreeSpaceGate;
use kept::KeptCopies;
use name_queue::NameQueue;
use stays::Stays;
use striping::StripedFilesystems;

use crate::attributes::{Attributes, DeferredFlags};
use crate::decide::Wanted;
use crate::events::{DataReport, Event};
use crate::journal::Record;
use crate::links::LinkTable;
use crate::meta::{self, Caller, KnownFilesystems, NewEntries};
use crate::offline::OfflineFiles;
use crate::peers::PeerGroup;
use crate::plan::Plan;
use crate::publish::background_sync::BackgroundSync;
use crate::publish::filesystems::Filesystems;
use crate::publish::temporary::TemporaryNames;
use crate::recorded_progress::{EarlierRuns, RecordedProgress};
use crate::report::{Reporter, Session};
use crate::schedule::order::Order;
use crate::shards::Shards;
use crate::sources::selection::Selection;
use crate::walk::{Identities, PathCursor};
use crate::work::file_data::{Broken, FileData};

/// What every stage of a copy may use: what is asked for, who follows and stops it, and what the threads share.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub plan: &'a Plan,
    /// As one thread has it: its observer keeps the order of events.
    pub session: &'a Session<'a>,
    pub services: &'a Services,
    /// What syncs files, shares their extents and opens them again. Engines, which move the data, have their own.
    pub kernel: &'a dyn Kernel,
    /// The other processes, if there are any.
    pub peers: Option<&'a PeerGroup<'a>>,
}

impl<'a> RunContext<'a> {
    pub fn attributes(self) -> Attributes<'a> {
        Attributes::new(self.plan, &self.session.xattr_rules, &self.services.memory, self.services.caller)
    }

    /// The mode to make an entry of this kind with, in a directory of which this is known.
    pub fn creation_mode(self, kind: Kind, source: &Inode, entries: &NewEntries) -> u32 {
        meta::creation_mode(kind, source, entries, &self.plan.preserve, self.services.caller).mode
    }

    /// Temporary names. Where a later run of the same command will look for them, they are names that it knows.
    pub fn temporary_names(self) -> &'a TemporaryNames {
        let services = self.services;
        let of_shard = services.shards.get().map(|shards| &shards.names);
        services.progress.get().map(|progress| &progress.names).or(of_shard).unwrap_or(&services.names)
    }

    pub fn names_if(self, wanted: bool) -> Option<&'a TemporaryNames> {
        wanted.then(|| self.temporary_names())
    }

    /// Which entries of the sources are copied.
    pub fn wanted(self) -> Wanted<'a> {
        Wanted::new(self.plan, &self.session.skip_files)
    }

    /// Waits for the turn to make a file. Returns at once in a cancelled run, which stops where it always does.
    pub fn wait_to_make(self) {
        let _came = self.session.pace.turn_to_make(&|| self.cancelled());
    }

    pub fn cancelled(self) -> bool {
        self.session.cancel.is_cancelled()
    }
}

/// A disk in several files that was searched for a hibernated system.
pub(crate) struct SearchedDisk {
    /// Its files, as they were then.
    pub files: Vec<(FileId, Look)>,
    pub found: bool,
}

/// What all threads of a run share.
pub(crate) struct Services {
    /// What was made for source files that have several names, and for directories.
    pub links: LinkTable,
    /// Sources that a move leaves where they are, whatever stands at the destination.
    pub stays: Stays,
    /// Which source each existing file of several names was found to be the copy of, with `--update=changed` and `content`.
    pub kept: KeptCopies,
    /// Which file each operand of a move was when it was looked at, by its number; none once it was renamed.
    pub operands: Mutex<BTreeMap<usize, Option<FileId>>>,
    /// Those that it has renamed, or is about to rename, where others go into the same directories.
    pub renamed: Stays,
    /// Which attributes cannot be kept between two filesystems, and were warned about.
    pub memory: KnownFilesystems,
    /// Which filesystems show files of others.
    pub identities: Identities,
    pub offline: OfflineFiles,
    /// How Lustre stripes new files, if the profile says so.
    pub striped: StripedFilesystems,
    /// What was found out about filesystems, devices and memory.
    pub transfers: Arc<transfer::Shared>,
    pub space_gate: FreeSpaceGate,
    /// Whose turn it is to look at a disk image, and to copy it; and the disk that was searched for a hibernated system last.
    pub images: Mutex<Option<SearchedDisk>>,
    /// Which existing directories several threads may meet.
    pub order: Order,
    /// The filesystems that are written to, where what is written has to reach its device; their syncs while files are still being
    /// copied; and what waits for its name until it is on its device.
    pub filesystems: Filesystems,
    pub background_sync: BackgroundSync,
    pub name_queue: NameQueue,
    /// The journal, with `--resume`.
    pub progress: OnceLock<RecordedProgress>,
    /// The same of a dry run, which has no journal.
    pub earlier_runs: OnceLock<EarlierRuns>,
    /// What is to be copied, if it is not everything.
    pub selection: Option<Selection>,
    /// Temporary names where no later run will look for them.
    pub names: TemporaryNames,
    /// The state of the job that this run is a shard of.
    pub shards: OnceLock<Shards>,
    /// What is removed since the source does not have it.
    pub deletions: Deletions,
    /// Who runs the process.
    pub caller: Caller,
}

impl Services {
    /// `several`: more than one thread may be at work.
    pub fn new(selection: Option<Selection>, caller: Caller, several: bool) -> Services {
        Services {
            links: LinkTable::default(),
            stays: Stays::default(),
            kept: KeptCopies::default(),
            operands: Mutex::default(),
            renamed: Stays::default(),
            memory: KnownFilesystems::new(),
            identities: Identities::default(),
            offline: OfflineFiles::default(),
            striped: StripedFilesystems::default(),
            transfers: Arc::default(),
            space_gate: FreeSpaceGate::new(several),
            images: Mutex::default(),
            order: Order::default(),
            filesystems: Filesystems::default(),
            background_sync: BackgroundSync::default(),
            name_queue: NameQueue::default(),
            progress: OnceLock::new(),
            earlier_runs: OnceLock::new(),
            selection,
            names: TemporaryNames::anybodys(),
            shards: OnceLock::new(),
            deletions: Deletions::default(),
            caller,
        }
    }
}

/// What one thread of a run works with: what it shares with others, and what it owns. Nothing in it is about one file.
pub(crate) struct Worker<'a> {
    pub cx: RunContext<'a>,
    pub report: Reporter<'a>,
    /// Moves data; owns the engines.
    pub mover: Mover,
    /// What was finished since the journal was written last.
    pub finished: Vec<Record>,
    /// Files whose last flags wait for their last hard link.
    pub deferred: Vec<DeferredFlags>,
    /// The filesystem that was written to last, where that matters.
    pub writes_to: Option<DeviceNumber>,
    /// Memory for the two paths of the next entry of a directory.
    pub paths: [PathCursor; 2],
    /// Memory for comparisons of small files.
    pub buffers: Buffers,
}

impl<'a> Worker<'a> {
    pub fn new(cx: RunContext<'a>) -> Worker<'a> {
        Worker {
            cx,
            report: Reporter::new(cx.session, cx.plan.fail_fast, cx.services.deletions.copy_failed()),
            mover: Mover::new(Arc::clone(&cx.services.transfers)),
            finished: Vec::new(),
            deferred: Vec::new(),
            writes_to: None,
            paths: Default::default(),
            buffers: Buffers::for_size(0),
        }
    }

    /// Moves the data of a file, as [`Mover::move_data`] does; beside that, reports when it begins and how it went, and counts.
    pub fn move_and_report(&mut self, job: &FileData<'_>) -> Result<(), Broken> {
        let (cx, source, dest) = (self.cx, job.source_path, job.dest_path);
        let (session, size) = (cx.session, job.transfer.source_inode.size);
        session.tell_of_data(|| Event::DataStarted { source: source.into(), size });
        let done = self.mover.move_data(&job.transfer, &cx.plan.data, session.control());
        self.report.stats.count_data(&done);
        session.tell_of_data(|| Event::DataDone(data_report(job, &done)));
        done.stopped.map_or(Ok(()), |stop| Err(Broken::of(stop, [source, dest])))
    }
}

/// What became of the data of a file, in the words of events.
fn data_report<'a>(job: &FileData<'a>, done: &'a transfer::Report) -> DataReport<'a> {
    let steps = &done.steps;
    let tried =
        if done.known.is_empty() { Cow::from(&done.tried) } else { [&done.known[..], &done.tried].concat().into() };
    DataReport {
        source: job.source_path.into(),
        dest: job.dest_path.into(),
        reasons: Cow::Borrowed(&steps.reasons),
        profile: steps.profile.zip(done.profile_origin.as_deref().map(Cow::Borrowed)),
        tried,
        holes: steps.hole_search(),
        moved: done.moved,
        workers: done.workers,
        time: done.time,
        image: job.image.cloned().map(Arc::new),
    }
}
