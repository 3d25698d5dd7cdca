//! What a panic does to this process, and so to the job.

use std::io::Write;
use std::{io, panic, process, thread};

use crate::name::NAME;

/// From now on a panic is one message, and one of the calling thread ends the process, which ends the job.
///
/// The calling thread is the one that talks to the other processes. If it unwound, the threads of the run would wait for
/// it, and MPI's own end for processes that wait for this one.
///
/// The hook of the standard library would do for other threads, but for its backtrace: while it makes one it holds a lock
/// that it wants again when memory runs out, which is how a process hangs that has panicked for want of memory.
pub fn end_the_job() {
    let talker = thread::current().id();
    panic::set_hook(Box::new(move |info| {
        // There is no reader left for a complaint about that.
        writeln!(io::stderr(), "{NAME}: {info}").ok();
        if thread::current().id() == talker {
            process::abort();
        }
    }));
}
