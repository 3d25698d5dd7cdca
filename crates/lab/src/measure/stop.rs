//! Ctrl-C and its like.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_sys::process_state::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether the measuring is to end. Clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Set by the signals that end a program, but for those that this process was started to ignore.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if !is_ignored(signal) {
                signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
            }
        }
        Ok(stop)
    }

    /// Asks for the end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked for.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
