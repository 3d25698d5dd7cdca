//! What the processes of one copy say to each other, as bytes.
//!
//! All of them run the same version of this program (they make sure of that before they begin), so there is no version in
//! here. What cannot be understood is `None` all the same, never a panic and never a large allocation.

use std::ffi::OsString;

use haul_sys::rustix::fs::FileType;

use crate::links::pages::{KEY, Key};
use crate::list::Index;
use crate::walk::Listed;
use crate::wire::{Reader, Writer};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Names to be copied by the receiver.
    Names(WorkUnit),
    /// A part of a file to be copied by the receiver.
    Chunk(Chunk),
    /// The names with this token are done. What stands here the receiver of them could not begin with: the sender has to
    /// do it after all.
    NamesDone { token: u64, given_back: bool },
    /// So many bytes of the chunk, from its beginning, are in the copy.
    ChunkDone { token: u64, moved: u64 },
    /// Asks the keeper of this source file who makes it.
    Claim { token: u64, key: Key },
    /// Tells the keeper that what was claimed was made, or could not be.
    Settle { key: Key, made: bool },
    /// The keeper's answer.
    Claimed { token: u64, answer: LinkOwner },
    /// Asks the process that made the copy of this source file where it is.
    Where { token: u64, key: Key },
    /// Its answer.
    Here { token: u64, place: Option<Location> },
}

/// What the keeper of a source file says to who has met a name of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkOwner {
    /// Nobody has made it: you do.
    You,
    /// This process has.
    Rank(u32),
    /// Nothing is known of any file any more, for this errno.
    Broken(i32),
}

/// A directory of the destination, from one that the user named: how it is opened, and the names on the way down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// What users see before the names of entries of the first one; opened as a path it is that directory.
    pub prefix: OsString,
    pub names: Vec<OsString>,
}

/// Where a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub way: Way,
    pub name: OsString,
    /// Its inode number.
    pub inode: u64,
}

/// A directory of the source and its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The operand, as its path is opened.
    pub operand: OsString,
    /// Its destination, as users know it.
    pub operand_dest: OsString,
    pub dest: Way,
    /// Both inode numbers.
    pub inodes: [u64; 2],
    /// When both were made, where that is known: seconds since 1970, and nanoseconds.
    pub born: [Option<(i64, u32)>; 2],
    /// What all processes call the filesystem of the source.
    pub device: u64,
    /// Its number in the list of what is to be copied, if there is one: all processes have the same.
    pub listed: Option<Index>,
    /// Both paths as users know them.
    pub shown: [OsString; 2],
}

/// Names of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkUnit {
    pub token: u64,
    pub pair: Pair,
    pub names: Vec<Listed>,
}

/// A range of a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub token: u64,
    /// The directories that hold it. The one of an operand has no pair: then these are the operand and its destination.
    pub pair: Pair,
    /// Its name in the source; `None` if it is the operand itself.
    pub source_name: Option<OsString>,
    pub dest_name: OsString,
    /// Both inode numbers.
    pub inodes: [u64; 2],
    /// The source as its owner saw it: size in bytes, and when it was changed.
    pub size: u64,
    pub modified: (i64, u32),
    pub offset: u64,
    pub len: u64,
}

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64));
        match self {
            Message::Names(parcel) => {
                out.byte(1).number(parcel.token).pair(&parcel.pair).number(parcel.names.len() as u64);
                for listed in &parcel.names {
                    out.byte(listed.kind.map_or(0, |kind| (kind.as_raw_mode() >> 12) as u8)).text(&listed.name);
                    out.index(listed.entry);
                }
            }
            Message::Chunk(chunk) => {
                out.byte(2).number(chunk.token).pair(&chunk.pair);
                out.byte(u8::from(chunk.source_name.is_some()));
                out.text(chunk.source_name.as_deref().unwrap_or_default()).text(&chunk.dest_name);
                out.number(chunk.inodes[0]).number(chunk.inodes[1]).number(chunk.size);
                out.number(chunk.modified.0.cast_unsigned()).number(chunk.modified.1.into());
                out.number(chunk.offset).number(chunk.len);
            }
            Message::NamesDone { token, given_back } => _ = out.byte(3).number(*token).byte(u8::from(*given_back)),
            Message::ChunkDone { token, moved } => _ = out.byte(4).number(*token).number(*moved),
            Message::Claim { token, key } => _ = out.byte(5).number(*token).bytes(key),
            Message::Settle { key, made } => _ = out.byte(6).bytes(key).byte(u8::from(*made)),
            Message::Claimed { token, answer } => {
                let (kind, value) = match answer {
                    LinkOwner::You => (0, 0),
                    LinkOwner::Rank(rank) => (1, u64::from(*rank)),
                    LinkOwner::Broken(errno) => (2, u64::from(errno.cast_unsigned())),
                };
                out.byte(7).number(*token).byte(kind).number(value);
            }
            Message::Where { token, key } => _ = out.byte(8).number(*token).bytes(key),
            Message::Here { token, place } => {
                out.byte(9).number(*token).byte(u8::from(place.is_some()));
                if let Some(place) = place {
                    out.way(&place.way).text(&place.name).number(place.inode);
                }
            }
        }
        out.0
    }

    /// What the bytes say; `None` if that is nothing.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut from = Reader(bytes);
        let message = match from.byte()? {
            1 => {
                let (token, pair, count) = (from.number()?, from.pair()?, from.number()?);
                let mut names = Vec::new();
                for _ in 0..count {
                    let kind = from.byte()?;
                    let kind = (kind != 0).then(|| FileType::from_raw_mode(u32::from(kind) << 12));
                    names.push(Listed { name: from.text()?, kind, entry: from.index()?, made: None });
                }
                Message::Names(WorkUnit { token, pair, names })
            }
            2 => {
                let (token, pair, named) = (from.number()?, from.pair()?, from.byte()? != 0);
                Message::Chunk(Chunk {
                    token,
                    pair,
                    source_name: Some(from.text()?).filter(|_| named),
                    dest_name: from.text()?,
                    inodes: [from.number()?, from.number()?],
                    size: from.number()?,
                    modified: (from.number()?.cast_signed(), u32::try_from(from.number()?).ok()?),
                    offset: from.number()?,
                    len: from.number()?,
                })
            }
            3 => Message::NamesDone { token: from.number()?, given_back: from.byte()? != 0 },
            4 => Message::ChunkDone { token: from.number()?, moved: from.number()? },
            5 => Message::Claim { token: from.number()?, key: from.key()? },
            6 => Message::Settle { key: from.key()?, made: from.byte()? != 0 },
            7 => {
                let (token, kind, value) = (from.number()?, from.byte()?, from.number()?);
                let answer = match kind {
                    0 => LinkOwner::You,
                    1 => LinkOwner::Rank(u32::try_from(value).ok()?),
                    _ => LinkOwner::Broken(u32::try_from(value).ok()?.cast_signed()),
                };
                Message::Claimed { token, answer }
            }
            8 => Message::Where { token: from.number()?, key: from.key()? },
            9 => {
                let (token, there) = (from.number()?, from.byte()? != 0);
                let place = match there {
                    true => Some(Location { way: from.way()?, name: from.text()?, inode: from.number()? }),
                    false => None,
                };
                Message::Here { token, place }
            }
            _ => return None,
        };
        from.0.is_empty().then_some(message)
    }
}

