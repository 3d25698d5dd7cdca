//! The four checksums that a btrfs may be made with.

use blake2::Blake2b;
use blake2::digest::consts::U32;
use sha2::{Digest, Sha256};

use crate::bytes;
use crate::refusal::Refusal;

/// Where the checksum of a superblock or node ends, and what it covers begins.
pub const COVERS_FROM: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Crc32c,
    /// XXH64 with seed 0, eight bytes.
    Xxhash,
    Sha256,
    Blake2,
}

impl Checksum {
    /// The one of a superblock's `csum_type`.
    pub fn of_type(number: u16) -> Result<Checksum, Refusal> {
        match number {
            0 => Ok(Checksum::Crc32c),
            1 => Ok(Checksum::Xxhash),
            2 => Ok(Checksum::Sha256),
            3 => Ok(Checksum::Blake2),
            other => Err(Refusal::unsupported(format!("checksum type {other}"))),
        }
    }

    /// Its name, as mkfs.btrfs says it.
    pub fn name(self) -> &'static str {
        match self {
            Checksum::Crc32c => "crc32c",
            Checksum::Xxhash => "xxhash",
            Checksum::Sha256 => "sha256",
            Checksum::Blake2 => "blake2",
        }
    }

    /// Whether the checksum at the start of a superblock or node is that of the rest.
    pub fn is_right(self, block: &[u8]) -> Result<bool, Refusal> {
        let stored: [u8; COVERS_FROM] = bytes::array(block, 0)?;
        let covered = block.get(COVERS_FROM..).unwrap_or_default();
        Ok(match self {
            Checksum::Crc32c => stored.starts_with(&crc32c::crc32c(covered).to_le_bytes()),
            Checksum::Xxhash => stored.starts_with(&twox_hash::XxHash64::oneshot(0, covered).to_le_bytes()),
            Checksum::Sha256 => stored == *Sha256::digest(covered),
            Checksum::Blake2 => stored == *Blake2b::<U32>::digest(covered),
        })
    }
}
