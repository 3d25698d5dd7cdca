//! Digests of whole files, as the programs of their names print them.

use md5::{Digest as _, Md5};
use sha2::Sha256;
use std::fmt::Write as _;
use twox_hash::xxhash3_128;

/// Digests of whole files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// BLAKE3, 256 bits.
    Blake3,
    /// XXH3 of 128 bits: quick, and no proof against forgery.
    Xxh3,
    /// SHA-256.
    Sha256,
    /// MD5: no proof against forgery.
    Md5,
}

/// Bytes from which on several processors share the work of one BLAKE3 update; less is not worth asking them.
const SHARED: usize = 128 << 10;

/// A digest in the making. Bytes come in order.
pub struct Digest(State);

enum State {
    Blake3(Box<blake3::Hasher>),
    Xxh3(Box<xxhash3_128::Hasher>),
    Sha256(Sha256),
    Md5(Md5),
}

impl Digest {
    /// Of nothing yet.
    pub fn new(checksum: Checksum) -> Digest {
        Digest(match checksum {
            Checksum::Blake3 => State::Blake3(Box::new(blake3::Hasher::new())),
            Checksum::Xxh3 => State::Xxh3(Box::new(xxhash3_128::Hasher::new())),
            Checksum::Sha256 => State::Sha256(Sha256::new()),
            Checksum::Md5 => State::Md5(Md5::new()),
        })
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Blake3(hasher) if bytes.len() >= SHARED => drop(hasher.update_rayon(bytes)),
            State::Blake3(hasher) => drop(hasher.update(bytes)),
            State::Xxh3(hasher) => hasher.write(bytes),
            State::Sha256(hasher) => hasher.update(bytes),
            State::Md5(hasher) => hasher.update(bytes),
        }
    }

    /// In hexadecimal digits.
    pub fn finish(self) -> String {
        match self.0 {
            State::Blake3(hasher) => hasher.finalize().to_hex().to_string(),
            State::Xxh3(hasher) => format!("{:032x}", hasher.finish_128()),
            State::Sha256(hasher) => hex(&hasher.finalize()),
            State::Md5(hasher) => hex(&hasher.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(checksum: Checksum, pieces: &[&[u8]]) -> String {
        let mut digest = Digest::new(checksum);
        for piece in pieces {
            digest.update(piece);
        }
        digest.finish()
    }

    #[test]
    fn digests_are_those_of_their_definitions() {
        // The examples of RFC 1321, FIPS 180-4, and the test vectors of BLAKE3 and XXH3 for no input.
        assert_eq!(digest(Checksum::Md5, &[b"message ", b"digest"]), "f96b697d7cb7938d525a2f31aaf161d0");
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(Checksum::Sha256, &[b"a", b"bc"]), sha256);
        let blake3 = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(digest(Checksum::Blake3, &[]), blake3);
        assert_eq!(digest(Checksum::Xxh3, &[]), "99aa06d3014798d86001c324468d497f");
    }

    #[test]
    fn how_the_bytes_are_cut_does_not_matter() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
        for checksum in [Checksum::Blake3, Checksum::Xxh3, Checksum::Sha256, Checksum::Md5] {
            let whole = digest(checksum, &[&bytes]);
            for cut in [1, 64, 1024, 300_000, 999_999] {
                assert_eq!(digest(checksum, &[&bytes[..cut], &bytes[cut..]]), whole, "{checksum:?} {cut}");
            }
        }
    }
}
