//! What a state file says, as data, and what follows from it for a shard that begins.
//!
//! | bytes | what |
//! |---|---|
//! | 0-15 | `haul shards 3` and zeros |
//! | 16-31 | the fingerprint of the command without the shard |
//! | 32-47 | the digest of the split: of the files, their states, and how they are divided |
//! | 48-63 | the fingerprint of the job's ID |
//! | 64-67 | how many shards there are |
//! | 68-71 | how many jobs this record has had before |
//! | 72-75 | how many directories the user named |
//! | 76-79 | how many IDs were replaced |
//! | 80-87, 88-91 | when the job began by the clock of the filesystem: seconds, nanoseconds |
//! | 92 | 1 if directories of the job are known by their birth, 0 if by their names |
//! | 93 | 1 if the job before this one was not finished: what that made may stand there |
//! | 94-95 | bytes of the ID that follow |
//! | 96-223 | the ID, as far as it fits in, and zeros |
//! | 224-239 | zeros |
//! | 240-255 | BLAKE3 of everything before |
//! | 256 on | one byte for each shard, see `state` |
//! | behind | 16 bytes for each directory that the user named: which one the job has made or found; zeros if it is not known |
//! | behind | 16 bytes for each replaced ID: its fingerprint |
//! | behind | 16 bytes for each name that was noted, or for each pair of a source and its copy |
//!
//! Integers are little-endian. Nothing of the header changes while a job lasts: another job gets a file of its own, which
//! takes the place of this one.

use haul_sys::inode::Time;

use crate::journal::Fingerprint;
use crate::plan::Job;

const MAGIC: &[u8; 16] = b"haul shards 3\0\0\0";
/// Bytes before those of the shards.
pub(crate) const HEADER: usize = 256;
/// Bytes of a fingerprint.
pub(crate) const NAME: usize = 16;
const MOST_TEXT: usize = 128;
const CHECK: usize = 240;

/// What is known of a job from its begin to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub command: Fingerprint,
    pub split: [u8; 16],
    pub id: Fingerprint,
    /// The ID for people.
    pub text: Vec<u8>,
    pub count: u32,
    /// How many jobs there were before.
    pub epoch: u32,
    pub roots: u32,
    pub replaced: u32,
    pub began: Time,
    /// Births tell what the job has made; otherwise directories are noted by their names.
    pub births: bool,
    pub inherited: bool,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let text = &self.text[..self.text.len().min(MOST_TEXT)];
        // At most 128.
        let length = text.len() as u16;
        let parts: [(usize, &[u8]); 14] = [
            (0, MAGIC),
            (16, &self.command.to_bytes()),
            (32, &self.split),
            (48, &self.id.to_bytes()),
            (64, &self.count.to_le_bytes()),
            (68, &self.epoch.to_le_bytes()),
            (72, &self.roots.to_le_bytes()),
            (76, &self.replaced.to_le_bytes()),
            (80, &self.began.seconds.to_le_bytes()),
            (88, &self.began.nanoseconds.to_le_bytes()),
            (92, &[u8::from(self.births)]),
            (93, &[u8::from(self.inherited)]),
            (94, &length.to_le_bytes()),
            (96, text),
        ];
        for (at, part) in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
        }
        let check = check(&bytes);
        bytes[CHECK..].copy_from_slice(&check);
        bytes
    }

    /// `None` if no version of this program that is known here has written it, or not all of it.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<Header> {
        let half = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).ok();
        let number = |at: usize| Some(u32::from_le_bytes(bytes[at..at + 4].try_into().ok()?));
        if bytes[..16] != MAGIC[..] || bytes[CHECK..] != check(bytes) {
            return None;
        }
        let length = usize::from(u16::from_le_bytes([bytes[94], bytes[95]]));
        Some(Header {
            command: Fingerprint::from_bytes(half(16)?),
            split: half(32)?,
            id: Fingerprint::from_bytes(half(48)?),
            text: bytes.get(96..96 + length)?.to_vec(),
            count: number(64).filter(|count| *count > 0)?,
            epoch: number(68)?,
            roots: number(72)?,
            replaced: number(76)?,
            began: Time { seconds: i64::from_le_bytes(bytes[80..88].try_into().ok()?), nanoseconds: number(88)? },
            births: bytes[92] == 1,
            inherited: bytes[93] == 1,
        })
    }

    /// The ID, to be read.
    pub fn shown_id(&self) -> String {
        self.text.escape_ascii().to_string()
    }

    pub fn roots_start(&self) -> u64 {
        HEADER as u64 + u64::from(self.count)
    }

    pub fn replaced_start(&self) -> u64 {
        self.roots_start() + NAME as u64 * u64::from(self.roots)
    }

    pub fn notes_start(&self) -> u64 {
        self.replaced_start() + NAME as u64 * u64::from(self.replaced)
    }
}

