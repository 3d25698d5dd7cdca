//! Which engine a user asks for.

use std::str::FromStr;

use haul_io::engine::EngineName;

/// Which engine moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The one that fits the facts best.
    Auto,
    /// This one; what it refuses goes on with `read-write` from the exact byte (only [`EngineName::Null`] has no help).
    Only(EngineName),
}

impl FromStr for EngineChoice {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        if name == "auto" {
            return Ok(EngineChoice::Auto);
        }
        EngineName::named(name).map(EngineChoice::Only).ok_or(())
    }
}
