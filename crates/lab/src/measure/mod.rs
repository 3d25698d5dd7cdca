//! What the laboratory measures besides programs: copies by haul's library, the data that is copied, and whether a copy is right.
//! The rest is `haul-measure`.

pub mod one_copy;
pub mod sources;
pub mod verify;

use haul_measure::workspace::Kind;

/// The folders that are worked in. What is mounted in one is somebody else's.
pub const FOLDER: Kind = Kind { prefix: ".haul-lab-", mounts: false };
