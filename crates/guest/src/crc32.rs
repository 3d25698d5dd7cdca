//! CRC-32 with the polynomial of IEEE 802.3: of partition tables, and with another start of LVM2.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The checksum as everybody has it: starts with all ones and ends inverted.
pub fn crc32(bytes: &[u8]) -> u32 {
    !update(!0, bytes)
}

/// Goes on from a state, without inverting anything.
pub fn update(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ TABLE[usize::from(low ^ byte)]
    })
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
