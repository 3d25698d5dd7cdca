//! The format of a journal: records of 64 bytes, the first of which begins the file.
//!
//! Integers are little-endian. A record that is torn, lost, or written by another command, does not have its checksum or its
//! number; it and everything behind it counts as not written.
//!
//! | bytes | what |
//! |---|---|
//! | 0-7 | XXH3 of the rest, seeded with the first eight bytes of the command's fingerprint |
//! | 8-13 | the number of the record, from 0 on |
//! | 14 | the kind: `B` begun, `F` finished, `P` partial, `D` directory |
//! | 15 | bytes of a digest (finished), else 0 |
//! | 16-63 | fingerprints and numbers in the order of the fields of [`Record`], then zeros |

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;

use twox_hash::xxhash3_64::Hasher;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Time};

/// Bytes of a record.
pub const RECORD: usize = 64;
/// Where its contents begin.
const CONTENTS: usize = 16;
/// Bytes of a digest that fit in.
const MOST_DIGEST: usize = 32;
/// Records that are read at a time.
const BATCH: usize = 1024;

/// What tells one file, or one state of it, from all others: 128 bits of BLAKE3 over what stat says.
///
/// Numbers of devices are not in it: they change when a filesystem is mounted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Of a source as it is now: any change of its contents or attributes gives another one.
    pub fn of_source(inode: &Inode) -> Fingerprint {
        hashed(b'S', &[&identity(inode), &inode.size.to_le_bytes(), &time(inode.modified), &time(inode.changed)])
    }

    /// Of a source and its finished copy. What gives the copy more names does not change it.
    pub(crate) fn of_copy(source: Fingerprint, copy: &Inode) -> Fingerprint {
        hashed(b'C', &[&source.0, &identity(copy), &copy.size.to_le_bytes(), &time(copy.modified)])
    }

    /// Of a name in a directory.
    pub fn of_name(directory: &Inode, name: &OsStr) -> Fingerprint {
        hashed(b'N', &[&identity(directory), name.as_bytes()])
    }

    /// Of a source that is copied to a name: files without a birth may exchange their numbers.
    pub(crate) fn of_beginning(source: Fingerprint, name: Fingerprint) -> Fingerprint {
        hashed(b'P', &[&source.0, &name.0])
    }

    /// Of a file whatever becomes of its contents.
    pub(crate) fn of_file(inode: &Inode) -> Fingerprint {
        hashed(b'I', &[&identity(inode)])
    }

    /// Of a command: of what makes two of them the same, and of the directory that holds its journal.
    pub(crate) fn of_command(words: &[&[u8]], holder: &Inode) -> Fingerprint {
        let mut parts = vec![identity(holder).to_vec()];
        for word in words {
            parts.push((word.len() as u64).to_le_bytes().to_vec());
            parts.push(word.to_vec());
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        hashed(b'M', &parts)
    }

    /// From its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// As it is written.
    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The first half, as a number.
    pub fn half(self) -> u64 {
        u64::from_le_bytes(array(&self.0[..8]))
    }
}

/// What does not change as long as the file lives: its number, and when it was made.
fn identity(inode: &Inode) -> [u8; 21] {
    let mut bytes = [0; 21];
    bytes[..8].copy_from_slice(&inode.id.inode().to_le_bytes());
    if let Some(born) = inode.born {
        bytes[8] = 1;
        bytes[9..].copy_from_slice(&time(born));
    }
    bytes
}

fn time(time: Time) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&time.seconds.to_le_bytes());
    bytes[8..].copy_from_slice(&time.nanoseconds.to_le_bytes());
    bytes
}

fn hashed(kind: u8, parts: &[&[u8]]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[kind]);
    for part in parts {
        hasher.update(part);
    }
    Fingerprint(array(&hasher.finalize().as_bytes()[..16]))
}

/// The digest of a finished file, as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    bytes: [u8; MOST_DIGEST],
    len: u8,
}

impl Digest {
    /// From hexadecimal digits; `None` if they are none, or too many.
    pub(crate) fn from_hex(digits: &str) -> Option<Digest> {
        let mut digest = Digest { bytes: [0; MOST_DIGEST], len: 0 };
        if digits.is_empty() || !digits.len().is_multiple_of(2) || digits.len() > 2 * MOST_DIGEST {
            return None;
        }
        for pair in digits.as_bytes().chunks_exact(2) {
            let digit = |byte: u8| (byte as char).to_digit(16);
            let byte = digit(pair[0])? << 4 | digit(pair[1])?;
            digest.bytes[usize::from(digest.len)] = u8::try_from(byte).ok()?;
            digest.len += 1;
        }
        Some(digest)
    }

