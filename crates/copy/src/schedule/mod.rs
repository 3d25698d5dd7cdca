//! Several threads for one piece of work: who waits for some, how many may work, and events in the order of one thread.
//!
//! It knows nothing of what a task is.

pub(crate) mod limits;
pub(crate) mod order;
pub(crate) mod ordered;
pub(crate) mod pool;
