//! What haul must reach.

use serde::{Deserialize, Serialize};

/// What must be true of haul's medians in one workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// cp's time until it returned is at least this many times haul's.
    pub returned: Option<f64>,
    /// The same until the copy is durable.
    pub durable: Option<f64>,
    /// haul's CPU time is at most this share of cp's.
    pub cpu: Option<f64>,
    /// It returns within so many seconds.
    pub seconds: Option<f64>,
    /// No peer that does the whole task returns earlier.
    pub not_behind: bool,
}
