//! How disk images fared: plain data for the observer and the counters. The names and the order of the fields are those of
//! the statistics record (docs/stats.md).

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use haul_image::saved_machines;

/// What became of one file that was looked at as a disk image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageReport {
    /// The source.
    #[serde(serialize_with = "lossy")]
    pub source: PathBuf,
    /// Why it was copied in the ordinary way, with all its bytes; `None` for a copy without its free space.
    #[serde(rename = "copied_whole")]
    pub whole: Option<String>,
    /// The format of the container that was copied as one; then `size`, `used` and `free` are of the disk that it holds.
    pub container: Option<&'static str>,
    /// Bytes of the image.
    pub size: u64,
    /// Bytes that are not proven free.
    pub used: u64,
    /// Bytes that are.
    pub free: u64,
    /// Bytes of those that were not read.
    pub skipped: u64,
    /// Why the map was not relied on in the end, and what it called free was copied after all.
    pub copied_after_all: Option<String>,
    /// Somebody wrote to the source meanwhile.
    pub source_written: bool,
    /// Parallel workers that copied it; 0 of one that was copied whole.
    pub workers: u64,
    /// Their number times the time that they took together.
    #[serde(rename = "worker_seconds", serialize_with = "seconds")]
    pub worker_time: Duration,
    /// In calls that read, or ask the kernel to read ahead.
    #[serde(rename = "read_seconds", serialize_with = "seconds")]
    pub read_time: Duration,
    /// In calls that write, or make zeros.
    #[serde(rename = "write_seconds", serialize_with = "seconds")]
    pub write_time: Duration,
    /// Its parts, by their first byte.
    pub regions: Vec<RegionReport>,
}

/// A filesystem, a volume, a partition of something unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegionReport {
    /// Where it is, in words.
    pub place: String,
    /// Its kind, if a signature says it.
    pub filesystem: Option<&'static str>,
    /// One word: mapped, refused, opaque, unknown, framework.
    pub verdict: &'static str,
    /// Why nothing of it is free.
    pub reason: Option<String>,
    /// Bytes that are not proven free.
    pub used: u64,
    /// Bytes that are.
    pub free: u64,
    /// Bytes of those that were not read.
    pub skipped: u64,
}

impl ImageReport {
    /// Bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let words = |region: &RegionReport| region.place.len() + region.reason.as_ref().map_or(0, String::len);
        let regions = self.regions.iter().map(|region| size_of::<RegionReport>() + words(region)).sum::<usize>();
        size_of::<ImageReport>() + self.source.as_os_str().len() + regions
    }
}

/// A path as a string, in which bytes that are not UTF-8 are replaced.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
