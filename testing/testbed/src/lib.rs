//! What haul's tests share: filesystems to copy on, files to copy, and the comparison that decides.
//!
//! ```no_run
//! use haul_testbed::{Bed, Fs, paint, assert_same_contents};
//!
//! let Some(bed) = Bed::new() else { return }; // not root: skipped and counted
//! for fs in Fs::ALL {
//!     let Some(dir) = bed.mount(fs) else { continue };
//!     let file = std::fs::File::create_new(dir.join("a")).unwrap();
//!     paint(&file, 0, 4097);
//!     std::fs::copy(dir.join("a"), dir.join("b")).unwrap();
//!     assert_same_contents(dir.join("a"), dir.join("b"));
//! }
//! ```
//! * [`process`] starts programs, each with a deadline and default signals.
//! * [`power`] cuts the power of a mounted filesystem; [`logged`] and [`writes`] log what reaches a device, and rebuild
//!   what a power cut may leave of it.
//! * [`misbehaving`] is a FUSE filesystem in memory with a script of faults; [`SlowDisk`] is a disk that takes its
//!   time, may demand stable pages, and may hold its writers back; [`late`] is one machine's view of a directory that
//!   several share.
//!
//! It **knows** Linux and its filesystems, and **must not know** what haul does with them. For tests only.
#![forbid(unsafe_code)]

mod bed;
mod document;
mod executable;
mod files;
mod fuse;
pub mod guest;
pub mod late;
pub mod logged;
pub mod misbehaving;
pub mod power;
pub mod process;
mod skip;
mod slow;
mod temporary;
pub mod writes;

pub use bed::{Bed, Fs};
pub use document::{commands, document, json_events, named, script, script_marked};
pub use executable::{copy_program, write_script};
pub use files::{
    allocated, assert_same_contents, create_painted, data_extents, first_difference, paint, painted, painted_at,
    sparse_file,
};
pub use fuse::FuseMount;
pub use process::{Child, Command};
pub use skip::skip;
pub use slow::SlowDisk;
pub use tempfile::TempDir;
pub use temporary::{temp_dir, temp_dir_in, temp_dirs_apart};
