//! The checksums of ext4 and its journal.

/// CRC-32C as Linux chains it: from `seed`, without the inversions at both ends.
pub(super) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !::crc32c::crc32c_append(!seed, bytes)
}

/// CRC-16/ARC's polynomial, from `seed`: what guards the group descriptors where CRC-32C does not.
pub(super) fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xa001 } else { sum >> 1 })
    })
}

/// CRC-32 with the highest bit first, from `seed`, as the first kind of journal checksum has it.
pub(super) fn crc32_be(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |sum, byte| {
        // The index is a byte, so it is in the table.
        sum << 8 ^ CRC32_BE[usize::from((sum >> 24) as u8 ^ byte)]
    })
}

const CRC32_BE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum >> 31 == 1 { sum << 1 ^ 0x04c1_1db7 } else { sum << 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_give_their_published_check_values() {
        let check = b"123456789";
        assert_eq!(!crc32c(!0, check), 0xe306_9283); // CRC-32C
        assert_eq!(crc16(0, check), 0xbb3d); // CRC-16/ARC
        assert_eq!(!crc32_be(!0, check), 0xfc89_1918); // CRC-32/BZIP2
    }

    #[test]
    fn a_checksum_in_two_pieces_is_that_of_the_whole() {
        assert_eq!(crc32c(crc32c(7, b"12"), b"345"), crc32c(7, b"12345"));
    }
}
