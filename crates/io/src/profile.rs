//! Profiles: which settings were measured to be faster on a storage, as people and programs write them down.
//!
//! A profile changes only how bytes are moved, and on Lustre how new files are striped. What it says is a preference: what an
//! engine refuses goes on with another one, and what another option or the kind of the file demands comes first (see
//! [`crate::strategy`]).
//!
//! The file is TOML. [`parse`] refuses what it does not know, with line and key; [`to_text`] writes it.

mod read;
mod types;
mod write;

#[cfg(test)]
mod tests;

pub use read::parse;
pub use types::{
    Entry, FORMAT, LARGEST_BUFFER, LONGEST, MOST_WORKERS, Measured, Place, PlaceEntry, Preference, Profile, Searched,
    Setting, SizeClass, Source, StripeCount, Stripes, Striping, VERSION, may_be_preferred,
};
pub use write::to_text;
