//! What haul must reach.

use serde_json::{Value, json};

/// What must be true of haul's medians in one workload.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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

impl Target {
    /// As it is saved.
    pub fn to_json(self) -> Value {
        json!({
            "returned": self.returned, "durable": self.durable, "cpu": self.cpu, "seconds": self.seconds,
            "not_behind": self.not_behind,
        })
    }

    /// What [`Target::to_json`] gave.
    pub fn from_json(value: &Value) -> Target {
        let number = |name: &str| value[name].as_f64();
        Target {
            returned: number("returned"),
            durable: number("durable"),
            cpu: number("cpu"),
            seconds: number("seconds"),
            not_behind: value["not_behind"].as_bool() == Some(true),
        }
    }
}
