//! Metadata: what a copy keeps beside the bytes, and in which order.
//!
//! The order is written once, in [`finish`]: owner, extended attributes, security context, mode and ACLs, times, inode
//! flags. Each step has its reason there. What has to come before the data is in [`before_data`].
//!
//! Every operation has one implementation for all kinds of file. It works on descriptors, never on a path that somebody
//! else could change: see [`haul_sys::object`].
//!
//! # How the caller makes a file
//! 1. `creation_mode` gives the mode for `open(O_CREAT | O_EXCL)`, `mkdir` or `mknod`. The umask stays in force: where
//!    the parent directory has a default ACL, the kernel takes that in its place, and only the mode at creation gets
//!    this right. [`NewEntries`] of the directory tell what need not be left out at first.
//! 2. `Inode::of` the new inode is what [`Side::inode`] wants; of an existing destination, its attributes after opening.
//!    Where nothing is to be kept, a new regular file need not be looked at.
//! 3. A new directory is opened up for its owner by [`open_up`], after its attributes were taken.
//! 4. [`before_data`], the data or the directory's entries, [`finish`].

mod acl;
mod context;
mod creation;
mod flags;
mod mode;
mod new_entries;
mod owner;
mod parent;
mod rules;
mod xattr;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use haul_sys::Errno;
pub use haul_sys::object::Object;
use haul_sys::rustix::fs::{Timespec, Timestamps, fstatfs};

pub use creation::{Creation, creation_mode, open_up};
pub use flags::{before_data, seal};
pub use mode::while_written;
pub use new_entries::NewEntries;
pub use parent::{finish_parent, parent_creation_mode};
pub use rules::{Action, BadLine, FILE as XATTR_RULES_FILE, XattrRules};
pub(crate) use xattr::is_acl as is_acl_name;

use crate::error::{Error, What};
use crate::facts::{DeviceNumber, Inode, Kind, Time};
use crate::plan::{ContextRule, Preserve, Wish};

/// Hears of everything that could not be kept. Whether the copy failed is told by the result of the call.
pub type Report<'a> = &'a mut dyn FnMut(Error);

/// Who copies: facts about this process that decide what the kernel lets it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The effective user ID.
    pub user: u32,
    /// The effective group ID.
    pub group: u32,
    /// The umask: of its bits, those of permissions.
    pub umask: u32,
    /// SELinux is enabled: `/sys/fs/selinux` is mounted.
    pub selinux: bool,
}

impl Caller {
    /// The calling thread, and those that it starts from now on. Nothing of the process is changed.
    ///
    /// # Errors
    /// If the umask cannot be found out.
    pub fn this_thread() -> Result<Caller, Error> {
        use haul_sys::rustix::{fs, process};
        let status = "/proc/thread-self/status";
        Ok(Caller {
            user: process::geteuid().as_raw(),
            group: process::getegid().as_raw(),
            umask: haul_sys::umask().map_err(|errno| Error::new(What::UmaskUnknown, status).errno(errno))?,
            selinux: fs::access("/sys/fs/selinux/enforce", fs::Access::EXISTS).is_ok(),
        })
    }

    /// May give files away and write to what it does not own.
    pub fn privileged(self) -> bool {
        self.user == 0
    }
}

/// The source or the destination.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The inode that we hold.
    pub object: Object<'a>,
    /// Its attributes: of the source before its data was read, of the destination as it was found or made.
    pub inode: &'a Inode,
    /// The path for messages.
    pub path: &'a Path,
}

/// One file whose metadata is to be kept.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What to keep.
    pub preserve: &'a Preserve,
    /// The context that a new file gets.
    pub context: &'a ContextRule,
    /// Where it comes from.
    pub source: Side<'a>,
    /// Where it goes.
    pub dest: Side<'a>,
    /// We made the destination.
    pub created: bool,
    /// What is known of the directory in which we made the destination, as it was given to [`creation_mode`]; of the
    /// destination itself if that is a directory.
    pub entries: NewEntries,
    /// No data is copied (`--attributes-only`): then every failing attribute is worth a message.
    pub no_data: bool,
    /// More hard links to the destination may follow, which the flags immutable and append-only would forbid: they are
    /// left for [`seal`].
    pub seal_later: bool,
    /// Who copies.
    pub caller: Caller,
    /// Which extended attributes are not copied.
    pub rules: &'a XattrRules,
    /// What was reported already.
    pub memory: &'a PairMemory,
}

impl Request<'_> {
    /// The destination is a symbolic link to the source (`-s`). It has times of its own, but keeping the owner or the
    /// flags of another kind of file makes no sense; cp leaves them alone.
    fn links_to_source(&self) -> bool {
        self.dest.inode.kind == Kind::SymbolicLink && self.source.inode.kind != Kind::SymbolicLink
    }
}

