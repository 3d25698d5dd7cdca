//! What an engine can do.

/// What an engine can do, and what it is for: whoever chooses or tests engines asks this, and no list of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// What it is for.
    pub role: Role,
    /// What of source and destination it cannot do without.
    pub needs: Needs,
    /// The bytes pass through memory that haul can read: zero detection and hashing are possible.
    pub sees_bytes: bool,
    /// Holes of the source stay holes even when a whole range is asked for.
    pub keeps_holes: bool,
    /// Whether source and destination share extents afterwards.
    pub shares: Shares,
    /// Offsets and lengths must be multiples of the block size (a range that ends at the end of the source may end anywhere).
    pub needs_alignment: bool,
    /// Works on pipes, sockets and terminals, where there are no offsets. Only `read-write`, the last resort, does so and needs
    /// nothing.
    pub streams: bool,
    /// Keeps many requests in flight, which end in any order.
    pub queued: bool,
    /// What it does to the page cache of the destination.
    pub page_cache: PageCache,
    /// How what it moves is counted.
    pub way: Way,
    /// One of its kind moves a file as fast as several, or there can be no more than one.
    pub alone: bool,
    /// Bytes that it moves in one go, if the user says nothing, where that is what the engine is: pieces of a file are no
    /// smaller.
    pub unit: Option<u64>,
    /// Whole pages are what it moves in one go, also where the user says something else.
    pub whole_pages: bool,
    /// Bytes of its buffer, if the user says nothing, where a thread keeps it from file to file and the usual one is too large
    /// for that.
    pub kept_buffer: Option<usize>,
    /// Bytes that one of several workers moves before it comes back for more.
    pub piece: u64,
    /// Largest useful job in bytes; the caller cuts longer ranges so that progress and cancellation have a chance.
    pub max_job: u64,
}

/// What an engine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Moving bytes.
    Mover,
    /// The others are compared with it. Of its bytes it promises everything, of speed and space nothing.
    Oracle,
    /// Moves nothing and says that it did.
    Dummy,
}

/// What of source and destination an engine cannot do without. Where it is missing, the first job is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Both are on one filesystem.
    OneFilesystem,
    /// Both are on one filesystem, where files can share extents.
    SharedExtents,
    /// One of them can do direct I/O, and says what it demands.
    Direct,
    /// The destination can.
    DirectDest,
    /// One of them takes requests that leave nothing in the page cache (RWF_DONTCACHE).
    Dontcache,
}

/// Whether source and destination share extents afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shares {
    /// They do not.
    Never,
    /// As the filesystem likes: whoever must not share must not use it.
    Perhaps,
    /// They do, or the job is refused.
    Always,
}

/// What an engine does to the page cache of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    /// The copy stays there.
    Filled,
    /// It goes through, and leaves.
    Dropped,
    /// It goes past by direct I/O, as far as the sides allow it.
    Bypassed,
}

/// How what an engine moves is counted: see [`Moved`](crate::moved::Moved).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As written.
    Written,
    /// As copied inside the kernel.
    Offloaded,
    /// As shared.
    Cloned,
}

impl Caps {
    /// Those of an engine that reads and writes where there are offsets, through the page cache. The others say what is
    /// different with them.
    pub(super) const BUFFERED: Caps = Caps {
        role: Role::Mover,
        needs: Needs::Nothing,
        sees_bytes: true,
        keeps_holes: false,
        shares: Shares::Never,
        needs_alignment: false,
        streams: false,
        queued: false,
        page_cache: PageCache::Filled,
        way: Way::Written,
        alone: false,
        unit: None,
        whole_pages: false,
        kept_buffer: None,
        piece: 2 << 20,
        max_job: u64::MAX,
    };

    /// Whether it refuses nothing, whatever the two sides are and whatever is to become of zeros.
    pub(crate) fn takes_everything(&self) -> bool {
        self.needs == Needs::Nothing && self.sees_bytes && self.streams
    }

    /// Whether it shares extents and moves no bytes.
    pub(crate) fn clones(&self) -> bool {
        self.way == Way::Cloned
    }

    /// Whether its copy may share extents with the source or have holes where nobody asked for any.
    pub(crate) fn may_share_or_keep_holes(&self) -> bool {
        self.shares != Shares::Never || self.keeps_holes
    }

    /// Whether it reads the source through the page cache, one request after the other, so that reading ahead is worth while.
    pub(crate) fn gains_from_readahead(&self) -> bool {
        let reads = self.role != Role::Dummy && !self.clones();
        reads && !self.queued && self.needs != Needs::Direct
    }

    /// Of which sides it wants open files of its own for O_DIRECT: source, destination. Queued ones open them themselves.
    pub(crate) fn direct_files(&self) -> (bool, bool) {
        match self.needs {
            Needs::Direct => (!self.queued, !self.queued),
            Needs::DirectDest => (false, true),
            _ => (false, false),
        }
    }

    /// Whether what it moves goes through the page cache and leaves it again, or past it. Of queued engines only the sides
    /// tell.
    pub(crate) fn leaves_no_pages(&self) -> bool {
        !self.fills_page_cache() && !self.queued
    }

    /// Whether its copy is in the page cache afterwards.
    pub fn fills_page_cache(&self) -> bool {
        self.page_cache == PageCache::Filled
    }
}
