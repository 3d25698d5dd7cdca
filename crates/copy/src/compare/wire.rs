//! What processes that compare one pair of trees say to each other, as bytes.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

pub(super) use haul_cluster::wire::{decode, encode};

/// Names to be compared by the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkUnit {
    pub(super) token: u64,
    pub(super) of_copy: bool,
    pub(super) source: Directory,
    pub(super) copy: Directory,
    /// The path of the source below its operand.
    pub(super) below: OsString,
    pub(super) names: Vec<OsString>,
}

/// A directory as the sender sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directory {
    pub(super) path: OsString,
    pub(super) inode: u64,
    /// When it was made: seconds and nanoseconds.
    pub(super) born: Option<(i64, u32)>,
    /// The directory that the user named, which all processes have looked at; `None` if this one is on another filesystem.
    pub(super) operand: Option<OsString>,
}

/// What the receiver of a work unit says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It keeps the names before this one. More is to come.
    Rest { token: u64, from: u64 },
    /// It could not begin.
    Cannot { token: u64 },
    /// So many names were looked at; of some of them there is something to be said.
    Done { token: u64, entries: u64, notes: Vec<Note> },
}

/// About one name of a work unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) at: u64,
    /// The inode numbers of two files that are the same, one of which may have other names. `None`: the sender has to look
    /// for itself.
    pub(super) links: Option<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
    }

    fn directory() -> impl Strategy<Value = Directory> {
        (text(), any::<u64>(), any::<Option<(i64, u32)>>(), prop::option::of(text()))
            .prop_map(|(path, inode, born, operand)| Directory { path, inode, born, operand })
    }

    fn unit() -> impl Strategy<Value = WorkUnit> {
        (any::<u64>(), any::<bool>(), directory(), directory(), text(), prop::collection::vec(text(), 0..5)).prop_map(
            |(token, of_copy, source, copy, below, names)| WorkUnit { token, of_copy, source, copy, below, names },
        )
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
            prop_assert_eq!(decode(&encode(&unit)), Some(unit));
            prop_assert_eq!(decode(&encode(&reply)), Some(reply));
        }

        #[test]
        fn what_was_cut_or_garbled_is_nothing_or_a_message_and_never_a_panic(
            unit in unit(), reply in reply(), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(),
        ) {
            let (mut one, mut other) = (encode(&unit), encode(&reply));
            prop_assert_eq!(decode::<WorkUnit>(&one[..cut.index(one.len())]), None);
            prop_assert_eq!(decode::<Reply>(&other[..cut.index(other.len())]), None);
            let at = (flip.index(one.len()), flip.index(other.len()));
            one[at.0] ^= 0x55;
            other[at.1] ^= 0x55;
            let _any = (decode::<WorkUnit>(&one), decode::<Reply>(&other));
        }
    }
}
