//! Disks that lie in a file byte by byte: a raw image, and a VHD of fixed size, which has a footer behind the disk.

use super::disk::{Layout, Piece, Place, Ranges};
use super::tables::{Reader, Tables};
use crate::refusal::Refusal;

/// The first `size` bytes of the file are the disk.
pub(super) struct Plain {
    format: &'static str,
    size: u64,
}

impl Plain {
    pub fn new(format: &'static str, size: u64) -> Plain {
        Plain { format, size }
    }
}

pub(super) fn open(reader: &Reader) -> Result<Box<dyn Layout>, Refusal> {
    Ok(Box::new(Plain::new("raw", reader.size(0))))
}

impl Layout for Plain {
    fn format(&self) -> &'static str {
        self.format
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn piece(&self, _: &dyn Tables, at: u64, _: u64) -> Result<Piece, Refusal> {
        Ok(Piece { len: self.size.saturating_sub(at), place: Place::Stored { file: 0, offset: at } })
    }

    fn besides(&self, _: &Reader) -> Result<Option<Ranges>, Refusal> {
        Ok(Some(Vec::new()))
    }
}
