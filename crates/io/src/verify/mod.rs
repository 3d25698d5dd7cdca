//! Whether a copy has the bytes of its source, and the digests of these: read again behind the copy, while both are still in
//! the page cache, or from the device when the copy is there.

mod blocks;
mod digest;
mod follower;
mod medium;

pub use blocks::{Blocks, Mismatch};
pub use digest::{Checksum, Digest};
pub use follower::{Checked, Follower, Trouble, Wishes};
pub use medium::{Finding, compare_with_device};
