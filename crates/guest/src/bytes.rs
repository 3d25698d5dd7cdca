//! Numbers out of bytes that somebody else wrote: a field that is not there is a refusal, never a panic.

use std::ops::{Range, RangeInclusive};

use crate::refusal::{OrRefuse, Refusal};

/// The `N` bytes at `offset`.
pub fn array<const N: usize>(from: &[u8], offset: usize) -> Result<[u8; N], Refusal> {
    let field = offset.checked_add(N).and_then(|end| from.get(offset..end));
    field.and_then(|field| field.try_into().ok()).or_corrupt("a field lies outside its structure")
}

/// The `len` bytes at `offset`.
pub fn slice(from: &[u8], offset: usize, len: usize) -> Result<&[u8], Refusal> {
    let field = offset.checked_add(len).and_then(|end| from.get(offset..end));
    field.or_corrupt("a field lies outside its structure")
}

macro_rules! getters {
    ($($name:ident $type:ident $from:ident $order:literal;)*) => {$(
        #[doc = concat!("The ", $order, " `", stringify!($type), "` at `offset`.")]
        pub fn $name(from: &[u8], offset: usize) -> Result<$type, Refusal> {
            Ok($type::$from(array(from, offset)?))
        }
    )*};
}

getters! {
    u8_at u8 from_le_bytes "single-byte";
    le16 u16 from_le_bytes "little-endian";
    le32 u32 from_le_bytes "little-endian";
    le64 u64 from_le_bytes "little-endian";
    be16 u16 from_be_bytes "big-endian";
    be32 u32 from_be_bytes "big-endian";
    be64 u64 from_be_bytes "big-endian";
}

/// A GUID as it stands in structures on the disk: the first three groups are little-endian, the rest is as it is written.
pub(crate) const fn guid(a: u32, b: u16, c: u16, d: u64) -> [u8; 16] {
    let number = ((a.swap_bytes() as u128) << 96)
        | ((b.swap_bytes() as u128) << 80)
        | ((c.swap_bytes() as u128) << 64)
        | d as u128;
    number.to_be_bytes()
}

/// Whether a size is a power of two within bounds.
pub(crate) fn is_power_in(size: u64, bounds: RangeInclusive<u64>) -> bool {
    size.is_power_of_two() && bounds.contains(&size)
}

/// The runs of bits that are set in a word of a bitmap, the lowest bit being number 0.
pub(crate) fn runs_of_ones(word: u64) -> impl Iterator<Item = Range<u64>> {
    let mut behind = 0;
    std::iter::from_fn(move || {
        let start = behind + word.checked_shr(behind)?.trailing_zeros();
        behind = start + word.checked_shr(start)?.trailing_ones();
        Some(start.into()..behind.into())
    })
}

/// `a * b`, where a forged header may ask for more than there are numbers.
pub(crate) fn product(a: u64, b: u64) -> Result<u64, Refusal> {
    a.checked_mul(b).or_corrupt("a size overflows")
}

/// `a + b`, where a forged header may ask for more than there are numbers.
pub fn sum(a: u64, b: u64) -> Result<u64, Refusal> {
    a.checked_add(b).or_corrupt("an offset overflows")
}

/// `a - b`.
pub fn difference(a: u64, b: u64) -> Result<u64, Refusal> {
    a.checked_sub(b).or_corrupt("a size is negative")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_there_are_read_in_their_order() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(le16(&bytes, 1), Ok(0x0302));
        assert_eq!(be32(&bytes, 0), Ok(0x0102_0304));
        assert_eq!(le64(&bytes, 0), Ok(0x0807_0605_0403_0201));
    }

    #[test]
    fn runs_of_bits_are_found_from_the_lowest_up() {
        for (word, runs) in [
            (0, &[][..]),
            (u64::MAX, &[(0, 64)]),
            (0x1f8, &[(3, 9)]),
            (1, &[(0, 1)]),
            (1 << 63 | 0b1011, &[(0, 2), (3, 4), (63, 64)]),
            (u64::MAX << 20, &[(20, 64)]),
        ] {
            assert_eq!(runs_of_ones(word).map(|run| (run.start, run.end)).collect::<Vec<_>>(), runs, "{word:#x}");
        }
    }

    #[test]
    fn fields_that_are_not_there_are_refused() {
        assert!(le16(&[1, 2, 3], 2).is_err());
        assert!(be64(&[0; 8], usize::MAX).is_err());
        assert!(slice(&[0; 8], 4, usize::MAX).is_err());
    }
}
