//! How a journal is written.

use super::super::sums::crc32c;
use super::super::superblock::Layout;
use crate::bytes::{be32, slice, u8_at};
use crate::refusal::{Refusal, corrupt_if, unsupported_if};

/// What each block of the journal that is not a copy starts with.
pub const MAGIC: u32 = 0xc03b_3998;

pub(super) mod incompat {
    pub const SIXTY_FOUR: u32 = 0x2;
    pub const CSUM_V2: u32 = 0x8;
    pub const CSUM_V3: u32 = 0x10;
    pub const FAST_COMMIT: u32 = 0x20;
    /// Revoked blocks and asynchronous commits too: the checksums of the latter are all verified.
    pub const KNOWN: u32 = 0x1 | SIXTY_FOUR | 0x4 | CSUM_V2 | CSUM_V3 | FAST_COMMIT;
}

/// What is guarded by checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sums {
    None,
    /// Each transaction as a whole.
    Transactions,
    /// Everything, with half of the checksum for the copies.
    V2,
    V3,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Bytes of a block.
    pub(super) block: usize,
    /// Block numbers have 64 bits.
    pub(super) wide: bool,
    pub(super) sums: Sums,
    /// Where CRC-32C starts.
    pub(super) seed: u32,
}

impl Form {
    /// The form that the superblock of the journal says, and its features.
    pub(super) fn parse(head: &[u8], layout: &Layout) -> Result<(Form, u32), Refusal> {
        let (compat, features) = (be32(head, 0x24)?, be32(head, 0x28)?);
        let unknown = compat & !1 != 0 || features & !incompat::KNOWN != 0 || be32(head, 0x2c)? != 0;
        unsupported_if(unknown, "unknown features of its journal")?;
        let sums = match (compat & 1, features & (incompat::CSUM_V2 | incompat::CSUM_V3)) {
            (0, 0) => Sums::None,
            (1, 0) => Sums::Transactions,
            (0, incompat::CSUM_V2) => Sums::V2,
            (0, incompat::CSUM_V3) => Sums::V3,
            _ => return Err(Refusal::corrupt("two kinds of checksums in its journal")),
        };
        let seed = crc32c(!0, slice(head, 0x30, 16)?);
        let form = Form { block: layout.block as usize, wide: features & incompat::SIXTY_FOUR != 0, sums, seed };
        if form.guarded() {
            unsupported_if(u8_at(head, 0x50)? != 4, "an unknown kind of checksum in its journal")?;
            let sum = crc32c(crc32c(crc32c(!0, slice(head, 0, 0xfc)?), &[0; 4]), slice(head, 0x100, 0x300)?);
            corrupt_if(sum != be32(head, 0xfc)?, "the checksum of the journal's superblock is wrong")?;
        }
        Ok((form, features))
    }

    /// Whether each block has a checksum.
    pub(super) fn guarded(&self) -> bool {
        matches!(self.sums, Sums::V2 | Sums::V3)
    }

    /// Bytes of a block of tags or revocations in front of its checksum.
    pub(super) fn body(&self) -> usize {
        self.block - if self.guarded() { 4 } else { 0 }
    }

    /// Checks the checksum at the end of a block of tags or revocations.
    pub(super) fn check(&self, block: &[u8]) -> Result<(), Refusal> {
        if !self.guarded() {
            return Ok(());
        }
        let sum = crc32c(crc32c(self.seed, slice(block, 0, self.body())?), &[0; 4]);
        corrupt_if(sum != be32(block, self.body())?, "a checksum in the journal is wrong")
    }
}
