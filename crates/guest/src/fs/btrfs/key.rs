//! Keys: what the items of the trees are sorted by.

use crate::bytes::{self, le64, u8_at};
use crate::refusal::Refusal;

/// The kinds of items that are looked at.
pub mod kind {
    pub const EXTENT_DATA: u8 = 108;
    pub const ROOT: u8 = 132;
    pub const EXTENT: u8 = 168;
    pub const METADATA: u8 = 169;
    pub const TREE_BLOCK_REF: u8 = 176;
    pub const EXTENT_DATA_REF: u8 = 178;
    pub const SHARED_BLOCK_REF: u8 = 182;
    pub const SHARED_DATA_REF: u8 = 184;
    pub const BLOCK_GROUP: u8 = 192;
    pub const FREE_SPACE_INFO: u8 = 198;
    pub const FREE_SPACE_EXTENT: u8 = 199;
    pub const FREE_SPACE_BITMAP: u8 = 200;
    pub const DEVICE_EXTENT: u8 = 204;
    pub const DEVICE: u8 = 216;
    pub const CHUNK: u8 = 228;
    pub const PERSISTENT: u8 = 249;
    pub const DEVICE_REPLACE: u8 = 250;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub objectid: u64,
    pub kind: u8,
    pub offset: u64,
}

impl Key {
    /// Its length in bytes.
    pub const SIZE: usize = 17;

    /// The key at `offset`.
    pub fn parse(from: &[u8], offset: usize) -> Result<Key, Refusal> {
        let field = bytes::slice(from, offset, Key::SIZE)?;
        Ok(Key { objectid: le64(field, 0)?, kind: u8_at(field, 8)?, offset: le64(field, 9)? })
    }
}
