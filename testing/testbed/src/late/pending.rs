//! Bytes that were written to a view and are not in the backing file yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// So much may be pending for one file; then it is written, as a machine does that wants its memory back.
pub(super) const MOST: usize = 64 << 20;

/// What is pending for one file, in the order in which it was written.
#[derive(Debug, Default)]
pub(super) struct Pending {
    writes: Vec<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Pending {
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) {
        self.bytes += data.len();
        match self.writes.last_mut() {
            Some((at, last)) if *at + last.len() as u64 == offset => last.extend_from_slice(data),
            _ => self.writes.push((offset, data.to_vec())),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > MOST
    }

    /// The offset behind the last pending byte.
    pub(super) fn end(&self) -> u64 {
        self.writes.iter().map(|(offset, data)| offset + data.len() as u64).max().unwrap_or(0)
    }

    /// Puts the pending bytes over those that were read at `offset` of a file with `size` bytes; gives back at most `len`.
    pub(super) fn over(&self, offset: u64, mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
        let end = self.end().saturating_sub(offset).min(len as u64) as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        let stop = offset + bytes.len() as u64;
        for (at, data) in &self.writes {
            let (from, to) = ((*at).max(offset), (at + data.len() as u64).min(stop));
            if from < to {
                let part = &data[(from - at) as usize..(to - at) as usize];
                bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        bytes
    }

    /// Writes everything. What failed is not pending any more either: its error is reported once.
    pub(super) fn write(&mut self, file: &File) -> io::Result<()> {
        self.bytes = 0;
        std::mem::take(&mut self.writes).iter().try_for_each(|(offset, data)| file.write_all_at(data, *offset))
    }
}

#[cfg(test)]
mod tests {
    use super::Pending;

    #[test]
    fn later_writes_lie_over_earlier_ones_and_over_the_file() {
        let mut pending = Pending::default();
        pending.add(2, b"bbb");
        pending.add(8, b"cc");
        pending.add(3, b"d");
        assert_eq!(pending.over(0, b"aaaa".to_vec(), 100), b"aabdb\0\0\0cc");
        assert_eq!(pending.over(3, b"a".to_vec(), 3), b"db\0");
    }

    #[test]
    fn nothing_pending_changes_nothing() {
        assert_eq!(Pending::default().over(5, b"abc".to_vec(), 10), b"abc");
    }
}
