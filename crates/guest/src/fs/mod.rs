//! Filesystems: each parser proves bytes free or refuses.

pub mod btrfs;
mod clusters;
pub mod exfat;
pub mod ext;
pub mod fat;
mod file_type;
mod free_map;
pub mod ntfs;
pub mod swap;
pub mod xfs;

pub use free_map::{Findings, FreeMap, Options};

/// All parsers.
pub const ALL: &[&dyn FreeMap] =
    &[&btrfs::Btrfs, &exfat::ExFat, &ext::Ext, &fat::Fat, &ntfs::Ntfs, &swap::Swap, &xfs::Xfs];
