//! What every stage of a copy may use, and changes nothing of.

use haul_sys::kernel::Kernel;

use super::services::Services;
use crate::attributes::Attributes;
use crate::decide::Wanted;
use crate::peers::PeerGroup;
use crate::plan::Plan;
use crate::publish::temporary::TemporaryNames;
use crate::report::Session;

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
    /// What sets attributes.
    pub fn attributes(self) -> Attributes<'a> {
        Attributes::new(self.plan, &self.session.xattr_rules, &self.services.memory, self.services.caller)
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
