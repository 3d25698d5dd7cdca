//! Says how a copy differs from its source. Nothing is written.
//!
//! One thread walks the source and puts batches of names on a board (`board`), from which threads take them, and other
//! processes, if there are any (`helper`, `wire`). They compare what has these names on both sides (`names`, `entry`). What
//! they found is reported in the order of the walk (`row`), by the thread that walks, so the order does not depend on theirs.
//! Batches under way are bounded, and so is what waits to be reported; nothing else grows with the tree but the table of hard
//! links.

mod board;
mod difference;
mod entry;
mod helper;
mod links;
mod names;
mod row;
mod session;
mod walk;
mod wire;

pub use board::{Board, Heard};
pub use difference::{Difference, Found};
pub(crate) use entry::are_alike;
pub use helper::Helper;
pub use session::{Observer, Session, Summary};
pub use walk::{compare, threads};
