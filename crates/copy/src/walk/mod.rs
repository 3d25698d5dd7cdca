//! Finding and naming files without ever resolving a path twice.
//!
//! The tree is walked by descriptors: a directory is opened once, by one name relative to its parent, and everything in
//! it is addressed as (descriptor, name). Paths exist for messages only, so trees deeper than PATH_MAX are no special
//! case, and swapping a directory for a symbolic link behind our back changes nothing.

mod identity;
mod known_entry;
mod listing;
mod operand;
mod path;
mod shown;
mod spot;

pub use identity::{Identities, Identity, Party};
pub(crate) use known_entry::{KnownEntry, directory_id, one_entry};
pub use listing::{Listed, Listing};
pub use operand::{Operand, last_component, without_trailing_slashes};
pub use path::{PathCursor, PathNode};
pub(crate) use shown::{joined, renamed};
pub use spot::Spot;
