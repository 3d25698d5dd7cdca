//! Names in the results, by which the view finds them again.

pub const NAME: &str = "tune";
/// What is compared with all settings.
pub const DEFAULTS: &str = "defaults";
/// The end of the name of a group of fresh files.
pub const CONFIRMATION: &str = ", fresh files";