fn check(bytes: &[u8; HEADER]) -> [u8; 16] {
    let mut check = [0; 16];
    check.copy_from_slice(&blake3::hash(&bytes[..CHECK]).as_bytes()[..16]);
    check
}

/// What the record of a job means for a shard that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The shard is one of that job.
    Same,
    /// The shard is of another job, whose record takes the place of this one.
    Replace,
    /// The job has so many shards.
    OtherCount(u32),
    /// The job has divided something else, or something in another state.
    OtherList,
    /// The shard is of a job that was replaced by this one.
    Superseded,
    /// The job has the same files to copy, and is not finished. Which of the two is wanted nobody has said.
    Unfinished,
}

/// Compares a shard of so many, with the digest of its split, with what the record says.
pub(crate) fn meaning(
    record: &Header,
    finished: bool,
    replaced: &[Fingerprint],
    job: &Job,
    wanted: (u32, [u8; 16]),
) -> Meaning {
    let (count, split) = wanted;
    let same_files = record.count == count && record.split == split;
    let own = match job {
        Job::Recorded => None,
        Job::Launched(id) | Job::Named(id) => Some(fingerprint(id.as_encoded_bytes())),
    };
    match own {
        Some(own) if own != record.id && replaced.contains(&own) => Meaning::Superseded,
        Some(own) if own != record.id => match job {
            Job::Launched(_) if !finished && same_files => Meaning::Unfinished,
            _ => Meaning::Replace,
        },
        _ if record.count != count => Meaning::OtherCount(record.count),
        _ if record.split != split => Meaning::OtherList,
        _ => Meaning::Same,
    }
}

/// The fingerprint of an ID.
pub(crate) fn fingerprint(id: &[u8]) -> Fingerprint {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(&[b"job ", id].concat()).as_bytes()[..16]);
    Fingerprint::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Header {
        Header {
            command: Fingerprint::from_bytes([1; 16]),
            split: [2; 16],
            id: fingerprint(id.as_bytes()),
            text: id.into(),
            count: 4,
            epoch: 3,
            roots: 1,
            replaced: 1,
            began: Time { seconds: -5, nanoseconds: 999_999_999 },
            births: true,
            inherited: false,
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = record("4711");
        assert_eq!(Header::decode(&header.encode()), Some(header.clone()));
        let long = Header { text: vec![b'x'; 500], ..header };
        assert_eq!(Header::decode(&long.encode()).map(|header| header.text.len()), Some(MOST_TEXT));
    }

    #[test]
    fn a_header_with_any_byte_changed_is_not_believed() {
        let bytes = record("4711").encode();
        for at in 0..HEADER {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert_eq!(Header::decode(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn a_record_means_the_same_job_another_one_or_neither() {
        let (named, launched) = (|id: &str| Job::Named(id.into()), |id: &str| Job::Launched(id.into()));
        let old = [fingerprint(b"old")];
        let say =
            |finished, job: &Job, count, split| meaning(&record("now"), finished, &old, job, (count, [split; 16]));
        for finished in [false, true] {
            for job in [Job::Recorded, named("now"), launched("now")] {
                assert_eq!(say(finished, &job, 4, 2), Meaning::Same);
                assert_eq!(say(finished, &job, 5, 2), Meaning::OtherCount(4));
                assert_eq!(say(finished, &job, 4, 3), Meaning::OtherList);
            }
            for job in [named("old"), launched("old")] {
                assert_eq!(say(finished, &job, 4, 2), Meaning::Superseded);
            }
            assert_eq!(say(finished, &named("new"), 4, 2), Meaning::Replace);
            assert_eq!(say(finished, &launched("new"), 4, 3), Meaning::Replace);
            assert_eq!(say(finished, &launched("new"), 5, 2), Meaning::Replace);
        }
        assert_eq!(say(true, &launched("new"), 4, 2), Meaning::Replace);
        assert_eq!(say(false, &launched("new"), 4, 2), Meaning::Unfinished);
    }
}
