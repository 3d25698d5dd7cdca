//! Messages between processes of one job, as bytes.
//!
//! All of them run the same version of this program, so there is no version in here. What cannot be understood is `None`,
//! never a panic and never a large allocation: a length is believed only as far as there are bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message as bytes.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    // It fails for lengths that are not known, of which our messages have none.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// What the bytes say, if they are one whole message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(message)
}
