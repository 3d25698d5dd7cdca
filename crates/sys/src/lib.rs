//! The raw Linux edge of haul.
//!
//! * **Knows** system calls: every one that rustix lacks, and everything that needs `unsafe`, lives here and nowhere
//!   else. The safe calls of rustix are re-exported, so that the crates above have one way down to the kernel.
//! * **Must not know** policy or any other crate of haul. Functions take descriptors, never paths of more than one
//!   component, and return the count that the kernel returned: completing a short count is the caller's duty.
//!
//! [`kernel::Kernel`] has the calls on open files as a trait, so that tests put a scripted kernel in the place of
//! Linux.
#![warn(clippy::missing_errors_doc)]

pub mod alarm;
pub mod child;
mod close;
pub mod entry;
pub mod filesystem;
#[cfg(feature = "namespaces")]
pub mod for_tests;
pub mod huge;
pub mod in_use;
pub mod inode;
pub mod inode_flags;
pub mod kernel;
pub mod locale;
pub mod loops;
pub mod map;
pub mod memory;
pub mod mountinfo;
pub mod object;
pub mod offline;
pub mod page_cache;
pub mod priority;
pub mod process_descriptor;
pub mod process_state;
pub mod queue;
pub mod range_lock;
pub mod shared_map;
#[cfg(feature = "signals")]
pub mod signals;
pub mod subvolume;
mod syscall;
mod umask;
mod xattr_at;

pub use close::close;
pub use rustix;
pub use rustix::io::Errno;
pub use umask::umask;
pub use xattr_at::has_xattrs;
