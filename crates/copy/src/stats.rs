//! Counters of a run. They only add, and two of them can be added together.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use haul_io::moved::Moved;
use haul_io::transfer::{PartReport, Report};

use crate::images::ImageReport;
use crate::plan::EngineName;

/// The most disk images whose reports are kept.
pub(crate) const MOST_IMAGES: usize = 256;

/// What a run did, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Regular files whose data was moved (or created empty).
    pub regular: u64,
    /// Directories made or entered.
    pub directories: u64,
    /// Symbolic links made.
    pub symbolic_links: u64,
    /// Hard links made instead of copies.
    pub hard_links: u64,
    /// FIFOs, sockets and device nodes made.
    pub special: u64,
    /// Sources passed over because of an option (`-n`, `-u`, `-i`).
    pub skipped: u64,
    /// Regular files that an earlier run had finished (`--resume`).
    pub resumed_files: u64,
    /// Bytes that were not copied since an earlier run had: of those files, and of the beginnings of others.
    pub resumed_bytes: u64,
    /// Parts of directories that this process has given to others.
    pub given_away: u64,
    /// Parts of directories that this process has done for others.
    pub work_units: u64,
    /// Parts of files that this process has copied for others.
    pub chunks: u64,
    /// Files that a profile has decided something about.
    pub by_profile: u64,
    /// Errors reported.
    pub errors: u64,
    /// Warnings reported.
    pub warnings: u64,
    /// Bytes of all files by the way they went.
    pub moved: Moved,
    /// The same for each engine that moved anything.
    pub engines: BTreeMap<EngineName, EngineStats>,
    /// Files that were looked at as disk images, the first `MOST_IMAGES` of them.
    pub images: Vec<ImageReport>,
    /// How many of those there were besides.
    pub images_left_out: u64,
    /// Bytes of all of them that were not read, since they are proven free.
    pub free_skipped: u64,
    /// Time spent reading directories and attributes.
    pub walk_time: Duration,
    /// Time spent opening files and moving their data.
    pub data_time: Duration,
    /// Time spent on owners, modes, times and extended attributes.
    pub metadata_time: Duration,
    /// Time spent waiting for the device, where the copy has to be durable.
    pub sync_time: Duration,
}

/// What one engine did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Files of which it moved at least one byte.
    pub files: u64,
    /// What it moved.
    pub moved: Moved,
    /// Times it refused, so that another engine had to go on.
    pub refusals: u64,
}

impl Stats {
    /// Counts a file that was looked at as a disk image.
    pub(crate) fn count_image(&mut self, image: &ImageReport) {
        self.free_skipped += image.skipped;
        self.keep_image(image);
    }

    /// Counts a file whose data was moved, or was to be.
    pub(crate) fn count_data(&mut self, report: &Report) {
        // What others have copied of it they count.
        self.moved += report.own;
        self.by_profile += u64::from(report.steps.profile.is_some());
        for tried in &report.tried {
            let entry = self.engines.entry(tried.engine).or_default();
            entry.files += u64::from(tried.moved.total() > 0);
            entry.moved += tried.moved;
            entry.refusals += u64::from(tried.refused.is_some());
        }
    }

    /// Counts what was moved of a file for another process, which counts the file.
    pub(crate) fn count_part(&mut self, part: &PartReport) {
        self.moved += part.moved;
        for tried in &part.tried {
            self.engines.entry(tried.engine).or_default().moved += tried.moved;
        }
        self.data_time += part.time;
    }

    fn keep_image(&mut self, image: &ImageReport) {
        if self.images.len() < MOST_IMAGES {
            self.images.push(image.clone());
        } else {
            self.images_left_out += 1;
        }
    }
}

impl AddAssign<&Stats> for Stats {
    fn add_assign(&mut self, other: &Stats) {
        self.regular += other.regular;
        self.directories += other.directories;
        self.symbolic_links += other.symbolic_links;
        self.hard_links += other.hard_links;
        self.special += other.special;
        self.skipped += other.skipped;
        self.resumed_files += other.resumed_files;
        self.resumed_bytes += other.resumed_bytes;
        self.given_away += other.given_away;
        self.work_units += other.work_units;
        self.chunks += other.chunks;
        self.by_profile += other.by_profile;
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.moved += other.moved;
        for (name, stats) in &other.engines {
            let mine = self.engines.entry(*name).or_default();
            mine.files += stats.files;
            mine.moved += stats.moved;
            mine.refusals += stats.refusals;
        }
        for image in &other.images {
            self.keep_image(image);
        }
        self.images_left_out += other.images_left_out;
        self.free_skipped += other.free_skipped;
        self.walk_time += other.walk_time;
        self.data_time += other.data_time;
        self.metadata_time += other.metadata_time;
        self.sync_time += other.sync_time;
    }
}
