//! Disks that lie in a file byte by byte: a raw image, and a VHD of fixed size, which has a footer behind the disk.

use super::disk::{Disk, Layout, Piece, Place};
use super::tables::{Reader, Tables};
use crate::refusal::Refusal;

/// The first bytes of the file, so many, are the disk.
pub(super) struct Plain(pub u64);

pub(super) fn open(reader: &Reader) -> Result<Disk, Refusal> {
    Ok(Disk::new("raw", reader.size(0), Plain(reader.size(0))))
}

impl Layout for Plain {
    fn piece(&self, _: &dyn Tables, at: u64, _: u64) -> Result<Piece, Refusal> {
        Ok(Piece { len: self.0.saturating_sub(at), place: Place::Stored { file: 0, offset: at } })
    }
}
