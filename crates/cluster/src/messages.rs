//! What the processes of one copy say to each other, as bytes.
//!
//! All of them run the same version of this program (they make sure of that before they begin), so there is no version in
//! here. What cannot be understood is `None` all the same, never a panic and never a large allocation.

use std::ffi::OsString;

use haul_fs::links::pages::Key;
use haul_fs::walk::Listed;
use haul_sys::rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use crate::wire;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Names to be copied by the receiver.
    Names(WorkUnit),
    /// A part of a file to be copied by the receiver.
    Chunk(Chunk),
    /// The names with this token are done. What stands here the receiver of them could not begin with: the sender has to
    /// do it after all.
    NamesDone {
        /// What the sender of the question or of the work knows it by.
        token: u64,
        /// The receiver could not begin.
        given_back: bool,
    },
    /// So many bytes of the chunk, from its beginning, are in the copy.
    ChunkDone {
        /// What the sender of the question or of the work knows it by.
        token: u64,
        /// Bytes.
        moved: u64,
    },
    /// Asks the owner of this source file's links who makes it.
    Claim {
        /// What the sender of the question or of the work knows it by.
        token: u64,
        /// The source file.
        key: Key,
    },
    /// Tells the owner that what was claimed was made, or could not be.
    Settle {
        /// The source file.
        key: Key,
        /// It was made.
        made: bool,
    },
    /// The owner's answer.
    Claimed {
        /// What the sender of the question or of the work knows it by.
        token: u64,
        /// Who makes it.
        answer: LinkOwner,
    },
    /// Asks the process that made the copy of this source file where it is.
    Where {
        /// What the sender of the question or of the work knows it by.
        token: u64,
        /// The source file.
        key: Key,
    },
    /// Its answer.
    Here {
        /// What the sender of the question or of the work knows it by.
        token: u64,
        /// Where it is.
        place: Whereabouts,
    },
}

/// What the owner of the links of a source file answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkOwner {
    /// Nobody has made it: you do.
    You,
    /// This process has.
    Rank(u32),
    /// Nothing is known of any file any more, for this errno.
    Broken(i32),
}

/// A directory of the destination, from one that the user named: how it is opened, and the names on the way down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// What users see before the names of entries of the first one; opened as a path it is that directory.
    pub prefix: OsString,
    /// On the way down.
    pub names: Vec<OsString>,
}

/// Where a copy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The directory.
    pub way: Way,
    /// The name in it.
    pub name: OsString,
    /// Its inode number.
    pub inode: u64,
}

/// What the process that made the copy of a source file knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whereabouts {
    /// It is here.
    At(Location),
    /// It took no more names: the process makes another one for names that it meets itself, and so does each other process.
    TakesNoMoreNames,
    /// The process cannot tell.
    Unknown,
}

/// A directory of the source and its copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The operand, as its path is opened.
    pub operand: OsString,
    /// Its destination, as users know it.
    pub operand_dest: OsString,
    /// Of the copy.
    pub dest: Way,
    /// Both inode numbers.
    pub inodes: [u64; 2],
    /// When both were made, where that is known: seconds since 1970, and nanoseconds.
    pub born: [Option<(i64, u32)>; 2],
    /// What all processes call the filesystem of the source.
    pub device: u64,
    /// Its number in the list of what is to be copied, if there is one: all processes have the same.
    pub listed: Option<u32>,
    /// Both paths as users know them.
    pub shown: [OsString; 2],
}

/// A name in a directory, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    name: OsString,
    /// The four bits of a mode that say the type; 0 if the filesystem does not say it.
    kind: u8,
    entry: Option<u32>,
}

/// Names of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkUnit {
    /// What the sender knows it by.
    pub token: u64,
    /// The directory.
    pub pair: Pair,
    /// What is to be copied of it.
    pub names: Vec<Name>,
}

/// A range of a regular file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// What the sender knows it by.
    pub token: u64,
    /// The directories that hold it. The one of an operand has no pair: then these are the operand and its destination.
    pub pair: Pair,
    /// Its name in the source; `None` if it is the operand itself.
    pub source_name: Option<OsString>,
    /// The name that the copy has for the moment.
    pub dest_name: OsString,
    /// Both inode numbers.
    pub inodes: [u64; 2],
    /// The source as its owner saw it: size in bytes, and when it was changed.
    pub size: u64,
    /// Seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// What the bytes say; `None` if that is nothing.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        wire::decode(bytes)
    }
}

