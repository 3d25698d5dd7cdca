//! Zeros in what is used.

use haul_guest::{ExtentSet, ReadAt};

/// Zeros are found in whole blocks of this many bytes.
const BLOCK: usize = 4096;
/// What is read at once.
const PIECE: usize = 1 << 20;

/// Which blocks of `used` are zero. Blocks lie at multiples of 4 KiB; the last may be shorter.
pub fn zeros(image: &dyn ReadAt, used: &ExtentSet) -> std::io::Result<ExtentSet> {
    let mut zeros = ExtentSet::new();
    let mut buffer = vec![0; PIECE];
    for extent in used.iter() {
        let mut at = extent.start;
        while at < extent.end() {
            // Pieces end where blocks do.
            let end = (at / PIECE as u64 * PIECE as u64).saturating_add(PIECE as u64).min(extent.end());
            let Some(piece) = buffer.get_mut(..(end - at) as usize) else { break };
            image.read_exact_at(at, piece)?;
            let mut from = at;
            let mut rest = &*piece;
            while !rest.is_empty() {
                let len = (BLOCK - (from % BLOCK as u64) as usize).min(rest.len());
                let (block, behind) = rest.split_at(len);
                if block.iter().all(|byte| *byte == 0) {
                    zeros.push(from..from + len as u64);
                }
                from += len as u64;
                rest = behind;
            }
            at = end;
        }
    }
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_in_blocks_and_only_in_what_is_used() {
        let mut image = vec![0_u8; 3 << 20];
        image[5000] = 1;
        image[(2 << 20) + 1] = 1;
        let used = ExtentSet::from_ranges([0..9000, 20_000..20_001, (1 << 20) + 100..3 << 20]);
        let expected = ExtentSet::from_ranges([
            0..4096,
            8192..9000,
            20_000..20_001,
            (1 << 20) + 100..2 << 20,
            (2 << 20) + 4096..3 << 20,
        ]);
        assert_eq!(zeros(&image, &used).unwrap(), expected);
        let behind = ExtentSet::of(0..4 << 20);
        assert!(zeros(&image, &behind).is_err());
    }
}
