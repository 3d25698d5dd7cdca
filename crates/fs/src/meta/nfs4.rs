//! The ACLs of NFS 4, as Linux shows them: the server's own XDR of `nfsace4 acl<>` (RFC 8881, 6.2.1) as the value of an
//! extended attribute.

use std::ffi::CStr;

/// The attribute.
pub const ACL: &CStr = c"system.nfs4_acl";

/// `ACE4_FILE_INHERIT_ACE` and `ACE4_DIRECTORY_INHERIT_ACE`.
const HANDED_ON: u32 = 0x1 | 0x2;

/// Whether the ACL of a directory has an entry that new files or directories get; `None` if it is none.
pub fn is_handed_on(acl: &[u8]) -> Option<bool> {
    let mut rest = acl;
    let entries = number(&mut rest)?;
    let mut found = false;
    for _ in 0..entries {
        let [_kind, flags, _mask] = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
        let name = usize::try_from(number(&mut rest)?).ok()?.checked_next_multiple_of(4)?;
        rest = rest.get(name..)?;
        found |= flags & HANDED_ON != 0;
    }
    Some(found)
}

/// Takes a number off the front.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u32, &str)]) -> Vec<u8> {
        let mut bytes = u32::try_from(entries.len()).unwrap().to_be_bytes().to_vec();
        for (flags, who) in entries {
            for number in [0, *flags, 0x1f01ff, u32::try_from(who.len()).unwrap()] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.extend(who.bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn an_acl_without_inherited_entries_is_not_handed_on() {
        assert_eq!(is_handed_on(&acl(&[(0, "OWNER@"), (0x40, "GROUP@"), (0, "EVERYONE@")])), Some(false));
        assert_eq!(is_handed_on(&acl(&[])), Some(false));
    }

    #[test]
    fn one_entry_for_new_files_or_directories_is_enough() {
        for flags in [1, 2, 3, 0x0b] {
            assert_eq!(is_handed_on(&acl(&[(0, "OWNER@"), (flags, "bob@example.org")])), Some(true), "{flags}");
        }
    }

    #[test]
    fn nothing_is_known_of_what_is_no_acl() {
        let whole = acl(&[(0, "OWNER@"), (0, "GROUP@")]);
        for length in 0..whole.len() {
            assert_eq!(is_handed_on(&whole[..length]), None, "{length}");
        }
        assert_eq!(is_handed_on(&u32::MAX.to_be_bytes()), None);
        assert_eq!(is_handed_on(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
