//! What the laboratory measures besides programs: copies by haul's library
//! and by exactly the calls that are named (`controlled`), the data that is copied, and whether a copy is right.
//! The rest is `haul-measure`.

pub mod controlled;
pub mod failure;
pub mod one_copy;
pub mod sources;
pub mod verify;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_measure::workspace::Kind;

/// The folders that are worked in. What is mounted in one is somebody else's.
pub const FOLDER: Kind = Kind { prefix: ".haul-lab-", mounts: false };

/// A flag that is set when standard input ends: then there is nobody any more who wants what this process does.
pub fn end_of_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).ok(); // an error is an end
        flag.store(true, Ordering::Relaxed);
    });
    ended
}
