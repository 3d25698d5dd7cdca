//! Everything that is no directory, from its two sides to a whole copy. `regular` is the way of one regular file, top-down.

pub(crate) mod check;
pub(crate) mod fill;
pub(crate) mod image;
pub(crate) mod open;
pub(crate) mod regular;
pub(crate) mod special;
pub(crate) mod striping;
pub(crate) mod temporary_file;
