//! What processes that compare one pair of trees say to each other, as bytes.

use std::ffi::OsString;

use crate::facts::Time;
use crate::wire::{Reader, Writer};

/// Names to be compared by the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkUnit {
    pub(super) token: u64,
    pub(super) of_copy: bool,
    pub(super) source: Directory,
    pub(super) copy: Directory,
    pub(super) names: Vec<OsString>,
}

/// A directory as the sender sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) path: OsString,
    pub(super) inode: u64,
    pub(super) born: Option<Time>,
    /// The directory that the user named, which all processes have looked at; `None` if this one is on another filesystem.
    pub(super) operand: Option<OsString>,
}

/// What the receiver of a work unit says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// It keeps the names before this one. More is to come.
    Rest { token: u64, from: u64 },
    /// It could not begin.
    Cannot { token: u64 },
    /// So many names were looked at; of some of them there is something to be said.
    Done { token: u64, entries: u64, notes: Vec<Note> },
}

/// About one name of a work unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) at: u64,
    /// The inode numbers of two files that are the same, one of which may have other names. `None`: the sender has to look
    /// for itself.
    pub(super) links: Option<(u64, u64)>,
}

impl WorkUnit {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(512));
        out.number(self.token).byte(u8::from(self.of_copy));
        put_directory(&mut out, &self.source);
        put_directory(&mut out, &self.copy);
        out.number(self.names.len() as u64);
        for name in &self.names {
            out.text(name);
        }
        out.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<WorkUnit> {
        let mut from = Reader(bytes);
        let (token, of_copy) = (from.number()?, from.byte()? != 0);
        let (source, copy, count) = (take_directory(&mut from)?, take_directory(&mut from)?, from.number()?);
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(from.text()?);
        }
        from.0.is_empty().then_some(WorkUnit { token, of_copy, source, copy, names })
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(32));
        match self {
            Reply::Rest { token, from } => _ = out.byte(0).number(*token).number(*from),
            Reply::Cannot { token } => _ = out.byte(1).number(*token),
            Reply::Done { token, entries, notes } => {
                out.byte(2).number(*token).number(*entries).number(notes.len() as u64);
                for Note { at, links } in notes {
                    let (one, other) = links.unwrap_or_default();
                    out.number(*at).byte(u8::from(links.is_some())).number(one).number(other);
                }
            }
        }
        out.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Reply> {
        let mut from = Reader(bytes);
        let reply = match from.byte()? {
            0 => Reply::Rest { token: from.number()?, from: from.number()? },
            1 => Reply::Cannot { token: from.number()? },
            2 => {
                let (token, entries, count) = (from.number()?, from.number()?, from.number()?);
                let mut notes = Vec::new();
                for _ in 0..count {
                    let (at, there) = (from.number()?, from.byte()? != 0);
                    notes.push(Note { at, links: Some((from.number()?, from.number()?)).filter(|_| there) });
                }
                Reply::Done { token, entries, notes }
            }
            _ => return None,
        };
        from.0.is_empty().then_some(reply)
    }
}

fn put_time(out: &mut Writer, time: Time) {
    out.number(time.seconds.cast_unsigned()).number(time.nanoseconds.into());
}

fn put_directory(out: &mut Writer, directory: &Directory) {
    let Directory { path, inode, born, operand } = directory;
    out.text(path).number(*inode).byte(u8::from(born.is_some()));
    put_time(out, born.unwrap_or(Time { seconds: 0, nanoseconds: 0 }));
    out.byte(u8::from(operand.is_some())).text(operand.as_deref().unwrap_or_default());
}

fn take_time(from: &mut Reader<'_>) -> Option<Time> {
    Some(Time { seconds: from.number()?.cast_signed(), nanoseconds: u32::try_from(from.number()?).ok()? })
}

fn take_directory(from: &mut Reader<'_>) -> Option<Directory> {
    let (path, inode, there) = (from.text()?, from.number()?, from.byte()? != 0);
    let born = Some(take_time(from)?).filter(|_| there);
    let there = from.byte()? != 0;
    Some(Directory { path, inode, born, operand: Some(from.text()?).filter(|_| there) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
    }

    fn time() -> impl Strategy<Value = Time> {
        any::<(i64, u32)>().prop_map(|(seconds, nanoseconds)| Time { seconds, nanoseconds })
    }

    fn directory() -> impl Strategy<Value = Directory> {
        (text(), any::<u64>(), prop::option::of(time()), prop::option::of(text()))
            .prop_map(|(path, inode, born, operand)| Directory { path, inode, born, operand })
    }

    fn unit() -> impl Strategy<Value = WorkUnit> {
        (any::<u64>(), any::<bool>(), directory(), directory(), prop::collection::vec(text(), 0..5))
            .prop_map(|(token, of_copy, source, copy, names)| WorkUnit { token, of_copy, source, copy, names })
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let note = any::<(u64, Option<(u64, u64)>)>().prop_map(|(at, links)| Note { at, links });
        prop_oneof![
            any::<(u64, u64)>().prop_map(|(token, from)| Reply::Rest { token, from }),
            any::<u64>().prop_map(|token| Reply::Cannot { token }),
            (any::<u64>(), any::<u64>(), prop::collection::vec(note, 0..5))
                .prop_map(|(token, entries, notes)| Reply::Done { token, entries, notes }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_is_understood_as_it_was_meant(unit in unit(), reply in reply()) {
            prop_assert_eq!(WorkUnit::decode(&unit.encode()), Some(unit));
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }

        #[test]
        fn what_was_cut_or_garbled_is_nothing_or_a_message_and_never_a_panic(
            unit in unit(), reply in reply(), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(),
        ) {
            let (mut one, mut other) = (unit.encode(), reply.encode());
            prop_assert_eq!(WorkUnit::decode(&one[..cut.index(one.len())]), None);
            prop_assert_eq!(Reply::decode(&other[..cut.index(other.len())]), None);
            let at = (flip.index(one.len()), flip.index(other.len()));
            one[at.0] ^= 0x55;
            other[at.1] ^= 0x55;
            let _any = (WorkUnit::decode(&one), Reply::decode(&other));
        }
    }
}
