//! Reading blocks, as they are on the disk or as they will be after a replay of the journal.

use std::collections::HashMap;

use super::jbd2::form::MAGIC;
use super::superblock::{AT, LEN, Layout};
use crate::bytes::{product, slice};
use crate::image::View;
use crate::refusal::Refusal;

/// The newest committed version of a block, in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    /// The block of the filesystem where it is.
    pub(super) at: u64,
    /// Its first four bytes were replaced, since they look like those of the journal.
    pub(super) escaped: bool,
}

/// What a replay would write: by block number.
pub(super) type Replayed = HashMap<u64, Version>;

pub(super) struct Blocks<'a> {
    pub(super) region: &'a View<'a>,
    size: u32,
    replayed: Option<&'a Replayed>,
}

impl<'a> Blocks<'a> {
    pub(super) fn on_disk(region: &'a View<'a>, layout: &Layout) -> Blocks<'a> {
        Blocks { region, size: layout.block, replayed: None }
    }

    pub(super) fn after(&self, replayed: &'a Replayed) -> Blocks<'a> {
        Blocks { region: self.region, size: self.size, replayed: Some(replayed) }
    }

    /// `count` blocks one behind the other, at most [`LARGEST_PIECE`](crate::budget::LARGEST_PIECE) bytes.
    pub(super) fn read_run(&self, first: u64, count: u64) -> Result<Vec<u8>, Refusal> {
        let size = u64::from(self.size);
        let mut bytes = self.region.read(product(first, size)?, product(count, size)? as usize)?;
        if self.replayed.is_some_and(|replayed| !replayed.is_empty()) {
            for (block, bytes) in (first..).zip(bytes.chunks_exact_mut(self.size as usize)) {
                if self.version(block).is_some() {
                    bytes.copy_from_slice(&self.read(block)?);
                }
            }
        }
        Ok(bytes)
    }

    fn version(&self, block: u64) -> Option<&Version> {
        self.replayed.and_then(|replayed| replayed.get(&block))
    }

    pub(super) fn read(&self, block: u64) -> Result<Vec<u8>, Refusal> {
        let version = self.version(block);
        let at = version.map_or(block, |version| version.at);
        let mut bytes = self.region.read(product(at, u64::from(self.size))?, self.size as usize)?;
        if version.is_some_and(|version| version.escaped) {
            let magic = MAGIC.to_be_bytes();
            bytes.iter_mut().zip(magic).for_each(|(byte, magic)| *byte = magic);
        }
        Ok(bytes)
    }

    pub(super) fn superblock(&self, layout: &Layout) -> Result<Vec<u8>, Refusal> {
        if self.replayed.is_none() {
            return self.region.read(AT, LEN);
        }
        let (block, offset) = layout.superblock();
        Ok(slice(&self.read(block)?, offset, LEN)?.to_vec())
    }
}
