//! Which bytes of a disk image its guests use.
//!
//! [`map()`] finds the partitions, volumes and filesystems of an image and asks each filesystem's own allocation map
//! which bytes are provably free. What is not proven free counts as used: a filesystem that is dirty, damaged,
//! ambiguous or unknown is used as a whole, and the report says why.
//!
//! * **Knows** partition tables, LVM, filesystems and image containers. It reads the image alone, by positioned reads:
//!   no mount, no loop device, no privilege.
//! * **Must not know** copying or any other crate of haul.
//! * Images are hostile until proven otherwise: arithmetic is checked, every read is counted against a [`Budget`], and
//!   a parser that fails in any way costs no more than its region's savings.
#![forbid(unsafe_code)]

mod budget;
pub mod bytes;
pub mod container;
pub mod crc32;
pub mod extents;
pub mod fs;
mod guard;
pub mod image;
mod lvm;
pub mod map;
mod partition;
mod probe;
pub mod refusal;
pub mod report;
mod tail;

pub use budget::Budget;
pub use extents::{Extent, ExtentSet};
pub use image::{ReadAt, View, Witness};
pub use map::{map, map_with};
pub use refusal::Refusal;
pub use report::{Map, Region, Verdict};
