//! What the laboratory measures besides programs: copies by haul's library
//! and by exactly the calls that are named (`controlled`), the data that is copied, and whether a copy is right.
//! The rest is `haul-measure`.

pub mod controlled;
pub mod failure;
pub mod one_copy;
pub mod sources;
pub mod verify;

use haul_measure::workspace::Kind;

/// The folders that are worked in. What is mounted in one is somebody else's.
pub const FOLDER: Kind = Kind { prefix: ".haul-lab-", mounts: false };
