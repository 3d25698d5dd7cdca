//! What a parser of a filesystem is asked, and what it answers.

use crate::extents::ExtentSet;
use crate::image::View;
use crate::refusal::Refusal;

/// A parser of one kind of filesystem.
pub trait FreeMap: Sync {
    /// The name of the kind, as `blkid` says it where it knows it.
    fn name(&self) -> &'static str;

    /// Whether the region carries the signature of this kind. Looks at nothing but that: two kinds that both say so
    /// make the region ambiguous.
    fn detect(&self, region: &View<'_>) -> Result<bool, Refusal>;

    /// Which bytes of the region are provably free.
    ///
    /// # Errors
    /// Every doubt is a refusal; then the region is used as a whole.
    fn free(&self, region: &View<'_>, options: &Options) -> Result<Findings, Refusal>;

    /// Where it ends in its region by what its superblock says, unchecked; `None` if that is not known. Something else may
    /// lie behind it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn end(&self, _region: &View<'_>) -> Result<Option<u64>, Refusal> {
        Ok(None)
    }

    /// Whether the region tells that it was in use when the image was made. If it does not, only the other filesystems of
    /// the image do.
    fn tells_use(&self) -> bool {
        true
    }
}

/// What the caller permits beyond the proof, or does not permit in spite of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Windows' pagefile.sys and swapfile.sys lose their contents.
    pub drop_page_files: bool,
    /// A filesystem that may have been mounted when the image was made is refused, even if its map is proven: another disk
    /// may go on from the image, with a newer map. If any region is refused, so are all that do not tell whether they were
    /// in use (swap, btrfs).
    pub only_unmounted: bool,
}

/// What a parser found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The bytes that are free, relative to the region, inside it.
    pub free: ExtentSet,
    /// How much of `free` is in files whose contents may be dropped (swap, page files), in bytes.
    pub dropped: u64,
    /// What the proof rests on, in words for the report: "clean", "checksums", "counts agree" ...
    pub evidence: Vec<String>,
}