impl Writer {
    fn born(&mut self, born: Option<(i64, u32)>) -> &mut Writer {
        let (seconds, nanoseconds) = born.unwrap_or_default();
        self.byte(u8::from(born.is_some())).number(seconds.cast_unsigned()).number(nanoseconds.into())
    }

    fn index(&mut self, index: Option<Index>) -> &mut Writer {
        self.number(index.map_or(u64::MAX, u64::from))
    }

    fn way(&mut self, way: &Way) -> &mut Writer {
        self.text(&way.prefix).number(way.names.len() as u64);
        for name in &way.names {
            self.text(name);
        }
        self
    }

    fn pair(&mut self, pair: &Pair) -> &mut Writer {
        self.text(&pair.operand).text(&pair.operand_dest).way(&pair.dest);
        self.number(pair.inodes[0]).number(pair.inodes[1]).born(pair.born[0]).born(pair.born[1]);
        self.number(pair.device).index(pair.listed);
        self.text(&pair.shown[0]).text(&pair.shown[1])
    }
}

impl Reader<'_> {
    fn born(&mut self) -> Option<Option<(i64, u32)>> {
        let there = self.byte()? != 0;
        let born = (self.number()?.cast_signed(), u32::try_from(self.number()?).ok()?);
        Some(there.then_some(born))
    }

    fn index(&mut self) -> Option<Option<Index>> {
        match self.number()? {
            u64::MAX => Some(None),
            index => Index::try_from(index).ok().map(Some),
        }
    }

    fn key(&mut self) -> Option<Key> {
        self.take(KEY)?.try_into().ok()
    }

    fn way(&mut self) -> Option<Way> {
        let (prefix, count) = (self.text()?, self.number()?);
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.text()?);
        }
        Some(Way { prefix, names })
    }

    fn pair(&mut self) -> Option<Pair> {
        Some(Pair {
            operand: self.text()?,
            operand_dest: self.text()?,
            dest: self.way()?,
            inodes: [self.number()?, self.number()?],
            born: [self.born()?, self.born()?],
            device: self.number()?,
            listed: self.index()?,
            shown: [self.text()?, self.text()?],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

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

    fn message() -> impl Strategy<Value = Message> {
        let key = || prop::collection::vec(any::<u8>(), KEY).prop_map(|key| key.try_into().unwrap());
        let token = any::<u64>;
        let answer = prop_oneof![
            Just(LinkOwner::You),
            any::<u32>().prop_map(LinkOwner::Rank),
            any::<i32>().prop_map(LinkOwner::Broken)
        ];
        let place = (way(), text(), any::<u64>()).prop_map(|(way, name, inode)| Location { way, name, inode });
        let chunk = (pair(), prop::option::of(text()), text(), any::<[u64; 6]>(), any::<(i64, u32)>()).prop_map(
            |(pair, source_name, dest_name, numbers, modified)| {
                let [token, a, b, size, offset, len] = numbers;
                let inodes = [a, b];
                Message::Chunk(Chunk { token, pair, source_name, dest_name, inodes, size, modified, offset, len })
            },
        );
        prop_oneof![
            (token(), pair(), names()).prop_map(|(token, pair, names)| Message::Names(WorkUnit { token, pair, names })),
            chunk,
            (token(), any::<bool>()).prop_map(|(token, given_back)| Message::NamesDone { token, given_back }),
            (token(), any::<u64>()).prop_map(|(token, moved)| Message::ChunkDone { token, moved }),
            (token(), key()).prop_map(|(token, key)| Message::Claim { token, key }),
            (key(), any::<bool>()).prop_map(|(key, made)| Message::Settle { key, made }),
            (token(), answer).prop_map(|(token, answer)| Message::Claimed { token, answer }),
            (token(), key()).prop_map(|(token, key)| Message::Where { token, key }),
            (token(), prop::option::of(place)).prop_map(|(token, place)| Message::Here { token, place }),
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
