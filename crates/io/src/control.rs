//! What stops and slows a transfer, and who hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::pace::Pace;

use crate::moved::Moved;

/// Asks everything that has a clone of it to stop. Clones share one flag; setting it is async-signal-safe.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Stops it after the piece of data that is being moved.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether somebody has asked for that.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// Hears how far transfers are.
pub trait Progress: Sync {
    /// So many more bytes were moved.
    fn moved(&self, more: Moved);

    /// Whether a report must name every engine that would have refused, also those that are known to from other files.
    fn wants_all(&self) -> bool;
}

/// What a transfer obeys, and who hears of it.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Hears how far it is.
    pub progress: &'a dyn Progress,
    /// Stops it.
    pub cancel: &'a Cancel,
    /// How fast it may go.
    pub pace: &'a Pace,
}
