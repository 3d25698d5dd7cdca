//! The two kinds of lists in a journal: which block each copy belongs to, and which blocks are not to be written.

use super::form::{Form, Sums};
use crate::bytes::{be16, be32, be64, slice};
use crate::refusal::{Refusal, corrupt_if};

const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const LAST: u32 = 8;

/// What a descriptor block says of one of the copies behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// The block of the filesystem that it is a copy of.
    pub(super) block: u64,
    /// Its first four bytes were replaced.
    pub(super) escaped: bool,
    /// Its checksum, or the lower half.
    pub(super) sum: u32,
}

pub(super) fn tags(form: &Form, descriptor: &[u8]) -> Result<Vec<Tag>, Refusal> {
    let body = slice(descriptor, 0, form.body())?;
    let len = match form.sums {
        Sums::V3 => 16,
        Sums::V2 => 10,
        Sums::None | Sums::Transactions => 8,
    } + if form.wide && form.sums != Sums::V3 { 4 } else { 0 };
    let mut found = Vec::new();
    let mut at = 12;
    while at + len <= body.len() {
        let tag = slice(body, at, len)?;
        let low = u64::from(be32(tag, 0)?);
        let (flags, high, sum) = match form.sums {
            // Its upper half is there without 64bit too.
            Sums::V3 => (be32(tag, 4)?, be32(tag, 8)?, be32(tag, 12)?),
            _ => (u32::from(be16(tag, 6)?), if form.wide { be32(tag, 8)? } else { 0 }, u32::from(be16(tag, 4)?)),
        };
        let odd = flags & !(ESCAPED | SAME_UUID | LAST) != 0 || (high != 0 && !form.wide);
        corrupt_if(odd, "a tag in the journal makes no sense")?;
        found.push(Tag { block: u64::from(high) << 32 | low, escaped: flags & ESCAPED != 0, sum });
        if flags & LAST != 0 {
            return Ok(found);
        }
        at += len + if flags & SAME_UUID == 0 { 16 } else { 0 };
    }
    // The kernel takes it, but never writes it.
    Err(Refusal::corrupt("a list of tags in the journal has no end"))
}

/// The blocks that a revocation block names.
pub(super) fn revoked(form: &Form, block: &[u8]) -> Result<Vec<u64>, Refusal> {
    let used = be32(block, 12)? as usize;
    let len = if form.wide { 8 } else { 4 };
    let wrong = used < 16 || used > form.body() || !(used - 16).is_multiple_of(len);
    corrupt_if(wrong, "a list of revoked blocks has a wrong length")?;
    let list = slice(block, 16, used - 16)?;
    list.chunks_exact(len)
        .map(|record| if form.wide { be64(record, 0) } else { Ok(u64::from(be32(record, 0)?)) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(sums: Sums, wide: bool) -> Form {
        Form { block: 1024, wide, sums, seed: 0 }
    }

    fn block(head: usize, bytes: &[u8]) -> Vec<u8> {
        let mut block = vec![0; 1024];
        block[head..head + bytes.len()].copy_from_slice(bytes);
        block
    }

    #[test]
    fn tags_are_read_in_each_of_their_shapes() {
        let short = block(12, &[&[0, 0, 0, 7, 0, 0, 0, 1][..], &[9; 16], &[0, 0, 0, 8, 0, 0, 0, 10]].concat());
        let found = tags(&form(Sums::None, false), &short).unwrap();
        assert_eq!(found.iter().map(|tag| (tag.block, tag.escaped)).collect::<Vec<_>>(), [(7, true), (8, false)]);
        let wide = block(12, &[0, 0, 0, 7, 0, 0, 0, 10, 0, 0, 0, 1]);
        assert_eq!(tags(&form(Sums::None, true), &wide).unwrap()[0].block, 1 << 32 | 7);
        let v2 = block(12, &[0, 0, 0, 7, 1, 2, 0, 2, 0, 0, 0, 0, 0, 8, 0, 0, 0, 10]);
        let found = tags(&form(Sums::V2, false), &v2).unwrap();
        assert_eq!(found.iter().map(|tag| (tag.block, tag.sum)).collect::<Vec<_>>(), [(7, 0x102), (8, 0)]);
        let v3 = block(12, &[0, 0, 0, 7, 0, 0, 0, 10, 0, 0, 0, 2, 1, 2, 3, 4]);
        assert_eq!(
            tags(&form(Sums::V3, true), &v3).unwrap(),
            [Tag { block: 2 << 32 | 7, escaped: false, sum: 0x0102_0304 }]
        );
    }

    #[test]
    fn a_list_of_tags_without_an_end_is_refused() {
        assert!(tags(&form(Sums::V3, true), &vec![0; 1024]).is_err());
        assert!(tags(&form(Sums::None, false), &block(12, &[0, 0, 0, 7, 0, 4, 0, 10])).is_ok());
        assert!(tags(&form(Sums::None, false), &block(12, &[0, 0, 0, 7, 0, 0, 0, 4 | 8])).is_err());
    }

    #[test]
    fn a_list_of_revoked_blocks_must_be_whole() {
        assert_eq!(
            revoked(&form(Sums::None, false), &block(12, &[0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0, 6])).unwrap(),
            [5, 6]
        );
        assert_eq!(
            revoked(&form(Sums::V3, true), &block(12, &[0, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 6])).unwrap(),
            [1 << 32 | 6]
        );
        assert!(revoked(&form(Sums::V3, true), &block(12, &[0, 0, 0, 20])).is_err());
        assert!(revoked(&form(Sums::V3, true), &block(12, &[0, 0, 0, 15])).is_err());
        assert!(revoked(&form(Sums::V3, true), &block(12, &[0xff; 4])).is_err());
    }
}
