//! Decompression of single clusters, to a length that is known before.

use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::StreamingDecoder;

use crate::refusal::{Refusal, corrupt_if};

/// The largest window that a Zstandard frame may ask for, in bytes. A frame of one cluster needs no more than that.
const ZSTD_WINDOW: u64 = 4 << 20;

/// Inflates to at most `len` bytes; `zlib` if it has zlib's header and checksum (RFC 1950), else it is raw (RFC 1951).
pub(super) fn inflate(packed: &[u8], len: usize, zlib: bool) -> Result<Vec<u8>, Refusal> {
    // One more, so that the end of the stream is seen, and not only the end of the buffer.
    let mut unpacked = vec![0; len + 1];
    let mut inflater = Decompress::new(zlib);
    let status = inflater.decompress(packed, &mut unpacked, FlushDecompress::Finish);
    let written = inflater.total_out();
    corrupt_if(!matches!(status, Ok(Status::StreamEnd)) || written > len as u64, "compressed data is damaged")?;
    unpacked.truncate(written as usize);
    Ok(unpacked)
}

/// Unpacks the first `len` bytes of a Zstandard frame (RFC 8878), which is not shorter.
pub(super) fn unzstd(packed: &[u8], len: usize) -> Result<Vec<u8>, Refusal> {
    let damaged = || Refusal::corrupt("compressed data is damaged");
    let decoder = StreamingDecoder::new_with_max_window_size(packed, ZSTD_WINDOW);
    let mut unpacked = vec![0; len];
    decoder.map_err(|_| damaged())?.read_exact(&mut unpacked).map_err(|_| damaged())?;
    Ok(unpacked)
}
