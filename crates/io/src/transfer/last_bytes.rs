//! What keeps a copy that is not whole from looking whole by its size.

/// The end of a file that several workers move, in bytes, is moved by one when all else is done: a copy that was killed, or
/// lost its power, must not look whole by its size. A multiple of whatever direct I/O asks for.
pub(super) const LAST_BYTES: u64 = 64 << 10;
