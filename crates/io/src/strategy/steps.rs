//! How the data of one file is moved: what is chosen.

use crate::engine::Tuning;

use crate::engine::EngineName;
use crate::profile::Setting;

/// Which bytes to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranges {
    /// In order until the source ends, since there are no offsets or the size is not known.
    Stream,
    /// All of them.
    Whole,
    /// The extents that SEEK_DATA and SEEK_HOLE find.
    Extents,
}

/// How to move the data of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// Engines in the order in which they are tried. Each goes on where the one before refused.
    pub engines: Vec<EngineName>,
    /// Engines that would have been tried before them, but are known to refuse.
    pub passed_over: Vec<EngineName>,
    /// Nothing else may be tried: a refusal of the last engine fails the file.
    pub strict: bool,
    /// One read and one write come before the engines, if the source is in the page cache.
    pub at_once_if_cached: bool,
    /// Which bytes to ask for.
    pub ranges: Ranges,
    /// Blocks of zeros become holes.
    pub find_zeros: bool,
    /// How many work at the file.
    pub workers: Workers,
    /// What the engines are made with.
    pub tuning: Tuning,
    /// What a profile has changed of all this.
    pub profile: Option<Setting>,
    /// The space is allocated before it is written.
    pub preallocate: bool,
    /// The source is read ahead in whole pieces: window by window, as the kernel does it for whom reads in order, a cold file
    /// never keeps the device busy.
    pub read_ahead: bool,
    /// Pages of the source that the copy brings into the page cache are forgotten behind it.
    pub forget_source: bool,
    /// Pages of the destination are sent to the device and forgotten behind the copy, where an engine leaves any.
    pub send_dest: bool,
    /// Why, for `--explain`.
    pub reasons: Vec<&'static str>,
}

impl Steps {
    /// The engine that shares extents, if that is tried first.
    pub(crate) fn cloning_first(&self) -> Option<EngineName> {
        self.engines.first().copied().filter(|name| name.caps().clones())
    }

    /// The engine that moves the bytes if no extents are shared.
    pub(crate) fn first_mover(&self) -> Option<EngineName> {
        self.engines.iter().copied().find(|name| !name.caps().clones())
    }

    /// How holes are looked for, in the words of the report.
    pub fn hole_search(&self) -> HoleSearch {
        match (self.ranges == Ranges::Extents, self.find_zeros) {
            (false, false) => HoleSearch::None,
            (true, false) => HoleSearch::Seek,
            (false, true) => HoleSearch::Zeros,
            (true, true) => HoleSearch::SeekAndZeros,
        }
    }
}

/// How many workers move the ranges of one file, each with an engine of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// To begin with.
    pub start: usize,
    /// At most. With 1 the file is moved in order.
    pub most: usize,
}

impl Workers {
    /// One after the other.
    pub(crate) const ONE: Workers = Workers { start: 1, most: 1 };
}

/// How holes of the source were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleSearch {
    /// Not at all.
    None,
    /// With SEEK_DATA and SEEK_HOLE.
    Seek,
    /// By looking for zeros.
    Zeros,
    /// Both.
    SeekAndZeros,
}
