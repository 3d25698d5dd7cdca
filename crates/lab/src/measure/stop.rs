//! Ctrl-C and its like.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_sys::process_state::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};

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
                // The second one ends the process at once; the guard of the workspace tidies up.
                signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.0))?;
                signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
            }
        }
        // A guard that is gone is an error to be told, not the end.
        signal_hook::flag::register(SIGPIPE, Arc::default())?;
        Ok(stop)
    }

    /// Ignores what ends a program, for the guard: it ends with the pipe that it reads.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn never_on_signals() -> io::Result<()> {
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(())
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
