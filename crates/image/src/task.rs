//! What is asked of a smart copy.

use std::path::Path;
use std::sync::Arc;

use haul_sys::kernel::Kernel;

use haul_io::pace::Pace;

use super::dest::Unfinished;
use super::found::{Found, Given, Mapper};
use super::observer::Observer;
use super::options::Options;
use super::source::Source;
use super::system::System;

/// What is to be copied, and how.
pub struct Task<'a> {
    /// The image.
    pub source: &'a Source,
    /// Where it goes: a new file, an existing one, or a block device.
    pub dest: &'a Path,
    /// What the user wants.
    pub options: Options,
    /// Finds the free bytes.
    pub mapper: &'a Mapper<'a>,
    /// The kernel, which tests replace.
    pub kernel: Arc<dyn Kernel>,
    /// Where the kernel tells who uses an image.
    pub system: System,
    /// Whether the copy is to stop. Asked by several threads, often.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The destination while it is not whole.
    pub unfinished: Unfinished,
    /// The destination, if it is open already.
    pub given: Option<Given<'a>>,
    /// What may be left out, if that is known already. It is not asked then who uses the image until the end.
    pub found: Option<&'a Found>,
    /// How fast it may go.
    pub pace: Option<&'a Pace>,
    /// Hears everything.
    pub observer: &'a dyn Observer,
}
