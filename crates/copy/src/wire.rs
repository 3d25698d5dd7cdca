//! What all messages between processes of one job are made of.
//!
//! All of them run the same version of this program, so there is no version in here. What cannot be understood is `None`,
//! never a panic and never a large allocation: a length is believed only as far as there are bytes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A message that is being written. Numbers are little-endian.
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn byte(&mut self, byte: u8) -> &mut Writer {
        self.0.push(byte);
        self
    }

    pub fn number(&mut self, number: u64) -> &mut Writer {
        self.bytes(&number.to_le_bytes())
    }

    /// As they are; who reads them knows how many.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    /// With its length.
    pub fn text(&mut self, text: &OsStr) -> &mut Writer {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }
}

/// What is left of a message that is being read.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn text(&mut self) -> Option<OsString> {
        let count = usize::try_from(self.number()?).ok()?;
        Some(OsString::from_vec(self.take(count)?.to_vec()))
    }
}
