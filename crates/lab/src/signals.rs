//! Ctrl-C and its like.

use std::io;
use std::sync::Arc;

use haul_measure::stop::Stop;
use haul_sys::process_state::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

/// The wish to end, set by the signals that end a program, but for those that this process was started to ignore.
pub fn stop() -> io::Result<Stop> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if !is_ignored(signal) {
            // The second one ends the process at once; the guard of the workspace tidies up.
            register_conditional_shutdown(signal, 128 + signal, stop.flag())?;
            register(signal, stop.flag())?;
        }
    }
    // A guard that is gone is an error to be reported, not the end.
    register(SIGPIPE, Arc::default())?;
    Ok(stop)
}

/// Ignores what ends a program, for the guard: it ends with the pipe that it reads.
pub fn ignore() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE] {
        register(signal, Arc::default())?;
    }
    Ok(())
}
