//! The checksums of version 5.

use crate::bytes::{array, slice};
use crate::refusal::{Refusal, corrupt_if};

/// Compares the CRC-32C of a whole structure, which is there little-endian and counts as zero itself.
pub fn verify(bytes: &[u8], at: usize, what: &str) -> Result<(), Refusal> {
    let stored = u32::from_le_bytes(array(bytes, at)?);
    let crc = crc32c::crc32c(slice(bytes, 0, at)?);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let behind = at + 4;
    let crc = crc32c::crc32c_append(crc, slice(bytes, behind, bytes.len() - behind)?);
    corrupt_if(crc != stored, format_args!("the checksum of {what} is wrong"))
}
