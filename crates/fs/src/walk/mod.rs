//! Finding and naming files without ever resolving a path twice.
//!
//! The tree is walked by descriptors: a directory is opened once, by one name relative to its parent, and everything in
//! it is addressed as (descriptor, name). Paths exist for messages only, so trees deeper than PATH_MAX are no special
//! case, and swapping a directory for a symbolic link behind our back changes nothing.
//!
//! * [`Operand`] is a path that the user named, resolved once into (parent descriptor, last component).
//! * [`Spot`] is one entry: (descriptor, name). It is opened with O_NOFOLLOW and compared with what was seen before.
//!   That is what openat2(2) with RESOLVE_BENEATH gives for single components, without the need for it.
//! * [`Listing`] gives the names of a directory in batches of bounded size, in inode order.
//! * [`Descent`] is the way down to where a walk is: of its levels only the innermost are held open, the others are opened
//!   again by `..` and identity ([`open_above`]). [`Entered`] is a level of a walk over one tree.
//! * [`PathNode`] is a path for messages, a name and the node above it, so memory is linear in the depth and the
//!   lengths of names. A [`PathCursor`] makes whole paths of them, in the same memory each time.
//! * `identity` says whether two entries are two files where numbers do not tell, and recognises an entry that is met
//!   again.

mod cache_tag;
mod descent;
mod directory;
mod entered;
mod identity;
mod listing;
mod operand;
mod path;
mod spelling;
mod spot;
mod upwards;

pub use cache_tag::tagged_cache;
pub use descent::{Descent, Level};
pub use directory::{
    entries_of, is_empty_directory, is_mounted, open_directory, reopen_directory, set_noatime, sync_directory,
};
pub use entered::Entered;
pub use identity::{Identities, Identity, KnownEntry, Party, directory_id, name_one_directory, one_entry};
pub use listing::{Listed, Listing};
pub use operand::{Operand, ask_server_again, last_component, without_trailing_slashes};
pub use path::{PathCursor, PathNode, joined, path_below, renamed};
pub use spelling::{CASEFOLD, Names, case_counts, names_in, names_on};
pub use spot::Spot;
pub use upwards::{NotAbove, open_above, upwards};
