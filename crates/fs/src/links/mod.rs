//! What was made for which source, in memory of bounded size: files that have several names, and directories of the
//! destination, which are found again by their names and identity.

mod dest_dir;
pub mod pages;
mod table;

pub use dest_dir::{DestDir, Made, duplicate};
pub use table::{Claim, LinkTable, Source};