/// Remembers what was reported, so that a cause is named once for each pair of filesystems and not once for each file;
/// and what kind of filesystem a device has.
#[derive(Debug, Default)]
pub struct PairMemory {
    reported: Mutex<HashSet<(Cause, DeviceNumber, DeviceNumber)>>,
    /// A run meets few filesystems.
    filesystems: RwLock<Vec<(DeviceNumber, bool)>>,
}

/// What failed, on which attributes, and what the kernel said.
type Cause = (What, String, Errno);

/// Filesystems that keep to the kernel's rules for owner, mode and ACLs of new files, and name ACLs in the list of
/// attributes; the numbers are those of statfs(2).
const KEEP_TO_RULES: [u32; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // F2FS
    0x794c_7630, // overlay
];

impl PairMemory {
    /// An empty memory.
    pub fn new() -> PairMemory {
        PairMemory::default()
    }

    fn is_news(&self, cause: What, detail: &str, errno: Errno, request: &Request<'_>) -> bool {
        let pair = (request.source.inode.id.device(), request.dest.inode.id.device());
        // A panic elsewhere leaves the set whole.
        let mut seen = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(((cause, detail.to_owned(), errno), pair.0, pair.1))
    }

    /// Whether this filesystem is one of [`KEEP_TO_RULES`]; it is asked once.
    fn keeps_to_rules(&self, object: Object<'_>, device: DeviceNumber) -> bool {
        let known = self.filesystems.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, keeps)) = known.iter().find(|(known, _)| *known == device) {
            return *keeps;
        }
        drop(known);
        let keeps =
            fstatfs(object).is_ok_and(|fs| u32::try_from(fs.f_type).is_ok_and(|id| KEEP_TO_RULES.contains(&id)));
        self.filesystems.write().unwrap_or_else(PoisonError::into_inner).push((device, keeps));
        keeps
    }
}

/// Gives the destination the metadata of the source, as far as it is to be kept.
///
/// Call it after the data is in place, for a directory after its entries are; nothing may be written afterwards, since a
/// write clears the set-user-ID bit and the file capabilities. Returns false if the copy of this file failed: something
/// that had to be kept could not be. The copied data is good all the same.
pub fn finish(request: &Request<'_>, report: Report<'_>) -> bool {
    let kept = keep_all(request, report);
    let kept = if request.preserve.timestamps && kept.times_are_due {
        set_times(request, report) && kept.all
    } else {
        kept.all
    };
    // Last of all: an immutable inode takes no further change.
    flags::after_data(request, report) && kept
}

/// How far [`keep_all`] came.
struct Kept {
    /// Nothing failed that had to be kept.
    all: bool,
    /// The times are still to be set.
    times_are_due: bool,
}

fn keep_all(request: &Request<'_>, report: Report<'_>) -> Kept {
    let kind = request.dest.inode.kind;
    // Who may not set the times must not change anything else either. This is known for sure only by trying; where the
    // inode is our own and new it need not be tried. The times are set again at the end all the same: on network
    // filesystems the later steps can move them.
    let doubtful = !request.created || !request.caller.privileged() && request.dest.inode.user != request.caller.user;
    if request.preserve.timestamps && doubtful && !set_times(request, report) {
        return Kept { all: false, times_are_due: false };
    }
    let permissions = mode::let_attributes_in(request);
    // The owner comes first: a change of owner clears the set-user-ID bit and the file capabilities.
    let owner = owner::keep(request, report);
    if owner == owner::Result::Failed {
        return Kept { all: false, times_are_due: kind != Kind::SymbolicLink };
    }
    // Extended attributes come before the mode, which may take away our own write permission.
    let names = xattr::Names::default();
    let mut all = true;
    if request.preserve.xattr != Wish::No
        && !xattr::keep(request, &names, report)
        && request.preserve.xattr == Wish::Require
    {
        all = false;
        if kind != Kind::Regular {
            return Kept { all, times_are_due: true };
        }
    }
    all &= context::keep(request, report);
    // The mode with the special bits, then the ACLs: an ACL changes the group bits of the mode.
    if kind != Kind::SymbolicLink {
        let special_bits = owner != owner::Result::Refused;
        let permissions = permissions.filter(|_| !owner::differs(request));
        all &= mode::keep(request, special_bits, permissions, &names, report);
    }
    Kept { all, times_are_due: true }
}

/// Sets both times. False if that failed and matters.
fn set_times(request: &Request<'_>, report: Report<'_>) -> bool {
    let Err(errno) = request.dest.object.set_times(&times_of(request.source.inode)) else { return true };
    report(Error::new(What::PreservingTimes, request.dest.path).errno(errno));
    !request.preserve.required
}

fn times_of(inode: &Inode) -> Timestamps {
    let convert = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps { last_access: convert(inode.accessed), last_modification: convert(inode.modified) }
}
