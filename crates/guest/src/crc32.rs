//! CRC-32 with the polynomial of IEEE 802.3: of partition tables, and with another start of LVM2.

/// The checksum as everybody has it: starts with all ones and ends inverted.
pub use crc32fast::hash as crc32;

/// Goes on from a state, without inverting anything.
pub fn update(state: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!state);
    hasher.update(bytes);
    !hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(!update(update(!0, b"1234"), b"56789"), 0xcbf4_3926);
    }
}
