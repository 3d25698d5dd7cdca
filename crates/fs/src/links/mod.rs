//! What was made for which source, in memory of bounded size: files that have several names, and directories of the
//! destination, which are found again by their names and identity.

mod dest_dir;
mod made;
pub mod pages;
mod table;

pub use dest_dir::{DestDir, duplicate};
pub use made::Made;
pub use table::{Claim, LinkTable, Source};