    /// From bytes; `None` if there are too many.
    pub fn from_bytes(bytes: &[u8]) -> Option<Digest> {
        let mut digest = Digest { bytes: [0; MOST_DIGEST], len: u8::try_from(bytes.len()).ok()? };
        digest.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(digest)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// In hexadecimal digits.
    pub(crate) fn to_hex(self) -> String {
        self.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A run began, or went on.
    Begun,
    /// This copy of this source (`Fingerprint::of_copy`) is whole, on the device, and has its attributes and its name.
    Finished {
        /// Both files.
        pair: Fingerprint,
        /// The digest of the source, if one was wanted.
        digest: Option<Digest>,
    },
    /// The beginning of this source is in a file under a temporary name, and on the device. The last such record of a
    /// source counts.
    Partial {
        /// `Fingerprint::of_beginning`.
        source: Fingerprint,
        /// `Fingerprint::of_file` of the copy.
        file: Fingerprint,
        /// The number in the temporary name.
        number: u64,
        /// So many bytes of it.
        prefix: u64,
    },
    /// This directory (`Fingerprint::of_file`) was made by a run of the command.
    Directory(Fingerprint),
}

impl Record {
    /// As it is written as record `number` of the journal of this command.
    pub fn encode(&self, number: u64, command: &Fingerprint) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let mut at = CONTENTS;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        let (kind, len) = match self {
            Record::Begun => (b'B', 0),
            Record::Finished { pair, digest } => {
                put(&pair.0);
                put(digest.as_ref().map_or(&[], Digest::as_bytes));
                (b'F', digest.map_or(0, |digest| digest.len))
            }
            Record::Partial { source, file, number, prefix } => {
                put(&source.0);
                put(&file.0);
                put(&number.to_le_bytes());
                put(&prefix.to_le_bytes());
                (b'P', 0)
            }
            Record::Directory(directory) => {
                put(&directory.0);
                (b'D', 0)
            }
        };
        bytes[14..16].copy_from_slice(&[kind, len]);
        Record::fix_checksum(&bytes, number, command)
    }

    /// Such bytes with the checksum and the number that a record has; also for tests of what is read then.
    pub fn fix_checksum(bytes: &[u8; RECORD], number: u64, command: &Fingerprint) -> [u8; RECORD] {
        let mut fixed = *bytes;
        fixed[8..14].copy_from_slice(&number.to_le_bytes()[..6]);
        let check = check(&fixed, command);
        fixed[..8].copy_from_slice(&check.to_le_bytes());
        fixed
    }

    /// What such bytes say as record `number`; `None` if they say nothing.
    pub fn decode(bytes: &[u8; RECORD], number: u64, command: &Fingerprint) -> Option<Record> {
        let valid = bytes[..8] == check(bytes, command).to_le_bytes() && bytes[8..14] == number.to_le_bytes()[..6];
        if !valid {
            return None;
        }
        let fingerprint = |at: usize| Fingerprint(array(&bytes[at..at + 16]));
        let integer = |at: usize| u64::from_le_bytes(array(&bytes[at..at + 8]));
        let record = match (bytes[14], usize::from(bytes[15])) {
            (b'B', 0) => Record::Begun,
            (b'F', 0) => Record::Finished { pair: fingerprint(16), digest: None },
            (b'F', len) => {
                Record::Finished { pair: fingerprint(16), digest: Some(Digest::from_bytes(bytes.get(32..32 + len)?)?) }
            }
            (b'P', 0) => Record::Partial {
                source: fingerprint(16),
                file: fingerprint(32),
                number: integer(48),
                prefix: integer(56),
            },
            (b'D', 0) => Record::Directory(fingerprint(16)),
            _ => return None,
        };
        // What this version would not write it does not understand either.
        (record.encode(number, command) == *bytes).then_some(record)
    }
}

fn check(bytes: &[u8; RECORD], command: &Fingerprint) -> u64 {
    Hasher::oneshot_with_seed(command.half(), &bytes[8..])
}

/// Tells every record up to the first that is not whole, in order, and returns how many there were.
///
/// # Errors
/// What reading said, or `each`.
pub fn read(
    from: &mut dyn Read,
    command: &Fingerprint,
    each: &mut dyn FnMut(Record) -> Result<(), Errno>,
) -> io::Result<u64> {
    let mut buffer = vec![0; BATCH * RECORD];
    let mut number = 0;
    loop {
        let filled = fill(from, &mut buffer)?;
        for bytes in buffer[..filled].chunks_exact(RECORD) {
            let Some(record) = Record::decode(&array(bytes), number, command) else { return Ok(number) };
            each(record).map_err(io::Error::from)?;
            number += 1;
        }
        if filled < buffer.len() {
            return Ok(number);
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A slice of exactly this length as an array; zeros if it has another.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}
