//! Hard links and directories of the destination: what was made for which source, in memory of bounded size, and how that is
//! found again by its identity.

mod dest_dir;
mod link;
mod made;
pub(crate) mod pages;
mod table;

pub(crate) use dest_dir::{DestDir, duplicate};
pub(crate) use link::link_to;
pub(crate) use made::Made;
pub(crate) use table::{Claim, LinkTable, Source};
