//! What the kernel gives to new entries of a directory, so that what is right from the start need not be set again.

use haul_sys::Errno;
use haul_sys::inode::Inode;
use haul_sys::object::Object;

use crate::preserve::{ModeRule, Preserve};

use super::acl;
use super::caller::Caller;
use super::memory::{KnownFilesystems, Rules};
use super::nfs4;

const SET_GROUP_ID: u32 = 0o2000;
const OWNERS_ALONE: u32 = 0o022;

/// What is known for sure of the entries that we make in a directory of the destination.
///
/// Only filesystems that are known to keep to the kernel's rules, or show those of their server, are judged, and only directories where nobody but
/// ourselves (or root) could change the answer after it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewEntries {
    /// They inherit an ACL.
    pub inherit_acl: Option<bool>,
    /// Their owner and group; known only where they inherit no ACL.
    pub owner: Option<(u32, u32)>,
    /// Nobody else can put another directory in the place of one that we make.
    closed: bool,
}

impl NewEntries {
    /// Whether it is worth asking: for the mode alone, as the umask leaves it, it is not.
    #[inline]
    #[must_use]
    pub fn matter(preserve: &Preserve) -> bool {
        preserve.ownership || preserve.mode != ModeRule::Default
    }

    /// Nothing is known: everything that is kept is set.
    pub const UNKNOWN: NewEntries = NewEntries { inherit_acl: None, owner: None, closed: false };

    /// Of a directory that was found, with its attributes as they are. Asks the kernel at most twice.
    #[must_use]
    pub fn of_found(directory: Object<'_>, found: &Inode, caller: Caller, memory: &KnownFilesystems) -> NewEntries {
        // Whoever owns the directory can give it an ACL to hand on at any time.
        let safe = found.user == caller.user || found.user == 0;
        let inherit_acl = match memory.rules(directory, found.id.device()) {
            Rules::Kernel if safe => hands_on_acl(directory),
            Rules::Nfs if safe => hands_on_nfs4_acl(directory),
            _ => None,
        };
        NewEntries { inherit_acl, owner: None, closed: inherit_acl.is_some() && found.permissions & OWNERS_ALONE == 0 }
    }

    /// Of a directory that we have just made in this one, with the attributes that it was made with.
    #[must_use]
    pub fn of_made(
        &self,
        directory: Object<'_>,
        made: &Inode,
        caller: Caller,
        memory: &KnownFilesystems,
    ) -> NewEntries {
        let own = made.user == caller.user;
        let known = match self.inherit_acl {
            // An ACL that is handed on is handed on to directories as a whole.
            Some(false) if self.closed && own => {
                NewEntries { inherit_acl: Some(false), closed: made.permissions & OWNERS_ALONE == 0, owner: None }
            }
            _ => NewEntries::of_found(directory, made, caller, memory),
        };
        if !own || known.inherit_acl != Some(false) {
            return known;
        }
        // The directory shows which user new files get. Their group is that of the directory if it says so (or the
        // mount option grpid does), else our own.
        let group = made.permissions & SET_GROUP_ID != 0 || made.group == caller.group;
        NewEntries { owner: group.then_some((made.user, made.group)), ..known }
    }
}

fn hands_on_acl(directory: Object<'_>) -> Option<bool> {
    let mut value = Vec::new();
    match directory.get_xattr(acl::DEFAULT, &mut value) {
        Ok(()) => Some(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Some(false),
        Err(_) => None,
    }
}

/// A server that shows no ACL may have one all the same.
fn hands_on_nfs4_acl(directory: Object<'_>) -> Option<bool> {
    let mut value = Vec::new();
    directory.get_xattr(nfs4::ACL, &mut value).ok()?;
    nfs4::is_handed_on(&value)
}
