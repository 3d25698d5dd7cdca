//! What a run says while it goes: who follows and stops it, and what one thread reports to them.

pub(crate) mod reporter;
pub(crate) mod session;

pub(crate) use reporter::{Reported, Reporter};
pub use session::Session;