impl From<&Listed> for Name {
    fn from(listed: &Listed) -> Name {
        let kind = listed.kind.map_or(0, |kind| (kind.as_raw_mode() >> 12) as u8);
        Name { name: listed.name.clone(), kind, entry: listed.entry }
    }
}

impl From<Name> for Listed {
    fn from(Name { name, kind, entry }: Name) -> Listed {
        let kind = (kind != 0).then(|| FileType::from_raw_mode(u32::from(kind) << 12));
        Listed { name, kind, entry, made: None }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use haul_fs::links::pages::KEY;
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
    }

    fn way() -> impl Strategy<Value = Way> {
        (text(), prop::collection::vec(text(), 0..4)).prop_map(|(prefix, names)| Way { prefix, names })
    }

    fn pair() -> impl Strategy<Value = Pair> {
        (
            text(),
            text(),
            way(),
            any::<[u64; 2]>(),
            (any::<u64>(), any::<Option<u32>>(), any::<[Option<(i64, u32)>; 2]>()),
            [text(), text()],
        )
            .prop_map(|(operand, operand_dest, dest, inodes, (device, listed, born), shown)| Pair {
                operand,
                operand_dest,
                dest,
                inodes,
                born,
                device,
                listed,
                shown,
            })
    }

    fn names() -> impl Strategy<Value = Vec<Listed>> {
        let kinds = [None, Some(FileType::Directory), Some(FileType::RegularFile), Some(FileType::Socket)];
        prop::collection::vec((text(), prop::sample::select(kinds.to_vec()), any::<Option<u32>>()), 0..6).prop_map(
            |names| names.into_iter().map(|(name, kind, entry)| Listed { name, kind, entry, made: None }).collect(),
        )
    }

    fn sent(names: &[Listed]) -> Vec<Name> {
        names.iter().map(Into::into).collect()
    }

    fn message() -> impl Strategy<Value = Message> {
        let key = || prop::collection::vec(any::<u8>(), KEY).prop_map(|key| key.try_into().unwrap());
        let token = any::<u64>;
        let answer = prop_oneof![
            Just(LinkOwner::You),
            any::<u32>().prop_map(LinkOwner::Rank),
            any::<i32>().prop_map(LinkOwner::Broken)
        ];
        let place = prop_oneof![
            (way(), text(), any::<u64>()).prop_map(|(way, name, inode)| Whereabouts::At(Location { way, name, inode })),
            Just(Whereabouts::TakesNoMoreNames),
            Just(Whereabouts::Unknown),
        ];
        let chunk = (pair(), prop::option::of(text()), text(), any::<[u64; 6]>(), any::<(i64, u32)>()).prop_map(
            |(pair, source_name, dest_name, numbers, modified)| {
                let [token, a, b, size, offset, len] = numbers;
                let inodes = [a, b];
                Message::Chunk(Chunk { token, pair, source_name, dest_name, inodes, size, modified, offset, len })
            },
        );
        prop_oneof![
            (token(), pair(), names()).prop_map(|(token, pair, names)| Message::Names(WorkUnit {
                token,
                pair,
                names: sent(&names)
            })),
            chunk,
            (token(), any::<bool>()).prop_map(|(token, given_back)| Message::NamesDone { token, given_back }),
            (token(), any::<u64>()).prop_map(|(token, moved)| Message::ChunkDone { token, moved }),
            (token(), key()).prop_map(|(token, key)| Message::Claim { token, key }),
            (key(), any::<bool>()).prop_map(|(key, made)| Message::Settle { key, made }),
            (token(), answer).prop_map(|(token, answer)| Message::Claimed { token, answer }),
            (token(), key()).prop_map(|(token, key)| Message::Where { token, key }),
            (token(), place).prop_map(|(token, place)| Message::Here { token, place }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_is_understood_as_it_was_meant(message in message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }

        #[test]
        fn what_was_cut_or_garbled_is_nothing_or_a_message_and_never_a_panic(
            message in message(), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(),
        ) {
            let mut bytes = message.encode();
            prop_assert_eq!(Message::decode(&bytes[..cut.index(bytes.len())]), None);
            let at = flip.index(bytes.len());
            bytes[at] ^= 0x55;
            let _any = Message::decode(&bytes);
        }
    }
}
