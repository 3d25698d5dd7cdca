//! What a command makes of its own process before it copies: the library changes nothing of it.

use haul_sys::process_state;
use haul_sys::rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A reader that is gone ends the process, as it ends cp, and a limit of the size of files is an error of one file.
pub fn set_signals() {
    process_state::restore_sigpipe();
    process_state::ignore_sigxfsz();
}

/// A deep tree keeps two descriptors open for each level: all that the system allows may be used.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // A run with fewer descriptors copies the same files, only slower.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}
