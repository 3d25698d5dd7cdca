//! What stops and slows the work of a run, and who hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_io::pace::Pace;

use crate::events::Observer;

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

/// What a transfer obeys, and whom it reports to.
#[derive(Clone, Copy)]
pub(crate) struct Control<'a> {
    /// Hears of progress, and of how a file was moved.
    pub observer: &'a dyn Observer,
    /// Stops it.
    pub cancel: &'a Cancel,
    /// How fast it may go.
    pub pace: &'a Pace,
}
