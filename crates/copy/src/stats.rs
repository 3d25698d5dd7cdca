//! Counters of a run. They only add, and two of them can be added together.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use haul_io::moved::Moved;
use haul_io::transfer::{PartReport, Report};

use crate::filter::Verdict;
use crate::images::ImageReport;
use crate::plan::EngineName;

/// The most disk images whose reports are kept.
pub(crate) const MOST_IMAGES: usize = 256;

/// Makes [`Stats`] of counters, and of what is more than a number.
macro_rules! stats {
    (
        counters { $($(#[$doc:meta])* $name:ident,)* }
        others { $($(#[$other_doc:meta])* $other:ident: $type:ty,)* }
    ) => {
        /// What a run did, in numbers.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$other_doc])* pub $other: $type,)*
        }

        impl Stats {
            /// All counters, always in the same order.
            pub fn counters(&self) -> [u64; [$(stringify!($name)),*].len()] {
                [$(self.$name),*]
            }

            /// The same, to be changed.
            pub fn counters_mut(&mut self) -> [&mut u64; [$(stringify!($name)),*].len()] {
                [$(&mut self.$name),*]
            }
        }
    };
}

stats! {
    counters {
        /// Regular files whose data was moved (or created empty).
        regular,
        /// Directories made or entered.
        directories,
        /// Trees that were copied as snapshots. What is in them is not counted.
        cloned_trees,
        /// Symbolic links made.
        symbolic_links,
        /// Hard links made instead of copies.
        hard_links,
        /// FIFOs, sockets and device nodes made.
        special,
        /// Sources that were moved by renaming them, a directory with all that is in it as one.
        renamed,
        /// Sources that were removed after they were copied and compared.
        removed,
        /// Sources passed over because of an option (`-n`, `-u`, `-i`, `--skip-offline`).
        skipped,
        /// Those of them whose contents are in an archive.
        offline,
        /// Entries of the sources that a filter has excluded. What is in an excluded directory is not counted.
        excluded,
        /// Entries of the destination that were removed since the source does not have them, but directories.
        deleted_files,
        /// Directories that were.
        deleted_directories,
        /// Regular files that an earlier run had finished (`--resume`).
        resumed_files,
        /// Bytes that were not copied since an earlier run had: of those files, and of the beginnings of others.
        resumed_bytes,
        /// Parts of directories that this process has given to others.
        given_away,
        /// Parts of directories that this process has done for others.
        work_units,
        /// Parts of files that this process has copied for others.
        chunks,
        /// Files that a profile has decided something about.
        by_profile,
        /// Errors reported.
        errors,
        /// Warnings reported.
        warnings,
        /// Files that were looked at as disk images, besides those of which a report is kept.
        images_left_out,
        /// Bytes of all disk images that were not read, since they are proven free.
        free_skipped,
    }
    others {
        /// Bytes of all files by the way they went.
        moved: Moved,
        /// The same for each engine that moved anything.
        engines: BTreeMap<EngineName, EngineStats>,
        /// How many entries each rule of the filter has decided about, by the number of the rule. Those after the last one that has
        /// decided anything may be left out.
        rule_hits: Vec<u64>,
        /// Files that were looked at as disk images, the first `MOST_IMAGES` of them.
        images: Vec<ImageReport>,
        /// Time spent reading directories and attributes.
        walk_time: Duration,
        /// Time spent opening files and moving their data.
        data_time: Duration,
        /// Time spent on owners, modes, times and extended attributes.
        metadata_time: Duration,
        /// Time spent waiting for the device at the end, where the copy has to be durable or the device is slow.
        sync_time: Duration,
    }
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
    /// Counts what a filter has said of an entry.
    pub(crate) fn count_verdict(&mut self, verdict: Verdict) {
        self.excluded += u64::from(verdict.excluded);
        if let Some(rule) = verdict.rule {
            self.add_hits(rule, 1);
        }
    }

    fn add_hits(&mut self, rule: usize, count: u64) {
        if self.rule_hits.len() <= rule {
            self.rule_hits.resize(rule + 1, 0);
        }
        self.rule_hits[rule] += count;
    }

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
        for (mine, theirs) in self.counters_mut().into_iter().zip(other.counters()) {
            *mine += theirs;
        }
        self.moved += other.moved;
        for (name, stats) in &other.engines {
            let mine = self.engines.entry(*name).or_default();
            mine.files += stats.files;
            mine.moved += stats.moved;
            mine.refusals += stats.refusals;
        }
        for (rule, count) in other.rule_hits.iter().enumerate() {
            self.add_hits(rule, *count);
        }
        for image in &other.images {
            self.keep_image(image);
        }
        self.walk_time += other.walk_time;
        self.data_time += other.data_time;
        self.metadata_time += other.metadata_time;
        self.sync_time += other.sync_time;
    }
}
