//! Pages of the log of NTFS, which the tools of Linux do not write.

/// A restart page, as Windows writes it: of version `version` (major, minor), for a log of `log` bytes.
#[must_use]
pub fn restart_page(lsn: u64, in_use: u16, flags: u16, version: [u16; 2], log: u64) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"RSTR");
    for (at, value) in [(4, 30_u16), (6, 9), (24, 48), (26, version[1]), (28, version[0])] {
        put(at, &value.to_le_bytes());
    }
    put(16, &4096_u32.to_le_bytes());
    put(20, &4096_u32.to_le_bytes());
    let area = 48;
    put(area, &lsn.to_le_bytes());
    let free = if in_use == 0 { 0xffff_u16 } else { 0 };
    let fields = [(8, 1_u16), (10, free), (12, in_use), (14, flags), (20, 48 + 160), (22, 48), (36, 48), (38, 64)];
    for (at, value) in fields {
        put(area + at, &value.to_le_bytes());
    }
    put(area + 16, &(67 - (64 - log.leading_zeros())).to_le_bytes());
    put(area + 24, &log.to_le_bytes());
    let client = area + 48;
    put(client + 16, &[0xff; 4]);
    put(client + 28, &8_u32.to_le_bytes());
    put(client + 32, b"N\0T\0F\0S\0");
    put(30, &[5, 0]);
    for sector in 0..8 {
        put(sector * 512 + 510, &[5, 0]);
    }
    page
}
